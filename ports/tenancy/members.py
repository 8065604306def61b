"""Stores of members, invitations, roles, teams, and management API keys."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import (
    BoundKeyId,
    ClientId,
    InvitationId,
    JoinRequestId,
    ManagementKeyId,
    OrganizationId,
    RoleId,
    ServiceId,
    SessionId,
    TeamId,
    TrustedIssuerId,
    UserId,
)
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.domain.requests import Page
from core.domain.tenancy.invitations import (
    Invitation,
    InvitationOffer,
    InvitationStatus,
    Inviter,
    InvitingKey,
    Lapsed,
    OwnInvitation,
    Prospect,
)
from core.domain.tenancy.join_requests import Asking, JoinCandidate, JoinRequest, JoinRequestStatus, OwnJoinRequest
from core.domain.tenancy.management_keys import KnownKey, MadeByKey, ManagementKey, ManagementKeyHolder
from core.domain.tenancy.members import (
    Addressee,
    DeclinedOwnership,
    Entry,
    ListedMembership,
    MemberDetail,
    MemberList,
    Membership,
    OrganizationStanding,
    UnconfirmedOwnership,
)
from core.domain.tenancy.organizations import Accessor
from core.domain.tenancy.roles import Assignable, Capability, Role
from core.domain.tenancy.teams import Team, TeamMember
from core.domain.tenancy.trusted_issuers import TrustedIssuer
from core.frozen import Frozen
from ports.tenancy.receivers import Owner


class KnownMember(Frozen):
    account: Account
    membership: Membership
    capabilities: frozenset[Capability]
    organization_is_active: bool
    organization_name: str
    is_unconfirmed_owner: bool = False
    """See `UnconfirmedOwnership`."""


class Handed(Frozen):
    """The organization that a member has become the owner of."""

    organization_slug: str
    organization_name: str


class MemberStore(Protocol):
    """Outside a unit of work, `list`, `detail`, `listed` and `listed_by_link` are one statement and one round trip each. The other methods
    need a unit of work in which the caller has already locked the organization. A change of a membership changes its relations in the same
    statement. Only PostgreSQL implements `MemberStore`.
    """

    async def list(self, organization: OrganizationId, page: Page, role: str | None, search: str = "") -> MemberList:
        """Members in this role, or all of them, oldest membership first. With a text, those whose address contains it, or whose name does,
        if the membership is their own. The total for one role or one text is counted up to `MOST_COUNTED`.
        """

    async def detail(self, organization: OrganizationId, user: UserId) -> MemberDetail | None:
        """None for somebody who is no member."""

    async def listed(self, user: UserId, domain: str, slug: str | None, most: int) -> Sequence[ListedMembership]:
        """The memberships that others have made for this person, who has not confirmed them, the oldest first: in all organizations, or in
        the one with this slug. `domain` is that of the person's address.
        """

    async def listed_by_link(self, digest: bytes, most: int) -> Sequence[ListedMembership]:
        """As `listed`, for the person of a link that chooses a password, while their account has none."""

    async def add(self, membership: Membership) -> bool:
        """Ends the sessions that are left of an earlier membership. The account is held before. False when the person is a member already:
        of two callers, one gets False. False also when the account has no person any more.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> KnownMember | None: ...

    async def hold(self, organization: OrganizationId, *users: UserId) -> Mapping[UserId, KnownMember]:
        """Holds the organization, as `OrganizationStore.hold` does, and returns those of these people who are members now, in one round
        trip. An organization that is being deleted has no members.
        """

    async def belongs_here_alone(self, organization: OrganizationId, user: UserId) -> bool:
        """Whether the organization made this member's account, and nothing else holds the account: no other organization, no service of
        another organization, no office in the platform.
        """

    async def enter(self, slug: str, user: UserId, session: SessionId) -> Entry | None:
        """How the person stands to the organization with this slug. The account is held. The membership stays until the unit of work ends:
        a removal waits. None when there is no such organization.
        """

    async def change_role(self, organization: OrganizationId, user: UserId, role: Assignable) -> Membership | None:
        """None when the person is not a member."""

    async def remove(self, organization: OrganizationId, user: UserId) -> bool:
        """The person's sessions in the organization stay: each request asks for the membership. False when the person is not a member: of
        two callers, one gets True.
        """

    async def release(self, organization: OrganizationId, user: UserId) -> None:
        """From now on, the account counts as not made by this organization or its services. Called with the account held."""

    async def confirm(
        self, user: UserId, organizations: Collection[OrganizationId], session: SessionId | None, at: datetime
    ) -> Sequence[Membership]:
        """The person's memberships in these organizations become their own. Returns those that were not their own before: of two callers,
        one gets each. Neither the organization nor the account has to be held. Memberships that the session may not confirm stay as they
        are: somebody has proved the address, or a provider of the same organization has opened the session. None: a mailed link is used.
        """

    async def listed_among(self, user: UserId, organizations: Collection[OrganizationId]) -> bool:
        """Whether the person has not confirmed a membership in one of these organizations."""

    async def hold_listed(self, organization: OrganizationId, user: UserId) -> KnownMember | None:
        """Holds the organization, the account and the membership. None when the membership is not one that others have made and the person
        has not confirmed.
        """

    async def transfer_ownership(self, organization: OrganizationId, old: UserId, new: UserId, at: datetime) -> Handed:
        """Both are members. The new owner becomes the owner, and has not confirmed it yet; the old owner becomes an admin. After `hold`."""


