"""The catalog of event types, which the audit log, the webhooks and the API share."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from core.domain.formats import Json
from core.frozen import Frozen


class Audience(StrEnum):
    """The largest group of people who may read an event."""

    ORGANIZATION = "organization"
    """The event can be in the log of an organization. If it involves no organization, it is in the platform's log."""
    PERSON = "person"
    """The event is a person's own affair. It is in the platform's log, and no organization reads it."""
    PLATFORM = "platform"
    """The event is about the installation, for platform owners only."""


class EventType(Frozen):
    """`audited`: the event is written to the audit log. `published`: webhooks can subscribe to the event."""

    name: str
    category: str
    audited: bool
    published: bool
    audience: Audience


class UnknownEventType(LookupError):
    """The code that builds the event names an unknown type."""


def event_type(name: str) -> EventType:
    """Raises `UnknownEventType`."""
    found = _BY_NAME.get(name)
    if found is None:
        raise UnknownEventType(f"{name} is not in the catalogue of events")
    return found


def _types(
    category: str,
    *names: str,
    audited: bool = True,
    published: bool = True,
    audience: Audience = Audience.ORGANIZATION,
) -> Iterator[EventType]:
    return (EventType(name, category, audited, published, audience) for name in names)


_OF_THE_INTERFACE: Final = (
    *_types(
        "User management",
        "user.invited",
        "user.joined",
        "user.removed",
        "user.role_updated",
        "user.anonymized",
    ),
    *_types(
        "Service management",
        "service.created",
        "service.updated",
        "service.deleted",
        "service.oauth_credentials.updated",
    ),
    *_types(
        "Organization management",
        "organization.updated",
        "organization.smtp.configured",
        "organization.smtp.removed",
    ),
    *_types(
        "Plans",
        "plan.created",
        "plan.updated",
        "plan.deleted",
    ),
    *_types(
        "Subscriptions",
        "subscription.created",
        "subscription.updated",
        "subscription.canceled",
    ),
    *_types(
        "Invitations",
        "invitation.accepted",
        "invitation.declined",
        "invitation.expired",
        "invitation.revoked",
    ),
    *_types(
        "Security",
        "security.mfa.enabled",
        "security.mfa.disabled",
        "security.password.changed",
    ),
    *_types(
        "API keys",
        "api_key.created",
        "api_key.deleted",
    ),
    *_types(
        "Domains and branding",
        "domain.set",
        "domain.verified",
        "domain.deleted",
        "branding.updated",
    ),
)
"""The audit actions that the API specification fixes (operations, section 6.3), in its order."""

