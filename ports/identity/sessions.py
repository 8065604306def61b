"""Stores of sessions, of their cookies and refresh tokens as digests, and of impersonations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import BoundKeyId, DeviceId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.browser_sessions import Chosen, FrameAddress
from core.domain.identity.callers import Impersonation
from core.domain.identity.guards.bound_sessions import BoundKey, NewBoundKey
from core.domain.identity.proofs import Proved
from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken
from core.domain.identity.session_limits import DisplacedPerson, Displacement, SessionLimits, SessionReach
from core.domain.identity.sessions import NO_SUBSCRIPTION, Doors, OwnSession, OwnSessionList, Parent, Session, SubscriptionState
from core.domain.identity.sign_in import Destination
from core.domain.identity.upstream.directory_visits import DirectoryFactor
from core.domain.requests import Page
from core.domain.tokens import TokenAudience
from core.frozen import Frozen


class Opener(Frozen):
    """A live session that another session is opened from, and its person."""

    account: Account
    session: Parent


class SessionStore(Protocol):
    """All methods need a unit of work. Methods that end sessions also end all sessions that were opened from those. Call them with the
    account held, because a request that opens a session holds the account.
    """

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        """Called before another session is opened from this one. The session has not ended since the request came in. A request that ends
        it, or deactivates the account, waits until the new session exists and ends that too. One at a time for each account. Comes first in
        its unit of work, except for a membership. None when the session has ended.
        """

    async def lives(self, session: SessionId) -> bool:
        """Whether the session has not ended since the request came in. Called with the account held, so that the session does not end
        meanwhile.
        """

    async def add(self, session: Session) -> None: ...

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        """Adds the first refresh token of a session."""

    async def grant(self, session: SessionId, granted: Sequence[TokenAudience]) -> None:
        """Keeps the APIs that a new session may have tokens for."""

    async def prove(self, session: SessionId, user: UserId, proved: Proved) -> None:
        """Records what the person has just proved in this session of theirs. Needs no round trip of its own."""

    async def keep_factor(self, session: SessionId, factor: DirectoryFactor) -> None:
        """The directory by which the person has signed in to the session has stated a second factor. Needs no round trip of its own."""

    async def end_by(self, session: SessionId, at: datetime) -> None:
        """The session, and the sessions that hang on it, end at this time at the latest. Called after the account is held."""

    async def revoke(self, session: SessionId, user: UserId) -> bool:
        """False when this person has no such session, or the session is revoked already: of two callers, one gets True."""

    async def end(self, session: SessionId, user: UserId) -> Sequence[FrameAddress] | None:
        """As `revoke`, for the sign-out of a browser: the pages that the browser loads in frames, of all sessions that ended with this one.
        None when there was nothing to end.
        """

    async def organization(self, session: SessionId) -> OrganizationId | None:
        """The organization that the session was opened in. None when it was opened in none."""

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        """Ends the person's own sessions, and those that the person opened in other people's names. The session `but` is spared, with the
        sessions that it was opened from and the person's own sessions that were opened from it. Returns how many ended.
        """

    async def end_all(self, user: UserId, *, but: SessionId | None) -> None:
        """As `revoke_all`, for callers that do not need the number: no round trip of its own."""

    async def end_codes(self, user: UserId) -> None:
        """Ends the codes of applications and devices that the person has let in and that have no session yet. Needs no round trip of its
        own. The account is held.
        """

    async def revoke_of_device(self, device: DeviceId) -> int:
        """Ends the sessions of the device, and all that its person opened in other people's names. Returns how many ended."""

    async def end_federated(self, user: UserId) -> None:
        """Ends the sessions that somebody else vouched for, and all that were opened from those."""

    async def find_displaced(self, displacement: Displacement) -> DisplacedPerson | None:
        """Whose sessions a later sign-in has ended. None when the person, or the session of that sign-in, is gone."""

    async def notice_displaced(self, displacement: Displacement) -> None:
        """Queues the notices for applications whose sessions a later sign-in has ended: one notice for each, however often it is called."""

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        """Ends the sessions that this person opened in other people's names. Returns how many ended."""


class OwnSessionLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def list(self, user: UserId, of: SessionId, now: datetime, page: Page) -> OwnSessionList:
        """The living sessions of the person. `of` is the session from which the person looks, and comes first. Beyond the last page the
        list is empty, and the numbers are 0.
        """

    async def tree(self, user: UserId, session: SessionId, of: SessionId, now: datetime) -> Sequence[OwnSession]:
        """A living session of this person, and after it the sessions that were opened from it and end with it. Empty when there is no such
        session.
        """

    async def was_there(self, user: UserId, session: SessionId) -> bool:
        """Whether this is, or was, a session of the person."""


class BrowserSessionStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, digest: bytes, session: SessionId, bound: BoundKeyId | None = None) -> None:
        """Adds the cookie of a new session. With `bound`, it is bound to this key, if a browser has registered the key. Needs no round trip
        of its own.
        """

    async def renew(
        self,
        digest: bytes,
        session: SessionId,
        user: UserId,
        proved: Proved,
        methods: Sequence[str],
        *,
        opened_through: UUID | None,
        doors: Doors,
        bound: BoundKeyId | None = None,
    ) -> bool:
        """Replaces the cookie of this person's living browser session, and records what the person has just proved in the session. With
        `bound`, a session that is bound to no key yet is bound to this one, as by `add`. False when the session has ended.
        """

    async def choose(self, session: SessionId, user: UserId, slug: str) -> Chosen | None:
        """Chooses the organization that the person administers in this browser; an empty slug chooses none. None when the person is not a
        member.
        """


class BoundKeyStore(Protocol):
    """The keys that browsers have registered. Outside a unit of work, `find`, `use` and `challenge` may be called."""

    async def add(self, key: NewBoundKey, session: SessionId) -> UserId | None:
        """Adds the key, and binds this living browser session to it. Returns the session's person. None when the session has ended or is
        bound already, or the key is there already.
        """

    async def find(self, id_: BoundKeyId, in_use: bytes | None) -> BoundKey | None:
        """`in_use` is the digest of the cookie of the session in use in the browser that asks."""

    async def use(self, id_: BoundKeyId, challenge: str) -> bool:
        """Uses a challenge up. False when another proof has used it."""

    async def challenge(self, id_: BoundKeyId, text: str, at: datetime) -> str:
        """Gives the key this challenge, and returns it; or the one that another request has given it within the last minute."""

    async def refuse(self, id_: BoundKeyId, at: datetime) -> Sequence[tuple[UserId, SessionId]]:
        """Returns the persons and the living sessions of the key, and of nobody when that was done within the last hour."""


class RefreshTokens(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def rotate(
        self, digest: bytes, successor: bytes, by: bytes, at: datetime, holder: Holder | None = None
    ) -> PresentedRefreshToken | None:
        """Exchanges the token for its successor if it is a live session's current one, and moves the session's end. Of many callers, one
        rotates it. None when there is no such token. With a `holder`, only the tokens of sessions that the application was given are looked
        through. Without one, the search leaves out the tokens of applications that have a secret or keys.
        """


class MembershipHeld(Frozen):
    """The user's membership of the requested organization."""

    organization: OrganizationId
    organization_slug: str
    is_active: bool
    """The status of the organization, not of the membership."""


class Impersonable(Frozen):
    account: Account
    membership: MembershipHeld | None
    opener: Parent | None
    """The session from which the platform owner asks. None when it has ended."""
    service: Destination | None = None
    """The requested service, if the user is a user of it."""
    subscription: SubscriptionState = NO_SUBSCRIPTION
    tells_more: bool = False
    """See `OpenedSession.tells_more`."""


class ImpersonationStore(Protocol):
    """All methods need a unit of work."""

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        """None when there is no such user. `membership` is None when the user is in no organization with this slug, `service` when the user
        uses no service with these slugs. Both accounts and the rows of the service stay as they are until the unit of work ends. A request
        that is about to end the sessions of either account waits for it.
        """

    async def add(self, impersonation: Impersonation) -> None:
        """Called after its session is added."""

    async def end_all(self, user: UserId) -> None:
        """Ends every impersonation of this user for good, without a round trip of its own. Called after the statement that holds the
        account: an impersonation that was about to begin has begun by then, and ends too.
        """


class SessionReachLookup(Protocol):
    async def reach(
        self,
        organization: OrganizationId,
        service: ServiceId | None,
        before: SessionLimits,
        after: SessionLimits,
        *,
        asker: SessionId | None,
    ) -> SessionReach:
        """One round trip. With a service, its sessions alone; otherwise those in the organization and its services, and the sign-ins of
        people who belong to it by their own act. `asker` is the session of the person who asks. At most `MOST_COUNTED` sessions are read.
        """
