"""Among many services, one index finds a client by its id, whether the id is the service's own or one that it has kept."""

from typing import Any
from uuid import UUID

import pytest

from adapters.postgres.columns import array
from adapters.postgres.federation.authorizations import FIND as FIND_AUTHORIZATION_CONTEXT
from adapters.postgres.federation.clients import FIND_CLIENT, PostgresClients
from core.domain.identifiers import ClientId
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.questions import generic_plan
from tests.adapters.postgres.tenants import StoredTenants

INDEX = "services_oauth_client_id"
OWN = ClientId(str(UUID(int=7)))
KEPT = ClientId("shop-frontend")


async def street(store: Store) -> None:
    acme = await StoredTenants(store).add("acme")
    await store.query(
        "insert into all_services (id, org_id, slug, name, service_type, client_id, kept_client_id, created_at, updated_at)"
        " select gen_random_uuid(), %(org)s, 's' || n, 'S', 'web', case n when 7 then %(own)s::uuid else gen_random_uuid() end,"
        "        case n when 8 then %(kept)s end, now(), now()"
        "   from generate_series(1, 2000) as n",
        {"org": acme, "own": OWN, "kept": KEPT},
    )
    await store.query("analyze")


async def test_one_statement_finds_both_kinds_of_ids(fresh_store: Store) -> None:
    await street(fresh_store)
    clients = PostgresClients(fresh_store.pool)
    for client, slug in ((OWN, "s7"), (KEPT, "s8")):
        async with fresh_store.pool.connection() as connection:
            before = connection.round_trips
        found = await clients.find(client, None)
        assert found is not None
        assert (found.client, found.context.service_slug) == (client, slug)
        async with fresh_store.pool.connection() as connection:
            assert connection.round_trips - before == 1
    assert await clients.find(ClientId("another-frontend"), None) is None


@pytest.mark.parametrize("client", [OWN, KEPT])
async def test_the_index_finds_the_client(fresh_store: Store, client: ClientId) -> None:
    await street(fresh_store)
    parameters: dict[str, Any] = {"clients": array([client]), "digests": array(["null"])}
    plan = "\n".join(row["QUERY PLAN"] for row in await fresh_store.query(f"explain (costs off) {FIND_CLIENT}", parameters))
    assert INDEX in plan, plan
    assert "Seq Scan on all_services" not in plan, plan


async def test_the_index_finds_it_for_a_prepared_statement(fresh_store: Store) -> None:
    await street(fresh_store)
    for statement in (FIND_CLIENT, FIND_AUTHORIZATION_CONTEXT):
        steps = await generic_plan(fresh_store.url, statement)
        assert INDEX in {step.get("Index Name") for step in steps}, statement
