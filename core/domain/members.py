"""Members: the people of an organization, each with one role."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import MembershipId, OrganizationId, RoleId, SessionId, UserId
from core.domain.roles import BuiltInRole, Capability
from core.domain.sessions import Caller
from core.domain.tiers import UserLimit

NOT_YOUR_ORGANIZATION: Final = "This token is for another organization"
IN_A_SERVICE: Final = "This cannot be done with a token for a service"


@dataclass(frozen=True, slots=True)
class Membership:
    """`role` is the role's slug; `role_id` says which of the organization's own it is, if it is one."""

    id: MembershipId
    organization: OrganizationId
    user: UserId
    role: str
    created_at: datetime
    role_id: RoleId | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A caller in an organization that they belong to, as the database knows it for this request."""

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


@dataclass(frozen=True, slots=True)
class Standing:
    """How a person stands to an organization: by the relations, which decide, and by the membership, which names the role."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    role: str
    """Empty for whoever is no member."""
    relations: frozenset[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """What somebody who wants a session in an organization finds there. `membership` is None for whoever is no member."""

    organization: OrganizationId
    organization_slug: str
    organization_is_active: bool
    membership: Membership | None


@dataclass(frozen=True, slots=True)
class ListedMember:
    membership: Membership
    email: Email
    is_platform_owner: bool


@dataclass(frozen=True, slots=True)
class MemberList:
    """One page of the members, how many there are in all, and how many there may be."""

    members: Sequence[ListedMember]
    total: int
    limit: UserLimit


def role_changed(member: Membership, email: Email, role: str, actor: Actor) -> Event:
    details = {"old_role": member.role, "new_role": role}
    return Event("user.role_updated", actor, _person(member), member.organization, details, personal={"email": email.address})


def member_removed(member: Membership, email: Email, actor: Actor) -> Event:
    return Event("user.removed", actor, _person(member), member.organization, {"role": member.role}, personal={"email": email.address})


def ownership_transferred(organization: OrganizationId, old: UserId, new: UserId, actor: Actor) -> Event:
    details = {"old_owner_user_id": str(old), "new_owner_user_id": str(new)}
    return Event("organization.owner.changed", actor, Target("organization", str(organization)), organization, details)


def session_opened(member: Membership, session: SessionId, actor: Actor) -> Event:
    # No sign-in, but a session that nobody would otherwise know the beginning of.
    return Event("security.session.opened", actor, _person(member), member.organization, {"session_id": str(session)}, published=False)


def _person(member: Membership) -> Target:
    return Target("user", str(member.user))
