"""The FAPI 2.0 Security Profile, where a request of an application meets it. Each refusal names the rule, for the author of the
application. What the settings hold is checked where they are set (`core/domain/services/services.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.errors import Unauthorized
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest, Registered
from core.domain.federation.oauth.oauth_errors import CLIENT_UNKNOWN, UnauthorizedClient
from core.domain.federation.refusal_reasons import RefusalReason

ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {"RSA": ("PS256",), "EC": ("ES256",), "OKP": ("EdDSA",)}
"""What each kind of key may sign assertions with."""
PUSHED_ALONE: Final = "The profile fapi2 of this application takes only requests that were pushed (RFC 9126): push it to /oauth/par"
PKCE_ALONE: Final = "code_challenge: the profile fapi2 of this application asks for PKCE with S256 (RFC 7636)"
VERIFIER_NEEDED: Final = "code_verifier: the profile fapi2 of this application asks for PKCE (RFC 7636)"
_ASSERTIONS_ALONE: Final = (
    f"{CLIENT_UNKNOWN}. Its profile fapi2 asks for private_key_jwt: an assertion signed with PS256, ES256 or EdDSA, whose aud is the issuer"
    " alone, as a string"
)
_NO_DEVICES: Final = "The profile fapi2 of this application knows no codes of devices"


def require_pushed(request: AuthorizationRequest, registered: Registered) -> None:
    """Also for a request that began before the service had its profile. Raises `AuthorizationRefused`."""
    if not registered.holds_fapi2:
        return
    for missing, description in ((request.pushed is None, PUSHED_ALONE), (request.code_challenge is None, PKCE_ALONE)):
        if missing:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, description, recorded_as=RefusalReason.PROFILE)


def assertions_alone(detail: str | None) -> Unauthorized:
    """The refusal of any other credential, and of an assertion that does not fit."""
    refusal = Unauthorized(_ASSERTIONS_ALONE, detail=detail)
    refusal.recorded_as = RefusalReason.PROFILE
    return refusal


def no_devices() -> UnauthorizedClient:
    refusal = UnauthorizedClient(_NO_DEVICES)
    refusal.recorded_as = RefusalReason.PROFILE
    return refusal
