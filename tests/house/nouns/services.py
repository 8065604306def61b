"""The nouns of organizations' applications."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.federation.signals import SignalSettings
from core.domain.platform.searches import ThingKind
from core.domain.services.api_keys import ApiKey, ClientSecret
from core.domain.services.plans import Plan, Subscription
from core.domain.services.proxies import ProxySettings
from core.domain.services.resource_servers import ResourceServer
from core.domain.services.service_claims import ConfiguredClaim
from core.domain.services.service_roles import ServicePermission, ServiceRole
from core.domain.services.service_users import ServiceUser
from core.domain.services.services import Service
from core.domain.services.user_keys import UserKey, UserKeySettings
from tests.house.declaring import Noun

_API: Final = "/api/organizations/{org_slug}"
_SERVICE: Final = f"{_API}/services/{{service_slug}}"
_UI: Final = "/ui/o/{org_slug}"
_APPLICATION: Final = f"{_UI}/applications/{{service_slug}}"

SERVICES: Final = (
    Noun(
        name="service",
        of=Service,
        id=ids.ServiceId,
        table="all_services",
        parts={
            "former_services": "the names of ended ones, which the log of sign-ins tells",
            "authorization_refusals": "its log of refused requests, for a week",
            "awaited_sign_ins": "who waits for the first sign-in to it, for ten minutes",
            "logout_receivers": "whether it is told of logouts, and when it rests",
            "logout_notices": "its log of logouts that it was told of",
            "signal_settings": "what it may hear of by signals, and where",
            "signal_streams": "the streams of signals that it has made",
            "provisioning_connections": "the system to which it sends people",
            "provisioned_people": "whom it has sent there",
            "provisioning_marks": "whom to look at for that",
            "provisioning_progress": "how far a look has come, between two of its turns",
            "provisioning_runs": "what the looks have done, for thirty days",
            "provisioning_run_people": "whom these have named",
            "provisioning_exchanges": "what the two systems have said, for a week",
            "service_logos": "its logo",
            "proxies": "what is asked and told behind its proxy",
            "proxy_hosts": "the hosts that it has behind its proxy",
        },
        settings=(ProxySettings, SignalSettings),
        part_ids=(
            ids.ClientId,
            ids.AuthorizationRefusalId,
            ids.AwaitedSignInId,
            ids.LogoutNoticeId,
            ids.SignalStreamId,
            ids.ProvisioningConnectionId,
            ids.ProvisioningRunId,
        ),
        at=f"{_API}/services",
        events=(
            "service.created",
            "service.updated",
            "service.deleted",
            "service.proxy",
            "service.signals",
            "service.provisioning",
            "signal_stream",
        ),
        page=f"{_UI}/applications",
        document="services",
        search=ThingKind.APPLICATION,
    ),
    Noun(
        name="plan",
        of=Plan,
        id=ids.PlanId,
        table="plans",
        at=f"{_SERVICE}/plans",
        events=("plan",),
        page=f"{_APPLICATION}/plans",
        document="plans",
        search=ThingKind.PLAN,
        most="MOST_PLANS",
    ),
    Noun(
        name="subscription",
        of=Subscription,
        id=ids.SubscriptionId,
        table="subscriptions",
        parts={
            "billing_checkouts": "what the payment provider was asked to sell",
            "billing_subscriptions": "the same at the payment provider",
        },
        at="/api/service/subscriptions",
        events=("subscription",),
    ),
    Noun(
        name="API key",
        of=ApiKey,
        id=ids.ApiKeyId,
        table="api_keys",
        at=f"{_SERVICE}/api-keys",
        events=("api_key",),
        page=f"{_APPLICATION}/api-keys",
        search=ThingKind.API_KEY,
        most="MOST_KEYS",
    ),
    Noun(
        name="key of a user",
        of=UserKey,
        id=ids.UserKeyId,
        table="user_keys",
        parts={"user_key_settings": "how a service's users may make them"},
        settings=(UserKeySettings,),
        at=f"{_SERVICE}/user-keys",
        events=("user_key",),
        page=f"{_APPLICATION}/user-keys",
        most="MOST_KEYS",
        told_as=("user API key",),
    ),
    Noun(
        name="client secret",
        of=ClientSecret,
        id=ids.ClientSecretId,
        table="client_secrets",
        at=f"{_SERVICE}/client-secrets",
        events=("client_secret",),
        page=f"{_APPLICATION}/secrets",
        most="MOST_CLIENT_SECRETS",
    ),
    Noun(
        name="claim",
        of=ConfiguredClaim,
        id=ids.ServiceClaimId,
        table="service_claims",
        at=f"{_SERVICE}/claims",
        events=("service.claim",),
        page=f"{_APPLICATION}/claims",
        document="claims",
        search=ThingKind.CLAIM,
        most="MOST_CLAIMS",
    ),
    Noun(
        name="permission",
        of=ServicePermission,
        id=ids.ServicePermissionId,
        table="permissions",
        at=f"{_SERVICE}/permissions",
        events=("service.permission",),
        page=f"{_APPLICATION}/permissions",
        document="permissions",
        search=ThingKind.PERMISSION,
        most="MOST_PERMISSIONS",
    ),
    Noun(
        name="role of a service",
        of=ServiceRole,
        id=ids.ServiceRoleId,
        table="service_roles",
        at=f"{_SERVICE}/roles",
        events=("service.role",),
        page=f"{_APPLICATION}/roles",
        document="service_roles",
        search=ThingKind.APPLICATION_ROLE,
        told_as=("roles of the service", "roles of services", "service-role", "service role"),
        most="MOST_ROLES",
    ),
    Noun(
        name="resource server",
        of=ResourceServer,
        id=ids.ResourceServerId,
        table="resource_servers",
        parts={
            "resource_admissions": "the services that may ask for its tokens",
            "resource_exchanges": "the services that may exchange tokens for its own",
            "resource_identifiers": "the identifiers that were ever used, each of one organization",
            "document_refusals": "its log of clients whose document was refused, for a week",
        },
        at=f"{_API}/resource-servers",
        events=("resource_server",),
        page=f"{_UI}/apis",
        document="resource_servers",
        search=ThingKind.API,
        told_as=("resource server", "resource-servers", "your own APIs"),
        most="MOST_RESOURCE_SERVERS",
    ),
    Noun(
        name="end user",
        of=ServiceUser,
        table="service_users",
        parts={"service_user_marks": "how many there are, so that a list knows its pages"},
        at=f"{_API}/users",
        events=("user.signup", "user.metadata"),
        page=f"{_UI}/people/users",
        told_as=("end-user", "users of a service", "users of your"),
    ),
)
