"""The audit log: what an entry tells, which ones are looked for, and what can happen at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.events import Actor
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.json import Json
from core.domain.pages import MOST_COUNTED, Page

LONGEST_USER_AGENT: Final = 512
# Of an actor whose account is gone.
DELETED_USER: Final = "deleted-user@unknown"
# In place of what was forgotten of an entry.
FORGOTTEN_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound to it
FORGOTTEN_USER_AGENT: Final = "anonymized"


def kept_user_agent(actor: Actor) -> str | None:
    return None if actor.user_agent is None else actor.user_agent[:LONGEST_USER_AGENT]


class TargetType(StrEnum):
    """What an entry of an organization's log is about."""

    USER = "user"
    SERVICE = "service"
    ORGANIZATION = "organization"
    PLAN = "plan"
    SUBSCRIPTION = "subscription"
    INVITATION = "invitation"
    API_KEY = "api_key"
    DOMAIN = "domain"
    BRANDING = "branding"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever did it, as they are known now."""

    id: UserId
    email: str
    is_platform_owner: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """`actor` is None for the system."""

    id: AuditEntryId
    organization: OrganizationId
    actor: Person | None
    impersonator: Person | None
    action: str
    target_type: str
    target_id: str
    address: str | None
    user_agent: str | None
    success: bool
    details: Mapping[str, Json]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are looked for: those for which all that is said here is true. `since` belongs to the span, `until` does not."""

    action: str | None = None
    target_type: TargetType | None = None
    target_id: str | None = None
    actor: UserId | None = None
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.target_id is not None and self.target_type is None:
            raise BadRequest("target_id: say the target_type too")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise BadRequest("until: must be later than since")

    @property
    def is_empty(self) -> bool:
        return self == _EVERYTHING


_EVERYTHING: Final = AuditFilter()


def require_reachable(page: Page) -> None:
    """Of a filtered list. What is beyond would be found by walking over all that is before it, so its reader is told a better way."""
    if page.offset + page.limit > MOST_COUNTED:
        raise BadRequest(f"page: a filtered list ends after {MOST_COUNTED} entries; narrow it with since and until")


@dataclass(frozen=True, slots=True)
class Action:
    """Something that is audited. Those of the platform stand in no organization's log."""

    value: str
    label: str
    category: str
    of_platform: bool = False


def _actions(category: str, *told: tuple[str, str], of_platform: bool = False) -> tuple[Action, ...]:
    return tuple(Action(value, label, category, of_platform) for value, label in told)


ACTIONS: Final = (
    *_actions(
        "User management",
        ("user.invited", "User invited"),
        ("user.joined", "User joined"),
        ("user.removed", "User removed"),
        ("user.role_updated", "Role of a user changed"),
        ("user.anonymized", "User anonymized"),
    ),
    *_actions(
        "Service management",
        ("service.created", "Service created"),
        ("service.updated", "Service updated"),
        ("service.deleted", "Service deleted"),
        ("service.oauth_credentials.updated", "OAuth credentials of a service updated"),
        ("client_secret.created", "Client secret of a service made"),
        ("client_secret.deleted", "Client secret of a service deleted"),
    ),
    *_actions(
        "Organization management",
        ("organization.created", "Organization created"),
        ("organization.updated", "Organization updated"),
        ("organization.owner.changed", "Ownership transferred"),
        ("organization.approved", "Organization approved"),
        ("organization.rejected", "Organization rejected"),
        ("organization.suspended", "Organization suspended"),
        ("organization.activated", "Organization activated"),
        ("organization.tier.changed", "Tier or limits changed"),
        ("organization.deleted", "Organization deleted"),
        ("organization.smtp.configured", "Mail server configured"),
        ("organization.smtp.removed", "Mail server removed"),
    ),
    *_actions(
        "Roles",
        ("role.created", "Role created"),
        ("role.updated", "Role updated"),
        ("role.deleted", "Role deleted"),
    ),
    *_actions(
        "Plans",
        ("plan.created", "Plan created"),
        ("plan.updated", "Plan updated"),
        ("plan.deleted", "Plan deleted"),
    ),
    *_actions(
        "Subscriptions",
        ("subscription.created", "Subscription created"),
        ("subscription.updated", "Subscription updated"),
        ("subscription.canceled", "Subscription canceled"),
    ),
    *_actions(
        "Invitations",
        ("invitation.accepted", "Invitation accepted"),
        ("invitation.declined", "Invitation declined"),
        ("invitation.expired", "Invitation expired"),
        ("invitation.revoked", "Invitation revoked"),
    ),
    *_actions(
        "Security",
        ("security.mfa.enabled", "Second factor enabled"),
        ("security.mfa.disabled", "Second factor disabled"),
        ("security.mfa.backup_codes_generated", "Backup codes generated"),
        ("security.password.changed", "Password changed"),
        ("security.session.opened", "Session opened in the organization"),
        ("security.sessions.revoked", "Sessions revoked"),
        ("security.refresh_token.reused", "Refresh token used twice"),
        ("security.impersonation.started", "Impersonation started"),
        ("security.impersonation.request", "Request while impersonating"),
    ),
    *_actions(
        "API keys",
        ("api_key.created", "API key created"),
        ("api_key.deleted", "API key deleted"),
    ),
    *_actions(
        "Domains and branding",
        ("domain.set", "Domain set"),
        ("domain.verified", "Domain verified"),
        ("domain.deleted", "Domain deleted"),
        ("branding.updated", "Branding updated"),
    ),
    *_actions(
        "Accounts",
        ("user.signup.success", "Account created"),
        ("user.logout", "User signed out"),
        ("user.email.verified", "E-mail address verified"),
        ("user.email.change_requested", "Change of e-mail address requested"),
        ("user.email.changed", "E-mail address changed"),
        ("user.device.renamed", "Device renamed"),
        ("user.device.revoked", "Device revoked"),
        ("user.viewed", "Account shown to an operator"),
        ("user.deactivated", "Account deactivated"),
        ("user.activated", "Account activated"),
        of_platform=True,
    ),
    *_actions(
        "Platform",
        ("platform.owner.created", "Platform owner made"),
        ("platform.owner.removed", "Platform owner put out of office"),
        ("platform.signing_keys.rotated", "Signing keys rotated"),
        ("platform.encryption_keys.rotated", "Encryption keys rotated"),
        of_platform=True,
    ),
)
