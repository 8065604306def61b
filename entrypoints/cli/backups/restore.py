"""`postern backup restore`: restores a backup into an empty database, and holds the work that would go out of the house."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.backup_folders import BackupFolder, opened_digest_key
from adapters.postgres.backups.restored import HOLDABLE, OutgoingCount, OutgoingWork, enforced_hooks, hold, outgoing
from adapters.postgres.backups.snapshots import exported_snapshot, gather_statistics, is_empty, is_served, server_version
from adapters.postgres.backups.tools import ToolFailed
from adapters.postgres.grants import APPEND_ONLY, GrantsImpossible, apply, prepared_roles
from adapters.postgres.migrate import SchemaMismatch, plan_of_all
from adapters.postgres.migrating.schema import is_whole, way_here
from core.domain.backup_differences import differences
from core.domain.backups import BACKUP_RESTORED, BackupManifest
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen
from entrypoints.assembly.configured import key_file, key_ring
from entrypoints.cli.backups.check import verified
from entrypoints.cli.backups.common import find_backup, known_migrations, require_tools, run_interruptibly, was_recorded
from entrypoints.cli.backups.listing import opened_ring
from entrypoints.cli.backups.proof import CheckReport
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress
from entrypoints.cli.parsing.installation import SERVING_ROLE
from entrypoints.failures import OK, StartFailed, sole
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings

NAMES: Final[Mapping[OutgoingWork, str]] = {
    OutgoingWork.MAIL: "emails",
    OutgoingWork.DELIVERIES: "webhook deliveries and sign-out notifications",
    OutgoingWork.BILLING: "billing updates",
    OutgoingWork.SIEM: "SIEM exports",
    OutgoingWork.PROVISIONING: "provisioning connections",
    OutgoingWork.HOOKS: "hooks in report-only mode",
}


class GrantsMade(Frozen):
    """`roles` may serve now. `refused` has the roles that may not, each with one sentence."""

    roles: Sequence[str]
    refused: Mapping[str, str]


class Restored(Frozen):
    """`hooks` says what hooks do from now on; empty without hooks."""

    manifest: BackupManifest
    held: Collection[OutgoingWork]
    is_older: bool
    hooks: str
    grants: GrantsMade


Held = Callable[[Mapping[OutgoingWork, OutgoingCount]], Collection[OutgoingWork]]


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return run_interruptibly(partial(_run, arguments, settings))


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    folder = find_backup(settings, arguments.places, arguments.backup)
    if arguments.recovery_key is not None:
        _put_keys(settings, folder, Path(arguments.recovery_key))
    let_go = {OutgoingWork(kind) for kind in arguments.let_go}

    def held(counts: Mapping[OutgoingWork, OutgoingCount]) -> Collection[OutgoingWork]:
        if let_go or arguments.hold or not sys.stdin.isatty():
            return [kind for kind in OutgoingWork if kind not in let_go]
        return [kind for kind in OutgoingWork if not counts[kind].waiting or not _goes(kind, counts[kind].waiting)]

    say = partial(print, file=sys.stderr) if arguments.json else print
    done = await restore(settings, folder, held, say)
    manifest, kinds = done.manifest, done.held
    say(f"{manifest.id} is restored, in the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC.")
    if kinds:
        say(f"Held: {', '.join(NAMES[kind] for kind in kinds)}. `postern jobs release` resumes this work.")
    if done.hooks:
        say(done.hooks)
    if done.is_older:
        say("The backup is of an older Postern: run `postern migrate`.")
    details = {"held": ",".join(kinds)}
    recorded = await was_recorded(settings, Event(BACKUP_RESTORED, SYSTEM, Target("backup", manifest.id), details=details))
    if not recorded:
        say("The restore could not be recorded in the audit log.")
    if arguments.json:
        told = {"id": manifest.id, "made_at": manifest.made_at, "held": kinds, "needs_migration": done.is_older, "recorded": recorded}
        print_json({**told, "granted": done.grants.roles, "not_granted": dict(done.grants.refused)})
    for line in () if settings.embedded else _of_grants(done.grants):
        say(line)
    return OK


def _of_grants(grants: GrantsMade) -> Iterator[str]:
    """The last lines. What the operator has to run is the last one."""
    if not grants.roles and not grants.refused:
        yield "Now run `postern grants --apply` as the owner of the tables, and `postern doctor`."
    for role in grants.roles:
        yield f"{role} has the permissions that serving needs. Now run `postern doctor`."
    for sentence in grants.refused.values():
        yield f"{sentence}. Now run this as the owner of the tables:"
    for role in grants.refused:
        yield f"postern grants --apply{'' if role == SERVING_ROLE else f' --role {shlex.quote(role)}'}"


async def restore(settings: Settings, folder: BackupFolder, held: Held, say: Callable[[str], None]) -> Restored:
    """Restores into the database of these settings, and holds the kinds that `held` returns for what waits. `say` gets a line for each
    long step. A Postern that starts meanwhile finds no schema that it knows, and ends. Raises `StartFailed`; the database is then as it
    was, or lacks the rows of `schema_migrations`.
    """
    say("Comparing the backup with its manifest …")
    manifest = await _usable(settings, folder)
    try:
        async with reachable_database(settings, may_be_new=True):
            target = conninfo(settings)
            if await is_served(target):
                raise StartFailed("A running Postern uses this database: stop it first")
            if not await is_empty(target):
                raise StartFailed("The database is not empty: restore into a new one, so that nothing is lost or mixed")
            tools = await require_tools(embedded=settings.embedded, server_version=await server_version(target), restores=True)
            say("Restoring all tables …")
            with progress("Restoring", None, ""):
                await tools.restore(target, folder.dump, leave_mark_out=True)
            counts = await outgoing(target)
            kinds = await trio.to_thread.run_sync(held, counts, abandon_on_cancel=True)
            await hold(target, kinds)
            hooks = _of_hooks(counts[OutgoingWork.HOOKS].waiting, await enforced_hooks(target), held=OutgoingWork.HOOKS in kinds)
            await tools.restore_mark(target, folder.dump)
            grants = await _grant(target)
            say("Comparing all tables with the manifest, and gathering statistics …")
            await gather_statistics(target)
            async with exported_snapshot(target) as snapshot:
                state = await snapshot.state(opened_digest_key(manifest, key_ring(settings)))
            is_older = bool((await plan_of_all(target)).lacking)
    except (psycopg.Error, ToolFailed, SchemaMismatch, BaseExceptionGroup) as error:
        cause = sole(error)
        if isinstance(cause, (psycopg.Error, ToolFailed, SchemaMismatch)):
            raise StartFailed(f"The backup could not be restored: {' '.join(str(cause).split())}") from None
        raise cause from None
    # A new database may have extensions and functions of its provider, and default privileges that are not all of the grants.
    found = differences(manifest.database, state, held=HOLDABLE, additions=False, append_only=APPEND_ONLY, granted_now=grants.roles)
    for damage in found:
        raise StartFailed(f"The backup was restored, but {damage.sentence}")
    return Restored(manifest, kinds, is_older, hooks, grants)


async def _grant(target: str) -> GrantsMade:
    """Gives the roles for which the operator has prepared the database what serving needs. They may not be ours to grant."""
    roles, refused = [], {}
    for role in await prepared_roles(target):
        try:
            fault = (await apply(target, role)).fault
        except GrantsImpossible as error:
            fault = str(error)
        if fault is None:
            roles.append(role)
        else:
            refused[role] = fault
    return GrantsMade(roles, refused)


def _of_hooks(report_only: int, enforced: int, *, held: bool) -> str:
    """They call receivers of production with the names of real people. Empty without hooks."""
    told = "not called while work is held" if held else "asked"
    return f"Hooks in report-only mode: {report_only}, {told}. Enforced hooks: {enforced}, called." if report_only or enforced else ""


async def _usable(settings: Settings, folder: BackupFolder) -> BackupManifest:
    """The manifest of an undamaged backup that the key ring in force opens, and whose schema this program knows. Raises `StartFailed`."""
    report = CheckReport(folder.path.name, as_json=True)
    manifest = await verified(folder, key_ring(settings), report)
    if report.not_checked is not None:
        raise StartFailed(report.not_checked)
    if manifest is None:
        raise StartFailed(f"The backup cannot be used: {report.damages[0].sentence}")
    migrations = manifest.database.migrations
    if (way := way_here(migrations)) is not None:
        raise StartFailed(way.of_backup)
    if not is_whole(migrations) and list(migrations) != known_migrations()[: len(migrations)]:
        raise StartFailed("The backup is of a newer or another Postern: restore it with that version")
    return manifest


def _put_keys(settings: Settings, folder: BackupFolder, recovery_key: Path) -> None:
    """Writes the ring of the backup where this installation keeps its own."""
    file = key_file(settings)
    if file is None:
        raise StartFailed("The encryption keys are a setting here: `postern backup keys` prints those of the backup")
    if file.path.exists():
        raise StartFailed(f"{file.path} exists: --recovery-key is for a data directory without keys")
    ring = opened_ring(folder, recovery_key)
    file.path.parent.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(ring.replace(",", "\n"))
        opened.flush()
        os.fsync(opened.fileno())


def _goes(kind: OutgoingWork, waiting: int) -> bool:
    wait = "are queued since the backup, and may have been sent since"
    if kind is OutgoingWork.HOOKS:
        wait = "would be called at each sign-in, and receive data about real people"
    answer = input(f"{waiting} {NAMES[kind]} {wait}. Hold or release them? [hold/go] ")
    return answer.strip().lower() in {"go", "g"}
