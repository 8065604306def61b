"""Sessions: opened by a sign-in, carried on by their refresh tokens, and ended."""

from datetime import datetime, timedelta
from typing import Final

from core.domain.accounts import Account
from core.domain.devices import Client
from core.domain.errors import BadRequest, Forbidden, OrganizationNotActive, Unauthorized, Unavailable
from core.domain.events import Actor
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.impersonation import request_made
from core.domain.secrets import Token
from core.domain.sessions import (
    IDLE_LIFETIME,
    IMPERSONATION_LIFETIME,
    LONGEST_REFRESH_TOKEN,
    NO_SUBSCRIPTION,
    NOT_A_MEMBER,
    PLATFORM,
    Context,
    Impersonated,
    OpenedSession,
    RefreshOutcome,
    Session,
    SubscriptionState,
    TokenPair,
    access_claims,
    fingerprint,
    refresh_outcome,
    session_ended,
    sessions_revoked,
    successor,
    token_reused,
)
from ports.clock import Clock
from ports.ids import Ids
from ports.metrics import Metrics
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.sessions import RefreshTokens
from ports.tokens import TokenSigner
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of the key that successors are derived with.
SUCCESSORS: Final = "refresh_tokens"
# Each look at a contended token waits for whoever rotates it, so the second one finds it rotated; the third is for a roll-back between.
_LOOKS: Final = 3


