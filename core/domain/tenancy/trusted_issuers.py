"""Trusted issuers: workload identity federation by the JWT bearer grant (RFC 7523)."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, get_type_hints
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import ManagementKeyId, OrganizationId, ServiceId, TrustedIssuerId
from core.domain.identity.upstream.jwt_assertions import (
    AcceptedAssertion,
    AssertionFault,
    AssertionRefused,
    AssertionRules,
    SignedToken,
    TrustedKeys,
    accepted_assertion,
)
from core.domain.lines import typed_line
from core.domain.outbound import client_keys, keys_destination
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.frozen import Frozen, names_of, replace, values_of

MOST_OF_ONE: Final = 10
"""The limit for one service or one management key."""
MOST_TRUSTED_ISSUERS: Final = 500
"""The limit for one organization. A list shows all of them at once."""
MOST_CLAIMS: Final = 10
LONGEST_NAME: Final = 100
LONGEST_ISSUER: Final = 500
LONGEST_AUDIENCE: Final = 500
LONGEST_PATTERN: Final = 500
LONGEST_CLAIM: Final = 100
LONGEST_VALUE: Final = 500
LONGEST_LIFE: Final = timedelta(hours=24)
"""The token of a build job lives as long as the job may run, and one of a cluster is renewed before its end. Both are used again while they
live, so their life is bounded.
"""
ANY: Final = "*"
_SEPARATOR: Final = re.compile(r"([:/])")
# What a star stands for.
_SEGMENT: Final = re.compile(r"[\x21-\x2e\x30-\x39\x3b-\x7e]+")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LEADING: Final = 2
_CHECKED_ELSEWHERE: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
_LARGEST_NUMBER: Final = 2**53

ClaimValue = str | int | bool


class TrustedIssuerSettings(Frozen, kw_only=True):
    """What an organization sets. One of `jwks_uri` and `jwks` is there."""

    name: str
    issuer: str
    audience: str
    jwks_uri: str | None = None
    jwks: Mapping[str, Json] | None = None
    subject_pattern: str
    claims: Mapping[str, Json] = {}


TEXTS: Final = tuple(name for name, kind in get_type_hints(TrustedIssuerSettings).items() if kind is str)
"""The settings that are texts."""


class TrustedIssuer(TrustedIssuerSettings, kw_only=True):
    """A rule of an application or of a management API key: the signed tokens of an issuer take the place of a secret. A build job or a
    cluster has such tokens of its own, and presents one to get a token as an application, or with the rights of the key. The rule is found
    by the application or key that asks alone. It names the issuer, the audience, the issuer's keys, a pattern for the subject, and claims
    that must match. One of `service` and `key` is set.
    """

    id: TrustedIssuerId
    organization: OrganizationId
    service: ServiceId | None = None
    service_slug: str | None = None
    key: ManagementKeyId | None = None
    last_used_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def keys(self) -> TrustedKeys:
        return TrustedKeys(self.jwks_uri, self.jwks)


class TrustedIssuerChange(RecordChange, kw_only=True):
    name: str | Unchanged = UNCHANGED
    issuer: str | Unchanged = UNCHANGED
    audience: str | Unchanged = UNCHANGED
    jwks_uri: str | Unchanged | None = UNCHANGED
    jwks: Mapping[str, Json] | Unchanged | None = UNCHANGED
    subject_pattern: str | Unchanged = UNCHANGED
    claims: Mapping[str, Json] | Unchanged = UNCHANGED


def made(id_: UUID, organization: OrganizationId, settings: TrustedIssuerSettings, *, own_issuer: str, now: datetime) -> TrustedIssuer:
    """Raises `BadRequest`."""
    return checked(
        TrustedIssuer(id=TrustedIssuerId(id_), organization=organization, created_at=now, updated_at=now, **values_of(settings)), own_issuer
    )


def changed(before: TrustedIssuer, change: TrustedIssuerChange, *, own_issuer: str, now: datetime) -> TrustedIssuer:
    """The rule after the change; `before` itself when nothing differs. Keys that are sent take the place of the others. Raises
    `BadRequest`.
    """
    said = dict(change.said)
    if said.get("jwks") is not None and "jwks_uri" not in said:
        said["jwks_uri"] = None
    if said.get("jwks_uri") is not None and "jwks" not in said:
        said["jwks"] = None
    after = checked(replace(before, **said), own_issuer)
    return before if after == before else replace(after, updated_at=now)


def checked(rule: TrustedIssuer, own_issuer: str) -> TrustedIssuer:
    """The rule as it is stored. Raises `BadRequest`."""
    name = typed_line("name", rule.name)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    if not rule.issuer.startswith(("https://", "http://")) or not _is_visible(rule.issuer, LONGEST_ISSUER):
        raise BadRequest(f"issuer: the URL in the token's iss claim, at most {LONGEST_ISSUER} characters", words="web_address")
    if rule.issuer.rstrip("/") == own_issuer.rstrip("/"):
        raise BadRequest("issuer: this installation's own tokens cannot be used as assertions", words="issuer_is_own")
    if not _is_visible(rule.audience, LONGEST_AUDIENCE):
        raise BadRequest(
            f"audience: 1 to {LONGEST_AUDIENCE} visible ASCII characters, as in the token's aud",
            words="field_visible",
            values={"most": LONGEST_AUDIENCE},
        )
    if (rule.jwks_uri is None) == (rule.jwks is None):
        raise BadRequest("jwks_uri: send either the URL of the issuer's keys, or the keys as jwks", words="keys_one_of_two")
    if rule.jwks_uri is not None:
        keys_destination(rule.jwks_uri)
    jwks = None if rule.jwks is None else client_keys(rule.jwks)
    return replace(rule, name=name, jwks=jwks, subject_pattern=checked_pattern(rule.subject_pattern), claims=checked_claims(rule.claims))


def _is_visible(text: str, longest: int) -> bool:
    return len(text) <= longest and _VISIBLE.fullmatch(text) is not None


def checked_pattern(pattern: str) -> str:
    """Raises `BadRequest` for a star that is not a whole part between separators, or one of the first two parts. These name the tenant at
    an issuer of many: without them, everybody's jobs would match.
    """
    if not 1 <= len(pattern) <= LONGEST_PATTERN or not pattern.isprintable() or pattern != pattern.strip():
        raise BadRequest(
            f"subject_pattern: 1 to {LONGEST_PATTERN} printable characters, without leading and trailing spaces",
            words="field_length",
            values={"least": 1, "most": LONGEST_PATTERN},
        )
    parts = _SEPARATOR.split(pattern)[::2]
    if any(ANY in part and part != ANY for part in parts):
        raise BadRequest(
            "subject_pattern: * matches one whole part between : and /, as in repo:acme/*:ref:refs/heads/main", words="pattern_star"
        )
    if ANY in [part for part in parts if part][:_LEADING]:
        raise BadRequest("subject_pattern: the first two parts must be literal; * can follow after them", words="pattern_leading")
    return pattern


def checked_claims(claims: Mapping[str, Any]) -> Mapping[str, Json]:
    """Raises `BadRequest`."""
    if len(claims) > MOST_CLAIMS:
        raise BadRequest(f"claims: at most {MOST_CLAIMS}", words="field_list", values={"most": MOST_CLAIMS})
    for name, value in claims.items():
        if not _is_visible(name, LONGEST_CLAIM) or name in _CHECKED_ELSEWHERE:
            raise BadRequest(
                f"claims: names have 1 to {LONGEST_CLAIM} visible ASCII characters; iss, sub, aud, exp, nbf, iat, jti are always checked",
                words="claim_name",
                values={"most": LONGEST_CLAIM},
            )
        is_text = isinstance(value, str) and len(value) <= LONGEST_VALUE and value.isprintable()
        if not is_text and not (isinstance(value, int) and abs(value) < _LARGEST_NUMBER):
            raise BadRequest(
                f"claims.{name}: a text of at most {LONGEST_VALUE} printable characters, a whole number, true or false",
                words="claim_value",
                values={"most": LONGEST_VALUE},
            )
    return {name: claims[name] for name in sorted(claims)}


def matches(pattern: str, subject: str) -> bool:
    """Each character counts, also its case. A star stands for one or more visible ASCII characters, none of them a separator. Letters that
    look alike do not match, and a subject with anything but ASCII in the place of a star matches nothing.
    """
    wanted, given = _SEPARATOR.split(pattern), _SEPARATOR.split(subject)
    return len(wanted) == len(given) and all(
        one == other if one != ANY else _SEGMENT.fullmatch(other) is not None for one, other in zip(wanted, given, strict=True)
    )


def claimed_issuer(assertion: str) -> str | None:
    """The issuer that an assertion names, before anything is verified: it chooses among the rules of whoever asks. None for no issuer."""
    try:
        encoded = assertion.split(".")[1]
        claims = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, IndexError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def of_issuer(rules: Sequence[TrustedIssuer], assertion: str) -> Sequence[TrustedIssuer]:
    """The rules for the issuer that the assertion names, compared byte by byte. Raises `AssertionRefused` if there is none."""
    issuer = claimed_issuer(assertion)
    found = [rule for rule in rules if rule.issuer == issuer]
    if not found:
        raise AssertionRefused(AssertionFault.MALFORMED if issuer is None else AssertionFault.ISSUER)
    return found


def admitted(rule: TrustedIssuer, token: SignedToken, now: datetime) -> AcceptedAssertion:
    """Raises `AssertionRefused`. An assertion may be used again while it lives: a cluster writes one into a file that programs read as
    often as they like.
    """
    rules = AssertionRules(issuer=rule.issuer, audiences=(rule.audience,), longest_life=LONGEST_LIFE)
    accepted = accepted_assertion(token, rules, now)
    if not matches(rule.subject_pattern, accepted.subject):
        raise AssertionRefused(AssertionFault.SUBJECT, "the subject does not fit the pattern")
    for name, wanted in rule.claims.items():
        # True is 1 in Python, and is not 1 in a token.
        if type(accepted.claims.get(name)) is not type(wanted) or accepted.claims[name] != wanted:
            raise AssertionRefused(AssertionFault.CLAIM, f"the claim {name} does not match", claim=name)
    return accepted


def farthest(refusals: Sequence[AssertionRefused]) -> AssertionRefused:
    """Of several rules for one issuer, the one that the assertion came closest to tells most."""
    order = list(AssertionFault)
    return max(refusals, key=lambda refused: order.index(refused.fault))


def trusted_issuer_created(rule: TrustedIssuer, actor: Actor) -> Event:
    return _event("trusted_issuer.created", rule, actor, _facts(rule))


def trusted_issuer_updated(before: TrustedIssuer, after: TrustedIssuer, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    return _event("trusted_issuer.updated", after, actor, {"name": after.name, **differences(_facts(before), _facts(after))})


def trusted_issuer_deleted(rule: TrustedIssuer, actor: Actor) -> Event:
    return _event("trusted_issuer.deleted", rule, actor, _facts(rule))


def _facts(rule: TrustedIssuer) -> Mapping[str, Json]:
    return {
        **{name: getattr(rule, name) for name in names_of(TrustedIssuerSettings) if name != "jwks"},
        "service_slug": rule.service_slug,
        "management_key_id": None if rule.key is None else str(rule.key),
        "key_ids": _key_ids(rule.jwks),
    }


def _key_ids(jwks: Mapping[str, Any] | None) -> Json:
    return None if jwks is None else [one.get("kid") for one in jwks["keys"]]


def _event(name: str, rule: TrustedIssuer, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("trusted_issuer", str(rule.id)), rule.organization, details)
