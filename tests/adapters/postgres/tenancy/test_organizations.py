"""Organizations in PostgreSQL: kept whole, held by one at a time, and read by index however many there are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import trio

from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.organizations import GET, LIST, OrganizationRows
from core.domain.identifiers import OrganizationId, TierId, UserId
from core.domain.tenancy.organizations import MOST_LISTED, Organization, OrganizationStatus
from core.domain.tenancy.tiers import FREE, LimitSource
from core.frozen import replace
from ports.tenancy.organizations import Added, HeldOrganization
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

PROFESSIONAL: Final = TierId(UUID("01900000-0000-7000-8000-000000000002"))
NOW: Final = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
CROWD: Final = 50


def acme(store: Store, slug: str = "acme", owner: UserId | None = None) -> Organization:
    return Organization(
        id=OrganizationId(store.ids.new()),
        slug=slug,
        name="Acme",
        status=OrganizationStatus.PENDING,
        tier=FREE,
        owner=owner,
        created_at=NOW,
        updated_at=NOW,
    )


async def add(store: Store, organization: Organization) -> Added | None:
    async with store.unit_of_work() as uow:
        added = await uow.organizations.add(organization)
        await uow.commit()
    return added


async def held(store: Store, organization: OrganizationId) -> HeldOrganization | None:
    async with store.unit_of_work() as uow:
        return await uow.organizations.find_for_update(organization)


async def test_all_of_it_is_kept(store: Store) -> None:
    account, _ = await store.sign_up()
    organization = acme(store)
    await add(store, organization)
    found = await held(store, organization.id)
    assert found is not None
    assert found.organization == organization
    assert (found.tier.id, found.tier.name, found.tier.default_max_users, found.member_count) == (FREE, "free", 100, 0)
    everything = replace(
        organization,
        name="Acme Two",
        status=OrganizationStatus.SUSPENDED,
        tier=PROFESSIONAL,
        owner=account.id,
        max_services=0,
        max_users=12,
        approved_at=NOW + timedelta(days=1),
        approved_by=account.id,
        rejected_at=NOW + timedelta(days=2),
        rejection_reason="not\x00 us",
        suspended_at=NOW + timedelta(days=3),
        suspension_reason="unpaid",
        updated_at=NOW + timedelta(days=4),
    )
    async with store.unit_of_work() as uow:
        await uow.organizations.find_for_update(organization.id)
        await uow.organizations.save(everything)
        await uow.commit()
    found = await held(store, organization.id)
    assert found is not None
    # PostgreSQL keeps no NUL.
    assert found.organization == replace(everything, rejection_reason=found.organization.rejection_reason)
    assert "\x00" not in (found.organization.rejection_reason or "\x00")
    assert found.tier.name == "professional"
    assert (found.user_limit.max_users, found.user_limit.source) == (12, LimitSource.CUSTOM)


async def test_saving_touches_neither_slug_nor_creation_nor_another(store: Store) -> None:
    one, other = acme(store, "one"), acme(store, "other")
    for organization in (one, other):
        await add(store, organization)
    async with store.unit_of_work() as uow:
        await uow.organizations.find_for_update(one.id)
        await uow.organizations.save(replace(one, slug="changed", name="Changed", created_at=NOW - timedelta(days=9)))
        await uow.commit()
    rows = await store.query("select slug, name, created_at from organizations order by slug")
    assert [(row["slug"], row["name"], row["created_at"]) for row in rows] == [("one", "Changed", NOW), ("other", "Acme", NOW)]


async def test_a_slug_is_given_once_and_is_free_again_when_its_organization_goes(store: Store) -> None:
    first = acme(store)
    assert await add(store, first) is not None
    assert await add(store, acme(store)) is None
    async with store.unit_of_work() as uow:
        assert await uow.organizations.delete(first.id, NOW)
        await uow.commit()
    assert await add(store, acme(store)) is not None
    assert await add(store, acme(store)) is None


async def test_adding_says_how_many_others_the_owner_has_and_how_many_of_them_wait(store: Store) -> None:
    ada, _ = await store.sign_up()
    grace, _ = await store.sign_up("grace@example.org")
    waiting = []
    for number in range(3):
        added = await add(store, acme(store, f"acme-{number}", ada.id))
        assert added is not None
        waiting.append((added.waiting, added.owned))
    assert waiting == [(0, 0), (1, 1), (2, 2)]
    await store.query("update organizations set status = 'active' where slug = 'acme-0'")
    async with store.unit_of_work() as uow:
        (row,) = await store.query("select id from organizations where slug = 'acme-1'")
        await uow.organizations.delete(row["id"], NOW)
        await uow.commit()
    assert await add(store, acme(store, "acme-3", ada.id)) == Added(1, 2)
    assert await add(store, acme(store, "acme-4", grace.id)) == Added(0, 0)


async def test_what_is_deleted_is_held_and_deleted_by_nobody(store: Store) -> None:
    organization = acme(store)
    await add(store, organization)
    async with store.unit_of_work() as uow:
        assert await uow.organizations.delete(organization.id, NOW)
        await uow.commit()
    assert await held(store, organization.id) is None
    async with store.unit_of_work() as uow:
        assert not await uow.organizations.delete(organization.id, NOW)
    assert await held(store, OrganizationId(store.ids.new())) is None


async def test_deleting_without_a_commit_leaves_it(store: Store) -> None:
    organization = acme(store)
    await add(store, organization)
    async with store.unit_of_work() as uow:
        assert await uow.organizations.delete(organization.id, NOW)
    assert await held(store, organization.id) is not None


async def test_of_fifty_who_change_it_each_sees_what_the_one_before_did(store: Store) -> None:
    """Also its tier: a row that is joined to must not be that of before the wait."""
    organization = acme(store)
    await add(store, organization)

    async def change() -> None:
        async with store.unit_of_work() as uow:
            found = await uow.organizations.find_for_update(organization.id)
            assert found is not None
            assert found.tier.id == found.organization.tier
            users = (found.organization.max_users or 0) + 1
            tier = PROFESSIONAL if found.organization.tier == FREE else FREE
            await uow.organizations.save(replace(found.organization, max_users=users, tier=tier))
            await uow.commit()

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(change)
    found = await held(store, organization.id)
    assert found is not None
    assert (found.organization.max_users, found.organization.tier) == (CROWD, FREE)


async def test_a_caller_who_waits_for_one_that_is_being_deleted_finds_none(store: Store) -> None:
    organization = acme(store)
    await add(store, organization)
    found: list[HeldOrganization | None] = []

    async def wait() -> None:
        found.append(await held(store, organization.id))

    async with store.unit_of_work() as uow:
        await uow.organizations.find_for_update(organization.id)
        await uow.organizations.delete(organization.id, NOW)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await store.somebody_waits()
            await uow.commit()
    assert found == [None]


async def test_what_refers_to_it_is_written_while_it_is_held(store: Store) -> None:
    account, _ = await store.sign_up()
    organization = acme(store)
    await add(store, organization)
    async with store.unit_of_work() as uow:
        await uow.organizations.find_for_update(organization.id)
        with trio.fail_after(PATIENCE):
            await store.query(
                "insert into sessions (id, user_id, organization_id, created_at, last_seen_at, expires_at)"
                " values (gen_random_uuid(), %(user)s, %(organization)s, now(), now(), now())",
                {"user": account.id, "organization": organization.id},
            )


# Ten thousand organizations, and somebody who belongs to twenty of them.

_FILL: Final = """
    insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, 2000) as n;
    insert into organizations (id, slug, name, status, created_at, updated_at)
    select gen_random_uuid(), 'o-' || n, 'O ' || n, 'active', now(), now() from generate_series(1, 10000) as n;
    insert into roles (id, org_id, slug, name, created_at, updated_at)
    select gen_random_uuid(), id, 'auditor', 'Auditor', now(), now() from all_organizations;
    insert into memberships (id, org_id, user_id, role, role_id, created_at)
    select gen_random_uuid(), o.id, u.id, 'auditor', roles.id, now()
      from (select id, row_number() over () as n from all_organizations) as o
      join (select id, row_number() over () as n from users) as u on u.n % 500 = o.n % 500
      join roles on roles.org_id = o.id;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), id, 'shop', 'Shop', 'web', gen_random_uuid(), now(), now() from all_organizations;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def test_of_very_many_the_list_has_ones_own_and_those_of_longest_standing(store: Store) -> None:
    account, _ = await store.sign_up()
    await store.query(
        "with added as ("
        "    insert into organizations (id, slug, name, status, created_at, updated_at)"
        "    select gen_random_uuid(), 'o-' || n, 'O ' || lpad(n::text, 4, '0'), 'active', now(), now()"
        "      from generate_series(1, %(most)s + 20) as n returning id, substr(slug, 3)::integer as n"
        ")"
        "insert into memberships (id, org_id, user_id, role, created_at)"
        " select gen_random_uuid(), id, %(user)s, case when n > %(most)s + 10 then 'owner' else 'member' end,"
        "        now() + n * interval '1 second'"
        "   from added",
        {"most": MOST_LISTED, "user": account.id},
    )
    # Organizations that are being deleted do not count against the limit.
    await store.query("update all_organizations set deleted_at = now() where slug = 'o-1'")
    listed = await OrganizationRows(Statements(store.pool)).list(account.id)
    expected = [*range(2, MOST_LISTED - 8), *range(MOST_LISTED + 11, MOST_LISTED + 21)]
    assert [one.organization.slug for one in listed] == [f"o-{number}" for number in expected]


