"""Sessions: opened by a sign-in, continued by their refresh tokens, and ended."""

from datetime import timedelta
from typing import Final

from core.domain.errors import BadRequest, Forbidden, OrganizationNotActive, SecondFactorRequired, Unauthorized, Unavailable
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import NOT_A_MEMBER
from core.domain.identity.devices import Client
from core.domain.identity.impersonation import request_made
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.identity.refresh_tokens import (
    LONGEST_REFRESH_TOKEN,
    BeyondScopes,
    Continued,
    Holder,
    PresentedRefreshToken,
    RefreshOutcome,
    fingerprint,
    refresh_outcome,
    successor,
    token_reused,
)
from core.domain.identity.sessions import (
    IDLE_LIFETIME,
    IMPERSONATION_LIFETIME,
    NO_SUBSCRIPTION,
    PLATFORM,
    Application,
    Context,
    Impersonated,
    OpenedSession,
    Parent,
    Session,
    SubscriptionState,
    TokenPair,
    access_claims,
    session_ended,
    sessions_revoked,
)
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.clock import Clock
from ports.identity.refresh_tokens import RefreshTokens
from ports.ids import Ids
from ports.metrics import Metrics
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.tokens import TokenSigner
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of the key that successors are derived with.
SUCCESSORS: Final = "refresh_tokens"
# Each look at a contended token waits for the request that rotates it, so the second look finds it rotated; the third is for a roll-back in
# between.
_LOOKS: Final = 3


