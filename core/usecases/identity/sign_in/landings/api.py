"""Signing in for a client that keeps tokens: by a proof, and by a second factor if the person has one."""

from uuid import UUID

from core.domain.email import Email
from core.domain.errors import TokenInvalid
from core.domain.identifiers import DeviceId, FlowId, PreauthenticationId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, Preauthentication
from core.domain.identity.passkeys import NOBODY, Assertion
from core.domain.identity.sessions import PLATFORM, Application, Context, OpenedSession, TokenUse
from core.domain.identity.sign_in import (
    AwaitingSecondFactor,
    Preauthenticated,
    ServiceName,
    SignedIn,
    preauthentication_claims,
)
from core.domain.key_proofs.proofs import KeyThumbprint
from core.domain.secrets import Password, Token
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in.admission import Admission, Admitted, Arrived
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import PasswordProofs
from core.usecases.identity.sign_in.proofs.proof import Arrival
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWork


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
        return await self.sessions.open(
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
