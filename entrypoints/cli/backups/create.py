"""`postern backup create`: writes a dump of the database and its manifest, both from one snapshot."""

import argparse
import secrets
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.backup_folders import DUMP, SEALED_KEYS, BackupFolder, new_backup, sealed_digest_key
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.crypto.recipients import LONGEST_KEY_FILE, RecipientKey, RecoveryKeyUnusable, parse_recovery_key, seal_ring
from adapters.postgres.backups.snapshots import DatabaseSnapshot, Unreadable, exported_snapshot
from adapters.postgres.backups.tools import ToolFailed
from core.domain.backups import BackupFile, BackupManifest, DatabaseState
from core.domain.record.events import SYSTEM, Event, Target
from entrypoints.assembly.configured import key_file, key_ring
from entrypoints.bootstrap import open_postern
from entrypoints.cli.backups.common import on_database, places_of, require_tools, run_interruptibly, was_recorded
from entrypoints.cli.backups.listing import backup_as_json
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say, say_beside
from entrypoints.failures import OK, StartFailed, sole
from entrypoints.first_start import require_encryption_keys
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings

_DIGEST_KEY_BYTES: Final = 32


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    run_interruptibly(partial(_run, arguments, settings))
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    places = places_of(settings, arguments.places)
    recovery_key = None if arguments.seal_keys_for is None else _recovery_key(arguments.seal_keys_for)
    source = settings if arguments.database is None else on_database(settings, arguments.database)
    as_json: bool = arguments.json
    tell = say_beside if as_json else say
    tell("Dumping the database, and making digests of its tables …")
    manifest = await create(source, places, recovery_key)
    rows = sum(table.rows or 0 for table in manifest.database.tables.values())
    if as_json:
        print_json(backup_as_json(BackupFolder(places / manifest.id), manifest))
    else:
        say(f"{places / manifest.id}: {rows} rows, {manifest.dump.size / (1 << 20):.1f} MiB.")
    if manifest.sealed_keys is None:
        tell("The backup does not contain the encryption keys: store them elsewhere. `postern backup check` verifies that they match.")
    if recovery_key is not None:
        tell(f"The backup contains the encryption keys, encrypted for the recovery key with the fingerprint {recovery_key.fingerprint}.")
    event = Event("platform.backup.created", SYSTEM, Target("backup", manifest.id), details={"bytes": manifest.dump.size, "rows": rows})
    if not await was_recorded(settings, event):
        tell("The backup could not be recorded in the audit log.")


async def create(settings: Settings, places: Path, recovery_key: RecipientKey | None = None) -> BackupManifest:
    """Backs up the database of these settings. Raises `StartFailed`."""
    keyring = key_ring(settings)
    try:
        async with reachable_database(settings):
            async with open_postern(settings) as postern:
                await require_encryption_keys(postern)
            async with exported_snapshot(conninfo(settings)) as snapshot:
                return await _write(settings, places, snapshot, keyring, recovery_key)
    except (psycopg.Error, ToolFailed, Unreadable, RecoveryKeyUnusable, OSError, BaseExceptionGroup) as error:
        cause = sole(error)
        if isinstance(cause, OSError):
            raise StartFailed(f"The backup could not be written to {places}: {cause.strerror}") from None
        if isinstance(cause, (psycopg.Error, ToolFailed, Unreadable, RecoveryKeyUnusable)):
            raise StartFailed(f"No backup was created: {' '.join(str(cause).split())}") from None
        raise cause from None


async def _write(
    settings: Settings, places: Path, snapshot: DatabaseSnapshot, keyring: AesGcmKeyRing, recovery_key: RecipientKey | None
) -> BackupManifest:
    tools = await require_tools(embedded=settings.embedded, server_version=snapshot.server_version)
    made_at = datetime.now(UTC)
    name = f"{made_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    with new_backup(places, name) as folder:
        states: list[DatabaseState] = []
        digest_key = secrets.token_bytes(_DIGEST_KEY_BYTES)

        async def count() -> None:
            states.append(await snapshot.state(digest_key))

        # Both read the same snapshot, so the manifest tells exactly what is in the dump.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            with progress("Dumping the database", None, ""):
                await tools.dump(conninfo(settings), snapshot.name, folder.dump)
        manifest = BackupManifest(
            id=name,
            made_at=made_at,
            version=version("postern"),
            encryption_keys=tuple(keyring.key_ids()),
            dump=await trio.to_thread.run_sync(folder.weigh, DUMP, trio.from_thread.check_cancelled),
            sealed_keys=None if recovery_key is None else _seal_keys(settings, folder, recovery_key, name),
            database=states[0],
            digest_key=sealed_digest_key(digest_key, name, keyring),
        )
        folder.write_manifest(manifest, keyring)
    return manifest


def _seal_keys(settings: Settings, folder: BackupFolder, recovery_key: RecipientKey, name: str) -> BackupFile:
    file = key_file(settings)
    if file is not None:
        ring = "\n".join(key.line() for key in file.read())
    else:
        ring = settings.encryption_keys.reveal() if settings.encryption_keys is not None else ""
    return folder.write(SEALED_KEYS, seal_ring(ring, recovery_key, name))


def _recovery_key(file: str) -> RecipientKey:
    """Looked at before anything is dumped."""
    try:
        with Path(file).open("rb") as opened:
            return parse_recovery_key(opened.read(LONGEST_KEY_FILE))
    except RecoveryKeyUnusable as error:
        raise StartFailed(f"No backup was created: {error}") from None
    except OSError as error:
        raise StartFailed(f"The recovery key {file} cannot be read: {error.strerror}") from None
