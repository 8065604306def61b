"""The invitation sweeper closes everything due, in small batches, with an audit entry each, and blocks no request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
import trio

from actors.sweepers import invitation_sweeper
from adapters.mail.templates import ShippedMailTemplates
from adapters.postgres.server_secrets import PostgresServerSecrets
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.invitations import InvitationRows
from adapters.texts import ShippedTexts
from core.domain.errors import Unavailable
from core.domain.identity.account_mails import Links
from core.usecases.identity.account_passwords import AccountPasswords
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.profiles import Profiles
from core.usecases.tenancy.invitations import Invitations
from tests.actors.observed import no_doubt, no_spread
from tests.adapters.postgres.conftest import Store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

FILL = """
    with owners as (
             insert into users (id, email, email_key) values (gen_random_uuid(), 'ada@acme.example', 'ada@acme.example') returning id
         ),
         made as (
             insert into all_organizations (id, slug, name, status, created_at, updated_at)
             select gen_random_uuid(), 'org' || number, 'X', 'active', now(), now() from generate_series(1, 3) as number
             returning id
         )
  insert into invitations (id, org_id, email, email_key, role, invited_by, token_digest, expires_at, created_at)
  select gen_random_uuid(), made.id, 'p' || number || '@example.org', 'p' || number || '@example.org', 'member', owners.id,
         sha256((made.id::text || number)::bytea),
         now() + case when number <= {due} then make_interval(secs => number - 1000) else '1 day' end,
         now()
    from made, owners, generate_series(1, {each}) as number
"""


def invitations_on(store: Store) -> Invitations:
    """The use case as the sweeper needs it, without the parts that admit people."""
    return Invitations(
        store.unit_of_work,
        InvitationRows(Statements(store.pool)),
        accounts=cast("Accounts", None),
        passwords=cast("AccountPasswords", None),
        profiles=cast("Profiles", None),
        templates=ShippedMailTemplates(ShippedTexts(), "https://id.example.org"),
        links=Links("https://id.example.org", "https://id.example.org/ui"),
        server_secrets=PostgresServerSecrets(store.pool, store.keyring, store.clock),
        system=store.system,
    )


async def statuses(store: Store) -> dict[str, int]:
    rows = await store.query("select status, count(*) as n from invitations group by status")
    return {row["status"]: row["n"] for row in rows}


async def test_everything_due_is_closed_and_on_record(store: Store, log: CapturedLog) -> None:
    await store.query(FILL.format(due=150, each=200))
    sweeper = invitation_sweeper(invitations_on(store), doubt=no_doubt, spread=no_spread)
    assert await sweeper.sweep() == 450
    assert await statuses(store) == {"expired": 450, "pending": 150}
    assert await store.query("select id from invitations where (status = 'expired') <> (closed_at is not null)") == []
    entries = await store.query("select * from audit_log")
    assert len(entries) == 450
    assert {(one["action"], one["actor_id"], one["address"], one["target_type"]) for one in entries} == {
        ("invitation.expired", None, None, "invitation")
    }
    wanted = await store.query("select id::text, org_id, email from invitations where status = 'expired'")
    assert {(one["target_id"], one["organization_id"], one["details"]["invited_email"]) for one in entries} == {
        tuple(row.values()) for row in wanted
    }
    assert await store.count("audit_pending") == await store.count("events") == 450
    assert [entry["invitations"] for entry in log.events("invitations_expired")] == [450]
    assert await sweeper.sweep() == 0


async def test_no_transaction_closes_more_than_a_batch(store: Store) -> None:
    await store.query(FILL.format(due=100, each=100))
    await invitation_sweeper(invitations_on(store), doubt=no_doubt, spread=no_spread).sweep()
    batches = await store.query("select count(*) as n from invitations group by xmin::text order by n")
    assert [row["n"] for row in batches] == [50] * 6


async def test_it_waits_for_nobody_and_nobody_for_it(store: Store) -> None:
    """The sweeper skips an invitation that somebody is just answering, and closes the rest."""
    await store.query(FILL.format(due=10, each=10))
    held, done = trio.Event(), trio.Event()

    async def answer() -> None:
        async with store.pool.connection() as connection, connection.transaction():
            await connection.execute("select id from invitations order by expires_at limit 1 for no key update")
            held.set()
            await done.wait()

    sweeper = invitation_sweeper(invitations_on(store), doubt=no_doubt, spread=no_spread)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await held.wait()
        with trio.fail_after(PATIENCE):
            assert await sweeper.sweep() == 29
        done.set()
    assert await sweeper.sweep() == 1


async def test_several_processes_share_the_work(store: Store) -> None:
    await store.query(FILL.format(due=400, each=400))
    swept: list[int] = []

    async def sweep() -> None:
        swept.append(await invitation_sweeper(invitations_on(store), doubt=no_doubt, spread=no_spread).sweep())

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(sweep)
    # A sweeper that comes late may find its batch taken by another and stop; the next round would go on.
    swept.append(await invitation_sweeper(invitations_on(store), doubt=no_doubt, spread=no_spread).sweep())
    assert sum(swept) == 1200
    assert await store.count("audit_entries") == 1200


class DueInvitations:
    """Stands for the use case over a number."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.due_in_seconds: float | None = 0.0
        self.asked: list[tuple[float, datetime | None]] = []
        self.away_until = 0.0

    async def due_in(self) -> float | None:
        await trio.lowlevel.checkpoint()
        return self.due_in_seconds

    async def expire_due(self, since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        await trio.sleep(0.01)
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=0.05)
        self.asked.append((trio.current_time(), since))
        closed = min(limit, self.rows)
        self.rows -= closed
        return closed, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=len(self.asked))


@pytest.fixture
def due() -> DueInvitations:
    return DueInvitations(250)


@asynccontextmanager
async def at_work(due: DueInvitations) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(invitation_sweeper(cast("Invitations", due), doubt=no_doubt, spread=no_spread, interval=0.2, batch=100).run)
        yield
        nursery.cancel_scope.cancel()


async def asked(due: DueInvitations, times: int) -> None:
    with trio.fail_after(PATIENCE):
        while len(due.asked) < times:
            await trio.sleep(0.02)


async def test_each_batch_begins_where_the_last_ended_after_as_long_a_pause(due: DueInvitations) -> None:
    async with at_work(due):
        await asked(due, 3)
    assert due.rows == 0
    (first, start), (second, after), (_, later), *_ = due.asked
    assert second - first >= 0.019
    assert (start, after is not None and later is not None and after < later) == (None, True)


async def test_rounds_follow_and_an_outage_is_waited_out(due: DueInvitations, log: CapturedLog) -> None:
    due.away_until = trio.current_time() + 0.1
    async with at_work(due):
        await asked(due, 5)
    assert due.rows == 0
    assert len(log.events("actor_waits")) == 1
    assert [since for _, since in due.asked].count(None) >= 2


async def test_the_first_that_is_pending_says_when_it_is_due(store: Store) -> None:
    invitations = invitations_on(store)
    assert await invitations.due_in() is None
    await store.query(FILL.format(due=0, each=10))
    await store.query("update invitations set expires_at = now() + interval '1 hour' where status = 'pending'")
    found = await invitations.due_in()
    assert found is not None
    assert 3500 < found <= 3600
    await store.query("update invitations set expires_at = now() - interval '1 hour'")
    found = await invitations.due_in()
    assert found is not None
    assert found < -3500
