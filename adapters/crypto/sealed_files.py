"""Files that one installation seals for another, of any length and in bounded memory.

A file is a first line, the public half of the sender's key, and chunks of 64 KiB under AES-256-GCM. The nonce of a chunk is its number and
whether it is the last one. So a file that was cut off, reordered, lengthened or altered anywhere does not open, and no byte of an altered
chunk is ever read. The recipient's private half are 32 random bytes that its installation keeps sealed.
"""

import base64
import io
from binascii import Error as NotBase64
from hashlib import sha256
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from adapters.crypto.recipients import PUBLIC_BYTES, cipher_for, cipher_from
from ports.crypto import CannotOpen

BEGINNING: Final = b"postern-organization-1\n"
_KEY_PREFIX: Final = "postern-receive-1-"
_CHUNK: Final = 64 * 1024
_TAG: Final = 16
_NOT_OURS: Final = "it is not a file of `postern organization export`"


class ReceivingKeyUnusable(Exception):
    """The message is one sentence for the operator."""


def receiving_key(secret: bytes) -> str:
    """The public half as an operator hands it on."""
    return _KEY_PREFIX + base64.urlsafe_b64encode(_public(secret)).decode().rstrip("=")


def parse_receiving_key(text: str) -> bytes:
    """Raises `ReceivingKeyUnusable`."""
    encoded = text.strip().removeprefix(_KEY_PREFIX)
    try:
        public = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (NotBase64, ValueError):
        public = b""
    if not text.strip().startswith(_KEY_PREFIX) or len(public) != PUBLIC_BYTES:
        raise ReceivingKeyUnusable(
            f"The key of the receiving installation begins with {_KEY_PREFIX}: `postern organization receive-key` prints it there"
        )
    return public


def fingerprint(public: bytes) -> str:
    """What two operators compare over another way: 80 bits, in groups."""
    digest = sha256(public).hexdigest()[:20]
    return "-".join(digest[start : start + 4] for start in range(0, len(digest), 4))


def fingerprint_of(secret: bytes) -> str:
    return fingerprint(_public(secret))


class SealingFile(io.RawIOBase):
    """What is written here goes sealed into the file. Only `close` writes the last chunk; a file without it does not open."""

    def __init__(self, file: BinaryIO, public: bytes) -> None:
        super().__init__()
        try:
            self._cipher, own = cipher_for(X25519PublicKey.from_public_bytes(public), BEGINNING)
        except ValueError:
            raise ReceivingKeyUnusable("The key of the receiving installation is none that anybody could have made") from None
        self._file = file
        self._number = 0
        self._waiting = bytearray()
        file.write(BEGINNING + own)

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]  # gzip gives nothing else
        self._waiting += data
        while len(self._waiting) > _CHUNK:
            self._seal(bytes(self._waiting[:_CHUNK]), last=False)
            del self._waiting[:_CHUNK]
        return len(data)

    def finish(self) -> None:
        self._seal(bytes(self._waiting), last=True)
        self._waiting.clear()

    def _seal(self, chunk: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), chunk, None))
        self._number += 1


class OpeningFile(io.RawIOBase):
    """Reads what was sealed. Raises `CannotOpen`, also in the middle of the file."""

    def __init__(self, file: BinaryIO, secret: bytes) -> None:
        super().__init__()
        beginning = file.read(len(BEGINNING) + PUBLIC_BYTES)
        if not beginning.startswith(BEGINNING) or len(beginning) < len(BEGINNING) + PUBLIC_BYTES:
            raise CannotOpen(_NOT_OURS)
        try:
            self._cipher = cipher_from(beginning[len(BEGINNING) :], X25519PrivateKey.from_private_bytes(secret), BEGINNING)
        except ValueError:
            raise CannotOpen(_NOT_OURS) from None
        self._file = file
        self._number = 0
        self._opened = b""
        self._next = file.read(_CHUNK + _TAG)
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # gzip gives nothing else
        while not self._opened and not self._ended:
            self._open()
        part = self._opened[: len(buffer)]
        buffer[: len(part)] = part
        self._opened = self._opened[len(part) :]
        return len(part)

    def _open(self) -> None:
        chunk, self._next = self._next, self._file.read(_CHUNK + _TAG)
        self._ended = not self._next
        try:
            self._opened = self._cipher.decrypt(_nonce(self._number, last=self._ended), chunk, None)
        except InvalidTag:
            raise CannotOpen(
                "it was sealed for another installation, or altered" if self._number == 0 else "it was altered, or cut off"
            ) from None
        self._number += 1


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


def _public(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
