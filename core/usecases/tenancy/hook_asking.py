"""Calls hooks before a sign-in, within limits that keep their outages from others."""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import structlog

from core.domain import causes
from core.domain.claims import NO_FACTS, DescribedPerson
from core.domain.formats import Json
from core.domain.identifiers import HookId, OrganizationId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.guards.hook_verdicts import (
    NO_HOOKS,
    AskingDoor,
    FlowAskedEnough,
    HookFactor,
    HookReason,
    HookSaid,
    HooksBusy,
    HookVerdict,
    HookWord,
    refusal_under_silence,
    stricter,
)
from core.domain.identity.login_events import LoginFailure, refused_by_hook
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.secrets import Secret
from core.domain.tenancy.hooks import (
    LONGEST_ANSWER,
    MOST_ASKED_IN_FLOW,
    RESTING,
    UNREADABLE,
    Hook,
    HookAnswer,
    HookExchange,
    HookPeople,
    HookQuestion,
    HookSilence,
    HookSilent,
    answer_of,
    hook_context,
    hook_destination,
    masked,
    previous_hook_context,
)
from core.domain.tenancy.webhooks import signature_headers
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from ports.crypto import CannotOpen, KeyRing
from ports.identity.accounts import FactLookup
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.system import Clock, System
from ports.tenancy.hooks import AskedHooks, HookPlaces, HooksBeside, HookStore, SealedHook, WaitingQuestion
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# So many failures in a row, about so many people, and the hook rests; one question in this time tries it again.
FAILURES: Final = 5
FAILED_ABOUT: Final = 3
REST: Final = timedelta(minutes=1)
# So many failures about one person in this time, and nobody is asked about them for as long.
FAILURES_OF_PERSON: Final = 5
PAUSE_OF_PERSON: Final = timedelta(minutes=1)
# Whoever waits longer than a hook may take gets the place of a question that it does not answer.
_LONGER: Final = 1.0
# The rests and the people that a process remembers. Whoever is forgotten is asked again.
_MOST_KNOWN: Final = 10_000
# How long sign-ins of this process wait for hooks that count: apart from our own time, and to find the hooks that are slow.
LATELY: Final = timedelta(minutes=15)
SLOW: Final = 1.0
"""The seconds that nine of ten answers take at most, unless the hook is slow."""
ENOUGH: Final = 5
"""Fewer questions within fifteen minutes say nothing."""
MOST_NAMED: Final = 10
"""The slowest of them, in a line of the log."""
_MOST_TIMES_KEPT: Final = 20
# The hooks of which a process knows, and the requests that wait at once. Whoever is forgotten is only less exact.
_MOST_HOOKS: Final = 1_000
_MOST_REQUESTS: Final = 1_000
_PLACEHOLDER: Final = "made data"

_Name = tuple[HookId, datetime, UUID | None]
_Kind = tuple[_Name, OrganizationId, HookPeople]
_Person = tuple[_Name, OrganizationId, UserId]
_Of = TypeVar("_Of")
_Remembered = TypeVar("_Remembered")


class _Failing(Frozen):
    times: int
    about: frozenset[UserId]
    tried_at: datetime


