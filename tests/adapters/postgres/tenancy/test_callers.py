"""Callers that are looked up at the same time: one statement, and each gets their own answer."""

from typing import Any

import trio

from adapters.postgres.tenancy.callers import PostgresCallers
from core.domain.identifiers import OrganizationId
from core.domain.mail import Email
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

# None of these is a slug: they must come through the array as they are, and find nothing.
ODD_SLUGS = ('a"b', "a\\b", "a,b", "{}", "", "null", "a b", "a\0b", "\ud800", "grün")


async def test_those_who_ask_at_once_share_a_round_trip_and_each_is_who_they_are(store: Store) -> None:
    people = [await store.sign_up(f"person-{number}@example.org") for number in range(30)]
    await store.query("update sessions set revoked_at = now() where id = %(id)s", {"id": people[7][1].id})
    callers = PostgresCallers(store.pool)
    found: dict[int, Email | None] = {}

    async def find(number: int) -> None:
        account, session = people[number]
        caller = await callers.find(session.id, account.id)
        found[number] = None if caller is None else caller.email
        assert caller is None or (caller.user, caller.session) == (account.id, session.id)

    async with store.pool.connection() as connection:
        before = connection.round_trips
    async with trio.open_nursery() as nursery:
        for number in range(len(people)):
            nursery.start_soon(find, number)
    assert found == {number: None if number == 7 else account.email for number, (account, _) in enumerate(people)}
    # The first goes by itself, all others together.
    async with store.pool.connection() as connection:
        assert connection.round_trips - before == 2


async def test_nobody_is_somebody_else_by_travelling_with_them(store: Store) -> None:
    (ada, hers), (bob, his) = await store.sign_up(), await store.sign_up("bob@example.org")
    callers = PostgresCallers(store.pool)
    found: list[Any] = []

    async def find(session: Any, user: Any) -> None:
        found.append(await callers.find(session, user))

    async with trio.open_nursery() as nursery:
        for session, user in ((hers.id, bob.id), (his.id, ada.id), (his.id, his.id), (ada.id, hers.id)):
            nursery.start_soon(find, session, user)
    assert found == [None] * 4


async def test_members_who_ask_at_once_stand_each_to_the_organization_that_they_name(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex = await tenants.add("acme"), await tenants.add("globex")
    (ada, hers), (bob, his) = await store.sign_up(), await store.sign_up("bob@example.org")
    await tenants.join(acme, ada, "owner")
    await tenants.join(globex, bob, "admin")
    callers = PostgresCallers(store.pool)
    found: dict[tuple[str, str], tuple[OrganizationId, str] | None] = {}

    async def find(name: str, session: Any, user: Any, slug: str) -> None:
        answer = await callers.find_member(session, user, slug)
        assert answer is not None
        found[name, slug] = None if answer[1] is None else (answer[1].organization, answer[1].role)

    async with trio.open_nursery() as nursery:
        for slug in (*ODD_SLUGS, "acme", "globex"):
            nursery.start_soon(find, "ada", hers.id, ada.id, slug)
            nursery.start_soon(find, "bob", his.id, bob.id, slug)
    assert {one: standing for one, standing in found.items() if standing is not None} == {
        ("ada", "acme"): (acme, "owner"),
        ("ada", "globex"): (globex, ""),
        ("bob", "acme"): (acme, ""),
        ("bob", "globex"): (globex, "admin"),
    }
    assert len(found) == 2 * (len(ODD_SLUGS) + 2)


async def test_one_plan_serves_every_number_of_callers(fresh_store: Store) -> None:
    account, session = await fresh_store.sign_up()
    callers = PostgresCallers(fresh_store.pool)
    for _ in range(8):
        await callers.find(session.id, account.id)
    async with fresh_store.pool.connection() as connection:
        cursor = await connection.execute("select generic_plans, custom_plans from pg_prepared_statements where statement like '%unnest%'")
        # The first five are planned each by itself, to compare.
        assert await cursor.fetchall() == [(3, 5)]
