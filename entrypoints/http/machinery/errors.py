"""Converts exceptions to error responses, in the shapes of Postern, OAuth and SCIM."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from time import monotonic
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
import structlog

from core.domain.errors import (
    BadRequest,
    Conflict,
    MethodNotAllowed,
    OutcomeUnknown,
    Overloaded,
    ReauthenticationRequired,
    Refusal,
    RetryLater,
    Unauthorized,
    Unavailable,
)
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.key_proofs import ALGORITHMS, BoundTokenRefused
from core.domain.languages import DEFAULT, Language
from entrypoints.http.machinery.answers import HeaderList, Headers, PagePolicy, answer_headers, language_headers
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.fields import example
from ports.database import Database

log = structlog.get_logger()

_ALGORITHMS = " ".join(ALGORITHMS).encode()

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
    "REAUTHENTICATION_REQUIRED": 401,
    "FORBIDDEN": 403,
    "ORGANIZATION_NOT_ACTIVE": 403,
    "MFA_REQUIRED": 403,
    "TERMS_REQUIRED": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TIMEOUT": 408,
    "CONFLICT": 409,
    "PRECONDITION_FAILED": 412,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RATE_LIMIT_EXCEEDED": 429,
    "INTERNAL_SERVER_ERROR": 500,
    "DATABASE_ERROR": 500,
    "OAUTH_ERROR": 500,
    "BILLING_ERROR": 500,
    "AUDIT_ERROR": 500,
    "NOT_IMPLEMENTED": 501,
    "OUTCOME_UNKNOWN": 503,
    "SERVICE_UNAVAILABLE": 503,
}


class OfferedPuzzle(msgspec.Struct, frozen=True):
    """A bot challenge that a client can solve (proof of work). With P the SHA-256 of the challenge, each part (0 to `parts` - 1) is solved
    by a number below 2^32. SHA-256(P, part, number) must begin with `bits` zero bits; part and number have four bytes each, big-endian.
    """

    challenge: Annotated[str, example("AQR0ZXN0NXoTM015VILsxGay37NE1Lh8KQJ81FLjs-c76nERGdiHFk7p")]
    """The challenge to solve. It is valid for five minutes, and once."""
    bits: Annotated[int, example(11)]
    """The number of leading zero bits that the hash of each part needs."""
    parts: Annotated[int, example(8)]
    """The number of parts to solve."""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: Annotated[str, example("Too many requests")]
    """A human-readable description of the error."""
    error_code: Annotated[str, example("RATE_LIMIT_EXCEEDED")]
    """The machine-readable error code. A code never changes its meaning."""
    timestamp: datetime
    """The time of the error."""
    puzzle: OfferedPuzzle | msgspec.UnsetType = msgspec.UNSET
    """Only for a 429 because of an email rate limit. Repeat the request with the headers `X-Puzzle-Challenge` and `X-Puzzle-Solution`: the
    numbers of all parts, separated by dots.
    """


class NotAsDeclared(BadRequest):
    """The request does not fit the declared types. The message names the field."""


class BodyTimeout(Refusal):
    """The client did not send its body in time. The status is not 503, since Postern is available."""

    code = "REQUEST_TIMEOUT"
    text = "The request body did not arrive in time"


class InternalError(Refusal):
    """A fault of Postern. The answer names no detail."""

    code = "INTERNAL_SERVER_ERROR"
    text = "An unexpected error occurred"


class DatabaseError(InternalError):
    code = "DATABASE_ERROR"
    text = "A database operation failed"


class _Seldom:
    """`due` is true at most once in `seconds` seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self) -> bool:
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


# In an outage all requests fail for the same reason, so one stack trace a second is enough. Rendering a stack trace takes longer than a
# request.
_outage_stacks = _Seldom(1.0)


def refusal_of(error: Exception, database: Database) -> Refusal:
    """The table `STATUS` gives each code its status. Every exception that is no refusal is a fault: Postern logs the fault, and the
    response does not show it.

    The refusal for the answer. This function logs faults and outages with their stack traces, since the answer shows no details.
    """
    refusal = _find(error)
    if refusal is None:
        log.error("request_failed", exc_info=error)
        return DatabaseError() if database.refused(error) else InternalError()
    if isinstance(refusal, Unavailable):
        log.warning("request_unavailable", detail=refusal.detail, exc_info=refusal if _outage_stacks.due() else None)
    elif refusal.detail is not None or isinstance(refusal, Overloaded):
        log.info("request_refused", error_code=refusal.code, detail=refusal.detail)
    return refusal


