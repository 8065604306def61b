"""What calls raise."""

from __future__ import annotations

from typing import Any


class PosternError(Exception):
    """Any failure of a call."""


class NotReached(PosternError):
    """No answer came: no connection, or it broke off. The server may have done what you asked for."""


class TimedOut(NotReached):
    """No answer came in time."""


class UnexpectedAnswer(PosternError):
    """The answer is none of Postern's. Something between you and the server may have sent it."""


class ApiError(PosternError):
    """A refusal, or an error of the server. The subclasses in `postern_client.errors` are named by the code."""

    def __init__(
        self, message: str, *, status: int, code: str, retry_after: float | None, request_id: str | None, body: dict[str, Any]
    ) -> None:
        super().__init__(f"{message} ({code or status})")
        self.message = message
        """A sentence for people."""
        self.status = status
        """The HTTP status."""
        self.code = code
        """The error code, such as `NOT_FOUND`. Empty if the answer has none."""
        self.retry_after = retry_after
        """The seconds after which another try may succeed."""
        self.request_id = request_id
        """The operator of the server finds the request in the log by this id."""
        self.body = body
        """The whole body, such as `error` of an endpoint of OAuth."""
