"""New secrets, from the operating system's randomness."""

from typing import Protocol

from core.domain.secrets import Password, Secret, Token


class Secrets(Protocol):
    def token(self) -> Token:
        """256 bits, base64url without padding."""

    def mailed_token(self) -> Token:
        """What the link in a mail carries: a random UUID, 122 bits. For single use within hours, and kept as a digest."""

    def key(self, kind: str) -> Token:
        """What a machine keeps to identify itself: `<kind>_<6 lower-case letters and digits>_<32 random bytes in base62>`. Everything
        before the last underscore is public and tells it apart in a list.
        """

    def key_bytes(self, length: int) -> bytes:
        """Random bytes for a key of ours."""

    def letters(self, alphabet: str, length: int) -> Secret:
        """As many letters of this alphabet, for a person to type. Choose both so that they cannot be guessed while they count."""

    def password(self) -> Password:
        """A password for a person to type once: 20 characters without look-alikes, over 100 bits."""

    def spread(self) -> float:
        """A number in [0, 1) that keeps processes from acting in step."""
