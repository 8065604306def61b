"""Members: the people of an organization, each with one role."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json
from core.domain.identifiers import ManagementKeyId, MembershipId, OrganizationId, RoleId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.record.signals import streams_paused
from core.domain.tenancy.management_keys import ManagementKeyHolder
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen

NOT_YOUR_ORGANIZATION: Final = "This token is for another organization: select this one first"
IN_A_SERVICE: Final = "This cannot be done with a token for a service"


class MembershipOrigin(StrEnum):
    """How a person became a member. For information only; it decides nothing."""

    FOUNDED = "founded"
    ACCEPTED = "accepted"
    """The person accepted an invitation, with the mailed token or in their own list."""
    CREATED = "created"
    """The account was created together with the membership."""
    ADDED = "added"
    """Others added the person, or nobody knows the way."""
    LDAP = "ldap"
    """A directory by LDAP lists the person."""


class Membership(Frozen):
    """`role` is the role's slug. `role_id` names the role if it is one of the organization's own.

    A membership is a tie, as the use of a service is. A tie is the person's *own* once the person has made or confirmed it. Until then an
    organization has merely *listed* the person, which it can do to anybody. Inside the organization and its services both kinds count
    alike. Elsewhere only own ties count: a listed one is no consent, sets no rule, and gives the organization no news about the person.
    """

    id: MembershipId
    organization: OrganizationId
    user: UserId
    role: str
    created_at: datetime
    role_id: RoleId | None = None
    came_by: MembershipOrigin = MembershipOrigin.ADDED
    """Set for a new membership. Queries do not read it."""
    own_since: datetime | None = None
    """The time when the person founded the organization, accepted the invitation, or confirmed the membership. None when the person is
    merely listed.
    """

    @property
    def is_own(self) -> bool:
        return self.own_since is not None


class Adding(StrEnum):
    """The way in which a person was listed as a member, for the page that asks the person about it."""

    DIRECTORY = "directory"
    """The organization's directory listed the person."""
    DOMAIN = "domain"
    """The organization has proved the domain of the person's address."""
    OTHERS = "others"


class ListedMembership(Frozen):
    """A membership that others have made, for the page that asks the person whether it is right."""

    organization: OrganizationId
    organization_slug: str
    organization_name: str
    role: str
    role_name: str
    """The name of the role, if it is one of the organization's own."""
    since: datetime
    adding: Adding
    made_the_account: bool = False
    """The account was created together with the membership."""
    is_unconfirmed_owner: bool = False
    """See `UnconfirmedOwnership`."""


class OwnershipAnswer(StrEnum):
    """The new owner's response to an ownership transfer."""

    CONFIRM = "confirm"
    DECLINE = "decline"


DECLINED: Final = "Its owner said that it is not theirs, and there was no former owner to give it back to"
"""Why an organization is suspended whose owner has declined it."""


class UnconfirmedOwnership(Frozen):
    """Others have made this person the owner: by a transfer, or with an organization that was moved here. The first act that needs an owner
    confirms the ownership. Until then the person may decline it, and it stops them from nothing. The former owner then is the owner again,
    as long as they are an active member; otherwise the platform decides.
    """

    organization: OrganizationId
    user: UserId


class Addressee(Frozen):
    """Somebody who gets a mail about the ownership."""

    user: UserId
    email: Email
    language: Language | None


class DeclinedOwnership(Frozen):
    """What became of an organization when its owner declined it."""

    organization_slug: str
    organization_name: str
    former: Addressee | None
    """The former owner, who is the owner again. None when there is none."""
    suspended: bool
    """The organization was active, and has no owner any more."""


# The limit of one page. Many organizations can list the same person; the person's own list has the others.
MOST_ASKED: Final = 20


class Member(Frozen):
    """A caller as a member of an organization, as the database knows them for this request; or a management key, which acts there without a
    person. A key has no role, so it is never the owner.
    """

    signed_in: Caller | None
    """None for a management key."""
    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    role: str
    capabilities: frozenset[Capability]
    key: ManagementKeyHolder | None = None
    organization_name: str = ""
    """Filled for browsers alone, whose pages say where one is."""
    is_operators: bool = False
    """An operator at the host acts in the owner's place. Neither the owner's account nor the organization need be active."""

    @property
    def caller(self) -> Caller:
        """For use cases that are closed to management keys. Raises `LookupError` for a key."""
        if self.signed_in is None:
            raise LookupError("A management API key is not a person")
        return self.signed_in

    @property
    def user(self) -> UserId:
        """As `caller`."""
        return self.caller.user

    @property
    def person(self) -> UserId | None:
        """None for a management key."""
        return None if self.signed_in is None else self.signed_in.user

    @property
    def responsible(self) -> UserId:
        """The person who answers for what the caller makes. For a management key, its maker or the owner who adopted it."""
        return self.user if self.key is None else self.key.responsible

    @property
    def key_id(self) -> ManagementKeyId | None:
        return None if self.key is None else self.key.key

    @property
    def is_owner(self) -> bool:
        return self.role == BuiltInRole.OWNER

    def may(self, capability: Capability) -> bool:
        return capability in self.capabilities

    def require(self, capability: Capability) -> None:
        if not self.may(capability):
            raise Forbidden


def knows_of_office(reader: Caller | Member | ManagementKeyHolder, person: UserId, *, is_platform_owner: bool) -> bool:
    """What a record about this person says of `is_platform_owner`. Only platform owners learn who else is one, and people learn it of
    themselves. Everybody else reads false: tenants, keys of any kind, and who acts for somebody. Every record with the field asks this.
    """
    caller = reader.signed_in if isinstance(reader, Member) else reader if isinstance(reader, Caller) else None
    if caller is None or not is_platform_owner:
        return False
    return caller.user == person or (caller.is_platform_owner and caller.impersonator is None)


