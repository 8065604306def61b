"""Organizations' own roles: their rows and relations, and that nobody is given one that is being deleted."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.roles import RoleRows
from core.domain.identifiers import RoleId
from core.domain.tenancy.roles import Assignable, Capability, Role, built_in
from core.frozen import replace
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants
from tests.patience import PATIENCE

CROWD: Final = 50
AUDITS, BILLS, SERVES = Capability.AUDIT_LOGS_VIEW, Capability.BILLING_MANAGE, Capability.SERVICES_VIEW


async def permitted(store: Store, role: Role) -> list[str]:
    rows = await store.query(
        "select organization_id, relation, object_type, object_id from relations where role_id = %(id)s order by relation", {"id": role.id}
    )
    assert {(row["organization_id"], row["object_type"], row["object_id"]) for row in rows} <= {
        (role.organization, "organization", role.organization)
    }
    return [row["relation"] for row in rows]


async def test_a_role_is_kept_with_what_it_permits(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex = await tenants.add(), await tenants.add("globex")
    role = await tenants.add_role(acme, permissions=[AUDITS, BILLS])
    lookup = RoleRows(Statements(store.pool))
    assert await lookup.find(acme, role.id) == role
    assert await lookup.list(acme) == [role]
    assert (await lookup.find(globex, role.id), await lookup.list(globex)) == (None, [])
    async with store.unit_of_work() as uow:
        assert await uow.roles.find_for_update(acme, role.id) == role
        assert await uow.roles.find_for_update(globex, role.id) is None
        assert (await uow.roles.count(acme), await uow.roles.count(globex)) == (1, 0)


async def test_saving_replaces_what_it_permits_and_nothing_of_others(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    role, other = await tenants.add_role(acme, permissions=[AUDITS, BILLS]), await tenants.add_role(acme, "other", [BILLS])
    for permissions in ({BILLS, SERVES}, set[Capability](), {AUDITS}, {AUDITS}):
        saved = replace(role, name="N", description="D", permissions=frozenset(permissions))
        async with store.unit_of_work() as uow:
            await uow.roles.save(saved)
            await uow.commit()
        assert await permitted(store, role) == sorted(permissions)
        assert await RoleRows(Statements(store.pool)).find(acme, role.id) == saved
    assert await permitted(store, other) == [BILLS]


async def test_a_slug_is_one_roles_in_each_organization(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex = await tenants.add(), await tenants.add("globex")
    await tenants.add_role(globex)
    added: list[bool] = []

    async def add() -> None:
        async with store.unit_of_work() as uow:
            done = await uow.roles.add(tenants.role(acme, permissions=[AUDITS]))
            await uow.commit()
        added.append(done)

    await at_once(*[add] * CROWD)
    assert sorted(added) == [False] * (CROWD - 1) + [True]
    assert await store.count("roles") == 2
    assert await store.count("relations") == 1


async def at_once(*tasks: Callable[[], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(task)


async def test_what_can_be_given_is_built_in_or_the_organizations_own(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, globex = await tenants.add(), await tenants.add("globex")
    role = await tenants.add_role(acme, permissions=[AUDITS])
    async with store.unit_of_work() as uow:
        round_trips.set(trips := TripCounter())
        assert await uow.roles.assignable(globex, "admin") == built_in("admin")
        assert trips.count == 0
        assert await uow.roles.assignable(acme, "auditor") == Assignable("auditor", role.id, frozenset({AUDITS}))
        assert await uow.roles.assignable(globex, "auditor") is None
        assert await uow.roles.assignable(acme, "auditor\0") is None


async def test_nobody_is_given_a_role_that_is_being_deleted(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    role = await tenants.add_role(acme)
    found: list[Assignable | None] = []

    async def look() -> None:
        async with store.unit_of_work() as uow:
            found.append(await uow.roles.assignable(acme, "auditor"))

    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        await uow.roles.find_for_update(acme, role.id)
        assert await uow.roles.delete(role.id)
        nursery.start_soon(look)
        await store.somebody_waits()
        assert found == []
        await uow.commit()
    assert found == [None]


async def test_who_is_given_a_role_while_it_changes_is_given_what_it_has_become(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    role = await tenants.add_role(acme, permissions=[AUDITS])
    found: list[Assignable | None] = []

    async def look() -> None:
        async with store.unit_of_work() as uow:
            found.append(await uow.roles.assignable(acme, "auditor"))

    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        await uow.roles.find_for_update(acme, role.id)
        await uow.roles.save(replace(role, permissions=frozenset({BILLS})))
        nursery.start_soon(look)
        await store.somebody_waits()
        assert found == []
        await uow.commit()
    assert found == [Assignable("auditor", role.id, frozenset({BILLS}))]


async def test_what_is_being_given_is_not_deleted_before_it_is_there(store: Store) -> None:
    tenants = StoredTenants(store)
    acme, (ada, _) = await tenants.add(), await store.sign_up()
    role = await tenants.add_role(acme)
    deleted: list[bool] = []

    async def delete() -> None:
        async with store.unit_of_work() as uow:
            await uow.roles.find_for_update(acme, role.id)
            deleted.append(await uow.roles.delete(role.id))
            await uow.commit()

    async with trio.open_nursery() as nursery, store.unit_of_work() as uow:
        assert await uow.roles.assignable(acme, "auditor")
        nursery.start_soon(delete)
        await store.somebody_waits()
        assert deleted == []
        assert await uow.members.add(tenants.membership(acme, ada, "auditor", role.id))
        await uow.commit()
    assert deleted == [False]


async def test_two_may_be_given_the_same_role_at_once(store: Store) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    await tenants.add_role(acme)
    async with store.unit_of_work() as one, store.unit_of_work() as other:
        assert await one.roles.assignable(acme, "auditor")
        with trio.fail_after(PATIENCE):
            assert await other.roles.assignable(acme, "auditor")


@pytest.mark.parametrize("status", ["pending", "accepted", "rejected", "cancelled", "expired"])
async def test_a_role_goes_with_its_relations_but_not_while_it_is_offered(store: Store, status: str) -> None:
    tenants = StoredTenants(store)
    acme = await tenants.add()
    role = await tenants.add_role(acme, permissions=[AUDITS])
    await store.query(
        """
        insert into invitations (id, org_id, email, email_key, role, role_id, token_digest, status, expires_at, created_at, closed_at)
        values (%(id)s, %(org)s, 'x', 'x', 'auditor', %(id)s, '', %(status)s, now(), now(),
                case when %(status)s <> 'pending' then now() end)
        """,
        {"id": role.id, "org": acme, "status": status},
    )
    async with store.unit_of_work() as uow:
        await uow.roles.find_for_update(acme, role.id)
        assert await uow.roles.delete(role.id) == (status != "pending")
        assert await uow.roles.delete(RoleId(store.ids.new())) is False
        await uow.commit()
    assert await store.count("relations") == (1 if status == "pending" else 0)
    assert await store.count("invitations") == 1