_FURTHER: Final = (
    *_types(
        "API keys",
        "user_key.created",
        "user_key.revoked",
    ),
    *_types(
        "User management",
        "user.signup.success",
        "user.membership.confirmed",
        "terms.accepted",
        "user.consent.given",
        "user.consent.revoked",
        "user.token.exchanged",
        "user.fields.updated",
        "user.metadata.updated",
    ),
    *_types(
        "User management",
        "user.email.changed",
        "user.exported",
        "user.imported",
        "user.profile.updated",
        published=False,
    ),
    *_types(
        "Organization management",
        "organization.configuration.planned",
        published=False,
    ),
    *_types(
        "Organization management",
        "proposal.created",
        "proposal.applied",
        "proposal.deleted",
    ),
    *_types(
        "Management keys",
        "management_key.created",
        "management_key.adopted",
        "management_key.ended",
    ),
    *_types(
        "Set-up links",
        "setup_link.created",
        "setup_link.used",
        "setup_link.released",
        "setup_link.revoked",
        "setup_link.draft.waiting",
        "setup_link.draft.activated",
    ),
    *_types(
        "Directories",
        "scim_token.created",
        "scim_token.deleted",
        "scim_settings.updated",
    ),
    *_types(
        "Service management",
        "service.oauth_credentials.removed",
        "service.permission.created",
        "service.permission.updated",
        "service.permission.deleted",
        "service.role.created",
        "service.role.updated",
        "service.role.deleted",
        "service.assignment.added",
        "service.assignment.removed",
        "client_secret.created",
        "client_secret.deleted",
        "service.user_keys.updated",
        "service.proxy.updated",
        "service.signals.updated",
        "service.provisioning.updated",
        "service.provisioning.activated",
        "service.provisioning.deactivated",
        "service.provisioning.deleted",
        "service.provisioning.run.started",
        "service.provisioning.run.stopped",
        "service.provisioning.run.agreed",
        "service.provisioning.run.left",
        "service.provisioning.failing",
        "service.provisioning.stopped",
        "service.provisioning.ended",
        "service.provisioning.person.tried_again",
        "service.provisioning.person.adopted",
        "signal_stream.created",
        "signal_stream.updated",
        "signal_stream.deleted",
        "service.saml.updated",
        "service.saml.disabled",
        "service.saml.certificate.created",
        "service.saml.certificate.activated",
        "service.agent.ended",
    ),
    *_types(
        "Organization management",
        "organization.created",
        "organization.owner.changed",
        "organization.owner.confirmed",
        "organization.owner.declined",
        "organization.sign_in_rules.updated",
        "organization.risk_policies.updated",
        "organization.risk_policies.notified",
        "terms.set",
        "terms.withdrawn",
        "organization.smtp.failed",
        "organization.smtp.recovered",
        "organization.upstream_provider.created",
        "organization.upstream_provider.updated",
        "organization.upstream_provider.tested",
        "organization.upstream_provider.activated",
        "organization.upstream_provider.certificates.refreshed",
        "organization.upstream_provider.certificates.waiting",
        "organization.upstream_provider.certificates.approved",
        "organization.upstream_provider.certificates.declined",
        "organization.upstream_provider.metadata.failed",
        "organization.upstream_provider.run.started",
        "organization.upstream_provider.run.stopped",
        "organization.upstream_provider.run.agreed",
        "organization.upstream_provider.run.left",
        "organization.upstream_provider.run.failed",
        "organization.upstream_provider.people.taken_over",
        "organization.upstream_provider.people.kept",
        "organization.upstream_provider.people.ended",
        "organization.upstream_provider.people.released",
        "organization.upstream_provider.deleted",
    ),
    *_types(
        "Domains and branding",
        "languages.updated",
        "domain.lost",
        "domain_route.created",
        "domain_route.verified",
        "domain_route.updated",
        "domain_route.deleted",
        "domain_route.lost",
        "texts.updated",
        "notice.updated",
        "texts.approved",
        "texts.approval_withdrawn",
    ),
    *_types(
        "User management",
        "join_request.created",
        "join_request.approved",
        "join_request.declined",
    ),
    # Decisions of the platform's owners do not happen in a tenant's systems, so webhooks get none of them.
    *_types(
        "Organization management",
        "organization.approved",
        "organization.rejected",
        "organization.suspended",
        "organization.activated",
        "organization.tier.changed",
        "organization.deleted",
        "organization.exported",
        "organization.imported",
        published=False,
    ),
    *_types(
        "APIs",
        "resource_server.created",
        "resource_server.updated",
        "resource_server.deleted",
        "resource_server.verified",
        "resource_server.lost",
        "resource_server.superseded",
    ),
    *_types(
        "APIs",
        "resource_server.approval_asked",
        "resource_server.approved",
        "resource_server.approval_withdrawn",
        published=False,
    ),
    *_types(
        "Trusted issuers",
        "trusted_issuer.created",
        "trusted_issuer.updated",
        "trusted_issuer.deleted",
    ),
    *_types(
        "Claims",
        "service.claim.created",
        "service.claim.updated",
        "service.claim.deleted",
    ),
    *_types(
        "Fields",
        "profile_field.created",
        "profile_field.updated",
        "profile_field.deleted",
    ),
    *_types(
        "Roles",
        "role.created",
        "role.updated",
        "role.deleted",
    ),
    *_types(
        "Teams",
        "team.created",
        "team.updated",
        "team.deleted",
        "team.member.added",
        "team.member.removed",
    ),
    *_types(
        "Webhooks",
        "webhook.created",
        "webhook.updated",
        "webhook.deleted",
        "webhook.secret_rotated",
        "webhook.paused",
        "webhook.tested",
    ),
    *_types(
        "Integrations",
        "siem.configured",
        "siem.removed",
        "siem.tested",
        "offboarding.deadline.set",
        "offboarding.deadline.removed",
        "offboarding.late",
        "offboarding.evidence.created",
        "hook.created",
        "hook.updated",
        "hook.secret_rotated",
        "hook.counts",
        "hook.in_shadow",
        "hook.deleted",
        "hook.tested",
    ),
    *_types(
        "Security",
        "security.impersonation.started",
        "security.passkeys.changed",
        "security.account.locked",
        "security.account.unlocked",
        "security.password.breached",
    ),
    # These events are too many for a webhook, or of no use to one.
    *_types(
        "Security",
        "security.impersonation.request",
        "security.mfa.backup_codes_generated",
        "security.session.opened",
        "user.device.approved",
        "user.afar_request.allowed",
        "user.assertion.accepted",
        "security.sessions.revoked",
        "security.refresh_token.reused",
        "security.authorization_code.reused",
        published=False,
    ),
    # These events are for webhooks only. Sign-ins and second factors have logs of their own, and the audit log has other names for second
    # factors.
    *_types(
        "Sign-in",
        "user.login.success",
        "user.login.failed",
        "user.mfa.enabled",
        "user.mfa.disabled",
        audited=False,
    ),
    *_types(
        "Service management",
        "signal_stream.verification",
        "user.purged",
        "signal_stream.paused",
        "signal_stream.resumed",
        "signal_stream.dropped",
        audited=False,
    ),
    # Webhooks hear of the same act by signal_stream.verification. That one is not audited: an application may ask each ten seconds.
    *_types(
        "Service management",
        "signal_stream.tested",
        published=False,
    ),
    *_types(
        "Sign-in",
        "user.logout",
    ),
    *_types(
        "Security",
        "security.session.reauthenticated",
        "security.session.bound",
        "security.session.proof_refused",
        "security.sign_in_link.created",
        "security.sign_in_link.used",
        "security.passkey.added",
        "security.passkey.renamed",
        "security.passkey.removed",
        "security.passkey.copied",
        published=False,
        audience=Audience.PERSON,
    ),
    *_types(
        "Accounts",
        "user.email.verified",
        "user.email.change_requested",
        "user.email.change_refused",
        "user.registration.refused",
        "user.registration.lapsed",
        "user.picture.set",
        "user.picture.removed",
        "user.device.renamed",
        "user.device.revoked",
        "user.device.denied",
        "user.afar_request.refused",
        "user.afar_client.blocked",
        "user.afar_client.unblocked",
        "user.identity.linked",
        "user.identity.unlinked",
        "user.account.reclaimed",
        published=False,
        audience=Audience.PERSON,
    ),
    *_types(
        "Platform",
        "user.viewed",
        "user.deactivated",
        "user.activated",
        "platform.owner.created",
        "platform.owner.removed",
        "platform.management_key.created",
        "platform.management_key.adopted",
        "platform.management_key.ended",
        "platform.signing_keys.rotated",
        "platform.encryption_keys.rotated",
        "platform.registration_keys.rotated",
        "platform.backup.created",
        "platform.backup.checked",
        "platform.backup.restored",
        "platform.work.released",
        "platform.import.finished",
        "platform.job.revived",
        "platform.text_rules.updated",
        "platform.risk_policies.updated",
        "platform.risk_policies.notified",
        "platform.hook.created",
        "platform.hook.updated",
        "platform.hook.secret_rotated",
        "platform.hook.counts",
        "platform.hook.in_shadow",
        "platform.hook.deleted",
        "platform.hook.tested",
        "platform.mail_budget.lifted",
        "platform.mail_budget.restored",
        "platform.provider.created",
        "platform.provider.updated",
        "platform.provider.tested",
        "platform.provider.activated",
        "platform.provider.deleted",
        published=False,
        audience=Audience.PLATFORM,
    ),
)

EVENT_TYPES: Final = (*_OF_THE_INTERFACE, *_FURTHER)
_BY_NAME: Final[Mapping[str, EventType]] = {one.name: one for one in EVENT_TYPES}

# The events that can be in an organization's log.
AUDIT_ACTIONS: Final = tuple(one for one in EVENT_TYPES if one.audited and one.audience is Audience.ORGANIZATION)

