"""Asking hooks before a sign-in. No connection, lock or transaction is held meanwhile, and no outage of theirs reaches anybody else: a hook
that fails rests, and the calls at once are bounded, for each organization and for the process.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from core.domain.claims import NO_FACTS, DescribedPerson
from core.domain.formats import Json
from core.domain.identifiers import HookId, OrganizationId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.guards.hook_verdicts import NO_HOOKS, AskingDoor, HookFactor, HookSaid, HookVerdict, stricter
from core.domain.identity.login_events import refused_by_hook
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.secrets import Secret
from core.domain.tenancy.hooks import (
    ASKED_ENOUGH,
    CROWDED,
    LONGEST_ANSWER,
    MOST_ASKED_IN_FLOW,
    RESTING,
    UNREADABLE,
    Hook,
    HookAnswer,
    HookExchange,
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
from core.usecases.tenancy.hook_waits import HookWaits
from ports.crypto import CannotOpen, KeyRing
from ports.identity.accounts import FactLookup
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.system import Clock, System
from ports.tenancy.hooks import AskedHooks, HookStore, SealedHook
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# So many failures in a row, and the hook rests; one question in this time tries it again.
FAILURES: Final = 5
REST: Final = timedelta(minutes=1)
MOST_OF_ORGANIZATION: Final = 20
MOST_OF_PROCESS: Final = 200
# The hooks whose failures a process remembers. Whoever is forgotten is asked again.
_MOST_KNOWN: Final = 10_000
_PLACEHOLDER: Final = "made data"


class HookBreakers:
    """Which hooks rest, in the memory of one process. The name of a hook is its settings of now, so that a change begins anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[tuple[HookId, datetime], tuple[int, datetime]] = {}

    def admit(self, hook: Hook) -> None:
        """Raises `HookSilent` while the hook rests. After the rest one question goes through, and its own rest begins."""
        failures, tried_at = self._failures.get(_name(hook), (0, self._clock.now()))
        now = self._clock.now()
        if failures < FAILURES:
            return
        if now - tried_at < REST:
            raise HookSilent(RESTING)
        self._failures[_name(hook)] = (failures, now)

    def answered(self, hook: Hook) -> None:
        self._failures.pop(_name(hook), None)

    def failed(self, hook: Hook) -> None:
        failures, _ = self._failures.pop(_name(hook), (0, None))
        while len(self._failures) >= _MOST_KNOWN:
            del self._failures[next(iter(self._failures))]
        self._failures[_name(hook)] = (failures + 1, self._clock.now())


def _name(hook: Hook) -> tuple[HookId, datetime]:
    return hook.id, hook.since


class HookCrowd:
    """How many questions are on their way, in the memory of one process."""

    def __init__(self) -> None:
        self._of_organization: Counter[OrganizationId | None] = Counter()
        self._all = 0

    @contextmanager
    def one_more(self, organization: OrganizationId | None) -> Iterator[None]:
        """Raises `HookSilent` when there is no room."""
        if self._all >= MOST_OF_PROCESS or self._of_organization[organization] >= MOST_OF_ORGANIZATION:
            raise HookSilent(CROWDED)
        self._all += 1
        self._of_organization[organization] += 1
        try:
            yield
        finally:
            self._all -= 1
            self._of_organization[organization] -= 1
            if not self._of_organization[organization]:
                del self._of_organization[organization]


class _Heard(Frozen, kw_only=True):
    """What came of one question."""

    exchange: HookExchange
    answer: HookAnswer | None
    """None: silence."""


