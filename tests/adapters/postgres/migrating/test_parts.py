"""What was granted on a table that is cut by month is granted on all of its parts together."""

from uuid import uuid4

import psycopg

from adapters.postgres.migrate import migrate, shipped


async def test_grants_of_before_hold_afterwards(empty_database_url: str) -> None:
    (here,) = [number for number, one in enumerate(shipped()) if str(one).endswith("_partitions")]
    await migrate(empty_database_url, lambda _line: None, shipped()[:here])
    role = f"reading_{uuid4().hex[:8]}"
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        try:
            connection.execute(f"grant select on login_events, events to {role} with grant option".encode())
            connection.execute("grant insert on webhook_deliveries to public")
            await migrate(empty_database_url, lambda _line: None)
            found = connection.execute(
                """
                select relname::text,
                       has_table_privilege(%(role)s, oid, 'select with grant option'),
                       has_table_privilege(%(role)s, oid, 'insert'),
                       has_table_privilege(%(role)s, oid, 'delete')
                  from pg_class
                 where relnamespace = 'public'::regnamespace and relname in ('login_events', 'events', 'webhook_deliveries')
                 order by relname
                """,
                {"role": role},
            ).fetchall()
            assert found == [
                ("events", True, False, False),
                ("login_events", True, False, False),
                ("webhook_deliveries", False, True, False),
            ]
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())