class OwnershipStore(Protocol):
    """Ownership that its owner has not confirmed. Every method needs a unit of work. Only PostgreSQL implements `OwnershipStore`."""

    async def confirm(self, ownership: UnconfirmedOwnership, at: datetime) -> bool:
        """False when this person is not the owner, or has confirmed the ownership: of two callers, one gets True."""

    async def hold(self, organization: OrganizationId) -> None:
        """Holds the organization, then the accounts of its owner and of the former owner, and their memberships."""

    async def hold_all(self, user: UserId) -> None:
        """Holds the organizations whose ownership this person has not confirmed, by their ids."""

    async def decline(self, ownership: UnconfirmedOwnership, reason: str, at: datetime) -> DeclinedOwnership | None:
        """The former owner becomes the owner again, and this person has the role of before. If there is no former owner who is an active
        member, the organization has no owner, and is suspended for this reason. After `hold`. None when this person is not the owner, or
        has confirmed the ownership: of two callers, one gets the organization.
        """

    async def governors(self) -> Sequence[Addressee]:
        """The active owners of the platform, the oldest accounts first, `MOST_ADDRESSEES` at most."""


class ByToken(Frozen):
    """Names an invitation by the digest of the token in its link."""

    digest: bytes


class ById(Frozen):
    """Names an invitation by its id. With an organization, only if the invitation belongs to it. With a session, only while the session
    lives.
    """

    id: InvitationId
    organization: OrganizationId | None = None
    session: SessionId | None = None


class ListedInvitation(Frozen):
    """`inviter` is None when the inviter's account is gone."""

    invitation: Invitation
    inviter: Inviter | None
    key: InvitingKey | None = None
    """The management key that sent the invitation in the inviter's name."""


