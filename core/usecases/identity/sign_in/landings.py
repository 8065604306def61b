"""The results of a sign-in: tokens for a client that stores them, or a browser session, and the offer of a passkey after a password."""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from core.domain.errors import ReauthenticationRequired, Refusal, TokenInvalid
from core.domain.identifiers import DeviceId, FlowId, PreauthenticationId, SessionId, UserId
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.browser_sessions import SignedInBrowser, Visit, caller_in, session_token
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver, proof_digest
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, Preauthentication
from core.domain.identity.passkeys import (
    NOBODY,
    Assertion,
    Ceremony,
    CreationOptions,
    Passkey,
    PasskeyChallengeOver,
    PasskeyRegistration,
)
from core.domain.identity.proofs import StepUp
from core.domain.identity.sessions import PLATFORM, Application, Context, OpenedSession, Session, TokenUse
from core.domain.identity.sign_in import AwaitingSecondFactor, Preauthenticated, ServiceName, SignedIn, preauthentication_claims
from core.domain.identity.upstream.providers import own_provider_of
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Password, Secret, Token
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.flows import Flows
from core.usecases.identity.passkeys import Passkeys, passkey_not_offered
from core.usecases.identity.reauthentication import Reauthentication
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in.admission import Admission, Admitted, Arrived, SignInEnded
from core.usecases.identity.sign_in.proofs.mailed import SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs, UsedPasskey
from core.usecases.identity.sign_in.proofs.password import PasswordProofs
from core.usecases.identity.sign_in.proofs.proof import Arrival, Overtaken
from ports.crypto import ServerSecrets, TokenSigner, TokenVerifier
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class WithTokens(Frozen):
    """Implements `core.usecases.identity.sign_in.admission.Landing`."""

    sessions: Sessions
    application: Application | None = None
    """The application that gets the session, when the session is not for the person's own client."""
    flow: FlowId | None = None
    leads_to: Context = PLATFORM
    may_know_of_failures: bool = False
    key: KeyThumbprint | None = None
    """The session is bound to it."""
    offers_passkey: bool = False

    async def open(self, uow: UnitOfWork, arrived: Arrived, device: DeviceId) -> OpenedSession:
        opened = await self.sessions.open(
            uow,
            arrived.confirmed.account,
            device=device,
            authenticated_by=arrived.authenticated_by,
            context=arrived.context,
            subscription=arrived.confirmed.subscription,
            tells_more=arrived.confirmed.tells_more,
            proved=arrived.proved,
            application=self.application,
            opened_through=arrived.upstream,
            factor=arrived.factor,
            doors=arrived.doors,
            key=self.key,
        )
        organization = arrived.context.organization
        if arrived.heard.said and organization is not None:
            session, person = opened.session.id, arrived.confirmed.account.id
            await uow.hooks.keep_verdicts(session, arrived.heard.said)
            await uow.hooks.end_with_silence(session, session, person, organization, arrived.context.service)
        return opened

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        """Does nothing, because the pre-auth token says all that the client needs."""


