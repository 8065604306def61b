"""Sessions: opened by a sign-in, refreshed, listed for their user, ended, and displaced by later ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    OrganizationNotActive,
    SecondFactorRequired,
    TermsRequired,
    Unauthorized,
    Unavailable,
)
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.browser_sessions import FrameAddress
from core.domain.identity.callers import NOT_A_MEMBER, Caller, request_made
from core.domain.identity.devices import Client
from core.domain.identity.guards.hook_verdicts import KeptOutByHook
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.identity.refresh_tokens import (
    LONGEST_REFRESH_TOKEN,
    BeyondScopes,
    Continued,
    Holder,
    PresentedRefreshToken,
    RefreshOutcome,
    audience_of,
    fingerprint,
    refresh_outcome,
    successor,
    token_reused,
)
from core.domain.identity.session_limits import DISPLACED_MAILS, DisplacedPerson, Displacement, sessions_displaced
from core.domain.identity.sessions import (
    IDLE_LIFETIME,
    IMPERSONATION_LIFETIME,
    NO_SUBSCRIPTION,
    NOT_JUDGED,
    PLATFORM,
    AgentsForbidden,
    Application,
    Context,
    Doors,
    Impersonated,
    OpenedSession,
    OwnSession,
    Parent,
    Session,
    SubscriptionState,
    TokenPair,
    access_claims,
    resource_claims,
    session_ended,
    session_revoked,
    sessions_revoked,
)
from core.domain.identity.sessions import OwnSessionList as Listed
from core.domain.identity.upstream.directory_visits import DirectoryFactor
from core.domain.identity.upstream.providers import own_provider_of
from core.domain.key_proofs import KeyThumbprint, bound
from core.domain.mail import Mail
from core.domain.record.events import Actor
from core.domain.requests import Page
from core.domain.secrets import Token
from core.domain.tokens import NoAudience
from core.frozen import Frozen, replace
from ports.crypto import ServerSecrets, TokenSigner
from ports.identity.accounts import FactLookup
from ports.identity.sessions import OwnSessionLookup, RefreshTokens
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key from which successors of refresh tokens are derived.
SUCCESSORS: Final = "refresh_tokens"
# Each look at a contended token waits for the request that rotates the token, so the second look finds the token rotated. The third look is
# for a roll-back in between.
_LOOKS: Final = 3


class Sessions(Frozen):
    """`lifetime` is the longest time that a session lasts, even while the session is in use, and `idle` the longest without a use. `most`
    is how many sign-ins of one person may be open at once.
    """

    unit_of_work: UnitOfWorkFactory
    refresh_tokens: RefreshTokens
    facts: FactLookup
    signer: TokenSigner
    server_secrets: ServerSecrets
    metrics: Metrics
    issuer: str
    access_lifetime: timedelta
    lifetime: timedelta
    system: System
    idle: timedelta = IDLE_LIFETIME
    most: int | None = None

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
        tells_more: bool = False,
        parent: Parent | None = None,
        proved: Proved = UNPROVED,
        application: Application | None = None,
        session_id: SessionId | None = None,
        opened_through: str = "",
        factor: DirectoryFactor | None = None,
        doors: Doors = NOT_JUDGED,
        key: KeyThumbprint | None = None,
    ) -> OpenedSession:
        """Opens a session within the caller's unit of work, after the device, without a round trip of its own. `parent` is the session from
        which the new session is opened, if any: the new session ends with its parent. With `application`, the session is given to this
        application. Raises `BadRequest` when the chain of parents is too long.
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
            opened_through=opened_through,
            factor=factor,
            doors=doors,
            key=key,
        )
        token = self.system.secrets.token()
        await uow.sessions.issue(session.id, token.digest(), session.created_at)
        return OpenedSession(session, account.email, account.is_platform_owner, token, subscription, application, tells_more=tells_more)

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
        ends_by: datetime | None = None,
        opened_through: str = "",
        factor: DirectoryFactor | None = None,
        doors: Doors = NOT_JUDGED,
        key: KeyThumbprint | None = None,
    ) -> Session:
        """Does what `open` does, but without a refresh token: the caller gives the session another credential, such as a cookie.
        `opened_through` is the provider that the person signed in at, if they did, and `factor` what it has stated.
        """
        now = self.system.clock.now()
        ends_at = now + (self.lifetime if impersonation is None else min(IMPERSONATION_LIFETIME, self.lifetime))
        if ends_by is not None:
            ends_at = min(ends_at, ends_by)
        expires_at = now + self.idle
        if parent is not None:
            parent.require_room()
            # Both times end no later than the parent's and move with the parent's: when the parent expires, this session has expired, too,
            # so no sweep has to look for it.
            ends_at, expires_at = min(ends_at, parent.ends_at), min(expires_at, parent.expires_at)
        session = Session(
            id=session_id or SessionId(self.system.ids.new()),
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
            opened_through=own_provider_of(opened_through),
            idle=self.idle,
            most=self.most,
            doors=doors,
            key=key,
        )
        await uow.sessions.add(session)
        if factor is None and parent is not None and impersonation is None:
            # Whoever acts for somebody has shown the factor for their own account.
            factor = parent.factor
        if factor is not None:
            await uow.sessions.keep_factor(session.id, factor)
        return session

    async def with_facts(self, opened: OpenedSession) -> OpenedSession:
        """The session with everything that its service may learn. Only a person or service that has more than the account costs a round
        trip. Call it after the session's unit of work is committed.
        """
        if not opened.tells_more or opened.session.context.service is None:
            return opened
        facts = await self.facts.find(opened.session.context.service, opened.session.user)
        return replace(opened, facts=facts, tells_more=False)

    async def tokens(self, opened: OpenedSession, key: KeyThumbprint | None = None) -> TokenPair:
        """Signs the session's tokens. Call it after the session's unit of work is committed, because a token must not vouch for a session
        that does not exist. The access token is bound to the `key`, if there is one.
        """
        opened = await self.with_facts(opened)
        application, audience = opened.application, opened.audience
        token_id, now = str(self.system.ids.new()), self.system.clock.now()
        if application is not None and audience is not None:
            claims = resource_claims(
                opened.session, application, audience, issuer=self.issuer, token_id=token_id, now=now, lifetime=self.access_lifetime
            )
        else:
            claims = access_claims(opened, issuer=self.issuer, token_id=token_id, now=now, lifetime=self.access_lifetime)
        claims = bound(claims, key)
        if application is None:
            access_token = Token(await self.signer.sign_access(claims))
        else:
            algorithm = application.algorithm if audience is None else audience.algorithm
            access_token = Token(await self.signer.sign_for_application(claims, algorithm))
        self.metrics.token_issued()
        return TokenPair(access_token, opened.refresh_token, _seconds(claims["exp"]) - _seconds(claims["iat"]))

    async def refresh(self, token: Token, client: Client) -> TokenPair:
        """Exchanges a refresh token, in the context of its session. Raises `BadRequest` for a value that cannot be a token; `Unauthorized`
        for a token that is unknown, that comes back after its exchange, or whose session has ended; `Forbidden` when the user has left the
        session's organization; `OrganizationNotActive` when the organization is not active, and `SecondFactorRequired` when the
        organization requires a second factor that the user lacks, and `TermsRequired` when terms were not accepted in time. Tokens of a
        session that an application was given are unknown here if the application can authenticate: such an application has to authenticate.
        """
        try:
            continued = await self.continued(token, client)
        except NoAudience:
            raise Unauthorized(_REFUSED, detail="the session has several APIs, or its API is closed") from None
        return await self.tokens(continued.opened)

    async def continued(self, token: Token, client: Client, holder: Holder | None = None) -> Continued:
        """Returns the session with its next refresh token. Raises the errors of `refresh`; `BeyondScopes` when the application, `holder`,
        asks for more scopes than the session was opened with; and `NoAudience` when the session was granted APIs, and the application names
        none of them, or not one alone.
        """
        _require_plausible(token)
        following = successor(token, await self.server_secrets.get(SUCCESSORS))
        by = fingerprint(client)
        for _ in range(_LOOKS):
            now = self.system.clock.now()
            presented = await self.refresh_tokens.rotate(token.digest(), following.digest(), by, now, holder)
            if presented is None:
                raise Unauthorized(_REFUSED)
            match refresh_outcome(presented, by, now, holder):
                case RefreshOutcome.GRANTED | RefreshOutcome.REPEATED:
                    opened = OpenedSession(
                        presented.session,
                        presented.email,
                        presented.is_platform_owner,
                        token if presented.stays else following,
                        presented.subscription,
                        _application(presented, holder),
                        tells_more=presented.tells_more,
                        audience=audience_of(presented, holder),
                    )
                    await self._witness(presented.session, client)
                    return Continued(opened, presented.email_is_verified, presented.role, presented.profile)
                case RefreshOutcome.REUSED:
                    await self._revoke_after_reuse(presented, client)
                    raise Unauthorized(_REFUSED, detail="a refresh token was used again")
                case RefreshOutcome.CONTENDED:  # look again
                    continue
                case refused:
                    raise _refusal(refused, presented, holder)
        raise Unavailable(retry_after=1, detail="a refresh token stayed contended")

    async def sign_out(self, session: SessionId, actor: Actor) -> Sequence[FrameAddress]:
        """Ends the actor's session, and all sessions opened from it. May be repeated, and may follow another end. Returns the pages of
        applications that a browser has to load in frames, if it was the browser's session.
        """
        user = actor.user
        if user is None:
            raise Unauthorized
        async with self.unit_of_work() as uow:
            # A simultaneous request that opens a session from this session either waits and finds this session ended, or has added the new
            # session already.
            await uow.accounts.hold(user)
            ended = await uow.sessions.end(session, user)
            if ended is not None:
                await uow.record(session_ended(user, await uow.sessions.organization(session), actor, session))
                await uow.commit()
        return ended or ()

    async def sign_out_others(self, user: UserId, but: SessionId, actor: Actor) -> int:
        """Ends all sessions of this person except the session `but`, the sessions that `but` was opened from, and the sessions opened from
        `but`. Returns how many ended.
        """
        async with self.unit_of_work() as uow:
            # A simultaneous request that opens a session from one of the person's sessions either waits and finds that session ended, or
            # has added the new session already.
            await uow.accounts.hold(user)
            await uow.sessions.end_codes(user)
            ended = await uow.sessions.revoke_all(user, but=but)
            if ended:
                await uow.record(sessions_revoked(user, actor, ended))
            # The commit comes even when no session has ended: a device that was approved a moment ago has no session yet, but its approval
            # ends.
            await uow.commit()
        return ended

    async def _witness(self, session: Session, client: Client) -> None:
        """Records a refresh during an impersonation. The audit log records every act in another person's name, and this request has no
        caller that the usual entry could name.
        """
        if session.impersonated is not None:
            actor = client.actor(session.user, session.impersonated.by)
            async with self.unit_of_work() as uow:
                await uow.record(request_made(session.user, session.context.organization, "POST", "/api/auth/refresh", actor))
                await uow.commit()

    async def _revoke_after_reuse(self, presented: PresentedRefreshToken, client: Client) -> None:
        session, agent = presented.session, presented.client if presented.is_agent else None
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(session.user)
            # When several requests bring the same old token, one of these requests finds a session to end and reports it.
            if await uow.sessions.revoke(session.id, session.user):
                # A thief may have opened sessions in other people's names, and in the person's organizations, on the same device. A token
                # of an application cannot do this, so its misuse must not end the sessions of the person and of other applications.
                if session.scopes is None:
                    await uow.sessions.revoke_impersonations(session.user)
                    if session.device is not None:
                        await uow.sessions.revoke_of_device(session.device)
                await uow.record(token_reused(session, client.actor(), agent))
                await uow.commit()