class Sessions:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        refresh_tokens: RefreshTokens,
        signer: TokenSigner,
        server_secrets: ServerSecrets,
        metrics: Metrics,
        *,
        issuer: str,
        access_lifetime: timedelta,
        lifetime: timedelta,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        """`lifetime` is what a session lasts at most, whatever its use."""
        self._unit_of_work = unit_of_work
        self._refresh_tokens = refresh_tokens
        self._signer = signer
        self._server_secrets = server_secrets
        self._metrics = metrics
        self._issuer = issuer
        self._access_lifetime = access_lifetime
        self._lifetime = lifetime
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def open(
        self,
        unit: UnitOfWork,
        account: Account,
        *,
        device: DeviceId | None,
        authenticated_by: tuple[str, ...],
        context: Context = PLATFORM,
        impersonation: Impersonated | None = None,
        subscription: SubscriptionState = NO_SUBSCRIPTION,
        until: datetime | None = None,
    ) -> OpenedSession:
        """Within the caller's unit of work, after the device, and without a round trip of its own. `until` is the end of the session that
        it is opened from, if it is.
        """
        now = self._clock.now()
        ends_at = now + (self._lifetime if impersonation is None else min(IMPERSONATION_LIFETIME, self._lifetime))
        ends_at = ends_at if until is None else min(ends_at, until)
        session = Session(
            id=SessionId(self._ids.new()),
            user=account.id,
            created_at=now,
            last_seen_at=now,
            expires_at=min(now + IDLE_LIFETIME, ends_at),
            ends_at=ends_at,
            device=device,
            context=context,
            authenticated_by=authenticated_by,
            impersonated=impersonation,
        )
        token = self._secrets.token()
        await unit.sessions.add(session)
        await unit.sessions.issue(session.id, token.digest(), now)
        return OpenedSession(session, account.email, account.is_platform_owner, token, subscription)

    async def tokens(self, opened: OpenedSession) -> TokenPair:
        """Signed after the session's unit of work is committed: what does not exist is not vouched for."""
        claims = access_claims(
            opened,
            issuer=self._issuer,
            token_id=str(self._ids.new()),
            now=self._clock.now(),
            lifetime=self._access_lifetime,
        )
        access_token = Token(await self._signer.sign_access(claims))
        self._metrics.token_issued()
        return TokenPair(access_token, opened.refresh_token, _seconds(claims["exp"]) - _seconds(claims["iat"]))

    async def refresh(self, token: Token, client: Client) -> TokenPair:
        """Exchange a refresh token, in the context that its session has. Raises `BadRequest` for what cannot be a token, `Unauthorized` for
        one that is unknown, whose session has ended, or that comes back after it was exchanged; `Forbidden` when the user has left the
        session's organization, `OrganizationNotActive` when that is not active.
        """
        _require_plausible(token)
        following = successor(token, await self._server_secrets.get(SUCCESSORS))
        by = fingerprint(client)
        for _ in range(_LOOKS):
            now = self._clock.now()
            presented = await self._refresh_tokens.rotate(token.digest(), following.digest(), by, now)
            if presented is None:
                raise Unauthorized(_REFUSED)
            match refresh_outcome(presented, by, now):
                case RefreshOutcome.GRANTED | RefreshOutcome.REPEATED:
                    opened = OpenedSession(
                        presented.session, presented.email, presented.is_platform_owner, following, presented.subscription
                    )
                    await self._witness(presented.session, client)
                    return await self.tokens(opened)
                case RefreshOutcome.REUSED:
                    await self._revoke_after_reuse(presented.session, client)
                    raise Unauthorized(_REFUSED, detail="a refresh token was used again")
                case RefreshOutcome.NOT_A_MEMBER:
                    raise Forbidden(NOT_A_MEMBER)
                case RefreshOutcome.ORGANIZATION_NOT_ACTIVE:
                    raise OrganizationNotActive
                case RefreshOutcome.ENDED:
                    raise Unauthorized(_REFUSED)
                case _:  # contended: look again
                    continue
        raise Unavailable(retry_after=1, detail="a refresh token stayed contended")

    async def sign_out(self, session: SessionId, actor: Actor) -> None:
        """End the actor's session. May be repeated, and after it ended in another way."""
        user = actor.user
        if user is None:
            raise Unauthorized
        async with self._unit_of_work() as unit:
            if await unit.sessions.revoke(session, user, self._clock.now()):
                await unit.record(session_ended(user, actor, session))
                await unit.commit()

    async def sign_out_others(self, user: UserId, but: SessionId, actor: Actor) -> int:
        """End all sessions of this person but one. Returns how many there were."""
        async with self._unit_of_work() as unit:
            # Whoever opens a session from one of theirs waits, and finds that one ended, or has added the new one already.
            await unit.accounts.hold(user)
            ended = await unit.sessions.revoke_all(user, but=but)
            if ended:
                await unit.record(sessions_revoked(user, actor, ended))
                await unit.commit()
        return ended

    async def _witness(self, session: Session, client: Client) -> None:
        """What is done in another's name is on record; this request names no caller who would be seen to do it."""
        if session.impersonated is not None:
            actor = client.actor(session.user, session.impersonated.by)
            async with self._unit_of_work() as unit:
                await unit.record(request_made(session.user, session.context.organization, "POST", "/api/auth/refresh", actor))
                await unit.commit()

    async def _revoke_after_reuse(self, session: Session, client: Client) -> None:
        async with self._unit_of_work() as unit:
            await unit.accounts.hold(session.user)
            # Of several that come with the same old token, one finds a session to end, and says so.
            if await unit.sessions.revoke(session.id, session.user, self._clock.now()):
                # Whoever has stolen it may have opened sessions in others' names; and in the person's organizations, on the same device.
                await unit.sessions.revoke_impersonations(session.user)
                if session.device is not None:
                    await unit.sessions.revoke_of_device(session.device)
                await unit.record(token_reused(session, client.actor()))
                await unit.commit()


# The same for all: whoever guesses learns nothing from it.
_REFUSED: Final = "The refresh token is not valid"


def _require_plausible(token: Token) -> None:
    text = token.reveal()
    if not text:
        raise BadRequest("refresh_token: must not be empty")
    if len(text) > LONGEST_REFRESH_TOKEN:
        raise BadRequest(f"refresh_token: must have at most {LONGEST_REFRESH_TOKEN} characters")


def _seconds(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - for the type checker: we have just made it
    return value