class InvitationStore(Protocol):
    """Outside a unit of work, `find`, `list`, `list_own` and `due_in` are one statement and one round trip each. The other methods need a
    unit of work. Organizations that are being deleted do not exist here.
    """

    async def find(self, which: ByToken | ById) -> InvitationOffer | None: ...

    async def due_in(self) -> float | None:
        """The seconds until the first pending invitation expires. None when none is pending."""

    async def list(
        self, organization: OrganizationId, status: InvitationStatus | None, at: datetime, page: Page
    ) -> Sequence[ListedInvitation]:
        """Newest first."""

    async def list_own(self, user: UserId, session: SessionId, at: datetime) -> Sequence[OwnInvitation]:
        """The newest pending invitations to the user's own, verified address, from active organizations."""

    async def prospect(self, organization: OrganizationId, inviter: UserId, email: Email, at: datetime) -> Prospect | None:
        """The facts that decide whether this address may be invited. An overdue invitation to the address is closed on the way. The
        organization and its people stay as they are until the unit of work ends. Comes first in its unit of work. None when the
        organization or the inviter is gone.
        """

    async def add(self, invitation: Invitation) -> bool:
        """False when another invitation to the same address is pending: of two callers, one gets False."""

    async def hold(self, which: ByToken | ById, manager: UserId | None = None) -> InvitationOffer | None:
        """The invitation stays as it is until the unit of work ends, and so do its organization and the number of members. Comes first in
        its unit of work. None when there is no such invitation. `manager` is a member who answers in the invited person's place.
        """

    async def hold_alone(self, which: ByToken | ById) -> InvitationOffer | None:
        """As `hold` without the organization, for callers who do not accept the invitation."""

    async def close(self, invitation: InvitationId, status: InvitationStatus, at: datetime) -> None:
        """Called after the invitation was held and found pending."""

    async def cancel(self, organization: OrganizationId, invitation: InvitationId, at: datetime) -> Invitation | None:
        """None when the organization has no such invitation, or the invitation is not pending: of two callers, one gets None."""

    async def cancel_to(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> Sequence[Invitation]:
        """Cancels all pending invitations to the addresses of these people."""

    async def cancel_made(self, organization: OrganizationId, key: ManagementKeyId, most: int, at: datetime) -> Sequence[Invitation]:
        """Cancels the newest pending invitations that this management key has sent, and no more than `most`."""

    async def expire_due(self, at: datetime, since: datetime | None, limit: int) -> Sequence[Lapsed]:
        """Closes overdue invitations as expired, oldest first, from `since` on. Rows that another transaction holds are left for the next
        time, so that neither waits for the other.
        """


class JoinRequestStore(Protocol):
    """Outside a unit of work, `list` and `list_own` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        """Newest first."""

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        """The person's requests that nobody has answered, newest first."""

    async def hold_candidate(self, user: UserId, domain: str) -> JoinCandidate | None:
        """Holds the organization, as `OrganizationStore.hold` does, and then the account's address. None when no active organization has
        proved the domain, or there is no such account.
        """

    async def add(self, request: JoinRequest) -> bool:
        """After `hold_candidate`. Replaces a waiting request of the person that has another address. False when the person has asked
        before.
        """

    async def find(self, organization: OrganizationId, request: JoinRequestId) -> Asking | None:
        """After the organization is held. The address of the account stays as it is."""

    async def close(self, request: JoinRequestId, status: JoinRequestStatus, by: UserId | None, at: datetime) -> None: ...

    async def administrators(self, organization: OrganizationId) -> Sequence[Owner]:
        """Some of the people who decide on a request: the owner and admins of the organization."""


class RoleStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId) -> Sequence[Role]:
        """All of the organization's own roles, by slug."""

    async def find(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """None when the organization has no such role."""

    async def assignable(self, organization: OrganizationId, slug: str) -> Assignable | None:
        """The role with this slug, built in or made by the organization. The role stays as it is until the unit of work ends. None when
        there is no such role.
        """

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, role: Role) -> bool:
        """False when the slug is taken: of two callers, one gets False."""

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """The role stays as it is until the unit of work ends, and nobody is given the role meanwhile. None when the organization has no
        such role.
        """

    async def save(self, role: Role) -> None:
        """Saves name, description and permissions. After `hold`."""

    async def delete(self, role: RoleId) -> bool:
        """False when a member or a team has the role, or a pending invitation offers it. After `hold`."""


