"""The recorder of refusals: no request waits for it, and it loses only refusals that find no room."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import trio
from trio.testing import MockClock

from actors.recorders import RefusalRecorder
from core.domain.errors import Unavailable
from core.domain.federation.authorization_refusals import (
    AuthorizationRefusal,
    DocumentRefusal,
    ListedRefusal,
    RefusingEndpoint,
)
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.identifiers import AuthorizationRefusalId, ClientId, OrganizationId, ResourceServerId, UserId
from tests.actors.observed import RememberedMetrics
from tests.conftest import CapturedLog


def refusal() -> AuthorizationRefusal:
    return AuthorizationRefusal(
        id=AuthorizationRefusalId(uuid4()),
        client=ClientId(str(uuid4())),
        at=RefusingEndpoint.TOKEN,
        reason=RefusalReason.SECRET_WRONG,
        received="",
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


class RefusalStore:
    """A store that takes refusals, unless it is away, and never takes those of one client."""

    def __init__(self, *, refused: ClientId | None = None) -> None:
        self.written: list[AuthorizationRefusal | DocumentRefusal] = []
        self.away = 0
        self._refused = refused

    async def add(self, refusals: Sequence[AuthorizationRefusal | DocumentRefusal]) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable(retry_after=1)
        if self._refused in {one.client for one in refusals if isinstance(one, AuthorizationRefusal)}:
            raise ValueError("not this one")
        self.written += refusals

    async def list(self, _organization: OrganizationId, _service_slug: str) -> Sequence[ListedRefusal]:
        return []

    async def list_of_api(self, _organization: OrganizationId, _api: ResourceServerId) -> Sequence[DocumentRefusal]:
        return []

    async def find_looked_after(self, _client: ClientId, _user: UserId) -> None:
        return None


@pytest.mark.parametrize("away", [0, 2])
async def test_what_is_recorded_is_written_also_after_an_outage(
    away: int,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    store, told = RefusalStore(), [refusal(), refusal(), refusal()]
    store.away = away
    recorder = RefusalRecorder(store, RememberedMetrics(), spread=lambda: 0.5)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        recorder.record(told[0])
        recorder.record(told[1])
        await trio.sleep(5)
        assert store.written == told[:2]
        recorder.record(told[2])
        nursery.cancel_scope.cancel()
    assert store.written == told, "what waits at the end is written"


async def test_a_refusal_that_cannot_be_written_costs_no_other_application_its_own(
    log: CapturedLog,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    log.allow("work_broken")
    told = [refusal(), refusal(), refusal()]
    store, metrics = RefusalStore(refused=told[1].client), RememberedMetrics()
    recorder = RefusalRecorder(store, metrics, spread=lambda: 0.5)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        for one in told:
            recorder.record(one)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert store.written == [told[0], told[2]]
    assert metrics.broken == {"refusal_recorder": 1}


async def test_what_there_is_no_room_for_is_dropped_and_told(
    log: CapturedLog,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    store, told = RefusalStore(), [refusal(), refusal()]
    recorder = RefusalRecorder(store, RememberedMetrics(), spread=lambda: 0.5, most=1)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        for one in told:
            recorder.record(one)
        await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert store.written == told[:1]
    (dropped,) = log.events("authorization_refusals_dropped")
    assert dropped["refusals"] == 1
