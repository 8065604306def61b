"""The services of an organization: the applications that people sign in to."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from core.domain.branding import logo_path
from core.domain.errors import BadRequest, Conflict, ServiceLimitExceeded
from core.domain.identity.proofs import StepUp
from core.domain.identity.session_limits import LONGEST_IDLE_MINUTES, LONGEST_SESSION_HOURS, MOST_SESSIONS, SHORTEST_IDLE_MINUTES
from core.domain.services.plans import PlanOverview
from core.domain.services.services import (
    AssertionAudience,
    ListedService,
    NewService,
    SecurityProfile,
    Service,
    ServiceChange,
    ServiceType,
    ServiceUsage,
    SignInPolicy,
)
from core.domain.tenancy.branding import LOGO_BOUNDS
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tokens import TokenAlgorithm
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Json, RawOfTypes
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import media_type_of
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Id,
    Line,
    Name,
    OrganizationPath,
    OrganizationUuid,
    ServicePath,
    ServiceSlug,
    Uri,
    Word,
    example,
)
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from entrypoints.http.routes.services.plans import PlanRecord, plan_record

Value = TypeVar("Value")

_TAGS = ("services",)
_SERVICES = "/api/organizations/{org_slug}/services"
_SERVICE = "/api/organizations/{org_slug}/services/{service_slug}"
_LOGO = f"{_SERVICE}/logo"
# The largest offset that PostgreSQL's `integer` holds. Nobody has that many services.
_MOST = 2**31 - 1
# Enough for two hundred redirect URIs and three hundred scopes of the greatest length, their commas, and ten keys.
_BODY = Json(limit=544 << 10)

_KEY: Final = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "2026-11",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
_SessionHours = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_SESSION_HOURS, examples=[12])]
_IdleMinutes = Annotated[int, msgspec.Meta(ge=SHORTEST_IDLE_MINUTES, le=LONGEST_IDLE_MINUTES, examples=[60])]
_MostSessions = Annotated[int, msgspec.Meta(ge=1, le=MOST_SESSIONS, examples=[3])]
Metadata = Annotated[Mapping[Word, Any], example({"cost_center": "4711"})]
ClientKeys = Annotated[Mapping[Word, Any], example({"keys": [_KEY]})]


class ServicesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on services. Without `limit` you get all of them."""

    service_type: ServiceType | None = None
    """Only services of this type."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The maximum number of services to return; all of them by default. There is no upper limit."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0
    """The number of services to skip."""


class NewServiceBody(msgspec.Struct, frozen=True, kw_only=True):
    """A new service."""

    slug: Annotated[ServiceSlug, example("billing")]
    """1 to 50 of a-z, 0-9 and -, with a letter or digit at both ends. The slug never changes."""
    name: Annotated[Name, example("Billing")]
    """1 to 100 characters."""
    service_type: Annotated[ServiceType, example("web")]
    """The kind of application."""
    codehost_scopes: Annotated[Sequence[Word], example(["read:user"])] | None = None
    """The scopes to ask codehost for; its usual ones if omitted."""
    websuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | None = None
    """The scopes to ask websuite for; its usual ones if omitted."""
    officesuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | None = None
    """The scopes to ask officesuite for; its usual ones if omitted."""
    redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/callback"])] = ()
    """The URIs that browsers may go to after sign-in. Each URI is compared byte for byte."""
    device_activation_uri: Annotated[Uri, example("https://billing.acme.example/activate")] | None = None
    """The page where people enter the code of a device."""
    sign_in_policy: SignInPolicy = SignInPolicy.ANYONE
    """The people who may sign in: `anyone`, only `members` of the organization, or only people to whom a role of it is `assigned`."""
    trusted: bool = False
    """Whether members of the organization sign in without being asked for consent."""
    is_agent: bool = False
    """Whether the service is an agent: it acts for people at one API, until a date that each of them chooses, and no one signs in to it."""
    jwks: ClientKeys | None = None
    """The public keys that the application signs its client assertions with (`private_key_jwt`), as a JSON Web Key Set."""
    jwks_uri: Annotated[Uri, example("https://billing.acme.example/keys.json")] | None = None
    """The URL where the application publishes these keys, in place of `jwks`. Postern fetches the keys at once, and again when they are an
    hour old or an assertion is signed with an unknown key.
    """
    id_token_alg: TokenAlgorithm = TokenAlgorithm.RS256
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    """The algorithm that signs the application's access tokens. Choose RS256 if what checks them knows nothing else."""
    assertion_audience: AssertionAudience = AssertionAudience.ISSUER
    """The one audience of the application's client assertions: `issuer`, or `endpoint` to allow the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/signed-out"])] = ()
    """The URIs that browsers may go to after sign-out. If omitted, browsers may go to any of the redirect URIs."""
    backchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/logged-out")] | None = None
    """The application's back-channel logout URI, which receives a logout token for each session that ends (OpenID Connect Back-Channel
    Logout).
    """
    backchannel_logout_session_required: Annotated[bool, example(True)] = False
    """Whether the application must learn which session has ended. Logout tokens always say so."""
    frontchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/bye")] | None = None
    """The application's page that browsers load in a frame at a sign-out (OpenID Connect Front-Channel Logout), with scheme, host and port
    of a redirect URI. Browsers without third-party cookies tell it nothing there: `backchannel_logout_uri` is better.
    """
    frontchannel_logout_session_required: Annotated[bool, example(True)] = False
    """Whether the URL of the frame has `iss` and `sid`, which say whose session has ended."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    """The security profile that the application and Postern hold each other to: `fapi2` for the FAPI 2.0 Security Profile."""
    session_lifetime_hours: _SessionHours | None = None
    """The session lifetime in hours; null for the organization's. The shorter of both applies."""
    session_idle_minutes: _IdleMinutes | None = None
    """The idle timeout in minutes; null for the organization's. The shorter of both applies."""
    most_sessions: _MostSessions | None = None
    """The maximum number of concurrent sessions of one person in the service; null for no limit. The next sign-in revokes the oldest
    session.
    """
    dpop_bound_access_tokens: bool = False
    """Whether the application gets only tokens that are bound to a key (DPoP, RFC 9449): each of its requests for tokens needs a proof."""
    metadata: Metadata = msgspec.field(default_factory=dict)
    """An object of yours, of at most 4096 bytes and 5 levels. No token has it. The service's API keys read it."""


class ServicePatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a service. Omitted fields keep their values; send at least one. A list replaces the old one. Null clears a field that can
    be null.
    """

    name: Annotated[Name, example("Billing")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    service_type: Annotated[ServiceType, example("web")] | msgspec.UnsetType = msgspec.UNSET
    """The kind of application."""
    codehost_scopes: Annotated[Sequence[Word], example(["read:user"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to ask codehost for; null for its usual ones."""
    websuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to ask websuite for; null for its usual ones."""
    officesuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to ask officesuite for; null for its usual ones."""
    redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/callback"])] | msgspec.UnsetType = msgspec.UNSET
    """The URIs that browsers may go to after sign-in. Each URI is compared byte for byte."""
    device_activation_uri: Annotated[Uri, example("https://billing.acme.example/activate")] | msgspec.UnsetType | None = msgspec.UNSET
    """The page where people enter the code of a device; null removes it."""
    sign_in_policy: Annotated[SignInPolicy, example("members")] | msgspec.UnsetType = msgspec.UNSET
    """The people who may sign in: `anyone`, only `members` of the organization, or only people to whom a role of the service is `assigned`.
    Others who are signed in are refused with the next request.
    """
    trusted: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether members of the organization sign in without being asked for consent."""
    is_agent: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the service is an agent: it acts for people at one API, until a date that each of them chooses, and no one signs in to it.
    All its sessions end when it becomes one.
    """
    jwks: ClientKeys | msgspec.UnsetType | None = msgspec.UNSET
    """The public keys that the application signs its client assertions with, as a JSON Web Key Set. These keys replace the keys from
    `jwks_uri`. Null removes them.
    """
    jwks_uri: Annotated[Uri, example("https://billing.acme.example/keys.json")] | msgspec.UnsetType | None = msgspec.UNSET
    """The URL where the application publishes these keys, in place of `jwks`. Postern fetches the keys whenever you send this. Null removes
    the URL and the keys from it.
    """
    id_token_alg: Annotated[TokenAlgorithm, example("ES256")] | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("RS256")] | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs the application's access tokens. Choose RS256 if what checks them knows nothing else."""
    assertion_audience: Annotated[AssertionAudience, example("issuer")] | msgspec.UnsetType = msgspec.UNSET
    """The one audience of the application's client assertions: `issuer`, or `endpoint` to allow the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/signed-out"])] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    """The URIs that browsers may go to after sign-out. If empty, browsers may go to any of the redirect URIs."""
    backchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/logged-out")] | msgspec.UnsetType | None = msgspec.UNSET
    """The application's back-channel logout URI, which receives a logout token for each session that ends. Null turns the notices off."""
    backchannel_logout_session_required: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the application must learn which session has ended. Logout tokens always say so."""
    frontchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/bye")] | msgspec.UnsetType | None = msgspec.UNSET
    """The application's page that browsers load in a frame at a sign-out, with scheme, host and port of a redirect URI. Null for none."""
    frontchannel_logout_session_required: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the URL of the frame has `iss` and `sid`, which say whose session has ended."""
    profile: Annotated[SecurityProfile, example("fapi2")] | msgspec.UnsetType = msgspec.UNSET
    """The security profile, `fapi2` or `standard`. `fapi2` needs keys, and sets `dpop_bound_access_tokens` and `assertion_audience`. Codes
    and pushed requests that are under way end with a change.
    """
    session_lifetime_hours: _SessionHours | msgspec.UnsetType | None = msgspec.UNSET
    """The session lifetime in hours; null for the organization's. The shorter of both applies."""
    session_idle_minutes: _IdleMinutes | msgspec.UnsetType | None = msgspec.UNSET
    """The idle timeout in minutes; null for the organization's. The shorter of both applies."""
    most_sessions: _MostSessions | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum number of concurrent sessions of one person in the service; null for no limit. The next sign-in revokes the oldest
    session.
    """
    dpop_bound_access_tokens: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the application gets only tokens that are bound to a key (DPoP, RFC 9449). Tokens that it has already stay as they are."""
    metadata: Metadata | msgspec.UnsetType = msgspec.UNSET
    """An object that replaces the old one, of at most 4096 bytes and 5 levels. No token has it. The service's API keys read it."""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A service: an application that people sign in to."""

    id: Id
    org_id: OrganizationUuid
    slug: Annotated[str, example("billing")]
    """The service's slug, which never changes."""
    name: Annotated[str, example("Billing")]
    """The service's name."""
    service_type: Annotated[ServiceType, example("web")]
    """The kind of application."""
    client_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000001")]
    """The ID that the application identifies itself with. The ID never changes."""
    codehost_scopes: Annotated[Sequence[str], example(["read:user"])] | None
    """The scopes that codehost is asked for; null for its usual ones."""
    websuite_scopes: Annotated[Sequence[str], example(["openid", "email"])] | None
    """The scopes that websuite is asked for; null for its usual ones."""
    officesuite_scopes: Annotated[Sequence[str], example(["openid", "email"])] | None
    """The scopes that officesuite is asked for; null for its usual ones."""
    redirect_uris: Annotated[Sequence[str], example(["https://billing.acme.example/callback"])]
    """The URIs that browsers may go to after sign-in."""
    device_activation_uri: Annotated[str, example("https://billing.acme.example/activate")] | None
    """The page where people enter the code of a device; null if there is none."""
    sign_in_policy: Annotated[SignInPolicy, example("anyone")]
    """The people who may sign in: `anyone`, only `members` of the organization, or only people to whom a role of it is `assigned`."""
    trusted: bool
    """Whether members of the organization sign in without being asked for consent."""
    is_agent: bool
    """Whether the service is an agent, which acts for people at APIs."""
    jwks: ClientKeys | None
    """The public keys that the application signs its client assertions with; null if there are none."""
    jwks_uri: Annotated[str, example("https://billing.acme.example/keys.json")] | None
    """The URL where the application publishes these keys; null if there is none."""
    id_token_alg: Annotated[TokenAlgorithm, example("RS256")]
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("ES256")]
    """The algorithm that signs the application's access tokens. Choose RS256 if what checks them knows nothing else."""
    assertion_audience: Annotated[AssertionAudience, example("issuer")]
    """The one audience of the application's client assertions: `issuer`, or `endpoint` to allow the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[str], example(["https://billing.acme.example/signed-out"])]
    """The URIs that browsers may go to after sign-out. If empty, browsers may go to any of the redirect URIs."""
    backchannel_logout_uri: Annotated[str, example("https://billing.acme.example/logged-out")] | None
    """The application's back-channel logout URI, which receives a logout token for each session that ends; null if there is none."""
    backchannel_logout_session_required: Annotated[bool, example(True)]
    """Whether the application must learn which session has ended. Logout tokens always say so."""
    frontchannel_logout_uri: Annotated[str, example("https://billing.acme.example/bye")] | None
    """The application's page that browsers load in a frame at a sign-out; null if there is none."""
    frontchannel_logout_session_required: Annotated[bool, example(True)]
    """Whether the URL of the frame has `iss` and `sid`, which say whose session has ended."""
    profile: Annotated[SecurityProfile, example("standard")]
    """The security profile that the application and Postern hold each other to: `standard`, or `fapi2`."""
    session_lifetime_hours: Annotated[int, example(12)] | None
    """The session lifetime in hours; null for the organization's. The shorter of both applies."""
    session_idle_minutes: Annotated[int, example(60)] | None
    """The idle timeout in minutes; null for the organization's. The shorter of both applies."""
    most_sessions: Annotated[int, example(3)] | None
    """The maximum number of concurrent sessions of one person in the service; null for no limit. The next sign-in revokes the oldest
    session.
    """
    dpop_bound_access_tokens: bool
    """Whether the application gets only tokens that are bound to a key (DPoP, RFC 9449)."""
    logo: Annotated[str, example("/logos/9f86d081884c7d65")] | None
    """The path, below Postern's base URL, at which Postern shows the application's logo; null if there is none. Each logo has a new one."""
    created_at: CreatedAt