def _find(error: Exception) -> Refusal | None:
    """The refusal itself, or the first refusal of a group of refusals. A nursery wraps the exceptions of its tasks in a group."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ExceptionGroup):
        found = [_find(inner) for inner in error.exceptions]
        if all(found):
            return found[0]
    return None


def status_of(refusal: type[Refusal] | Refusal) -> int:
    return STATUS[refusal.code]


def header_named_by(refusal: type[Refusal]) -> str | None:
    """The name of the header that `headers_of` adds to an answer with this refusal. None without such a header."""
    if issubclass(refusal, RetryLater):
        return "Retry-After"
    return "WWW-Authenticate" if issubclass(refusal, Unauthorized | InsufficientScope) else None


def headers_of(refusal: Refusal, challenge: bytes = b"Bearer") -> Headers:
    """The headers that a refusal adds. `challenge` is the `WWW-Authenticate` header for a caller without credentials (RFC 9110 section
    11.6.1).
    """
    if isinstance(refusal, RetryLater):
        # A client that repeats by itself might do twice what may have happened.
        known = not isinstance(refusal, OutcomeUnknown)
        return ((b"retry-after", b"%d" % max(1, ceil(refusal.retry_after))),) if known else ()
    if isinstance(refusal, ReauthenticationRequired):
        # RFC 9470 section 3.
        fresh = b'Bearer error="insufficient_user_authentication", error_description="A more recent proof is required", max_age="%d"'
        return ((b"www-authenticate", fresh % int(refusal.max_age.total_seconds())),)
    if isinstance(refusal, InsufficientScope):
        # RFC 6750 section 3.1.
        return ((b"www-authenticate", f'Bearer error="insufficient_scope", scope="{refusal.scope}"'.encode()),)
    if isinstance(refusal, Unauthorized):
        # RFC 6750 section 3: the header has an error code only when the caller has sent a token, and the token is not valid.
        return ((b"www-authenticate", challenge if type(refusal) is Unauthorized else _of_token(refusal)),)
    if isinstance(refusal, MethodNotAllowed):
        return ((b"allow", ", ".join(refusal.allowed).encode()),)
    return ()


def _of_token(refusal: Unauthorized) -> bytes:
    if isinstance(refusal, BoundTokenRefused):
        # RFC 9449 section 7.1.
        return b'DPoP error="%s", algs="%s"' % (refusal.error.encode(), _ALGORITHMS)
    return b'Bearer error="invalid_token"'


Refused = Refusal | type[Refusal]
"""A raised refusal, or, for the OpenAPI description, the class of a refusal."""

_encode: Final = msgspec.json.Encoder().encode


class ErrorShape(Protocol):
    """The shape of error responses: Postern's own, OAuth's, or SCIM's. A declaration chooses one. The shape of pages is in
    `entrypoints/http/pages`. Status and headers do not depend on the shape.
    """

    @property
    def media_type(self) -> str: ...
    @property
    def kind(self) -> type[msgspec.Struct] | None:
        """The type of `value`, for the OpenAPI description. None for a page."""

    def value(self, refused: Refused, at: datetime, language: Language = DEFAULT, request_id: str = "") -> Any:
        """The body of the answer: a Struct for JSON, or the bytes of a page. Only pages use `language` and `request_id`: the texts for
        programs are in English, and a header carries the request's id.
        """


class _Ours:
    media_type = "application/json"
    kind = ErrorBody

    def value(self, refused: Refused, at: datetime, _language: Language = DEFAULT, _request_id: str = "") -> ErrorBody:
        puzzle = getattr(refused, "puzzle", None)
        if puzzle is None:
            return ErrorBody(message_of(refused), refused.code, at)
        return ErrorBody(message_of(refused), refused.code, at, OfferedPuzzle(puzzle.challenge, puzzle.part_bits, puzzle.parts))


class OAuthErrorShape(msgspec.Struct, frozen=True):
    """An error in the format of RFC 6749 section 5.2, with further fields."""

    error: Annotated[str, example("invalid_grant")]
    """The OAuth error code."""
    error_description: Annotated[str, example("The code is not valid")]
    """A human-readable description of the error."""
    error_code: Annotated[str, example("BAD_REQUEST")]
    """The error code that the other endpoints use."""
    timestamp: datetime
    """The time of the error."""


# RFC 6749 sections 4.1.2.1 and 5.2, RFC 6750 section 3.1, RFC 8628 section 3.5. For codes that are not here, the status decides the word.
_OAUTH_WORDS: Final[Mapping[str, str]] = {
    "UNAUTHORIZED": "invalid_client",
    "TOKEN_EXPIRED": "invalid_token",
    "JWT_ERROR": "invalid_token",
    "FORBIDDEN": "access_denied",
    "ORGANIZATION_NOT_ACTIVE": "access_denied",
    "DEVICE_CODE_PENDING": "authorization_pending",
    "DEVICE_CODE_EXPIRED": "expired_token",
    "RATE_LIMIT_EXCEEDED": "temporarily_unavailable",
    "OUTCOME_UNKNOWN": "temporarily_unavailable",
    "SERVICE_UNAVAILABLE": "temporarily_unavailable",
}


class _OAuth:
    media_type = "application/json"
    kind = OAuthErrorShape

    def value(self, refused: Refused, at: datetime, _language: Language = DEFAULT, _request_id: str = "") -> OAuthErrorShape:
        word = (
            getattr(refused, "oauth_error", None)
            or _OAUTH_WORDS.get(refused.code)
            or ("invalid_request" if status_of(refused) < 500 else "server_error")
        )
        return OAuthErrorShape(word, message_of(refused), refused.code, at)


ScimType = Literal["uniqueness", "invalidSyntax", "invalidFilter", "invalidPath", "noTarget", "invalidValue", "mutability"]


class ScimError(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An error in the format of RFC 7644 section 3.12."""

    schemas: Sequence[Literal["urn:ietf:params:scim:api:messages:2.0:Error"]]
    """The schema of an error."""
    status: Annotated[int, example(400)]
    """The HTTP status of the answer."""
    detail: Annotated[str, example("path: title is not stored")]
    """A human-readable description of the error."""
    scim_type: Annotated[ScimType, example("invalidPath")] | None = None
    """The SCIM error type. Absent if SCIM has no type for the error."""


