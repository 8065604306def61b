"""The key ring: AES-256-GCM under keys with IDs. The first key seals, every key opens."""

import os
import re
import secrets
import tempfile
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ports.crypto import CannotOpen

VERSION: Final = 1
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
# Ids appear in logs and on the command line, and share a setting with `:` and `,`.
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# A ring in use checks its file for a new first key this often. After an unknown key id, the ring may check this much sooner.
_LOOK_EVERY: Final = 5.0
_LOOK_AGAIN_AFTER: Final = 1.0


class MalformedKeys(ValueError):
    """The text is not a list of keys. The message says where, and never shows key material."""


class EncryptionKey:
    """An id, and a key of 256 bits that is never printed."""

    __slots__ = ("_material", "id")

    def __init__(self, id: str, material: bytes) -> None:  # noqa: A002 - the noun's own word
        if not _KEY_ID.fullmatch(id):
            raise MalformedKeys("A key id is 1 to 64 letters, digits, dots, dashes and underscores")
        if len(material) != KEY_BYTES:
            raise MalformedKeys(f"The key {id!r} has {len(material)} bytes; it must have {KEY_BYTES}")
        self.id = id
        self._material = material

    def cipher(self) -> AESGCM:
        return AESGCM(self._material)

    def derived(self, purpose: str) -> bytes:
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(self._material)

    def line(self) -> str:
        """The key as a setting or a key file has it. No other method gives the key's bytes."""
        return f"{self.id}:{b64encode(self._material).decode()}"

    def __repr__(self) -> str:
        return f"EncryptionKey({self.id!r}, ***)"

    def __reduce__(self) -> str:
        raise TypeError("Encryption keys are not pickled")


def generate_key(now: datetime | None = None) -> EncryptionKey:
    """A new key. Its id begins with the day, and ends with random characters that tell keys of the same day apart."""
    day = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
    return EncryptionKey(f"{day}.{secrets.token_hex(3)}", os.urandom(KEY_BYTES))


def parse(text: str) -> Sequence[EncryptionKey]:
    """Keys from `id:base64`, separated by commas or line ends, current key first. Raises `MalformedKeys`."""
    keys: list[EncryptionKey] = []
    for number, entry in enumerate(filter(None, (part.strip() for part in re.split(r"[,\n]", text))), start=1):
        name, separator, encoded = entry.partition(":")
        if not separator:
            raise MalformedKeys(f"Entry {number} of the encryption keys is not of the form id:base64")
        if not _KEY_ID.fullmatch(name):
            # The message does not show the id, because somebody may have pasted the key before the colon.
            raise MalformedKeys(f"Entry {number} of the encryption keys has an id other than 1 to 64 letters, digits, dots and dashes")
        try:
            material = b64decode(encoded.strip(), validate=True)
        except (NotBase64, ValueError):
            raise MalformedKeys(f"The key {name!r} is not valid base64") from None
        if any(key.id == name for key in keys):
            raise MalformedKeys(f"The key id {name!r} occurs twice")
        keys.append(EncryptionKey(name, material))
    if not keys:
        raise MalformedKeys("There is no encryption key")
    return keys


