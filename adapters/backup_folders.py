"""Backups as folders: each has a dump, a manifest and perhaps the sealed key ring. Only their owner may read them. A backup gets its name
when it is complete, so that a backup that was cut off is never taken for one.
"""

import hashlib
import os
import re
import shutil
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from core.domain.backups import BackupFile, BackupManifest
from ports.crypto import CannotOpen, KeyRing

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
DUMP: Final = "database.dump"
SEALED_KEYS: Final = "encryption.keys.sealed"
_UNFINISHED: Final = ".unfinished"
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
_PART: Final = 1 << 20


class ManifestUnusable(Exception):
    """The message is one sentence for the operator."""


class ManifestNewer(ManifestUnusable):
    """A newer program has written the manifest. It says nothing of the backup."""


class KeysDiffer(Exception):
    """The key ring is not the one that the backup was made with. The message is one sentence for the operator."""


class _Envelope(msgspec.Struct):
    """The seals are made with the key ring. `proof` shows whether the ring is the right one; `seal` covers every byte of the manifest."""

    format: int
    proof: str
    seal: str
    manifest: msgspec.Raw


class _Format(msgspec.Struct):
    format: int


class BackupFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def dump(self) -> Path:
        return self.path / DUMP

    @property
    def sealed_keys(self) -> Path:
        return self.path / SEALED_KEYS

    def write(self, name: str, content: bytes) -> BackupFile:
        """A new file, on the disk when this returns."""
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return BackupFile(name, len(content), hashlib.sha256(content).hexdigest())

    def weigh(self, name: str, on_part: Callable[[], None] = lambda: None) -> BackupFile:
        """Reads the file in parts, and brings it to the disk. Raises `FileNotFoundError`."""
        digest, size = hashlib.sha256(), 0
        with (self.path / name).open("rb") as file:
            os.fsync(file.fileno())
            while part := file.read(_PART):
                on_part()
                digest.update(part)
                size += len(part)
        return BackupFile(name, size, digest.hexdigest())

    def write_manifest(self, manifest: BackupManifest, keyring: KeyRing) -> None:
        content = msgspec.json.encode(manifest, order="deterministic")
        envelope = _Envelope(
            format=FORMAT,
            proof=b64encode(keyring.seal(b"", _proof_context(manifest.id))).decode(),
            seal=b64encode(keyring.seal(hashlib.sha256(content).digest(), _seal_context(manifest.id))).decode(),
            manifest=msgspec.Raw(content),
        )
        self.write(MANIFEST, msgspec.json.format(msgspec.json.encode(envelope), indent=1) + b"\n")

    def read_manifest(self) -> BackupManifest:
        """Without a look at its seal. Raises `ManifestUnusable`."""
        return _manifest(_content(self._envelope()))

    def verified_manifest(self, keyring: KeyRing) -> BackupManifest:
        """Raises `ManifestUnusable` or `KeysDiffer`."""
        envelope = self._envelope()
        content = _content(envelope)
        manifest = _manifest(content)
        if _NAME.fullmatch(self.path.name) and self.path.name != manifest.id:
            raise ManifestUnusable(f"the manifest is that of {manifest.id}: the files of two backups were swapped")
        try:
            keyring.open(_bytes(envelope.proof), _proof_context(manifest.id))
        except CannotOpen as error:
            name = manifest.encryption_keys[0] if manifest.encryption_keys else "unknown"
            raise KeysDiffer(
                f"the encryption keys in force are not those of the backup, which was made with the key {name}: {error}"
            ) from None
        try:
            sealed = keyring.open(_bytes(envelope.seal), _seal_context(manifest.id))
        except CannotOpen:
            sealed = b""
        if sealed != hashlib.sha256(content).digest():
            raise ManifestUnusable("the manifest was edited: its seal is of another text")
        return manifest

    def _envelope(self) -> _Envelope:
        try:
            text = (self.path / MANIFEST).read_bytes()
        except FileNotFoundError:
            raise ManifestUnusable(f"there is no {MANIFEST} in {self.path}") from None
        try:
            of_format = msgspec.json.decode(text, type=_Format).format
            if of_format > FORMAT:
                raise ManifestNewer(f"the manifest has the form {of_format} of a newer Postern; this one reads up to {FORMAT}")
            return msgspec.json.decode(text, type=_Envelope)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ManifestUnusable(f"{MANIFEST} cannot be read: it is cut, or not a manifest") from None


def sealed_digest_key(key: bytes, backup: str, keyring: KeyRing) -> str:
    """For the manifest of this backup."""
    return b64encode(keyring.seal(key, _digests_context(backup))).decode()


def opened_digest_key(manifest: BackupManifest, keyring: KeyRing) -> bytes | None:
    """The key of the digests of a verified manifest. None if the manifest has no digests."""
    if manifest.digest_key is None:
        return None
    return keyring.open(_bytes(manifest.digest_key), _digests_context(manifest.id))


def _content(envelope: _Envelope) -> bytes:
    return msgspec.json.format(bytes(envelope.manifest), indent=-1)


def _manifest(content: bytes) -> BackupManifest:
    try:
        return msgspec.json.decode(content, type=BackupManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ManifestUnusable(f"{MANIFEST} cannot be read: {error}") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        return b""


def _proof_context(backup: str) -> str:
    return f"backup.keys:{backup}"


def _seal_context(backup: str) -> str:
    return f"backup.manifest:{backup}"


def _digests_context(backup: str) -> str:
    return f"backup.digests:{backup}"


@contextmanager
def new_backup(places: Path, name: str) -> Iterator[BackupFolder]:
    """A folder that gets its name when the block ends well, and is removed otherwise. Raises `OSError`."""
    places.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = places / f"{name}{_UNFINISHED}"
    unfinished.mkdir(mode=0o700)
    try:
        yield BackupFolder(unfinished)
        _sync(unfinished)
        unfinished.rename(places / name)
        _sync(places)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def kept_backups(places: Path) -> Sequence[BackupFolder]:
    """The newest first. Leaves out unfinished ones, and folders with other names."""
    with suppress(FileNotFoundError):
        names = sorted((one.name for one in places.iterdir() if _NAME.fullmatch(one.name)), reverse=True)
        return [BackupFolder(places / name) for name in names]
    return ()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
