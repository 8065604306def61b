"""What sign-ins of a process wait for hooks."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from core.domain import causes
from core.domain.identifiers import HookId, OrganizationId
from core.domain.tenancy.hooks import Hook, HookSilence
from core.usecases.tenancy import hook_asking
from core.usecases.tenancy.hook_asking import ENOUGH, LATELY, HookWaits, SlowHook
from tests.usecases.set_clock import SetClock

ACME = OrganizationId(UUID(int=1))


def hook(organization: OrganizationId | None = ACME) -> Hook:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Hook(
        id=HookId(uuid4()),
        organization=organization,
        address="https://hooks.example.org/",
        silence=HookSilence.REFUSE,
        since=at,
        secret_made_at=at,
        created_at=at,
        updated_at=at,
    )


def test_a_request_takes_what_it_has_waited_once() -> None:
    waits, one, other = HookWaits(SetClock()), uuid4(), uuid4()
    for request, seconds in ((one, 0.5), (other, 2.0), (one, 0.25)):
        with causes.caused_by(request):
            waits.waited(seconds)
    waits.waited(9.0)
    assert [waits.taken(str(request)) for request in (one, one, other, uuid4())] == [0.75, 0.0, 2.0, 0.0]


def test_a_hook_is_slow_if_one_answer_in_ten_is() -> None:
    waits = HookWaits(SetClock())
    slow, slower, quick, once, one_of_twenty = hook(), hook(None), hook(), hook(), hook()
    for number in range(20):
        waits.answered(slow, 1.5 if number < 3 else 0.1)
        waits.answered(slower, 4.0)
        waits.answered(quick, 0.9)
        waits.answered(one_of_twenty, 0.1 if number else 5.0)
    for _ in range(ENOUGH - 1):
        waits.answered(once, 5.0)
    assert waits.slow() == [SlowHook(slower.id, None, 4.0), SlowHook(slow.id, ACME, 1.5)]


def test_what_was_slow_a_while_ago_is_forgotten() -> None:
    clock = SetClock()
    waits, one = HookWaits(clock), hook()
    for _ in range(ENOUGH):
        waits.answered(one, 5.0)
    assert len(waits.slow()) == 1
    clock.pass_(LATELY + timedelta(seconds=1))
    assert waits.slow() == []


def test_a_process_remembers_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_asking, "_MOST_HOOKS", 2)
    monkeypatch.setattr(hook_asking, "_MOST_REQUESTS", 2)
    waits, hooks, requests = HookWaits(SetClock()), [hook() for _ in range(3)], [uuid4() for _ in range(3)]
    for one, request in zip(hooks, requests, strict=True):
        for _ in range(ENOUGH):
            waits.answered(one, 2.0)
            with causes.caused_by(request):
                waits.waited(2.0)
    assert {one.hook for one in waits.slow()} == {one.id for one in hooks[1:]}
    assert [waits.taken(str(request)) for request in requests] == [0.0, 2.0 * ENOUGH, 2.0 * ENOUGH]
