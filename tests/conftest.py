"""Fixtures for every test: a freshly cloned database, and a log that fails the test on an unexpected ERROR or a secret in the log.

The databases are on an embedded PostgreSQL of the run's own, or on the PostgreSQL whose address is in `POSTERN_TEST_DATABASE`.
"""

import gc
import logging
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from psycopg import sql
from structlog.typing import EventDict, WrappedLogger

from adapters.postgres.embedded import EmbeddedPostgres
from core.domain.secrets import Secret
from entrypoints.logs import LibraryHandler
from tests.kept_connections import kept_beside_pools, kept_connections
from tests.migrated import make_copy, migrate_template
from tests.places import directory_of_a_run
from tests.runs.ending import nothing_left

# By this variable the workers of one run find the server that their controller started.
_SERVER_VARIABLE = "POSTERN_TEST_POSTGRES"
# The address of a PostgreSQL to use in place of the embedded one, as a superuser. One run at a time: all runs use the same names there.
_GIVEN_VARIABLE = "POSTERN_TEST_DATABASE"
_TEMPLATE = "postern_template"
_numbers = count(1)
# Examples have no deadline, because a busy machine would miss the deadline. Other tests measure speed. Each run draws the same examples;
# `--hypothesis-profile=explore` draws new ones (docs/decisions/0106).
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("postern", deadline=None, derandomize=True)
hypothesis.settings.load_profile("postern")
_of_the_run: Final = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.option.collectonly or _SERVER_VARIABLE in os.environ:
        return
    # The tests start Python more than a hundred times. Without bytecode files, each start would compile the same files, for a second.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    directory = _of_the_run.enter_context(directory_of_a_run())
    _of_the_run.enter_context(nothing_left())
    _trust_one_authority(directory)
    _of_the_run.callback(os.environ.pop, _SERVER_VARIABLE, None)
    if given := os.environ.get(_GIVEN_VARIABLE):
        os.environ[_SERVER_VARIABLE] = urlsplit(given)._replace(path="/{database}").geturl()
        _of_the_run.callback(_drop_template)
    else:
        # These databases do not outlive the run, so nothing needs to reach the disk. Tests that look at plans analyze their tables
        # themselves: if the server chose the moment, the plans could change.
        settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off", "max_wal_size": "128MB"}
        server = _of_the_run.enter_context(EmbeddedPostgres(directory / "shared", settings=settings))
        os.environ[_SERVER_VARIABLE] = server.url("{database}")
    _drop_template()
    with _administration() as connection:
        connection.execute(f"create database {_TEMPLATE} encoding 'UTF8' template template0")
    migrate_template(_url(_TEMPLATE))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The collection makes half a million objects that stay, and the garbage collector would look through these objects again and again.
    So it pauses meanwhile, and afterwards looks only at newer objects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        # A test makes and drops more objects than a server that rests between requests, so the collector runs more seldom here.
        gc.set_threshold(20_000)
        gc.enable()


def pytest_unconfigure() -> None:
    _of_the_run.close()


def _drop_template() -> None:
    with _administration() as connection:
        connection.execute(f"drop database if exists {_TEMPLATE} with (force)")


def _trust_one_authority(directory: Path) -> None:
    """A process that trusts the machine's authorities reads all their certificates first, for 20 ms. No server that a test calls has a
    certificate of these authorities, so here the machine has one authority, whose key nobody holds.
    """
    directory = directory / "trust"
    directory.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of the tests")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    file = directory / "authorities.pem"
    file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    os.environ["SSL_CERT_FILE"] = str(file)
    os.environ["SSL_CERT_DIR"] = str(directory)


def _url(database: str) -> str:
    return os.environ[_SERVER_VARIABLE].replace("{database}", database)


def _administration() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(_url("postgres"), autocommit=True)


def _fresh(name: str, template: str) -> Iterator[str]:
    with _administration() as connection:
        # A run that was killed leaves its databases on a server that lives on.
        connection.execute(f"drop database if exists {name} with (force)")
        make_copy(connection, name, template)
    with kept_beside_pools(_url(name)):
        yield _url(name)
    with _administration() as connection:
        connection.execute(f"drop database if exists {name} with (force)")


def fresh_database(name: str) -> Iterator[str]:
    """A migrated database of this name. No other fixture may use the name."""
    yield from _fresh(name, _TEMPLATE)


@pytest.fixture
def database_url(worker_id: str) -> Iterator[str]:
    """A database of this test's own, migrated to the end state."""
    yield from _fresh(f"test_{worker_id}_{next(_numbers)}", _TEMPLATE)


