"""Whom and what a sentence names: the words that are kept of members, those of listed people, other organizations, and the cost among a
hundred thousand members.
"""

from typing import Any, Final
from uuid import UUID

import pytest
import trio

from adapters.postgres.platform.named import NAMED, parameters_of
from adapters.postgres.platform.todos import PostgresThings
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.platform.searches import MOST_NAME_WORDS, MOST_NAMED, NamedKind, NamedOne, name_terms
from entrypoints.http.console.kit.finding.subjects import plain_words
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.questions import generic_plan, steps
from tests.adapters.postgres.tenants import StoredTenants

EVERY_KIND: Final = tuple(NamedKind)
MEMBERS: Final = 100_000
LONGEST_MS: Final = 5


async def named(store: Store, organization: OrganizationId, text: str, *addresses: str, kinds: Any = EVERY_KIND) -> list[NamedOne]:
    words = plain_words(text).split()
    return [*await PostgresThings(store.pool).named(organization, name_terms(words), addresses, kinds, MOST_NAMED)]


async def called(store: Store, account: Account, name: str | None, **parts: str | None) -> None:
    values = {"user": account.id, "name": name, "given": parts.get("given"), "family": parts.get("family")}
    await store.query("update users set name = %(name)s, given_name = %(given)s, family_name = %(family)s where id = %(user)s", values)


async def words_of(store: Store, user: UserId) -> set[str]:
    rows = await store.query(
        "select word from member_words join memberships on memberships.id = membership_id where user_id = %(user)s", {"user": user}
    )
    return {row["word"] for row in rows}