class SignIn(Frozen):
    passwords: PasswordProofs
    passkeys: PasskeyProofs
    devices: Devices
    admission: Admission
    sessions: Sessions
    signer: TokenSigner
    verifier: TokenVerifier
    issuer: str

    async def with_password(
        self, email: Email, password: Password, client: Client, service: ServiceName | None = None, *, state: str = ""
    ) -> SignedIn | AwaitingSecondFactor:
        """Signs in on the platform, or in a service; the person thereby becomes a user of the service. The pre-auth token carries `state`
        to the second step. Raises the errors of `PasswordProofs.make`.
        """
        return await self.with_proof(await self.passwords.make(email, password, client, service), state)

    async def with_passkey(self, given: Assertion, client: Client, service: ServiceName | None = None) -> SignedIn:
        """Signs in with a passkey, for a client that has asked for options without our pages. Raises the errors of `PasskeyProofs.make` and
        `Admission.admit`.
        """
        signed_in = await self.with_proof(await self.passkeys.make(given, NOBODY, client, service))
        assert isinstance(signed_in, SignedIn)  # noqa: S101 - for the type checker: a passkey shows two factors
        return signed_in

    async def with_proof(self, arrival: Arrival, state: str = "") -> SignedIn | AwaitingSecondFactor:
        """Returns a session for a person who has given a proof, or a pre-auth token when a second factor is missing. Raises the errors of
        `Admission.admit`.
        """
        sighting = self.devices.judge(arrival.approach, arrival.named.knowledge)
        admitted = await self.admission.admit(arrival, sighting, WithTokens(self.sessions))
        if isinstance(admitted, Preauthentication):
            return await self._preauthenticated(admitted, state)
        return await self._signed_in(admitted)

    async def preauthenticated(self, preauth_token: Token) -> Preauthenticated:
        """Returns the claims of the token, without a look-up. Raises `TokenExpired`, or `TokenInvalid` for a token that Postern has not
        made.
        """
        claims = await self.verifier.verify_access(preauth_token.reveal())
        if claims.get("token_use") != TokenUse.PREAUTHENTICATION.value:
            raise TokenInvalid(detail="token_use is not mfa_preauth")
        try:
            said = PreauthenticationId(UUID(str(claims.get("jti")))), UserId(UUID(str(claims.get("sub"))))
        except ValueError:
            raise TokenInvalid(detail="jti or sub is not an id") from None
        return Preauthenticated(*said, str(claims.get("state", "")))

    async def with_second_factor(self, by: Preauthenticated, code: str, client: Client, *, trust_device: bool = False) -> SignedIn:
        """Exchanges a pre-auth token and a code, once, for a session in the place that the first proof was for. Raises the errors of
        `Admission.admit_with_second_factor`.
        """
        admitted = await self.admission.admit_with_second_factor(
            by.id, by.user, code, client, WithTokens(self.sessions), trust_device=trust_device
        )
        return await self._signed_in(admitted)

    async def _signed_in(self, admitted: Admitted[OpenedSession]) -> SignedIn:
        opened = admitted.kept
        tokens = await self.sessions.tokens(opened)
        terms, entered = admitted.terms, opened.session.context.organization
        if entered is not None:
            # An organization learns nothing of the others that the person belongs to.
            terms = tuple(one for one in terms if one.concern(entered))
        return SignedIn(tokens, admitted.remembered, opened.session.user, opened.session.id, terms)

    async def _preauthenticated(self, awaiting: Preauthentication, state: str) -> AwaitingSecondFactor:
        now, expires_at = awaiting.created_at, awaiting.expires_at
        claims = preauthentication_claims(awaiting.user, str(awaiting.id), issuer=self.issuer, now=now, expires_at=expires_at, state=state)
        token = Token(await self.signer.sign_access(claims))
        return AwaitingSecondFactor(token, int(PREAUTHENTICATION_LIFETIME.total_seconds()))


# The name of the key from which the cookies are derived.
BROWSERS: Final = "browser_sessions"


