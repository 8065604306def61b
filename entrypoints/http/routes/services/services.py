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
    """The maximum number of services to return. The default is all; there is no upper limit."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0
    """The number of services to skip."""


class NewServiceBody(msgspec.Struct, frozen=True, kw_only=True):
    """The service to create."""

    slug: Annotated[ServiceSlug, example("billing")]
    """The slug: 1 to 50 of a-z, 0-9 and -, with a letter or digit at both ends. The slug never changes."""
    name: Annotated[Name, example("Billing")]
    """The name, 1 to 100 characters."""
    service_type: Annotated[ServiceType, example("web")]
    """The application type."""
    codehost_scopes: Annotated[Sequence[Word], example(["read:user"])] | None = None
    """The scopes to request from codehost; the default scopes if omitted."""
    websuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | None = None
    """The scopes to request from websuite; the default scopes if omitted."""
    officesuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | None = None
    """The scopes to request from officesuite; the default scopes if omitted."""
    redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/callback"])] = ()
    """The allowed redirect URIs after sign-in. They are compared byte for byte."""
    device_activation_uri: Annotated[Uri, example("https://billing.acme.example/activate")] | None = None
    """The URL of the application's own page where people enter the code of a device."""
    sign_in_policy: SignInPolicy = SignInPolicy.ANYONE
    """Who can sign in: `anyone`, only `members` of the organization, or only people who are `assigned` a role of the service."""
    trusted: bool = False
    """Whether members of the organization sign in without a consent page."""
    is_agent: bool = False
    """Whether the service is an agent. An agent acts for people at one API, until a date that each person selects, and no one signs in to
    it.
    """
    jwks: ClientKeys | None = None
    """The public keys that verify the application's client assertions (`private_key_jwt`), as a JSON Web Key Set."""
    jwks_uri: Annotated[Uri, example("https://billing.acme.example/keys.json")] | None = None
    """The URL of the application's JSON Web Key Set, in place of `jwks`. Postern fetches the keys immediately. It fetches them again when
    they are 1 hour old, or when an assertion is signed with an unknown key.
    """
    id_token_alg: TokenAlgorithm = TokenAlgorithm.RS256
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    """The algorithm that signs the application's access tokens. Use RS256 if the API's library supports no other."""
    assertion_audience: AssertionAudience = AssertionAudience.ISSUER
    """The accepted audience of client assertions: `issuer`, or `endpoint` to accept the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/signed-out"])] = ()
    """The allowed redirect URIs after sign-out. If omitted, all redirect URIs are allowed."""
    backchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/logged-out")] | None = None
    """The application's back-channel logout URI. It receives a logout token for each session that ends (OpenID Connect Back-Channel
    Logout).
    """
    backchannel_logout_session_required: Annotated[bool, example(True)] = False
    """Whether logout tokens must contain the session ID. They always do."""
    frontchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/bye")] | None = None
    """The application's front-channel logout URI, which browsers load in a frame at sign-out (OpenID Connect Front-Channel Logout). Scheme,
    host and port must be those of a redirect URI. Browsers that block third-party cookies send no cookies to it, so use
    `backchannel_logout_uri` if possible.
    """
    frontchannel_logout_session_required: Annotated[bool, example(True)] = False
    """Whether the URL of the frame contains `iss` and `sid`, which identify the session."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    """The security profile that the application and Postern enforce: `fapi2` for the FAPI 2.0 Security Profile."""
    session_lifetime_hours: _SessionHours | None = None
    """The session lifetime in hours; null for the organization's. The shorter of the two applies."""
    session_idle_minutes: _IdleMinutes | None = None
    """The idle timeout in minutes; null for the organization's. The shorter of the two applies."""
    most_sessions: _MostSessions | None = None
    """The maximum number of concurrent sessions per person in the service; null for no limit. Above the limit, the next sign-in revokes the
    oldest session.
    """
    dpop_bound_access_tokens: bool = False
    """Whether the application gets only sender-constrained tokens (DPoP, RFC 9449). If true, each token request needs a DPoP proof."""
    initiate_login_uri: Annotated[Uri, example("https://billing.acme.example/sign-in")] | None = None
    """The URL where the application starts a sign-in (OpenID Connect Core, section 4). Postern opens it with the parameter `iss` when a
    person selects the application on their account page. Without it, Postern opens the application's start page.
    """
    metadata: Metadata = msgspec.field(default_factory=dict)
    """Your own metadata, at most 4096 bytes, nested 5 deep. Tokens do not contain it. The service's API keys can read it."""


class ServicePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a service. Omitted fields keep their values; send at least one. A list replaces the current one. Null clears a
    nullable field.
    """

    name: Annotated[Name, example("Billing")] | msgspec.UnsetType = msgspec.UNSET
    """The name, 1 to 100 characters."""
    service_type: Annotated[ServiceType, example("web")] | msgspec.UnsetType = msgspec.UNSET
    """The application type."""
    codehost_scopes: Annotated[Sequence[Word], example(["read:user"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to request from codehost; null for the default scopes."""
    websuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to request from websuite; null for the default scopes."""
    officesuite_scopes: Annotated[Sequence[Word], example(["openid", "email"])] | msgspec.UnsetType | None = msgspec.UNSET
    """The scopes to request from officesuite; null for the default scopes."""
    redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/callback"])] | msgspec.UnsetType = msgspec.UNSET
    """The allowed redirect URIs after sign-in. They are compared byte for byte."""
    device_activation_uri: Annotated[Uri, example("https://billing.acme.example/activate")] | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of the application's own page where people enter the code of a device; null removes it."""
    sign_in_policy: Annotated[SignInPolicy, example("members")] | msgspec.UnsetType = msgspec.UNSET
    """Who can sign in: `anyone`, only `members` of the organization, or only people who are `assigned` a role of the service. All others
    who are signed in are denied from the next request.
    """
    trusted: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether members of the organization sign in without a consent page."""
    is_agent: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the service is an agent. An agent acts for people at one API, until a date that each person selects, and no one signs in to
    it. When a service becomes an agent, all its sessions are revoked.
    """
    jwks: ClientKeys | msgspec.UnsetType | None = msgspec.UNSET
    """The public keys that verify the application's client assertions, as a JSON Web Key Set. They replace the keys from `jwks_uri`. Null
    removes them.
    """
    jwks_uri: Annotated[Uri, example("https://billing.acme.example/keys.json")] | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of the application's JSON Web Key Set, in place of `jwks`. Postern fetches the keys whenever you send this. Null removes the
    URL and its keys.
    """
    id_token_alg: Annotated[TokenAlgorithm, example("ES256")] | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("RS256")] | msgspec.UnsetType = msgspec.UNSET
    """The algorithm that signs the application's access tokens. Use RS256 if the API's library supports no other."""
    assertion_audience: Annotated[AssertionAudience, example("issuer")] | msgspec.UnsetType = msgspec.UNSET
    """The accepted audience of client assertions: `issuer`, or `endpoint` to accept the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[Line], example(["https://billing.acme.example/signed-out"])] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    """The allowed redirect URIs after sign-out. If empty, all redirect URIs are allowed."""
    backchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/logged-out")] | msgspec.UnsetType | None = msgspec.UNSET
    """The application's back-channel logout URI. It receives a logout token for each session that ends. Null turns back-channel logout off.
    """
    backchannel_logout_session_required: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether logout tokens must contain the session ID. They always do."""
    frontchannel_logout_uri: Annotated[Uri, example("https://billing.acme.example/bye")] | msgspec.UnsetType | None = msgspec.UNSET
    """The application's front-channel logout URI, which browsers load in a frame at sign-out. Scheme, host and port must be those of a
    redirect URI. Null turns front-channel logout off.
    """
    frontchannel_logout_session_required: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the URL of the frame contains `iss` and `sid`, which identify the session."""
    profile: Annotated[SecurityProfile, example("fapi2")] | msgspec.UnsetType = msgspec.UNSET
    """The security profile, `fapi2` or `standard`. `fapi2` requires keys, and sets `dpop_bound_access_tokens` and `assertion_audience`. A
    change revokes pending authorization codes and pushed requests.
    """
    session_lifetime_hours: _SessionHours | msgspec.UnsetType | None = msgspec.UNSET
    """The session lifetime in hours; null for the organization's. The shorter of the two applies."""
    session_idle_minutes: _IdleMinutes | msgspec.UnsetType | None = msgspec.UNSET
    """The idle timeout in minutes; null for the organization's. The shorter of the two applies."""
    most_sessions: _MostSessions | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum number of concurrent sessions per person in the service; null for no limit. Above the limit, the next sign-in revokes the
    oldest session.
    """
    dpop_bound_access_tokens: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether the application gets only sender-constrained tokens (DPoP, RFC 9449). Issued tokens do not change."""
    initiate_login_uri: Annotated[Uri, example("https://billing.acme.example/sign-in")] | msgspec.UnsetType | None = msgspec.UNSET
    """The URL where the application starts a sign-in, which Postern opens with the parameter `iss`; null removes it."""
    metadata: Metadata | msgspec.UnsetType = msgspec.UNSET
    """Your own metadata, at most 4096 bytes, nested 5 deep. It replaces the current metadata. Tokens do not contain it. The service's API
    keys can read it.
    """


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A service: an application that people sign in to."""

    id: Id
    org_id: OrganizationUuid
    slug: Annotated[str, example("billing")]
    """The service's slug, which never changes."""
    name: Annotated[str, example("Billing")]
    """The service's name."""
    service_type: Annotated[ServiceType, example("web")]
    """The application type."""
    client_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000001")]
    """The client ID of the application. It never changes."""
    codehost_scopes: Annotated[Sequence[str], example(["read:user"])] | None
    """The scopes requested from codehost; null for the default scopes."""
    websuite_scopes: Annotated[Sequence[str], example(["openid", "email"])] | None
    """The scopes requested from websuite; null for the default scopes."""
    officesuite_scopes: Annotated[Sequence[str], example(["openid", "email"])] | None
    """The scopes requested from officesuite; null for the default scopes."""
    redirect_uris: Annotated[Sequence[str], example(["https://billing.acme.example/callback"])]
    """The allowed redirect URIs after sign-in."""
    device_activation_uri: Annotated[str, example("https://billing.acme.example/activate")] | None
    """The URL of the application's own page where people enter the code of a device; null if there is none."""
    sign_in_policy: Annotated[SignInPolicy, example("anyone")]
    """Who can sign in: `anyone`, only `members` of the organization, or only people who are `assigned` a role of the service."""
    trusted: bool
    """Whether members of the organization sign in without a consent page."""
    is_agent: bool
    """Whether the service is an agent, which acts for people at APIs."""
    jwks: ClientKeys | None
    """The public keys that verify the application's client assertions; null if there are none."""
    jwks_uri: Annotated[str, example("https://billing.acme.example/keys.json")] | None
    """The URL of the application's JSON Web Key Set; null if there is none."""
    id_token_alg: Annotated[TokenAlgorithm, example("RS256")]
    """The algorithm that signs the application's ID tokens."""
    access_token_alg: Annotated[TokenAlgorithm, example("ES256")]
    """The algorithm that signs the application's access tokens. Use RS256 if the API's library supports no other."""
    assertion_audience: Annotated[AssertionAudience, example("issuer")]
    """The accepted audience of client assertions: `issuer`, or `endpoint` to accept the URL of the endpoint, too."""
    post_logout_redirect_uris: Annotated[Sequence[str], example(["https://billing.acme.example/signed-out"])]
    """The allowed redirect URIs after sign-out. If empty, all redirect URIs are allowed."""
    backchannel_logout_uri: Annotated[str, example("https://billing.acme.example/logged-out")] | None
    """The application's back-channel logout URI. It receives a logout token for each session that ends; null if there is none."""
    backchannel_logout_session_required: Annotated[bool, example(True)]
    """Whether logout tokens must contain the session ID. They always do."""
    frontchannel_logout_uri: Annotated[str, example("https://billing.acme.example/bye")] | None
    """The application's front-channel logout URI, which browsers load in a frame at sign-out; null if there is none."""
    frontchannel_logout_session_required: Annotated[bool, example(True)]
    """Whether the URL of the frame contains `iss` and `sid`, which identify the session."""
    profile: Annotated[SecurityProfile, example("standard")]
    """The security profile that the application and Postern enforce: `standard` or `fapi2`."""
    session_lifetime_hours: Annotated[int, example(12)] | None
    """The session lifetime in hours; null for the organization's. The shorter of the two applies."""
    session_idle_minutes: Annotated[int, example(60)] | None
    """The idle timeout in minutes; null for the organization's. The shorter of the two applies."""
    most_sessions: Annotated[int, example(3)] | None
    """The maximum number of concurrent sessions per person in the service; null for no limit. Above the limit, the next sign-in revokes the
    oldest session.
    """
    dpop_bound_access_tokens: bool
    """Whether the application gets only sender-constrained tokens (DPoP, RFC 9449)."""
    initiate_login_uri: Annotated[str, example("https://billing.acme.example/sign-in")] | None
    """The URL where the application starts a sign-in, which Postern opens with the parameter `iss`; null if there is none."""
    logo: Annotated[str, example("/logos/9f86d081884c7d65")] | None
    """The path of the application's logo, relative to Postern's base URL; null if there is none. Each new logo has a new path."""
    created_at: CreatedAt