class ServiceWithMetadata(ServiceRecord, frozen=True, kw_only=True):
    """A service, with its metadata."""

    metadata: Metadata | None
    """The object that you and others keep with the service; null if you may not manage services. Lists leave it out."""


class ListedServiceRecord(ServiceRecord, frozen=True, kw_only=True):
    """A service, with figures."""

    plan_count: Annotated[int, example(2)]
    """The number of plans of the service."""
    subscription_count: Annotated[int, example(12)]
    """The number of subscriptions to the service that are active or past due."""


class ServiceUsageRecord(msgspec.Struct, frozen=True):
    """The number of the organization's services, and its limit."""

    current_services: Annotated[int, example(2)]
    """The number of services of the organization."""
    max_services: Annotated[int, example(3)]
    """The number of services that the organization may have."""
    tier: Annotated[str, example("Free")]
    """The display name of the organization's tier."""


class ServiceCreated(msgspec.Struct, frozen=True):
    """The new service."""

    service: ServiceWithMetadata
    """The service."""
    default_plan: PlanRecord
    """The free plan that the service begins with."""
    usage: ServiceUsageRecord
    """The number of the organization's services, and its limit."""


class ServiceListAnswer(msgspec.Struct, frozen=True):
    """The services of the organization."""

    services: Sequence[ListedServiceRecord]
    """The services, the oldest first."""
    usage: ServiceUsageRecord
    """The number of the organization's services, and its limit."""


