"""Signing in: a proof, and a second factor where there is one."""

from typing import Final
from uuid import UUID

from core.domain.email import Email
from core.domain.errors import TokenInvalid, Unauthorized
from core.domain.identifiers import PreauthenticationId, UserId
from core.domain.identity.devices import Client, Remembered
from core.domain.identity.mfa import PREAUTHENTICATION_LIFETIME, Preauthentication
from core.domain.identity.precedence import FamiliarAddresses
from core.domain.identity.proofs import Proved
from core.domain.identity.risk import Sighting
from core.domain.identity.sessions import PLATFORM, Context, OpenedSession, TokenUse
from core.domain.identity.sign_in import (
    Alone,
    AwaitingSecondFactor,
    Confirmed,
    NotConfirmed,
    ServiceName,
    SignedIn,
    is_unusual,
    methods,
    open_context,
    preauthentication_claims,
)
from core.domain.secrets import Password, Token
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents, Outcome, audience, warning
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.proofs import WRONG_PASSWORD, Arrival, Demand, PasswordProofs
from core.usecases.identity.sessions import Sessions
from ports.clock import Clock
from ports.ids import Ids
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class SignIn:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        *,
        passwords: PasswordProofs,
        devices: Devices,
        mfa: Mfa,
        sessions: Sessions,
        login_events: LoginEvents,
        familiar: FamiliarAddresses,
        signer: TokenSigner,
        verifier: TokenVerifier,
        clock: Clock,
        ids: Ids,
        issuer: str,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._passwords = passwords
        self._devices = devices
        self._mfa = mfa
        self._sessions = sessions
        self._login_events = login_events
        self._familiar = familiar
        self._signer = signer
        self._verifier = verifier
        self._clock = clock
        self._ids = ids
        self._issuer = issuer

    async def with_password(
        self, email: Email, password: Password, client: Client, service: ServiceName | None = None
    ) -> SignedIn | AwaitingSecondFactor:
        """On the platform, or in a service, whose user one becomes by it. Raises what `PasswordProofs.make` does."""
        return await self.with_proof(await self._passwords.make(email, password, client, service))

    async def with_proof(self, arrival: Arrival) -> SignedIn | AwaitingSecondFactor:
        """A session for somebody who has proved who they are, or a pre-auth token when they owe a second factor. Raises `Unauthorized` when
        the proof does not hold any more, `NotFound` or `OrganizationNotActive` when that has become of where they want to get in.
        """
        sighting = self._devices.judge(arrival.approach, arrival.named.knowledge)
        if arrival.named.mfa_enabled and not sighting.may_skip_second_factor:
            return await self._await_second_factor(arrival, sighting)
        return await self._sign_in(arrival, sighting)

    async def with_second_factor(self, preauth_token: Token, code: str, client: Client, *, trust_device: bool = False) -> SignedIn:
        """Exchange a pre-auth token and a code, once, for a session where the first proof was for. Raises `Unauthorized`, `TokenExpired` or
        `TokenInvalid` for a token that is not good for it, or no longer, `OrganizationNotActive`, `Unauthorized` for a wrong code, of which
        the fifth ends the pre-auth token, and `RateLimited` after too many.
        """
        preauthentication_id, user = await self._read(preauth_token)
        approach = await self._devices.observe(client)
        await self._mfa.prepare()
        async with self._unit_of_work() as uow:
            # Before the pre-authentication, as whoever ends both takes them.
            await uow.accounts.hold_shared(user)
            awaiting = await uow.mfa.find_preauthentication(preauthentication_id)
            if awaiting is None or awaiting.user != user:
                raise Unauthorized(_SIGN_IN_AGAIN)
            confirmed = await uow.sign_ins.confirm_since(user, awaiting.created_at, awaiting.service)
            if confirmed is None:
                raise Unauthorized(_SIGN_IN_AGAIN)
            context = _context_of(awaiting, confirmed)
            method = await self._mfa.check(uow, user, code, client.actor(user), client)
            knowledge = await uow.devices.knowledge(user, approach)
            sighting = self._devices.judge(approach, knowledge)
            if method is None:
                await uow.mfa.fail_preauthentication(preauthentication_id)
                told = audience(context, has_been_there=confirmed.has_been_there)
                await self._login_events.log_wrong_code(uow, user, awaiting.provider, sighting, told)
                raise Unauthorized("The code is not valid")
            now = self._clock.now()
            if not await uow.mfa.consume_preauthentication(preauthentication_id, now):
                raise Unauthorized(_SIGN_IN_AGAIN)
            remembered = await self._devices.remember(uow, user, sighting, trust=trust_device)
            opened = await self._open(
                uow,
                confirmed,
                sighting,
                remembered,
                context=context,
                provider=awaiting.provider,
                authenticated_by=methods(awaiting.amr, method),
                proved=Proved(awaiting.created_at, now),
                mfa_enabled=True,
            )
            await self._login_events.warn(uow, confirmed.account.email, knowledge, sighting, mfa_enabled=True)
            await self._enter(uow, opened)
            await uow.commit()
        self._familiar.add(sighting.approach.client.address)
        return SignedIn(await self._sessions.tokens(opened), remembered)

    async def require_preauthentication(self, preauth_token: Token) -> None:
        """Raises as `with_second_factor` does for a token that is none of ours, without looking it up."""
        await self._read(preauth_token)

    async def _sign_in(self, arrival: Arrival, sighting: Sighting) -> SignedIn:
        mfa_enabled, proof = arrival.named.mfa_enabled, arrival.proof
        if (
            proof.demand_valid is not None
            and arrival.context.service is None
            and warning(arrival.named.knowledge, sighting, mfa_enabled=mfa_enabled) is None
        ):
            return await self._sign_in_at_once(arrival, sighting, proof.demand_valid)
        async with self._unit_of_work() as uow:
            confirmed, context = await self._confirm(uow, arrival, Alone(sighting.device))
            remembered = await self._devices.remember(uow, confirmed.account.id, sighting)
            opened = await self._open(
                uow,
                confirmed,
                sighting,
                remembered,
                context=context,
                provider=proof.provider,
                authenticated_by=proof.amr,
                proved=Proved(proof.at),
                mfa_enabled=mfa_enabled,
            )
            await self._login_events.warn(uow, confirmed.account.email, arrival.named.knowledge, sighting, mfa_enabled=mfa_enabled)
            await self._enter(uow, opened)
            await uow.commit()
        self._familiar.add(sighting.approach.client.address)
        return SignedIn(await self._sessions.tokens(opened), remembered)

    async def _sign_in_at_once(self, arrival: Arrival, sighting: Sighting, demand_valid: Demand) -> SignedIn:
        """The same in one round trip, where nothing that is written depends on what the last look finds."""
        named, proof = arrival.named, arrival.proof
        try:
            async with self._unit_of_work() as uow:
                look = await demand_valid(uow, Alone(sighting.device))
                remembered = await self._devices.remember(uow, named.account.id, sighting)
                opened = await self._open(
                    uow,
                    Confirmed(named.account),
                    sighting,
                    remembered,
                    context=PLATFORM,
                    provider=proof.provider,
                    authenticated_by=proof.amr,
                    proved=Proved(proof.at),
                    mfa_enabled=named.mfa_enabled,
                )
                await uow.commit()
                confirmed = await look()
        except NotConfirmed:
            raise Unauthorized(WRONG_PASSWORD, detail=_CHANGED) from None
        self._familiar.add(sighting.approach.client.address)
        account = confirmed.account
        opened = OpenedSession(opened.session, account.email, account.is_platform_owner, opened.refresh_token, confirmed.subscription)
        return SignedIn(await self._sessions.tokens(opened), remembered)

    async def _await_second_factor(self, arrival: Arrival, sighting: Sighting) -> AwaitingSecondFactor:
        now = self._clock.now()
        user = arrival.named.account.id
        async with self._unit_of_work() as uow:
            _, context = await self._confirm(uow, arrival, None)
            awaiting = Preauthentication(
                PreauthenticationId(self._ids.new()),
                user,
                sighting.device,
                context.organization,
                created_at=now,
                expires_at=now + PREAUTHENTICATION_LIFETIME,
                service=context.service,
                provider=arrival.proof.provider,
                amr=arrival.proof.amr,
            )
            await uow.mfa.add_preauthentication(awaiting)
            await uow.commit()
        claims = preauthentication_claims(user, str(awaiting.id), issuer=self._issuer, now=now, expires_at=awaiting.expires_at)
        token = Token(await self._signer.sign_access(claims))
        return AwaitingSecondFactor(token, int(PREAUTHENTICATION_LIFETIME.total_seconds()))

    @staticmethod
    async def _confirm(uow: UnitOfWork, arrival: Arrival, alone: Alone | None) -> tuple[Confirmed, Context]:
        """The proof may hold no more, or have become too little, or the service may have gone."""
        service = arrival.context.service
        confirmed = await arrival.proof.still_valid(uow, alone, service)
        if confirmed is None:
            raise Unauthorized(WRONG_PASSWORD, detail=_CHANGED)
        return confirmed, PLATFORM if service is None else open_context(confirmed.destination)

    async def _open(
        self,
        uow: UnitOfWork,
        confirmed: Confirmed,
        sighting: Sighting,
        remembered: Remembered,
        *,
        context: Context,
        provider: str,
        authenticated_by: tuple[str, ...],
        proved: Proved,
        mfa_enabled: bool,
    ) -> OpenedSession:
        account = confirmed.account
        opened = await self._sessions.open(
            uow,
            account,
            device=remembered.device,
            authenticated_by=authenticated_by,
            context=context,
            subscription=confirmed.subscription,
            proved=proved,
        )
        await self._login_events.log(
            uow,
            Outcome(
                user=account.id,
                provider=provider,
                failure=None,
                approach=sighting.approach,
                sighting=sighting,
                remembered=remembered,
                flagged=is_unusual(sighting, mfa_enabled=mfa_enabled),
                context=context,
            ),
        )
        return opened

    async def _enter(self, uow: UnitOfWork, opened: OpenedSession) -> None:
        """Last of all, since newcomers to one service wait here for each other."""
        session = opened.session
        if session.context.service is not None:
            await uow.sign_ins.enter(session.user, session.context.service, session.created_at)

    async def _read(self, preauth_token: Token) -> tuple[PreauthenticationId, UserId]:
        claims = await self._verifier.verify_access(preauth_token.reveal())
        if claims.get("token_use") != TokenUse.PREAUTHENTICATION.value:
            raise TokenInvalid(detail="token_use is not mfa_preauth")
        try:
            return PreauthenticationId(UUID(str(claims.get("jti")))), UserId(UUID(str(claims.get("sub"))))
        except ValueError:
            raise TokenInvalid(detail="jti or sub is not an id") from None


_CHANGED: Final = "the account changed while the proof was checked"
_SIGN_IN_AGAIN: Final = "This sign-in has ended: start again"


def _context_of(awaiting: Preauthentication, confirmed: Confirmed) -> Context:
    if awaiting.service is None:
        return PLATFORM
    if confirmed.destination is None:
        raise Unauthorized(_SIGN_IN_AGAIN, detail="the service has been deleted")
    return open_context(confirmed.destination)
