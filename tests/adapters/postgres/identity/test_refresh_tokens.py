"""The exchange of refresh tokens: one statement, one round trip, one winner."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import trio

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.identity.sessions.refresh_tokens import _ROTATE, PostgresRefreshTokens
from core.domain.identifiers import ClientId, ServiceId
from core.domain.identity.accounts import Account
from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken
from core.domain.identity.sessions import IDLE_LIFETIME, NO_SUBSCRIPTION, Session, SubscriptionState
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.federation.test_authorization_codes import LOOKED_AT
from tests.patience import PATIENCE

FIRST, SECOND, THIRD, FOURTH, BY = (bytes([number]) * 32 for number in range(5))
LONG = timedelta(days=90)


async def sign_in(store: Store, lifetime: timedelta = LONG) -> tuple[Account, Session]:
    account, session = await store.sign_up(lifetime=lifetime)
    async with store.unit_of_work() as uow:
        await uow.sessions.issue(session.id, FIRST, session.created_at)
        await uow.commit()
    return account, session


async def rotate(store: Store, token: bytes = FIRST, successor: bytes = SECOND, at: datetime | None = None) -> PresentedRefreshToken:
    presented = await PostgresRefreshTokens(store.pool).rotate(token, successor, BY, at or datetime.now(UTC))
    assert presented is not None
    return presented


async def test_the_current_token_is_exchanged_for_its_successor(store: Store) -> None:
    account, session = await sign_in(store)
    presented = await rotate(store)
    assert (presented.session.id, presented.session.user, presented.email) == (session.id, account.id, account.email)
    assert (presented.rotated, presented.is_live, presented.rotated_at, presented.rotated_by) == (True, True, None, None)
    assert (await rotate(store, SECOND, THIRD)).rotated
    rows = await store.query("select digest, rotated_by from refresh_tokens order by digest")
    assert [(row["digest"], row["rotated_by"]) for row in rows] == [(FIRST, BY), (SECOND, BY), (THIRD, None)]


async def test_one_that_was_exchanged_stays_so_and_says_when_and_by_whom(store: Store) -> None:
    await sign_in(store)
    at = datetime.now(UTC)
    await rotate(store, at=at)
    again = await rotate(store, at=at + timedelta(seconds=5))
    assert (again.rotated, again.is_live, again.rotated_at, again.rotated_by) == (False, True, at, BY)
    assert await store.count("refresh_tokens") == 2


async def test_an_unknown_one_is_nobodys(store: Store) -> None:
    await sign_in(store)
    assert await PostgresRefreshTokens(store.pool).rotate(SECOND, THIRD, BY, datetime.now(UTC)) is None


def test_for_an_unknown_one_nothing_else_is_looked_at(database_url: str) -> None:
    parameters: Mapping[str, object] = {
        **dict.fromkeys(("digest", "successor", "by"), b"none"),
        **dict.fromkeys(("service", "resource", "key")),
        "scopes": [],
        "foreign_scopes": [],
        "at": datetime.now(UTC),
        "idle": IDLE_LIFETIME,
        "is_public": True,
    }
    with psycopg.connect(database_url) as connection:
        assert connection.execute(_ROTATE, parameters).fetchall() == []
        assert {name for name, _ in connection.execute(LOOKED_AT).fetchall()} == {"refresh_tokens"}


async def test_it_moves_the_end_of_the_session_but_never_beyond_its_last(store: Store) -> None:
    _, session = await sign_in(store)
    await store.query("update sessions set expires_at = now() + interval '1 day'")
    at = datetime.now(UTC)
    await rotate(store, at=at)
    (row,) = await store.query("select expires_at, last_seen_at, ends_at from sessions")
    assert (row["expires_at"], row["last_seen_at"], row["ends_at"]) == (at + IDLE_LIFETIME, at, session.ends_at)
    near_the_end = session.ends_at - timedelta(days=1)
    await rotate(store, SECOND, THIRD, near_the_end)
    (row,) = await store.query("select expires_at from sessions")
    assert row["expires_at"] == session.ends_at


@pytest.mark.parametrize(
    "change",
    [
        "update sessions set revoked_at = now()",
        "update sessions set expires_at = now()",
        "update sessions set ends_at = now()",
        "update users set deactivated_at = now()",
    ],
)
async def test_of_a_session_that_has_ended_nothing_is_exchanged(store: Store, change: str) -> None:
    await sign_in(store)
    await store.query(change)
    presented = await rotate(store)
    assert (presented.is_live, presented.rotated) == (False, False)
    assert await store.count("refresh_tokens") == 1


async def test_in_an_organization_only_for_members_while_it_is_active(store: Store) -> None:
    account, session = await sign_in(store)
    await store.query(
        "insert into organizations (id, slug, name, status, created_at, updated_at) values (%(id)s, 'acme', 'X', 'active', now(), now())",
        {"id": session.id},
    )
    await store.query("update sessions set organization_id = %(id)s", {"id": session.id})
    presented = await rotate(store)
    assert (presented.is_admitted, presented.organization_is_active, presented.rotated) == (False, True, False)
    await store.query(
        "insert into memberships (id, org_id, user_id, role, created_at) values (%(id)s, %(id)s, %(user)s, 'member', now())",
        {"id": session.id, "user": account.id},
    )
    await store.query("update organizations set status = 'suspended'")
    presented = await rotate(store)
    assert (presented.is_admitted, presented.organization_is_active, presented.rotated) == (True, False, False)
    await store.query("update organizations set status = 'active'")
    presented = await rotate(store)
    assert (presented.rotated, presented.session.context.audience) == (True, "org:acme")
    # An end user of a service is no member.
    await store.query("delete from memberships")
    assert not (await rotate(store, SECOND, THIRD)).rotated
    await store.query(
        """
        insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
        values (%(id)s, %(id)s, 'shop', 'Shop', 'web', %(id)s, now(), now())
        """,
        {"id": session.id},
    )
    await store.query("update sessions set service_id = %(id)s", {"id": session.id})
    presented = await rotate(store, SECOND, THIRD)
    assert (presented.rotated, presented.session.context.audience, presented.subscription) == (True, "service:acme/shop", NO_SUBSCRIPTION)
    # Their token says what they have paid for, as it is at this moment.
    await store.query(
        """
        with plan as (
                 insert into plans (id, service_id, name, price_cents, currency, features, created_at, updated_at)
                 values (%(id)s, %(id)s, 'Pro', 900, 'usd', '{export}', now(), now()) returning id
             )
        insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
        select id, id, %(user)s, id, 'past_due', '2030-01-01 00:00+00', now(), now() from plan
        """,
        {"id": session.id, "user": account.id},
    )
    presented = await rotate(store, THIRD, FOURTH)
    assert presented.subscription == SubscriptionState("Pro", ("export",), "past_due", datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "change",
    [
        "update all_services set deleted_at = now()",
        "update all_organizations set deleted_at = now()",
        "update organizations set status = 'suspended'",
    ],
)
async def test_in_a_service_nothing_is_exchanged_once_it_or_its_organization_is_gone_or_closed(store: Store, change: str) -> None:
    _, session = await sign_in(store)
    await store.query(
        "insert into organizations (id, slug, name, status, created_at, updated_at) values (%(id)s, 'acme', 'X', 'active', now(), now())",
        {"id": session.id},
    )
    await store.query(
        """
        insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
        values (%(id)s, %(id)s, 'shop', 'Shop', 'web', %(id)s, now(), now())
        """,
        {"id": session.id},
    )
    await store.query("update sessions set organization_id = %(id)s, service_id = %(id)s", {"id": session.id})
    await store.query(change)
    presented = await rotate(store)
    assert (presented.rotated, presented.is_live and presented.organization_is_active) == (False, False)
    assert await store.count("refresh_tokens") == 1


async def test_it_is_a_use_of_all_sessions_above_and_of_no_other(store: Store) -> None:
    _, first = await sign_in(store)
    (columns,) = await store.query(
        """
        select string_agg(quote_ident(column_name), ', ') as names
          from information_schema.columns
         where table_name = 'sessions' and column_name not in ('id', 'parent_id', 'depth')
        """
    )
    ids = [store.ids.new() for _ in range(3)]
    for depth, (own, parent) in enumerate(zip(ids, [first.id, *ids], strict=False), 1):
        await store.query(
            f"insert into sessions (id, parent_id, depth, {columns['names']})"
            f" select %(id)s, %(parent)s, %(depth)s, {columns['names']} from sessions where id = %(first)s",
            {"id": own, "parent": parent, "depth": depth, "first": first.id},
        )
    await store.query("update sessions set last_seen_at = created_at - interval '1 hour'")
    await store.query("update refresh_tokens set session_id = %(id)s", {"id": ids[1]})
    at = datetime.now(UTC)
    assert (await rotate(store, at=at)).rotated
    rows = await store.query("select depth, last_seen_at = %(at)s as used from sessions order by depth", {"at": at})
    assert [row["used"] for row in rows] == [True, True, True, False]


async def test_of_a_token_that_another_shows_nothing_is_locked(store: Store) -> None:
    """An application shows a token that the person's own page has."""
    _, session = await sign_in(store)
    holder = Holder(ClientId(str(store.ids.new())), ServiceId(store.ids.new()))
    async with store.unit_of_work() as uow:
        assert await uow.sessions.revoke(session.id, session.user)
        with trio.fail_after(PATIENCE):
            assert await PostgresRefreshTokens(store.pool).rotate(FIRST, SECOND, BY, datetime.now(UTC), holder) is None


async def test_it_is_one_round_trip(store: Store) -> None:
    await sign_in(store)
    await rotate(store)
    round_trips.set(trips := TripCounter())
    await rotate(store, SECOND, THIRD)
    assert trips.count == 1


async def test_of_fifty_at_once_one_exchanges_it(store: Store) -> None:
    await sign_in(store)
    presented: list[PresentedRefreshToken] = []

    async def present() -> None:
        presented.append(await rotate(store))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(present)
    assert sum(one.rotated for one in presented) == 1
    assert all(one.is_live for one in presented)
    assert await store.count("refresh_tokens") == 2


async def test_a_session_revoked_at_this_very_moment_is_no_longer_alive(store: Store) -> None:
    _, session = await sign_in(store)
    presented: list[PresentedRefreshToken] = []

    async def present() -> None:
        presented.append(await rotate(store))

    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        assert await uow.sessions.revoke(session.id, session.user)
        nursery.start_soon(present)
        await trio.sleep(0.05)  # it waits for the session's row
        await uow.commit()
    assert [one.is_live for one in presented] == [False]
