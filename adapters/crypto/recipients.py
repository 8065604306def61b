"""Encrypts for one recipient, whose private key is elsewhere: files for another installation, and key rings of backups."""

import base64
import io
import os
from binascii import Error as NotBase64
from hashlib import sha256
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from adapters.crypto import hybrid_keys
from adapters.crypto.hybrid_keys import NoHybridKeys
from core.frozen import Frozen
from ports.crypto import CannotOpen

X25519_BYTES: Final = 32
LONGEST_KEY_FILE: Final = 16 * 1024
"""A file with a recovery key is far shorter."""
_FILE: Final = "postern-organization"
_RING: Final = "postern-ring"
_KEY_BYTES: Final = 32
_FINGERPRINT_LENGTH: Final = 24


class RecipientKey(Frozen):
    """The public half. Its length says of which kind it is.

    A hybrid key (`hybrid_keys.py`) or an X25519 key. Every message has a key of its own under AES-256-GCM. For a hybrid recipient, it
    begins with a first line such as `postern-ring-2`, a line with the fingerprint of the recipient's key, and the message's key, sealed by
    HPKE with both lines as `info`. The fingerprint tells for whom the message is, before anything opens. For an X25519 recipient, it begins
    with a first line such as `postern-ring-1`, and the public half of a key that the sender made for this message. Both public halves are
    part of the derivation. So a message opens with the key that it was sealed for and no other.
    """

    public: bytes

    @property
    def is_hybrid(self) -> bool:
        return len(self.public) == hybrid_keys.PUBLIC_BYTES

    @property
    def fingerprint(self) -> str:
        """What two operators compare over another channel: 80 bits, in groups."""
        digest = sha256(self.public).hexdigest()[:20]
        return "-".join(digest[start : start + 4] for start in range(0, len(digest), 4))


class RecipientSecrets(Frozen):
    """The private halves that a recipient has. Never printed by `repr`."""

    hybrid: bytes | None = None
    x25519: bytes | None = None

    def __repr__(self) -> str:
        return "RecipientSecrets(***)"

    @property
    def hybrid_key(self) -> RecipientKey:
        """Raises `NoHybridKeys`."""
        assert self.hybrid is not None  # noqa: S101 - for the type checker: whoever asks has one
        return RecipientKey(hybrid_keys.public_half(self.hybrid))

    @property
    def x25519_key(self) -> RecipientKey:
        assert self.x25519 is not None  # noqa: S101 - for the type checker: whoever asks has one
        return RecipientKey(X25519PrivateKey.from_private_bytes(self.x25519).public_key().public_bytes_raw())


class OtherRecipient(CannotOpen):
    """Sealed for another key. The message is a part of a sentence."""


def _sealed_for(recipient: RecipientKey, what: str) -> tuple[AESGCM, bytes]:
    """The cipher of one message, and how the message begins. Raises `ValueError` for a key that is none, and `NoHybridKeys`."""
    if recipient.is_hybrid:
        beginning, key = f"{what}-2\n{recipient.fingerprint}\n".encode(), os.urandom(_KEY_BYTES)
        return AESGCM(key), beginning + hybrid_keys.seal_key(key, recipient.public, beginning)
    beginning = f"{what}-1\n".encode()
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    shared = own.exchange(X25519PublicKey.from_public_bytes(recipient.public))
    return _derived(shared, beginning, public, recipient.public), beginning + public


def _opened_by(secrets: RecipientSecrets, what: str, file: BinaryIO) -> AESGCM | None:
    """The cipher of the message that begins here, or None for another kind of file. Raises `OtherRecipient`, `CannotOpen` for what was
    altered, and `NoHybridKeys`.
    """
    first = file.read(len(what) + 3)
    if first == f"{what}-1\n".encode():
        public = file.read(X25519_BYTES)
        if len(public) < X25519_BYTES:
            return None
        if secrets.x25519 is None:
            raise OtherRecipient("sealed for an X25519 key, and this is a hybrid one")
        try:
            shared = X25519PrivateKey.from_private_bytes(secrets.x25519).exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            return None
        return _derived(shared, first, public, secrets.x25519_key.public)
    if first != f"{what}-2\n".encode():
        return None
    line, sealed = file.read(_FINGERPRINT_LENGTH + 1), file.read(hybrid_keys.SEALED_KEY_BYTES)
    if len(sealed) < hybrid_keys.SEALED_KEY_BYTES or not _is_fingerprint(line):
        return None
    named = line.decode().rstrip("\n")
    if secrets.hybrid is None:
        raise OtherRecipient(f"sealed for a hybrid key with the fingerprint {named}, and this is an X25519 key")
    own = secrets.hybrid_key.fingerprint
    if named != own:
        raise OtherRecipient(f"sealed for a key with the fingerprint {named}, and this key has the fingerprint {own}")
    try:
        return AESGCM(hybrid_keys.open_key(sealed, secrets.hybrid, first + line))
    except CannotOpen:
        raise CannotOpen("altered") from None


