"""Checks a request on its way to an application behind a reverse proxy: the user, the path rule, and the forwarded headers."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import TokenUse
from core.domain.secrets import Token
from core.domain.services.proxies import (
    USUAL_NAMES,
    DemandKind,
    ProxySettings,
    TellingPart,
    demands_of,
)
from core.domain.services.user_keys import KnownUserKey, key_verdict
from core.frozen import Frozen

ASSERTION_LIFETIME: Final = timedelta(seconds=60)
ASSERTION_HEADER: Final = "X-Postern-Assertion"
LONGEST_TOLD: Final = 2048
"""Of one header. What is longer is told in the assertion alone: proxies refuse long headers."""
MOST_TOLD: Final = 200
_SCOPES: Final[Mapping[TellingPart, str]] = {
    TellingPart.EMAIL: "email",
    TellingPart.NAME: "profile",
    TellingPart.USERNAME: "profile",
    TellingPart.GROUPS: "groups",
    TellingPart.ROLES: "roles",
    TellingPart.PERMISSIONS: "roles",
}
_NOTHING: Final = {name.lower(): (name, "") for name in USUAL_NAMES}


class ProxiedRequest(Frozen, kw_only=True):
    """What the proxy says of the request. All of it counts only with a secret of the application."""

    secret: bytes
    """Its digest."""
    host: str
    """Empty if the proxy named none, or several."""
    target: str
    cookie: bytes = b""
    """The digest of the cookie on this host. Empty without one."""
    key: bytes = b""
    """The digest of a user key that a program shows. Empty without one."""
    own_token: str = ""
    """A token that may be the application's own."""

    @property
    def shows_credential(self) -> bool:
        return bool(self.key or self.own_token)


class ProxiedPerson(Frozen, kw_only=True):
    """Somebody whom a cookie or a key stands for. `scopes` are what the person has let the application know."""

    user: UserId
    session: SessionId | None
    parent: SessionId | None
    """The session of the browser, which this one was opened from."""
    last_seen_at: datetime | None
    key: KnownUserKey | None
    email: str
    email_is_verified: bool
    name: str
    username: str
    scopes: Collection[str]
    roles: Sequence[str]
    permissions: Sequence[str]
    groups: Sequence[str]
    is_admitted: bool
    owes_second_factor: bool


class FoundProxy(Frozen, kw_only=True):
    """The application whose secret the proxy has shown, as one look-up finds it, with whoever comes."""

    secret: ClientSecretId
    service: ServiceId
    organization: OrganizationId
    organization_slug: str
    service_slug: str
    service_name: str
    client: ClientId
    settings: ProxySettings
    is_active: bool
    """The organization is active."""
    has_host: bool
    """The host is the application's: by the organization's proof of its domain or, where nobody has a proof, by a platform owner's word."""
    person: ProxiedPerson | None

    @property
    def is_open(self) -> bool:
        """Requests may come through, if the path lets them."""
        return self.is_active and self.has_host


class ProxyOutcome(StrEnum):
    ALLOWED = "allowed"
    SIGN_IN = "sign_in"
    """Nobody comes, or nobody who counts."""
    NOT_ADMITTED = "not_admitted"
    """The application does not let the person in."""
    NOT_ALLOWED = "not_allowed"
    """The person lacks what the path asks for."""
    CLOSED = "closed"
    """The organization is not active, or the host is not, or no more, the application's."""


class ProxyVerdict(Frozen, kw_only=True):
    outcome: ProxyOutcome
    person: ProxiedPerson | None = None
    """Who comes, if the application is told."""
    of_application: bool = False
    """The application's own token opens the path: it stands for no person."""
    credential_failed: bool = False
    """A program has shown something that opens nothing."""


def verdict(found: FoundProxy, request: ProxiedRequest, now: datetime, *, own_token: bool) -> ProxyVerdict:
    """`own_token`: the shown token is the application's own."""
    if not found.is_open:
        return ProxyVerdict(outcome=ProxyOutcome.CLOSED)
    demands = demands_of(found.settings.path_rules, request.target).demands
    if own_token:
        # It has no roles, because nobody has given it any.
        plain = all(not demand.name for demand in demands)
        return ProxyVerdict(outcome=ProxyOutcome.ALLOWED if plain else ProxyOutcome.NOT_ALLOWED, of_application=True)
    person = _counting(found, request, now)
    is_public = all(demand.kind is DemandKind.OPEN for demand in demands)
    if person is not None and not person.is_admitted:
        return ProxyVerdict(outcome=ProxyOutcome.ALLOWED if is_public else ProxyOutcome.NOT_ADMITTED)
    if is_public:
        return ProxyVerdict(outcome=ProxyOutcome.ALLOWED, person=person)
    if person is None:
        return ProxyVerdict(outcome=ProxyOutcome.SIGN_IN, credential_failed=request.shows_credential)
    meets = all(demand.is_met(person.roles, person.permissions) for demand in demands)
    return ProxyVerdict(outcome=ProxyOutcome.ALLOWED if meets else ProxyOutcome.NOT_ALLOWED, person=person)