# The text is the same for all refusals, so that a guesser learns nothing.
_REFUSED: Final = "The refresh token is not valid"


def _refusal(outcome: RefreshOutcome, presented: PresentedRefreshToken, holder: Holder | None) -> Exception:
    match outcome:
        case RefreshOutcome.BEYOND_SCOPES:
            return BeyondScopes()
        case RefreshOutcome.NO_AUDIENCE:
            return NoAudience(presented.audiences.missing(None if holder is None else holder.resource))
        case RefreshOutcome.NOT_A_MEMBER | RefreshOutcome.AGENTS_FORBIDDEN | RefreshOutcome.REFUSED_BY_HOOK:
            return _forbidden(outcome)
        case RefreshOutcome.ORGANIZATION_NOT_ACTIVE:
            return OrganizationNotActive()
        case RefreshOutcome.SECOND_FACTOR_REQUIRED | RefreshOutcome.TERMS_REQUIRED:
            return SecondFactorRequired() if outcome is RefreshOutcome.SECOND_FACTOR_REQUIRED else TermsRequired()
        case _:
            return Unauthorized(_REFUSED)


def _forbidden(outcome: RefreshOutcome) -> Forbidden:
    if outcome is RefreshOutcome.NOT_A_MEMBER:
        return Forbidden(NOT_A_MEMBER, words="not_a_member")
    return KeptOutByHook() if outcome is RefreshOutcome.REFUSED_BY_HOOK else AgentsForbidden()


