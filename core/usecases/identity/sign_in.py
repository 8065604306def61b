"""Signing in, for a client that keeps tokens: a proof, and a second factor where there is one."""

from uuid import UUID

from core.domain.email import Email
from core.domain.errors import TokenInvalid, Unauthorized
from core.domain.identifiers import PreauthenticationId, UserId
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, Preauthentication
from core.domain.identity.passkeys import NOBODY, Assertion
from core.domain.identity.precedence import FamiliarAddresses
from core.domain.identity.proofs import Proved
from core.domain.identity.risk import Sighting
from core.domain.identity.sessions import PLATFORM, OpenedSession, TokenUse
from core.domain.identity.sign_in import Alone, AwaitingSecondFactor, NotConfirmed, ServiceName, SignedIn, preauthentication_claims
from core.domain.secrets import Password, Token
from core.usecases.identity.admission import CHANGED, Admission, Arrived
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import warning
from core.usecases.identity.passkey_proofs import PasskeyProofs
from core.usecases.identity.proofs import WRONG_PASSWORD, Arrival, Demand, PasswordProofs
from core.usecases.identity.sessions import Sessions
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class WithTokens:
    """Implements `core.usecases.identity.admission.Landing`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def open(self, uow: UnitOfWork, arrived: Arrived) -> OpenedSession:
        return await self._sessions.open(
            uow,
            arrived.account,
            device=arrived.device,
            authenticated_by=arrived.authenticated_by,
            context=arrived.context,
            subscription=arrived.subscription,
            proved=arrived.proved,
        )

    async def wait(self, uow: UnitOfWork, awaiting: Preauthentication) -> None:
        """The pre-auth token says all that the client needs."""


class SignIn:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        *,
        passwords: PasswordProofs,
        passkeys: PasskeyProofs,
        devices: Devices,
        admission: Admission,
        sessions: Sessions,
        familiar: FamiliarAddresses,
        signer: TokenSigner,
        verifier: TokenVerifier,
        issuer: str,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._passwords = passwords
        self._passkeys = passkeys
        self._devices = devices
        self._admission = admission
        self._sessions = sessions
        self._landing = WithTokens(sessions)
        self._familiar = familiar
        self._signer = signer
        self._verifier = verifier
        self._issuer = issuer

    async def with_password(
        self, email: Email, password: Password, client: Client, service: ServiceName | None = None
    ) -> SignedIn | AwaitingSecondFactor:
        """On the platform, or in a service, whose user one becomes by it. Raises what `PasswordProofs.make` does."""
        return await self.with_proof(await self._passwords.make(email, password, client, service))

    async def with_passkey(self, given: Assertion, client: Client, service: ServiceName | None = None) -> SignedIn:
        """The same with a passkey, for a client that has asked for options without a browser of ours. Raises what `PasskeyProofs.make` and
        `Admission.admit` do.
        """
        signed_in = await self.with_proof(await self._passkeys.make(given, NOBODY, client, service))
        assert isinstance(signed_in, SignedIn)  # noqa: S101 - for the type checker: a passkey shows two factors
        return signed_in

    async def with_proof(self, arrival: Arrival) -> SignedIn | AwaitingSecondFactor:
        """A session for somebody who has proved who they are, or a pre-auth token when they owe a second factor. Raises what
        `Admission.admit` does.
        """
        sighting = self._devices.judge(arrival.approach, arrival.named.knowledge)
        named, proof = arrival.named, arrival.proof
        owes_second_factor = named.mfa_enabled and not sighting.may_skip_second_factor
        if (
            proof.demand_valid is not None
            and not owes_second_factor
            and arrival.context.service is None
            and arrival.realm is None
            and warning(named.knowledge, sighting, mfa_enabled=named.mfa_enabled) is None
        ):
            return await self._at_once(arrival, sighting, proof.demand_valid)
        admitted = await self._admission.admit(arrival, sighting, self._landing)
        if isinstance(admitted, Preauthentication):
            return await self._preauthenticated(admitted)
        return await self._signed_in(admitted.kept, admitted.remembered)

    async def with_second_factor(self, preauth_token: Token, code: str, client: Client, *, trust_device: bool = False) -> SignedIn:
        """Exchange a pre-auth token and a code, once, for a session where the first proof was for. Raises `TokenExpired` or `TokenInvalid`
        for a token that is none of ours, and what `Admission.admit_with_second_factor` does.
        """
        preauthentication, user = await self._read(preauth_token)
        admitted = await self._admission.admit_with_second_factor(
            preauthentication, user, code, client, self._landing, trust_device=trust_device
        )
        return await self._signed_in(admitted.kept, admitted.remembered)

    async def require_preauthentication(self, preauth_token: Token) -> None:
        """Raises as `with_second_factor` does for a token that is none of ours, without looking it up."""
        await self._read(preauth_token)

    async def _at_once(self, arrival: Arrival, sighting: Sighting, demand_valid: Demand) -> SignedIn:
        """An admission in one round trip, where nothing that is written depends on what the last look finds."""
        named, proof = arrival.named, arrival.proof
        try:
            async with self._unit_of_work() as uow:
                look = await demand_valid(uow, Alone(sighting.device))
                remembered = await self._devices.remember(uow, named.account.id, sighting)
                opened = await self._sessions.open(
                    uow, named.account, device=remembered.device, authenticated_by=proof.amr, proved=Proved(proof.at)
                )
                await self._admission.log(
                    uow,
                    named.account.id,
                    provider=proof.provider,
                    sighting=sighting,
                    remembered=remembered,
                    context=PLATFORM,
                    mfa_enabled=named.mfa_enabled,
                )
                await uow.commit()
                confirmed = await look()
        except NotConfirmed:
            raise Unauthorized(WRONG_PASSWORD, detail=CHANGED, words="wrong_password") from None
        self._familiar.add(sighting.approach.client.address)
        account = confirmed.account
        opened = OpenedSession(opened.session, account.email, account.is_platform_owner, opened.refresh_token, confirmed.subscription)
        return await self._signed_in(opened, remembered)

    async def _signed_in(self, opened: OpenedSession, remembered: Remembered) -> SignedIn:
        return SignedIn(await self._sessions.tokens(opened), remembered, opened.session.user, opened.session.id)

    async def _preauthenticated(self, awaiting: Preauthentication) -> AwaitingSecondFactor:
        claims = preauthentication_claims(
            awaiting.user, str(awaiting.id), issuer=self._issuer, now=awaiting.created_at, expires_at=awaiting.expires_at
        )
        token = Token(await self._signer.sign_access(claims))
        return AwaitingSecondFactor(token, int(PREAUTHENTICATION_LIFETIME.total_seconds()))

    async def _read(self, preauth_token: Token) -> tuple[PreauthenticationId, UserId]:
        claims = await self._verifier.verify_access(preauth_token.reveal())
        if claims.get("token_use") != TokenUse.PREAUTHENTICATION.value:
            raise TokenInvalid(detail="token_use is not mfa_preauth")
        try:
            return PreauthenticationId(UUID(str(claims.get("jti")))), UserId(UUID(str(claims.get("sub"))))
        except ValueError:
            raise TokenInvalid(detail="jti or sub is not an id") from None