class BrowserSessions(Frozen):
    passwords: PasswordProofs
    devices: Devices
    admission: Admission
    sessions: Sessions
    flows: Flows
    links: SignInLinks
    passkeys: PasskeyProofs
    server_secrets: ServerSecrets
    clock: Clock

    async def sign_in_with_password(self, visit: Visit, email: Email, password: Password) -> SignedInBrowser | None:
        """Signs in with a password. Returns None when a second factor is still missing. If the person is signed in already, their session
        goes on with a new proof and a new cookie. Sessions of other people in this browser stay, as long as there is room. Raises
        `FlowOver`, and the errors of `PasswordProofs.make` and `Admission.admit`.
        """
        repeated = await self._repeated(visit, password)
        if repeated is not None:
            return repeated
        return await self.sign_in_with_proof(
            visit, password, await self.passwords.make(email, password, visit.client, application=visit.flow.application)
        )

    async def sign_in_with_link(self, visit: Visit, token: Token) -> SignedInBrowser | None:
        """Signs in with a sign-in link, and uses the link up. Returns None when a second factor is still missing; a trusted device does not
        replace the second factor here. Raises `LinkRefused`, `FlowOver`, and the errors of `Admission.admit`.
        """
        return await self._sign_in_by_mail(visit, token, lambda: self.links.make(token, visit.client, visit.flow.application))

    async def sign_in_with_mailed_code(self, visit: Visit, email: Email, code: Secret) -> SignedInBrowser | None:
        """Signs in with the code that was mailed beside a sign-in link, as the link does. Raises the errors of `SignInLinks.make_with_code`
        besides.
        """
        return await self._sign_in_by_mail(visit, code, lambda: self.links.make_with_code(visit.flow, email, code, visit.client))

    async def _sign_in_by_mail(self, visit: Visit, secret: Secret, make: Callable[[], Awaitable[Arrival]]) -> SignedInBrowser | None:
        repeated = await self._repeated(visit, secret)
        if repeated is not None:
            return repeated
        try:
            return await self.sign_in_with_proof(visit, secret, await make(), insists=True)
        except LinkRefused as refusal:
            flow = await self.flows.find(visit.flow.id, visit.browser)
            if flow.awaits_second_factor:
                # The same form, sent twice, has used the link up already.
                return None
            return await self._repeated_meanwhile(visit, secret, refusal)

    async def sign_in_with_passkey(self, visit: Visit, given: Assertion) -> SignedInBrowser:
        """Signs in with a passkey; no second factor has to follow. Raises `FlowOver`, and the errors of `PasskeyProofs.make` and
        `Admission.admit`.
        """
        secret = Secret(given.signature.hex())
        repeated = await self._repeated(visit, secret)
        if repeated is not None:
            return repeated
        try:
            arrival = await self.passkeys.make(given, visit.browser.digest(), visit.client, application=visit.flow.application)
        except PasskeyChallengeOver as refusal:
            return await self._repeated_meanwhile(visit, secret, refusal)
        signed_in = await self.sign_in_with_proof(visit, secret, arrival)
        assert signed_in is not None  # noqa: S101 - for the type checker: a passkey shows two factors
        return signed_in

    async def sign_in_with_proof(self, visit: Visit, secret: Secret, arrival: Arrival, *, insists: bool = False) -> SignedInBrowser | None:
        """Signs in with any proof. `secret` is the value that the proof was made from: if the browser sends it again, it gets the same
        answer.
        """
        landing = await self._landing(visit, secret)
        sighting = self.devices.judge(arrival.approach, arrival.named.knowledge)
        try:
            admitted = await self.admission.admit(arrival, sighting, landing, insists=insists or visit.flow.wanted.second_factor)
        except (FlowOver, Overtaken) as refusal:
            # The same form, sent twice, was quicker, or the account has changed.
            return await self._repeated_meanwhile(visit, secret, refusal)
        if isinstance(admitted, Preauthentication):
            return None
        return await self._signed_in(visit, admitted)

    async def sign_in_once_more(self, visit: Visit, secret: Secret) -> SignedInBrowser | None:
        """Repeats the answer for a proof that has signed the person in by this flow a moment ago. Returns None when a second factor is
        still missing. Raises `FlowOver`.
        """
        repeated = await self._repeated(visit, secret)
        if repeated is None and not visit.flow.awaits_second_factor:
            raise FlowOver
        return repeated

    async def sign_in_with_second_factor(self, visit: Visit, answer: str | Assertion, *, trust_device: bool = False) -> SignedInBrowser:
        """Finishes a sign-in whose first step has returned None, by a code or a passkey. Raises `FlowOver`, and the errors of
        `Admission.admit_with_second_factor` and `PasskeyProofs.use`.
        """
        flow, secret = visit.flow, Secret(answer if isinstance(answer, str) else answer.signature.hex())
        repeated = await self._repeated(visit, secret)
        if repeated is not None:
            return repeated
        if flow.preauthentication is None or flow.user is None:
            raise FlowOver
        landing = await self._landing(visit, secret)
        try:
            used = answer if isinstance(answer, str) else await self._passkey(visit, flow.user, answer)
            admitted = await self.admission.admit_with_second_factor(
                flow.preauthentication, flow.user, used, visit.client, landing, trust_device=trust_device
            )
        except (SignInEnded, FlowOver, PasskeyChallengeOver) as ended:
            # The same form, sent twice, has used the code up already, unless the sign-in ended in another way.
            return await self._repeated_meanwhile(visit, secret, ended)
        return await self._signed_in(visit, admitted)

    async def _passkey(self, visit: Visit, user: UserId, given: Assertion) -> UsedPasskey:
        return await self.passkeys.use(
            given, Ceremony.SECOND_FACTOR, visit.browser.digest(), visit.client, user, application=visit.flow.application
        )

    async def _landing(self, visit: Visit, secret: Secret) -> "_InBrowser":
        token = session_token(visit.flow.id, visit.browser, secret, await self.server_secrets.get(BROWSERS))
        return _InBrowser(self.sessions, self.clock, visit, token, proof_digest(visit.browser, secret))

    async def _signed_in(self, visit: Visit, admitted: Admitted["_Landed"]) -> SignedInBrowser:
        landed = admitted.kept
        for other in visit.ended_by(landed.user):
            # The other person's session ends in a unit of work of its own, because ending it holds another account.
            await self.sessions.sign_out(other.session, visit.client.actor(other.user))
        return SignedInBrowser(landed.token, admitted.remembered, landed.caller, landed.flow)

    async def _repeated(self, visit: Visit, secret: Secret) -> SignedInBrowser | None:
        """Returns None when nobody has signed in by this flow yet."""
        flow, browser = visit.flow, visit.browser
        if flow.signed_in_at is None:
            return None
        if not flow.is_repeat(proof_digest(browser, secret), self.clock.now()):
            raise FlowOver
        return SignedInBrowser(session_token(flow.id, browser, secret, await self.server_secrets.get(BROWSERS)), None)

    async def _repeated_meanwhile(self, visit: Visit, secret: Secret, otherwise: Refusal) -> SignedInBrowser:
        flow = await self.flows.find(visit.flow.id, visit.browser)
        repeated = await self._repeated(replace(visit, flow=flow), secret)
        if repeated is None:
            raise otherwise
        return repeated