class ServiceWithMetadata(ServiceRecord, frozen=True, kw_only=True):
    """A service with its metadata."""

    metadata: Metadata | None
    """The metadata of the service; null if you cannot manage services. Lists do not contain it."""


class ListedServiceRecord(ServiceRecord, frozen=True, kw_only=True):
    """A service with its numbers of plans and subscriptions."""

    plan_count: Annotated[int, example(2)]
    """The number of plans of the service."""
    subscription_count: Annotated[int, example(12)]
    """The number of active and past due subscriptions to the service."""


class ServiceUsageRecord(msgspec.Struct, frozen=True):
    """The number of services of the organization, and its limit."""

    current_services: Annotated[int, example(2)]
    """The number of services of the organization."""
    max_services: Annotated[int, example(3)]
    """The maximum number of services of the organization."""
    tier: Annotated[str, example("Free")]
    """The display name of the organization's tier."""


class ServiceCreated(msgspec.Struct, frozen=True):
    """The new service."""

    service: ServiceWithMetadata
    """The service."""
    default_plan: PlanRecord
    """The free plan of the new service."""
    usage: ServiceUsageRecord
    """The number of services of the organization, and its limit."""


class ServiceListAnswer(msgspec.Struct, frozen=True):
    """The services of the organization."""

    services: Sequence[ListedServiceRecord]
    """The services, oldest first."""
    usage: ServiceUsageRecord
    """The number of services of the organization, and its limit."""


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

    The service starts with a free plan. `web` and `api` services are confidential clients, which can have client secrets. `mobile` and
    `desktop` services are public clients, which must use PKCE.

    A redirect URI starts with `https`, or with `http` for localhost, 127.0.0.1 or [::1]. `mobile` and `desktop` services can use a
    private-use scheme, such as `com.example.app:/callback` (RFC 8252). Redirect URIs are compared byte for byte.
    """
    created = await postern.services.services.create(call.caller, _wanted(call.body), call.actor)
    return ServiceCreated(_with_metadata(created.service), plan_record(PlanOverview(created.default_plan, 0)), _usage(created.usage))


@endpoint.get(_SERVICES, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_services(call: Call[None, ServicesQuery, OrganizationPath, Member], postern: Postern) -> ServiceListAnswer:
    """List services

    Returns the organization's services, oldest first. If `limit` is omitted, all services are returned. The response also has the maximum
    number of services.
    """
    query = call.query
    limit = None if query.limit is None else min(query.limit, _MOST)
    listed = await postern.services.services.list(call.caller, service_type=query.service_type, limit=limit, offset=query.offset)
    return ServiceListAnswer([_listed(one) for one in listed.services], _usage(listed.usage))


@endpoint.get(_SERVICE, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_service(call: Call[None, None, ServicePath, Member], postern: Postern) -> ServiceWithMetadata:
    """Get a service

    The response has the service's metadata, which lists omit. Client secrets are only in the response that created them.
    """
    found = await postern.services.services.get(call.caller, call.path.service_slug)
    return _with_metadata(found) if call.caller.may(Capability.SERVICES_MANAGE) else _with_metadata(replace(found, metadata=None))


@endpoint.patch(
    _SERVICE, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest,), tags=_TAGS, accepts=_BODY
)
async def change_service(call: Call[ServicePatch, None, ServicePath, Member], postern: Postern) -> ServiceWithMetadata:
    """Change a service

    The slug and the client ID never change. To change the type, first adapt the service to the new type. A public service has no client
    secrets, and a confidential service has no redirect URI with a private-use scheme. During an impersonation, you can remove but not set
    values that outlast it: URLs, keys, type, sign-in policy and trust.
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

    The body is the image: PNG, JPEG or WebP, at most 256 KiB, at most 2048 pixels on each side, not animated. Postern strips metadata.
    People see the logo on the consent page, in lists of their applications, and in emails about the application. An application that no one
    has registered cannot have a logo.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    changed = await postern.services.services.put_logo(call.caller, call.path.service_slug, call.body, call.actor, declared=declared)
    return _with_metadata(changed)


@endpoint.delete(_LOGO, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_service_logo(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Delete the logo of a service

    The response is the same if there was none. Browsers can still have the logo in their cache.
    """
    await postern.services.services.remove_logo(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


@endpoint.delete(_SERVICE, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS)
async def delete_service(call: Call[None, None, ServicePath, Member], postern: Postern) -> NoBody:
    """Delete a service

    Only an owner can do this. From now on, all requests, tokens and keys of the service are rejected, and its slug can be used again. A
    background job deletes its plans, subscriptions, keys, secrets, sessions and list of users, usually within a minute. People keep their
    accounts. This cannot be undone. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    await postern.services.services.delete(call.caller, call.path.service_slug, call.actor)
    return NO_BODY


def _usage(usage: ServiceUsage) -> ServiceUsageRecord:
    return ServiceUsageRecord(usage.current, usage.most, usage.tier)