TEST_EVENT: Final = "webhook.tested"
"""The webhook that is tested gets this event, whatever events it subscribes to."""

WEBHOOK_TOPIC: Final = "webhooks"
"""The doorbell's topic for events that go to webhooks."""

# The events that an organization's webhooks can subscribe to.
WEBHOOK_EVENTS: Final = tuple(
    one for one in EVENT_TYPES if one.published and one.audience is Audience.ORGANIZATION and one.name != TEST_EVENT
)


_ID: Final = "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"
_WHEN: Final = "2026-03-01T00:00:00Z"


class EventData(Frozen):
    """Describes the `data` that a webhook gets with a type of event, with an example. An event may have more than its type promises."""

    description: str
    example: Mapping[str, Json]


_SERVICE: Final[Mapping[str, Json]] = {"service_slug": "billing", "service_name": "Billing"}
_TERMS: Final[Mapping[str, Json]] = {
    "service_id": _ID,
    "service_slug": "billing",
    "name": "Pro",
    "price_cents": 1900,
    "currency": "eur",
    "features": ["export"],
    "billing_price_id": None,
}
_TEXTS_VERSION: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_VERSION: Final[Mapping[str, Json]] = {"version": "2026-11", "address": "https://acme.example/terms"}
_SUBSCRIPTION: Final[Mapping[str, Json]] = {
    "service_id": _ID,
    "service_slug": "billing",
    "user_id": _ID,
    "plan_id": _ID,
    "plan_name": "Pro",
    "status": "active",
    "current_period_end": _WHEN,
}
_CHANGED_SUBSCRIPTION: Final[Mapping[str, Json]] = {**_SUBSCRIPTION, "old_status": "active", "old_current_period_end": _WHEN}
_INVITATION: Final[Mapping[str, Json]] = {"role": "member", "invited_email": "grace@example.org"}
_KEY: Final[Mapping[str, Json]] = {
    "api_key_id": _ID,
    "service_id": _ID,
    "service_slug": "billing",
    "name": "Billing server",
    "prefix": "sk_a1b2c3",
    "permissions": ["read:users"],
    "expires_at": None,
}
_USER_KEY: Final[Mapping[str, Json]] = {
    "user_key_id": _ID,
    "user_id": _ID,
    "service_id": _ID,
    "service_slug": "billing",
    "prefix": "acme_a1b2c3",
    "scopes": ["orders:read"],
    "expires_at": None,
}
_MANAGEMENT_KEY: Final[Mapping[str, Json]] = {
    "name": "Nightly sync",
    "prefix": "pto_a1b2c3",
    "capabilities": ["org.members.view"],
    "expires_at": _WHEN,
}
_SETUP_LINK: Final[Mapping[str, Json]] = {
    "name": "Directory of Example Ltd",
    "prefix": "pts_a1b2c3",
    "purposes": ["domain", "connection"],
    "expires_at": _WHEN,
}
_SETUP_DRAFT: Final[Mapping[str, Json]] = {
    "name": "Directory of Example Ltd",
    "prefix": "pts_a1b2c3",
    "draft_id": _ID,
    "purpose": "domain",
    "subject": "example.org",
}
_SCIM_TOKEN: Final[Mapping[str, Json]] = {"name": "Directory", "prefix": "scim_live_a1b2c3", "expires_at": None}
_LOGIN: Final[Mapping[str, Json]] = {
    "login_event_id": _ID,
    "provider": "password",
    "service_id": _ID,
    "risk_score": 0.1,
    "risk_factors": ["new_device"],
}
_CLAIM: Final[Mapping[str, Json]] = {
    "service_slug": "billing",
    "claim_id": _ID,
    "claim": "cost_center",
    "source": "organization_field",
    "argument": "cost_center",
    "into": ["id_token", "userinfo"],
}
_SECRET: Final[Mapping[str, Json]] = {"service_slug": "billing", "client_secret_id": _ID, "prefix": "cs_d4e5f6"}
_SAML_CERTIFICATE: Final[Mapping[str, Json]] = {
    "service_slug": "billing",
    "certificate_id": _ID,
    "state": "active",
    "valid_until": _WHEN,
}
_ROLE: Final[Mapping[str, Json]] = {"role_slug": "support", "name": "Support", "permissions": ["end_users.view"]}
_TEAM: Final[Mapping[str, Json]] = {"team_slug": "support", "name": "Support", "source": "own", "role": "member"}
_TEAM_MEMBER: Final[Mapping[str, Json]] = {"team_id": _ID, "team_slug": "support", "team_name": "Support", "role": "member"}
_CONSENT: Final[Mapping[str, Json]] = {
    "service_id": _ID,
    "service_slug": "board",
    "service_name": "Board",
    "scopes": ["openid", "email"],
    "saml_entity_id": None,
}
_PERMISSION: Final[Mapping[str, Json]] = {"service_slug": "billing", "permission": "invoices:write", "description": "Write invoices"}
_SERVICE_ROLE: Final[Mapping[str, Json]] = {"service_slug": "billing", "role_slug": "editor", "name": "Editor"}
_ASSIGNMENT: Final[Mapping[str, Json]] = {
    "service_slug": "billing",
    "service_name": "Billing",
    "role_slug": "editor",
    "assignment_id": _ID,
    "user_id": _ID,
}
_CREDENTIALS: Final[Mapping[str, Json]] = {"provider": "codehost", "client_id": "Iv1.4f2d"}
_RUN: Final[Mapping[str, Json]] = {
    "name": "Acme directory",
    "run_id": "0199d3a0-0000-7000-8000-000000000021",
    "kind": "whole",
    "came": 0,
    "changed": 3,
    "ends": 40,
    "digest": "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3",
}
_THERE: Final[Mapping[str, Json]] = {
    "service_slug": "billing",
    "old_base_url": "https://scim.example.org/v2",
    "new_base_url": "https://scim.example.com/v2",
}
_RUN_THERE: Final[Mapping[str, Json]] = {
    "service_slug": "billing",
    "run_id": "0199d3a0-0000-7000-8000-000000000021",
    "kind": "whole",
    "made": 0,
    "matched": 0,
    "changed": 3,
    "ends": 40,
    "adopts": 0,
    "digest": "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3",
}
_DECIDED: Final[Mapping[str, Json]] = {
    "name": "Acme directory",
    "run_id": "0199d3a0-0000-7000-8000-000000000021",
    "people": 6,
    "digest": "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3",
}
_UPSTREAM: Final[Mapping[str, Json]] = {
    "name": "Acme login",
    "kind": "oidc",
    "state": "active",
    "issuer": "https://login.acme.example",
    "client_id": "postern",
    "scopes": [],
    "enabled": True,
}
_FINGERPRINT: Final = "9f2c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80912"
_DOMAIN: Final[Mapping[str, Json]] = {"domain": "login.example.org"}
_ROUTE: Final[Mapping[str, Json]] = {
    "domain_id": _ID,
    "domain": "example.org",
    "upstream_provider_id": "websuite",
    "login_policy": "upstream_only",
    "join_policy": "on",
}
_IDENTIFIER: Final[Mapping[str, Json]] = {"identifier": "https://api.example.org/orders"}
_TRUSTED_ISSUER: Final[Mapping[str, Json]] = {
    "name": "Deploy",
    "service_slug": "shop",
    "management_key_id": None,
    "issuer": "https://token.actions.githubusercontent.com",
    "audience": "https://id.example.com",
    "jwks_uri": "https://token.actions.githubusercontent.com/.well-known/jwks",
    "key_ids": None,
    "subject_pattern": "repo:acme/shop:ref:refs/heads/main",
    "claims": {},
}
_PROPOSAL: Final[Mapping[str, Json]] = {
    "document_digest": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
    "plan_digest": "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3",
    "expires_at": "2026-11-27T12:00:00Z",
}
_API_HOST: Final[Mapping[str, Json]] = {**_IDENTIFIER, "host": "api.example.org"}
_API: Final[Mapping[str, Json]] = {
    **_IDENTIFIER,
    "name": "Orders",
    "service_slug": "shop",
    "token_lifetime": None,
    "access_token_alg": "ES256",
    "admits": "named",
    "admitted_services": ["till"],
    "scopes": ["orders:read"],
}
_JOIN_REQUEST: Final[Mapping[str, Json]] = {"join_request_id": _ID, "email": "grace@example.org"}
_SIGNAL_STREAM: Final[Mapping[str, Json]] = {
    "service_id": _ID,
    "method": "push",
    "host": "billing.example.org",
    "events": ["session-revoked"],
    "status": "enabled",
}
_WEBHOOK: Final[Mapping[str, Json]] = {"name": "CRM", "host": "crm.example.org", "events": ["user.joined"], "is_active": True}
_HOOK: Final[Mapping[str, Json]] = {"point": "sign_in", "host": "checks.example.org", "silence": "go_on", "seconds": 2, "stands": "shadow"}
_SIEM: Final[Mapping[str, Json]] = {
    "name": "Our SIEM",
    "provider_type": "generic",
    "host": "siem.example.org",
    "batch_size": 500,
    "is_active": True,
}

