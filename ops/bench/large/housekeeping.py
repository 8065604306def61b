"""Answers while nothing is due, and while everything is: past months of sign-ins, invitations, sessions."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

import psycopg
import trio

from ops.bench.cases.tenancy import Answered, Asking, ask_all, asked_meanwhile, asking
from ops.bench.filling.fill import growing
from ops.bench.filling.fill_tenancy import invite_past
from ops.bench.large.twins import PASSWORD, Twin
from ops.bench.load import Target
from ops.bench.report import Figure, at_least, at_most

_DUE: Final = 300_000
_QUIET: Final = 60.0
_PATIENCE: Final = 600.0
# The large installation has seven months of sign-ins.
_KEPT: Final[Mapping[str, str]] = {"POSTERN_LOGIN_EVENT_RETENTION": "100d"}


async def housekeeping(small: Twin, large: Twin) -> Sequence[Figure]:
    """Only in the large one. Each of the two measurements begins with the start of a server, since past months go then."""
    del small
    quiet, busy = Answered(), Answered()
    async with large.served() as server:
        asker = await asking(server, large.tenants)
        await ask_all(_asked(asker), 500)
        async with asked_meanwhile(_asked(asker), quiet):
            await trio.sleep(_QUIET)
    await trio.to_thread.run_sync(_make_due, large)
    before = await trio.to_thread.run_sync(_left, large.database_url)
    async with large.served(_KEPT) as server:
        asker = await asking(server, large.tenants)
        began = trio.current_time()
        async with asked_meanwhile(_asked(asker), busy):
            with trio.move_on_after(_PATIENCE):
                while any((left := await trio.to_thread.run_sync(_left, large.database_url)).values()):  # noqa: ASYNC110 - the database tells
                    await trio.sleep(0.5)
            taken = trio.current_time() - began
            await trio.sleep(max(0.0, _QUIET - taken))
    return [
        *(Figure(f"housekeeping: {what} due", number, bar=at_least(1)) for what, number in before.items()),
        *(Figure(f"housekeeping: {what} left", number, bar=at_most(0)) for what, number in left.items()),
        Figure("housekeeping: done after", taken, "s"),
        Figure("reads and sign-ins while nothing is due: 99th percentile", quiet.milliseconds(99), "ms", beside=_beside(quiet)),
        Figure("reads and sign-ins beside housekeeping: 99th percentile", busy.milliseconds(99), "ms", beside=_beside(busy)),
        Figure("beside housekeeping against alone", busy.milliseconds(99) / quiet.milliseconds(99), bar=at_most(1.5)),
        Figure("requests that failed", quiet.failures.total() + busy.failures.total(), bar=at_most(0)),
    ]


def _asked(asker: Asking) -> Iterator[Target]:
    """A sign-in after nine pages of members."""
    login = asker.server.target("/api/auth/login")
    signing_in = cycle([login.posting({"email": one.owner.email, "password": PASSWORD}) for one in asker.tenants])
    reading = asker.endless("/api/organizations/{slug}/members")
    while True:
        for _ in range(9):
            yield next(reading)
        yield next(signing_in)


def _beside(answered: Answered) -> str:
    return f"p50 {answered.milliseconds(50):.1f} ms, longest {answered.milliseconds(100):.0f} ms, {len(answered.latencies)} requests"


def _make_due(twin: Twin) -> None:
    invite_past(twin.database_url, twin.tenants, _DUE)
    with growing(twin.database_url) as connection:
        connection.execute(_PAST_SESSIONS, {"users": [one.owner.user for one in twin.tenants], "sessions": _DUE})
        connection.execute("analyze sessions")


def _left(database_url: str) -> Mapping[str, int]:
    with psycopg.connect(database_url) as connection:
        (invitations, sessions, months) = connection.execute(_LEFT).fetchone() or (0, 0, 0)
    return {"invitations": invitations, "sessions": sessions, "months of sign-ins": months}


_PAST_SESSIONS: Final = """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at, ends_at, authenticated_by)
    select uuidv7(interval '-91 days'), (%(users)s::uuid[])[number %% cardinality(%(users)s::uuid[]) + 1], now() - interval '91 days',
           now() - interval '91 days', now() - interval '61 days', now() - interval '1 day', '{pwd}'
      from generate_series(0, %(sessions)s - 1) as series (number)
"""
_LEFT: Final = """
    select (select count(*) from (select from invitations where status = 'pending' and expires_at < now() limit 1000000) as due),
           (select count(*) from sessions where expires_day < (now() at time zone 'UTC' - interval '30 days')::date),
           (select count(*) from partitions_of('login_events') where last <= first_id_of(now() - interval '100 days') and first is not null)
"""
