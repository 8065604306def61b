"""`postern keys recovery`: makes the key for which backups seal the key ring, and writes its two halves into files."""

import argparse
import os
from pathlib import Path
from typing import Final

from adapters.crypto.recipients import RecoveryKeyUnusable, make_recovery_key, make_x25519_recovery_key
from entrypoints.cli.output.printing import tell
from entrypoints.failures import OK, StartFailed

_PUBLIC: Final = "recovery.pub"
_MODE_PRIVATE: Final = 0o600
_MODE_PUBLIC: Final = 0o644


def run(arguments: argparse.Namespace) -> int:
    try:
        pair = make_x25519_recovery_key() if arguments.x25519 else make_recovery_key()
    except RecoveryKeyUnusable as error:
        raise StartFailed(str(error)) from None
    folder = Path(arguments.to)
    private, public = folder / ("recovery.pem" if arguments.x25519 else "recovery.key"), folder / _PUBLIC
    for file in (private, public):
        if file.exists():
            raise StartFailed(f"{file} exists: specify another folder with --to. Backups may need that key")
    _write(private, pair.private, _MODE_PRIVATE)
    _write(public, pair.public, _MODE_PUBLIC)
    tell(
        {"private": str(private), "public": str(public), "fingerprint": pair.fingerprint},
        f"{private}: the private half. Print it, store the paper offline, and delete the file.",
        f"{public}: the public half, for `postern backup create --seal-keys-for {public}`.",
        f"Fingerprint {pair.fingerprint}. A backup names it.",
        as_json=arguments.json,
    )
    return OK


def _write(file: Path, content: bytes, mode: int) -> None:
    """A new file, on the disk when this returns."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise StartFailed(f"{file} cannot be written: {error.strerror}") from None
