"""The conditions on answers of the authorization, token and userinfo endpoints."""

import math
import re
import time
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from tests.conformance.kit.outcome import Outcome, words

NEEDS_A_PERSON: Final = frozenset({"interaction_required", "login_required", "account_selection_required", "consent_required"})
EXPECTED_IN_ERRORS: Final = frozenset({"error", "error_description", "error_uri", "state", "session_state", "iss"})
_ERROR: Final = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")
_DESCRIPTION: Final = re.compile(r"[\x09\x0A\x0D\x20-\x21\x23-\x5B\x5D-\x7E]+")
_URI: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
VISIBLE: Final = re.compile(r"[\x20-\x7E]+")
YEAR: Final = 31_536_000
SKEW: Final = 300
_JAN_1990: Final = 631_152_000
_FIRST_BIRTH: Final = 1850
SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "openid": frozenset({"sub"}),
    "profile": words(
        "name given_name family_name middle_name nickname profile picture website gender birthdate zoneinfo locale updated_at"
        " preferred_username"
    ),
    "email": frozenset({"email", "email_verified"}),
    "address": frozenset({"address"}),
    "phone": frozenset({"phone_number", "phone_number_verified"}),
    "offline_access": frozenset(),
}
_ADDRESS: Final = frozenset({"formatted", "street_address", "locality", "region", "postal_code", "country"})
_OBJECTS: Final = frozenset({"_claim_names", "_claim_sources"})
_BOOLEANS: Final = frozenset({"email_verified", "phone_number_verified"})
STANDARD: Final = SCOPES["profile"] | SCOPES["email"] | SCOPES["phone"] | SCOPES["address"] | _OBJECTS | {"sub", "txn"}
_TEXTS: Final = (SCOPES["profile"] | SCOPES["email"] | SCOPES["phone"] | {"sub", "txn"}) - _BOOLEANS - {"updated_at", "birthdate"}


def refused_at_callback(told: Mapping[str, str], request: Mapping[str, str], issuer: str, outcome: Outcome) -> str:
    assert told.get("state") == request.get("state")
    assert told.get("iss", issuer) == issuer
    assert told.get("error")
    assert "code" not in told
    outcome.should(told.keys() <= EXPECTED_IN_ERRORS, f"unexpected parameters beside the error: {sorted(told)}")
    checked_error(told, outcome)
    return told["error"]


def checked_error(told: Mapping[str, Any], outcome: Outcome) -> None:
    description, uri = told.get("error_description") or "", told.get("error_uri") or ""
    outcome.should(not re.search(r"[\n\r\t]", description), "error_description has a line break or tab")
    assert not description or _DESCRIPTION.fullmatch(description)
    assert not uri or (_URI.fullmatch(uri) and urlsplit(uri).scheme)


def refused_at_token(answer: httpx.Response, outcome: Outcome) -> str:
    """The error of the token endpoint."""
    assert answer.status_code == 400, answer.text
    assert is_json(answer)
    told = answer.json()
    assert _ERROR.fullmatch(told["error"])
    checked_error(told, outcome)
    return str(told["error"])


def is_json(answer: httpx.Response) -> bool:
    return str(answer.headers.get("Content-Type", "")).partition(";")[0].strip() == "application/json"


def token_answer(answer: httpx.Response) -> Mapping[str, Any]:
    """The conditions for every code that is redeemed."""
    assert answer.status_code == 200, answer.text
    told: Mapping[str, Any] = answer.json()
    assert "error" not in told
    assert told["access_token"]
    assert told["token_type"]
    if "expires_in" in told:
        assert is_number(told["expires_in"])
        assert 0 < told["expires_in"] <= YEAR
    assert told["id_token"]
    return told


def cannot_be_kept(answer: httpx.Response) -> None:
    """No cache keeps the answer."""
    assert "no-store" in answer.headers.get("Cache-Control", "")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_random(text: str, bits: int = 96) -> bool:
    """By the entropy of its characters, as the suite counts."""
    counted = Counter(text)
    return -sum(n * math.log2(n / len(text)) for n in counted.values()) > bits


def is_long(text: str) -> bool:
    return len(text.encode()) * 8 >= 128


def valid_claims(claims: Mapping[str, Any]) -> None:
    """The claims of OpenID Connect are of their kinds. Others are passed over."""
    assert claims
    for name, value in claims.items():
        if name in _TEXTS:
            assert _is_text(value), name
        elif name in _BOOLEANS:
            assert isinstance(value, bool), name
        elif name == "updated_at":
            assert is_number(value)
            assert _JAN_1990 <= value <= time.time() + SKEW
        elif name == "birthdate":
            assert _is_text(value)
            assert _is_birthdate(value)
        elif name == "address":
            assert isinstance(value, dict)
            assert value
            assert all(_is_text(part) for field, part in value.items() if field in _ADDRESS)
        elif name in _OBJECTS:
            assert isinstance(value, dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.lower() != "null"


def _is_birthdate(text: str) -> bool:
    year, _, rest = text.partition("-")
    if year == "0000":
        return bool(date.fromisoformat(f"0004-{rest}"))
    born = int(year) if not rest else date.fromisoformat(text).year
    return _FIRST_BIRTH <= born <= time.gmtime().tm_year


def userinfo(answer: httpx.Response, subject: str) -> Mapping[str, Any]:
    """The conditions for each answer of userinfo."""
    assert answer.status_code == 200
    told: Mapping[str, Any] = answer.json()
    valid_claims(told)
    assert told["sub"]
    names, sources = told.get("_claim_names"), told.get("_claim_sources")
    assert (names is None) == (sources is None)
    assert set(sources or ()) <= set((names or {}).values())
    assert told["sub"] == subject
    return told
