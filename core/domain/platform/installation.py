"""The installation as its operators see it: processes, provider outages, schema, first steps, and storage."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from core.frozen import Frozen


class ServingProcess(Frozen):
    """A process that serves, known by the connection on which it listens."""

    version: str
    """Empty for a process of a release that did not say it yet."""
    host: str
    """The address that it connects from. Empty for a connection through a socket of the machine."""
    since: datetime


class AwayProvider(Frozen):
    """An upstream provider to which a call has failed since the last one that succeeded."""

    provider: str
    """The provider's name, or its key for one of the installation's own."""
    organization: str
    """The slug of the organization whose provider it is. Empty for one of the installation."""
    failed_at: datetime


class InstallationState(Frozen):
    schema: str
    """The newest migration."""
    processes: tuple[ServingProcess, ...]
    providers: tuple[AwayProvider, ...]


class FirstStepsDone(Frozen):
    """The steps of a new installation that are done, as the database shows them."""

    organization: bool
    """There is an organization."""
    invitation: bool
    """Somebody besides the first person has come, or is invited."""
    application: bool
    """There is an application."""
    sign_in: bool
    """Somebody has signed in to an application."""


class StoredTable(Frozen):
    """A table with its indexes and, if it is cut by month, all of its parts. `rows` is an estimate, None before PostgreSQL has counted for
    the first time; `dead` the share of rows that nobody sees any more. `grew` is in bytes, since the day of the oldest sample that counts;
    None if there is none.
    """

    name: str
    rows: int | None
    bytes: int
    dead: float
    grew: int | None


class Storage(Frozen):
    """What the installation stores: which tables grow, how fast, and until when the disk lasts. `sampled` is the day of the oldest sample
    that counts. None: the growth of the tables is not known yet.
    """

    today: date
    sampled: date | None
    bytes: int
    """Of the whole database."""
    tables: Sequence[StoredTable]

    @property
    def days(self) -> int:
        return 0 if self.sampled is None else (self.today - self.sampled).days

    def grows(self, table: StoredTable) -> float | None:
        """Bytes a day. None while that is not known."""
        return None if table.grew is None or self.days <= 0 else table.grew / self.days

    @property
    def all_grow(self) -> float | None:
        """Bytes a day, of all tables together."""
        known = [grows for one in self.tables if (grows := self.grows(one)) is not None]
        return sum(known) if known else None

    def lasts_until(self, free: int) -> date | None:
        """The day on which so many free bytes are used up. None: it is not known, or far away."""
        a_day = self.all_grow
        if a_day is None or a_day <= 0:
            return None
        days = free / a_day
        return self.today + timedelta(days=int(days)) if days < _FAR else None


# A hundred years, in days.
_FAR: Final = 36_500