class OrganizationSnapshot(Frozen):
    """A person's relation to an organization. The relations decide; the membership only names the role."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    role: str
    """Empty for people who are not members."""
    relations: frozenset[str]
    second_factor_due: datetime | None = None
    """A member who has to set up a second factor can do so until this moment. None when the organization asks nothing of the member."""
    outlasted: timedelta | None = None
    """The time that the organization lets sessions last, if this session is older. Otherwise None."""
    organization_name: str = ""
    """Filled for browsers alone."""
    is_kept_out: bool = False
    """The organization's rules for risk do not let this session in."""
    terms_due: datetime | None = None
    """Until when the person may go on without accepting terms. None when nothing is missing."""
    is_unheard: bool = False
    """Hooks have not let this session in: they have said no, or nobody has asked them lately."""


class Entry(Frozen):
    """The data about an organization that somebody wants a session in. `membership` is None for people who are not members."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    membership: Membership | None
    second_factor_due: datetime | None = None
    """A member who has to set up a second factor can do so until this moment. None when the organization asks nothing of the member."""
    session_lifetime: timedelta | None = None
    """How long the organization lets sessions last after the sign-in. None when the organization sets no limit."""
    is_kept_out: bool = False
    """The organization's rules for risk do not let the session in from which it is to be opened."""
    terms_due: datetime | None = None
    """Until when the person may go on without accepting terms. None when nothing is missing."""
    has_hooks: bool = False


class ListedMember(Frozen):
    membership: Membership
    email: Email
    is_platform_owner: bool
    name: str | None = None
    """None for people whom others have listed: an organization sees nothing of their profile."""


class MemberDetail(Frozen, kw_only=True):
    """A member, as the organization may see them. Of people whom it has only listed it learns nothing about the account: the values are
    None.
    """

    listed: ListedMember
    origin: MembershipOrigin
    has_second_factor: bool | None
    has_devices: bool | None
    sessions: int
    """The living sessions in the organization and in its services; those elsewhere are not the organization's business."""
    teams: Sequence[str]
    """The slugs of the teams."""

    @property
    def came_by(self) -> MembershipOrigin:
        """The way, as the organization may know it. Of a person whom others have listed it would tell whether the address had an account
        before. So it is told once the person has come themselves.
        """
        return self.origin if self.listed.membership.is_own else MembershipOrigin.ADDED


LONGEST_SEARCH: Final = 320


def sought(text: str) -> str:
    """The text to find in addresses and names, so that `ADA@` finds `ada@`. An empty text finds everybody. Raises `BadRequest`."""
    wanted = Email(text.strip()).key
    if len(wanted) > LONGEST_SEARCH:
        raise BadRequest(f"search: at most {LONGEST_SEARCH} characters", words="text_too_long", values={"most": LONGEST_SEARCH})
    return wanted


class MemberList(Frozen):
    """One page of members, with the number of all members and the number allowed."""

    members: Sequence[ListedMember]
    total: int
    limit: UserLimit


def role_changed(member: Membership, email: Email, role: str, actor: Actor) -> Event:
    details = {"old_role": member.role, "new_role": role}
    return Event("user.role_updated", actor, _person(member), member.organization, details, personal={"email": email.address})


def member_removed(member: Membership, email: Email, actor: Actor) -> Event:
    return Event("user.removed", actor, _person(member), member.organization, {"role": member.role}, personal={"email": email.address})


def membership_confirmed(member: Membership, actor: Actor) -> Event:
    return Event("user.membership.confirmed", actor, _person(member), member.organization, {"role": member.role})


def ownership_transferred(organization: OrganizationId, old: UserId, new: UserId, actor: Actor) -> Event:
    details = {"old_owner_user_id": str(old), "new_owner_user_id": str(new)}
    return Event("organization.owner.changed", actor, Target("organization", str(organization)), organization, details)


def ownership_confirmed(ownership: UnconfirmedOwnership) -> Event:
    details = {"owner_user_id": str(ownership.user)}
    return _of_ownership("organization.owner.confirmed", ownership, ownership.organization, details)


def ownership_declined(ownership: UnconfirmedOwnership, declined: DeclinedOwnership) -> Sequence[Event]:
    """If nobody has taken the organization back, the log of the platform names it, too."""
    former = None if declined.former is None else str(declined.former.user)
    facts = {"owner_user_id": str(ownership.user), "former_owner_user_id": former}
    events = [_of_ownership("organization.owner.declined", ownership, ownership.organization, facts)]
    if declined.former is None:
        named = {**facts, "slug": declined.organization_slug, "name": declined.organization_name}
        events.append(_of_ownership("organization.owner.declined", ownership, None, named))
    else:
        events.append(ownership_transferred(ownership.organization, ownership.user, declined.former.user, Actor(ownership.user)))
    if declined.suspended:
        events.append(_of_ownership("organization.suspended", ownership, ownership.organization, {"reason": DECLINED}))
        events.append(streams_paused(ownership.organization))
    return events


def _of_ownership(name: str, ownership: UnconfirmedOwnership, log: OrganizationId | None, details: Mapping[str, Json]) -> Event:
    """The person is the actor, without IP address and device: the organization learns what they said, but not where."""
    return Event(name, Actor(ownership.user), Target("organization", str(ownership.organization)), log, details)


def session_opened(member: Membership, session: SessionId, actor: Actor) -> Event:
    # Opening such a session is not a sign-in. Without this event nobody would notice the session.
    return Event("security.session.opened", actor, _person(member), member.organization, {"session_id": str(session)})


def _person(member: Membership) -> Target:
    return Target("user", str(member.user))
