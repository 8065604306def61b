"""The shape in which a declaration tells refusals: ours, OAuth's, or a SCIM resource; the shape of pages is in `entrypoints/http/pages`.
The status and the headers are the same in each.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import msgspec

from core.domain.errors import Conflict, Refusal
from entrypoints.http.machinery.errors import ErrorBody, NotAsDeclared, headers_of, status_of
from entrypoints.http.machinery.headers import HeaderList, PagePolicy, answer_headers

Refused = Refusal | type[Refusal]
"""A refusal that was raised, or, for the description, the class of one that may be raised."""

_encode: Final = msgspec.json.Encoder().encode


class ErrorShape(Protocol):
    @property
    def media_type(self) -> str: ...
    @property
    def kind(self) -> type[msgspec.Struct] | None:
        """The type of `value`, for the description. None: a page."""

    def value(self, refused: Refused, at: datetime) -> Any:
        """The body of the answer: a Struct for JSON, bytes for what is already encoded."""


class _Ours:
    media_type = "application/json"
    kind = ErrorBody

    def value(self, refused: Refused, at: datetime) -> ErrorBody:
        return ErrorBody(message_of(refused), refused.code, at)


class OAuthError(msgspec.Struct, frozen=True):
    """An error as RFC 6749 section 5.2 has it, together with the fields of our own errors."""

    error: str
    error_description: str
    error_code: str
    timestamp: datetime


# RFC 6749 sections 4.1.2.1 and 5.2, RFC 6750 section 3.1, RFC 8628 section 3.5. Other codes follow from their status.
_OAUTH_WORDS: Final[Mapping[str, str]] = {
    "UNAUTHORIZED": "invalid_client",
    "TOKEN_EXPIRED": "invalid_token",
    "JWT_ERROR": "invalid_token",
    "FORBIDDEN": "access_denied",
    "ORGANIZATION_NOT_ACTIVE": "access_denied",
    "DEVICE_CODE_PENDING": "authorization_pending",
    "DEVICE_CODE_EXPIRED": "expired_token",
    "RATE_LIMIT_EXCEEDED": "temporarily_unavailable",
    "SERVICE_UNAVAILABLE": "temporarily_unavailable",
}


class _OAuth:
    media_type = "application/json"
    kind = OAuthError

    def value(self, refused: Refused, at: datetime) -> OAuthError:
        word = _OAUTH_WORDS.get(refused.code) or ("invalid_request" if status_of(refused) < 500 else "server_error")
        return OAuthError(word, message_of(refused), refused.code, at)


class ScimError(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """RFC 7644 section 3.12."""

    schemas: Sequence[Literal["urn:ietf:params:scim:api:messages:2.0:Error"]]
    status: int
    detail: str
    scim_type: Literal["uniqueness", "invalidSyntax"] | None = None


class _Scim:
    media_type = "application/scim+json"
    kind = ScimError

    def value(self, refused: Refused, _at: datetime) -> ScimError:
        kind = refused if isinstance(refused, type) else type(refused)
        scim_type: Literal["uniqueness", "invalidSyntax"] | None = None
        if issubclass(kind, Conflict):
            scim_type = "uniqueness"
        elif issubclass(kind, NotAsDeclared):
            scim_type = "invalidSyntax"
        return ScimError(("urn:ietf:params:scim:api:messages:2.0:Error",), status_of(refused), message_of(refused), scim_type)


OURS: Final[ErrorShape] = _Ours()
OAUTH: Final[ErrorShape] = _OAuth()
SCIM: Final[ErrorShape] = _Scim()


def message_of(refused: Refused) -> str:
    return refused.text if isinstance(refused, type) else refused.message


class Refusing:
    """Refusals as answers in one shape. The parts that all of them share are made beforehand."""

    def __init__(self, shape: ErrorShape, common: HeaderList, policy: PagePolicy | None = None, challenge: bytes = b"Bearer") -> None:
        self._shape = shape
        self._headers = answer_headers(common, shape.media_type.encode(), policy=policy)
        self._challenge = challenge

    def answered(self, refusal: Refusal, at: datetime) -> tuple[int, HeaderList, bytes]:
        value = self._shape.value(refusal, at)
        body = value if isinstance(value, bytes) else _encode(value)
        return status_of(refusal), [*self._headers, *headers_of(refusal, self._challenge)], body