def _is_fingerprint(line: bytes) -> bool:
    return len(line) == _FINGERPRINT_LENGTH + 1 and line.endswith(b"\n") and not line[:-1].translate(None, b"0123456789abcdef-")


def _derived(shared: bytes, purpose: bytes, own: bytes, recipient: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=purpose + own + recipient).derive(shared))


def _as_text(prefix: str, content: bytes) -> str:
    return prefix + base64.urlsafe_b64encode(content).decode().rstrip("=")


def _from_text(prefix: str, text: str, length: int) -> bytes | None:
    encoded = text.strip().removeprefix(prefix)
    try:
        content = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (NotBase64, ValueError):
        return None
    return content if text.strip().startswith(prefix) and len(content) == length else None


_RECEIVE_X25519: Final = "postern-receive-1-"
_RECEIVE_HYBRID: Final = "postern-receive-2-"
_CHUNK: Final = 64 * 1024
_TAG: Final = 16
_NOT_OURS: Final = "it is not a file of `postern organization export`"


class ReceivingKeyUnusable(Exception):
    """The message is one sentence for the operator."""


def receiving_key(key: RecipientKey) -> str:
    """The public half as an operator hands it on."""
    return _as_text(_RECEIVE_HYBRID if key.is_hybrid else _RECEIVE_X25519, key.public)


def parse_receiving_key(text: str) -> RecipientKey:
    """Raises `ReceivingKeyUnusable`."""
    for prefix, length in ((_RECEIVE_HYBRID, hybrid_keys.PUBLIC_BYTES), (_RECEIVE_X25519, X25519_BYTES)):
        public = _from_text(prefix, text, length)
        if public is not None:
            return RecipientKey(public)
    raise ReceivingKeyUnusable(
        f"The key of the receiving installation begins with {_RECEIVE_HYBRID} or {_RECEIVE_X25519}, and is complete: "
        "`postern organization receive-key` prints it there"
    )


class SealingFile(io.RawIOBase):
    """What is written here goes sealed into the file. Only `close` writes the last chunk; a file without it does not open.

    A file that one installation seals for another, of any length and in bounded memory: the beginning, and chunks of 64 KiB. The nonce of a
    chunk is its number and whether it is the last one. So a file that was cut off, reordered, lengthened or altered anywhere does not open,
    and no byte of an altered chunk is ever read. The private halves are random bytes that the recipient's installation stores sealed.
    """

    def __init__(self, file: BinaryIO, recipient: RecipientKey) -> None:
        super().__init__()
        try:
            self._cipher, beginning = _sealed_for(recipient, _FILE)
        except NoHybridKeys as error:
            raise ReceivingKeyUnusable(f"{error}: `postern organization receive-key --x25519` prints that key") from None
        except ValueError:
            raise ReceivingKeyUnusable("The key of the receiving installation is none that anybody could have made") from None
        self._file = file
        self._number = 0
        self._waiting = bytearray()
        file.write(beginning)

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

    def __init__(self, file: BinaryIO, secrets: RecipientSecrets) -> None:
        super().__init__()
        try:
            cipher = _opened_by(secrets, _FILE, file)
        except OtherRecipient as error:
            raise CannotOpen(f"it was {error}: it is for another installation") from None
        except NoHybridKeys as error:
            raise CannotOpen(f"it was sealed for a hybrid key. {error}") from None
        except CannotOpen as error:
            raise CannotOpen(f"it was {error}") from None
        if cipher is None:
            raise CannotOpen(_NOT_OURS)
        self._cipher = cipher
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
            first = "it was sealed for another installation, or altered"
            raise CannotOpen(first if self._number == 0 else "it was altered, or cut off") from None
        self._number += 1


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


_RECOVERY_PUBLIC: Final = "postern-recovery-2-"
_RECOVERY_SECRET: Final = "postern-recovery-secret-2-"  # noqa: S105 - how one begins
# The key is made anew for each ring, and seals nothing else.
_NONCE: Final = bytes(12)


class RecoveryKeyUnusable(Exception):
    """The message is one sentence for the operator, and shows no key."""


class RecoveryPair(Frozen):
    """Both halves of a new recovery key, as files have them. Never printed by `repr`."""

    private: bytes
    public: bytes
    fingerprint: str

    def __repr__(self) -> str:
        return f"RecoveryPair({self.fingerprint})"


