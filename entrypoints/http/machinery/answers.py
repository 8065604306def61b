"""What a handler answers with: a Struct for JSON, `NOTHING` for an empty object, `NO_BODY` for no body at all, bytes for what is already
encoded, `Streamed` for what is too long for one piece. An `Answer` around any of them sets a status or headers other than those of the
declaration.
"""

from collections.abc import AsyncGenerator
from typing import Final, Generic

import msgspec
from typing_extensions import TypeVar

from core.frozen import Frozen
from entrypoints.http.machinery.fields import MessageText

Headers = tuple[tuple[bytes, bytes], ...]
Value = TypeVar("Value")


class Nothing(msgspec.Struct, frozen=True):
    """An empty object: the status says it all."""


class Message(msgspec.Struct, frozen=True):
    """A sentence for people."""

    message: MessageText


class NoBody:
    """Not even an empty object."""


NOTHING: Final = Nothing()
NO_BODY: Final = NoBody()


class Answer(Frozen, Generic[Value]):
    value: Value
    status: int
    headers: Headers = ()


class Streamed(Frozen, Generic[Value]):
    """An answer that is too long to be made in one piece, as its encoded parts. They are made while the client reads, after the deadline of
    the handler and without its place among the requests at work: a part must be made quickly, and nothing may be held between two of them.
    What goes wrong then can only break the connection off.
    """

    parts: AsyncGenerator[bytes, None]


class SeeOther(Exception):
    """A caller rule sends the browser to another page before anything else happens."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


def redirect(place: str, status: int = 303) -> Answer[NoBody]:
    """303 after a form: it leads to another address, so that going back or reloading does not send the form again."""
    return Answer(NO_BODY, status, ((b"location", place.encode()),))
