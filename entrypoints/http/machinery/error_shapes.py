"""The shapes of error answers: Postern's own, OAuth's, and SCIM's. A declaration chooses one. The shape of pages is in
`entrypoints/http/pages`. Status and headers do not depend on the shape.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec

from core.domain.errors import Conflict, Refusal
from core.domain.languages import DEFAULT, Language
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.errors import ErrorBody, NotAsDeclared, OfferedPuzzle, headers_of, status_of
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.headers import HeaderList, PagePolicy, answer_headers, language_headers

Refused = Refusal | type[Refusal]
"""A raised refusal, or, for the OpenAPI description, the class of a refusal."""

_encode: Final = msgspec.json.Encoder().encode


class ErrorShape(Protocol):
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
    """The error code of OAuth."""
    error_description: Annotated[str, example("The code is not valid")]
    """A description of the error for people."""
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
    detail: Annotated[str, example("path: title is not kept here")]
    """A description of the error for people."""
    scim_type: Annotated[ScimType, example("invalidPath")] | None = None
    """The error type of SCIM. Absent if SCIM has no type for the error."""


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
