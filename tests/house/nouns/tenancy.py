"""The nouns of organizations."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.identity.upstream.identity_assertions import AssertionSettings
from core.domain.platform.searches import ThingKind
from core.domain.tenancy.domain_routes import DomainRoute
from core.domain.tenancy.domains import Domain
from core.domain.tenancy.invitations import Invitation
from core.domain.tenancy.join_requests import JoinRequest
from core.domain.tenancy.keys.management_keys import ManagementKey
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer
from core.domain.tenancy.mail_servers import MailServer
from core.domain.tenancy.members import Membership
from core.domain.tenancy.oauth_credentials import OAuthCredentials
from core.domain.tenancy.organizations import Organization
from core.domain.tenancy.profile_fields import ProfileField
from core.domain.tenancy.roles import Role
from core.domain.tenancy.setup.setup_links import SetupLink
from core.domain.tenancy.siem import SiemConfiguration
from core.domain.tenancy.teams import Team
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.domain.tenancy.webhooks import Webhook
from tests.house.declaring import Noun

_API: Final = "/api/organizations/{org_slug}"
_UI: Final = "/ui/o/{org_slug}"

TENANCY: Final = (
    Noun(
        name="organization",
        of=Organization,
        id=ids.OrganizationId,
        table="all_organizations",
        parts={
            "ownerships": "the owner, until the owner confirms it",
            "former_slugs": "the short names that it, its services and its teams had before",
            "logos": "its logo",
            "login_counts": "how often people signed in, by the hour",
            "uncounted_logins": "sign-ins that wait to be counted",
            "changed_settings": "changes of its settings that a page can take back for ten minutes",
            "managed_objects": "which of its objects a configuration document keeps",
            "billing_customers": "its number at the payment provider",
        },
        part_ids=(ids.LogoId, ids.ChangedSettingId),
        at="/api/organizations",
        events=("organization",),
        page="/ui/platform/organizations",
        document="organization",
        search=ThingKind.ORGANIZATION,
        most="MOST_OWNED",
    ),
    Noun(
        name="member",
        of=Membership,
        id=ids.MembershipId,
        table="memberships",
        parts={
            "former_members": "who was a member before",
            "relations": "what a member may do: the role, and roles of services and teams",
            "profile_values": "what the organization keeps of a person in its own fields",
        },
        part_ids=(ids.AssignmentId,),
        at=f"{_API}/members",
        events=("user.joined", "user.removed", "user.role_updated", "user.membership"),
        page=f"{_UI}/people",
    ),
    Noun(
        name="invitation",
        of=Invitation,
        id=ids.InvitationId,
        table="invitations",
        at=f"{_API}/invitations",
        events=("user.invited", "invitation"),
        page=f"{_UI}/people/invitations",
        search=ThingKind.INVITATION,
        most="MOST_IN_ALL",
    ),
    Noun(
        name="join request",
        of=JoinRequest,
        id=ids.JoinRequestId,
        table="join_requests",
        at=f"{_API}/join-requests",
        events=("join_request",),
        page=f"{_UI}/people/requests",
        told_as=("request to join", "requests to join", "ask to join"),
    ),
    Noun(
        name="team",
        of=Team,
        id=ids.TeamId,
        table="teams",
        parts={"team_members": "who is in it"},
        at=f"{_API}/teams",
        events=("team",),
        page=f"{_UI}/people/teams",
        document="teams",
        search=ThingKind.TEAM,
        most="MOST_TEAMS",
    ),
    Noun(
        name="role",
        of=Role,
        id=ids.RoleId,
        table="roles",
        at=f"{_API}/roles",
        events=("role",),
        page=f"{_UI}/people/roles",
        document="roles",
        search=ThingKind.ROLE,
        most="MOST_ROLES",
    ),
    Noun(
        name="profile field",
        of=ProfileField,
        id=ids.ProfileFieldId,
        table="all_profile_fields",
        at=f"{_API}/profile-fields",
        events=("profile_field",),
        page=f"{_UI}/people/fields",
        document="profile_fields",
        search=ThingKind.FIELD,
        most="MOST_FIELDS",
        told_as=("profile field", "profile-fields", "fields of people", "fields of your own", "own fields"),
    ),
    Noun(
        name="management key",
        of=ManagementKey,
        id=ids.ManagementKeyId,
        table="management_keys",
        at=f"{_API}/management-keys",
        events=("management_key",),
        page=f"{_UI}/keys",
        search=ThingKind.MANAGEMENT_KEY,
        most="MOST_KEYS",
    ),
    Noun(
        name="trusted issuer",
        of=TrustedIssuer,
        id=ids.TrustedIssuerId,
        table="trusted_issuers",
        at=f"{_API}/trusted-issuers",
        events=("trusted_issuer",),
        page=f"{_UI}/trusted-issuers",
        document="trusted_issuers",
        most="MOST_TRUSTED_ISSUERS",
    ),
    Noun(
        name="set-up link",
        of=SetupLink,
        id=ids.SetupLinkId,
        table="setup_links",
        parts={"setup_drafts": "what somebody prepared through it"},
        part_ids=(ids.SetupDraftId,),
        at=f"{_API}/setup-links",
        events=("setup_link",),
        page=f"{_UI}/directories/setup-links",
        search=ThingKind.SETUP_LINK,
        most="MOST_LINKS",
    ),
    Noun(
        name="mail server",
        of=MailServer,
        id=ids.MailServerId,
        table="mail_servers",
        at=f"{_API}/smtp",
        is_single=True,
        events=("organization.smtp",),
        page=f"{_UI}/settings/mail-server",
        document="mail_server",
    ),
    Noun(
        name="domain",
        of=Domain,
        id=ids.DomainId,
        table="domains",
        at=f"{_API}/domain",
        is_single=True,
        events=("domain",),
        page=f"{_UI}/settings/domain",
        document="domain",
        search=ThingKind.OWN_DOMAIN,
    ),
    Noun(
        name="domain route",
        of=DomainRoute,
        table="domain_routes",
        at=f"{_API}/domain-routes",
        events=("domain_route",),
        page=f"{_UI}/directories/domains",
        document="domain_routes",
        search=ThingKind.DOMAIN,
        most="MOST_ROUTES",
        told_as=("sign-in domain",),
    ),
    Noun(
        name="own credentials at a provider",
        of=OAuthCredentials,
        id=ids.OAuthCredentialId,
        table="oauth_credentials",
        at=f"{_API}/oauth-credentials/{{provider}}",
        is_single=True,
        events=("service.oauth_credentials",),
        page=f"{_UI}/sign-in/providers",
        document="oauth_credentials",
        told_as=("own credentials", "oauth-credentials"),
    ),
    Noun(
        name="upstream provider",
        of=UpstreamProvider,
        id=ids.UpstreamProviderId,
        table="upstream_providers",
        parts={
            "connection_certificates": "our certificates for it",
            "connection_warnings": "whom we told of a certificate that ends soon",
            "connection_tests": "what it said when somebody tried it",
            "directory_failures": "wrong passwords that it got from us, until it counts anew",
            "connection_exchanges": "its log: what it and we sent each other, for a week",
            "directory_sessions": "people's sessions there, so that it can end them here",
        },
        part_ids=(ids.ConnectionTestId, ids.ConnectionExchangeId),
        settings=(AssertionSettings,),
        at=f"{_API}/upstream-providers",
        events=("organization.upstream_provider",),
        page=f"{_UI}/directories",
        document="upstream_providers",
        search=ThingKind.DIRECTORY,
        most="MOST_PROVIDERS",
    ),
    Noun(
        name="webhook",
        of=Webhook,
        id=ids.WebhookId,
        table="webhooks",
        parts={"webhook_deliveries": "its log: what was delivered"},
        part_ids=(ids.WebhookDeliveryId,),
        at=f"{_API}/webhooks",
        events=("webhook",),
        page=f"{_UI}/events",
        document="webhooks",
        search=ThingKind.WEBHOOK,
        most="MOST_WEBHOOKS",
    ),
    Noun(
        name="SIEM",
        of=SiemConfiguration,
        id=ids.SiemId,
        table="siem_configurations",
        parts={"sign_in_pending": "sign-ins that wait to be sent", "sign_in_links": "the chain of those that were sent"},
        at=f"{_API}/siem",
        is_single=True,
        events=("siem",),
        page=f"{_UI}/events/siem",
        document="siem",
        search=ThingKind.SIEM,
    ),
)