class _Landed(Frozen):
    user: UserId
    token: Token
    caller: Caller | None
    flow: Flow


class _InBrowser(Frozen):
    """Implements `core.usecases.identity.sign_in.admission.Landing`, for one attempt."""

    sessions: Sessions
    clock: Clock
    visit: Visit
    token: Token
    digest: bytes

    @property
    def flow(self) -> FlowId:
        return self.visit.flow.id

    @property
    def leads_to(self) -> Context:
        return self.visit.flow.application

    @property
    def may_know_of_failures(self) -> bool:
        return self.visit.flow.may_know_of_failures

    @property
    def offers_passkey(self) -> bool:
        return self.visit.makes_passkeys

    async def open(self, uow: UnitOfWork, arrived: Arrived, device: DeviceId) -> _Landed:
        user, now, caller = arrived.confirmed.account.id, self.clock.now(), None
        session = await self._renewed(uow, arrived)
        if session is None:
            begun = await self._begun(uow, arrived, device)
            session, caller = begun.id, caller_in(begun, arrived.confirmed)
        else:
            if arrived.visit is not None and arrived.visit.ends_at is not None:
                await uow.sessions.end_by(session, arrived.visit.ends_at)
            if arrived.factor is not None:
                await uow.sessions.keep_factor(session, arrived.factor)
        if arrived.visit is not None and arrived.visit.can_be_named:
            await uow.directory_sessions.keep(session, arrived.visit, now)
        owes_answers, is_logged = arrived.confirmed.owes_answers, arrived.log_place.service is not None
        owes_terms, offers_passkey = bool(arrived.confirmed.terms), arrived.confirmed.offers_passkey
        upgrades = offers_passkey and self.visit.upgrades
        await uow.flows.sign_in(
            self.flow,
            user,
            self.digest,
            session,
            now,
            by=arrived.provider,
            provider=arrived.upstream,
            is_logged=is_logged,
            owes_answers=owes_answers,
            owes_terms=owes_terms,
            offers_passkey=offers_passkey,
            upgrades=upgrades,
        )
        flow = replace(
            self.visit.flow,
            user=user,
            session=session,
            signed_in_at=now,
            signed_in_by=arrived.provider,
            signed_in_at_provider=arrived.upstream,
            sign_in_is_logged=is_logged,
            owes_answers=owes_answers,
            offers_passkey=offers_passkey,
            upgrades=upgrades,
            owes_terms=owes_terms,
            proof_digest=self.digest,
        )
        return _Landed(user, self.token, caller, flow)

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        await uow.flows.await_second_factor(self.flow, awaiting.user, awaiting.id)

    async def _renewed(self, uow: UnitOfWork, arrived: Arrived) -> SessionId | None:
        """Continues the session of a person who is signed in already. None when nobody is signed in, or when the session has ended."""
        user = arrived.confirmed.account.id
        session = self.visit.session_of(user)
        if session is None:
            return None
        renewed = await uow.browser_sessions.renew(
            self.token.digest(),
            session,
            user,
            arrived.proved,
            arrived.authenticated_by,
            opened_through=own_provider_of(arrived.upstream),
            doors=arrived.doors,
            bound=self.visit.bound,
        )
        return session if renewed else None

    async def _begun(self, uow: UnitOfWork, arrived: Arrived, device: DeviceId) -> Session:
        session = await self.sessions.begin(
            uow,
            arrived.confirmed.account,
            device=device,
            authenticated_by=arrived.authenticated_by,
            proved=arrived.proved,
            ends_by=None if arrived.visit is None else arrived.visit.ends_at,
            opened_through=arrived.upstream,
            factor=arrived.factor,
            doors=arrived.doors,
        )
        await uow.browser_sessions.add(self.token.digest(), session.id, self.visit.bound)
        return session