class AesGcmKeyRing:
    """A sealed value is one byte of version, one byte with the length of the key ID, the key ID, a nonce of 12 random bytes, the ciphertext
    and its tag. The tag also covers everything before the nonce and the context, so a value that was moved to another row or column does
    not open. A key may seal about 2^32 values before a repeated nonce becomes likely enough to matter (NIST SP 800-38D section 8.3).

    `reload` reads the keys again. A ring with `reload` checks for a new first key every few seconds of use, and at once when it meets an
    unknown key id. A flood of unknown ids causes one check a second. The ring ignores new keys that lack its own first key: somebody has
    lost that key, and the values sealed under it would be lost with it.
    """

    def __init__(
        self,
        keys: Sequence[EncryptionKey],
        reload: Callable[[], Sequence[EncryptionKey]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reload = reload
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._take(keys)

    def seal(self, plaintext: bytes, context: str) -> bytes:
        self._look_if_due(_LOOK_EVERY)
        nonce = os.urandom(_NONCE_BYTES)
        return self._header + nonce + self._first.encrypt(nonce, plaintext, _associated(self._header, context))

    def open(self, sealed: bytes, context: str) -> bytes:
        name, header = _read_header(sealed)
        if name not in self._ciphers:
            self._look_if_due(_LOOK_AGAIN_AFTER)
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise CannotOpen(f"sealed under the key {name!r}, which the ring does not have")
        nonce_end = len(header) + _NONCE_BYTES
        try:
            return cipher.decrypt(sealed[len(header) : nonce_end], sealed[nonce_end:], _associated(header, context))
        except InvalidTag:
            raise CannotOpen(f"altered, or not sealed for {context!r}") from None

    def is_outdated(self, sealed: bytes) -> bool:
        return not sealed.startswith(self.current_header())

    def derive(self, purpose: str) -> bytes:
        self._look_if_due(_LOOK_EVERY)
        return self._deriving.derived(purpose)

    def current_key_id(self) -> str:
        self._look_if_due(_LOOK_EVERY)
        return self._ids[0]

    def current_header(self) -> bytes:
        self._look_if_due(_LOOK_EVERY)
        return self._header

    def key_ids(self) -> Sequence[str]:
        """Current key first."""
        self._look_if_due(_LOOK_EVERY)
        return self._ids

    def _look_if_due(self, pause: float) -> None:
        now = self._monotonic()
        if self._reload is None or now - self._looked_at < pause:
            return
        self._looked_at = now
        # The file may be missing or half written for a moment. The known keys still work, so the ring goes on. `postern doctor` and the
        # next start say what is wrong with the file.
        with suppress(OSError, MalformedKeys):
            keys = self._reload()
            if any(key.id == self._ids[0] for key in keys):
                self._take(keys)

    def _take(self, keys: Sequence[EncryptionKey]) -> None:
        if not keys:
            raise MalformedKeys("There is no encryption key")
        self._ids = tuple(key.id for key in keys)
        self._ciphers = {key.id: key.cipher() for key in keys}
        self._first = self._ciphers[self._ids[0]]
        self._deriving = keys[0]
        name = self._ids[0].encode()
        self._header = bytes((VERSION, len(name))) + name

    def __repr__(self) -> str:
        return f"AesGcmKeyRing({', '.join(self._ids)})"

    def __reduce__(self) -> str:
        raise TypeError("Key rings are not pickled")


class KeyFile:
    """The ring of an installation that keeps its own keys: one `id:base64` a line, current key first, readable only by its owner."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ensure(self) -> Sequence[EncryptionKey]:
        """The keys in the file. If there is no file, make one with a new key. When several processes start at once, only one makes it."""
        with self._held():
            if not self.path.exists():
                self._write([generate_key()])
            return self.read()

    def read(self) -> Sequence[EncryptionKey]:
        """Raises `OSError`, or `MalformedKeys` with the file's name."""
        try:
            return parse(self.path.read_text(encoding="utf-8"))
        except MalformedKeys as error:
            raise MalformedKeys(f"{self.path}: {error}") from None
        except UnicodeDecodeError:
            raise MalformedKeys(f"{self.path}: not a text file") from None

    def prepend(self, key: EncryptionKey) -> Sequence[EncryptionKey]:
        """Make `key` the current key. The other keys still open the values that they sealed."""
        with self._held():
            # Checked before writing: if two keys had the same id, all values sealed under the second key would be unreadable.
            keys = parse("\n".join(each.line() for each in (key, *self.read())))
            self._write(keys)
            return keys

    def ring(self) -> AesGcmKeyRing:
        """The ring of this file. It notices when another process changes the file. Raises `OSError`, `MalformedKeys`."""
        return AesGcmKeyRing(self.read(), reload=self.read)

    def _write(self, keys: Sequence[EncryptionKey]) -> None:
        # The keys go into a new file, which is synced and then renamed over the old file. So nobody ever reads half a file, not even after
        # a power cut. mkstemp makes the file readable by its owner only (0600).
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(f"{key.line()}\n" for key in keys)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """One writer at a time, across all processes. The lock is on the directory, because the file itself is replaced."""
        # Other users may enter the directory, because the embedded database in it may run as another user. The key file itself is private.
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            flock(descriptor, LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _associated(header: bytes, context: str) -> bytes:
    # The header contains its own length, so no two pairs of header and context give the same bytes.
    return header + context.encode()


def _read_header(sealed: bytes) -> tuple[str, bytes]:
    if len(sealed) < 2 or sealed[0] != VERSION:
        raise CannotOpen("not a sealed value of a version known here")
    end = 2 + sealed[1]
    if len(sealed) < end + _NONCE_BYTES + _TAG_BYTES:
        raise CannotOpen("cut short")
    try:
        return sealed[2:end].decode(), sealed[:end]
    except UnicodeDecodeError:
        raise CannotOpen("not a sealed value: its key id is not text") from None
