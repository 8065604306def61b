"""The way of three tables into parts: what an operator does in between, and what holds before and afterwards."""

import re
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import psycopg
import pytest

from adapters.postgres.migrate import Migration, MigrationFailed, migrate, shipped
from adapters.postgres.migrating.steps import Validate
from tests.places import ROOT

BOUNDS, CHECKS, READ = (
    next(number for number, one in enumerate(shipped()) if one.name == name)
    for name in ("partition_bounds", "partition_checks", "parts_are_read")
)
TABLES: Final = ("login_events", "events", "webhook_deliveries")
SIGN_IN: Final = """
    insert into login_events (id, provider, success, created_at) values (first_id_of(now() + %s::interval), 'password', true, now())
"""


def silent(_line: str) -> None: ...


def of_the_guide(beginning: str) -> bytes:
    """The block of SQL in the guide that begins like this."""
    blocks: list[str] = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    (found,) = [one for one in blocks if one.startswith(beginning)]
    return found.encode()


def up_to(number: int) -> Sequence[Migration]:
    return shipped()[: number + 1]


async def test_grants_of_before_hold_afterwards(empty_database_url: str) -> None:
    await migrate(empty_database_url, silent, up_to(CHECKS))
    role = f"reading_{uuid4().hex[:8]}"
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        try:
            connection.execute(f"grant select on login_events, events to {role} with grant option".encode())
            connection.execute("grant insert on webhook_deliveries to public")
            await migrate(empty_database_url, silent)
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


async def test_who_reads_all_of_the_tables_reads_their_parts_those_of_later_months_too(empty_database_url: str) -> None:
    await migrate(empty_database_url, silent, up_to(READ - 1))
    whole, partial = (f"{kind}_{uuid4().hex[:8]}" for kind in ("whole", "partial"))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(f"create role {whole}; create role {partial}".encode())
        try:
            connection.execute(f"grant select on login_events, events, webhook_deliveries to {whole}".encode())
            connection.execute(f"grant select on events to {partial}".encode())
            await migrate(empty_database_url, silent)
            assert connection.execute("select make_partitions('events', 5)").fetchall()
            asked = """
                select bool_and(has_schema_privilege(%(role)s, relnamespace, 'usage') and has_table_privilege(%(role)s, oid, 'select')),
                       bool_or(has_table_privilege(%(role)s, oid, 'select')), bool_or(has_table_privilege(%(role)s, oid, 'insert'))
                  from pg_class
                 where relnamespace = 'partitions'::regnamespace and relkind = 'r'
            """
            assert connection.execute(asked, {"role": whole}).fetchone() == (True, True, False)
            assert connection.execute(asked, {"role": partial}).fetchone() == (False, False, False)
        finally:
            connection.execute(f"drop owned by {whole}, {partial}; drop role {whole}, {partial}".encode())


async def test_rows_of_a_clock_that_was_wrong_stop_the_way_and_the_guide_helps(empty_database_url: str) -> None:
    await migrate(empty_database_url, silent, up_to(BOUNDS - 1))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        await migrate(empty_database_url, silent, up_to(BOUNDS))
        found = connection.execute("select pg_get_constraintdef(oid) from pg_constraint where conname = 'login_events_past'")
        ((bound,),) = found.fetchall()
        connection.execute("alter table login_events drop constraint login_events_past")
        connection.execute(SIGN_IN, ["400 days"])
        connection.execute(SIGN_IN, ["0 days"])
        connection.execute(f"alter table login_events add constraint login_events_past {bound}".encode())
        said: list[str] = []
        with pytest.raises(MigrationFailed, match=r"rows of login_events contradict login_events_past, and docs/operations\.md says"):
            await migrate(empty_database_url, said.append)
        (date,) = connection.execute(
            "select to_char(date_trunc('month', now() at time zone 'UTC') + interval '2 months', 'YYYY-MM-DD')"
        ).fetchall()[0]
        assert [line for line in said if f"refuses sign-ins and events from {date} on" in line]
        connection.execute(of_the_guide("delete from login_events where id >= first_id_of"))
        await migrate(empty_database_url, silent)
        assert connection.execute("select count(*) from login_events").fetchall() == [(1,)]


@pytest.mark.parametrize("stopped_after", [BOUNDS, CHECKS])
async def test_whoever_stops_in_between_for_long_drops_the_bounds_and_goes_on_later(stopped_after: int, empty_database_url: str) -> None:
    await migrate(empty_database_url, silent, up_to(stopped_after))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(SIGN_IN, ["63 days"])
        connection.execute(of_the_guide("alter table login_events drop constraint"))
        connection.execute(SIGN_IN, ["63 days"])
        connection.execute("delete from login_events")
        with pytest.raises(MigrationFailed):
            await migrate(empty_database_url, silent)
        block = shipped()[BOUNDS].sql.partition("do $$")
        connection.execute("".join(block[1:]).encode())
        for step in shipped()[CHECKS].steps:
            if isinstance(step, Validate):
                connection.execute(step.statement.encode())
        await migrate(empty_database_url, silent)
        for days in (-40, 0, 63):
            connection.execute(SIGN_IN, [f"{days} days"])
        assert connection.execute("select count(*) from login_events").fetchall() == [(3,)]


async def test_whoever_goes_on_after_the_bound_finds_every_month(empty_database_url: str) -> None:
    await migrate(empty_database_url, silent, up_to(CHECKS))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(SIGN_IN, ["-100 days"])
        # As if the migration had stopped three months ago.
        bound = "first_id_of((date_trunc('month', now() at time zone 'UTC') - interval '1 month') at time zone 'UTC')"
        (passed,) = connection.execute(f"select {bound}".encode()).fetchall()[0]
        for table in TABLES:
            key = "event_id" if table == "webhook_deliveries" else "id"
            change = f"alter table {table} drop constraint {table}_past, add constraint {table}_past check ({key} < '{passed}')"
            connection.execute(change.encode())
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(SIGN_IN, ["0 days"])
        await migrate(empty_database_url, silent)
        for days in (-100, -35, 0, 40, 400):
            connection.execute(SIGN_IN, [f"{days} days 1 second"])
        assert connection.execute("select count(*) from login_events").fetchall() == [(6,)]
