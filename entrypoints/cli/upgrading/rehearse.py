"""`postern upgrade rehearse`: tries the upgrade to this version on a backup, in a scratch database, and reports whether it works."""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psycopg

from adapters.backup_folders import BackupFolder, opened_digest_key
from adapters.outbound.closed import closed_ways
from adapters.postgres.backups.restored import missing_parts, missing_rows
from adapters.postgres.backups.snapshots import Unreadable, exported_snapshot, gather_statistics
from adapters.postgres.backups.tools import ToolFailed
from adapters.postgres.listening_processes import ListeningProcess
from adapters.postgres.migrate import Migration, MigrationPlan, SchemaMismatch, migrate, plan_of_all
from adapters.postgres.migrating.watch import MigrationWatch
from core.domain.backup_differences import rows_lost
from core.domain.backups import BackupManifest, DamageKind
from core.domain.errors import Refusal
from core.domain.secrets import Secret
from entrypoints.assembly.configured import key_ring
from entrypoints.bootstrap import open_postern
from entrypoints.cli.backups.check import is_known, verified
from entrypoints.cli.backups.common import find_backup, run_interruptibly
from entrypoints.cli.backups.proof import CheckReport, compared, open_all_sealed, verify_chains
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say_beside
from entrypoints.cli.upgrading.journey import Failed, Journey, leave_out_demands
from entrypoints.cli.upgrading.news import changelog, concerning, entries_since, used_words
from entrypoints.cli.upgrading.page import LONGEST_LOCK, CountedRows, Findings, as_json, lines
from entrypoints.cli.upgrading.scratch import Scratch, scratch
from entrypoints.failures import FAILURE, StartFailed, sole
from entrypoints.settings import Settings
from ports.crypto import CannotOpen

_FULL: Final = "No space is left in {}, so the upgrade could not be rehearsed: name a larger place with --work"


