"""Sessions: the look-up of a token's session, on every request."""

from datetime import UTC, datetime, timedelta
from math import ceil
from uuid import uuid4

import pytest
import trio

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.sessions import PostgresPresence
from adapters.postgres.presence import WRITTEN_AT_ONCE
from adapters.postgres.tenancy.callers import PostgresCallers
from core.domain.errors import Unavailable
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.sessions import IDLE_LIFETIME
from core.domain.mail import Email
from core.frozen import replace
from tests.adapters.postgres.conftest import Store
from tests.steps import watched_steps


async def test_a_live_session_of_an_active_user_has_a_caller(store: Store) -> None:
    account, session = await store.sign_up("Ada@example.org")
    caller = await PostgresCallers(store.pool).find(session.id, account.id)
    assert caller == Caller(user=account.id, email=Email("Ada@example.org"), session=session.id, is_platform_owner=False)


async def test_the_caller_is_as_the_database_says_now(store: Store) -> None:
    account, session = await store.sign_up()
    callers = PostgresCallers(store.pool)
    assert await callers.find(session.id, account.id)
    await store.query("update users set is_platform_owner = true, email = 'new@example.org', email_key = 'new@example.org'")
    caller = await callers.find(session.id, account.id)
    assert caller is not None
    assert (caller.is_platform_owner, caller.email) == (True, Email("new@example.org"))


@pytest.mark.parametrize(
    "change",
    [
        "update sessions set revoked_at = now()",
        "update sessions set expires_at = now()",
        "update sessions set ends_at = now()",
        "update users set deactivated_at = now()",
        "delete from sessions",
        "delete from users",
    ],
)
async def test_nobody_calls_with_a_session_that_has_ended(store: Store, change: str) -> None:
    account, session = await store.sign_up()
    callers = PostgresCallers(store.pool)
    assert await callers.find(session.id, account.id)
    await store.query(change)
    assert await callers.find(session.id, account.id) is None


async def join(store: Store, account: Account, slug: str = "acme", status: str = "active", role: str = "admin") -> OrganizationId:
    organization = OrganizationId(store.ids.new())
    await store.query(
        """
        insert into organizations (id, slug, name, status, created_at, updated_at)
        values (%(id)s, %(slug)s, 'X', %(status)s, now(), now())
        """,
        {"id": organization, "slug": slug, "status": status},
    )
    await store.query(
        "insert into memberships (id, org_id, user_id, role, created_at) values (%(id)s, %(id)s, %(user)s, %(role)s, now())",
        {"id": organization, "user": account.id, "role": role},
    )
    return organization


# Of the same id as its organization.
ADD_SERVICE = """
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    values (%(id)s, %(id)s, 'shop', 'Shop', 'web', %(id)s, now(), now())
"""


async def test_a_session_in_an_organization_tells_the_role_and_whether_that_is_active(store: Store) -> None:
    account, session = await store.sign_up()
    organization = await join(store, account)
    await store.query(ADD_SERVICE, {"id": organization})
    await store.query("update sessions set organization_id = %(id)s, service_id = %(id)s", {"id": organization})
    callers = PostgresCallers(store.pool)

    async def found() -> tuple[object, ...]:
        caller = await callers.find(session.id, account.id)
        assert caller is not None
        return caller.organization_id, caller.organization, caller.service, caller.role, caller.organization_is_active

    assert await found() == (organization, "acme", "shop", "admin", True)
    for status in ("pending", "suspended", "rejected"):
        await store.query("update organizations set status = %(status)s", {"status": status})
        assert (await found())[4] is False
    await store.query("update organizations set status = 'active'")
    await store.query("delete from memberships")
    assert await found() == (organization, "acme", "shop", "", True)
    # Deleted at once, while its rows are still there.
    for table in ("all_services", "all_organizations"):
        await store.query(f"update {table} set deleted_at = now()")
        assert await callers.find(session.id, account.id) is None
        await store.query(f"update {table} set deleted_at = null")
    assert await callers.find(session.id, account.id)
    await store.query("delete from organizations")
    assert await callers.find(session.id, account.id) is None


