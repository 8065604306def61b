"""Validates JWT assertions of a trusted issuer (RFC 7523) about a workload or a user."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from core.domain.formats import Json
from core.frozen import Frozen

LONGEST_ASSERTION: Final = 8 << 10
"""Tokens of clusters and build jobs have 1 to 3 KiB."""
LEEWAY: Final = timedelta(seconds=30)
"""The clocks of several machines differ a little."""
LONGEST_SUBJECT: Final = 1000
LONGEST_JTI: Final = 500


class AssertionFault(StrEnum):
    """The rule that an assertion breaks."""

    MALFORMED = "malformed"
    KEY = "key"
    """The trusted keys have no key of this name."""
    SIGNATURE = "signature"
    KEYS_AWAY = "keys_away"
    """The trusted keys could not be fetched."""
    TYPE = "type"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    LIFETIME = "lifetime"
    EARLY = "early"
    """Issued, or valid only, in the future."""
    SUBJECT = "subject"
    REPEATABLE = "repeatable"
    """The assertion has no `jti`, though it may be used only once."""
    CLAIM = "claim"


class AssertionRefused(Exception):
    """`claim` names the claim, for a fault of one claim. Never the value: it is the sender's."""

    def __init__(self, fault: AssertionFault, detail: str = "", *, claim: str = "") -> None:
        super().__init__(detail or fault.value)
        self.fault = fault
        self.claim = claim


class TrustedKeys(Frozen):
    """The only accepted keys of the issuer: published at the configured URL, or pasted. One of the two is set."""

    address: str | None = None
    pasted: Mapping[str, Json] | None = None
    """A set as `core.domain.outbound.client_keys` returns it."""


class SignedToken(Frozen):
    """A token whose signature is good. None of its claims counts yet."""

    type: Any
    """The header's `typ`, which may be anything, or missing."""
    claims: Mapping[str, Any]


class AssertionRules(Frozen, kw_only=True):
    """The rules for the claims of an assertion whose signature is valid. Each grant states which issuer, audience and type it accepts."""

    issuer: str
    """Compared byte by byte."""
    audiences: Collection[str]
    """The assertion names exactly one audience, and it is one of these."""
    longest_life: timedelta
    """An assertion ends at most so long after now, and after its `iat`."""
    type: str | None = None
    """The header's `typ`. Any type is accepted for None."""
    once: bool = False
    """The assertion needs a `jti`, by which the caller remembers it."""


class AcceptedAssertion(Frozen):
    """An assertion that keeps the rules."""

    subject: str
    expires_at: datetime
    id: str | None
    """The `jti`."""
    claims: Mapping[str, Any]


def require_readable(assertion: str) -> None:
    """Raises `AssertionRefused` before anything is read."""
    if not 0 < len(assertion) <= LONGEST_ASSERTION or not assertion.isascii() or assertion.count(".") != 2:
        raise AssertionRefused(AssertionFault.MALFORMED, f"no signed token of at most {LONGEST_ASSERTION} characters")


def accepted_assertion(token: SignedToken, rules: AssertionRules, now: datetime) -> AcceptedAssertion:
    """Checks the claims (RFC 7523 section 3). Raises `AssertionRefused`."""
    claims = token.claims
    if rules.type is not None and not _is_type(token.type, rules.type):
        raise AssertionRefused(AssertionFault.TYPE, "another typ")
    if claims.get("iss") != rules.issuer:
        raise AssertionRefused(AssertionFault.ISSUER, "another issuer")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list | tuple) else (audience,)
    # An assertion with a further audience could be sent on to us by that audience, or by us to it.
    if len(named) != 1 or not isinstance(named[0], str) or named[0] not in rules.audiences:
        raise AssertionRefused(AssertionFault.AUDIENCE, "another audience, or several")
    expires_at = _require_in_time(claims, rules.longest_life, now)
    return AcceptedAssertion(_subject(claims), expires_at, _id(claims, required=rules.once), claims)


def _is_type(named: object, wanted: str) -> bool:
    """Types are compared as media types are: without regard to case, and `application/` may be left out (RFC 7515 section 4.1.9)."""
    return isinstance(named, str) and named.isascii() and named.lower().removeprefix("application/") == wanted


def _require_in_time(claims: Mapping[str, Any], longest: timedelta, now: datetime) -> datetime:
    expires_at = _moment(claims, "exp")
    if expires_at is None or expires_at <= now - LEEWAY:
        raise AssertionRefused(AssertionFault.EXPIRED, "exp is past, or missing")
    for name in ("iat", "nbf"):
        moment = _moment(claims, name)
        if name in claims and (moment is None or moment > now + LEEWAY):
            raise AssertionRefused(AssertionFault.EARLY, f"{name} is not a moment before now", claim=name)
    since = _moment(claims, "iat") or now
    if expires_at - min(since, now) > longest + LEEWAY:
        raise AssertionRefused(AssertionFault.LIFETIME, "the assertion lasts too long")
    return expires_at


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        raise AssertionRefused(AssertionFault.SUBJECT, "no sub")
    return subject


def _id(claims: Mapping[str, Any], *, required: bool) -> str | None:
    token_id = claims.get("jti")
    if isinstance(token_id, str) and 0 < len(token_id) <= LONGEST_JTI:
        return token_id
    if required:
        raise AssertionRefused(AssertionFault.REPEATABLE, "no jti")
    return None


def _moment(claims: Mapping[str, Any], name: str) -> datetime | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**34:
        return None
    return datetime.fromtimestamp(value, UTC)
