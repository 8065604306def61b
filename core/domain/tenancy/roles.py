"""Roles and capabilities of members: three built-in roles, and the ones that an organization adds."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.branding import NamedApplication
from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, RoleId
from core.domain.lines import typed_line
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class Capability(StrEnum):
    """The capabilities that a role grants in its organization."""

    SETTINGS_MANAGE = "org.settings.manage"
    MEMBERS_VIEW = "org.members.view"
    MEMBERS_MANAGE = "org.members.manage"
    ROLES_MANAGE = "org.roles.manage"
    BILLING_MANAGE = "billing.manage"
    SERVICES_VIEW = "services.view"
    SERVICES_CREATE = "services.create"
    SERVICES_MANAGE = "services.manage"
    END_USERS_VIEW = "end_users.view"
    END_USERS_MANAGE = "end_users.manage"
    WEBHOOKS_MANAGE = "webhooks.manage"
    INTEGRATIONS_MANAGE = "integrations.manage"
    AUDIT_LOGS_VIEW = "audit_logs.view"
    RISK_EVENTS_VIEW = "risk_events.view"
    RISK_POLICIES_MANAGE = "risk_policies.manage"
    CONNECTIONS_MANAGE = "connections.manage"
    """Stands for the fresh proof of a management key at upstream providers, domain routes and sign-in rules. Only an owner grants it."""


class BuiltInRole(StrEnum):
    """The role that permits most comes first."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"

    @property
    def capabilities(self) -> frozenset[Capability]:
        if self is BuiltInRole.MEMBER:
            return _VIEWS
        return _ALL if self is BuiltInRole.OWNER else _ALL - GRANTED_BY_OWNER


_ALL: Final = frozenset(Capability)
# Only an owner gives these, so the role of an admin, which others may give, has none of them.
GRANTED_BY_OWNER: Final = frozenset({Capability.CONNECTIONS_MANAGE})
_VIEWS: Final = frozenset({Capability.MEMBERS_VIEW, Capability.SERVICES_VIEW, Capability.END_USERS_VIEW})

# The relation of members to their role, if it is one of the organization's own.
HOLDER: Final = "holder"

# Capabilities that come with another one, whether or not the role names them. Nobody can give capabilities that they do not have, so a
# manager of members needs the capabilities of a plain member.
_INCLUDED: Final[Mapping[Capability, frozenset[Capability]]] = {Capability.MEMBERS_MANAGE: _VIEWS}

_BY_NAME: Final = {capability.value: frozenset({capability}) | _INCLUDED.get(capability, frozenset()) for capability in Capability} | {
    role.value: role.capabilities for role in BuiltInRole
}

# The limit for one organization. A list shows all of its roles at once.
MOST_ROLES: Final = 100
# The limit of words in one list of permissions. There are far fewer capabilities, but a list may repeat one.
MOST_NAMED: Final = 100
LONGEST_SLUG: Final = 50
LONGEST_NAME: Final = 100
LONGEST_DESCRIPTION: Final = 500
_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?")


class Role(Frozen):
    """One of the organization's own roles. `permissions` are the capabilities that it names; `capabilities_of` adds
    those that come with them.
    """

    id: RoleId
    organization: OrganizationId
    slug: str
    name: str
    description: str
    permissions: frozenset[Capability]
    created_at: datetime
    updated_at: datetime


class Assignable(Frozen):
    """A role that is given to somebody, with all its capabilities. `id` is None for a built-in role."""

    slug: str
    id: RoleId | None
    capabilities: frozenset[Capability]
    gives_service_roles: bool = False
    """Roles of services are assigned to this role of the organization's own. False for built-in roles: to assign something to plain members
    is to let every manager of members give it, and admins may manage services themselves.
    """
    application: NamedApplication | None = None
    """The application whose roles, and nobody else's, are assigned to this role: who is invited with it is invited for the application."""

    @property
    def needed(self) -> frozenset[Capability]:
        return needed_to_give(self.capabilities, gives_service_roles=self.gives_service_roles)


def capabilities_of(relations: Iterable[str]) -> frozenset[Capability]:
    """The capabilities of a person with these relations to the organization. Relations that give no capability are ignored."""
    return frozenset().union(*(_BY_NAME.get(relation, frozenset()) for relation in relations))