class HookAsking(Frozen):
    """Implements `ports.identity.sign_in.SignInHooks`."""

    unit_of_work: UnitOfWorkFactory
    lookup: HookStore
    outbound: Outbound
    keyring: KeyRing
    devices: Devices
    login_events: LoginEvents
    facts: FactLookup
    breakers: HookBreakers
    crowd: HookCrowd
    waits: HookWaits
    metrics: Metrics
    system: System
    issuer: str

    async def ask(self, door: AskingDoor) -> HookVerdict:
        """What the hooks at this door say. The installation's comes first, and its no asks nobody else. Nothing that a hook does raises."""
        asked_at = self.system.clock.now()
        to_ask = await self.lookup.to_ask(door)
        if to_ask is None:
            return NO_HOOKS
        question = await self._question(door, to_ask)
        may_ask = await self._counted(door)
        verdict, exchanges = NO_HOOKS, []
        for sealed in to_ask.hooks:
            heard = await self._heard(sealed, question, asked_at, silent=None if may_ask else ASKED_ENOUGH)
            exchanges.append(heard.exchange)
            if sealed.hook.counts_as is not None:
                verdict = stricter(verdict, _verdict(sealed.hook, sealed.hook.counts_as, heard, door, to_ask))
            if verdict.no is not None:
                break
        await self._record(exchanges, door, verdict)
        await self._log_refused(door, to_ask, verdict)
        return verdict

    async def try_out(self, sealed: SealedHook) -> HookExchange:
        """Asks with made data, for its owner to see. It counts nowhere."""
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
        heard = await self._heard(sealed, question, self.system.clock.now(), is_test=True)
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

    async def _counted(self, door: AskingDoor) -> bool:
        """Whether the flow may ask once more."""
        if door.flow is None:
            return True
        async with self.unit_of_work() as uow:
            may_ask = await uow.hooks.ask_in_flow(door.flow, MOST_ASKED_IN_FLOW)
            await uow.commit()
        return may_ask

    async def _heard(
        self, sealed: SealedHook, question: HookQuestion, at: datetime, *, silent: str | None = None, is_test: bool = False
    ) -> _Heard:
        hook, began, asked = sealed.hook, self.system.clock.now(), self.system.ids.new()
        body = question.body(hook, asked, at)
        answer, why, answered = None, "", b""
        try:
            _require_asked(silent)
            with self.crowd.one_more(question.door.organization):
                if not is_test:
                    self.breakers.admit(hook)
                answered, answer = await self._called(sealed, asked, body)
            if not is_test:
                self.breakers.answered(hook)
        except HookSilent as silence:
            why = silence.why
            if not is_test and why not in {RESTING, CROWDED, ASKED_ENOUGH}:
                self.breakers.failed(hook)
        finally:
            # Also for somebody who leaves meanwhile.
            seconds = (self.system.clock.now() - began).total_seconds()
            if hook.counts_as is not None and not is_test:
                self.waits.waited(hook, seconds)
        outcome = "silent" if answer is None else answer.word
        if not is_test:
            self.metrics.hook_asked(outcome, seconds, counts=hook.counts_as is not None)
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
            counted=hook.counts_as is not None and not is_test,
            is_test=is_test,
            sent=masked(body),
            answered=masked(answered) if answered else "",
        )
        return _Heard(exchange=exchange, answer=answer)

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

    async def _record(self, exchanges: Sequence[HookExchange], door: AskingDoor | None = None, verdict: HookVerdict = NO_HOOKS) -> None:
        async with self.unit_of_work() as uow:
            if door is not None and door.session is not None:
                await uow.hooks.keep_verdicts(door.session, verdict.said, verdict.withdrawn)
            for exchange in exchanges:
                await uow.hooks.record(exchange)
            await uow.commit()

    async def _log_refused(self, door: AskingDoor, to_ask: AskedHooks, verdict: HookVerdict) -> None:
        """In the log of sign-ins, for whoever reads of this person there. Which hook it was, the log does not say."""
        failure = refused_by_hook(verdict)
        if failure is None or door.is_hidden:
            return
        service_slug = "" if to_ask.application is None else str(to_ask.application["slug"])
        # A client that nobody has placed yet has no service that a row may name.
        service = None if door.unplaced is not None else door.service
        place = Context(door.organization, to_ask.organization_slug, service, service_slug)
        await self.login_events.log_refused_visit(failure, door.person, door.way, door.came, place)


def _require_asked(silent: str | None) -> None:
    """Raises `HookSilent` for a question that is not put."""
    if silent is not None:
        raise HookSilent(silent)


def _verdict(hook: Hook, counts_as: UUID, heard: _Heard, door: AskingDoor, to_ask: AskedHooks) -> HookVerdict:
    """What the session keeps of an answer, and what the door does now. An owner gets in, but gives a factor that the owner has."""
    answer, is_no = heard.answer, False
    if answer is None:
        if hook.silence is HookSilence.REFUSE and not to_ask.is_owner:
            return HookVerdict(is_silent=True)
        answer = HookAnswer()
    if answer.owes is not None and not answer.owes.is_shown(door.authenticated_by):
        can_show = to_ask.has_passkey if answer.owes is HookFactor.PASSKEY else to_ask.has_second_factor
        if can_show or not to_ask.is_owner:
            withdrawn = HookSaid(hook=hook.id, counts_as=counts_as, organization=door.organization, at=heard.exchange.at)
            return HookVerdict(withdrawn=(withdrawn,), owes=answer.owes, can_show=can_show)
        # Nobody else gets in with what an owner lacks, should the person not be one any more.
        is_no = True
    said = HookSaid(
        hook=hook.id,
        counts_as=counts_as,
        organization=door.organization,
        at=heard.exchange.at,
        is_no=is_no or answer.no is not None,
    )
    return HookVerdict(said=(said,), no=None if to_ask.is_owner else answer.no)


def door_of_member(caller: Caller, organization: OrganizationId) -> AskingDoor:
    """The organization itself, for a member whose session goes on: no application is named there."""
    return AskingDoor(
        person=caller.user,
        organization=organization,
        way=SESSION_PROVIDER,
        authenticated_by=caller.authentication_methods,
        session=caller.session,
    )
