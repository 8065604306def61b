"""How a class of this floor speaks to PostgreSQL: by what it is given when it is made."""

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import Statements
from adapters.postgres.transaction import Transaction


class OnStatements:
    """A store that is asked in a unit of work, and outside for what the docstring of its port names."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements


class OnTransaction:
    """A store that only a unit of work has."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction


class OnPool:
    """Look-ups and queues: each call takes a connection and is a transaction of its own."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
