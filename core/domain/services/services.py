"""Applications of an organization that users sign in to: their settings, redirect URIs, and maximum number."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, ServiceLimitExceeded
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.identity.browser_sessions import origin_of
from core.domain.identity.session_limits import SessionLimits, require_session_bounds
from core.domain.jobs import NewJob
from core.domain.lines import one_line, require_few_marks
from core.domain.outbound import NotADestination, OutboundDestination, client_keys, destination
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.services.clients import redirect_uri, web_page
from core.domain.tenancy.organizations import Metadata, Organization, checked_metadata, same_metadata
from core.domain.tenancy.tiers import Tier
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen, names_of, replace, values_of

LONGEST_SLUG: Final = 50
LONGEST_NAME: Final = 100
MOST_SCOPES: Final = 100
LONGEST_SCOPE: Final = 200
MOST_REDIRECT_URIS: Final = 100
PURGE_JOB: Final = "service.purge"

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?")
# RFC 6749 section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class ServiceType(StrEnum):
    """The application type of a service."""

    WEB = "web"
    MOBILE = "mobile"
    DESKTOP = "desktop"
    API = "api"
    METADATA = "metadata"
    """Nobody has registered it: a document at its own address describes it. The first request for an API makes it."""
    PROXY = "proxy"
    """It signs nobody in itself: a reverse proxy in front of it asks Postern about each request. `core/domain/services/proxies.py`"""

    @property
    def is_confidential(self) -> bool:
        """Whether the service can keep a secret, because it runs on its owners' machines. The other types are installed on everybody's
        devices and must use PKCE; of a metadata client, nobody knows.
        """
        return self in {ServiceType.WEB, ServiceType.API, ServiceType.PROXY}

    @property
    def may_be_public(self) -> bool:
        """Whether the service may have no credential, because it runs in a place where everybody could read one: on people's devices, or in
        the browser.
        """
        return self not in {ServiceType.API, ServiceType.PROXY}


class SignInPolicy(StrEnum):
    """Who can sign in to a service."""

    ANYONE = "anyone"
    MEMBERS = "members"
    """Only members of the service's organization."""
    ASSIGNED = "assigned"
    """Only people to whom a role of the service is assigned, members or not. A role that is given to everybody does not count."""

    def admits(self, *, is_member: bool, is_assigned: bool) -> bool:
        """Every membership counts here, also one that the organization merely lists. SQL statements use the fragment `admits` of
        `adapters/postgres/identity/proofs/sign_in_policy.py`.
        """
        match self:
            case SignInPolicy.ANYONE:
                return True
            case SignInPolicy.MEMBERS:
                return is_member
            case _:
                return is_assigned


class AssertionAudience(StrEnum):
    """The accepted audience of the service's client assertions."""

    ISSUER = "issuer"
    ENDPOINT = "endpoint"
    """The issuer, or the address of an endpoint that takes assertions: what libraries sent before RFC 7523 was mended for
    CVE-2025-27370.
    """


class SecurityProfile(StrEnum):
    """The security profile that the application and Postern enforce, beyond the settings."""

    STANDARD = "standard"
    FAPI2 = "fapi2"
    """The FAPI 2.0 Security Profile."""


class ServiceProfile(Frozen):
    """The data that a service's own servers may know about it, besides its id and slug. The check of their API key returns these data."""

    name: str
    service_type: ServiceType
    created_at: datetime


