"""Flows in PostgreSQL: whose they are, and what happens to each once."""

from datetime import timedelta

import pytest
import trio

from adapters.postgres.identity.flows import PostgresFlows
from core.domain.branding import POSTERN
from core.domain.identifiers import FlowId
from core.domain.identity.flows import LIFETIME, Flow, FlowOver, FlowPurpose, Prompt, Wanted
from core.frozen import replace
from tests.adapters.postgres.conftest import Store

WANTED = Wanted("ada@example.org", Prompt.LOGIN, 60, True, ("de", "en"), "acme", "Shop\0", "shop")


def new(store: Store) -> Flow:
    now = store.clock.now().replace(microsecond=0)
    return Flow(FlowId(store.ids.new()), FlowPurpose.AUTHORIZE, {"state": "x\0", "deep": [1, None]}, WANTED, now, now + LIFETIME)


async def add(store: Store, flow: Flow) -> Flow:
    async with store.unit_of_work() as uow:
        await uow.flows.add(flow, b"browser")
        await uow.commit()
    return flow


async def test_a_flow_is_found_as_it_was_begun_and_by_its_browser_alone(store: Store) -> None:
    flow, flows = await add(store, new(store)), PostgresFlows(store.pool)
    found = await flows.find(flow.id, b"browser")
    assert found == replace(
        flow, request={"state": "x\ufffd", "deep": [1, None]}, wanted=replace(WANTED, service_name="Shop\ufffd"), branding=POSTERN
    )
    assert await flows.find(flow.id, b"another") is None
    assert await flows.find(FlowId(store.ids.new()), b"browser") is None
    await store.query("update flows set expires_at = now()")
    assert await flows.find(flow.id, b"browser") is None


async def test_of_many_at_once_one_signs_in_and_one_completes(store: Store) -> None:
    account, session = await store.sign_up()
    flow = await add(store, new(store))
    won: list[str] = []

    async def race(number: int) -> None:
        async with store.unit_of_work() as uow:
            at = store.clock.now()
            if await uow.flows.sign_in(flow.id, account.id, b"%d" % number, at, by="password"):
                await uow.flows.keep(flow.id, session.id)
                won.append("signed in")
            if await uow.flows.complete(flow.id, at):
                won.append("completed")
            await uow.commit()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(race, number)
    assert sorted(won) == ["completed", "signed in"]
    found = await PostgresFlows(store.pool).find(flow.id, b"browser")
    assert found is not None
    assert (found.user, found.session) == (account.id, session.id)
    # What has been signed in by keeps its person.
    async with store.unit_of_work() as uow:
        await uow.flows.name(flow.id, "bob@example.org")
        await uow.commit()
    found = await PostgresFlows(store.pool).find(flow.id, b"browser")
    assert found is not None
    assert (found.user, found.email) == (account.id, "")


async def test_nothing_happens_to_a_flow_that_has_expired(store: Store) -> None:
    account, _ = await store.sign_up()
    flow = await add(store, new(store))
    late = flow.expires_at + timedelta(seconds=1)
    async with store.unit_of_work() as uow:
        assert not await uow.flows.sign_in(flow.id, account.id, b"digest", late, by="password")
        assert not await uow.flows.complete(flow.id, late)
    async with store.unit_of_work() as uow:
        await uow.flows.demand_completion(flow.id, late)
        with pytest.raises(FlowOver):
            await uow.commit()


async def test_a_completion_that_is_demanded_happens_once(store: Store) -> None:
    flow, at = await add(store, new(store)), store.clock.now()
    async with store.unit_of_work() as uow:
        await uow.flows.demand_completion(flow.id, at)
        await uow.commit()
    async with store.unit_of_work() as uow:
        await uow.flows.demand_completion(flow.id, at)
        with pytest.raises(FlowOver):
            await uow.commit()
    found = await PostgresFlows(store.pool).find(flow.id, b"browser")
    assert found is not None
    assert found.completed_at == at
