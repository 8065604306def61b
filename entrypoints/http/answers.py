"""What a handler answers with: a Struct for JSON, `NOTHING` for an empty object, `NO_BODY` for no body at all, bytes for what is encoded
already. An `Answer` around any of them says a status or headers other than those of the declaration.
"""

from dataclasses import dataclass
from typing import Final, Generic

import msgspec
from typing_extensions import TypeVar

Headers = tuple[tuple[bytes, bytes], ...]
Value = TypeVar("Value")


class Nothing(msgspec.Struct, frozen=True):
    """There is nothing to say beyond the status."""


class Message(msgspec.Struct, frozen=True):
    """A sentence for people."""

    message: str


class NoBody:
    """Not even an empty object."""


NOTHING: Final = Nothing()
NO_BODY: Final = NoBody()


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    value: Value
    status: int
    headers: Headers = ()