class ServiceSettings(Frozen, kw_only=True):
    """What an organization sets of its service. The scopes are those to ask for at each external provider; None means the provider's usual
    ones.
    """

    name: str
    service_type: ServiceType
    codehost_scopes: Sequence[str] | None = None
    websuite_scopes: Sequence[str] | None = None
    officesuite_scopes: Sequence[str] | None = None
    redirect_uris: Sequence[str] = ()
    device_activation_uri: str | None = None
    sign_in_policy: SignInPolicy = SignInPolicy.ANYONE
    trusted: bool = False
    """The organization trusts the service: its members are not asked for consent."""
    is_agent: bool = False
    """It acts for people, such as an assistant: at one API, until a date that the person chooses. A metadata client is one until an owner
    says otherwise.
    """
    jwks: Mapping[str, Json] | None = None
    """The public keys that verify the client's assertions. None when the client does not authenticate itself in this way."""
    jwks_uri: str | None = None
    """The address at which these keys are published; `jwks` has the keys of the last visit. None when the keys are only stored here."""
    id_token_alg: TokenAlgorithm = TokenAlgorithm.RS256
    access_token_alg: TokenAlgorithm = TokenAlgorithm.ES256
    assertion_audience: AssertionAudience = AssertionAudience.ISSUER
    post_logout_redirect_uris: Sequence[str] = ()
    """The addresses to which browsers may be sent after signing out. Empty when all of `redirect_uris` are allowed."""
    backchannel_logout_uri: str | None = None
    """The address that gets a notice when a session of the service ends. None when the service wants no notices."""
    backchannel_logout_session_required: bool = False
    """Whether the service needs to know which session has ended. The notice says it in any case."""
    profile: SecurityProfile = SecurityProfile.STANDARD
    frontchannel_logout_uri: str | None = None
    """The page that a browser loads in a frame when its person signs out. None when the service wants none."""
    frontchannel_logout_session_required: bool = False
    """Whether the address of the frame names the issuer and the session that has ended."""
    session_lifetime_hours: int | None = None
    """How long its sessions last after the sign-in. None for what the organization says, which counts in any case if it is shorter."""
    session_idle_minutes: int | None = None
    """How long its sessions may rest. None for what the organization says."""
    most_sessions: int | None = None
    """How many sign-ins of one person may be open in it at once. None for any number."""
    dpop_bound_access_tokens: bool = False
    """Whether it gets only tokens that are bound to a key (RFC 9449 section 5.2). A token without a proof of the key opens nothing then."""
    initiate_login_uri: str | None = None
    """The page where the application begins a sign-in, by a request of its own (OpenID Connect Core section 4). None when it has none."""
    metadata: Metadata | None = None
    """None where the service was read without its metadata, in lists for example."""

    @property
    def session_limits(self) -> SessionLimits:
        return SessionLimits(self.session_lifetime_hours, self.session_idle_minutes, self.most_sessions)


class Service(ServiceSettings, kw_only=True):
    id: ServiceId
    organization: OrganizationId
    slug: str
    client_id: ClientId
    jwks_fetched_at: datetime | None = None
    agent_since: datetime | None = None
    """What people have allowed the agent before, and what it got by that, counts no more. None when all of it counts."""
    logo_digest: str | None = None
    """Of the picture that pages show for the application. None when there is none."""
    created_at: datetime
    updated_at: datetime


class NewService(ServiceSettings, kw_only=True):
    """A service that is about to be created."""

    slug: str

    def with_published(self, keys: Mapping[str, Any]) -> "NewService":
        """The new service with the keys that are published under its address. Raises `BadRequest`."""
        _require_one_source(self.jwks, self.jwks_uri)
        return replace(self, jwks=keys)

    def service(self, service: ServiceId, organization: OrganizationId, client: ClientId, now: datetime) -> Service:
        """The service as it is stored. Raises `BadRequest`."""
        service_slug(self.slug)
        if self.service_type is ServiceType.METADATA:
            raise _made_by_its_document()
        if self.service_type is ServiceType.PROXY and self.redirect_uris:
            raise BadRequest("redirect_uris: set by the hosts of the reverse proxy (PATCH …/proxy)", words="proxy_redirects")
        settings = {**values_of(self), "metadata": self.metadata or {}}
        if self.profile is SecurityProfile.FAPI2:
            settings["dpop_bound_access_tokens"] = True
        fetched_at = None if self.jwks_uri is None else now
        return checked_settings(
            Service(
                **settings,
                id=service,
                organization=organization,
                client_id=client,
                jwks_fetched_at=fetched_at,
                created_at=now,
                updated_at=now,
            )
        )