class _Scim:
    media_type = "application/scim+json"
    kind = ScimError

    def value(self, refused: Refused, _at: datetime, _language: Language = DEFAULT, _request_id: str = "") -> ScimError:
        return ScimError(["urn:ietf:params:scim:api:messages:2.0:Error"], status_of(refused), message_of(refused), scim_type_of(refused))


def scim_type_of(refused: Refused) -> ScimType | None:
    kind = refused if isinstance(refused, type) else type(refused)
    if issubclass(kind, Conflict):
        return getattr(kind, "scim_type", "uniqueness")
    if issubclass(kind, NotAsDeclared):
        return "invalidSyntax"
    return getattr(kind, "scim_type", None)


OURS: Final[ErrorShape] = _Ours()
OAUTH: Final[ErrorShape] = _OAuth()
SCIM: Final[ErrorShape] = _Scim()


def message_of(refused: Refused) -> str:
    return refused.text if isinstance(refused, type) else refused.message


class Refusing:
    """Makes answers in one shape from refusals. The common headers of these answers are made once, in advance."""

    def __init__(self, shape: ErrorShape, common: HeaderList, policy: PagePolicy | None = None, challenge: bytes = b"Bearer") -> None:
        self._shape = shape
        self._headers = answer_headers(common, shape.media_type.encode(), policy=policy)
        self._challenge = challenge

    def answered(self, refusal: Refusal, at: datetime, request: Request) -> tuple[int, HeaderList, bytes]:
        headers = [*self._headers, *headers_of(refusal, self._challenge)]
        if self._shape.kind is not None:
            return status_of(refusal), headers, _encode(self._shape.value(refusal, at))
        language = request.language
        body = self._shape.value(refusal, at, language, request.id)
        return status_of(refusal), [*headers, *language_headers(body, language)], body
