"""Members: the people of an organization, each with one role."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.identifiers import MembershipId, OrganizationId, RoleId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen

NOT_YOUR_ORGANIZATION: Final = "This token is for another organization: select this one first"
IN_A_SERVICE: Final = "This cannot be done with a token for a service"


class CameBy(StrEnum):
    """How somebody became a member. It tells a story and decides nothing: `Membership.own_since` does."""

    FOUNDED = "founded"
    ACCEPTED = "accepted"
    """They accepted an invitation, with the token that was mailed or in their own list."""
    CREATED = "created"
    """The account came to be with the membership."""
    ADDED = "added"
    """By others, or nobody knows."""


class Membership(Frozen):
    """`role` is the role's slug. `role_id` names the role if it is one of the organization's own.

    A membership is a tie, as the use of a service is. A tie is the person's *own* once they made or confirmed it themselves; until then an
    organization has merely *listed* them, which it can do to anybody. Inside the organization and its services both count alike. Elsewhere
    only own ties count: a listed one is no consent, sets no rule, and opens no news of the person.
    """

    id: MembershipId
    organization: OrganizationId
    user: UserId
    role: str
    created_at: datetime
    role_id: RoleId | None = None
    came_by: CameBy = CameBy.ADDED
    """Of a new one. Where memberships are read, nobody asks for it."""
    own_since: datetime | None = None
    """When the person founded the organization, accepted the invitation, or confirmed the membership. None: they are merely listed."""

    @property
    def is_own(self) -> bool:
        return self.own_since is not None


class Adding(StrEnum):
    """How somebody came to be listed as a member, as the page says that asks them."""

    DIRECTORY = "directory"
    """The organization's directory did it."""
    DOMAIN = "domain"
    """The organization has proved the domain of their address."""
    OTHERS = "others"


class ListedMembership(Frozen):
    """A membership that others have made, as its person meets it, who is asked whether they belong there."""

    organization: OrganizationId
    organization_slug: str
    organization_name: str
    role: str
    role_name: str
    """Of a role of the organization's own."""
    since: datetime
    adding: Adding
    made_the_account: bool = False
    """The account came to be with it."""


# On one page. Anybody can be listed by many organizations; a person's own list has the others.
MOST_ASKED: Final = 20


class Member(Frozen):
    """A caller as a member of an organization, as the database knows them for this request."""

    caller: Caller
    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    role: str
    capabilities: frozenset[Capability]

    @property
    def user(self) -> UserId:
        return self.caller.user

    @property
    def is_owner(self) -> bool:
        return self.role == BuiltInRole.OWNER

    def may(self, capability: Capability) -> bool:
        return capability in self.capabilities

    def require(self, capability: Capability) -> None:
        if not self.may(capability):
            raise Forbidden


class OrganizationStanding(Frozen):
    """How a person stands to an organization. The relations decide; the membership only names the role."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    role: str
    """Empty for people who are not members."""
    relations: frozenset[str]
    second_factor_due: datetime | None = None
    """When the grace period ends of a member who has to set up a second factor. None: nothing is asked of them."""
    outlasted: timedelta | None = None
    """How long the organization lets sessions last, if the person signed in to this one longer ago."""


class Entry(Frozen):
    """What is known about an organization when somebody wants a session in it. `membership` is None for people who are not members."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    membership: Membership | None
    second_factor_due: datetime | None = None
    """When the grace period ends of a member who has to set up a second factor. None: nothing is asked of them."""
    session_lifetime: timedelta | None = None
    """How long the organization lets sessions last from the sign-in on. None: as long as any."""


class ListedMember(Frozen):
    membership: Membership
    email: Email
    is_platform_owner: bool


class MemberList(Frozen):
    """One page of members, with their number in all and the number allowed."""

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


def session_opened(member: Membership, session: SessionId, actor: Actor) -> Event:
    # This is not a sign-in. Without this event the session would begin unnoticed.
    return Event("security.session.opened", actor, _person(member), member.organization, {"session_id": str(session)})


def _person(member: Membership) -> Target:
    return Target("user", str(member.user))
