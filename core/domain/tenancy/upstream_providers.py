"""Upstream providers of an organization's own: any provider that speaks OpenID Connect, known by its issuer, with the
organization's client there.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.json import Json
from core.domain.lines import typed_line
from core.domain.outbound.destinations import NotADestination, destination
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.profile_fields import is_field_key
from core.frozen import Frozen

# Each provider is a button on the organization's sign-in page.
MOST_PROVIDERS: Final = 20
LONGEST_NAME: Final = 100
LONGEST_ISSUER: Final = 500
MOST_SCOPES: Final = 20
LONGEST_SCOPE: Final = 200
MOST_MAPPED: Final = 50
LONGEST_CLAIM: Final = 200
# RFC 6749 section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


NO_MAPPING: Final[Mapping[str, str]] = MappingProxyType({})


class UpstreamProvider(Frozen, kw_only=True):
    """The provider without the client's secret, which is opened only for use."""

    id: UpstreamProviderId
    organization: OrganizationId
    name: str
    issuer: str
    client_id: str
    scopes: tuple[str, ...]
    """Scopes to ask for, besides those that identify a person."""
    enabled: bool
    profile_mapping: Mapping[str, str] = NO_MAPPING
    """The keys of the organization's fields, by the provider's claims that are written into them at each sign-in."""
    created_at: datetime
    updated_at: datetime


def sealing_context(provider: UpstreamProviderId) -> str:
    return f"upstream_providers.sealed_client_secret:{provider}"


def provider_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters")
    return name


def issuer(text: str) -> str:
    """The issuer, byte for byte as the provider's tokens have it (OpenID Connect Core, section 2). Raises `BadRequest`."""
    try:
        destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"issuer: {refusal}") from None
    if "?" in text or len(text) > LONGEST_ISSUER:
        raise BadRequest(f"issuer: a URL of at most {LONGEST_ISSUER} characters, without a query")
    return text


def scopes(texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) > MOST_SCOPES or not all(len(one) <= LONGEST_SCOPE and _SCOPE.fullmatch(one) for one in texts):
        raise BadRequest(f"scopes: at most {MOST_SCOPES}, of at most {LONGEST_SCOPE} visible characters each, without quotes")
    return tuple(dict.fromkeys(texts))


def profile_mapping(given: Mapping[str, str]) -> Mapping[str, str]:
    """Raises `BadRequest`. A field that does not exist, or that providers may not write, is ignored at the sign-in: it may come later."""
    if len(given) > MOST_MAPPED:
        raise BadRequest(f"profile_mapping: at most {MOST_MAPPED} claims")
    if not all(1 <= len(claim) <= LONGEST_CLAIM and claim.isprintable() for claim in given):
        raise BadRequest(f"profile_mapping: the name of a claim has 1 to {LONGEST_CLAIM} visible characters")
    if not all(is_field_key(key) for key in given.values()):
        raise BadRequest("profile_mapping: each claim is mapped to the key of a field")
    if len(set(given.values())) < len(given):
        raise BadRequest("profile_mapping: each field only once")
    return dict(given)


def require_room(count: int) -> None:
    if count >= MOST_PROVIDERS:
        raise BadRequest(f"An organization has at most {MOST_PROVIDERS} upstream providers: delete one first")


def provider_created(provider: UpstreamProvider, actor: Actor) -> Event:
    return _event("organization.upstream_provider.created", provider, actor, _told(provider))


def provider_updated(before: UpstreamProvider, after: UpstreamProvider, actor: Actor, *, secret: bool) -> Event:
    """The event says what changed, with the earlier values."""
    old, new = _told(before), _told(after)
    details: dict[str, Json] = {"name": after.name}
    for field, value in new.items():
        if old[field] != value:
            details |= {f"old_{field}": old[field], f"new_{field}": value}
    if secret:
        details["secret_changed"] = True
    return _event("organization.upstream_provider.updated", after, actor, details)


def provider_deleted(provider: UpstreamProvider, actor: Actor) -> Event:
    return _event("organization.upstream_provider.deleted", provider, actor, _told(provider))


def _told(provider: UpstreamProvider) -> Mapping[str, Json]:
    return {
        "name": provider.name,
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "scopes": list(provider.scopes),
        "enabled": provider.enabled,
        "profile_mapping": dict(provider.profile_mapping),
    }


def _event(name: str, provider: UpstreamProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("upstream_provider", str(provider.id)), provider.organization, details)