class ServiceChange(RecordChange):
    """Fields that are left out keep their values. A list replaces the earlier list."""

    name: str | Unchanged = UNCHANGED
    service_type: ServiceType | Unchanged = UNCHANGED
    codehost_scopes: Sequence[str] | Unchanged | None = UNCHANGED
    websuite_scopes: Sequence[str] | Unchanged | None = UNCHANGED
    officesuite_scopes: Sequence[str] | Unchanged | None = UNCHANGED
    redirect_uris: Sequence[str] | Unchanged = UNCHANGED
    device_activation_uri: str | Unchanged | None = UNCHANGED
    sign_in_policy: SignInPolicy | Unchanged = UNCHANGED
    trusted: bool | Unchanged = UNCHANGED
    is_agent: bool | Unchanged = UNCHANGED
    jwks: Mapping[str, Any] | Unchanged | None = UNCHANGED
    jwks_uri: str | Unchanged | None = UNCHANGED
    id_token_alg: TokenAlgorithm | Unchanged = UNCHANGED
    access_token_alg: TokenAlgorithm | Unchanged = UNCHANGED
    assertion_audience: AssertionAudience | Unchanged = UNCHANGED
    post_logout_redirect_uris: Sequence[str] | Unchanged = UNCHANGED
    backchannel_logout_uri: str | Unchanged | None = UNCHANGED
    backchannel_logout_session_required: bool | Unchanged = UNCHANGED
    profile: SecurityProfile | Unchanged = UNCHANGED
    frontchannel_logout_uri: str | Unchanged | None = UNCHANGED
    frontchannel_logout_session_required: bool | Unchanged = UNCHANGED
    session_lifetime_hours: int | Unchanged | None = UNCHANGED
    session_idle_minutes: int | Unchanged | None = UNCHANGED
    most_sessions: int | Unchanged | None = UNCHANGED
    dpop_bound_access_tokens: bool | Unchanged = UNCHANGED
    initiate_login_uri: str | Unchanged | None = UNCHANGED
    metadata: Metadata | Unchanged = UNCHANGED

    def with_published(self, keys: Mapping[str, Any]) -> "ServiceChange":
        """The change with the keys that are published under the new address. Raises `BadRequest`."""
        _require_one_source(None if self.jwks is UNCHANGED else self.jwks, self.jwks_uri)
        return replace(self, jwks=keys)


# The fields that decide where people and their codes go, who is asked for consent, and how the service authenticates itself.
_LASTING: Final = (
    *("redirect_uris", "post_logout_redirect_uris", "device_activation_uri", "backchannel_logout_uri", "frontchannel_logout_uri"),
    *("initiate_login_uri", "service_type", "sign_in_policy", "trusted", "is_agent", "jwks", "jwks_uri", "profile"),
)


_SESSIONS: Final = ("session_lifetime_hours", "session_idle_minutes", "most_sessions")
_BESIDE_DOCUMENT: Final = frozenset({"sign_in_policy", "metadata", "is_agent", *_SESSIONS})


def require_nothing_lasting(change: ServiceChange, actor: Actor) -> None:
    """An impersonator may remove values of these fields, but not set them, because the change would outlive the
    impersonation. Raises `Forbidden`.
    """
    if actor.impersonator is None:
        return
    for name in _LASTING:
        if change.said.get(name):
            raise Forbidden(f"{name}: this cannot be changed while you act in another person's name", words="impersonating")


class ListedService(Frozen):
    """`subscription_count` counts active and past-due subscriptions."""

    service: Service
    plan_count: int
    subscription_count: int


class RegisteredService(Frozen, kw_only=True):
    """A service as the operator of the installation sees it. `subscriptions` counts active and past-due ones."""

    service: Service
    organization_slug: str
    organization_is_active: bool
    users: int
    plans: int
    subscriptions: int
    api_keys: int
    client_secrets: int


class ServiceUsage(Frozen):
    """The number of an organization's services, the limit, and the name of the organization's tier."""

    current: int
    most: int
    tier: str

    def require_room(self) -> None:
        if self.current >= self.most:
            raise ServiceLimitExceeded(
                f"The organization has reached its limit of services: {self.most}, on the tier {self.tier}. A platform owner can raise it"
                " (PATCH /api/platform/organizations/{org_id}/tier, or `postern organization tier`)"
            )

    def with_one_more(self) -> "ServiceUsage":
        return replace(self, current=self.current + 1)


