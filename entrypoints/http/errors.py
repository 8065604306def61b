"""From exceptions to error answers. One table says which status a code has; what is not a refusal is a fault, logged and never shown."""

from datetime import datetime
from math import ceil
from time import monotonic

import msgspec
import psycopg
import structlog

from core.domain.errors import MethodNotAllowed, Overloaded, Refusal, RetryLater, Unauthorized, Unavailable
from entrypoints.http.answers import Headers

log = structlog.get_logger()

STATUS: dict[str, int] = {
    "BAD_REQUEST": 400,
    "SERVICE_LIMIT_EXCEEDED": 400,
    "TEAM_LIMIT_EXCEEDED": 400,
    "INVITATION_EXPIRED": 400,
    "DEVICE_CODE_EXPIRED": 400,
    "DEVICE_CODE_PENDING": 400,
    "UNAUTHORIZED": 401,
    "TOKEN_EXPIRED": 401,
    "JWT_ERROR": 401,
    "FORBIDDEN": 403,
    "ORGANIZATION_NOT_ACTIVE": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TIMEOUT": 408,
    "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RATE_LIMIT_EXCEEDED": 429,
    "INTERNAL_SERVER_ERROR": 500,
    "DATABASE_ERROR": 500,
    "OAUTH_ERROR": 500,
    "BILLING_ERROR": 500,
    "AUDIT_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
}


class ErrorBody(msgspec.Struct, frozen=True):
    """Every failure has this body."""

    error: str
    error_code: str
    timestamp: datetime


class BodyTimeout(Refusal):
    """The client did not send its body in time. Not a 503: nothing is wrong with us."""

    code = "REQUEST_TIMEOUT"
    text = "The request body did not arrive in time"


class Fault(Refusal):
    """Something of ours broke. The caller learns that, and nothing else."""

    code = "INTERNAL_SERVER_ERROR"
    text = "An unexpected error occurred"


class DatabaseFault(Fault):
    code = "DATABASE_ERROR"
    text = "A database operation failed"


class _Seldom:
    """True at most once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self) -> bool:
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


# In an outage every request fails alike: one stack a second tells as much as a thousand, and rendering one takes longer than the request.
_outage_stacks = _Seldom(1.0)


def refusal_of(error: Exception) -> Refusal:
    """What to tell the caller. Faults and outages go to the log here, with their stack, since nothing of them reaches the answer."""
    refusal = _find(error)
    if refusal is None:
        log.error("request_failed", exc_info=error)
        return DatabaseFault() if isinstance(error, psycopg.Error) else Fault()
    if isinstance(refusal, Unavailable):
        log.warning("request_unavailable", detail=refusal.detail, exc_info=refusal if _outage_stacks.due() else None)
    elif refusal.detail is not None or isinstance(refusal, Overloaded):
        log.info("request_refused", error_code=refusal.code, detail=refusal.detail)
    return refusal


def _find(error: Exception) -> Refusal | None:
    """The refusal itself, or the first one of a group that holds nothing but refusals: a nursery wraps what its tasks raise."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ExceptionGroup):
        found = [_find(inner) for inner in error.exceptions]
        if all(found):
            return found[0]
    return None


def status_of(refusal: type[Refusal] | Refusal) -> int:
    return STATUS[refusal.code]


def headers_of(refusal: Refusal) -> Headers:
    if isinstance(refusal, RetryLater):
        return ((b"retry-after", b"%d" % max(1, ceil(refusal.retry_after))),)
    if isinstance(refusal, Unauthorized):
        # RFC 6750 section 3: the code only when a token was sent and found wanting.
        return ((b"www-authenticate", b"Bearer" if type(refusal) is Unauthorized else b'Bearer error="invalid_token"'),)
    if isinstance(refusal, MethodNotAllowed):
        return ((b"allow", ", ".join(refusal.allowed).encode()),)
    return ()
