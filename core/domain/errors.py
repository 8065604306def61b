"""Refusals: each class is one error code. Any other exception is a bug or an outage and ends as 500 or 503."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, Final, TypeVar

Thing = TypeVar("Thing")

_NO_VALUES: Final[Mapping[str, object]] = {}


class Refusal(Exception):
    """A response to the caller that denies the request. `entrypoints/http/machinery/errors.py` decides the status and the form of the
    response. `detail` is for the log alone and never reaches the caller.

    Programs read `message`, which is English. Users read pages, in their own language: the page shows the text `refusals.<words>` of the
    catalog, with `values` in its placeholders. For a refusal without `words`, the page shows the text of its code.
    """

    code: ClassVar[str]
    text: ClassVar[str]
    recorded_as: str = ""
    """The reason under which the recorder of refusals keeps this refusal for those who look after the application. Empty where the request
    itself says more, and for what is no mistake of an application.
    """

    def __init__(
        self, message: str | None = None, *, words: str = "", values: Mapping[str, object] = _NO_VALUES, detail: str | None = None
    ) -> None:
        self.message = message if message is not None else self.text
        self.words = words or self.code.lower()
        self.values = values
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
    text = "The organization has reached its limit of members"


class ServiceLimitExceeded(BadRequest):
    code = "SERVICE_LIMIT_EXCEEDED"
    text = "The organization has reached its limit of services"


class BillingFailed(Refusal):
    """The payment provider refused, or did not answer."""

    code = "BILLING_ERROR"
    text = "The payment provider does not answer: try again later"


class Unauthorized(Refusal):
    code = "UNAUTHORIZED"
    text = "Authentication is required"


class TokenExpired(Unauthorized):
    code = "TOKEN_EXPIRED"
    text = "The token has expired: get a new one"


class TokenInvalid(Unauthorized):
    code = "JWT_ERROR"
    text = "The token is invalid: sign in again"


class ReauthenticationRequired(Unauthorized):
    """The token is valid, but the person must prove again who they are."""

    code = "REAUTHENTICATION_REQUIRED"
    text = "Verify your identity again"

    def __init__(self, message: str | None = None, *, max_age: timedelta, words: str = "", detail: str | None = None) -> None:
        """`max_age` is how old a proof may be."""
        super().__init__(message, words=words, detail=detail)
        self.max_age = max_age


class Forbidden(Refusal):
    code = "FORBIDDEN"
    text = "You do not have permission to do this"


class OrganizationNotActive(Forbidden):
    code = "ORGANIZATION_NOT_ACTIVE"
    text = "The organization is not active"


class SecondFactorRequired(Forbidden):
    """The organization requires a second factor of its members, and the person has none."""

    code = "MFA_REQUIRED"
    text = "This organization requires two-step sign-in: set it up for your account first"


class TermsRequired(Forbidden):
    """The time to accept terms of the organization or of the installation is over, and the person has not."""

    code = "TERMS_REQUIRED"
    text = "Accept the terms first: GET /api/user/terms?organization=SLUG lists them, and POST /api/user/terms accepts them"


class NotFound(Refusal):
    code = "NOT_FOUND"
    text = "Not found"


class MethodNotAllowed(Refusal):
    code = "METHOD_NOT_ALLOWED"
    text = "This path does not support this method: the Allow header lists the supported methods"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__()
        self.allowed = allowed


class Conflict(Refusal):
    code = "CONFLICT"
    text = "The request conflicts with existing data"


class PreconditionFailed(Refusal):
    code = "PRECONDITION_FAILED"
    text = "The resource has changed since you read it: read it again"


class NotImplementedHere(Refusal):
    code = "NOT_IMPLEMENTED"
    text = "This is not offered here"


class PayloadTooLarge(Refusal):
    code = "PAYLOAD_TOO_LARGE"
    text = "The request body is too large"


class UnsupportedMediaType(Refusal):
    code = "UNSUPPORTED_MEDIA_TYPE"
    text = "The request body has the wrong media type"


class RetryLater(Refusal):
    """A refusal that says when to try again. The answer has the header `Retry-After`."""

    def __init__(self, message: str | None = None, *, retry_after: float, words: str = "", detail: str | None = None) -> None:
        super().__init__(message, words=words, detail=detail)
        self.retry_after = retry_after


class RateLimited(RetryLater):
    code = "RATE_LIMIT_EXCEEDED"
    text = "Too many requests"


class Overloaded(RetryLater):
    """A limited resource is used up: the connection pool, the hashing queue, the limit on requests."""

    code = "SERVICE_UNAVAILABLE"
    text = "The service is busy"


class Unavailable(RetryLater):
    """A system that we need does not answer, usually the database. Ports raise this, so that use cases need not know
    the exceptions of libraries.
    """

    code = "SERVICE_UNAVAILABLE"
    text = "The service is temporarily unavailable"


class OutcomeUnknown(Unavailable):
    """The database did not answer a commit. The change may have happened, so nobody should repeat it without a look."""

    code = "OUTCOME_UNKNOWN"
    text = "The outcome of this request is unknown: check the state before you try again"


def found(thing: Thing | None, message: str, *, words: str = "", refusal: type[Refusal] = NotFound) -> Thing:
    """The thing of a look-up. Raises `NotFound`, or another refusal, if there is none."""
    if thing is None:
        raise refusal(message, words=words)
    return thing