def _application(presented: PresentedRefreshToken, holder: Holder | None) -> Application | None:
    if holder is not None:
        return Application(holder.client, holder.scopes or presented.session.scopes or (), presented.algorithm, presented.is_agent)
    if presented.client is None:
        return None
    return Application(presented.client, presented.session.scopes or (), presented.algorithm, presented.is_agent)


def _require_plausible(token: Token) -> None:
    text = token.reveal()
    if not text:
        raise BadRequest("refresh_token: must not be empty")
    if len(text) > LONGEST_REFRESH_TOKEN:
        raise BadRequest(f"refresh_token: must have at most {LONGEST_REFRESH_TOKEN} characters")


def _seconds(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - for the type checker: we have just made it
    return value


class OwnSessions(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: OwnSessionLookup
    clock: Clock

    async def list(self, caller: Caller, page: Page) -> Listed:
        """Lists the caller's sessions: the current session first, then the last used."""
        return await self.lookup.list(caller.user, caller.session, self.clock.now(), page)

    async def tree(self, caller: Caller, session: SessionId) -> Sequence[OwnSession]:
        """Returns all sessions that end with this session, beginning with this session. Raises `NotFound`, also when the session is another
        person's or has ended.
        """
        found = await self.lookup.tree(caller.user, session, caller.session, self.clock.now())
        if not found:
            raise NotFound(_UNKNOWN)
        return found

    async def end(self, caller: Caller, session: SessionId, actor: Actor) -> None:
        """Ends the session and the sessions opened from it: all of these are refused from the next request on. May be repeated. Raises
        `BadRequest` for the caller's current session, and `NotFound` when this person has never had such a session.
        """
        if session == caller.session:
            raise BadRequest("This is the session that you are using: sign out instead", words="session_in_use")
        async with self.unit_of_work() as uow:
            # A simultaneous request that opens a session from this session either waits and finds this session ended, or has added the new
            # session already.
            await uow.accounts.hold(caller.user)
            if await uow.sessions.revoke(session, caller.user):
                await uow.record(session_revoked(caller.user, actor, session))
                await uow.commit()
                return
        if not await self.lookup.was_there(caller.user, session):
            raise NotFound(_UNKNOWN)


_UNKNOWN: Final = "There is no such session"


class DisplacedSessions(Frozen):
    unit_of_work: UnitOfWorkFactory
    templates: MailTemplates
    buckets: SharedBuckets

    async def tell(self, displacement: Displacement) -> bool:
        """Returns whether there is anybody to tell. A second call tells the person again, and the applications once."""
        async with self.unit_of_work() as uow:
            person = await uow.sessions.find_displaced(displacement)
        if person is None:
            return False
        mail = await self._mail(person)
        async with self.unit_of_work() as uow:
            await uow.sessions.notice_displaced(displacement)
            if mail is not None:
                await uow.jobs.add(mail.as_job())
            await uow.record(sessions_displaced(person, displacement))
            await uow.commit()
        return True

    async def _mail(self, person: DisplacedPerson) -> Mail | None:
        if not person.is_active or await self.buckets.take(DISPLACED_MAILS, str(person.user)) > 0:
            return None
        location = person.location
        return self.templates.mail(
            "session_displaced",
            person.email.address,
            account=person.user,
            language=person.language,
            place=person.place,
            when=person.last_seen_at,
            device=person.device_name,
            location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
        )
