"""Refusals that have an error code of their own in OAuth (RFC 6749 section 5.2). A malformed request is a plain `BadRequest`, and a client
that fails to authenticate itself is a plain `Unauthorized`.
"""

from typing import ClassVar

from core.domain.errors import BadRequest, Forbidden, Unauthorized
from core.domain.federation.refusal_reasons import RefusalReason


class InvalidGrant(BadRequest):
    oauth_error: ClassVar = "invalid_grant"
    text = "The code or token is not valid, has expired or was used before, or was given to another client or redirect URI"


class GrantOfAgent(InvalidGrant):
    """The organization lets no agent act for its people any more."""

    recorded_as = RefusalReason.AGENTS_FORBIDDEN


class InvalidScope(BadRequest):
    oauth_error: ClassVar = "invalid_scope"
    text = "The scope goes beyond what was granted"


class InvalidTarget(BadRequest):
    """The request names an API that the client may have no token for (RFC 8707 section 2)."""

    oauth_error: ClassVar = "invalid_target"
    text = "No API that this client may ask for has this identifier"


class UnauthorizedClient(BadRequest):
    oauth_error: ClassVar = "unauthorized_client"
    recorded_as = RefusalReason.GRANT_NOT_ALLOWED
    text = "This client may not use this grant type"


class UnsupportedGrantType(BadRequest):
    oauth_error: ClassVar = "unsupported_grant_type"
    recorded_as = RefusalReason.GRANT_UNKNOWN
    text = "There is no such grant type here"


class InsufficientScope(Forbidden):
    """An access token lacks a scope (RFC 6750 section 3.1). The message names the scope."""

    oauth_error: ClassVar = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"The access token must have been granted the scope {scope}")
        self.scope = scope


CLIENT_UNKNOWN = "The client could not be authenticated"


def client_refused(detail: str, *, recorded_as: str = "") -> Unauthorized:
    """The answer is the same for every reason. The log has the reason."""
    refusal = Unauthorized(CLIENT_UNKNOWN, detail=detail)
    refusal.recorded_as = recorded_as
    return refusal
