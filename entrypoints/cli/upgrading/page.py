"""The page that a rehearsal prints, and the same as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from adapters.postgres.migrating.watch import WatchedMigration
from core.domain.formats import timestamp
from core.frozen import Frozen
from entrypoints.cli.upgrading.news import ChangelogEntry
from entrypoints.failures import FAILURE, OK

NO: Final = 30
"""The exit status of a rehearsal whose upgrade fails."""
LONGEST_LOCK: Final = 2.0
"""In seconds. Requests that wait longer for a table fail."""
_MOST_TABLES: Final = 4


class CountedRows(Frozen):
    """Of a table that a migration names. None: there is no such table."""

    before: int | None
    after: int | None


class Findings:
    """What a rehearsal has found until now."""

    def __init__(self, backup: str, version: str) -> None:
        self.backup = backup
        self.version = version
        """Of this program."""
        self.made_at: datetime | None = None
        self.version_before = ""
        self.reasons: list[str] = []
        """Why the answer is no, each in one sentence without its period."""
        self.status_of_no = NO
        self.is_complete = False
        """Whether every step was carried out."""
        self.migrations: Sequence[WatchedMigration] = ()
        self.taken_on = False
        self.ending: Sequence[str] = ()
        """The migrations beside which the processes that serve now cannot go on."""
        self.waits_for_disk = True
        self.same_tables = 0
        self.rows: dict[str, CountedRows] = {}
        self.open_questions: list[str] = []
        self.left_out: Sequence[str] = ()
        self.pages = 0
        self.refused_calls = 0
        self.entries: Sequence[ChangelogEntry] = ()

    def no(self, reason: str, status: int = NO) -> None:
        if not self.reasons:
            self.status_of_no = status
        self.reasons.append(reason)

    @property
    def is_yes(self) -> bool:
        return self.is_complete and not self.reasons

    @property
    def status(self) -> int:
        if self.is_yes:
            return OK
        return self.status_of_no if self.reasons else FAILURE

    @property
    def seconds(self) -> float:
        """All migrations together."""
        return sum(one.seconds for one in self.migrations)

    @property
    def is_away(self) -> bool:
        """Whether the processes that serve now have to stop before."""
        return self.taken_on or bool(self.ending)


def commands(found: Findings) -> Sequence[tuple[str, str]]:
    """What to do: each command, and what to know about it."""
    backup = ("postern backup create --to /backups", "with the version that serves now")
    install = ("cd /opt/postern && git fetch && git checkout VERSION && make ready", "or pull the new image; or install the new wheel")
    if found.is_away:
        return [
            ("systemctl stop postern", "all processes, on all machines"),
            backup,
            install,
            ("postern migrate", "as the role that owns the tables"),
            ("systemctl start postern", ""),
            ("postern doctor", ""),
        ]
    migrate = [("postern migrate", "as the role that owns the tables; the processes continue to serve")] if found.migrations else []
    return [backup, install, *migrate, ("systemctl restart postern", "one process after the other"), ("postern doctor", "")]


def way_back(found: Findings) -> str:
    if found.is_away:
        return (
            "Restore the backup into a new database with the version that serves now. Data written since the backup is lost. "
            "The version that serves now rejects the migrated database."
        )
    return "Install the version that serves now again, and restart. Do not change the database: that version works with the new schema."


def service(found: Findings) -> str:
    """Whether the service will be away, and how long."""
    if found.taken_on:
        return f"The schema of before 0.2.0 is taken on in seconds; stop all processes first. {_away(found)}"
    if found.ending:
        return f"The service is away: {', '.join(found.ending)} cannot be applied while older processes serve. {_away(found)}"
    if not found.migrations:
        return "The service is not away: no migration is pending. Restart the processes one after the other."
    return (
        f"The service is not away: the migrations take {_about(found.seconds)} while older processes serve. "
        "A single process is away for the seconds of its restart."
    )


def _away(found: Findings) -> str:
    return f"The service is away for {_about(found.seconds)}, and for the time of the stop and the start."


def _about(seconds: float) -> str:
    return f"about {max(math.ceil(seconds), 1)} s" if seconds < 120 else f"about {seconds / 60:.0f} min"


def lines(found: Findings) -> Iterator[str]:
    """The page."""
    made = "" if found.made_at is None else f", of {found.made_at:%Y-%m-%d %H:%M} UTC, by Postern {found.version_before}"
    yield f"Rehearsal of the upgrade to Postern {found.version}"
    yield f"Backup {found.backup}{made}"
    yield ""
    if found.is_yes:
        yield "Yes. The upgrade works with the data of this backup."
    for reason in found.reasons:
        yield f"No. {reason}."
    if found.is_complete or found.migrations:
        yield from _of_migrations(found)
    if found.is_yes:
        yield from _of_upgrade(found)
    yield ""
    yield f"Outward calls refused during the rehearsal: {found.refused_calls}. Nothing was recorded."


def _of_migrations(found: Findings) -> Iterator[str]:
    yield ""
    yield "Migrations"
    if not found.migrations:
        yield "  none is pending"
    for one in found.migrations:
        yield f"  {one.name}  {one.seconds:.2f} s"
        for held in one.held[:_MOST_TABLES]:
            yield f"    {held.table}: {held.mode.stops} for {held.seconds:.2f} s"
        if len(one.held) > _MOST_TABLES:
            yield f"    and {len(one.held) - _MOST_TABLES} more tables and views"
    if not found.waits_for_disk:
        yield "  The server of --scratch runs with fsync off, so the times are too short."
    if found.same_tables:
        yield f"  {found.same_tables} tables have the contents of before."
    for table, rows in found.rows.items():
        yield f"  {table}: {_count(rows.before)} before, {_count(rows.after)} now"


def _count(rows: int | None) -> str:
    return "no table" if rows is None else f"{rows} row{'' if rows == 1 else 's'}"


def _of_upgrade(found: Findings) -> Iterator[str]:
    yield ""
    yield "Sign-in"
    yield "  A new account signed in, redeemed a code and renewed its tokens."
    yield f"  {found.pages} pages were rendered."
    for one in found.left_out:
        yield f"  Left out: {one}."
    for one in found.open_questions:
        yield f"  Not verified: {one}."
    yield ""
    yield "Service"
    yield f"  {service(found)}"
    yield ""
    yield "Changes that concern this installation"
    yield from (f"  - {one.beginning}" for one in found.entries)
    if not found.entries:
        yield "  none"
    yield ""
    yield "What to do"
    for number, (words, note) in enumerate(commands(found), start=1):
        yield f"  {number}. {words}{f'  # {note}' if note else ''}"
    yield ""
    yield "The way back"
    yield f"  {way_back(found)}"


def as_json(found: Findings) -> Mapping[str, Any]:
    return {
        "yes": found.is_yes,
        "status": found.status,
        "reasons": list(found.reasons),
        "backup": found.backup,
        "made_at": None if found.made_at is None else timestamp(found.made_at),
        "from": found.version_before,
        "to": found.version,
        "migrations": [
            {
                "migration": one.name,
                "seconds": round(one.seconds, 3),
                "locks": [{"table": held.table, "mode": held.mode.value, "seconds": round(held.seconds, 3)} for held in one.held],
            }
            for one in found.migrations
        ],
        "seconds": round(found.seconds, 3),
        "taken_on": found.taken_on,
        "away": found.is_away,
        "service": service(found),
        "fsync": found.waits_for_disk,
        "same_tables": found.same_tables,
        "rows": {table: {"before": rows.before, "after": rows.after} for table, rows in found.rows.items()},
        "left_out": list(found.left_out),
        "not_verified": list(found.open_questions),
        "pages": found.pages,
        "refused_calls": found.refused_calls,
        "changelog": [{"text": one.text, "concerns": list(one.concerns)} for one in found.entries],
        "commands": [words for words, _ in commands(found)],
        "way_back": way_back(found),
    }
