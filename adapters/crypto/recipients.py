"""Encryption for one recipient, whose private key is elsewhere: files for another installation, and key rings of backups.

Encryption for one recipient: an X25519 key whose private half is elsewhere. The sender makes a key of its own for each message. Both
public halves are part of the derivation, so a message opens with the key that it was sealed for and no other.

Files that one installation seals for another, of any length and in bounded memory.

A file is a first line, the public half of the sender's key, and chunks of 64 KiB under AES-256-GCM. The nonce of a chunk is its number and
whether it is the last one. So a file that was cut off, reordered, lengthened or altered anywhere does not open, and no byte of an altered
chunk is ever read. The recipient's private half are 32 random bytes that its installation keeps sealed.

A key ring, sealed for a recovery key that is kept elsewhere: whoever has the backup alone cannot open it.

The recovery key is an X25519 key in PEM. A sealed ring is the text `postern-ring-1`, a line end, the public half of a key of its own, and
the ring under AES-256-GCM. Both public halves are part of the derivation, so a ring opens with the key that it was sealed for and no other.
"""

import base64
import io
from binascii import Error as NotBase64
from hashlib import sha256
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from ports.crypto import CannotOpen

PUBLIC_BYTES = 32


def cipher_for(recipient: X25519PublicKey, purpose: bytes) -> tuple[AESGCM, bytes]:
    """The cipher of one message, and the public half that the recipient needs. Raises `ValueError` for a key that is not one."""
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    return _cipher(own.exchange(recipient), purpose, public, recipient.public_bytes_raw()), public


def cipher_from(public: bytes, recipient: X25519PrivateKey, purpose: bytes) -> AESGCM:
    """Raises `ValueError` for a public half that is none."""
    shared = recipient.exchange(X25519PublicKey.from_public_bytes(public))
    return _cipher(shared, purpose, public, recipient.public_key().public_bytes_raw())


def _cipher(shared: bytes, purpose: bytes, own: bytes, recipient: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=purpose + own + recipient).derive(shared))


SEALED_FILE_BEGINNING: Final = b"postern-organization-1\n"
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
            self._cipher, own = cipher_for(X25519PublicKey.from_public_bytes(public), SEALED_FILE_BEGINNING)
        except ValueError:
            raise ReceivingKeyUnusable("The key of the receiving installation is none that anybody could have made") from None
        self._file = file
        self._number = 0
        self._waiting = bytearray()
        file.write(SEALED_FILE_BEGINNING + own)

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
        beginning = file.read(len(SEALED_FILE_BEGINNING) + PUBLIC_BYTES)
        if not beginning.startswith(SEALED_FILE_BEGINNING) or len(beginning) < len(SEALED_FILE_BEGINNING) + PUBLIC_BYTES:
            raise CannotOpen(_NOT_OURS)
        try:
            self._cipher = cipher_from(
                beginning[len(SEALED_FILE_BEGINNING) :], X25519PrivateKey.from_private_bytes(secret), SEALED_FILE_BEGINNING
            )
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


_BEGINNING: Final = b"postern-ring-1\n"
# The key is derived anew for each ring, and seals nothing else.
_NONCE: Final = bytes(12)


class RecoveryKeyUnusable(Exception):
    """The message is one sentence for the operator, and shows no key."""


def seal_ring(ring: str, public_key: bytes, backup: str) -> bytes:
    """Raises `RecoveryKeyUnusable`."""
    try:
        recipient = load_pem_public_key(public_key)
    except ValueError:
        recipient = None
    if not isinstance(recipient, X25519PublicKey):
        raise RecoveryKeyUnusable("The recovery key must be the public half of an X25519 key, in PEM")
    cipher, public = cipher_for(recipient, _BEGINNING)
    return _BEGINNING + public + cipher.encrypt(_NONCE, ring.encode(), backup.encode())


def open_ring(sealed: bytes, private_key: bytes, backup: str) -> str:
    """Raises `RecoveryKeyUnusable`, and `CannotOpen` for a ring that was sealed for another key or altered."""
    try:
        recipient = load_pem_private_key(private_key, None)
    except (ValueError, TypeError):
        recipient = None
    if not isinstance(recipient, X25519PrivateKey):
        raise RecoveryKeyUnusable("The recovery key must be an X25519 private key, in PEM and without a password")
    body = sealed.removeprefix(_BEGINNING)
    if len(body) == len(sealed) or len(body) < PUBLIC_BYTES:
        raise CannotOpen("not a sealed key ring")
    cipher = cipher_from(body[:PUBLIC_BYTES], recipient, _BEGINNING)
    try:
        return cipher.decrypt(_NONCE, body[PUBLIC_BYTES:], backup.encode()).decode()
    except InvalidTag:
        raise CannotOpen("altered, or sealed for another recovery key") from None
