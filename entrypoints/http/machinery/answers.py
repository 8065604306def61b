"""The values that a handler returns: a Struct for JSON, `EMPTY_OBJECT` for an empty object, `NO_BODY` for no body at all, bytes for an
encoded body, `Streamed` for a body that is too long for one piece. An `Answer` around such a value sets another status or other headers
than the declaration.
"""

from collections.abc import AsyncGenerator
from typing import Final, Generic

import msgspec
from typing_extensions import TypeVar

from core.frozen import Frozen
from entrypoints.http.machinery.fields import MessageText
from entrypoints.http.machinery.headers import PagePolicy

Headers = tuple[tuple[bytes, bytes], ...]
Value = TypeVar("Value")


class EmptyObject(msgspec.Struct, frozen=True):
    """An empty object, for answers without data."""


class Message(msgspec.Struct, frozen=True):
    """A sentence for people."""

    message: MessageText


class NoBody:
    """No body at all, not even an empty object."""


EMPTY_OBJECT: Final = EmptyObject()
NO_BODY: Final = NoBody()


class Answer(Frozen, Generic[Value]):
    value: Value
    status: int
    headers: Headers = ()
    policy: PagePolicy | None = None
    """Of a page that needs another than its address has. None: the declared one."""


class Streamed(Frozen, Generic[Value]):
    """An answer that is too long for one piece, as its encoded parts. The generator makes the parts while the client reads. The handler's
    deadline and the limit of requests at work (`work.py`) do not apply to the parts. So the generator must make each part quickly, and must
    hold neither a lock nor a connection to the database between two parts. A failure in the generator breaks the connection off.
    """

    parts: AsyncGenerator[bytes, None]


class SeeOther(Exception):
    """A caller rule redirects the browser to another page, before the request has any effect."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


def redirect(place: str, status: int = 303) -> Answer[NoBody]:
    """A redirect. The default status 303 is for the answer to a form: reloading or going back then does not send the form again."""
    return Answer(NO_BODY, status, ((b"location", place.encode()),))