class _No(Exception):
    """The answer is no, and `Findings` says why. No further step makes sense."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return run_interruptibly(partial(_run, arguments, settings))


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    folder = find_backup(settings, arguments.places, arguments.backup)
    found = Findings(folder.path.name, version("postern"))
    work = Path(tempfile.gettempdir() if arguments.work is None else arguments.work)
    await rehearse(settings, folder, found, server=arguments.scratch, work=work)
    if arguments.json:
        print_json(as_json(found))
    else:
        print("\n".join(lines(found)))
    if arguments.out is not None:
        _write(Path(arguments.out), json.dumps(as_json(found), indent=2) + "\n")
    return found.status


async def rehearse(settings: Settings, folder: BackupFolder, found: Findings, *, server: str | None, work: Path) -> None:
    """Fills `found`. Raises `StartFailed` if the rehearsal could not begin."""
    manifest = await _readable(settings, folder, found)
    if manifest is None:
        return
    async with scratch(server, work, manifest.database.size) as made:
        with closed_ways(made.hosts) as ways:
            reason = ""
            try:
                await _in_copy(settings, folder, manifest, made, found)
            except _No:
                pass
            except (psycopg.Error, OSError, ToolFailed, StartFailed, SchemaMismatch, Unreadable, BaseExceptionGroup) as error:
                cause = sole(error)
                if isinstance(cause, BaseExceptionGroup) or not isinstance(cause, Exception):
                    raise
                if not isinstance(cause, _No):
                    reason = _reason(cause)
                    found.no(reason.rstrip("."))
            if found.reasons and made.is_full(reason):
                # Whatever failed last, it failed for this.
                found.reasons.clear()
                found.no(_FULL.format(made.place), FAILURE)
            found.refused_calls = len(ways.refused)


def _reason(cause: Exception) -> str:
    """One sentence. What a server says beside its message may have values of rows in it."""
    if isinstance(cause, psycopg.Error):
        return cause.diag.message_primary or str(cause).partition("\n")[0]
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return " ".join(str(cause).split())


async def _readable(settings: Settings, folder: BackupFolder, found: Findings) -> BackupManifest | None:
    report = CheckReport(found.backup, as_json=True)
    say_beside("Comparing the backup with its manifest …")
    manifest = await verified(folder, key_ring(settings), report)
    if manifest is not None:
        found.made_at, found.version_before = manifest.made_at, manifest.version
        is_known(manifest.database.migrations, report)
    if report.not_checked is not None:
        found.no(f"The backup was not checked. {report.not_checked}", report.status)
        return None
    _take(report, found)
    return manifest if not found.reasons else None


def _take(report: CheckReport, found: Findings, what: str = "The backup") -> None:
    """The damages, as reasons, with the exit status of a check."""
    for damage in report.damages:
        found.no(f"{what} is damaged ({damage.kind}): {damage.sentence}", report.status)


async def _in_copy(settings: Settings, folder: BackupFolder, manifest: BackupManifest, made: Scratch, found: Findings) -> None:
    copied = _in_scratch(settings, made)
    report = CheckReport(found.backup, as_json=True)
    say_beside("Restoring the backup …")
    with progress("Restoring", None, ""):
        await made.tools.restore(made.url, folder.dump)
    await gather_statistics(made.url)
    say_beside("Comparing all tables with the manifest …")
    await compared(made.url, manifest, key_ring(settings), report)
    _take(report, found)
    _stop_at(found)
    found.waits_for_disk = await made.keep_safe()
    plan = await plan_of_all(made.url)
    await _migrate(made.url, plan, manifest, found)
    say_beside("Comparing all tables with those of before …")
    await _compare_again(settings, made.url, plan, manifest, found)
    _stop_at(found)
    await _prove(copied, made.url, manifest, found)
    _stop_at(found)
    used = await used_words(settings, made.url)
    found.entries = concerning(entries_since(changelog(), manifest.version), used)
    found.left_out = await leave_out_demands(made.url)
    async with open_postern(copied) as postern:
        journey = Journey(postern, made.url, say_beside)
        try:
            await journey.sign_in()
            found.pages = await journey.pages()
        except Failed as failure:
            found.no(f"{str(failure)[0].upper()}{str(failure)[1:]}")
        except (Refusal, CannotOpen, LookupError, ValueError) as error:
            found.no(f"A new account cannot sign in: {str(error).rstrip('.') or type(error).__name__}")
    found.is_complete = True


def _stop_at(found: Findings) -> None:
    if found.reasons:
        raise _No


def _in_scratch(settings: Settings, made: Scratch) -> Settings:
    """These settings, with the copy in place of the own database. Nothing is written outside the folder, and no trace leaves."""
    mail = f"file:{made.folder / 'mail'}"
    return replace(settings, database_url=Secret(made.url), mail=mail, mail_password=None, traces_endpoint=None, rate_limits=False)


async def _migrate(url: str, plan: MigrationPlan, manifest: BackupManifest, found: Findings) -> None:
    """Migrates the copy as `postern migrate` does, and judges what it would do to those who serve."""
    found.taken_on = plan.taken_on is not None
    serving = ListeningProcess(manifest.version, len(manifest.database.migrations), None, None)
    found.ending = () if found.taken_on else [str(one) for one in plan.pending if not serving.runs_beside(one.number, one.needs)]
    watch = MigrationWatch()
    try:
        await migrate(url, say_beside, progress=progress, watch=watch)
    finally:
        found.migrations = watch.done
    if found.is_away:
        return
    for one in watch.done:
        longest = max(one.held, key=lambda held: held.seconds, default=None)
        if longest is not None and longest.seconds > LONGEST_LOCK:
            found.no(
                f"Migration {one.name} locks {longest.table} for {longest.seconds:.1f} s: {longest.mode.stops} meanwhile, "
                f"and requests fail after {LONGEST_LOCK:g} s"
            )


async def _compare_again(settings: Settings, url: str, plan: MigrationPlan, manifest: BackupManifest, found: Findings) -> None:
    before = manifest.database
    named = _named(plan.pending)
    known = {name: table.columns for name, table in before.tables.items()}
    async with exported_snapshot(url) as snapshot:
        state = await snapshot.state(opened_digest_key(manifest, key_ring(settings)), known=known, undivided=before.undivided)
    lost = list(rows_lost(before, state, named))
    for damage in lost:
        found.no(f"{damage.sentence[0].upper()}{damage.sentence[1:]}")
    found.same_tables = sum(table.rows is not None and name not in named for name, table in before.tables.items()) - len(lost)
    for name in sorted(named):
        was, now = before.tables.get(name), state.tables.get(name)
        found.rows[name] = CountedRows(None if was is None else was.rows, None if now is None else now.rows)
    if not before.has_digests:
        found.open_questions.append("the contents of the tables, because the backup has no digests: only rows were counted")


def _named(migrations: Sequence[Migration]) -> set[str]:
    return {table for one in migrations for table in one.changed_tables}


async def _prove(copied: Settings, url: str, manifest: BackupManifest, found: Findings) -> None:
    """What a check proves of the copy, by the new program."""
    report = CheckReport(found.backup, as_json=True)
    if parts := await missing_parts(url):
        report.damaged(DamageKind.SCHEMA, f"the migrated database lacks {', '.join(parts[:4])}")
    lacking = await missing_rows(url)
    for table, sentence in lacking.items():
        report.damaged(DamageKind.TIES, f"{table}: {sentence}")
    async with open_postern(copied) as postern:
        await open_all_sealed(postern, report)
        if "server_secrets" not in lacking:
            await verify_chains(postern, manifest.database, report)
    _take(report, found, "The migrated copy")


def _write(file: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise StartFailed(f"The result could not be written to {file}: {error.strerror}") from None