class TeamStore(Protocol):
    """Outside a unit of work, `list`, `find`, `slugs_of` and `members` are one statement and one round trip each. The other methods need a
    unit of work that holds the organization (`MemberStore.hold`): no team, and no member of one, changes without this lock.
    """

    async def list(self, organization: OrganizationId) -> Sequence[Team]:
        """All teams of the organization, by slug."""

    async def find(self, organization: OrganizationId, slug: str) -> Team | None:
        """None when the organization has no such team."""

    async def slugs_of(self, organization: OrganizationId, user: UserId, most: int) -> Sequence[str]:
        """The slugs of the person's teams in the organization, in their order, and no more than `most`."""

    async def members(self, team: Team, after: UserId | None, limit: int) -> Sequence[TeamMember]:
        """Members in the order of their ids, from the one after `after`."""

    async def count(self, organization: OrganizationId) -> tuple[int, int]:
        """The numbers of teams, and of slugs of deleted teams."""

    async def slugs_like(self, organization: OrganizationId, stem: str) -> Collection[str]:
        """All slugs of teams, present and deleted, that begin with the stem."""

    async def add(self, team: Team) -> bool:
        """False when a team has the slug, or had it once."""

    async def save(self, team: Team) -> None:
        """Saves name, external id and role, with the relations that follow from the role."""

    async def delete(self, team: TeamId) -> None:
        """The slug is not free again."""

    async def gives_service_roles(self, team: Team) -> bool:
        """Whether who comes into the team gets roles of services: the team's own, or those of the role that it carries."""

    async def role_gives_service_roles(self, team: Team) -> bool:
        """Whether roles of services are assigned to the organization's role that the team carries."""

    async def directory_carries(self, role: RoleId) -> bool:
        """Whether a team that a directory fills carries the role."""

    async def add_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        """Those who were not in the team before. People who are not members of the organization are left out."""

    async def remove_members(self, team: Team, users: Collection[UserId], at: datetime) -> Collection[UserId]:
        """Those who were in the team before."""


class RelationLookup(Protocol):
    """One statement and one round trip, outside any unit of work. It reads the same rows as the check of every request."""

    async def find(self, email: Email, slug: str) -> Accessor | None:
        """None when there is no such person, or no such organization."""


class CallerLookup(Protocol):
    """Every authenticated request asks here, outside any unit of work. Look-ups of many requests share one statement and one round trip."""

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        """The caller behind a living session of an active user, in the session's context. None when the session was revoked or has ended,
        the user is deactivated, either is unknown, or the impersonator may no longer act in the user's name.
        """

    async def find_in_service(self, session: SessionId, user: UserId) -> Caller | None:
        """As `find`, for a session in a service; and whether its organization requires a second factor that the person lacks."""

    async def find_for_userinfo(self, session: SessionId, user: UserId) -> Caller | None:
        """As `find_in_service`, with the profile if the scopes tell it, and whether the service may learn more."""

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find`, and how the caller stands to the organization with this slug. The standing is None when there is no such organization.
        A person who is not a member stands in no relation to the organization.
        """

    async def find_browser(self, digest: bytes, bound: BoundKeyId | None) -> Caller | None:
        """The caller behind the cookie of a browser session, with what they have proved. None when the session has ended, or is bound to
        another key than `bound`, which the browser has proved, or there is no such cookie.
        """

    async def find_browsers(self, asked: Sequence[bytes], bound: BoundKeyId | None) -> Mapping[bytes, Caller]:
        """As `find_browser`, for several cookies of one browser in one statement. A cookie without a living session is left out."""

    async def find_browser_member(
        self, digest: bytes, slug: str, bound: BoundKeyId | None
    ) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find_browser`, and how the caller stands to the organization with this slug, as `find_member` tells it, with its name."""

    async def find_acting(self, digest: bytes, opener: bytes, bound: BoundKeyId | None) -> Caller | None:
        """The person in whose name a platform owner acts in a browser. `opener` is the digest of the cookie of the session that the
        impersonation was opened from. `find_browser` never finds such a session.
        """

    async def find_acting_member(
        self, digest: bytes, opener: bytes, slug: str, bound: BoundKeyId | None
    ) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find_acting`, and how the person stands to the organization with this slug, with its name."""


class ManagementKeyLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of keys by many requests share one statement, so
    they stay apart from `ManagementKeyStore`. `organization` is None for the keys of the platform.
    """

    async def find(self, digest: bytes) -> KnownKey[ManagementKeyHolder] | None:
        """Every request with a key asks here. None when there is no such key, or its organization is gone."""

    async def find_trusting(self, key: ManagementKeyId, rule: TrustedIssuerId, rule_of: datetime) -> KnownKey[ManagementKeyHolder] | None:
        """The key, if it has this trusted issuer, unchanged since then. None when either has ended, or the key's organization is gone."""

    async def list(self, organization: OrganizationId | None) -> Sequence[ManagementKey]:
        """Newest first, expired keys included."""

    async def find_with_made(self, organization: OrganizationId | None, key: ManagementKeyId) -> tuple[ManagementKey, MadeByKey] | None:
        """The key, and what it has made that lasts. None when there is no such key."""


class ManagementKeyStore(Protocol):
    """All methods need a unit of work in which the caller has locked the organization, or the platform owners as a whole."""

    async def add(self, key: ManagementKey, digest: bytes) -> int | None:
        """Returns how many keys the organization, or the platform, had before. None when another key has this prefix."""

    async def able(self, key: ManagementKeyId) -> KnownKey[ManagementKeyHolder] | None:
        """The key, with what it may do as things are now. None when the key has ended or expired."""

    async def find(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        """None when there is no such key."""

    async def adopt(self, key: ManagementKey, digest: bytes, owner: UserId, at: datetime, former_until: datetime) -> ManagementKey | None:
        """The owner answers for the key from now on. It has the prefix of `key` and a new secret with this digest. The former secret counts
        until `former_until` if whoever knows it is still here, otherwise no longer. None when another key has this prefix.
        """

    async def made(self, key: ManagementKeyId) -> MadeByKey:
        """What the key has made that lasts: the newest of each kind, at most `MOST_LISTED`."""

    async def end(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        """Returns the ended key. None when there is no such key: of two callers, one gets None."""


class TrustingService(Frozen):
    """The service that a new rule is for. `is_confidential`: it runs on its owners' machines."""

    id: ServiceId
    is_confidential: bool


class ExistingTrustedIssuers(Frozen):
    """What a new rule meets: the number of rules in its organization, and of those for the same service or key."""

    count: int
    of_one: int


class TrustedIssuerStore(Protocol):
    """Outside a unit of work, `list`, `find` and `asked_by` are one statement and one round trip each. The other methods need a unit of
    work in which the caller has locked the organization. Only PostgreSQL implements `TrustedIssuerStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[TrustedIssuer]:
        """Oldest first."""

    async def find(self, organization: OrganizationId, rule: TrustedIssuerId) -> TrustedIssuer | None: ...

    async def asked_by(self, client: ClientId) -> Sequence[TrustedIssuer]:
        """The rules of the service with this client id, or of the management key with this id. None are found by anything else."""

    async def service(self, organization: OrganizationId, slug: str) -> TrustingService | None:
        """The service stays until the unit of work ends."""

    async def existing(
        self, organization: OrganizationId, service: ServiceId | None, key: ManagementKeyId | None
    ) -> ExistingTrustedIssuers: ...

    async def add(self, rule: TrustedIssuer) -> bool:
        """False when the organization has a rule of this name: of two callers, one gets False."""

    async def save(self, rule: TrustedIssuer) -> bool:
        """Saves everything that an organization sets. False when another rule of the organization has this name."""

    async def remove(self, rule: TrustedIssuerId) -> None: ...