@pytest.mark.parametrize(
    "change",
    [
        "update users set is_platform_owner = false",
        "update users set deactivated_at = now() where is_platform_owner",
        "delete from sessions",
    ],
)
async def test_an_impersonation_lasts_as_long_as_its_platform_owner_is_one(store: Store, change: str) -> None:
    account, session = await store.sign_up()
    owner = store.account("owner@example.org", owner=True)
    async with store.unit_of_work() as uow:
        await uow.accounts.add(owner, None)
        await uow.commit()
    await store.query("update sessions set impersonator_id = %(owner)s, impersonation_id = %(owner)s", {"owner": owner.id})
    callers = PostgresCallers(store.pool)
    caller = await callers.find(session.id, account.id)
    assert caller is not None
    assert caller.impersonator == owner.id
    await store.query(change)
    assert await callers.find(session.id, account.id) is None


async def test_all_sessions_of_a_person_but_one_are_revoked_and_nobody_elses(store: Store) -> None:
    ada, kept = await store.sign_up("ada@example.org")
    bob, of_bob = await store.sign_up("bob@example.org")
    others = [store.session(ada) for _ in range(3)]
    async with store.unit_of_work() as uow:
        for session in others:
            await uow.sessions.add(session)
        assert await uow.sessions.revoke_all(ada.id, but=kept.id) == 3
        assert await uow.sessions.revoke_all(ada.id, but=kept.id) == 0
        await uow.commit()
    callers = PostgresCallers(store.pool)
    assert await callers.find(kept.id, ada.id)
    assert await callers.find(of_bob.id, bob.id)
    assert [await callers.find(session.id, ada.id) for session in others] == [None] * 3
    async with store.unit_of_work() as uow:
        assert await uow.sessions.revoke_all(ada.id, but=None) == 1
        assert not await uow.sessions.revoke(of_bob.id, ada.id)
        assert await uow.sessions.revoke(of_bob.id, bob.id)
        assert not await uow.sessions.revoke(of_bob.id, bob.id)
        await uow.commit()


async def test_a_session_is_its_user_s_alone(store: Store) -> None:
    ada, of_ada = await store.sign_up("ada@example.org")
    bob, _ = await store.sign_up("bob@example.org")
    callers = PostgresCallers(store.pool)
    assert await callers.find(of_ada.id, bob.id) is None
    assert await callers.find(of_ada.id, UserId(store.ids.new())) is None
    assert await callers.find(SessionId(store.ids.new()), ada.id) is None


async def test_it_is_one_round_trip(store: Store) -> None:
    account, session = await store.sign_up()
    callers = PostgresCallers(store.pool)
    await callers.find(session.id, account.id)  # the first on a connection prepares the statement
    round_trips.set(trips := TripCounter())
    await callers.find(session.id, account.id)
    assert trips.count == 1


async def test_without_the_database_it_says_so_and_not_that_the_session_is_unknown() -> None:
    pool = Pool("host=127.0.0.1 port=1 dbname=nowhere")
    with pytest.raises(Unavailable):
        await PostgresCallers(pool).find(SessionId(uuid4()), UserId(uuid4()))
    await pool.aclose()


async def last_seen(store: Store) -> dict[SessionId, datetime]:
    return {row["id"]: row["last_seen_at"] for row in await store.query("select id, last_seen_at from sessions")}


async def test_marks_move_last_seen_forward_and_never_back(store: Store) -> None:
    _, first = await store.sign_up("ada@example.org")
    _, second = await store.sign_up("bob@example.org")
    presence = PostgresPresence(store.pool)
    later, earlier = first.last_seen_at + timedelta(minutes=1), second.last_seen_at - timedelta(minutes=1)
    await presence.mark_seen({first.id: later, second.id: earlier, SessionId(store.ids.new()): later})
    assert await last_seen(store) == {first.id: later, second.id: second.last_seen_at}


async def test_using_a_session_is_using_those_that_it_was_opened_from(store: Store) -> None:
    ada, root = await store.sign_up()
    child = replace(store.session(ada), parent=root.id, depth=1)
    grandchild, beside = replace(store.session(ada), parent=child.id, depth=2), replace(store.session(ada), parent=root.id, depth=1)
    async with store.unit_of_work() as uow:
        for session in (child, grandchild, beside):
            await uow.sessions.add(session)
        await uow.commit()
    later = grandchild.last_seen_at + timedelta(minutes=1)
    newest = later + timedelta(minutes=1)
    # The newest use of any session of the line counts.
    await PostgresPresence(store.pool).mark_seen({grandchild.id: later, child.id: newest, beside.id: beside.last_seen_at})
    assert await last_seen(store) == {root.id: newest, child.id: newest, grandchild.id: later, beside.id: beside.last_seen_at}