class ServiceList(Frozen):
    services: Sequence[ListedService]
    usage: ServiceUsage


def service_usage(current: int, organization: Organization, tier: Tier) -> ServiceUsage:
    """The limit is the organization's own number, otherwise its tier's."""
    most = tier.default_max_services if organization.max_services is None else organization.max_services
    return ServiceUsage(current, most, tier.display_name)


def service_slug(text: str) -> str:
    """The slug of a new service. It never changes. Raises `BadRequest`."""
    if not _SLUG.fullmatch(text):
        raise BadRequest(
            f"slug: 1 to {LONGEST_SLUG} of a-z, 0-9 and -, with a letter or digit at both ends",
            words="slug_malformed",
            values={"least": 1, "most": LONGEST_SLUG},
        )
    return text


def service_name(text: str) -> str:
    """The name as it is stored. Raises `BadRequest`."""
    require_few_marks("name", text)
    name = one_line(text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def changed(service: Service, change: ServiceChange, now: datetime) -> Service:
    """The service after the change; the same service when nothing differs. Raises `BadRequest`."""
    if service.service_type is ServiceType.METADATA:
        return _changed_beside_document(service, change, now)
    if change.service_type is ServiceType.METADATA:
        raise _made_by_its_document()
    said = {**change.said}
    if ServiceType.PROXY in {service.service_type, after_type := said.get("service_type", service.service_type)}:
        if after_type is not service.service_type:
            raise BadRequest(
                "service_type: an application behind a reverse proxy cannot change its type, and no other can become one: create a new "
                "service",
                words="proxy_type",
            )
        if list(said.get("redirect_uris", service.redirect_uris)) != list(service.redirect_uris):
            raise BadRequest("redirect_uris: set by the hosts of the reverse proxy (PATCH …/proxy)", words="proxy_redirects")
    if isinstance(change.jwks_uri, str):
        said["jwks_fetched_at"] = now
    elif "jwks" in said:
        said |= {"jwks_uri": None, "jwks_fetched_at": None}
    elif "jwks_uri" in said and service.jwks_uri is not None:
        # The keys came from this address, and nobody has sent them.
        said |= {"jwks": None, "jwks_fetched_at": None}
    if said.get("profile", service.profile) is SecurityProfile.FAPI2 is not service.profile:
        # What the profile holds, it sets, unless the same change says otherwise.
        said = {"dpop_bound_access_tokens": True, "assertion_audience": AssertionAudience.ISSUER, **said}
    after = checked_settings(replace(service, **{**said, **_agency(service, change, now)}))
    unchanged = after == replace(service, jwks_fetched_at=after.jwks_fetched_at) and same_metadata(service.metadata, after.metadata)
    return service if unchanged else replace(after, updated_at=now)


def _changed_beside_document(service: Service, change: ServiceChange, now: datetime) -> Service:
    """The document of a metadata client says everything but whom the organization lets sign in to it, and whether it is an agent."""
    for name, value in change.said.items():
        if name not in _BESIDE_DOCUMENT and value != getattr(service, name):
            raise BadRequest(f"{name}: the document of this application decides it", words="described_by_document")
    metadata = service.metadata if isinstance(change.metadata, Unchanged) else checked_metadata(change.metadata)
    policy = service.sign_in_policy if isinstance(change.sign_in_policy, Unchanged) else change.sign_in_policy
    sessions = {name: value for name, value in change.said.items() if name in _SESSIONS}
    after = replace(service, sign_in_policy=policy, metadata=metadata, **sessions, **_agency(service, change, now))
    _require_session_bounds(after)
    return service if after == service else replace(after, updated_at=now)


def _agency(service: Service, change: ServiceChange, now: datetime) -> Mapping[str, Any]:
    """The fields that change when a service becomes an agent, or is one no more. What people allowed before `agent_since` counts no more:
    they allowed something else.
    """
    if isinstance(change.is_agent, Unchanged) or change.is_agent is service.is_agent:
        return {}
    return {"is_agent": change.is_agent, "agent_since": now}


def _made_by_its_document() -> BadRequest:
    return BadRequest(
        "service_type: a metadata client cannot be created; it is added when an application with a metadata document first requests an API",
        words="made_by_document",
    )


def logout_destination(uri: str) -> OutboundDestination:
    """Raises `BadRequest`."""
    try:
        return destination(uri)
    except NotADestination as refusal:
        raise BadRequest(f"backchannel_logout_uri: {refusal}", words="web_address") from None


def service_created(service: Service, actor: Actor) -> Event:
    details = {**_named(service), "service_type": service.service_type.value, "client_id": service.client_id}
    return _event("service.created", service, actor, details)


# What an entry says with its values, before and after.
_FACTS: Final = (
    *(
        "client_id",
        "sign_in_policy",
        "trusted",
        "is_agent",
        "id_token_alg",
        "access_token_alg",
        "assertion_audience",
        "profile",
        "jwks_uri",
    ),
    *("backchannel_logout_session_required", "frontchannel_logout_session_required", "dpop_bound_access_tokens", *_SESSIONS),
    *("device_activation_uri", "frontchannel_logout_uri", "initiate_login_uri"),
)


def with_logo(service: Service, digest: str | None, now: datetime) -> Service:
    """The same service where the picture is the same. Raises `BadRequest` for a service that its own document describes: people have to see
    that nobody here vouches for it.
    """
    if digest is not None and service.service_type is ServiceType.METADATA:
        raise BadRequest("This application is not registered by an organization, so it has no logo", words="logo_of_unregistered")
    return service if digest == service.logo_digest else replace(service, logo_digest=digest, updated_at=now)


def service_updated(before: Service, after: Service, actor: Actor) -> Event:
    """The event says what changed, with the earlier values of everything that decides where people are sent. Of the metadata
    it says only that they changed.
    """
    details: dict[str, Json] = {**_named(after), "changed": _changed_names(before, after)}
    if before.name != after.name:
        details["old_name"] = before.name
    if before.service_type is not after.service_type:
        details |= {"old_service_type": before.service_type.value, "service_type": after.service_type.value}
    for name in ("redirect_uris", "post_logout_redirect_uris"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            details |= {
                f"{name}_added": [uri for uri in new if uri not in old],
                f"{name}_removed": [uri for uri in old if uri not in new],
            }
    for name in _FACTS:
        if getattr(before, name) != getattr(after, name):
            details |= {f"old_{name}": getattr(before, name), name: getattr(after, name)}
    if before.jwks != after.jwks:
        details |= {"old_key_ids": _key_ids(before), "key_ids": _key_ids(after)}
    if before.backchannel_logout_uri != after.backchannel_logout_uri:
        details |= {"old_backchannel_logout_host": _logout_host(before), "backchannel_logout_host": _logout_host(after)}
    return _event("service.updated", after, actor, details)


def service_deleted(service: Service, actor: Actor) -> Event:
    return _event("service.deleted", service, actor, {**_named(service), "client_id": service.client_id})


def purge_job(service: UUID) -> NewJob:
    """The job that removes what a deleted service leaves behind."""
    return NewJob(PURGE_JOB, {"service": str(service)})


_COMPARED: Final = ("client_id", *(name for name in names_of(ServiceChange) if name != "metadata"))


def _named(service: Service) -> dict[str, Json]:
    return {"service_slug": service.slug, "service_name": service.name}


def _changed_names(before: Service, after: Service) -> list[Json]:
    names: list[Json] = [name for name in _COMPARED if getattr(before, name) != getattr(after, name)]
    if before.logo_digest != after.logo_digest:
        names.append("logo")
    return names if same_metadata(before.metadata, after.metadata) else [*names, "metadata"]


def _key_ids(service: Service) -> list[Json]:
    """The ids of the keys that verify its assertions. A key without an id is null."""
    keys: Any = () if service.jwks is None else service.jwks["keys"]
    return [key.get("kid") for key in keys]


def _logout_host(service: Service) -> str | None:
    """The host, without the rest of the address, which may contain a token of the receiver."""
    return None if service.backchannel_logout_uri is None else logout_destination(service.backchannel_logout_uri).host


def _event(name: str, service: Service, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("service", str(service.id)), service.organization, details)


_Settings = TypeVar("_Settings", bound=ServiceSettings)


def checked_settings(service: _Settings) -> _Settings:
    """Checks all fields, not only the changed ones: a web application may not have some addresses of a mobile one, so they must be removed
    before the type changes. Raises `BadRequest`.
    """
    _require_session_bounds(service)
    if service.dpop_bound_access_tokens and service.service_type is ServiceType.PROXY:
        raise BadRequest(
            "dpop_bound_access_tokens: an application behind a reverse proxy uses cookies and has no tokens to bind",
            words="proxy_binds_nothing",
        )
    if service.profile is SecurityProfile.FAPI2:
        _require_fapi2(service)
    return replace(
        service,
        name=service_name(service.name),
        codehost_scopes=_scopes(service.codehost_scopes, "codehost_scopes"),
        websuite_scopes=_scopes(service.websuite_scopes, "websuite_scopes"),
        officesuite_scopes=_scopes(service.officesuite_scopes, "officesuite_scopes"),
        redirect_uris=_redirect_uris(service, "redirect_uris"),
        post_logout_redirect_uris=_redirect_uris(service, "post_logout_redirect_uris"),
        jwks=None if service.jwks is None else _keys_of(service, service.jwks),
        backchannel_logout_uri=_logout_uri(service),
        frontchannel_logout_uri=_frame_address(service),
        initiate_login_uri=_initiation_address(service),
        metadata=None if service.metadata is None else checked_metadata(service.metadata),
        device_activation_uri=(
            None if service.device_activation_uri is None else web_page(service.device_activation_uri, "device_activation_uri")
        ),
    )


def _require_session_bounds(service: ServiceSettings) -> None:
    limits = service.session_limits
    require_session_bounds(limits.hours, limits.minutes_idle, limits.most)


def _require_fapi2(service: ServiceSettings) -> None:
    """What the FAPI 2.0 Security Profile asks of the settings (sections 5.3.2 and 5.4.1). Raises `BadRequest`, at the field that is in the
    way.
    """
    if service.service_type not in {ServiceType.WEB, ServiceType.API}:
        raise BadRequest("profile: fapi2 is for web and api services, which can keep a key", words="profile_type")
    keys: Any = () if service.jwks is None else service.jwks["keys"]
    if not any(isinstance(key, Mapping) and key.get("alg") != "RS256" for key in keys):
        raise BadRequest(
            "profile: fapi2 requires jwks or jwks_uri, with a key for PS256, ES256 or EdDSA; client secrets are no longer accepted",
            words="profile_keys",
        )
    if any(not uri.startswith("https://") for uri in service.redirect_uris):
        raise BadRequest("redirect_uris: with the profile fapi2, all must begin with https://", words="profile_https")
    if not service.dpop_bound_access_tokens:
        raise BadRequest("dpop_bound_access_tokens: the profile fapi2 binds all tokens to keys", words="profile_dpop")
    if service.assertion_audience is not AssertionAudience.ISSUER:
        raise BadRequest("assertion_audience: with the profile fapi2, it is the issuer", words="profile_audience")


def _scopes(given: Sequence[str] | None, field: str) -> Sequence[str] | None:
    if given is None:
        return None
    _require_few_and_different(given, field, MOST_SCOPES)
    for at, scope in enumerate(given):
        if len(scope) > LONGEST_SCOPE or not _SCOPE.fullmatch(scope):
            raise BadRequest(
                f'{field}[{at}]: 1 to {LONGEST_SCOPE} visible ASCII characters other than " and \\ (RFC 6749)',
                words="scope_malformed",
                values={"most": LONGEST_SCOPE},
            )
    return tuple(given)


def _redirect_uris(service: ServiceSettings, field: str) -> Sequence[str]:
    given: Sequence[str] = getattr(service, field)
    _require_few_and_different(given, field, MOST_REDIRECT_URIS)
    private_use = not service.service_type.is_confidential
    return tuple(redirect_uri(uri, f"{field}[{at}]", private_use=private_use) for at, uri in enumerate(given))


def _logout_uri(service: ServiceSettings) -> str | None:
    uri = service.backchannel_logout_uri
    if uri is None:
        return None
    if logout_destination(uri).scheme != "https" and not service.service_type.is_confidential:
        raise BadRequest(f"backchannel_logout_uri: must start with https:// for a {service.service_type} service", words="https_only")
    return uri


def _frame_address(service: ServiceSettings) -> str | None:
    uri = service.frontchannel_logout_uri
    if uri is None:
        return None
    if service.service_type is ServiceType.PROXY:
        raise BadRequest(
            "frontchannel_logout_uri: an application behind a reverse proxy has no logout page, and is signed out with its next request",
            words="proxy_frames",
        )
    return frame_address(uri, service.redirect_uris)


def frame_address(uri: str, redirect_uris: Sequence[str]) -> str:
    """The page that browsers load in a frame, unchanged. It has scheme, host and port of a redirect URI (Front-Channel Logout
    1.0 section 2). Raises `BadRequest`.
    """
    web_page(uri, "frontchannel_logout_uri")
    if origin_of(uri) not in {origin_of(one) for one in redirect_uris}:
        raise BadRequest("frontchannel_logout_uri: must have the scheme, host and port of one of the redirect URIs", words="frame_origin")
    return uri


def _initiation_address(service: ServiceSettings) -> str | None:
    uri = service.initiate_login_uri
    if uri is None:
        return None
    if service.service_type is ServiceType.PROXY:
        raise BadRequest(
            "initiate_login_uri: an application behind a reverse proxy has none, because any of its pages begins the sign-in",
            words="proxy_initiates",
        )
    if service.profile is SecurityProfile.FAPI2 and not uri.startswith("https://"):
        raise BadRequest("initiate_login_uri: with the profile fapi2, it must begin with https://", words="https_only")
    return initiation_address(uri)


def initiation_address(uri: str) -> str:
    """The page where an application begins a sign-in, unchanged. Two issuers in one address would be read by some programs as the first and
    by others as the second. Raises `BadRequest`.
    """
    web_page(uri, "initiate_login_uri")
    if any(name.lower() == "iss" for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)):
        raise BadRequest("initiate_login_uri: must not have the parameter iss, which Postern adds", words="initiate_issuer")
    return uri


def own_initiation_address(uri: str, redirect_uris: Sequence[str]) -> str:
    """That of a client that nobody has registered: at https, and with the host and port of one of its redirect URIs, which are what people
    are told of it. Raises `BadRequest`.
    """
    initiation_address(uri)
    if not uri.startswith("https://") or origin_of(uri) not in {origin_of(one) for one in redirect_uris}:
        raise BadRequest(
            "initiate_login_uri: must begin with https:// and have the host and port of one of the redirect URIs", words="frame_origin"
        )
    return uri


def _require_one_source(jwks: object, jwks_uri: object) -> None:
    if jwks is not None and isinstance(jwks_uri, str):
        raise BadRequest("jwks: the keys are sent here or published under jwks_uri, not both", words="keys_twice")


def _keys_of(service: ServiceSettings, given: Mapping[str, Any]) -> Mapping[str, Json]:
    if not service.service_type.is_confidential:
        raise BadRequest(
            f"jwks: a {service.service_type} service is a public client, which cannot keep a private key", words="public_client"
        )
    return client_keys(given)


def _require_few_and_different(given: Sequence[str], field: str, most: int) -> None:
    if len(given) > most:
        raise BadRequest(f"{field}: at most {most}", words="field_list", values={"most": most})
    if len(set(given)) < len(given):
        raise BadRequest(f"{field}: each can be listed only once", words="field_once")
