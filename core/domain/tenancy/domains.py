"""Email domains of organizations: their verification, and the sign-in of their users."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import DomainId, OrganizationId, UpstreamProviderId
from core.domain.identity.realms import LoginPolicy
from core.domain.identity.registering import FREE_MAIL
from core.domain.identity.upstream.providers import Provider
from core.domain.outbound import NotADestination, OutboundDestination, address_of, destination, host
from core.domain.record.events import SYSTEM, Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Unchanged
from core.frozen import Frozen, replace

RECHECKED_EVERY: Final = timedelta(days=7)
# A name server that is down for an hour does not end a proof. Only this many failed checks in a row do, a day apart.
MOST_MISSES: Final = 3
RECHECKED_AFTER_MISS: Final = timedelta(days=1)
# While one process checks a domain, no other process does. If the process dies, another one repeats the check after this time.
LEASE: Final = timedelta(hours=1)
# The limit for each place where the proof may be. All of them together stay within the time that a request has.
TIMEOUT: Final = timedelta(seconds=7)
LONGEST_PROOF: Final = 1024
_RECORD: Final = "_postern-verification"
_FILE: Final = "/.well-known/postern-verification.txt"
# Host names have no underscores; only other records do.
_LABELS: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LONGEST: Final = 253 - len(_RECORD) - 1


class Domain(Frozen, kw_only=True):
    """A domain and its verification: a text that only the owner of the domain can publish there. `misses` counts the latest checks in a row
    that did not find it.
    """

    id: DomainId
    organization: OrganizationId
    name: str
    token: str
    verified_at: datetime | None = None
    checked_at: datetime | None = None
    misses: int = 0
    created_at: datetime

    @property
    def is_verified(self) -> bool:
        return self.verified_at is not None

    @property
    def record(self) -> str:
        """The name of the TXT record."""
        return f"{_RECORD}.{self.name}"

    @property
    def files(self) -> tuple[OutboundDestination, ...]:
        """The addresses where the file may be. Plain HTTP counts too: a domain that is new may have no certificate yet."""
        return tuple(destination(f"{scheme}://{self.name}{_FILE}") for scheme in ("https", "http"))

    @property
    def file_url(self) -> str:
        return f"https://{self.name}{_FILE}"

    def is_proved_by(self, text: str) -> bool:
        return text.strip() == self.token


def domain_name(text: str) -> str:
    """The name in lower case, without a dot at its end. Raises `BadRequest`."""
    try:
        name = host(text.strip().removesuffix("."))
    except NotADestination:
        name = ""
    if not _LABELS.fullmatch(name) or len(name) > _LONGEST or address_of(name) is not None:
        raise BadRequest(
            "domain: must be your own domain, such as login.example.com; write other letters in ASCII (xn--…)", words="domain_malformed"
        )
    return name


def domain_set(domain: Domain, actor: Actor) -> Event:
    return _event("domain.set", domain, actor)


def domain_verified(domain: Domain, actor: Actor) -> Event:
    return _event("domain.verified", domain, actor)


def domain_deleted(domain: Domain, actor: Actor) -> Event:
    return _event("domain.deleted", domain, actor)


def domain_lost(domain: Domain) -> Event:
    return _event("domain.lost", domain, SYSTEM)


def _event(name: str, domain: Domain, actor: Actor) -> Event:
    return Event(name, actor, Target("organization", str(domain.organization)), domain.organization, {"domain": domain.name})


MOST_ROUTES: Final = 100


class JoinPolicy(StrEnum):
    """What happens to people of the domain who sign in and are not members yet."""

    OFF = "off"
    ASK = "ask"
    ON = "on"


class DomainRoute(Domain, kw_only=True):
    """How users of an email domain sign in, and whether they become members by signing in. Until the domain is verified, its route does
    nothing. `shared_provider` is a provider that all organizations use, `own_provider` one of the organization's own; at most one of them
    is set.
    """

    shared_provider: Provider | None = None
    own_provider: UpstreamProviderId | None = None
    login_policy: LoginPolicy
    join_policy: JoinPolicy
    updated_at: datetime

    @property
    def provider(self) -> str | None:
        """The provider's name in requests."""
        if self.own_provider is not None:
            return str(self.own_provider)
        return None if self.shared_provider is None else self.shared_provider.value


