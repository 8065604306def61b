"""Memberships: the rows after an addition, a change and a removal, and the cost of long lists."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import trio

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy import members
from adapters.postgres.tenancy.members import MemberRows
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.tenancy.roles import Assignable, BuiltInRole, Capability, built_in
from core.domain.tenancy.tiers import LimitSource, UserLimit
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

CROWD: Final = 50


async def relations(store: Store) -> list[tuple[Any, ...]]:
    rows = await store.query("select user_id, relation, object_type, object_id from relations where user_id is not null order by user_id")
    return [tuple(row.values()) for row in rows]


async def count_of(store: Store, organization: OrganizationId) -> int:
    """The kept number, which must be the real one."""
    (row,) = await store.query(
        """
        select member_count as kept, (select count(*) from memberships where org_id = %(id)s) as real
          from organizations
         where id = %(id)s
        """,
        {"id": organization},
    )
    assert row["kept"] == row["real"]
    number: int = row["kept"]
    return number


async def test_who_joins_is_a_member_with_the_relation_of_the_role_and_counts(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _), (bob, _) = await tenants.add(), await store.sign_up("ada@example.org"), await store.sign_up("bob@example.org")
    auditor = await tenants.add_role(acme, permissions=[Capability.AUDIT_LOGS_VIEW])
    of_ada, of_bob = await tenants.join(acme, ada, "admin"), await tenants.join(acme, bob, "auditor", auditor.id)
    assert sorted(await relations(store)) == sorted([(ada.id, "admin", "organization", acme), (bob.id, "holder", "role", auditor.id)])
    assert await count_of(store, acme) == 2
    async with store.unit_of_work() as uow:
        known = await uow.members.find_for_update(acme, ada.id, bob.id, UserId(store.ids.new()))
        assert await uow.members.find(acme, ada.id) == known[ada.id]
        assert await uow.members.find(acme, UserId(store.ids.new())) is None
    assert set(known) == {ada.id, bob.id}
    assert (known[ada.id].account.email, known[ada.id].membership, known[ada.id].capabilities) == (
        ada.email,
        of_ada,
        BuiltInRole(of_ada.role).capabilities,
    )
    assert (known[bob.id].membership, known[bob.id].capabilities) == (of_bob, frozenset({Capability.AUDIT_LOGS_VIEW}))


async def test_nobody_joins_twice_however_many_try_at_once(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    added: list[bool] = []

    async def join() -> None:
        async with store.unit_of_work() as uow:
            done = await uow.members.add(tenants.membership(acme, ada))
            await uow.commit()
        added.append(done)

    await at_once(*[join] * CROWD)
    assert sorted(added) == [False] * (CROWD - 1) + [True]
    assert await relations(store) == [(ada.id, "member", "organization", acme)]
    assert await count_of(store, acme) == 1


async def at_once(*tasks: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(task)


async def test_fifty_who_join_and_leave_at_once_are_counted_right(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    accounts = [(await store.sign_up(f"m{number}@example.org"))[0] for number in range(20)]
    for account in accounts[:10]:
        await tenants.join(acme, account)

    async def leave(user: UserId) -> None:
        async with store.unit_of_work() as uow:
            assert await uow.members.remove(acme, user)
            await uow.commit()

    await at_once(
        *[lambda user=account.id: leave(user) for account in accounts[:10]],
        *[lambda account=account: tenants.join(acme, account) for account in accounts[10:]],
    )
    assert await count_of(store, acme) == 10


async def test_a_change_of_any_role_leaves_one_relation(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    membership = await tenants.join(acme, ada)
    own = await tenants.add_role(acme)
    given = Assignable(own.slug, own.id, own.permissions)
    admin, member = built_in("admin"), built_in("member")
    assert admin is not None
    assert member is not None
    expected = {"admin": ("admin", "organization", acme), "member": ("member", "organization", acme), "auditor": ("holder", "role", own.id)}
    for role in (admin, given, given, member, member, given, admin):
        async with store.unit_of_work() as uow:
            changed = await uow.members.change_role(acme, ada.id, role)
            await uow.commit()
        assert changed is not None
        assert (changed.id, changed.role, changed.role_id, changed.created_at) == (membership.id, role.slug, role.id, membership.created_at)
        assert await relations(store) == [(ada.id, *expected[role.slug])]
    async with store.unit_of_work() as uow:
        assert await uow.members.change_role(acme, UserId(store.ids.new()), admin) is None


async def test_a_member_who_leaves_leaves_nothing_and_other_organizations_are_as_they_were(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex = await tenants.add(), await tenants.add("globex")
    ada, session = await store.sign_up()
    await tenants.join(acme, ada, "admin")
    await tenants.join(globex, ada, "member")
    await store.query("update sessions set organization_id = %(id)s", {"id": globex})
    async with store.unit_of_work() as uow:
        assert await uow.members.remove(acme, ada.id)
        assert not await uow.members.remove(acme, ada.id)
        await uow.commit()
    assert await relations(store) == [(ada.id, "member", "organization", globex)]
    assert (await count_of(store, acme), await count_of(store, globex)) == (0, 1)
    assert await store.query("select id from sessions where revoked_at is null") == [{"id": session.id}]


async def test_nobody_is_a_member_of_what_is_on_its_way_out(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    await tenants.join(acme, ada)
    async with store.unit_of_work() as uow:
        assert await uow.organizations.delete(acme, datetime.now(UTC))
        await uow.commit()
    async with store.unit_of_work() as uow:
        assert await uow.members.find_for_update(acme, ada.id) == {}
        assert await uow.members.enter("acme", ada.id, SessionId(UUID(int=0))) is None
    nobody = await MemberRows(Statements(store.pool)).list(acme, Page(), None, "")
    assert (nobody.members, nobody.total, nobody.limit.source) == ([], 0, LimitSource.DEFAULT)


async def test_who_holds_the_organization_keeps_the_next_waiting_and_shows_them_what_came_of_it(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    await tenants.join(acme, ada)
    seen: list[frozenset[Capability]] = []

    async def wait_for_it() -> None:
        async with store.unit_of_work() as uow:
            seen.append((await uow.members.find_for_update(acme, ada.id))[ada.id].capabilities)

    admin = built_in("admin")
    assert admin is not None
    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        await uow.members.find_for_update(acme)
        nursery.start_soon(wait_for_it)
        await store.somebody_waits()
        assert seen == []
        await uow.members.change_role(acme, ada.id, admin)
        await uow.commit()
    assert seen == [BuiltInRole.ADMIN.capabilities]


async def test_holding_and_finding_is_one_round_trip(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    await tenants.join(acme, ada)
    counted: list[int] = []
    for _ in ("warm", "measured"):
        async with store.unit_of_work() as uow:
            round_trips.set(trips := TripCounter())
            await uow.members.find_for_update(acme, ada.id)
            counted.append(trips.count)
            await uow.members.enter("acme", ada.id, SessionId(UUID(int=0)))
            counted.append(trips.count)
    assert counted[-2:] == [1, 2]


# Two thousand organizations; one of them has 11 000 members, the others fifteen each.
_FILL: Final = """
    insert into users (id, email, email_key)
    select gen_random_uuid(), 'u' || n || '@example.org', 'u' || n || '@example.org' from generate_series(1, 11000) as n;
    insert into organizations (id, slug, name, status, max_users, created_at, updated_at)
    select gen_random_uuid(), 'o-' || n, 'O', 'active', 50000, now(), now() from generate_series(0, 2000) as n;
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), organizations.id, users.id, case when users.id > 'f0000000-0000-0000-0000-000000000000' then 'admin'
           else 'member' end, now() - make_interval(secs => random() * 1000)
      from organizations
      join lateral (select id from users order by id limit case organizations.slug when 'o-0' then 11000 else 15 end) as users on true;
