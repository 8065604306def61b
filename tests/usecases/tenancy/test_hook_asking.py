"""Hooks that rest, hooks that a process forgets, and a door that tells nothing of a person."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID, uuid4

import pytest
import trio

from adapters.outbound.hook_places import FairHookPlaces
from core.domain.claims import DescribedPerson
from core.domain.identifiers import HookId, OrganizationId, ServiceId, UserId
from core.domain.identity.guards.hook_verdicts import AskingDoor, HooksBusy, Tells
from core.domain.mail import Email
from core.domain.tenancy.hooks import RESTING, Hook, HookPeople, HookSilence, HookSilent
from core.frozen import replace
from core.usecases.tenancy import hook_asking
from core.usecases.tenancy.hook_asking import FAILURES_OF_PERSON, PAUSE_OF_PERSON, REST, HookAsking, HookBreakers, HookWaits
from ports.outbound import OutboundAnswer, OutboundRequest
from ports.tenancy.hooks import AskedHooks, SealedHook
from tests.usecases.set_clock import SetClock

NOW: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
ADA: Final = DescribedPerson(
    user=UserId(UUID(int=1)),
    email=Email("ada@example.org"),
    email_is_verified=True,
    organization=OrganizationId(UUID(int=2)),
    organization_slug="acme",
    role="member",
)


def a_hook() -> Hook:
    return Hook(
        id=HookId(uuid4()),
        organization=OrganizationId(UUID(int=2)),
        address="https://hook.example/",
        silence=HookSilence.REFUSE,
        counts_as=uuid4(),
        since=NOW,
        secret_made_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )


ACME: Final = OrganizationId(UUID(int=2))
MEMBERS: Final = HookPeople.MEMBERS
PEOPLE: Final = [UserId(UUID(int=number)) for number in range(10, 15)]


def fails(breakers: HookBreakers, hook: Hook, people: Sequence[UserId] = PEOPLE, kind: HookPeople = MEMBERS) -> None:
    for person in people:
        breakers.admit(hook, ACME, kind)
        breakers.failed(hook, ACME, kind, person)


def rests(breakers: HookBreakers, hook: Hook, organization: OrganizationId = ACME, kind: HookPeople = MEMBERS) -> bool:
    try:
        breakers.admit(hook, organization, kind)
    except HookSilent as silent:
        return silent.why == RESTING
    return False


def test_one_question_goes_through_after_the_rest_and_the_next_one_rests_anew() -> None:
    clock, hook = SetClock(NOW), a_hook()
    breakers = HookBreakers(clock)
    fails(breakers, hook)
    assert rests(breakers, hook)
    clock.at += REST
    assert not rests(breakers, hook)
    # It is still on its way: nobody has heard what it says.
    assert rests(breakers, hook)
    clock.at += REST / 2
    assert rests(breakers, hook)
    clock.at += REST / 2
    assert not rests(breakers, hook)
    breakers.answered(hook, ACME, MEMBERS)
    assert not rests(breakers, hook)
    assert not rests(breakers, hook)


def test_whoever_failed_longest_ago_is_forgotten_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_asking, "_MOST_KNOWN", 2)
    breakers, first, second, third = HookBreakers(SetClock(NOW)), a_hook(), a_hook(), a_hook()
    fails(breakers, first)
    fails(breakers, second)
    assert [rests(breakers, one) for one in (first, second)] == [True, True]
    fails(breakers, third)
    assert [rests(breakers, one) for one in (first, second, third)] == [False, True, True]


def test_fewer_than_three_people_make_no_rest_however_often_they_fail() -> None:
    breakers, hook = HookBreakers(SetClock(NOW)), a_hook()
    fails(breakers, hook, PEOPLE[:2] * 50)
    assert not rests(breakers, hook)
    fails(breakers, hook, PEOPLE[2:3])
    assert rests(breakers, hook)


@pytest.mark.parametrize("kind", HookPeople)
def test_a_rest_is_of_one_kind_of_people_in_one_organization(kind: HookPeople) -> None:
    """Of the installation's hook, too: what one tenant's people do to it says nothing of another's."""
    breakers, hook = HookBreakers(SetClock(NOW)), replace(a_hook(), organization=None)
    fails(breakers, hook, kind=kind)
    assert rests(breakers, hook, kind=kind)
    assert not any(rests(breakers, hook, kind=other) for other in HookPeople if other is not kind)
    assert not rests(breakers, hook, OrganizationId(UUID(int=3)), kind)
    # What a hook did in shadow says nothing once it counts.
    assert not rests(breakers, replace(hook, counts_as=uuid4()), kind=kind)


def waits(breakers: HookBreakers, hook: Hook, person: UserId, organization: OrganizationId = ACME) -> float | None:
    try:
        breakers.require_patience(hook, organization, person)
    except HooksBusy as busy:
        return busy.retry_after
    return None