_DEADLINES: Final[Mapping[str, Json]] = {"removal_minutes": 60, "access_minutes": 1440, "security_minutes": None}

EVENT_DATA: Final[Mapping[str, EventData]] = {
    "user.invited": EventData(
        "The invitation, the role that it offers, and the address that it was sent to.", {"invitation_id": _ID, **_INVITATION}
    ),
    "user.joined": EventData(
        "For a new member the role, and the invitation, the SCIM token, the domain of the address or the request; for a new user of a "
        "service the service and its API key.",
        {"invitation_id": _ID, "role": "member"},
    ),
    "user.removed": EventData(
        "For a member the role, and the address or the way in which a directory removed the person; for a user of a service, and where "
        "somebody else deleted the account, the effect on the account.",
        {"role": "member", "email": "grace@example.org"},
    ),
    "user.role_updated": EventData(
        "The roles before and after.", {"old_role": "member", "new_role": "admin", "email": "grace@example.org"}
    ),
    "user.membership.confirmed": EventData("The role that the person has confirmed to have.", {"role": "member"}),
    "user.anonymized": EventData("The person whose account was anonymized.", {"user_id": _ID}),
    "service.created": EventData("The new service.", {**_SERVICE, "service_type": "web", "client_id": _ID}),
    "service.updated": EventData(
        "The names of the changed fields, with the earlier values of those that decide where people are sent.",
        {**_SERVICE, "changed": ["name"], "old_name": "Bills"},
    ),
    "service.deleted": EventData("The deleted service.", {**_SERVICE, "client_id": _ID}),
    "service.claim.created": EventData("The new claim. The value of a constant is left out.", _CLAIM),
    "service.claim.updated": EventData(
        "The claim after the change, and what changed, as it was before.", {**_CLAIM, "old_source": "teams"}
    ),
    "service.claim.deleted": EventData("The deleted claim.", _CLAIM),
    "service.oauth_credentials.updated": EventData("The provider, and the organization's client there.", _CREDENTIALS),
    "service.oauth_credentials.removed": EventData("The provider, and the client there that is not used any more.", _CREDENTIALS),
    "service.permission.created": EventData("The new permission and its service.", _PERMISSION),
    "service.permission.updated": EventData(
        "The permission, with the descriptions before and after.", {**_PERMISSION, "old_description": "Invoices"}
    ),
    "service.permission.deleted": EventData("The deleted permission, which the service's roles have lost.", _PERMISSION),
    "service.role.created": EventData(
        "The new role, its permissions, and whether everybody has it.",
        {**_SERVICE_ROLE, "permissions": ["invoices:write"], "given_to_everybody": False},
    ),
    "service.role.updated": EventData(
        "The role, each changed name before and after, and the permissions that it got and lost.",
        {"service_slug": "billing", "role_slug": "editor", "granted": ["invoices:write"], "revoked": []},
    ),
    "service.role.deleted": EventData("The deleted role, and how many assignments ended with it.", {**_SERVICE_ROLE, "assignments": 2}),
    "service.assignment.added": EventData(
        "The role, and who holds it now: a person, the people with a role of the organization, or a team.", _ASSIGNMENT
    ),
    "service.assignment.removed": EventData(
        "The role, and who no longer holds it by this assignment: a person, the people with a role of the organization, or a team.",
        _ASSIGNMENT,
    ),
    "organization.updated": EventData(
        "The name of what changed: `name`, with the names before and after, or `metadata`.",
        {"changed": ["name"], "old_name": "Acme", "name": "Acme Corporation"},
    ),
    "organization.sign_in_rules.updated": EventData(
        "Each changed rule before and after.", {"old_mfa_policy": "optional", "new_mfa_policy": "required"}
    ),
    "organization.risk_policies.updated": EventData(
        "The names and actions of the rules, in order, and the number of exceptions, each before and after if it changed.",
        {"old_risk_policies": [], "new_risk_policies": ["Second factor outside Germany: second_factor (shadow)"]},
    ),
    "organization.risk_policies.notified": EventData(
        "The rule that has the owners hear of a sign-in, and how many of them get a mail.",
        {"policy_id": "01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55", "name": "New devices", "owners": 1},
    ),
    "organization.smtp.configured": EventData("The mail server.", {"host": "smtp.example.org", "port": 587}),
    "organization.smtp.removed": EventData("The mail server that was removed.", {"host": "smtp.example.org"}),
    "organization.smtp.failed": EventData(
        "The mail server, and the start of its failures. From now on the installation's mail server takes over.",
        {"host": "smtp.example.org", "failing_since": _WHEN},
    ),
    "organization.smtp.recovered": EventData("The mail server that works again.", {"host": "smtp.example.org"}),
    "organization.upstream_provider.created": EventData("The provider, which may wait for an owner.", _UPSTREAM),
    "organization.upstream_provider.updated": EventData(
        "Each changed term before and after, and whether the client's secret was replaced.",
        {"name": "Acme login", "old_enabled": True, "new_enabled": False},
    ),
    "organization.upstream_provider.tested": EventData(
        "The provider, and whether every check of the test has passed.", {"name": "Acme login", "succeeded": True}
    ),
    "organization.upstream_provider.activated": EventData(
        "The provider that people can sign in through from now on, and the digest of the settings to which the owner has said yes.",
        {**_UPSTREAM, "digest": _FINGERPRINT},
    ),
    "organization.upstream_provider.certificates.refreshed": EventData(
        "The fingerprints of the provider's certificates that count from now on, and of those that no longer do.",
        {"name": "Acme login", "added_sha256": [_FINGERPRINT], "removed_sha256": []},
    ),
    "organization.upstream_provider.certificates.waiting": EventData(
        "The fingerprints of the certificates, and why they do not count at once: `not_encrypted`, `other_host` or `no_longer_signed`.",
        {"name": "Acme login", "waiting_sha256": [_FINGERPRINT], "reason": "other_host"},
    ),
    "organization.upstream_provider.certificates.approved": EventData(
        "The fingerprint of the certificate that counts from now on.", {"name": "Acme login", "certificate_sha256": _FINGERPRINT}
    ),
    "organization.upstream_provider.certificates.declined": EventData(
        "The fingerprint of the certificate that does not count.", {"name": "Acme login", "certificate_sha256": _FINGERPRINT}
    ),
    "organization.upstream_provider.metadata.failed": EventData(
        "Why the metadata are not read or not used. Told again when the reason changes.", {"name": "Acme login", "fault": "status"}
    ),
    "organization.upstream_provider.run.started": EventData("The connection, whose directory is read again.", {"name": "Acme directory"}),
    "organization.upstream_provider.run.stopped": EventData("What the run would do if an owner let it go on.", _RUN),
    "organization.upstream_provider.run.agreed": EventData("What an owner has let go on.", _RUN),
    "organization.upstream_provider.run.left": EventData("What an owner has not let go on.", _RUN),
    "organization.upstream_provider.run.failed": EventData(
        "Why the directory could not be read. Told once, until it can be read again.",
        {"name": "Acme directory", "run_id": "0199d3a0-0000-7000-8000-000000000021", "fault": "The host does not answer in time."},
    ),
    "organization.upstream_provider.people.taken_over": EventData("How many people the directory lists from now on.", _DECIDED),
    "organization.upstream_provider.people.kept": EventData("How many people are the organization's own members from now on.", _DECIDED),
    "organization.upstream_provider.people.ended": EventData("How many people an owner has ended.", _DECIDED),
    "organization.upstream_provider.people.released": EventData(
        "How many people the directory has listed. They stay members.", {"name": "Acme directory", "people": 40}
    ),
    "organization.upstream_provider.deleted": EventData("The deleted provider.", _UPSTREAM),
    "plan.created": EventData("The new plan and its service.", _TERMS),
    "plan.updated": EventData(
        "The plan, and each changed term before and after.",
        {"service_id": _ID, "service_slug": "billing", "name": "Pro", "currency": "eur", "old_price_cents": 1900, "new_price_cents": 2900},
    ),
    "plan.deleted": EventData("The deleted plan and its service.", _TERMS),
    "subscription.created": EventData("The subscriber, the plan, and the end of the paid period.", _SUBSCRIPTION),
    "subscription.updated": EventData("The subscription, and its earlier status and end.", _CHANGED_SUBSCRIPTION),
    "subscription.canceled": EventData(
        "The subscription, and its earlier status and end; `deleted` is true if it was removed.",
        {**_CHANGED_SUBSCRIPTION, "status": "cancelled"},
    ),
    "invitation.accepted": EventData(
        "The new member, and the way in which the person accepted.", {**_INVITATION, "user_id": _ID, "way": "link"}
    ),
    "invitation.declined": EventData("The invited person, and the way in which the person declined.", {**_INVITATION, "way": "link"}),
    "invitation.expired": EventData("The invited person.", _INVITATION),
    "invitation.revoked": EventData("The invited person.", _INVITATION),
    "security.mfa.enabled": EventData("A member's second factor is on. There are no further details.", {}),
    "security.mfa.disabled": EventData("A member's second factor is off. There are no further details.", {}),
    "security.password.changed": EventData("The way in which a member's password was changed.", {"how": "reset"}),
    "security.passkeys.changed": EventData(
        "Whether a member's passkey was added or removed, and whether it is one of a device or a separate key.",
        {"change": "create", "kind": "fido2-roaming"},
    ),
    "security.password.breached": EventData("A member signed in with a password that stands in lists of stolen ones.", {}),
    "api_key.created": EventData("The key, without its secret, and its service.", _KEY),
    "api_key.deleted": EventData("The deleted key.", _KEY),
    "user_key.created": EventData("The key that a user has for the API of a service, without its secret.", _USER_KEY),
    "user_key.revoked": EventData("The ended key of a user.", _USER_KEY),
    "service.user_keys.updated": EventData(
        "The service, and each changed setting of the keys of its users, before and after.",
        {"service_slug": "billing", "old_enabled": False, "new_enabled": True, "old_prefix": None, "new_prefix": "acme"},
    ),
    "service.signals.updated": EventData(
        "The service, and each changed part of its signals, before and after: whether they are on, their events, the hosts of pushes.",
        {
            "service_slug": "billing",
            "old_is_active": False,
            "new_is_active": True,
            "old_events": [],
            "new_events": ["session-revoked"],
            "old_hosts": [],
            "new_hosts": ["billing.example.org"],
        },
    ),
    "service.provisioning.updated": EventData(
        "Each changed setting, before and after. The token is not told.", {**_THERE, "old_state": "active", "new_state": "draft"}
    ),
    "service.provisioning.activated": EventData(
        "The service, whose people are sent from now on, after a plan.",
        {"service_slug": "billing", "old_state": "draft", "new_state": "active"},
    ),
    "service.provisioning.deactivated": EventData(
        "The service, whose people are sent no more.", {"service_slug": "billing", "old_state": "active", "new_state": "stopped"}
    ),
    "service.provisioning.deleted": EventData(
        "The settings that the connection had. Where everybody is ended there first, its state alone.",
        {**_THERE, "old_state": "active", "new_state": "ending"},
    ),
    "service.provisioning.run.started": EventData("The service, whose people are looked at again.", {"service_slug": "billing"}),
    "service.provisioning.run.stopped": EventData("What the run would do if an owner let it go on.", _RUN_THERE),
    "service.provisioning.run.agreed": EventData("What an owner has let go on.", _RUN_THERE),
    "service.provisioning.run.left": EventData("What an owner has not let go on.", _RUN_THERE),
    "service.provisioning.failing": EventData(
        "Why the system of the service takes nobody. Told once, until it takes people again.",
        {"service_slug": "billing", "fault": "timeout"},
    ),
    "service.provisioning.stopped": EventData(
        "The system of the service has taken nobody for a day, so nothing is sent until an owner makes the connection active again.",
        {"service_slug": "billing", "why": "failing", "fault": "timeout"},
    ),
    "service.provisioning.ended": EventData(
        "The service. An owner has removed its connection, and nobody is active there any more.", {"service_slug": "billing"}
    ),
    "service.provisioning.person.tried_again": EventData(
        "The service, and the person who is sent again.", {"service_slug": "billing", "user_id": _ID}
    ),
    "service.provisioning.person.adopted": EventData(
        "The person's account there, and the `externalId` that it had before, as an owner has let it be taken over in this run.",
        {"service_slug": "billing", "run_id": _ID, "far_id": "2819c223", "former_external_id": "00u1a2b3c4"},
    ),
    "signal_stream.created": EventData("The stream that the service made.", _SIGNAL_STREAM),
    "signal_stream.updated": EventData(
        "Each changed part of the stream, before and after.",
        {"service_id": _ID, "old_status": "enabled", "new_status": "paused"},
    ),
    "signal_stream.deleted": EventData("The stream that the service deleted.", _SIGNAL_STREAM),
    "user.purged": EventData("The account of a person who used a service by their own act. There are no further details.", {}),
    "signal_stream.paused": EventData("The organization is suspended. There are no further details.", {}),
    "signal_stream.resumed": EventData("The organization is active again. There are no further details.", {}),
    "signal_stream.dropped": EventData("The service of the stream, and how many signals were dropped.", {"service_id": _ID, "dropped": 12}),
    "signal_stream.verification": EventData(
        "The service that asked for a proof of life of its stream, and its own words for it.", {"service_id": _ID, "state": "b3Blbg"}
    ),
    "service.proxy.updated": EventData(
        "The service, each changed setting of the proxy in front of it, before and after, and the hosts that need no proof.",
        {
            "service_slug": "wiki",
            "old_hosts": [],
            "new_hosts": ["wiki.acme.example"],
            "old_rules": [],
            "new_rules": ["/admin role editor"],
            "approved_hosts": ["wiki.acme.example"],
        },
    ),
    "management_key.created": EventData("The key, without its secret.", _MANAGEMENT_KEY),
    "management_key.adopted": EventData(
        "The key, which from now on no longer depends on its maker and has a new secret; and until when the former one counts.",
        {**_MANAGEMENT_KEY, "former_secret_until": _WHEN},
    ),
    "management_key.ended": EventData(
        "The ended key; the API keys, client secrets and invitations that it had made; and whether they ended with it.",
        {**_MANAGEMENT_KEY, "made": {"api_keys": [_ID], "client_secrets": [], "invitations": []}, "ended_made": False},
    ),
    "setup_link.created": EventData(
        "The link, without its token; whether what it sets up becomes active by itself; and the address that got it by mail.",
        {**_SETUP_LINK, "activates": False, "mailed_to": "grace@example.org"},
    ),
    "setup_link.used": EventData(
        "The link, and the name that somebody typed in the browser that owns it now.", {**_SETUP_LINK, "used_by": "Grace Hopper"}
    ),
    "setup_link.released": EventData("The link, which no browser owns any more.", _SETUP_LINK),
    "setup_link.revoked": EventData("The link, and how many drafts went with it.", {**_SETUP_LINK, "dropped_drafts": 1}),
    "setup_link.draft.waiting": EventData("What was set up and tested, and waits for an owner.", _SETUP_DRAFT),
    "setup_link.draft.activated": EventData(
        "What was set up, and is active from now on, with the digest of its settings.", {**_SETUP_DRAFT, "digest": _FINGERPRINT}
    ),
    "scim_token.created": EventData("The token, without its secret.", _SCIM_TOKEN),
    "scim_token.deleted": EventData("The deleted token.", _SCIM_TOKEN),
    "scim_settings.updated": EventData(
        "What has changed, before and after: what the groups of the directory are, and which fields its attributes fill.",
        {"old_groups": "organization", "new_groups": "teams", "old_profile_mapping": {}, "new_profile_mapping": {"title": "job_title"}},
    ),
    "domain.set": EventData("The domain.", _DOMAIN),
    "domain.verified": EventData("The domain.", _DOMAIN),
    "domain.deleted": EventData("The domain.", _DOMAIN),
    "domain.lost": EventData("The domain. Three checks in a row have not found its proof.", _DOMAIN),
    "domain_route.created": EventData("The route.", _ROUTE),
    "domain_route.verified": EventData("The route, which works from now on.", _ROUTE),
    "domain_route.updated": EventData(
        "The route, and each changed part before and after.",
        {"domain_id": _ID, "domain": "example.org", "old_login_policy": "password_allowed", "new_login_policy": "upstream_only"},
    ),
    "domain_route.deleted": EventData("The deleted route.", _ROUTE),
    "domain_route.lost": EventData(
        "The route. Three checks in a row have not found its proof, so it does nothing any more.",
        {"domain_id": _ID, "domain": "example.org"},
    ),
    "resource_server.created": EventData("The API.", _API),
    "resource_server.updated": EventData(
        "The API, and each changed part before and after. Of scopes whose description or permission changed, the names.",
        {"identifier": "https://api.example.org/orders", "old_scopes": ["orders:read"], "new_scopes": ["orders:read", "orders:write"]},
    ),
    "resource_server.deleted": EventData("The deleted API.", _IDENTIFIER),
    "resource_server.verified": EventData("The API, for which tokens are made from now on.", _API_HOST),
    "resource_server.lost": EventData(
        "The API. Three checks in a row have not found the proof of its host, so no tokens are made for it any more.", _API_HOST
    ),
    "resource_server.superseded": EventData(
        "The API. Another organization has proved the host, so no tokens are made for the API any more.", _API_HOST
    ),
    "trusted_issuer.created": EventData("The rule, and the service or the management key that it is for.", _TRUSTED_ISSUER),
    "trusted_issuer.updated": EventData(
        "The rule, and each changed part before and after.",
        {"name": "Deploy", "old_audience": "https://id.example.com", "new_audience": "postern"},
    ),
    "trusted_issuer.deleted": EventData("The deleted rule.", _TRUSTED_ISSUER),
    "proposal.created": EventData("The digests of the document and of its plan. An owner can apply it until `expires_at`.", _PROPOSAL),
    "proposal.applied": EventData("The proposal that an owner has applied. Each change has an event of its own.", _PROPOSAL),
    "proposal.deleted": EventData("The proposal that was withdrawn.", _PROPOSAL),
    "join_request.created": EventData("The person who asked, and the domain.", {**_JOIN_REQUEST, "domain": "example.org"}),
    "join_request.approved": EventData("The person who became a member.", _JOIN_REQUEST),
    "join_request.declined": EventData("The person who asked.", _JOIN_REQUEST),
    "branding.updated": EventData(
        "The changed parts, each before and after.",
        {"changed": ["primary_color"], "old_primary_color": None, "new_primary_color": "#a01040"},
    ),
    "languages.updated": EventData(
        "The languages before and after, the first one first; none: all that there are.",
        {"changed": ["languages"], "old_languages": [], "new_languages": ["de", "ar"]},
    ),
    "notice.updated": EventData(
        "From when until when the own notice stands above the sign-in, before and after; null is without a bound.",
        {"before": {"begins_at": None, "ends_at": None}, "after": {"begins_at": _WHEN, "ends_at": None}},
    ),
    "texts.approved": EventData("The digest of the texts that a platform owner has approved.", {"version": _TEXTS_VERSION}),
    "texts.approval_withdrawn": EventData("The digest of the texts that are approved no more.", {"version": _TEXTS_VERSION}),
    "texts.updated": EventData(
        "How many texts were changed, and the first of them by language and key, each before and after; null is our text.",
        {"count": 1, "texts": [{"language": "de", "key": "sign_in.title", "before": None, "after": "Willkommen bei Acme"}]},
    ),
    "user.signup.success": EventData(
        "The way in which the account was created, and the service that created it.", {"provider": "password", "service_id": _ID}
    ),
    "terms.set": EventData(
        "The version that people are asked to accept, where its text stands, and until when; before that, the one that it follows.",
        {"version": "2026-11", "address": "https://acme.example/terms", "due_at": _WHEN, "old_version": "2025-01", "old_due_at": _WHEN},
    ),
    "terms.withdrawn": EventData("The version that nobody is asked to accept any more.", _VERSION),
    "terms.accepted": EventData("The version that the person has accepted.", _VERSION),
    "user.consent.given": EventData(
        "The application by its names of then, and its present scopes; for SAML, the entity id of the service provider. Of an agent, its"
        " client id as `agent`, and until when it may act as `expires_at`.",
        _CONSENT,
    ),
    "user.consent.revoked": EventData(
        "The application by its names of then, and its former scopes; for SAML, the entity id of the service provider. Of an agent, its"
        " client id as `agent`; if an administrator ended it, the person as `user_id`.",
        _CONSENT,
    ),
    "user.token.exchanged": EventData(
        "The service, the API that it calls in the person's name, and the scopes; the application and the audience of the token that it"
        " showed; who acts. The first of the exchanges of one service from one session for one API.",
        {
            "service_id": _ID,
            "resource": "https://api.example.org/stock",
            "scopes": ["stock:read"],
            "subject_client_id": _ID,
            "subject_audience": "https://api.example.org/orders",
            "act": {"sub": _ID},
        },
    ),
    "user.fields.updated": EventData(
        "The keys of the fields whose values changed, without the values, and the kind of writer.",
        {"keys": ["department"], "written_by": "administrator"},
    ),
    "user.metadata.updated": EventData(
        "The service that keeps the metadata, and its API key.", {"service_id": _ID, "service_slug": "billing", "api_key_id": _ID}
    ),
    "client_secret.created": EventData("The secret's beginning, and its service.", _SECRET),
    "client_secret.deleted": EventData("The secret's beginning, and its service.", _SECRET),
    "service.saml.updated": EventData(
        "The changed values, before and after. A certificate is shown by its SHA-256 fingerprint.",
        {"service_slug": "billing", "enabled": True, "old_acs_url": None, "new_acs_url": "https://crm.example.com/saml/acs"},
    ),
    "service.agent.ended": EventData(
        "The agent, by its service and its client id. It has to ask everybody again.", {"service_id": _ID, "agent": _ID}
    ),
    "service.saml.disabled": EventData("The service.", {"service_slug": "billing"}),
    "service.saml.certificate.created": EventData("The certificate, and its service.", _SAML_CERTIFICATE),
    "service.saml.certificate.activated": EventData("The certificate, and its service.", _SAML_CERTIFICATE),
    "organization.created": EventData("The new organization.", {"slug": "acme", "name": "Acme", "status": "active"}),
    "organization.owner.changed": EventData("The owners before and after.", {"old_owner_user_id": _ID, "new_owner_user_id": _ID}),
    "organization.owner.confirmed": EventData("The owner who has confirmed the ownership.", {"owner_user_id": _ID}),
    "organization.owner.declined": EventData(
        "The one who has declined the ownership, and the former owner, who is the owner again; null: the organization is suspended.",
        {"owner_user_id": _ID, "former_owner_user_id": _ID},
    ),
    "profile_field.created": EventData("The new field.", {"key": "department", "kind": "text", "written_by": ["administrator"]}),
    "profile_field.updated": EventData(
        "The field, and what of it has changed.", {"key": "department", "changed": ["label"], "written_by": ["administrator"]}
    ),
    "profile_field.deleted": EventData("The deleted field.", {"key": "department", "kind": "text"}),
    "role.created": EventData("The new role and its permissions.", _ROLE),
    "role.updated": EventData(
        "The role, and the permissions that were granted or revoked.",
        {"role_slug": "support", "granted": ["end_users.manage"], "revoked": []},
    ),
    "role.deleted": EventData("The deleted role.", _ROLE),
    "team.created": EventData("The new team, the one who fills it, and the role that it carries.", _TEAM),
    "team.updated": EventData(
        "The team, and each changed field before and after.",
        {"team_slug": "support", "name": "Support", "old_role": None, "new_role": "member"},
    ),
    "team.deleted": EventData("The deleted team.", _TEAM),
    "team.member.added": EventData("The team, and the role that it carries.", _TEAM_MEMBER),
    "team.member.removed": EventData("The team, and the role that it carries.", _TEAM_MEMBER),
    "webhook.created": EventData("The new webhook, without its URL and secret.", _WEBHOOK),
    "webhook.updated": EventData("Each changed field before and after.", {"name": "CRM", "old_is_active": True, "new_is_active": False}),
    "webhook.deleted": EventData("The deleted webhook.", _WEBHOOK),
    "webhook.secret_rotated": EventData("The webhook with the new secret.", {"name": "CRM"}),
    "webhook.paused": EventData("The webhook, which has failed at least since this moment.", {"name": "CRM", "failing_since": _WHEN}),
    "webhook.tested": EventData("The tested webhook.", {"name": "CRM"}),
    "siem.configured": EventData("The new settings of the export, without its URL and credentials.", _SIEM),
    "siem.removed": EventData("The deleted export.", _SIEM),
    "siem.tested": EventData("The export whose receiver was tried.", _SIEM),
    "offboarding.deadline.set": EventData("The deadlines in minutes, by kind of act; null for none.", _DEADLINES),
    "offboarding.deadline.removed": EventData("The deadlines that were removed.", _DEADLINES),
    "offboarding.evidence.created": EventData(
        "The file about this person, with its number of entries and its SHA-256.",
        {"evidence_id": _ID, "entries": 2, "digest": "9f2c4d4c86a1d0c5…"},
    ),
    "offboarding.late": EventData(
        "The entry of the audit log about this person, and the receiver that has not accepted it: within `minutes`, or at all if `state` "
        "is `given_up` or the receiver is not active. At most once for an entry and a receiver.",
        {
            "entry_id": _ID,
            "entry_action": "user.removed",
            "happened_at": _WHEN,
            "receiver_kind": "webhook",
            "receiver_id": "01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55",
            "receiver": "CRM",
            "state": "waiting",
            "is_active": True,
            "minutes": 60,
        },
    ),
    "hook.created": EventData("The new hook, without its address and secret.", _HOOK),
    "hook.updated": EventData(
        "Each changed setting before and after, and how the hook stands since: every change puts it in shadow.",
        {"host": "checks.example.org", "old_silence": "go_on", "new_silence": "refuse", "stands": "shadow"},
    ),
    "hook.secret_rotated": EventData("The hook with the new secret.", {"host": "checks.example.org"}),
    "hook.counts": EventData(
        "The hook, the digest of its settings, and what its report showed to the owner who let it count.",
        {**_HOOK, "stands": "counts", "digest": "9f2c4d4c86a1d0c5…", "asked": 120, "silent": 2, "refused": 3, "factors": 5},
    ),
    "hook.in_shadow": EventData("The hook, of which nothing counts any more.", _HOOK),
    "hook.deleted": EventData("The deleted hook.", _HOOK),
    "hook.tested": EventData("The hook that was asked about nobody.", {"host": "checks.example.org"}),
    "security.impersonation.started": EventData(
        "An operator acts in a member's name: the session, its end, and the reason.",
        {"impersonation_session": _ID, "expires_at": _WHEN, "reason": "Ticket 4711"},
    ),
    "security.account.locked": EventData(
        "Who locked the account of somebody who belongs to the organization: the person, the reader of a mail, the platform, or the maker.",
        {"how": "mail"},
    ),
    "security.account.unlocked": EventData("The person opened the account by a new password. There are no further details.", {}),
    "user.login.success": EventData("The way of the sign-in, the service, and the risk.", _LOGIN),
    "user.login.failed": EventData(
        "The way of the attempt, the service, the risk, and the reason of the failure.", {**_LOGIN, "reason": "wrong_password"}
    ),
    "user.logout": EventData("The session that somebody ended.", {"session_id": _ID}),
    "user.mfa.enabled": EventData("A second factor is on. There are no further details.", {}),
    "user.mfa.disabled": EventData("A second factor is off. There are no further details.", {}),
}
