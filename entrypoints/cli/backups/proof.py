"""Proves a restored database, with the sign-in of a canary, and reports each step; the first kind of damage is the exit status."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

import psycopg

from adapters.backup_folders import opened_digest_key
from adapters.postgres.backups.restored import HOLDABLE, held_kinds, missing_parts, missing_rows
from adapters.postgres.backups.snapshots import Unreadable, exported_snapshot
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import SchemaMismatch, migrate, plan_of_all
from core.domain.backup_differences import differences
from core.domain.backups import BACKUP_RESTORED, BackupManifest, Damage, DamageKind, DatabaseState
from core.domain.errors import Refusal
from core.domain.identifiers import OrganizationId
from core.domain.identity.devices import Client
from core.domain.identity.sign_in import SignedIn
from core.domain.mail import Email
from core.domain.record.audit import ChainFinding, ChainHead
from core.usecases.record import CheckedChain
from entrypoints.assembly.configured import key_ring
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli.audit import said_of
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings
from ports.crypto import CannotOpen, KeyRing

_USER_AGENT: Final = "postern backup check"
# The entries of the audit log stay: nothing is taken out of it. Ids grow with time, so what the account did has greater ids than its own.
_REMOVE: Final = (
    """
    delete from events
     using users
     where email_key = %(key)s and events.id > users.id and events.actor_id = users.id
    """,
    """
    delete from uncounted_logins
     using login_events
      join users on users.id = login_events.user_id
     where email_key = %(key)s and uncounted_logins.id = login_events.id
    """,
    "delete from login_events using users where email_key = %(key)s and user_id = users.id",
    "delete from users where email_key = %(key)s",
)


async def sign_in(postern: Postern) -> str:
    """Makes the account, signs in, verifies the access token and renews it. Returns the account's address. Raises what the use cases
    raise.
    """
    email = Email(f"backup-canary-{secrets.token_hex(8)}@canary.invalid")
    password = postern.foundation.secrets.password()
    client = Client(None, _USER_AGENT)
    await postern.platform.platform_owners.create(email, password)
    signed_in = await postern.identity.sign_in.with_password(email, password, client)
    assert isinstance(signed_in, SignedIn)  # noqa: S101 - for the type checker: a new account has no second factor
    await postern.foundation.token_verifier.verify_access(signed_in.tokens.access_token.reveal())
    await postern.identity.sessions.refresh(signed_in.tokens.refresh_token, client)
    return email.key


async def remove_canary(url: str, key: str) -> None:
    """Removes the account and its sign-in, so that a later check of the copy finds the rows of the backup."""
    async with await Connection.connect(url) as connection, connection.transaction():
        for statement in _REMOVE:
            await connection.execute(statement, {"key": key})


STATUS: Final[Mapping[DamageKind, int]] = {
    DamageKind.MANIFEST: 10,
    DamageKind.DUMP: 11,
    DamageKind.KEYS: 12,
    DamageKind.SCHEMA: 13,
    DamageKind.ROWS: 14,
    DamageKind.TIES: 15,
    DamageKind.SEALED: 16,
    DamageKind.AUDIT: 17,
    DamageKind.SIGN_IN: 18,
}
NOT_CHECKED: Final = 20
"""This program cannot read the backup, which says nothing of the backup."""
# The most sentences of one kind that are printed. A longer list would not help the reader.
_MOST_SHOWN: Final = 20


class CheckReport:
    """Prints each line as it comes, unless `as_json`."""

    def __init__(self, backup: str, *, as_json: bool = False) -> None:
        self.damages: list[Damage] = []
        self._backup = backup
        self._as_json = as_json
        self._passed: list[tuple[DamageKind, str]] = []
        self._open: list[str] = []
        self.not_checked: str | None = None
        """Why this program cannot read the backup, with the way to a program that can: one sentence without its period."""

    @property
    def proves_all(self) -> bool:
        return not self.damages and not self._open and self.not_checked is None

    @property
    def status(self) -> int:
        return min((STATUS[damage.kind] for damage in self.damages), default=OK if self.not_checked is None else NOT_CHECKED)

    def passed(self, kind: DamageKind, text: str) -> None:
        """Says what was looked at, unless damage of this kind was found."""
        if any(damage.kind is kind for damage in self.damages):
            return
        self._passed.append((kind, text))
        if not self._as_json:
            say(f"ok    {kind:<9} {text}")

    def leaves_open(self, question: str) -> None:
        """Says what this check does not prove. A database with open questions may be undamaged, and is not called proved."""
        self._open.append(question)

    def cannot_read(self, sentence: str) -> None:
        """Says why this program cannot read an undamaged backup."""
        self.not_checked = sentence

    def damaged(self, kind: DamageKind, sentence: str) -> None:
        self.add(Damage(kind, sentence))

    def add(self, damage: Damage) -> None:
        self.damages.append(damage)
        if self._as_json:
            return
        count = sum(1 for one in self.damages if one.kind is damage.kind)
        if count <= _MOST_SHOWN:
            say(f"FAIL  {damage.kind:<9} {damage.sentence}")
        elif count == _MOST_SHOWN + 1:
            say(f"FAIL  {damage.kind:<9} … and more")

    def end(self) -> None:
        count = len(self.damages)
        if self._as_json:
            told = {
                "backup": self._backup,
                "ok": self.status == OK,
                "proved": self.proves_all,
                "not_checked": self.not_checked,
                "not_proved": self._open,
                "status": self.status,
                "passed": [{"check": kind.value, "text": text} for kind, text in self._passed],
                "damages": [{"check": damage.kind.value, "sentence": damage.sentence} for damage in self.damages],
            }
            print_json(told)
        elif count:
            print(f"{self._backup}: {count} {'fault' if count == 1 else 'faults'} found. Do not rely on this backup.")
        elif self.not_checked is not None:
            print(f"{self._backup}: not checked. {self.not_checked}.")
        elif self._open:
            print(f"{self._backup}: no faults found. Not verified: {'; '.join(self._open)}.")
        else:
            print(f"{self._backup}: verified. It can be restored, is complete and can be decrypted, and sign-in works.")


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
        state = await compared(url, manifest, key_ring(settings), report)
    except (Unreadable, psycopg.Error) as error:
        report.damaged(DamageKind.ROWS, " ".join(str(error).split()))
        return
    if not await _has_our_schema(url, report, may_migrate=may_migrate):
        return
    if read_all is not None:
        await read_all()
    migrations = f"{len(state.migrations)} migration{'' if len(state.migrations) == 1 else 's'}"
    report.passed(DamageKind.SCHEMA, f"{len(state.tables)} tables and views, {migrations}")
    report.passed(DamageKind.ROWS, f"{sum(table.rows or 0 for table in state.tables.values())} rows{_what_of_rows(manifest)}")
    lacking = await missing_rows(url)
    for table, sentence in lacking.items():
        report.damaged(DamageKind.TIES, f"{table}: {sentence}")
    report.passed(DamageKind.TIES, "no row lacks one that it needs")
    async with open_postern(settings) as postern:
        await open_all_sealed(postern, report)
        if "server_secrets" not in lacking:
            await verify_chains(postern, state if manifest is None else manifest.database, report)
        if signs_in:
            await _sign_in(postern, url, report, stays=stays)
        else:
            report.leaves_open("that people sign in (--no-sign-in)")


async def compared(url: str, manifest: BackupManifest | None, keyring: KeyRing, report: CheckReport) -> DatabaseState:
    """The state of the database, and a line for each difference from the manifest."""
    async with exported_snapshot(url) as snapshot:
        if manifest is None:
            report.leaves_open("its contents, which were not compared with a backup (--in uses the newest one)")
            return await snapshot.state()
        known = {name: table.columns for name, table in manifest.database.tables.items()}
        state = await snapshot.state(opened_digest_key(manifest, keyring), manifest.made_at, known, manifest.database.undivided)
        restored = "audit_entries" in state.tables and await snapshot.has_entry(BACKUP_RESTORED, manifest.id)
    damages = list(differences(manifest.database, state))
    if damages and (restored or await held_kinds(url)):
        damages = list(differences(manifest.database, state, held=HOLDABLE))
    for damage in damages:
        report.add(damage)
    if not manifest.database.has_digests:
        report.leaves_open("its contents, because the backup has no digests that this version supports: only rows were counted")
    elif not manifest.database.prints_like(state):
        report.leaves_open(f"schema definitions, which PostgreSQL {state.server} formats differently from {manifest.database.server}")
    return state


def _what_of_rows(manifest: BackupManifest | None) -> str:
    if manifest is None:
        return ""
    return ", with the contents listed in the manifest" if manifest.database.has_digests else ", as listed in the manifest"


async def _has_our_schema(url: str, report: CheckReport, *, may_migrate: bool) -> bool:
    """Whether the use cases can run there."""
    if any(damage.kind is DamageKind.SCHEMA for damage in report.damages):
        return False
    try:
        found = await plan_of_all(url)
        if found.lacking and may_migrate:
            await migrate(url, lambda _line: None)
        elif found.taken_on is not None:
            report.damaged(DamageKind.SCHEMA, "the schema is older than 0.2.0: run `postern migrate` there first, which upgrades it")
            return False
        elif found.lacking:
            report.damaged(DamageKind.SCHEMA, f"the schema is outdated: it lacks {found.lacking[0]}; run `postern migrate` there first")
            return False
    except SchemaMismatch as error:
        report.damaged(DamageKind.SCHEMA, str(error))
        return False
    parts = await missing_parts(url)
    if parts:
        more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        report.damaged(DamageKind.SCHEMA, f"the database lacks {', '.join(parts[:_MOST_NAMED])}{more}")
    return not parts


async def open_all_sealed(postern: Postern, report: CheckReport) -> None:
    values = 0
    with progress("Opening sealed values", None, "values") as advance:
        async for column in postern.foundation.reencryption.open_all():
            values += column.values
            advance(column.values)
            if column.unreadable:
                report.damaged(
                    DamageKind.SEALED,
                    f"{column.unreadable} of {column.values} values of {column.column} cannot be decrypted; the first, {column.first_row}: "
                    f"{column.reason}",
                )
    report.passed(DamageKind.SEALED, f"{values} encrypted values can be decrypted")


async def verify_chains(postern: Postern, noted: DatabaseState, report: CheckReport) -> None:
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
        report.damaged(DamageKind.AUDIT, f"the secret of the audit chains cannot be decrypted: {error}")
    report.passed(DamageKind.AUDIT, f"{chains} chain{'' if chains == 1 else 's'} with {links} entries: complete")


def _heads(noted: Mapping[str, str]) -> Mapping[OrganizationId, ChainHead]:
    return {OrganizationId(UUID(chain)): ChainHead.parse(head) for chain, head in noted.items()}


async def _sign_in(postern: Postern, url: str, report: CheckReport, *, stays: bool) -> None:
    try:
        key = await sign_in(postern)
    except (Refusal, CannotOpen, StartFailed, LookupError, ValueError) as error:
        report.damaged(DamageKind.SIGN_IN, f"a new account cannot sign in: {str(error) or type(error).__name__}")
        return
    if stays:
        await remove_canary(url, key)
    report.passed(DamageKind.SIGN_IN, "a new account signs in, and renews its tokens")