@pytest.fixture
def empty_database_url(worker_id: str) -> Iterator[str]:
    """A database of this test's own with nothing in it."""
    yield from _fresh(f"test_{worker_id}_{next(_numbers)}", "template0")


@pytest.fixture(scope="session")
def shared_database(worker_id: str) -> Iterator[str]:
    for url in _fresh(f"shared_{worker_id}", _TEMPLATE):
        with kept_connections(url):
            yield url


class Emptying:
    """Empties the tables over one connection that knows the tables already. A new connection would take twenty times as long."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def __call__(self) -> None:
        try:
            self._connected().execute(_EMPTY)
        except psycopg.OperationalError:
            # A test has cut all connections, this one included.
            self.close()
            self._connected().execute(_EMPTY)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self._connection is None:
            self._connection = psycopg.connect(self._database, autocommit=True)
            tables = self._connection.execute(_FILLED_BY_TESTS).fetchall()
            # This setting turns triggers and foreign keys off, so the tables can be emptied in any order.
            self._connection.execute("set session_replication_role = replica")
            deletions = sql.SQL(" ").join(sql.SQL("delete from {};").format(sql.Identifier(table)) for (table,) in tables)
            # PostgreSQL plans a function once in a session. It would plan statements before each test, which takes eight times as long.
            self._connection.execute(_EMPTYING_FUNCTION.format(deletions))
        return self._connection


@pytest.fixture(scope="session")
def empty_shared_database(shared_database: str) -> Iterator[Emptying]:
    emptying = Emptying(shared_database)
    yield emptying
    emptying.close()


@pytest.fixture
def emptied_database_url(shared_database: str, empty_shared_database: Emptying) -> str:
    """One database for all tests that only fill tables. To empty the tables takes a hundredth of the time of a clone."""
    empty_shared_database()
    return shared_database


_EMPTYING_FUNCTION: Final = sql.SQL("create function pg_temp.empty_tables() returns void language plpgsql as $$begin {} end$$")
_EMPTY: Final = "select pg_temp.empty_tables()"
# The rows that migrations insert stay.
_FILLED_BY_TESTS: Final = """
    select tablename from pg_tables where schemaname = 'public' and tablename <> all (array['schema_migrations', 'tiers'])
"""


# Of the log, the newest entries are shown of a case that fails.
_SHOWN: Final = 20


class CapturedLog:
    """Everything logged during the test. `allow` names the ERROR events that the test provokes. `remember` names secrets that must not
    appear in the log.
    """

    def __init__(self) -> None:
        self.entries: list[EventDict] = []
        self._allowed: set[str] = set()
        self._secrets: list[str] = []

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        self.entries.append({**event, "level": method})
        raise structlog.DropEvent

    def allow(self, *events: str) -> None:
        self._allowed.update(events)

    def remember(self, *secrets: str | Secret) -> None:
        self._secrets += [secret.reveal() if isinstance(secret, Secret) else secret for secret in secrets]

    def events(self, name: str) -> list[EventDict]:
        return [entry for entry in self.entries if entry["event"] == name]

    def verify(self) -> None:
        errors = [
            entry for entry in self.entries if entry["level"] in {"error", "critical", "exception"} and entry["event"] not in self._allowed
        ]
        assert not errors, f"unexpected errors in the log: {errors}"
        text = repr(self.entries)
        shown = [secret for secret in self._secrets if secret in text]
        assert not shown, f"secrets in the log: {shown}"


@pytest.fixture(autouse=True)
def log() -> Iterator[CapturedLog]:
    captured = CapturedLog()
    # A command that ran in this process has made libraries log to us. Then an error that a library logs would fail the test of that
    # library.
    for handler in logging.root.handlers[:]:
        if isinstance(handler, LibraryHandler):
            logging.root.removeHandler(handler)
    structlog.reset_defaults()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, captured], cache_logger_on_first_use=False)
    yield captured
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()
    captured.verify()


_NICENESS: Final = os.getpriority(os.PRIO_PROCESS, 0)


@pytest.fixture(autouse=True)
def urgency() -> Iterator[None]:
    """A test that makes its own process give way would slow down all tests behind it."""
    yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == _NICENESS, "the process of the tests gives way to others now"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A case that fails shows what was logged: an answer of 503 says no reason, and the log does."""
    report = yield
    captured = getattr(item, "funcargs", {}).get("log")
    if report.failed and isinstance(captured, CapturedLog) and captured.entries:
        report.sections.append(("Log", "\n".join(map(repr, captured.entries[-_SHOWN:]))))
    return report
