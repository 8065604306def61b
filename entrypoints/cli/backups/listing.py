"""`postern backup list` and `postern backup keys`."""

import argparse
import sys
from functools import partial
from pathlib import Path

import trio

from adapters.backup_folders import BackupFolder, ManifestUnusable, kept_backups
from adapters.crypto.recipients import RecoveryKeyUnusable, open_ring
from core.domain.backups import BackupManifest
from core.domain.formats import Json, timestamp
from entrypoints.cli.backups.common import NoSuchBackup, find_backup, places_of
from entrypoints.cli.output.printing import moment, print_json
from entrypoints.failures import FAILURE, OK, StartFailed
from entrypoints.settings import Settings
from ports.crypto import CannotOpen


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.action == "keys":
        sys.stdout.write(opened_ring(find_backup(settings, arguments.places, arguments.backup), Path(arguments.recovery_key)))
        return OK
    return trio.run(partial(_list, arguments, settings))


async def _list(arguments: argparse.Namespace, settings: Settings) -> int:
    """Says nothing about what is inside: that is what `postern backup check` is for."""
    places = places_of(settings, arguments.places)
    if arguments.places is not None and not places.is_dir():
        raise NoSuchBackup(f"Folder not found: {places}")
    backups = kept_backups(places)
    told = [(folder, _manifest(folder)) for folder in backups]
    if arguments.json:
        print_json([backup_as_json(folder, manifest) for folder, manifest in told])
    else:
        for folder, manifest in told:
            print(_line(folder, manifest))
        if not told:
            print(f"No backup found in {places}.")
    return OK if all(isinstance(manifest, BackupManifest) for _, manifest in told) else FAILURE


def _manifest(folder: BackupFolder) -> BackupManifest | str:
    try:
        return folder.read_manifest()
    except ManifestUnusable as error:
        return str(error)


def _line(folder: BackupFolder, manifest: BackupManifest | str) -> str:
    if isinstance(manifest, str):
        return f"{folder.path.name}  {manifest}"
    keys = "with sealed keys" if manifest.sealed_keys is not None else "without keys"
    return (
        f"{manifest.id}  {moment(manifest.made_at)}  {manifest.dump.size / (1 << 20):>9.1f} MiB  "
        f"Postern {manifest.version}, {_schema(manifest)}, key {manifest.encryption_keys[0]}, {keys}"
    )


def backup_as_json(folder: BackupFolder, manifest: BackupManifest | str) -> Json:
    if isinstance(manifest, str):
        return {"id": folder.path.name, "path": str(folder.path), "damage": manifest}
    return {
        "id": manifest.id,
        "path": str(folder.path),
        "made_at": timestamp(manifest.made_at),
        "bytes": manifest.dump.size,
        "rows": sum(table.rows or 0 for table in manifest.database.tables.values()),
        "version": manifest.version,
        "schema": _schema(manifest),
        "encryption_keys": list(manifest.encryption_keys),
        "has_sealed_keys": manifest.sealed_keys is not None,
    }


def _schema(manifest: BackupManifest) -> str:
    return manifest.database.migrations[-1].partition(" ")[0] if manifest.database.migrations else "no schema"


def opened_ring(folder: BackupFolder, recovery_key: Path) -> str:
    """The ring as a key file has it. Raises `StartFailed`."""
    try:
        return f"{open_ring(folder.sealed_keys.read_bytes(), recovery_key.read_bytes(), folder.path.name)}\n"
    except RecoveryKeyUnusable as error:
        raise StartFailed(str(error)) from None
    except CannotOpen as error:
        raise StartFailed(f"This recovery key cannot decrypt the sealed encryption keys: {error}") from None
    except OSError as error:
        raise StartFailed(f"{error.filename} cannot be read: {error.strerror}") from None