class PasskeyOffers(Frozen):
    unit_of_work: UnitOfWorkFactory
    passkeys: Passkeys
    reauthentication: Reauthentication
    clock: Clock

    async def begin_upgrade(self, flow: Flow, caller: Caller) -> CreationOptions:
        """What a browser needs to make a passkey by itself, where the page would offer one. It is no offer yet, so a refusal uses no pause.
        Raises `FlowOver`, `Conflict` for a proof that has grown old, and the errors of `Passkeys.begin`.
        """
        await self._require_fresh(flow, caller)
        return await self.passkeys.begin(caller, upgrading=flow.id)

    async def upgrade(self, flow: Flow, caller: Caller, given: PasskeyRegistration, actor: Actor) -> Passkey:
        """Adds the passkey that the browser has made by itself. Raises `FlowOver`, `Conflict` for a proof that has grown old, and the
        errors of `Passkeys.add`.
        """
        await self._require_fresh(flow, caller)
        return await self.passkeys.add(caller, given, "", actor, upgrading=flow.id)

    async def make(self, flow: Flow, caller: Caller) -> bool:
        """Whether the page has something to offer, which counts as the offer of these thirty days. Nobody is offered what they would have
        to prove themselves for once more. False ends the offer in this flow. Raises `FlowOver` for a flow that another person has signed
        in by.
        """
        _require_own(flow, caller)
        now, proved = self.clock.now(), await self._has_proved(caller)
        async with self.unit_of_work() as uow:
            offered = proved and await uow.flows.offer_passkey(flow.id, caller.user, now)
            if not offered:
                await uow.flows.answer_offer(flow.id, caller.user, now)
            await uow.commit()
        return offered

    async def answer(self, flow: Flow, caller: Caller, *, never_again: bool = False) -> None:
        """Ends the offer in this flow, and every other one to a person who wants no more of it."""
        async with self.unit_of_work() as uow:
            await uow.flows.answer_offer(flow.id, caller.user, self.clock.now(), never_again=never_again)
            await uow.commit()

    async def _require_fresh(self, flow: Flow, caller: Caller) -> None:
        _require_own(flow, caller)
        if not await self._has_proved(caller):
            raise passkey_not_offered()

    async def _has_proved(self, caller: Caller) -> bool:
        try:
            await self.reauthentication.require(caller, StepUp.ACCOUNT)
        except ReauthenticationRequired:
            return False
        return True


def _require_own(flow: Flow, caller: Caller) -> None:
    if flow.user != caller.user or caller.impersonator is not None:
        raise FlowOver