class Sessions(Frozen):
    """`lifetime` is the longest that a session lasts, even while it is used."""

    unit_of_work: UnitOfWorkFactory
    refresh_tokens: RefreshTokens
    signer: TokenSigner
    server_secrets: ServerSecrets
    metrics: Metrics
    issuer: str
    access_lifetime: timedelta
    lifetime: timedelta
    clock: Clock
    ids: Ids
    secrets: Secrets

    async def open(
        self,
        uow: UnitOfWork,
        account: Account,
        *,
        device: DeviceId | None,
        authenticated_by: tuple[str, ...],
        context: Context = PLATFORM,
        impersonation: Impersonated | None = None,
        subscription: SubscriptionState = NO_SUBSCRIPTION,
        parent: Parent | None = None,
        proved: Proved = UNPROVED,
        application: Application | None = None,
        session_id: SessionId | None = None,
    ) -> OpenedSession:
        """Runs within the caller's unit of work, after the device, and without a round trip of its own. `parent` is the session that this
        one is opened from, if any: it ends with that one. With `application`, the session is given to that. Raises `BadRequest` when too
        many sessions stand above it.
        """
        session = await self.begin(
            uow,
            account,
            device=device,
            authenticated_by=authenticated_by,
            context=context,
            impersonation=impersonation,
            parent=parent,
            proved=proved,
            scopes=None if application is None else application.scopes,
            session_id=session_id,
        )
        token = self.secrets.token()
        await uow.sessions.issue(session.id, token.digest(), session.created_at)
        return OpenedSession(session, account.email, account.is_platform_owner, token, subscription, application)

    async def begin(
        self,
        uow: UnitOfWork,
        account: Account,
        *,
        device: DeviceId | None,
        authenticated_by: tuple[str, ...],
        context: Context = PLATFORM,
        impersonation: Impersonated | None = None,
        parent: Parent | None = None,
        proved: Proved = UNPROVED,
        scopes: tuple[str, ...] | None = None,
        session_id: SessionId | None = None,
    ) -> Session:
        """`open` without a credential: the caller gives the session one of another kind, such as a cookie."""
        now = self.clock.now()
        ends_at = now + (self.lifetime if impersonation is None else min(IMPERSONATION_LIFETIME, self.lifetime))
        expires_at = now + IDLE_LIFETIME
        if parent is not None:
            parent.require_room()
            # Both times are bounded by the parent's and move with it: when the parent expires, this session has expired too, and nobody has
            # to look for it.
            ends_at, expires_at = min(ends_at, parent.ends_at), min(expires_at, parent.expires_at)
        session = Session(
            id=session_id or SessionId(self.ids.new()),
            user=account.id,
            created_at=now,
            last_seen_at=now,
            expires_at=min(expires_at, ends_at),
            ends_at=ends_at,
            device=device,
            context=context,
            authenticated_by=authenticated_by,
            impersonated=impersonation,
            parent=None if parent is None else parent.id,
            depth=0 if parent is None else parent.depth + 1,
            proved=proved,
            scopes=scopes,
        )
        await uow.sessions.add(session)
        return session

    async def tokens(self, opened: OpenedSession) -> TokenPair:
        """Signed after the session's unit of work is committed: a token must not vouch for a session that does not exist."""
        claims = access_claims(
            opened,
            issuer=self.issuer,
            token_id=str(self.ids.new()),
            now=self.clock.now(),
            lifetime=self.access_lifetime,
        )
        sign = self.signer.sign_access if opened.application is None else self.signer.sign_for_application
        access_token = Token(await sign(claims))
        self.metrics.token_issued()
        return TokenPair(access_token, opened.refresh_token, _seconds(claims["exp"]) - _seconds(claims["iat"]))

    async def refresh(self, token: Token, client: Client) -> TokenPair:
        """Exchanges a refresh token, in the context that its session has. Raises `BadRequest` for what cannot be a token; `Unauthorized`
        for one that is unknown, whose session has ended, or that comes back after it was exchanged; `Forbidden` when the user has left the
        session's organization; `OrganizationNotActive` when that is not active, and `SecondFactorRequired` when it requires one that the
        user lacks. A session that an application was given is unknown here if the application can show who it is: then it has to.
        """
        return await self.tokens((await self.continued(token, client)).opened)

    async def continued(self, token: Token, client: Client, holder: Holder | None = None) -> Continued:
        """The session with its next refresh token. Raises what `refresh` does, and `BeyondScopes` when the application, `holder`, asks for
        more than the session was opened with.
        """
        _require_plausible(token)
        following = successor(token, await self.server_secrets.get(SUCCESSORS))
        by = fingerprint(client)
        for _ in range(_LOOKS):
            now = self.clock.now()
            presented = await self.refresh_tokens.rotate(token.digest(), following.digest(), by, now, holder)
            if presented is None:
                raise Unauthorized(_REFUSED)
            match refresh_outcome(presented, by, now, holder):
                case RefreshOutcome.GRANTED | RefreshOutcome.REPEATED:
                    opened = OpenedSession(
                        presented.session,
                        presented.email,
                        presented.is_platform_owner,
                        following,
                        presented.subscription,
                        _application(presented, holder),
                    )
                    await self._witness(presented.session, client)
                    return Continued(opened, presented.email_is_verified, presented.role)
                case RefreshOutcome.BEYOND_SCOPES:
                    raise BeyondScopes
                case RefreshOutcome.REUSED:
                    await self._revoke_after_reuse(presented.session, client)
                    raise Unauthorized(_REFUSED, detail="a refresh token was used again")
                case RefreshOutcome.NOT_A_MEMBER:
                    raise Forbidden(NOT_A_MEMBER, words="not_a_member")
                case RefreshOutcome.ORGANIZATION_NOT_ACTIVE:
                    raise OrganizationNotActive
                case RefreshOutcome.SECOND_FACTOR_REQUIRED:
                    raise SecondFactorRequired
                case RefreshOutcome.ENDED:
                    raise Unauthorized(_REFUSED)
                case _:  # contended: look again
                    continue
        raise Unavailable(retry_after=1, detail="a refresh token stayed contended")

    async def sign_out(self, session: SessionId, actor: Actor) -> None:
        """Ends the actor's session, and all sessions opened from it. May be repeated, and may follow another end."""
        user = actor.user
        if user is None:
            raise Unauthorized
        async with self.unit_of_work() as uow:
            # A request that opens a session from this one waits and finds it ended, or has added the new one already.
            await uow.accounts.hold(user)
            if await uow.sessions.revoke(session, user):
                await uow.record(session_ended(user, await uow.sessions.organization(session), actor, session))
                await uow.commit()

    async def sign_out_others(self, user: UserId, but: SessionId, actor: Actor) -> int:
        """Ends all sessions of this person except one and its line: those that it was opened from, and those opened from it. Returns how
        many ended.
        """
        async with self.unit_of_work() as uow:
            # A request that opens a session from one of theirs waits and finds that one ended, or has added the new one already.
            await uow.accounts.hold(user)
            await uow.sessions.end_codes(user)
            ended = await uow.sessions.revoke_all(user, but=but)
            if ended:
                await uow.record(sessions_revoked(user, actor, ended))
            # Also when no session has ended: what was approved a moment ago has none yet.
            await uow.commit()
        return ended

    async def _witness(self, session: Session, client: Client) -> None:
        """The audit log records every act in another person's name; this request has no caller that such an entry could name."""
        if session.impersonated is not None:
            actor = client.actor(session.user, session.impersonated.by)
            async with self.unit_of_work() as uow:
                await uow.record(request_made(session.user, session.context.organization, "POST", "/api/auth/refresh", actor))
                await uow.commit()

    async def _revoke_after_reuse(self, session: Session, client: Client) -> None:
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(session.user)
            # When several requests bring the same old token, one of them finds a session to end and reports it.
            if await uow.sessions.revoke(session.id, session.user):
                # A thief may have opened sessions in other people's names, and in the person's organizations, on the same device. With a
                # token of an application nobody could: what belongs to the person, and to other applications, is not its to end.
                if session.scopes is None:
                    await uow.sessions.revoke_impersonations(session.user)
                    if session.device is not None:
                        await uow.sessions.revoke_of_device(session.device)
                await uow.record(token_reused(session, client.actor()))
                await uow.commit()


# The same for all: a guesser learns nothing from it.
_REFUSED: Final = "The refresh token is not valid"


def _application(presented: PresentedRefreshToken, holder: Holder | None) -> Application | None:
    if holder is not None:
        return Application(holder.client, holder.scopes or presented.session.scopes or ())
    return None if presented.client is None else Application(presented.client, presented.session.scopes or ())


def _require_plausible(token: Token) -> None:
    text = token.reveal()
    if not text:
        raise BadRequest("refresh_token: must not be empty")
    if len(text) > LONGEST_REFRESH_TOKEN:
        raise BadRequest(f"refresh_token: must have at most {LONGEST_REFRESH_TOKEN} characters")


def _seconds(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - for the type checker: we have just made it
    return value