class HookBreakers:
    """Which hooks rest, and about whom nobody is asked, in the memory of one process. The name of a hook is its settings of now, so that a
    change begins anew. A rest is of one organization and one kind of people: what strangers do to a hook keeps no member out, or lets them
    in. One person alone makes none.

    Only the hook itself causes a missing response. That nobody could be asked (no place, too many requests of one user, a flow that has
    asked enough) is none, and lets nobody in: it would be the choice of the user who is asked about.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[_Kind, _Failing] = {}
        self._of_person: dict[_Person, tuple[datetime, ...]] = {}

    def require_patience(self, hook: Hook, organization: OrganizationId, person: UserId) -> None:
        """Raises `HooksBusy` after too many failures about the person."""
        failed = self._of_person.get((_name(hook), organization, person), ())
        if len(failed) < FAILURES_OF_PERSON:
            return
        left = failed[-1] + PAUSE_OF_PERSON - self._clock.now()
        if left > timedelta(0):
            raise HooksBusy(retry_after=left.total_seconds(), detail="a hook has failed too often about one person")

    def admit(self, hook: Hook, organization: OrganizationId, people: HookPeople) -> None:
        """Raises `HookSilent` while the hook rests. After the rest one question goes through, and its own rest begins."""
        key, now = (_name(hook), organization, people), self._clock.now()
        failing = self._failing.get(key)
        if failing is None or failing.times < FAILURES or len(failing.about) < FAILED_ABOUT:
            return
        if now - failing.tried_at < REST:
            raise HookSilent(RESTING)
        self._failing[key] = replace(failing, tried_at=now)

    def unanswered(self, hook: Hook, organization: OrganizationId, people: HookPeople) -> None:
        """Whoever asked has left. If that was the trial after a rest, the next question is one: leaving must not prolong the rest."""
        key = (_name(hook), organization, people)
        failing = self._failing.get(key)
        if failing is not None:
            self._failing[key] = replace(failing, tried_at=self._clock.now() - REST)

    def answered(self, hook: Hook, organization: OrganizationId, people: HookPeople) -> None:
        self._failing.pop((_name(hook), organization, people), None)

    def failed(self, hook: Hook, organization: OrganizationId, people: HookPeople, person: UserId) -> None:
        key, now = (_name(hook), organization, people), self._clock.now()
        before = self._failing.pop(key, _Failing(0, frozenset(), now))
        _make_room(self._failing)
        # More people than count say nothing more.
        about = before.about if len(before.about) >= FAILED_ABOUT else before.about | {person}
        self._failing[key] = _Failing(before.times + 1, about, now)

    def failed_about(self, hook: Hook, organization: OrganizationId, person: UserId) -> None:
        """Counts for the person alone. Questions of a hook that decides nothing do not count."""
        of, now = (_name(hook), organization, person), self._clock.now()
        lately = [one for one in self._of_person.pop(of, ()) if one > now - PAUSE_OF_PERSON]
        _make_room(self._of_person)
        self._of_person[of] = (*lately, now)[-FAILURES_OF_PERSON:]


def _make_room(known: dict[_Of, _Remembered]) -> None:
    while len(known) >= _MOST_KNOWN:
        del known[next(iter(known))]


def _name(hook: Hook) -> _Name:
    return hook.id, hook.since, hook.counts_as


class SlowHook(Frozen):
    """`organization` is None for the installation's hook. `seconds` is the 90th percentile."""

    hook: HookId
    organization: OrganizationId | None
    seconds: float