async def test_the_list_and_the_detail_read_by_index_the_rows_that_they_show(fresh_store: Store) -> None:
    for statement in _FILL.split(";"):
        if statement.strip():
            await fresh_store.query(statement)
    await fresh_store.settle("users", "all_organizations", "roles", "memberships", "all_services")
    (row,) = await fresh_store.query("select user_id, org_id from memberships limit 1")
    user, organization = UserId(row["user_id"]), OrganizationId(row["org_id"])
    lookup = OrganizationRows(Statements(fresh_store.pool))
    assert len(await lookup.list(user)) == 20
    found = await lookup.find(organization, user)
    assert found is not None
    assert (found.organization.id, found.member_count, found.service_count, found.role_name) == (organization, 4, 1, "Auditor")
    for statement, most in ((LIST, 20), (GET, 1)):
        parameters = {"user": user, "organization": organization, "session": None, "most": MOST_LISTED}
        (row,) = await fresh_store.query(f"explain (analyze, format json) {statement}", parameters)
        plan = list(nodes(row["QUERY PLAN"][0]["Plan"]))
        read = {one["Relation Name"]: one for one in plan if "Relation Name" in one}
        # Two rows, and none.
        assert {name for name, one in read.items() if one["Node Type"] == "Seq Scan"} <= {"tiers", "mfa_secrets", "passkeys", "teams"}
        assert read["memberships"]["Actual Rows"] <= most
        assert read["all_organizations"]["Actual Rows"] * read["all_organizations"]["Actual Loops"] <= most
