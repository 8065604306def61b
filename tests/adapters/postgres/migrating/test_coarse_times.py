"""Sessions and devices of earlier releases get their day and week, and those that such a release still writes, too."""

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import migrate, shipped

OLD = """
    with person as (
             insert into users (id, email, email_key) values (gen_random_uuid(), 'ada@example.org', 'ada@example.org') returning id
         ),
         device as (
             insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)
             select id, id, 'x', 'browser', '2026-01-04T23:30:00Z', now(), now() from person
         )
  insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
  select id, id, now(), now(), '2026-01-04T23:30:00Z' from person
"""
TIMES = """
    select expires_day::text, last_used_week::text
      from sessions
      join devices on devices.user_id = sessions.user_id
"""


async def test_rows_of_before_get_their_day_and_week(empty_database_url: str) -> None:
    (here,) = [number for number, one in enumerate(shipped()) if "times_out_of_indexes" in str(one)]
    await migrate(empty_database_url, lambda _line: None, shipped()[:here])
    async with await Connection.connect(empty_database_url) as connection:
        # A time zone in which it is another day.
        await connection.execute(b"set timezone = 'Asia/Tokyo'")
        await connection.execute(OLD.encode())
    await migrate(empty_database_url, lambda _line: None)
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute(b"set timezone = 'Asia/Tokyo'")
        assert await (await connection.execute(TIMES.encode())).fetchall() == [("2026-01-04", "2025-12-29")]
        # The statements of the release before name no day and no week.
        await connection.execute(b"update sessions set expires_at = '2026-02-01T00:30:00Z'")
        await connection.execute(b"update devices set last_used_at = '2026-02-02T00:30:00Z'")
        assert await (await connection.execute(TIMES.encode())).fetchall() == [("2026-02-01", "2026-02-02")]