class HookWaits:
    """Lives in the memory of its process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of_requests: dict[str, float] = {}
        self._of_hooks: OrderedDict[HookId, tuple[OrganizationId | None, deque[tuple[datetime, float]]]] = OrderedDict()

    def waited(self, seconds: float) -> None:
        """The request that is at work now has waited so long: for its place, and for the answers of all hooks."""
        request = causes.request_text()
        if request is not None:
            self._of_requests[request] = self._of_requests.get(request, 0.0) + seconds
            if len(self._of_requests) > _MOST_REQUESTS:
                del self._of_requests[next(iter(self._of_requests))]

    def answered(self, hook: Hook, seconds: float) -> None:
        """The hook has taken so long for one question."""
        _, times = self._of_hooks.pop(hook.id, (None, deque[tuple[datetime, float]](maxlen=_MOST_TIMES_KEPT)))
        times.append((self._clock.now(), seconds))
        self._of_hooks[hook.id] = hook.organization, times
        if len(self._of_hooks) > _MOST_HOOKS:
            self._of_hooks.popitem(last=False)

    def taken(self, request: str) -> float:
        """The seconds that the request has waited, which is over now."""
        return self._of_requests.pop(request, 0.0) if self._of_requests else 0.0

    def slow(self) -> Sequence[SlowHook]:
        """The slowest first."""
        after = self._clock.now() - LATELY
        found: list[SlowHook] = []
        for hook, (organization, times) in self._of_hooks.items():
            lately = sorted(seconds for at, seconds in times if at > after)
            if len(lately) >= ENOUGH and (high := lately[(len(lately) - 1) * 9 // 10]) > SLOW:
                found.append(SlowHook(hook, organization, high))
        return sorted(found, key=lambda one: one.seconds, reverse=True)


class _Heard(Frozen, kw_only=True):
    """What came of one question."""

    exchange: HookExchange
    answer: HookAnswer | None
    """None: silence."""


class HookAsking(Frozen):
    """Implements `ports.identity.sign_in.SignInHooks`.

    No connection, lock or transaction is held during a call, and no outage of a hook reaches anybody else: the circuit breaker of a hook
    that fails opens, and the concurrent calls are bounded, for each organization and for the process.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: HookStore
    outbound: Outbound
    keyring: KeyRing
    devices: Devices
    login_events: LoginEvents
    facts: FactLookup
    breakers: HookBreakers
    places: HookPlaces
    beside: HooksBeside
    waits: HookWaits
    metrics: Metrics
    system: System
    issuer: str

    async def ask(self, door: AskingDoor) -> HookVerdict:
        """What the hooks at this door say. The installation's comes first, and its no asks nobody else. Nothing that a hook does raises.
        Hooks in shadow are asked beside, and nobody waits for them. Raises `HooksBusy`, and `FlowAskedEnough` when the flow has asked as
        often as it may: whoever asks ends it.
        """
        asked_at = self.system.clock.now()
        to_ask = await self.lookup.to_ask(door)
        if to_ask is None:
            return NO_HOOKS
        beside = [one for one in to_ask.hooks if one.hook.counts_as is None]
        if beside:
            self.beside.post(door.organization, partial(self._ask_beside, beside, door, to_ask, asked_at))
        counting = [one for one in to_ask.hooks if one.hook.counts_as is not None]
        if not counting:
            return NO_HOOKS
        waiting = WaitingQuestion(
            organization=door.organization,
            people=to_ask.people,
            person=door.person,
            seconds=sum(one.hook.seconds for one in counting) + _LONGER,
        )
        began = self.system.clock.now()
        try:
            # An owner comes in whatever a hook does, and must be able to mend it.
            for sealed in () if to_ask.is_owner else counting:
                self.breakers.require_patience(sealed.hook, door.organization, door.person)
            return await self.places.join(_thing(door, counting), waiting, partial(self._asked, counting, door, to_ask, asked_at, waiting))
        except (HooksBusy, FlowAskedEnough) as refusal:
            self.metrics.hook_not_asked("flow_over" if isinstance(refusal, FlowAskedEnough) else "busy")
            log.warning("hook_not_asked", organization=str(door.organization), people=to_ask.people.value, why=refusal.detail)
            if to_ask.is_owner and isinstance(refusal, HooksBusy):
                return await self._owner_unasked(counting, door, to_ask, asked_at)
            raise
        finally:
            # Also for somebody who leaves meanwhile.
            self.waits.waited((self.system.clock.now() - began).total_seconds())

    async def _asked(
        self, counting: Sequence[SealedHook], door: AskingDoor, to_ask: AskedHooks, asked_at: datetime, waiting: WaitingQuestion
    ) -> HookVerdict:
        verdict, exchanges = NO_HOOKS, list[HookExchange]()
        async with self.places.place(waiting):
            await self._count(door)
            question = await self._question(door, to_ask)
            for sealed in counting:
                heard = await self._heard(sealed, question, asked_at, people=to_ask.people)
                exchanges.append(heard.exchange)
                verdict = stricter(verdict, await self._verdict(sealed.hook, heard, door, to_ask))
                if verdict.no is not None:
                    break
        await self._record(exchanges, door, verdict)
        await self._log_refused(door, to_ask, verdict)
        return verdict

    async def _owner_unasked(self, counting: Sequence[SealedHook], door: AskingDoor, to_ask: AskedHooks, asked_at: datetime) -> HookVerdict:
        """An owner goes on where nobody can be asked, as under a silence, but shows the strongest factor that the owner has: the hook might
        have asked for it, and the owner's own requests may be all that is in the way.
        """
        factor = _strongest(to_ask)
        if factor is not None and not factor.is_shown(door.authenticated_by):
            return HookVerdict(owes=factor, can_show=True)
        verdict = NO_HOOKS
        for sealed in counting:
            silence = replace(_said(sealed.hook, asked_at, door), word=HookWord.SILENCE)
            verdict = stricter(verdict, await self._under_silence(sealed.hook, silence, door, to_ask))
        await self._record((), door, verdict)
        return verdict

    async def _ask_beside(self, hooks: Sequence[SealedHook], door: AskingDoor, to_ask: AskedHooks, asked_at: datetime) -> None:
        question = await self._question(door, to_ask)
        await self._record([(await self._heard(one, question, asked_at, people=to_ask.people)).exchange for one in hooks])

    async def try_out(self, sealed: SealedHook) -> HookExchange:
        """Asks with made data, for its owner to see. It counts nowhere. Raises `HooksBusy`."""
        organization = sealed.hook.organization or OrganizationId(UUID(int=0))
        door = AskingDoor(
            person=UserId(UUID(int=0)),
            organization=organization,
            scopes=("openid", "email"),
            way="password",
            authenticated_by=("pwd",),
        )
        question = HookQuestion(
            door=door,
            organization_slug="example",
            application={"client_id": _PLACEHOLDER, "slug": "example", "name": "Example"},
            told={"email": "somebody@example.com", "email_verified": True},
            address="192.0.2.1",
            country="DE",
            new_device=True,
        )
        nobody = WaitingQuestion(organization=organization, people=HookPeople.MEMBERS, person=door.person, seconds=_LONGER)
        async with self.places.place(nobody):
            heard = await self._heard(sealed, question, self.system.clock.now(), people=None)
        await self._record([heard.exchange])
        return heard.exchange

    async def _question(self, door: AskingDoor, to_ask: AskedHooks) -> HookQuestion:
        if to_ask.application is None:
            return HookQuestion(door=door, organization_slug=to_ask.organization_slug)
        question = HookQuestion(
            door=door,
            organization_slug=to_ask.organization_slug,
            application=to_ask.application,
            told=await self._told(door, to_ask.person),
        )
        if door.came is None:
            return question
        location = (await self.devices.observe(door.came)).location
        return replace(
            question,
            address=door.came.address,
            country=None if location is None else location.country,
            new_device=to_ask.is_new_device,
        )

    async def _told(self, door: AskingDoor, person: DescribedPerson) -> Mapping[str, Json]:
        if door.tells is None:
            return {}
        facts = NO_FACTS if door.service is None else await self.facts.find(door.service, door.person)
        return door.tells(replace(person, facts=facts), self.issuer)

    async def _count(self, door: AskingDoor) -> None:
        """Raises `FlowAskedEnough` where the flow may not ask once more."""
        if door.flow is None:
            return
        async with self.unit_of_work() as uow:
            may_ask = await uow.hooks.ask_in_flow(door.flow, MOST_ASKED_IN_FLOW)
            await uow.commit()
        if not may_ask:
            raise FlowAskedEnough

    async def _heard(self, sealed: SealedHook, question: HookQuestion, at: datetime, *, people: HookPeople | None) -> _Heard:
        """Without `people` it is a test, about nobody."""
        hook, began, asked = sealed.hook, self.system.clock.now(), self.system.ids.new()
        organization, person = question.door.organization, question.door.person
        body = question.body(hook, asked, at)
        answer, why, answered = None, "", b""
        try:
            answered, answer = await self._tried(sealed, asked, body, organization, people)
        except HookSilent as silence:
            why = silence.why
            if people is not None and why != RESTING:
                self.breakers.failed(hook, organization, people, person)
                if hook.counts_as is not None:
                    self.breakers.failed_about(hook, organization, person)
        seconds = (self.system.clock.now() - began).total_seconds()
        outcome = "silent" if answer is None else answer.word
        if people is not None:
            self.metrics.hook_asked(outcome, seconds, counts=hook.counts_as is not None)
            if hook.counts_as is not None:
                self.waits.answered(hook, seconds)
            if answer is None:
                log.warning("hook_silent", hook=str(hook.id), organization=str(hook.organization), why=why)
        reason = why if answer is None or answer.no is None else answer.no.value
        exchange = HookExchange(
            id=asked,
            hook=hook.id,
            at=at,
            milliseconds=int(seconds * 1000),
            outcome=outcome,
            why=reason,
            counted=hook.counts_as is not None and people is not None,
            is_test=people is None,
            sent=masked(body),
            answered=masked(answered) if answered else "",
        )
        return _Heard(exchange=exchange, answer=answer)

    async def _tried(
        self, sealed: SealedHook, asked: UUID, body: bytes, organization: OrganizationId, people: HookPeople | None
    ) -> tuple[bytes, HookAnswer]:
        """Raises `HookSilent`, also while the hook rests."""
        if people is None:
            return await self._called(sealed, asked, body)
        self.breakers.admit(sealed.hook, organization, people)
        try:
            heard = await self._called(sealed, asked, body)
        except HookSilent:
            raise
        except BaseException:
            self.breakers.unanswered(sealed.hook, organization, people)
            raise
        self.breakers.answered(sealed.hook, organization, people)
        return heard

    async def _called(self, sealed: SealedHook, asked: UUID, body: bytes) -> tuple[bytes, HookAnswer]:
        """Raises `HookSilent`."""
        hook = sealed.hook
        try:
            secrets = [Secret(self.keyring.open(sealed.sealed_secret, hook_context(hook.id)).decode())]
            if sealed.previous_sealed_secret is not None:
                secrets.append(Secret(self.keyring.open(sealed.previous_sealed_secret, previous_hook_context(hook.id)).decode()))
        except CannotOpen:
            raise HookSilent(UNREADABLE) from None
        headers = signature_headers(asked, body, secrets, self.system.clock.now())
        request = OutboundRequest(hook_destination(hook.address), body, {**headers, "user-agent": "Postern-Hooks"})
        try:
            received = await self.outbound.send("POST", request, timedelta(seconds=hook.seconds), most=LONGEST_ANSWER)
        except OutboundFailed as failed:
            raise HookSilent(failed.failure.value) from None
        return received.body, answer_of(received.status, received.headers.get("content-type", ""), received.body)

    async def _verdict(self, hook: Hook, heard: _Heard, door: AskingDoor, to_ask: AskedHooks) -> HookVerdict:
        """What is kept of an answer, and what the door does now. An owner gets in, but gives a factor that the owner has."""
        answer, is_no, said = heard.answer, False, _said(hook, heard.exchange.at, door)
        if answer is None:
            return await self._under_silence(hook, replace(said, word=HookWord.SILENCE), door, to_ask)
        if answer.owes is not None and not answer.owes.is_shown(door.authenticated_by):
            can_show = _can_show(answer.owes, to_ask)
            if can_show or not to_ask.is_owner:
                owed = replace(said, word=HookWord.OWED, owes=answer.owes)
                return HookVerdict(said=(owed,), owes=answer.owes, can_show=can_show)
            # Nobody else gets in with what an owner lacks, should the person not be one any more.
            is_no = True
        if is_no or answer.no is not None:
            said = replace(said, word=HookWord.NO, reason=answer.no)
        return HookVerdict(said=(said,), no=None if to_ask.is_owner else answer.no)

    async def _under_silence(self, hook: Hook, silence: HookSaid, door: AskingDoor, to_ask: AskedHooks) -> HookVerdict:
        """Whoever the hook has refused, in this browser or in another one, does not come in because it is silent now. An owner does, but
        still gives a factor that the hook has asked for and that the owner has.
        """
        if hook.silence is HookSilence.REFUSE and not to_ask.is_owner:
            return HookVerdict(is_silent=True)
        goes_on = HookVerdict(said=(silence,))
        kept = await self.lookup.said_of(door, silence.counts_as)
        if to_ask.is_owner:
            # A no keeps no owner out, so it hides no demand either.
            kept = [one for one in kept if one.word is not HookWord.NO]
        refusal = refusal_under_silence(kept, door, silence.at)
        if refusal is None:
            return goes_on
        if refusal.word is HookWord.OWED and refusal.owes is not None:
            can_show = _can_show(refusal.owes, to_ask)
            return HookVerdict(owes=refusal.owes, can_show=can_show) if can_show or not to_ask.is_owner else goes_on
        return HookVerdict(no=refusal.reason or HookReason.ADMINISTRATOR)

    async def _record(self, exchanges: Sequence[HookExchange], door: AskingDoor | None = None, verdict: HookVerdict = NO_HOOKS) -> None:
        async with self.unit_of_work() as uow:
            if door is not None and door.session is not None:
                await uow.hooks.keep_verdicts(door.session, verdict.said)
            for exchange in exchanges:
                await uow.hooks.record(exchange)
            await uow.commit()

    async def _log_refused(self, door: AskingDoor, to_ask: AskedHooks, verdict: HookVerdict) -> None:
        """In the log of sign-ins, for whoever reads of this person there. Which hook it was, the log does not say to them."""
        failure = refused_by_hook(verdict)
        if failure is None and verdict.owes is not None and door.session is None:
            # No session keeps the demand, and the sign-in may never come back with the factor.
            failure = LoginFailure.HOOK_WANTS_FACTOR
        if failure is None or door.is_hidden:
            return
        service_slug = "" if to_ask.application is None else str(to_ask.application["slug"])
        # A client that nobody has placed yet has no service that a row may name.
        service = None if door.unplaced is not None else door.service
        place = Context(door.organization, to_ask.organization_slug, service, service_slug)
        # Also where a session keeps them: it may be signed out and deleted long before the twelve hours are over.
        refusals = [one for one in verdict.said if one.word in {HookWord.NO, HookWord.OWED}]
        await self.login_events.log_refused_visit(failure, door.person, door.way, door.came, place, refusals=refusals)