def _logo(service: Service) -> str | None:
    return None if service.logo_digest is None else logo_path(service.logo_digest)


_wanted = taken(NewServiceBody, NewService)
change_of = taken(ServicePatch, ServiceChange)
_with_metadata = shown(Service, ServiceWithMetadata, named={"org_id": "organization"}, logo=_logo)
_listed = shown(
    ListedService,
    ListedServiceRecord,
    within=("service",),
    named={"org_id": "service.organization"},
    logo=lambda listed: _logo(listed.service),
)


@endpoint.post(
    _SERVICES,
    caller=able(Capability.SERVICES_CREATE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict, ServiceLimitExceeded),
    tags=_TAGS,
    accepts=_BODY,
)
async def create_service(call: Call[NewServiceBody, None, OrganizationPath, Member], postern: Postern) -> ServiceCreated:
    """Create a service

    The service begins with a free plan. `web` and `api` services are confidential clients, which may have client secrets; `mobile` and
    `desktop` services are public clients, which must use PKCE. A redirect URI begins with `https`, or with `http` for localhost, 127.0.0.1
    or [::1]; `mobile` and `desktop` services may use a scheme of their own, as in `com.example.app:/callback` (RFC 8252). Redirect URIs are
    compared byte for byte.
    """
    created = await postern.services.services.create(call.caller, _wanted(call.body), call.actor)
    return ServiceCreated(_with_metadata(created.service), plan_record(PlanOverview(created.default_plan, 0)), _usage(created.usage))