async def test_a_member_is_named_by_each_word_of_the_name_and_the_address_in_any_sentence(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (bob, _), (eve, _) = await tenants.add(), await store.sign_up("bob.m@example.org"), await store.sign_up("eve@example.org")
    for one in (bob, eve):
        await tenants.join(acme, one)
    await called(store, bob, "Bob van der Lovelace")
    for text in ("bob", "Bob lost his phone", "the phone of van der lovelace", "bobs role", "role of lovel", "bob m", "der love"):
        assert [(one.id, one.name, one.beside) for one in await named(store, acme, text)] == [
            (bob.id, "Bob van der Lovelace", "bob.m@example.org")
        ], text
    # A word in the middle of a sentence is no beginning, two letters are none at all, and "an" stands in no name.
    for text in ("lovel has a phone", "bo", "v d", "lost phone", "love lace"):
        assert await named(store, acme, text) == [], text
    assert [one.id for one in await named(store, acme, "eve and bob lovelace")] == [bob.id, eve.id]
    assert [one.id for one in await named(store, acme, "eve and bobs")] == [eve.id, bob.id]


@pytest.mark.parametrize(
    "name",
    ["Jörg Weiß", "Zoë O'Neill-Brown", "ÁNGEL núñez", "  Ada   Lovelace ", "Ольга Иванова", "李 雷", "Ann-Sofie (HR) Åberg", "x_y.z"],
)
async def test_names_are_folded_as_what_is_typed(store: Store, name: str) -> None:
    (row,) = await store.query("select plain_name(%(name)s) as plain", {"name": name})
    assert row["plain"] == plain_words(name)


async def test_words_follow_the_name_the_address_and_the_confirmation(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up("ada@example.org")
    await called(store, ada, None, given="Ada", family="Byron")
    joined = await tenants.join(acme, ada)
    assert await words_of(store, ada.id) == {"ada", "ada byron", "byron"}
    await called(store, ada, "Countess Lovelace", given="Ada", family="Byron")
    assert await words_of(store, ada.id) == {"ada", "countess lovelace", "lovelace"}
    await store.query("update users set email = 'al@example.org', email_key = 'al@example.org' where id = %(id)s", {"id": ada.id})
    assert await words_of(store, ada.id) == {"al", "countess lovelace", "lovelace"}
    # Of whom an organization merely lists, it has the address alone.
    await store.query("update memberships set own_since = null where id = %(id)s", {"id": joined.id})
    assert await words_of(store, ada.id) == {"al"}
    await called(store, ada, "Ada Lovelace")
    assert await words_of(store, ada.id) == {"al"}
    (listed,) = await named(store, acme, "al lovelace", "al@example.org")
    assert (listed.id, listed.name) == (ada.id, None)
    await store.query("update memberships set own_since = now() where id = %(id)s", {"id": joined.id})
    assert await words_of(store, ada.id) == {"al", "ada lovelace", "lovelace"}
    async with store.unit_of_work() as uow:
        assert await uow.members.remove(acme, ada.id)
        await uow.commit()
    assert await store.count("member_words") == 0
    assert await named(store, acme, "lovelace", "al@example.org") == []


async def test_a_long_name_has_few_short_words(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    await called(store, ada, " ".join(["long" * 8] * 6)[:200])
    await called(store, ada, "a " * 100)
    await tenants.join(acme, ada)
    words = await words_of(store, ada.id)
    assert len(words) <= 13
    assert max(map(len, words)) <= 60


async def test_who_confirms_while_the_name_changes_is_found_by_the_new_name(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    joined = await tenants.join(acme, ada)
    await store.query("update memberships set own_since = null where id = %(id)s", {"id": joined.id})
    async with trio.open_nursery() as nursery, store.pool.connection() as connection, connection.transaction():
        await connection.execute(b"update memberships set own_since = now() where id = %s", (joined.id,))
        nursery.start_soon(called, store, ada, "Ada Lovelace")
        await store.somebody_waits()
    assert await words_of(store, ada.id) == {"ada", "ada lovelace", "lovelace"}


async def test_nothing_of_another_organization_is_named(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex, (bob, _) = await tenants.add(), await tenants.add("globex"), await store.sign_up("bob@example.org")
    await called(store, bob, "Bob")
    await tenants.join(globex, bob)
    for organization, name in ((acme, "Board"), (globex, "Bobbin")):
        await store.query(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (gen_random_uuid(), %(org)s, %(slug)s, %(name)s, 'web', gen_random_uuid(), now(), now())",
            {"org": organization, "slug": name.lower(), "name": name},
        )
    await tenants.add_role(globex, "bobs")
    assert await named(store, acme, "bob bobbin bobs", "bob@example.org") == []
    assert {one.beside for one in await named(store, globex, "bob bobbin bobs", "bob@example.org")} == {"bob@example.org", "bobbin", "bobs"}
    assert await named(store, globex, "bob", "bob@example.org", kinds=()) == []
    assert {one.kind for one in await named(store, globex, "bob bobs", "bob@example.org", kinds=(NamedKind.ROLE,))} == {NamedKind.ROLE}


async def test_things_are_named_by_their_names_short_names_and_what_is_written_together(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    for slug, name in (("time-tracker", "Time Tracker"), ("shop", "Shop"), ("shop-2", "Shop of Bremen"), ("dot", "50% off.*")):
        await store.query(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (gen_random_uuid(), %(org)s, %(slug)s, %(name)s, 'web', gen_random_uuid(), now(), now())",
            {"org": acme, "slug": slug, "name": name},
        )
    for text, slugs in (
        ("secret of timetracker", ["time-tracker"]),
        ("the time tracker is down", ["time-tracker"]),
        ("shop bremen", ["shop-2", "shop"]),
        ("shop secret", ["shop", "shop-2"]),
        ("the shops secret", ["shop", "shop-2"]),
        ("workshop", []),
        (".*", []),
        ("% off", ["dot"]),
    ):
        assert [one.beside for one in await named(store, acme, text)] == slugs, text


ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))
_FILL: Final = """
    insert into users (id, email, email_key, name)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'bob' || n || '@example.org', 'bob' || n || '@example.org',
           case n % 3 when 0 then 'Bob' when 1 then 'Bob Lovelace' else 'Bob Number' || n end
      from generate_series(1, 100000) as n;
    insert into organizations (id, slug, name, status, max_users, max_services, created_at, updated_at)
    select case n when 0 then '01900000-0000-7000-8000-00000000000a' else gen_random_uuid() end, 'o-' || n, 'O', 'active', 200000, 1000,
           now(), now()
      from generate_series(0, 20) as n;
    insert into memberships (id, org_id, user_id, role, created_at, own_since)
    select gen_random_uuid(), organizations.id, users.id, 'member', now(), now()
      from organizations
      join lateral (select id from users order by id limit case organizations.slug when 'o-0' then 100000 else 500 end) as users on true;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), organizations.id, 'bob-' || n, 'Bob ' || n, 'web', gen_random_uuid(), now(), now()
      from organizations cross join generate_series(1, 100) as n;
    insert into teams (id, org_id, slug, name, role, created_at, updated_at)
    select gen_random_uuid(), organizations.id, 'team-' || n, 'Lovelace ' || n, 'member', now(), now()
      from organizations cross join generate_series(1, 200) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, now()
      from services cross join (select id from users order by id limit 1000) as users where services.slug = 'bob-1'
"""
# What reads most: words that a hundred thousand members have, twelve of them, and addresses with and without an account.
_WORST: Final = ("bob lovelace " * 6, "bob", "bob lost his phone", "lovelace number bob is not at home today and cannot sign in")


async def test_among_a_hundred_thousand_members_a_sentence_takes_milliseconds(fresh_store: Store) -> None:
    for statement in _FILL.split(";"):
        await fresh_store.query(statement)
    tables = ("users", "all_organizations", "memberships", "member_words", "all_services", "teams", "service_users")
    await fresh_store.settle(*tables)
    assert read_whole(await generic_plan(fresh_store.url, NAMED)) == set()
    for text in _WORST:
        words = plain_words(text).split()[:MOST_NAME_WORDS]
        values = parameters_of(
            ACME, name_terms(words), ("bob7@example.org", "bob99999@example.org", "nobody@example.org"), EVERY_KIND, MOST_NAMED
        )
        took: list[float] = []
        plan: list[dict[str, Any]] = []
        # A busy machine makes single tries longer, and none shorter than its work.
        while not took or (min(took) > LONGEST_MS and len(took) < 50):
            (row,) = await fresh_store.query(f"explain (analyze, format json) {NAMED}", {**values})
            took.append(row["QUERY PLAN"][0]["Execution Time"])
            plan = list(steps(row["QUERY PLAN"][0]["Plan"]))
        assert read_whole(plan) == set(), text
        # Of members, as many as the terms may find, whoever is called so.
        assert max(one["Actual Rows"] * one["Actual Loops"] for one in plan if one.get("Relation Name") == "member_words") <= 36 * 24
        assert min(took) <= LONGEST_MS, text


def read_whole(plan: list[dict[str, Any]]) -> set[str]:
    """Of the others there is next to nothing here."""
    big = {"users", "memberships", "member_words", "service_users"}
    return {one["Relation Name"] for one in plan if one["Node Type"] == "Seq Scan"} & big