def _said(hook: Hook, at: datetime, door: AskingDoor) -> HookSaid:
    assert hook.counts_as is not None  # noqa: S101 - for the type checker: a hook in shadow is asked beside
    return HookSaid(
        hook=hook.id,
        counts_as=hook.counts_as,
        organization=door.organization,
        service=door.service,
        at=at,
        word=HookWord.YES,
    )


def _can_show(factor: HookFactor, to_ask: AskedHooks) -> bool:
    return to_ask.has_passkey if factor is HookFactor.PASSKEY else to_ask.has_second_factor


def _strongest(to_ask: AskedHooks) -> HookFactor | None:
    if to_ask.has_passkey:
        return HookFactor.PASSKEY
    return HookFactor.SECOND_FACTOR if to_ask.has_second_factor else None


def _thing(door: AskingDoor, counting: Sequence[SealedHook]) -> tuple[object, ...] | None:
    """Questions of one session about one thing are one, where the same hooks hear the same: nobody comes in by the answer of a hook that
    its owner has replaced meanwhile. None where no session asks.
    """
    if door.session is None:
        return None
    address = None if door.came is None else door.came.address
    heard = door.scopes, door.way, door.authenticated_by, address, door.consents, door.is_hidden
    hooks = tuple(_name(one.hook) for one in counting)
    return door.session, door.organization, door.service, door.unplaced is None, *heard, *hooks


def door_of_member(caller: Caller, organization: OrganizationId) -> AskingDoor:
    """The organization itself, for a member whose session goes on: no application is named there."""
    return AskingDoor(
        person=caller.user,
        organization=organization,
        way=SESSION_PROVIDER,
        authenticated_by=caller.authentication_methods,
        session=caller.session,
    )