"""


async def test_the_list_of_one_organization_among_many_is_found_in_an_index_and_joins_its_page_alone(fresh_store: Store) -> None:
    for statement in _FILL.split(";")[:-1]:
        await fresh_store.query(statement)
    await fresh_store.settle("users", "all_organizations", "memberships")
    (row,) = await fresh_store.query("select id from organizations where slug = 'o-0'")
    large = OrganizationId(row["id"])
    for statement in (members._LIST, members._LIST_OF_ROLE):
        for offset in (0, 1_000):
            values = {"organization": large, "role": "admin", "limit": 50, "offset": offset, "most_counted": MOST_ROWS_COUNTED}
            async with fresh_store.pool.connection() as connection:
                cursor = await connection.execute(f"explain (analyze, format json) {statement}".encode(), values)
                found = await cursor.fetchone()
            assert found is not None
            nodes = _nodes(found[0][0]["Plan"])
            # The tiers are two rows.
            read = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
            assert set(read) <= {"tiers"}, (offset, statement, _said(nodes))
            joined = [node for node in nodes if node.get("Relation Name") == "users"]
            assert sum(node["Actual Rows"] * node["Actual Loops"] for node in joined) <= 50
            if statement is members._LIST:
                # Nothing is sorted but the page, and only the page's own rows are read.
                assert "Index Only Scan" in {node["Node Type"] for node in nodes if node.get("Relation Name") == "memberships"}
                assert max(node["Actual Rows"] for node in nodes if node["Node Type"] == "Sort") <= 50
    listed = MemberRows(Statements(fresh_store.pool))
    everybody, plain = await listed.list(large, Page(), None, ""), await listed.list(large, Page(), "member", "")
    assert (everybody.total, plain.total) == (11_000, MOST_ROWS_COUNTED)
    assert (await listed.list(large, Page(), None, "")).limit == UserLimit(50_000, LimitSource.CUSTOM)


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in _nodes(inner))]


def _said(nodes: list[dict[str, Any]]) -> list[str]:
    return [f"{node['Node Type']} {node.get('Relation Name', '')} {node['Actual Rows']} x {node['Actual Loops']}" for node in nodes]