@endpoint.get(_SERVICES, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_services(call: Call[None, ServicesQuery, OrganizationPath, Member], postern: Postern) -> ServiceListAnswer:
    """List the organization's services, the oldest first

    Without `limit` you get all of them. The response also says how many services the organization may have.
    """
    query = call.query
    limit = None if query.limit is None else min(query.limit, _MOST)
    listed = await postern.services.services.list(call.caller, service_type=query.service_type, limit=limit, offset=query.offset)
    return ServiceListAnswer([_listed(one) for one in listed.services], _usage(listed.usage))


@endpoint.get(_SERVICE, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_service(call: Call[None, None, ServicePath, Member], postern: Postern) -> ServiceWithMetadata:
    """Get one of the organization's services

    The response has the service's metadata, which the list leaves out. Client secrets are only in the response that created them.
    """
    found = await postern.services.services.get(call.caller, call.path.service_slug)
    return _with_metadata(found) if call.caller.may(Capability.SERVICES_MANAGE) else _with_metadata(replace(found, metadata=None))


@endpoint.patch(
    _SERVICE, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest,), tags=_TAGS, accepts=_BODY
)
async def change_service(call: Call[ServicePatch, None, ServicePath, Member], postern: Postern) -> ServiceWithMetadata:
    """Change a service

    The slug and the client ID never change. To change the type, first make the service suit the new type: a public service has no client
    secrets, and a confidential service has no redirect URI with a scheme of its own. While you act in someone's name, you can remove but
    not set the things that outlast the impersonation: addresses, keys, type, sign-in policy and trust.
    """
    change = change_of(call.body)
    return _with_metadata(await postern.services.services.change(call.caller, call.path.service_slug, change, call.actor))


@endpoint.put(
    _LOGO,
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(LOGO_BOUNDS.types, LOGO_BOUNDS.largest),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_service_logo(call: Call[bytes, None, ServicePath, Member], postern: Postern) -> ServiceWithMetadata:
    """Upload the logo of a service

    The body is the image: PNG, JPEG or WebP, of at most 256 KiB and 2048 pixels on a side, not animated. Postern keeps the image and strips
    metadata. People see it where they allow the application something, in their lists, and in emails that name it. An application that no
    one has registered has none.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    changed = await postern.services.services.put_logo(call.caller, call.path.service_slug, call.body, call.actor, declared=declared)
    return _with_metadata(changed)


@endpoint.delete(_LOGO, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_service_logo(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Remove the logo of a service

    The response is the same if there was none. Browsers may have it cached.
    """
    await postern.services.services.remove_logo(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


@endpoint.delete(_SERVICE, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS)
async def delete_service(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Delete a service and all its data permanently

    No request, token or key finds the service from now on, and its slug is free. A background job removes its plans, subscriptions, keys,
    secrets, sessions and list of users, usually within a minute. People keep their accounts. Requires a recent sign-in or reauthentication,
    with MFA if you have it enabled.
    """
    await postern.services.services.delete(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


def _usage(usage: ServiceUsage) -> ServiceUsageRecord:
    return ServiceUsageRecord(usage.current, usage.most, usage.tier)
