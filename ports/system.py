"""What nearly every use case takes from the machine: the time, new ids and new secrets."""

from typing import Protocol
from uuid import UUID

from core.domain.secrets import Password, Secret, Token
from core.frozen import Frozen
from ports.clock import Clock


class Ids(Protocol):
    """New ids. They are UUIDv7, so that rows which are made one after the other lie side by side."""

    def new(self) -> UUID: ...


class Secrets(Protocol):
    """New secrets, from the operating system's randomness."""

    def token(self) -> Token:
        """256 bits, base64url without padding."""

    def mailed_token(self) -> Token:
        """The token in the link of a mail: a random UUID, 122 bits. It is for single use within hours, and kept as a digest."""

    def key(self, kind: str) -> Token:
        """A key with which a machine identifies itself: `<kind>_<6 lower-case letters and digits>_<32 random bytes in base62>`. The part
        before the last underscore is public and tells the key apart in a list.
        """

    def key_bytes(self, length: int) -> bytes:
        """Random bytes for a key of ours."""

    def letters(self, alphabet: str, length: int) -> Secret:
        """As many letters of this alphabet, for a person to type. Choose alphabet and length so that nobody can guess the letters while
        they are valid.
        """

    def password(self) -> Password:
        """A password for a person to type once: 20 characters without look-alikes, over 100 bits."""

    def spread(self) -> float:
        """A number in [0, 1) that keeps processes from acting in step."""


class System(Frozen):
    """A use case that needs only one of the three may take that one alone."""

    clock: Clock
    ids: Ids
    secrets: Secrets
