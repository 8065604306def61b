"""Applications behind a reverse proxy, which asks Postern about each request: their hosts, path rules, and forwarded headers."""

import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.services.proxy_paths import PathPlace, is_within, place_of
from core.domain.services.services import Service, ServiceType
from core.frozen import Frozen, replace, values_of

MOST_HOSTS: Final = 20
MOST_PATH_RULES: Final = 100
MOST_HEADERS: Final = 20
LONGEST_RULE: Final = 500
LONGEST_HEADER: Final = 120
LONGEST_IDLE: Final = 43_200
"""In minutes: 30 days, which no session outlives without use."""
SHORTEST_IDLE: Final = 5
"""The use of a session is written once a minute."""
OWN_PATH: Final = "/.postern"
"""What the proxy leads to Postern, on each host of the application."""
RETURN_PATH: Final = f"{OWN_PATH}/return"

# The different lists of busy applications.
_READ: Final = 256
_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\.[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_AS_THEY_ARE: Final = "/!$&'()*+,=:@"
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")
OTHER_PATH_HEADERS: Final = ("x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-path", "x-waws-unencoded-url")
"""Servers behind a proxy say the path in them, and frameworks prefer it to the request's own."""
PREFIX_HEADERS: Final = ("x-script-name", "x-forwarded-prefix")
"""Applications cut off the path what stands in them, and read another one."""
# What means something to proxies, browsers or Postern itself, or ends at the next hop (RFC 9110 section 7.6.1).
_TAKEN: Final = frozenset(
    {
        *("accept", "age", "allow", "alt-svc", "authorization", "cache-control", "connection", "cookie", "cookie2", "date", "destination"),
        *("etag", "expect", "expires", "forwarded", "from", "host", "keep-alive", "last-modified", "link", "location", "max-forwards"),
        *("origin", "pragma", "range", "referer", "refresh", "retry-after", "server", "set-cookie", "strict-transport-security", "te"),
        *("trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning", "www-authenticate", "x-request-id"),
        *("x-real-ip", "x-http-method-override", "x-method-override", "x-http-method"),
        *OTHER_PATH_HEADERS,
        *PREFIX_HEADERS,
    }
)
_TAKEN_BEGINNINGS: Final = (
    *("accept-", "access-control-", "content-", "cross-origin-", "http2-", "if-", "proxy-", "sec-", "x-accel-", "x-forwarded-"),
    *("x-postern-", "x-original-", "x-content-"),
)

# What applications take for the account itself. People choose their own names.
_NAMING: Final = frozenset({"remote-user", "x-webauth-user", "x-remote-user", "x-auth-request-user"})


class DemandKind(StrEnum):
    """What a path asks of whoever comes."""

    OPEN = "open"
    """Nothing."""
    SIGNED_IN = "signed_in"
    ROLE = "role"
    PERMISSION = "permission"


class PathDemand(Frozen):
    kind: DemandKind
    name: str = ""
    """The slug of a role, or the key of a permission."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind.value

    def is_met(self, roles: Collection[str], permissions: Collection[str]) -> bool:
        """Whether somebody with these rights meets it, who is signed in."""
        match self.kind:
            case DemandKind.ROLE:
                return self.name in roles
            case DemandKind.PERMISSION:
                return self.name in permissions
            case _:
                return True


SIGNED_IN: Final = PathDemand(DemandKind.SIGNED_IN)
_OPEN: Final = PathDemand(DemandKind.OPEN)


class PathRule(Frozen):
    path: str
    folded: str
    """The path for an application that knows no case."""
    demand: PathDemand


class TellingPart(StrEnum):
    """The data of a person that a header can tell the application."""

    ID = "id"
    EMAIL = "email"
    """Only an address that somebody has proved: an application takes it for the person's name."""
    NAME = "name"
    USERNAME = "username"
    GROUPS = "groups"
    """The person's teams."""
    ROLES = "roles"
    PERMISSIONS = "permissions"


# No two people have the same.
_UNIQUE: Final = frozenset({TellingPart.ID, TellingPart.EMAIL, TellingPart.USERNAME})


class ToldHeader(Frozen):
    name: str
    part: TellingPart


USUAL_HEADERS: Final = ("Remote-User email", "Remote-Email email", "Remote-Name name", "Remote-Groups groups")
USUAL_NAMES: Final = ("Remote-User", "Remote-Email", "Remote-Name", "Remote-Groups")
"""Each answer has these, whatever else the organization names: an application may trust them, so a client's must never pass."""


class ProxySettings(Frozen, kw_only=True):
    """What an organization sets of an application behind a proxy. Rules and headers are lines, as people write them:
    `/admin role editor`, `Remote-User email`.
    """

    hosts: Sequence[str] = ()
    rules: Sequence[str] = ()
    headers: Sequence[str] = USUAL_HEADERS
    idle_minutes: int | None = None
    """A session without use for longer ends for the application. None: with the browser's session."""

    @property
    def path_rules(self) -> tuple[PathRule, ...]:
        return _rules(tuple(self.rules))

    @property
    def told_headers(self) -> tuple[ToldHeader, ...]:
        return _headers(tuple(self.headers))

    @property
    def idle(self) -> timedelta | None:
        return None if self.idle_minutes is None else timedelta(minutes=self.idle_minutes)


class ProxySettingsChange(RecordChange, kw_only=True):
    """A list replaces the earlier list."""

    hosts: Sequence[str] | Unchanged = UNCHANGED
    rules: Sequence[str] | Unchanged = UNCHANGED
    headers: Sequence[str] | Unchanged = UNCHANGED
    idle_minutes: int | Unchanged | None = UNCHANGED


class KeptProxy(Frozen, kw_only=True):
    """What is set of an application behind a proxy, with what the database knows about it."""

    settings: ProxySettings
    approved_hosts: Sequence[str] = ()
    """Those that a platform owner has let in without a proof."""
    closed_hosts: Sequence[str] = ()
    """Those that nothing comes through: the organization has no proof of their domain any more, or another organization has one."""


class PathPreview(Frozen):
    """What a request for a path would be asked."""

    place: str | None
    """The path as the rules see it. None if it can be read in several ways, and has to meet every rule."""
    demands: Sequence[PathDemand]


def checked(settings: ProxySettings) -> ProxySettings:
    """The settings as they are kept. Raises `BadRequest`."""
    hosts = tuple(host_name(host, f"hosts[{at}]") for at, host in enumerate(settings.hosts))
    for field, ones, most in (
        ("hosts", hosts, MOST_HOSTS),
        ("rules", settings.rules, MOST_PATH_RULES),
        ("headers", settings.headers, MOST_HEADERS),
    ):
        if len(ones) > most:
            raise BadRequest(f"{field}: at most {most}", words="field_list", values={"most": most})
    if len(set(hosts)) < len(hosts):
        raise BadRequest("hosts: each can be listed only once", words="field_once")
    rules = settings.path_rules
    seen: set[str] = set()
    for at, rule in enumerate(rules):
        # Two rules that differ in case alone: for an application that knows no case, one of them never fits.
        if rule.folded in seen:
            raise BadRequest(f"rules[{at}]: another rule already has this path, so this one never applies", words="proxy_rule_twice")
        seen.add(rule.folded)
    headers = [parsed_header(line, f"headers[{at}]") for at, line in enumerate(settings.headers)]
    if len({header.name.lower() for header in headers}) < len(headers):
        raise BadRequest("headers: each can be listed only once", words="field_once")
    if settings.idle_minutes is not None and not SHORTEST_IDLE <= settings.idle_minutes <= LONGEST_IDLE:
        raise BadRequest(
            f"idle_minutes: {SHORTEST_IDLE} to {LONGEST_IDLE}, or null",
            words="number_range",
            values={"least": SHORTEST_IDLE, "most": LONGEST_IDLE},
        )
    return replace(
        settings,
        hosts=hosts,
        rules=tuple(f"{rule.path} {rule.demand}" for rule in rules),
        headers=tuple(f"{header.name} {header.part}" for header in headers),
    )


def host_name(text: str, field: str) -> str:
    """Raises `BadRequest`."""
    host = text.strip().lower()
    if not _HOST.fullmatch(host):
        raise BadRequest(f"{field}: a name with a dot, such as wiki.acme.example: no https://, no port, no path, no *", words="proxy_host")
    return host


# Each request to an application reads its rules and headers.
@lru_cache(maxsize=_READ)
def _rules(lines: tuple[str, ...]) -> tuple[PathRule, ...]:
    return tuple(parsed_rule(line, f"rules[{at}]") for at, line in enumerate(lines))


@lru_cache(maxsize=_READ)
def _headers(lines: tuple[str, ...]) -> tuple[ToldHeader, ...]:
    # Those that are kept were free when they were set: a name that we have come to know since shuts no application.
    return tuple(_header(line, f"headers[{at}]") for at, line in enumerate(lines))


def parsed_rule(line: str, field: str = "rules") -> PathRule:
    """Raises `BadRequest` for a line that is no rule, and for a path that no request ever has."""
    words = line.split() if len(line) <= LONGEST_RULE else []
    match words:
        case [path, DemandKind.OPEN | DemandKind.SIGNED_IN as kind]:
            demand = PathDemand(DemandKind(kind))
        case [path, DemandKind.ROLE | DemandKind.PERMISSION as kind, name]:
            demand = PathDemand(DemandKind(kind), name)
        case _:
            raise BadRequest(
                f"{field}: a path and its requirement: `/public open`, `/ signed_in`, `/admin role editor` or `/docs permission read`",
                words="proxy_rule",
            )
    path = path if path == "/" else path.removesuffix("/")
    place = place_of(quote(path, safe=_AS_THEY_ARE))
    if place is None or place.text != path:
        raise BadRequest(
            f"{field}: {path} never matches: a rule's path begins with a slash and has no `//`, no `..`, no %, no ; and no query",
            words="proxy_rule_never",
        )
    if is_within(place.folded, OWN_PATH):
        raise BadRequest(f"{field}: paths below {OWN_PATH} belong to Postern, so the rule never applies", words="proxy_rule_ours")
    return PathRule(path, place.folded, demand)


def parsed_header(line: str, field: str = "headers") -> ToldHeader:
    """Raises `BadRequest` for a line that is no header, and for one that others use."""
    header = _header(line, field)
    name = header.name.lower()
    if name in _TAKEN or name.startswith(_TAKEN_BEGINNINGS):
        raise BadRequest(
            f"{field}: {header.name} has a meaning for proxies, browsers or Postern: choose another name", words="proxy_header_taken"
        )
    if name in _NAMING and header.part not in _UNIQUE:
        raise BadRequest(
            f"{field}: applications use {header.name} as the account, and two people may share {header.part}: use "
            f"{', '.join(sorted(_UNIQUE))}",
            words="proxy_header_shared",
        )
    return header


def _header(line: str, field: str) -> ToldHeader:
    words = line.split() if len(line) <= LONGEST_HEADER else []
    if len(words) != 2 or words[1] not in set(TellingPart) or not _HEADER.fullmatch(words[0]):
        raise BadRequest(
            f"{field}: a header of letters, digits and -, and its value ({', '.join(TellingPart)}), as in `Remote-User email`",
            words="proxy_header",
        )
    return ToldHeader(words[0], TellingPart(words[1]))


def require_proxy(service: Service) -> None:
    """Raises `BadRequest`."""
    if service.service_type is not ServiceType.PROXY:
        raise BadRequest(
            f"This is a {service.service_type} service; only a service of the type proxy can be behind a reverse proxy", words="proxy_other"
        )


def require_known(settings: ProxySettings, roles: Collection[str], permissions: Collection[str]) -> None:
    """Raises `BadRequest` for a rule that names no role or permission of the application: nobody could meet it."""
    for at, rule in enumerate(settings.path_rules):
        demand = rule.demand
        known = roles if demand.kind is DemandKind.ROLE else permissions if demand.kind is DemandKind.PERMISSION else (demand.name,)
        if demand.name not in known:
            raise BadRequest(
                f"rules[{at}]: the application has no {demand.kind} {demand.name}, so no one could satisfy the rule",
                words="proxy_rule_nobody",
            )


def demands_of(rules: Sequence[PathRule], target: str) -> PathPreview:
    """What a request for this target has to meet: all of it. A path without a rule asks for a sign-in. A target that can be read in several
    ways has to meet every rule; one that a rule fits only without regard to case, without an ending that no rule names, or behind a
    segment that may be a script, both rules.
    """
    place = place_of(target)
    if place is None:
        everything = [rule.demand for rule in rules]
        if not any(rule.path == "/" for rule in rules):
            everything.append(SIGNED_IN)
        return PathPreview(None, _strictest(everything))
    asked = _asked(rules, place, SIGNED_IN)
    for cut in place.script_cuts:
        # Rules of the directory, and above it, say nothing of the rest: they have been asked about the whole path.
        below = [rule for rule in rules if rule.folded.startswith(cut.beginning)]
        if below:
            asked += _asked(below, place.without(cut), _OPEN)
    return PathPreview(place.text, _strictest(asked))


def _asked(rules: Sequence[PathRule], place: PathPlace, otherwise: PathDemand) -> list[PathDemand]:
    """By each way to read the place."""
    plain = [(rule.path, rule.demand) for rule in rules]
    folded = {rule.folded: rule.demand for rule in rules}
    loose = _fitting(list(folded.items()), place.folded, otherwise)
    # Whoever opens `/feed.xml` means that file.
    unended = loose if place.folded.removesuffix("/") in folded else folded.get(place.unended, loose)
    return [_fitting(plain, place.written, otherwise), _fitting(plain, place.text, otherwise), loose, unended]


def _fitting(rules: Sequence[tuple[str, PathDemand]], place: str, otherwise: PathDemand) -> PathDemand:
    """That of the longest path."""
    longest, found = "", otherwise
    for path, demand in rules:
        if len(path) > len(longest) and is_within(place, path):
            longest, found = path, demand
    return found


def _strictest(demands: Sequence[PathDemand]) -> tuple[PathDemand, ...]:
    """Each once, without those that the others include."""
    each = tuple(dict.fromkeys(demands))
    named = tuple(one for one in each if one.name)
    if named:
        return named
    return (SIGNED_IN,) if SIGNED_IN in each else each


def changed(before: ProxySettings, change: ProxySettingsChange) -> ProxySettings:
    """Raises `BadRequest`."""
    return checked(replace(before, **change.said))


def domains_above(host: str) -> tuple[str, ...]:
    """The host and the domains that it lies in, the nearest first."""
    labels = host.split(".")
    return tuple(".".join(labels[at:]) for at in range(len(labels) - 1))


def unproved(host: str) -> BadRequest:
    return BadRequest(
        f"hosts: {host} is not in a verified domain of the organization. Verify the domain, or ask a platform owner to set the host",
        words="proxy_host_unproved",
        values={"host": host},
    )


def host_taken(host: str) -> Conflict:
    return Conflict(f"hosts: {host} is another application's already: one host has one", words="proxy_host_taken", values={"host": host})


def proxy_updated(before: ProxySettings, after: ProxySettings, service: Service, actor: Actor, approved: Sequence[str]) -> Event:
    """The event says what changed, with the earlier values, and which hosts a platform owner has let in without a proof."""
    details: dict[str, Json] = {"service_slug": service.slug, **differences(values_of(before), values_of(after))}
    if approved:
        details["approved_hosts"] = list(approved)
    return Event("service.proxy.updated", actor, Target("service", str(service.id)), service.organization, details)


def return_addresses(hosts: Sequence[str]) -> tuple[str, ...]:
    """The redirect URIs of the application: one a host."""
    return tuple(f"https://{host}{RETURN_PATH}" for host in hosts)
