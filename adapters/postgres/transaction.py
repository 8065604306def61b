"""What the rows of one unit of work speak to: statements in one transaction, with as few waits for the server as they need.

A statement that is told is queued; one that is asked waits, and with its answer come those of everything queued before it. The price: a
told statement that fails is noticed at the next question, at the latest at the commit.
"""

from typing import Final, LiteralString

from psycopg.rows import class_row

from adapters.postgres import locks
from adapters.postgres.driver import Connection
from adapters.postgres.failures import translated
from adapters.postgres.pipeline import PipelinedTransaction
from adapters.postgres.statements import Parameters, Row

# How long a transaction queues for an advisory lock, and from then on for any other, before it gives up as `Unavailable`.
LONGEST_HOLD: Final = "10s"


class TransactionOver(Exception):
    """A statement after the end of its transaction: a bug of the caller's."""


class Transaction:
    """Raises `Unavailable` wherever it waits and the database is away; other database errors are bugs and stay what they are."""

    def __init__(self, connection: Connection, transaction: PipelinedTransaction) -> None:
        self._connection = connection
        self._transaction = transaction
        self._open = True
        # In the order of their first ring; a dict, for want of an ordered set.
        self._topics: dict[str, None] = {}

    async def tell(self, statement: LiteralString, parameters: Parameters | None = None) -> None:
        """A statement whose answer nobody reads."""
        self._require_open()
        with translated():
            await self._connection.execute(statement, parameters, prepare=True)

    async def ask(self, row: type[Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
        """The statement's rows."""
        self._require_open()
        with translated():
            cursor = self._connection.cursor(row_factory=class_row(row))
            await cursor.execute(statement, parameters, prepare=True)
            return await cursor.fetchall()

    async def hold(self, lock: int) -> None:
        """Take an advisory lock of `locks.py` until the transaction ends."""
        await self.tell(_LONGEST_HOLD, {"timeout": LONGEST_HOLD})
        await self.tell(_HOLD, {"namespace": locks.NAMESPACE, "lock": lock})

    def ring(self, topic: str) -> None:
        """Ring the doorbell, here and in the other processes, when and if the transaction commits. Once, however often it is said."""
        self._topics[topic] = None

    async def commit(self) -> list[str]:
        """Returns the topics to ring in this process. With `Unavailable` it is not known whether it took place."""
        self._require_open()
        topics = list(self._topics)
        if topics:
            await self.tell(_NOTIFY, {"channel": CHANNEL, "topics": topics})
        self.close()
        with translated():
            await self._transaction.commit()
        return topics

    def close(self) -> None:
        """From here on every statement is refused: the connection may be somebody else's by now."""
        self._open = False

    def _require_open(self) -> None:
        if not self._open:
            raise TransactionOver("this unit of work has ended")


# One channel for all topics: LISTEN once, and a topic that nobody here waits for costs next to nothing.
CHANNEL: Final = "postern"

_NOTIFY: Final = "select pg_notify(%(channel)s, topic) from unnest(%(topics)s::text[]) as topic"

_LONGEST_HOLD: Final = "select set_config('lock_timeout', %(timeout)s, true)"

_HOLD: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"
