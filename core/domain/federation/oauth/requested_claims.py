"""The parameter `claims`: single claims that an application asks for (OpenID Connect Core section 5.5).

Scopes decide which claims are released, and the person allows scopes one by one. So a requested claim counts as a request for the scope
that releases it: the consent page shows this scope, and the token's answer names it. Claims that are always released need no scope. Claims
that we do not have are ignored (section 5.5.1).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused
from core.domain.federation.oauth.oidc import SCOPE_OF
from core.domain.identifiers import UserId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.frozen import Frozen

LONGEST_CLAIMS: Final = 2000
_PLACES: Final = ("userinfo", "id_token")
_Member = Mapping[str, Any]


class RequestedClaims(Frozen):
    """The meaning of `claims`, in terms of the other parameters."""

    scopes: frozenset[str] = frozenset()
    acr_values: tuple[str, ...] = ()
    """The sign-in must reach one of these. Empty when any will do."""
    subject: UserId | None = None
    """The only person who is accepted. None when anybody is."""


NO_CLAIMS: Final = RequestedClaims()


def requested_claims(text: str | None) -> RequestedClaims:
    """Raises `AuthorizationRefused` for malformed `claims`, and for an essential `acr` that nobody can reach here."""
    if text is None:
        return NO_CLAIMS
    asked = list(_asked(_parsed(text)))
    return RequestedClaims(
        scopes=frozenset(SCOPE_OF[name] for _, name, _ in asked if name in SCOPE_OF),
        acr_values=_acr_values([member for place, name, member in asked if (place, name) == ("id_token", "acr")]),
        subject=_subject([member for _, name, member in asked if name == "sub"]),
    )


def _parsed(text: str) -> Mapping[str, Any]:
    if len(text) > LONGEST_CLAIMS:
        raise _malformed(f"at most {LONGEST_CLAIMS} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed("must be JSON") from None
    if not isinstance(found, dict):
        raise _malformed("must be an object")
    return found


def _asked(found: Mapping[str, Any]) -> Iterator[tuple[str, str, _Member]]:
    """The place, the name of the claim, and the demands on it. Other members than the two places are ignored (section 5.5)."""
    for place in _PLACES:
        claims = found.get(place, {})
        if not isinstance(claims, dict):
            raise _malformed(f"{place} must be an object")
        for name, member in claims.items():
            said = {} if member is None else member
            if not isinstance(said, dict) or type(said.get("essential", False)) is not bool or not isinstance(said.get("values", []), list):
                raise _malformed("of each claim, null or an object with essential, value and values")
            yield place, name, said


def _acr_values(members: list[_Member]) -> tuple[str, ...]:
    """The values of an essential `acr`. A voluntary `acr` needs nothing, because the ID token has the reached value in any case."""
    values: tuple[str, ...] = ()
    for member in members:
        wanted = _values(member)
        if member.get("essential") and wanted:
            values = tuple(one for one in (ONE_FACTOR, TWO_FACTORS) if one in wanted)
            if not values:
                raise AuthorizationRefused(AuthorizationErrorCode.UNMET_REQUIREMENTS, "claims: nobody reaches this acr here")
    return values


def _subject(members: list[_Member]) -> UserId | None:
    """The person whom `sub` names (section 5.5.1). Both places must name the same person."""
    named = {one for member in members for one in map(_person, _values(member))}
    if len(named) > 1:
        raise _malformed("sub must name one person")
    return next(iter(named), None)


def _values(member: _Member) -> list[Any]:
    return [*([member["value"]] if "value" in member else []), *member.get("values", [])]


def _person(value: Any) -> UserId:
    try:
        return UserId(UUID(value))
    except (TypeError, ValueError, AttributeError):
        raise _malformed("sub is nobody's here") from None


def _malformed(reason: str) -> AuthorizationRefused:
    return AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, f"claims: {reason}")
