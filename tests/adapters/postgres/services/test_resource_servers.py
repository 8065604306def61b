"""Resource servers in PostgreSQL: whose an identifier is, and which resource server a client asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
import trio

from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.services.resource_servers import (
    SETTLES_AFTER,
    Admits,
    ResourceScope,
    ResourceServer,
    ResourceServerSettings,
    ResourceState,
    made,
)
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import replace
from ports.services.services import Given
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

API = "https://api.acme.example/orders"
READ = ResourceScope("orders:read", "See your orders", "orders.read")
WEEK = timedelta(days=7)


@dataclass
class Apis:
    store: Store
    acme: OrganizationId
    globex: OrganizationId

    @property
    def now(self) -> datetime:
        return self.store.clock.now()

    async def add(self, of: OrganizationId, identifier: str = API, **settings: Any) -> ResourceServer:
        given = ResourceServerSettings(name="Orders", **settings)
        server = made(self.store.ids.new(), of, identifier, given, token="t" * 43, now=self.now)
        async with self.store.unit_of_work() as uow:
            named = await uow.resource_servers.services(of, server.admitted, server.service_slug)
            server = replace(server, service=named.ids.get(server.service_slug or ""))
            assert await uow.resource_servers.add(server)
            await uow.commit()
        return server

    async def prove(self, server: ResourceServer) -> tuple[Sequence[ResourceServer], Given | None]:
        async with self.store.unit_of_work() as uow:
            superseded = await uow.resource_servers.claim(server)
            given = await uow.resource_servers.prove(server, self.now, self.now + WEEK)
            if given is not None:
                await uow.commit()
            return superseded, given

    async def approve(self, server: ResourceServer) -> Given | None:
        async with self.store.unit_of_work() as uow:
            found = await uow.resource_servers.find(server.id)
            assert found is not None
            given = await uow.resource_servers.approve(found, self.now)
            await uow.commit()
            return given

    async def remove(self, server: ResourceServer) -> None:
        async with self.store.unit_of_work() as uow:
            await uow.resource_servers.remove(server.id)
            await uow.commit()

    async def get(self, server: ResourceServer) -> ResourceServer:
        async with self.store.unit_of_work() as uow:
            found = await uow.resource_servers.find_own(server.organization, server.id)
        assert found is not None
        return found

    async def state(self, server: ResourceServer) -> ResourceState:
        return (await self.get(server)).state(self.now)

    async def service(self, of: OrganizationId, slug: str) -> ServiceId:
        id_ = ServiceId(self.store.ids.new())
        await self.store.query(
            """
            insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
            values (%(id)s, %(of)s, %(slug)s, %(slug)s, %(type)s, gen_random_uuid(), now(), now())
            """,
            {"id": id_, "of": of, "slug": slug, "type": ServiceType.API.value},
        )
        return id_


@pytest.fixture
async def apis(store: Store) -> Apis:
    tenants = StoredTenants(store)
    return Apis(store, await tenants.add("acme"), await tenants.add("globex"))


async def test_what_is_saved_is_read(apis: Apis) -> None:
    shop = await apis.service(apis.acme, "shop")
    await apis.service(apis.acme, "till")
    server = await apis.add(apis.acme, service_slug="shop", admits=Admits.NAMED, admitted=("till",), scopes=(READ,), token_lifetime=300)
    assert server.service == shop
    assert await apis.get(server) == server
    changed = replace(
        server,
        name="Bills",
        access_token_alg=TokenAlgorithm.RS256,
        service=None,
        service_slug=None,
        admitted=(),
        admits=Admits.ALL,
        scopes=(),
    )
    async with apis.store.unit_of_work() as uow:
        await uow.resource_servers.save(changed)
        assert await uow.resource_servers.list(apis.acme) == [changed]
        assert await uow.resource_servers.list(apis.globex) == []
        assert not await uow.resource_servers.add(changed)


async def test_a_deleted_service_is_not_named_and_stands_for_nothing(apis: Apis) -> None:
    till = await apis.service(apis.acme, "till")
    server = await apis.add(apis.acme, admits=Admits.ALL, service_slug="till")
    named = await apis.add(apis.acme, f"{API}/2", admitted=("till",))
    await apis.store.query("update all_services set deleted_at = now() where id = %(id)s", {"id": till})
    assert (await apis.get(server)).service_slug is None
    assert (await apis.get(named)).admitted == ()
    await apis.store.query("delete from all_services where id = %(id)s", {"id": till})
    assert (await apis.get(server)).service is None


async def test_claims_that_wait_block_nobody_and_of_two_proofs_one_counts(apis: Apis) -> None:
    ours, theirs = await apis.add(apis.acme), await apis.add(apis.globex)
    outcomes: list[Given | None] = []

    async def prove(server: ResourceServer) -> None:
        outcomes.append((await apis.prove(server))[1])

    async with trio.open_nursery() as nursery:
        for server in (ours, theirs):
            nursery.start_soon(prove, server)
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    states = {await apis.state(server) for server in (ours, theirs)}
    assert states == {ResourceState.ACTIVE, ResourceState.WAITING}


async def test_the_whole_host_is_that_of_the_proof(apis: Apis) -> None:
    ours, theirs = await apis.add(apis.acme), await apis.add(apis.globex, "https://api.acme.example:8443/other")
    assert (await apis.prove(ours))[1] == Given(await apis.get(ours), True)
    assert (await apis.prove(theirs))[1] is None
    assert await apis.approve(theirs) is None
    assert await apis.state(theirs) is ResourceState.WAITING


async def test_a_proof_ends_approvals_on_the_host_and_the_new_owner_waits_for_their_tokens(apis: Apis) -> None:
    squatter, beside = await apis.add(apis.globex), await apis.add(apis.globex, f"{API}/2")
    own, ours = await apis.add(apis.acme, f"{API}/3"), await apis.add(apis.acme)
    for server in (squatter, beside, own):
        given = await apis.approve(server)
        assert given is not None
        assert given.is_new
    superseded, given = await apis.prove(ours)
    assert {one.id for one in superseded} == {squatter.id, beside.id}
    assert given is not None
    assert given.server.settles_at == given.server.updated_at + SETTLES_AFTER
    assert [await apis.state(one) for one in (squatter, beside, own, ours)] == [
        *(ResourceState.WAITING, ResourceState.WAITING, ResourceState.ACTIVE, ResourceState.SETTLING)
    ]
    assert (await apis.get(ours)).state(apis.now + SETTLES_AFTER) is ResourceState.ACTIVE
    assert await apis.approve(squatter) is None
    # Proving again does not begin the wait again.
    again = (await apis.prove(await apis.get(ours)))[1]
    assert again is not None
    assert again.server.settles_at == given.server.settles_at
    assert not again.is_new


@pytest.mark.parametrize("variant", [API, f"{API}/", API.replace("orders", "Orders")])
async def test_an_identifier_with_a_proof_is_never_given_to_anybody_else(apis: Apis, variant: str) -> None:
    ours = await apis.add(apis.acme)
    assert (await apis.prove(ours))[1] is not None
    await apis.remove(ours)
    theirs = await apis.add(apis.globex, variant)
    assert (await apis.prove(theirs))[1] is None
    assert await apis.approve(theirs) is None
    anew = await apis.add(apis.acme)
    assert (await apis.prove(anew))[1] is not None
    assert await apis.state(anew) is ResourceState.ACTIVE
    # Not even when the organization is gone.
    await apis.store.query("delete from resource_servers where org_id = %(id)s", {"id": apis.acme})
    assert (await apis.prove(theirs))[1] is None


async def test_an_approved_identifier_goes_to_a_proof_alone(apis: Apis) -> None:
    ours = await apis.add(apis.acme)
    assert await apis.approve(ours) is not None
    assert await apis.approve(ours) is None
    await apis.remove(ours)
    theirs = await apis.add(apis.globex)
    assert await apis.approve(theirs) is None
    given = (await apis.prove(theirs))[1]
    assert given is not None
    assert await apis.state(theirs) is ResourceState.SETTLING
    assert (await apis.prove(await apis.add(apis.acme)))[1] is None


async def test_an_approval_after_a_lost_proof_does_not_free_the_identifier(apis: Apis) -> None:
    ours, theirs = await apis.add(apis.acme), await apis.add(apis.globex)
    assert (await apis.prove(ours))[1] is not None
    await apis.store.query("update resource_servers set verified_at = null, next_check_at = null")
    assert await apis.approve(ours) is not None
    assert (await apis.prove(theirs))[1] is None
    assert await apis.state(ours) is ResourceState.ACTIVE


async def test_a_proved_route_of_another_organization_bars_proof_and_approval(apis: Apis) -> None:
    await apis.store.query(
        """
        insert into domain_routes
               (id, org_id, domain, token, verified_at, next_check_at, login_policy, join_policy, created_at, updated_at)
        values (gen_random_uuid(), %(of)s, 'api.acme.example', 'token', now(), now(), 'password_allowed', 'off', now(), now())
        """,
        {"of": apis.globex},
    )
    ours = await apis.add(apis.acme)
    assert await apis.approve(ours) is None
    assert (await apis.prove(ours))[1] is None
    async with apis.store.unit_of_work() as uow:
        existing = await uow.resource_servers.existing(apis.globex, API, ours.host)
    assert (existing.token, existing.is_proved) == ("token", True)


async def test_a_proved_domain_of_another_organization_bars_proof_and_approval(apis: Apis) -> None:
    await apis.store.query(
        """
        insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)
        values (gen_random_uuid(), %(of)s, 'api.acme.example', 'token', now(), now(), now(), now())
        """,
        {"of": apis.globex},
    )
    ours, theirs = await apis.add(apis.acme), await apis.add(apis.globex)
    assert await apis.approve(ours) is None
    assert (await apis.prove(ours))[1] is None
    async with apis.store.unit_of_work() as uow:
        existing = await uow.resource_servers.existing(apis.globex, API, theirs.host)
        assert (existing.token, existing.is_proved, existing.has_identifier, existing.count) == ("token", True, True, 1)
        nothing = await uow.resource_servers.existing(apis.acme, "https://other.example/", "other.example")
        assert (nothing.token, nothing.is_proved, nothing.has_identifier, nothing.count) == (None, False, False, 1)
    assert (await apis.prove(theirs))[1] is not None


async def test_the_list_of_those_that_ask(apis: Apis) -> None:
    first, second, silent = await apis.add(apis.acme), await apis.add(apis.globex), await apis.add(apis.acme, f"{API}/2")
    proved = await apis.add(apis.globex, "https://other.example/")
    async with apis.store.unit_of_work() as uow:
        rows = uow.resource_servers
        assert await rows.approvals(10) == []
        for server in (first, second):
            assert await rows.ask_approval(server.id, apis.now)
            assert not await rows.ask_approval(server.id, apis.now)
        await uow.commit()
    await apis.prove(proved)
    async with apis.store.unit_of_work() as uow:
        listed = await uow.resource_servers.approvals(9)
        assert [(one.server.id, one.organization_slug, one.organization_name, one.proved_elsewhere) for one in listed] == [
            (first.id, "acme", "Acme", False),
            (second.id, "globex", "Globex", False),
        ]
        assert await uow.resource_servers.approvals(1) == listed[:1]
        assert not await uow.resource_servers.ask_approval(proved.id, apis.now)
    await apis.prove(silent)
    async with apis.store.unit_of_work() as uow:
        assert [one.proved_elsewhere for one in await uow.resource_servers.approvals(9)] == [False, True]


async def test_a_lost_proof_waits_again(apis: Apis) -> None:
    server = await apis.add(apis.acme)
    await apis.prove(server)
    async with apis.store.unit_of_work() as uow:
        (due,) = await uow.resource_servers.claim_due(apis.now + WEEK, apis.now + WEEK, 9)
        assert (str(due.id), due.identifier, due.name) == (str(server.id), API, "api.acme.example")
        missed = await uow.resource_servers.missed(due, apis.now, apis.now, 1)
        assert missed is not None
        assert not missed.is_verified
        await uow.commit()
    assert await apis.state(server) is ResourceState.WAITING
    assert await apis.approve(server) is not None
    async with apis.store.unit_of_work() as uow:
        assert await uow.resource_servers.withdraw_approval(server.id, apis.now)
        assert not await uow.resource_servers.withdraw_approval(server.id, apis.now)
        await uow.commit()
    assert await apis.state(server) is ResourceState.WAITING
