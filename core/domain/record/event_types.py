"""The catalogue of events: everything that can happen here and be reported. The audit log, the webhooks and the endpoints that list the
event types use it.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

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
    label: str
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
    *told: tuple[str, str],
    audited: bool = True,
    published: bool = True,
    audience: Audience = Audience.ORGANIZATION,
) -> Iterator[EventType]:
    for name, label in told:
        yield EventType(name, label, category, audited, published, audience)


_OF_THE_INTERFACE: Final = (
    *_types(
        "User management",
        ("user.invited", "User invited"),
        ("user.joined", "User joined"),
        ("user.removed", "User removed"),
        ("user.role_updated", "Role of a user changed"),
        ("user.anonymized", "User anonymized"),
    ),
    *_types(
        "Service management",
        ("service.created", "Service created"),
        ("service.updated", "Service updated"),
        ("service.deleted", "Service deleted"),
        ("service.oauth_credentials.updated", "OAuth credentials for sign-in to services updated"),
    ),
    *_types(
        "Organization management",
        ("organization.updated", "Organization updated"),
        ("organization.smtp.configured", "Mail server configured"),
        ("organization.smtp.removed", "Mail server removed"),
    ),
    *_types(
        "Plans",
        ("plan.created", "Plan created"),
        ("plan.updated", "Plan updated"),
        ("plan.deleted", "Plan deleted"),
    ),
    *_types(
        "Subscriptions",
        ("subscription.created", "Subscription created"),
        ("subscription.updated", "Subscription updated"),
        ("subscription.canceled", "Subscription canceled"),
    ),
    *_types(
        "Invitations",
        ("invitation.accepted", "Invitation accepted"),
        ("invitation.declined", "Invitation declined"),
        ("invitation.expired", "Invitation expired"),
        ("invitation.revoked", "Invitation revoked"),
    ),
    *_types(
        "Security",
        ("security.mfa.enabled", "Second factor enabled"),
        ("security.mfa.disabled", "Second factor disabled"),
        ("security.password.changed", "Password changed"),
    ),
    *_types(
        "API keys",
        ("api_key.created", "API key created"),
        ("api_key.deleted", "API key deleted"),
    ),
    *_types(
        "Domains and branding",
        ("domain.set", "Domain set"),
        ("domain.verified", "Domain verified"),
        ("domain.deleted", "Domain deleted"),
        ("branding.updated", "Branding updated"),
    ),
)
"""The audit actions that the API specification fixes (operations, section 6.3), in its order."""

_FURTHER: Final = (
    *_types(
        "API keys",
        ("user_key.created", "Key of a user created"),
        ("user_key.revoked", "Key of a user ended"),
    ),
    *_types(
        "User management",
        ("user.signup.success", "Account created"),
        ("user.membership.confirmed", "Membership confirmed"),
        ("terms.accepted", "Terms accepted"),
        ("user.consent.given", "Access of an application allowed"),
        ("user.consent.revoked", "Access of an application taken back"),
        ("user.token.exchanged", "Service began to call another API in a user's name"),
        ("user.fields.updated", "Fields of a user changed"),
        ("user.metadata.updated", "Metadata of a user of a service changed"),
    ),
    *_types(
        "User management",
        ("user.email.changed", "E-mail address changed"),
        ("user.exported", "Personal data exported"),
        ("user.imported", "User imported from another system"),
        ("user.profile.updated", "Profile of a user changed"),
        published=False,
    ),
    *_types(
        "Organization management",
        ("organization.configuration.planned", "Document with secrets planned"),
        published=False,
    ),
    *_types(
        "Organization management",
        ("proposal.created", "Proposal made"),
        ("proposal.applied", "Proposal applied by an owner"),
        ("proposal.deleted", "Proposal withdrawn"),
    ),
    *_types(
        "Management keys",
        ("management_key.created", "Management key created"),
        ("management_key.adopted", "Management key adopted by an owner"),
        ("management_key.ended", "Management key ended"),
    ),
    *_types(
        "Set-up links",
        ("setup_link.created", "Set-up link created"),
        ("setup_link.used", "Set-up link used for the first time in a browser"),
        ("setup_link.released", "Browser of a set-up link released"),
        ("setup_link.revoked", "Set-up link revoked"),
        ("setup_link.draft.waiting", "Settings of a set-up link wait for an owner"),
        ("setup_link.draft.activated", "Settings of a set-up link made active"),
    ),
    *_types(
        "Directories",
        ("scim_token.created", "SCIM token created"),
        ("scim_token.deleted", "SCIM token deleted"),
        ("scim_settings.updated", "Settings of the directory changed"),
    ),
    *_types(
        "Service management",
        ("service.oauth_credentials.removed", "OAuth credentials for sign-in to services removed"),
        ("service.permission.created", "Permission of a service created"),
        ("service.permission.updated", "Permission of a service described anew"),
        ("service.permission.deleted", "Permission of a service deleted"),
        ("service.role.created", "Role of a service created"),
        ("service.role.updated", "Role of a service changed"),
        ("service.role.deleted", "Role of a service deleted"),
        ("service.assignment.added", "Role of a service assigned"),
        ("service.assignment.removed", "Role of a service taken away"),
        ("client_secret.created", "Client secret of a service created"),
        ("client_secret.deleted", "Client secret of a service deleted"),
        ("service.user_keys.updated", "Keys of a service's users configured"),
        ("service.proxy.updated", "Proxy in front of a service configured"),
        ("service.saml.updated", "SAML of a service configured"),
        ("service.saml.disabled", "SAML of a service disabled"),
        ("service.saml.certificate.created", "SAML certificate of a service made"),
        ("service.saml.certificate.activated", "SAML certificate of a service activated"),
        ("service.agent.ended", "All that people allowed an agent ended"),
    ),
    *_types(
        "Organization management",
        ("organization.created", "Organization created"),
        ("organization.owner.changed", "Ownership transferred"),
        ("organization.owner.confirmed", "Ownership confirmed by the new owner"),
        ("organization.owner.declined", "Ownership declined by the new owner"),
        ("organization.sign_in_rules.updated", "Sign-in rules changed"),
        ("organization.risk_policies.updated", "Rules for risk changed"),
        ("organization.risk_policies.notified", "Owners notified of a sign-in by a rule for risk"),
        ("terms.set", "Terms set"),
        ("terms.withdrawn", "Terms withdrawn"),
        ("organization.smtp.failed", "Mail server failed for an hour"),
        ("organization.smtp.recovered", "Mail server works again"),
        ("organization.upstream_provider.created", "Upstream provider set up"),
        ("organization.upstream_provider.updated", "Upstream provider changed"),
        ("organization.upstream_provider.tested", "Upstream provider tested"),
        ("organization.upstream_provider.activated", "Upstream provider activated"),
        ("organization.upstream_provider.certificates.refreshed", "Certificates of an upstream provider changed by its metadata"),
        ("organization.upstream_provider.certificates.waiting", "New certificates of an upstream provider wait for an owner"),
        ("organization.upstream_provider.certificates.approved", "New certificate of an upstream provider approved"),
        ("organization.upstream_provider.certificates.declined", "New certificate of an upstream provider declined"),
        ("organization.upstream_provider.metadata.failed", "Metadata of an upstream provider could not be read"),
        ("organization.upstream_provider.run.started", "Run of a directory started by hand"),
        ("organization.upstream_provider.run.stopped", "Run of a directory stopped and waits for an owner"),
        ("organization.upstream_provider.run.agreed", "Run of a directory let go on"),
        ("organization.upstream_provider.run.left", "Run of a directory left"),
        ("organization.upstream_provider.run.failed", "Run of a directory failed"),
        ("organization.upstream_provider.people.taken_over", "People taken over from SCIM by a directory"),
        ("organization.upstream_provider.people.kept", "People whom a directory names no more kept as own members"),
        ("organization.upstream_provider.people.ended", "People with more rights whom a directory names no more ended"),
        ("organization.upstream_provider.people.released", "People of a directory listed by nobody any more"),
        ("organization.upstream_provider.deleted", "Upstream provider removed"),
    ),
    *_types(
        "Domains and branding",
        ("languages.updated", "Languages updated"),
        ("domain.lost", "Proof of the domain lost"),
        ("domain_route.created", "Domain route created"),
        ("domain_route.verified", "Domain of a route verified"),
        ("domain_route.updated", "Domain route changed"),
        ("domain_route.deleted", "Domain route deleted"),
        ("domain_route.lost", "Proof of a route's domain lost"),
        ("texts.updated", "Own texts changed"),
        ("notice.updated", "Times of the notice changed"),
        ("texts.approved", "Own texts approved"),
        ("texts.approval_withdrawn", "Approval of own texts withdrawn"),
    ),
    *_types(
        "User management",
        ("join_request.created", "Membership asked for"),
        ("join_request.approved", "Request for membership approved"),
        ("join_request.declined", "Request for membership declined"),
    ),
    # Decisions of the platform's owners do not happen in a tenant's systems, so webhooks get none of them.
    *_types(
        "Organization management",
        ("organization.approved", "Organization approved"),
        ("organization.rejected", "Organization rejected"),
        ("organization.suspended", "Organization suspended"),
        ("organization.activated", "Organization activated"),
        ("organization.tier.changed", "Tier or limits changed"),
        ("organization.deleted", "Organization deleted"),
        ("organization.exported", "Organization written to a file for another installation"),
        ("organization.imported", "Organization arrived from another installation"),
        published=False,
    ),
    *_types(
        "APIs",
        ("resource_server.created", "API registered"),
        ("resource_server.updated", "API changed"),
        ("resource_server.deleted", "API deleted"),
        ("resource_server.verified", "API host proved"),
        ("resource_server.lost", "API host lost"),
        ("resource_server.superseded", "Approval of an API ended"),
    ),
    *_types(
        "APIs",
        ("resource_server.approval_asked", "Approval of an API asked for"),
        ("resource_server.approved", "API approved"),
        ("resource_server.approval_withdrawn", "Approval of an API taken back"),
        published=False,
    ),
    *_types(
        "Trusted issuers",
        ("trusted_issuer.created", "Trusted issuer created"),
        ("trusted_issuer.updated", "Trusted issuer changed"),
        ("trusted_issuer.deleted", "Trusted issuer deleted"),
    ),
    *_types(
        "Claims",
        ("service.claim.created", "Claim of a service created"),
        ("service.claim.updated", "Claim of a service changed"),
        ("service.claim.deleted", "Claim of a service deleted"),
    ),
    *_types(
        "Fields",
        ("profile_field.created", "Field created"),
        ("profile_field.updated", "Field changed"),
        ("profile_field.deleted", "Field deleted"),
    ),
    *_types(
        "Roles",
        ("role.created", "Role created"),
        ("role.updated", "Role updated"),
        ("role.deleted", "Role deleted"),
    ),
    *_types(
        "Teams",
        ("team.created", "Team created"),
        ("team.updated", "Team updated"),
        ("team.deleted", "Team deleted"),
        ("team.member.added", "Member added to a team"),
        ("team.member.removed", "Member removed from a team"),
    ),
    *_types(
        "Webhooks",
        ("webhook.created", "Webhook created"),
        ("webhook.updated", "Webhook updated"),
        ("webhook.deleted", "Webhook deleted"),
        ("webhook.secret_rotated", "Secret of a webhook rotated"),
        ("webhook.paused", "Webhook paused after days of failures"),
        ("webhook.tested", "Webhook tested"),
    ),
    *_types(
        "Integrations",
        ("siem.configured", "Export to a SIEM configured"),
        ("siem.removed", "Export to a SIEM removed"),
        ("siem.tested", "Export to a SIEM tested"),
    ),
    *_types(
        "Security",
        ("security.impersonation.started", "Impersonation started"),
        ("security.account.locked", "Account locked"),
        ("security.account.unlocked", "Locked account opened by a new password"),
        ("security.password.breached", "Stolen password used"),
    ),
    # These events are too many for a webhook, or of no use to one.
    *_types(
        "Security",
        ("security.impersonation.request", "Request while impersonating"),
        ("security.mfa.backup_codes_generated", "Backup codes generated"),
        ("security.session.opened", "Session opened in the organization"),
        ("user.device.approved", "Device let in by its code"),
        ("user.afar_request.allowed", "Request from afar allowed"),
        ("user.assertion.accepted", "Application let in by an assertion of a directory"),
        ("security.sessions.revoked", "Sessions revoked"),
        ("security.refresh_token.reused", "Refresh token used twice"),
        ("security.authorization_code.reused", "Authorization code used twice"),
        published=False,
    ),
    # These events are for webhooks only. Sign-ins and second factors have logs of their own, and the audit log has other names for second
    # factors.
    *_types(
        "Sign-in",
        ("user.login.success", "User signed in"),
        ("user.login.failed", "Sign-in failed"),
        ("user.mfa.enabled", "Second factor enabled"),
        ("user.mfa.disabled", "Second factor disabled"),
        audited=False,
    ),
    *_types(
        "Sign-in",
        ("user.logout", "User signed out"),
    ),
    *_types(
        "Security",
        ("security.session.reauthenticated", "Identity proved again within a session"),
        ("security.sign_in_link.created", "Sign-in link made"),
        ("security.sign_in_link.used", "Sign-in link used"),
        ("security.passkey.added", "Passkey added"),
        ("security.passkey.renamed", "Passkey renamed"),
        ("security.passkey.removed", "Passkey removed"),
        ("security.passkey.copied", "Passkey refused as copied"),
        published=False,
        audience=Audience.PERSON,
    ),
    *_types(
        "Accounts",
        ("user.email.verified", "E-mail address verified"),
        ("user.email.change_requested", "Change of e-mail address requested"),
        ("user.email.change_refused", "Change of e-mail address refused by the holder of the new address"),
        ("user.registration.refused", "Registration refused by the holder of its address"),
        ("user.registration.lapsed", "Registration ended because nobody confirmed its address"),
        ("user.picture.set", "Picture set"),
        ("user.picture.removed", "Picture removed"),
        ("user.device.renamed", "Device renamed"),
        ("user.device.revoked", "Device revoked"),
        ("user.device.denied", "Device turned away at its code"),
        ("user.afar_request.refused", "Request from afar refused"),
        ("user.afar_client.blocked", "Requests of an application blocked"),
        ("user.afar_client.unblocked", "Requests of an application let through"),
        ("user.identity.linked", "Account at a provider connected"),
        ("user.identity.unlinked", "Account at a provider disconnected"),
        ("user.account.reclaimed", "Account taken over from somebody who never proved its address"),
        published=False,
        audience=Audience.PERSON,
    ),
    *_types(
        "Platform",
        ("user.viewed", "Account shown to an operator"),
        ("user.deactivated", "Account deactivated"),
        ("user.activated", "Account activated"),
        ("platform.owner.created", "Platform owner appointed"),
        ("platform.owner.removed", "Platform owner removed"),
        ("platform.management_key.created", "Management key of the platform created"),
        ("platform.management_key.adopted", "Management key of the platform adopted"),
        ("platform.management_key.ended", "Management key of the platform ended"),
        ("platform.signing_keys.rotated", "Signing keys rotated"),
        ("platform.encryption_keys.rotated", "Encryption keys rotated"),
        ("platform.registration_keys.rotated", "Registration keys rotated"),
        ("platform.backup.created", "Backup made"),
        ("platform.backup.checked", "Backup proved"),
        ("platform.backup.restored", "Backup restored"),
        ("platform.work.released", "Held work let go"),
        ("platform.import.finished", "People imported from another system"),
        ("platform.job.revived", "Job taken up again"),
        ("platform.text_rules.updated", "Rules for approving own texts changed"),
        ("platform.risk_policies.updated", "Rules for risk of the installation changed"),
        ("platform.risk_policies.notified", "Platform owners notified of a sign-in by a rule for risk"),
        ("platform.mail_budget.lifted", "Budget of mails lifted"),
        ("platform.mail_budget.restored", "Exception of a budget of mails ended"),
        ("platform.provider.created", "Provider added"),
        ("platform.provider.updated", "Provider changed"),
        ("platform.provider.tested", "Provider tested"),
        ("platform.provider.activated", "Provider made active"),
        ("platform.provider.deleted", "Provider deleted"),
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