class DomainRouteChange(Frozen, kw_only=True):
    """A change of a route. Fields that are `UNCHANGED`, and policies that are None, keep their value. A `provider` of
    None removes the provider.
    """

    provider: str | Unchanged | None = UNCHANGED
    login_policy: LoginPolicy | None = None
    join_policy: JoinPolicy | None = None

    @property
    def named_provider(self) -> "NamedProvider":
        """Raises `BadRequest` for a text that cannot name a provider."""
        return NO_PROVIDER if isinstance(self.provider, Unchanged) else named(self.provider)

    def applied(self, before: DomainRoute, now: datetime) -> DomainRoute:
        """The route after the change; `before` itself when nothing changes. Raises `BadRequest`."""
        if self == DomainRouteChange():
            raise BadRequest("Send at least one of upstream_provider_id, login_policy and join_policy", words="nothing_to_change")
        shared, own = (before.shared_provider, before.own_provider) if isinstance(self.provider, Unchanged) else self.named_provider
        after = replace(
            before,
            shared_provider=shared,
            own_provider=own,
            login_policy=self.login_policy or before.login_policy,
            join_policy=self.join_policy or before.join_policy,
        )
        require_provider(after)
        return before if after == before else replace(after, updated_at=now)


def route_domain(text: str) -> str:
    """The name of the domain. Raises `BadRequest`."""
    name = domain_name(text)
    if name in FREE_MAIL:
        raise BadRequest(
            "domain: anyone can have an email address in this domain, so it cannot be an organization's own", words="domain_for_anybody"
        )
    return name


NamedProvider = tuple[Provider | None, UpstreamProviderId | None]
"""A shared provider, or one of the organization's own, or neither."""
NO_PROVIDER: Final[NamedProvider] = (None, None)


def named(provider: str | None) -> NamedProvider:
    """Raises `BadRequest` for a text that names no provider of either kind."""
    if provider is None:
        return NO_PROVIDER
    if provider in tuple(Provider):
        return Provider(provider), None
    try:
        return None, UpstreamProviderId(UUID(provider))
    except ValueError:
        raise BadRequest(UNKNOWN_PROVIDER, words="provider_not_here") from None


def require_provider(route: DomainRoute) -> None:
    """Raises `BadRequest`."""
    _require_provider_for(route.login_policy, route.provider)


def _require_provider_for(policy: LoginPolicy, provider: str | None) -> None:
    if policy is not LoginPolicy.PASSWORD_ALLOWED and provider is None:
        raise BadRequest(f"login_policy: {policy} needs a provider: name it as upstream_provider_id", words="route_needs_provider")


def faults_of(domain: str, provider: str | None, policy: LoginPolicy) -> Sequence[BadRequest]:
    """All that is wrong with what somebody wants, for a form that says it at once."""
    found = list[BadRequest]()
    for check in (lambda: route_domain(domain), lambda: named(provider), lambda: _require_provider_for(policy, provider)):
        try:
            check()
        except BadRequest as fault:
            found.append(fault)
    return found


TOO_MANY: Final = f"An organization has at most {MOST_ROUTES} domain routes"
UNKNOWN_PROVIDER: Final = (
    "upstream_provider_id: name codehost, websuite or officesuite, or one of the organization's own providers by its id, once a test of it"
    " has succeeded"
)


def route_created(route: DomainRoute, actor: Actor) -> Event:
    return _event_domain_route("domain_route.created", route, actor, _facts(route))


def route_updated(before: DomainRoute, after: DomainRoute, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    return _event_domain_route("domain_route.updated", after, actor, differences(_facts(before), _facts(after)))


def route_verified(route: DomainRoute, actor: Actor) -> Event:
    return _event_domain_route("domain_route.verified", route, actor, _facts(route))


def route_deleted(route: DomainRoute, actor: Actor) -> Event:
    return _event_domain_route("domain_route.deleted", route, actor, _facts(route))


def route_lost(route: DomainRoute) -> Event:
    return _event_domain_route("domain_route.lost", route, SYSTEM, {})


def _facts(route: DomainRoute) -> Mapping[str, Json]:
    return {
        "upstream_provider_id": route.provider,
        "login_policy": route.login_policy.value,
        "join_policy": route.join_policy.value,
    }


def _event_domain_route(name: str, route: DomainRoute, actor: Actor, details: Mapping[str, Json]) -> Event:
    facts: dict[str, Json] = {"domain_id": str(route.id), "domain": route.name, **details}
    return Event(name, actor, Target("organization", str(route.organization)), route.organization, facts)
