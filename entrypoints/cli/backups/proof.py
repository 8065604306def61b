"""Proves a restored database: it has what the manifest says, opens with the key ring, its audit chains are whole, and people sign in."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

import psycopg

from adapters.backup_folders import opened_digest_key
from adapters.postgres.backups.restored import HOLDABLE, held_kinds, missing_parts, missing_rows
from adapters.postgres.backups.snapshots import Unreadable, exported_snapshot
from adapters.postgres.migrate import SchemaMismatch, migrate, plan
from core.domain.backup_differences import differences
from core.domain.backups import BACKUP_RESTORED, BackupManifest, DamageKind, DatabaseState
from core.domain.errors import Refusal
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import ChainFinding, ChainHead
from core.usecases.record import CheckedChain
from entrypoints.assembly.configured import key_ring
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli.audit import said_of
from entrypoints.cli.backups import canary
from entrypoints.cli.backups.report import CheckReport
from entrypoints.cli.output.progress import progress
from entrypoints.failures import StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings
from ports.crypto import CannotOpen, KeyRing

_MOST_NAMED: Final = 4


async def prove(
    settings: Settings,
    manifest: BackupManifest | None,
    report: CheckReport,
    *,
    may_migrate: bool,
    signs_in: bool = True,
    stays: bool = False,
    read_all: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Looks at the database of these settings. Without a manifest, the database is judged by itself. `may_migrate` is for a scratch
    database, in which an older backup is brought to this program's schema first. `stays` says that the database outlives the check, so that
    the canary has to go. `read_all` reads all rows of a database that has our schema and nothing else, and reports damage, too: tables that
    somebody has added may be closed to us. Raises nothing for damage.
    """
    url = conninfo(settings)
    try:
        state = await _compared(url, manifest, key_ring(settings), report)
    except (Unreadable, psycopg.Error) as error:
        report.damaged(DamageKind.ROWS, " ".join(str(error).split()))
        return
    if not await _has_our_schema(url, report, may_migrate=may_migrate):
        return
    if read_all is not None:
        await read_all()
    report.passed(DamageKind.SCHEMA, f"{len(state.tables)} tables and views, {len(state.migrations)} migrations")
    report.passed(DamageKind.ROWS, f"{sum(table.rows or 0 for table in state.tables.values())} rows{_what_of_rows(manifest)}")
    lacking = await missing_rows(url)
    for table, sentence in lacking.items():
        report.damaged(DamageKind.TIES, f"{table}: {sentence}")
    report.passed(DamageKind.TIES, "no row lacks one that it needs")
    async with open_postern(settings) as postern:
        await _open_sealed(postern, report)
        if "server_secrets" not in lacking:
            await _verify_chains(postern, state if manifest is None else manifest.database, report)
        if signs_in:
            await _sign_in(postern, url, report, stays=stays)
        else:
            report.leaves_open("that people sign in (--no-sign-in)")


async def _compared(url: str, manifest: BackupManifest | None, keyring: KeyRing, report: CheckReport) -> DatabaseState:
    """The state of the database, and a line for each difference from the manifest."""
    async with exported_snapshot(url) as snapshot:
        if manifest is None:
            report.leaves_open("its contents, which were compared with no backup (--in takes the newest one)")
            return await snapshot.state()
        known = {name: table.columns for name, table in manifest.database.tables.items()}
        state = await snapshot.state(opened_digest_key(manifest, keyring), manifest.made_at, known)
        restored = "audit_entries" in state.tables and await snapshot.has_entry(BACKUP_RESTORED, manifest.id)
    damages = list(differences(manifest.database, state))
    if damages and (restored or await held_kinds(url)):
        damages = list(differences(manifest.database, state, held=HOLDABLE))
    for damage in damages:
        report.add(damage)
    if not manifest.database.has_digests:
        report.leaves_open("its contents, of which the backup has no digests that this version makes: only rows were counted")
    elif not manifest.database.prints_like(state):
        report.leaves_open(
            f"definitions of the schema, which PostgreSQL {state.server} prints in another way than {manifest.database.server}"
        )
    return state


def _what_of_rows(manifest: BackupManifest | None) -> str:
    if manifest is None:
        return ""
    return ", with the contents that the manifest says" if manifest.database.has_digests else ", as the manifest says"


async def _has_our_schema(url: str, report: CheckReport, *, may_migrate: bool) -> bool:
    """Whether the use cases can run there."""
    if any(damage.kind is DamageKind.SCHEMA for damage in report.damages):
        return False
    try:
        found = await plan(url)
        if found.lacking and may_migrate:
            await migrate(url, lambda _line: None)
        elif found.lacking:
            report.damaged(DamageKind.SCHEMA, f"the schema is older: it lacks {found.lacking[0]}; run `postern migrate` there first")
            return False
    except SchemaMismatch as error:
        report.damaged(DamageKind.SCHEMA, str(error))
        return False
    parts = await missing_parts(url)
    if parts:
        more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        report.damaged(DamageKind.SCHEMA, f"the database lacks {', '.join(parts[:_MOST_NAMED])}{more}")
    return not parts


async def _open_sealed(postern: Postern, report: CheckReport) -> None:
    values = 0
    with progress("Opening sealed values", None, "values") as advance:
        async for column in postern.foundation.reencryption.open_all():
            values += column.values
            advance(column.values)
            if column.unreadable:
                report.damaged(
                    DamageKind.SEALED,
                    f"{column.unreadable} of {column.values} values of {column.column} do not open; "
                    f"the first, {column.first_row}: {column.reason}",
                )
    report.passed(DamageKind.SEALED, f"{values} sealed values open")


async def _verify_chains(postern: Postern, noted: DatabaseState, report: CheckReport) -> None:
    links = chains = 0

    def checked(chain: CheckedChain) -> None:
        nonlocal links, chains
        chains += 1
        links += chain.links

    def found(name: str, finding: ChainFinding) -> None:
        report.damaged(DamageKind.AUDIT, f"{name}: {said_of(finding)}")

    try:
        await postern.record.audit.verify(found, checked, heads=_heads(noted.heads), progress=progress)
    except CannotOpen as error:
        report.damaged(DamageKind.AUDIT, f"the secret of the audit chains does not open: {error}")
    report.passed(DamageKind.AUDIT, f"{chains} chains of {links} entries are whole")


def _heads(noted: Mapping[str, str]) -> Mapping[OrganizationId, ChainHead]:
    return {OrganizationId(UUID(chain)): ChainHead.parse(head) for chain, head in noted.items()}


async def _sign_in(postern: Postern, url: str, report: CheckReport, *, stays: bool) -> None:
    try:
        key = await canary.sign_in(postern)
    except (Refusal, CannotOpen, StartFailed, LookupError, ValueError) as error:
        report.damaged(DamageKind.SIGN_IN, f"a new account cannot sign in: {str(error) or type(error).__name__}")
        return
    if stays:
        await canary.remove(url, key)
    report.passed(DamageKind.SIGN_IN, "a new account signs in, and renews its tokens")