def _counting(found: FoundProxy, request: ProxiedRequest, now: datetime) -> ProxiedPerson | None:
    """Whoever comes, if the key is good, and the session neither idle nor without a second factor that the organization asks for."""
    person = found.person
    if person is None:
        return None
    if person.key is not None:
        return None if key_verdict(person.key, request.key, (), now).key is None else person
    return None if is_idle(person, found.settings, now) or person.owes_second_factor else person


def is_idle(person: ProxiedPerson, settings: ProxySettings, now: datetime) -> bool:
    return settings.idle is not None and person.last_seen_at is not None and person.last_seen_at + settings.idle <= now


def asked_scopes(settings: ProxySettings) -> tuple[str, ...]:
    """What a sign-in asks for: as much as the headers tell."""
    return ("openid", *sorted({_SCOPES[header.part] for header in settings.told_headers if header.part in _SCOPES}))


def told(settings: ProxySettings, values: Mapping[TellingPart, str]) -> tuple[tuple[str, str], ...]:
    """All headers, in the same order whoever comes: what there is nothing to tell in is empty, so that nothing of a client's passes."""
    headers = dict(_NOTHING)
    for header in settings.told_headers:
        headers[header.name.lower()] = (header.name, header_text(values.get(header.part, "")))
    return tuple(headers.values())


def known_values(person: ProxiedPerson | None) -> Mapping[TellingPart, str]:
    """What the person has let the application know. Nothing, if nobody comes."""
    if person is None:
        return {}
    values: Mapping[TellingPart, str] = {
        TellingPart.ID: str(person.user),
        TellingPart.EMAIL: person.email if person.email_is_verified else "",
        TellingPart.NAME: person.name,
        TellingPart.USERNAME: person.username,
        TellingPart.GROUPS: ",".join(person.groups[:MOST_TOLD]),
        TellingPart.ROLES: ",".join(person.roles[:MOST_TOLD]),
        TellingPart.PERMISSIONS: ",".join(person.permissions[:MOST_TOLD]),
    }
    return {part: value for part, value in values.items() if part not in _SCOPES or _SCOPES[part] in person.scopes}


def header_text(text: str) -> str:
    """The text as a header can have it: on one line, and not too long. Nothing is told by halves."""
    plain = text if text.isprintable() else "".join(mark if mark.isprintable() else " " for mark in text)
    line = " ".join(plain.split())
    return line if len(line.encode()) <= LONGEST_TOLD else ""


def assertion_claims(
    found: FoundProxy, host: str, given: ProxyVerdict, values: Mapping[TellingPart, str], *, issuer: str, now: datetime
) -> Mapping[str, Json]:
    """The claims of the assertion, which says the same as the headers, signed."""
    claims: dict[str, Json] = {
        "iss": issuer,
        "sub": found.client,
        "aud": found.client,
        "iat": int(now.timestamp()),
        "exp": int((now + ASSERTION_LIFETIME).timestamp()),
        "token_use": TokenUse.PROXY.value,
        "host": host,
        "org": found.organization_slug,
        "service": found.service_slug,
    }
    person = given.person
    if person is None:
        return claims
    claims["sub"] = str(person.user)
    if person.session is not None:
        claims["sid"] = str(person.session)
    parts = {header.part for header in found.settings.told_headers if values.get(header.part)}
    said: Mapping[TellingPart, tuple[str, Json]] = {
        TellingPart.EMAIL: ("email", person.email),
        TellingPart.NAME: ("name", person.name),
        TellingPart.USERNAME: ("preferred_username", person.username),
        TellingPart.GROUPS: ("groups", list(person.groups[:MOST_TOLD])),
        TellingPart.ROLES: ("roles", list(person.roles[:MOST_TOLD])),
        TellingPart.PERMISSIONS: ("permissions", list(person.permissions[:MOST_TOLD])),
    }
    claims |= {name: value for part, (name, value) in said.items() if part in parts}
    if TellingPart.EMAIL in parts:
        claims["email_verified"] = True
    return claims


def is_own_token(claims: Mapping[str, Json], found: FoundProxy) -> bool:
    """Whether a token of ours is one that the application has in its own name, for itself and no API."""
    return (
        claims.get("token_use") == TokenUse.CLIENT
        and claims.get("client_id") == found.client
        and claims.get("service_id") == str(found.service)
        and claims.get("aud") == f"services:{found.organization_slug}"
        and "resource_id" not in claims
    )


def cookie_digest(host: str, cookie: Token) -> bytes:
    """As the database keeps the cookie of a host. The host is in it: the cookie opens this host alone, and is no refresh token."""
    return sha256(f"proxy\n{host}\n{cookie.reveal()}".encode()).digest()


def state_of(verifier: Token) -> str:
    """What the browser brings back beside the code. Only who knows the verifier, which a cookie of the host has, can make it."""
    return sha256(f"proxy state\n{verifier.reveal()}".encode()).hexdigest()


def place_to_return(text: str) -> str:
    """The path that a person wanted, for a redirect on the same host. Whatever could lead elsewhere becomes the beginning."""
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= LONGEST_TOLD
    if not plain or not text.startswith("/") or text.startswith(("//", "/\\")) or "\\" in text.partition("?")[0]:
        return "/"
    return text
