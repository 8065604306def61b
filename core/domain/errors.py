"""Refusals: what the product says no with. A refusal is an answer, not a fault; faults are other exceptions and end as 500 or 503.

Each class is one code. The status and the shape of the answer are the entrance's business (`entrypoints/http/errors.py`).
`detail` is for the log alone and never reaches the caller.
"""

from typing import ClassVar


class Refusal(Exception):
    code: ClassVar[str]
    text: ClassVar[str]

    def __init__(self, message: str | None = None, *, detail: str | None = None) -> None:
        self.message = message if message is not None else self.text
        self.detail = detail
        super().__init__(self.message)


class BadRequest(Refusal):
    code = "BAD_REQUEST"
    text = "The request is invalid"


class InvitationExpired(BadRequest):
    code = "INVITATION_EXPIRED"
    text = "This invitation has expired"


class TeamLimitExceeded(BadRequest):
    code = "TEAM_LIMIT_EXCEEDED"
    text = "The organization has as many members as it may have"


class ServiceLimitExceeded(BadRequest):
    code = "SERVICE_LIMIT_EXCEEDED"
    text = "The organization has as many services as it may have"


class Unauthorized(Refusal):
    code = "UNAUTHORIZED"
    text = "Authentication is required"


class TokenExpired(Unauthorized):
    code = "TOKEN_EXPIRED"
    text = "The token has expired"


class TokenInvalid(Unauthorized):
    code = "JWT_ERROR"
    text = "The token is invalid"


class Forbidden(Refusal):
    code = "FORBIDDEN"
    text = "You do not have permission to do this"


class OrganizationNotActive(Forbidden):
    code = "ORGANIZATION_NOT_ACTIVE"
    text = "The organization is not active"


class NotFound(Refusal):
    code = "NOT_FOUND"
    text = "Not found"


class MethodNotAllowed(Refusal):
    code = "METHOD_NOT_ALLOWED"
    text = "This path does not take this method"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__()
        self.allowed = allowed


class Conflict(Refusal):
    code = "CONFLICT"
    text = "This conflicts with what exists"


class PayloadTooLarge(Refusal):
    code = "PAYLOAD_TOO_LARGE"
    text = "The request body is too large"


class UnsupportedMediaType(Refusal):
    code = "UNSUPPORTED_MEDIA_TYPE"
    text = "The request body must be application/json"


class RetryLater(Refusal):
    """A refusal that says when to come back; the answer carries `Retry-After`."""

    def __init__(self, message: str | None = None, *, retry_after: float, detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.retry_after = retry_after


class RateLimited(RetryLater):
    code = "RATE_LIMIT_EXCEEDED"
    text = "Too many requests"


class Overloaded(RetryLater):
    """Something bounded is full: the connection pool, the hashing queue, the request limit."""

    code = "SERVICE_UNAVAILABLE"
    text = "The service is busy"


class Unavailable(RetryLater):
    """Something we stand on is away, the database above all. Ports raise it so that a use case need not know the library's exceptions."""

    code = "SERVICE_UNAVAILABLE"
    text = "The service is temporarily unavailable"
