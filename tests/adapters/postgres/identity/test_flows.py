"""Flows in PostgreSQL: their owners, and the steps that each takes only once."""

from datetime import timedelta

import pytest
import trio

from adapters.postgres.identity.proofs.flows import FlowRows
from adapters.postgres.statements import Statements
from core.domain.branding import POSTERN
from core.domain.identifiers import FlowId
from core.domain.identity.flows import LIFETIME, Flow, FlowPurpose, Prompt, SignInRequirements
from core.domain.identity.sign_in import LastLook
from core.frozen import replace
from tests.adapters.postgres.conftest import Store

WANTED = SignInRequirements("ada@example.org", Prompt.LOGIN, 60, True, ("de", "en"), "acme", "Shop\0", "shop")


def new(store: Store) -> Flow:
    now = store.clock.now().replace(microsecond=0)
    return Flow(FlowId(store.ids.new()), FlowPurpose.AUTHORIZE, {"state": "x\0", "deep": [1, None]}, WANTED, now, now + LIFETIME)


async def add(store: Store, flow: Flow) -> Flow:
    async with store.unit_of_work() as uow:
        await uow.flows.add(flow, b"browser")
        await uow.commit()
    return flow


async def test_a_flow_is_found_as_it_was_begun_and_by_its_browser_alone(store: Store) -> None:
    flow, flows = await add(store, new(store)), FlowRows(Statements(store.pool))
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
            confirmed = await uow.sign_ins.confirm(LastLook(user=account.id, flow=flow.id))
            if confirmed is not None and confirmed.flow_is_open:
                await uow.flows.sign_in(flow.id, account.id, b"%d" % number, session.id, at, by="password")
                won.append("signed in")
            if await uow.flows.complete(flow.id, at):
                won.append("completed")
            await uow.commit()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(race, number)
    assert sorted(won) == ["completed", "signed in"]
    found = await FlowRows(Statements(store.pool)).find(flow.id, b"browser")
    assert found is not None
    assert (found.user, found.session) == (account.id, session.id)
    # A flow by which a person has signed in keeps its person.
    async with store.unit_of_work() as uow:
        await uow.flows.name(flow.id, "bob@example.org")
        await uow.commit()
    found = await FlowRows(Statements(store.pool)).find(flow.id, b"browser")
    assert found is not None
    assert (found.user, found.email) == (account.id, "")


async def test_nothing_happens_to_a_flow_that_has_expired(store: Store) -> None:
    account, _ = await store.sign_up()
    flow = await add(store, new(store))
    late = flow.expires_at + timedelta(seconds=1)
    look = LastLook(user=account.id, flow=flow.id)
    async with store.unit_of_work() as uow:
        open_still = await uow.sign_ins.confirm(look)
    await store.query("update flows set expires_at = now()")
    async with store.unit_of_work() as uow:
        over = await uow.sign_ins.confirm(look)
        assert [one is not None and one.flow_is_open for one in (open_still, over)] == [True, False]
        assert not await uow.flows.complete(flow.id, late)


@pytest.mark.parametrize("refused", [False, True])
async def test_a_flow_is_completed_once_and_keeps_how(store: Store, refused: bool) -> None:
    flow, at = await add(store, new(store)), store.clock.now()
    async with store.unit_of_work() as uow:
        assert await uow.flows.complete(flow.id, at, refused=refused)
        await uow.commit()
    async with store.unit_of_work() as uow:
        assert not await uow.flows.complete(flow.id, at, refused=not refused)
        await uow.commit()
    found = await FlowRows(Statements(store.pool)).find(flow.id, b"browser")
    assert found is not None
    assert (found.completed_at, found.refused) == (at, refused)