def grantable_of(relations: Collection[str]) -> frozenset[Capability]:
    """The capabilities that a person with these relations may give to others."""
    held = capabilities_of(relations)
    return held if BuiltInRole.OWNER.value in relations else held - GRANTED_BY_OWNER


def beyond_a_member() -> Collection[str]:
    """The relations that permit something that a plain member may not do."""
    return [name for name, capabilities in _BY_NAME.items() if not capabilities <= _VIEWS]


def relations_with(capability: Capability) -> Collection[str]:
    """The relations that permit this."""
    return [name for name, capabilities in _BY_NAME.items() if capability in capabilities]


def built_in(slug: str) -> Assignable | None:
    """None when it is not a built-in role."""
    try:
        role = BuiltInRole(slug)
    except ValueError:
        return None
    return Assignable(role.value, None, role.capabilities)


def needed_to_give(capabilities: frozenset[Capability], *, gives_service_roles: bool) -> frozenset[Capability]:
    """What somebody must hold to give a role, or a place in a team, with these capabilities. If roles of services come with it, giving it
    is assigning them, which takes the right to manage services.
    """
    return capabilities | {Capability.SERVICES_MANAGE} if gives_service_roles else capabilities


def require_grantable(wanted: Collection[Capability], held: Collection[Capability]) -> None:
    """Nobody can give capabilities that they do not have. Raises `Forbidden`."""
    missing = sorted(set(wanted) - set(held))
    if missing:
        raise Forbidden(f"You cannot grant capabilities that you do not have: {', '.join(missing)}", words="cannot_grant")


def require_no_more(theirs: Collection[Capability], held: Collection[Capability]) -> None:
    """Nobody can change or remove a role or a person with more capabilities than their own. Raises `Forbidden`."""
    more = sorted(set(theirs) - set(held))
    if more:
        raise Forbidden(f"Only a person who also has these capabilities can do this: {', '.join(more)}", words="rights_missing")


def kept_permissions(names: Collection[str]) -> frozenset[Capability]:
    """The capabilities in a stored role. Words of a later release are ignored."""
    return frozenset(capability for capability in Capability if capability.value in names)


def permissions_of(names: Collection[str]) -> frozenset[Capability]:
    """Raises `BadRequest` for a word that is not a capability."""
    if len(names) > MOST_NAMED:
        raise BadRequest(f"permissions: at most {MOST_NAMED}", words="field_list", values={"most": MOST_NAMED})
    try:
        return frozenset(Capability(name) for name in names)
    except ValueError:
        raise BadRequest(f"permissions: each must be one of {', '.join(Capability)}", words="field_choice") from None


def role_slug(text: str) -> str:
    """The slug of a new role. Raises `BadRequest`."""
    if built_in(text) is not None:
        raise BadRequest("slug: a built-in role has this slug; choose another", words="short_name_taken")
    if not _SLUG.fullmatch(text):
        raise BadRequest(
            f"slug: 1 to {LONGEST_SLUG} of a-z, 0-9, - and _, with a letter or digit at both ends",
            words="short_name_malformed",
            values={"most": LONGEST_SLUG},
        )
    return text


def role_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def role_description(text: str) -> str:
    description = typed_line("description", text)
    if len(description) > LONGEST_DESCRIPTION:
        raise BadRequest(
            f"description: at most {LONGEST_DESCRIPTION} characters", words="text_too_long", values={"most": LONGEST_DESCRIPTION}
        )
    return description


def role_created(role: Role, actor: Actor) -> Event:
    return _event("role.created", role, actor, {"role_slug": role.slug, "name": role.name, "permissions": sorted(role.permissions)})


def role_updated(before: Role, after: Role, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details: dict[str, Json] = {"role_slug": after.slug}
    if before.name != after.name:
        details |= {"old_name": before.name, "new_name": after.name}
    if before.description != after.description:
        details["description_changed"] = True
    if before.permissions != after.permissions:
        details |= {"granted": sorted(after.permissions - before.permissions), "revoked": sorted(before.permissions - after.permissions)}
    return _event("role.updated", after, actor, details)


def role_deleted(role: Role, actor: Actor) -> Event:
    return _event("role.deleted", role, actor, {"role_slug": role.slug, "name": role.name, "permissions": sorted(role.permissions)})


def _event(name: str, role: Role, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("role", str(role.id)), role.organization, details)