def test_after_five_failures_in_a_minute_nobody_is_asked_about_that_person_for_a_minute() -> None:
    clock, hook, (ada, bob) = SetClock(NOW), a_hook(), PEOPLE[:2]
    breakers = HookBreakers(clock)
    for _ in range(FAILURES_OF_PERSON):
        assert waits(breakers, hook, ada) is None
        breakers.failed_about(hook, ACME, ada)
    assert waits(breakers, hook, ada) == PAUSE_OF_PERSON.total_seconds()
    assert waits(breakers, hook, bob) is None
    # An organization's hook keeps nobody from another organization.
    assert waits(breakers, hook, ada, OrganizationId(UUID(int=3))) is None
    clock.at += PAUSE_OF_PERSON
    assert waits(breakers, hook, ada) is None
    # Those of before are a minute old, and count no more.
    breakers.failed_about(hook, ACME, ada)
    assert waits(breakers, hook, ada) is None


class Receiving:
    """Stands in for the hook's receiver, and for every store on the way to it."""

    def __init__(self, hook: Hook) -> None:
        self.asked = AskedHooks(
            hooks=[SealedHook(hook, b"c2VjcmV0", None)],
            organization_slug="acme",
            application={"client_id": "c", "slug": "app", "name": "App"},
            person=ADA,
            has_second_factor=False,
            has_passkey=False,
            is_new_device=False,
            is_owner=False,
            people=HookPeople.MEMBERS,
        )
        self.bodies: list[dict[str, Any]] = []
        self.hooks = SimpleNamespace(record=self.record)
        self.recorded: list[str] = []

    async def to_ask(self, _: AskingDoor) -> AskedHooks:
        return self.asked

    async def record(self, exchange: Any) -> None:
        self.recorded.append(exchange.outcome)

    async def commit(self) -> None: ...

    async def send(self, _: str, request: OutboundRequest, __: Any, *, most: int) -> OutboundAnswer:
        self.bodies.append(json.loads(request.body))
        return OutboundAnswer(200, {"content-type": "application/json"}, b'{"decision":"go_on"}'[:most])

    async def find(self, *_: Any) -> Any:
        raise AssertionError("nobody asks what a service knows where nothing is told")

    def open(self, sealed: bytes, _: str) -> bytes:
        return b"whsec_" + sealed

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[Any]:
        yield self


def asking(receiving: Receiving) -> HookAsking:
    stand_in, unused = cast(Any, receiving), cast(Any, SimpleNamespace(hook_asked=lambda *_, **__: None))
    clock = SetClock(NOW)
    return HookAsking(
        unit_of_work=receiving.unit_of_work,
        lookup=stand_in,
        outbound=stand_in,
        keyring=stand_in,
        devices=unused,
        login_events=unused,
        facts=stand_in,
        breakers=HookBreakers(clock),
        places=FairHookPlaces(),
        beside=unused,
        waits=HookWaits(clock),
        metrics=unused,
        system=cast(Any, SimpleNamespace(clock=clock, ids=SimpleNamespace(new=uuid4))),
        issuer="https://id.example",
    )


def door(tells: Tells | None, service: ServiceId | None) -> AskingDoor:
    return AskingDoor(
        person=ADA.user,
        organization=OrganizationId(UUID(int=2)),
        service=service,
        tells=tells,
        way="password",
        authenticated_by=("pwd",),
    )


async def test_a_door_that_tells_nothing_lets_a_hook_hear_who_alone() -> None:
    receiving = Receiving(a_hook())
    verdict = await asking(receiving).ask(door(None, ServiceId(UUID(int=3))))
    assert verdict.lets_in
    assert [one["user"] for one in receiving.bodies] == [{"sub": str(ADA.user)}]
    await asking(receiving).ask(door(lambda person, _: {"email": str(person.email)}, None))
    assert receiving.bodies[-1]["user"] == {"sub": str(ADA.user), "email": "ada@example.org"}
    assert receiving.recorded == ["go_on", "go_on"]


def test_whoever_leaves_during_the_trial_prolongs_no_rest() -> None:
    clock, hook = SetClock(NOW), a_hook()
    breakers = HookBreakers(clock)
    fails(breakers, hook)
    clock.at += REST
    assert not rests(breakers, hook)
    breakers.unanswered(hook, ACME, MEMBERS)
    assert not rests(breakers, hook)
    assert rests(breakers, hook)


async def test_a_cancelled_question_gives_its_trial_back() -> None:
    receiving = Receiving(a_hook())
    hook, made = receiving.asked.hooks[0].hook, asking(receiving)
    for person in PEOPLE:
        made.breakers.failed(hook, door(None, None).organization, MEMBERS, person)
    cast(Any, made.system.clock).at += REST
    arrived = trio.Event()

    async def hangs(*_: Any, **__: Any) -> OutboundAnswer:
        arrived.set()
        await trio.sleep_forever()
        raise AssertionError

    receiving.send = hangs  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.ask, door(None, None))
        await arrived.wait()
        nursery.cancel_scope.cancel()
    assert not rests(made.breakers, hook, door(None, None).organization)
