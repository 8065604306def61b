"""New secrets, from the operating system's randomness."""

from typing import Protocol

from core.domain.secrets import Password, Secret, Token


class Secrets(Protocol):
    """The operating system's randomness implements it."""

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