def make_recovery_key() -> RecoveryPair:
    """A hybrid one. Raises `RecoveryKeyUnusable`."""
    seed = os.urandom(hybrid_keys.SEED_BYTES)
    try:
        key = RecipientSecrets(hybrid=seed).hybrid_key
    except NoHybridKeys as error:
        raise RecoveryKeyUnusable(f"{error} (`--x25519`)") from None
    private, public = _as_text(_RECOVERY_SECRET, seed), _as_text(_RECOVERY_PUBLIC, key.public)
    return RecoveryPair(f"{private}\n".encode(), f"{public}\n".encode(), key.fingerprint)


def make_x25519_recovery_key() -> RecoveryPair:
    """The pair that `openssl genpkey -algorithm X25519` makes."""
    private = X25519PrivateKey.generate()
    public = private.public_key()
    return RecoveryPair(
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        RecipientKey(public.public_bytes_raw()).fingerprint,
    )


def parse_recovery_key(file: bytes) -> RecipientKey:
    """The public half. Raises `RecoveryKeyUnusable`, also for a key that this build cannot seal for."""
    text = file[:LONGEST_KEY_FILE].decode(errors="replace").strip()
    if text.startswith(_RECOVERY_SECRET) or "PRIVATE KEY" in text:
        raise RecoveryKeyUnusable("This is the private half of a recovery key: keep it offline, and specify the public half")
    if text.startswith(_RECOVERY_PUBLIC):
        public = _from_text(_RECOVERY_PUBLIC, text, hybrid_keys.PUBLIC_BYTES)
        if public is None:
            raise RecoveryKeyUnusable(f"The recovery key begins with {_RECOVERY_PUBLIC}, but is incomplete or was altered")
        recipient = RecipientKey(public)
        _sealed_for_recovery(recipient)
        return recipient
    try:
        key = load_pem_public_key(file[:LONGEST_KEY_FILE])
    except ValueError:
        key = None
    if not isinstance(key, X25519PublicKey):
        raise RecoveryKeyUnusable(
            "The recovery key must be a public half that `postern keys recovery` made, or the public half of an X25519 key, in PEM"
        )
    return RecipientKey(key.public_bytes_raw())


def _sealed_for_recovery(recipient: RecipientKey) -> tuple[AESGCM, bytes]:
    """Raises `RecoveryKeyUnusable`."""
    try:
        return _sealed_for(recipient, _RING)
    except NoHybridKeys as error:
        raise RecoveryKeyUnusable(f"{error}: `postern keys recovery --x25519` makes such a key") from None
    except ValueError:
        raise RecoveryKeyUnusable("The recovery key is none that anybody could have made") from None


def seal_ring(ring: str, recipient: RecipientKey, backup: str) -> bytes:
    """Seals a key ring for a recovery key that is stored elsewhere: whoever has the backup alone cannot open it. The hybrid recovery key is
    a text of ours, the X25519 one is in PEM. Raises `RecoveryKeyUnusable`.
    """
    cipher, beginning = _sealed_for_recovery(recipient)
    return beginning + cipher.encrypt(_NONCE, ring.encode(), backup.encode())


def open_ring(sealed: bytes, private_key: bytes, backup: str) -> str:
    """Raises `RecoveryKeyUnusable`, and `CannotOpen` for a ring that was sealed for another key or altered."""
    secrets = _recovery_secrets(private_key)
    file = io.BytesIO(sealed)
    try:
        cipher = _opened_by(secrets, _RING, file)
    except OtherRecipient as error:
        raise CannotOpen(f"they were {error}") from None
    except NoHybridKeys as error:
        raise RecoveryKeyUnusable(str(error)) from None
    if cipher is None:
        raise CannotOpen("not a sealed key ring")
    try:
        return cipher.decrypt(_NONCE, file.read(), backup.encode()).decode()
    except InvalidTag:
        raise CannotOpen("altered, or sealed for another recovery key" if secrets.hybrid is None else "altered") from None


def _recovery_secrets(private_key: bytes) -> RecipientSecrets:
    """Raises `RecoveryKeyUnusable`."""
    text = private_key[:LONGEST_KEY_FILE].decode(errors="replace").strip()
    if text.startswith(_RECOVERY_PUBLIC) or "PUBLIC KEY" in text:
        raise RecoveryKeyUnusable("This is the public half of a recovery key: only the private half decrypts")
    if text.startswith(_RECOVERY_SECRET):
        seed = _from_text(_RECOVERY_SECRET, text, hybrid_keys.SEED_BYTES)
        if seed is None:
            raise RecoveryKeyUnusable(f"The recovery key begins with {_RECOVERY_SECRET}, but is incomplete or was altered")
        return RecipientSecrets(hybrid=seed)
    try:
        key = load_pem_private_key(private_key[:LONGEST_KEY_FILE], None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, X25519PrivateKey):
        raise RecoveryKeyUnusable(
            f"The recovery key must begin with {_RECOVERY_SECRET}, or be an X25519 private key, in PEM and without a password"
        )
    return RecipientSecrets(x25519=key.private_bytes_raw())