async def test_marks_of_many_sessions_take_one_round_trip_and_no_marks_take_none(store: Store) -> None:
    presence = PostgresPresence(store.pool)
    now = datetime.now(UTC)
    await presence.mark_seen({SessionId(store.ids.new()): now})
    round_trips.set(trips := TripCounter())
    await presence.mark_seen({SessionId(store.ids.new()): now for _ in range(100)})
    assert trips.count == 1
    await presence.mark_seen({})
    assert trips.count == 1


@pytest.mark.parametrize("number", [WRITTEN_AT_ONCE, WRITTEN_AT_ONCE + 1, 3 * WRITTEN_AT_ONCE])
async def test_marks_of_very_many_sessions_are_written_part_by_part(store: Store, number: int) -> None:
    account, _ = await store.sign_up()
    rows = await store.query(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at)"
        " select gen_random_uuid(), %(user)s, now(), now(), now() from generate_series(1, %(number)s) returning id, last_seen_at",
        {"user": account.id, "number": number},
    )
    marks = {SessionId(row["id"]): row["last_seen_at"] + timedelta(microseconds=place) for place, row in enumerate(rows, 1)}
    await PostgresPresence(store.pool).mark_seen({SessionId(store.ids.new()): datetime.now(UTC)})
    round_trips.set(trips := TripCounter())
    await PostgresPresence(store.pool).mark_seen(marks)
    assert trips.count == ceil(number / WRITTEN_AT_ONCE)
    seen = await last_seen(store)
    assert {session: seen[session] for session in marks} == marks


async def test_however_many_marks_are_written_others_have_their_turns(store: Store) -> None:
    marks = {SessionId(store.ids.new()): datetime.now(UTC) for _ in range(20_000)}
    longest = []
    for _ in range(3):
        with watched_steps() as steps:
            await PostgresPresence(store.pool).mark_seen(marks)
        longest.append(max(steps))
    assert min(longest) < 0.01


async def test_sessions_are_marked_in_one_order_everywhere_so_that_nobody_deadlocks(store: Store) -> None:
    sessions = [(await store.sign_up(f"user{number}@example.org"))[1] for number in range(10)]
    later = sessions[-1].last_seen_at + timedelta(minutes=1)
    marks = {session.id: later for session in reversed(sessions)}
    async with trio.open_nursery() as nursery, await Connection.connect(store.url) as holder, holder.transaction():
        await holder.execute("select from sessions order by id limit 1 for update")
        nursery.start_soon(PostgresPresence(store.pool).mark_seen, marks)
        await trio.sleep(0.05)
        # It stands in front of the first and holds none of the others.
        free = await store.query("select id from sessions for update skip locked")
        assert len(free) == 9
        assert set((await last_seen(store)).values()) != {later}
    assert set((await last_seen(store)).values()) == {later}


async def test_a_browser_that_is_used_goes_on_as_if_it_were_refreshed(store: Store) -> None:
    """And so does that of the session which an application uses."""
    account, root = await store.sign_up()
    child = replace(store.session(account), parent=root.id, depth=1)
    async with store.unit_of_work() as uow:
        await uow.browser_sessions.add(b"cookie", root.id)
        await uow.sessions.add(child)
        await uow.commit()

    async def expiry() -> dict[SessionId, datetime]:
        return {row["id"]: row["expires_at"] for row in await store.query("select id, expires_at from sessions")}

    await store.query("update sessions set ends_at = created_at + interval '90 days'")
    before, later = await expiry(), root.last_seen_at + timedelta(days=5)
    await PostgresPresence(store.pool).mark_seen({child.id: later})
    assert await expiry() == {root.id: later + IDLE_LIFETIME, child.id: before[child.id]}
    # Never beyond its end.
    await store.query("update sessions set ends_at = expires_at + interval '1 day'")
    await PostgresPresence(store.pool).mark_seen({root.id: later + timedelta(days=20)})
    assert (await expiry())[root.id] == later + IDLE_LIFETIME + timedelta(days=1)
