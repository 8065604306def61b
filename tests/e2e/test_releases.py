"""Two releases on one database, as in the middle of a rollout (docs/decisions/0022)."""

import io
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
import pytest

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.migrate import Migration, shipped, shipped_views_and_functions
from ops.free_ports import free_port
from tests.e2e.postern import PACKAGES, Postern, alive, children, copy_later, copy_product, copy_with_later_edition, until
from tests.places import MIGRATIONS, ROOT

_PROMISE: Final = "docs/decisions/0022-one-release-may-lag-behind.md"
_LOCK: Final = "requirements.lock"
_OWNER: Final = "ada@example.com"
_PASSWORD: Final = "correct-horse-battery"


class Releases(NamedTuple):
    """Two trees. The later one has one migration more."""

    before: Path
    after: Path

    @property
    def newest(self) -> Migration:
        return shipped(self.after / MIGRATIONS.relative_to(ROOT))[-1]


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """The release before is the last tree without the newest migration. If the history does not reach so far back, or if that tree has
    other libraries or cannot lag behind the schema, it is the present tree without that migration. Nothing comes before the first schema,
    so there the release after is the present tree with one migration more.
    """
    tree = tmp_path / "other"
    tree.mkdir()
    newest = file_of(shipped()[-1])
    if len(shipped()) == 1:
        copy_later(tree)
        return Releases(ROOT, tree)
    if not _take_from_history(tree, newest):
        copy_product(tree)
        (tree / newest.relative_to(ROOT)).unlink()
    assert len(shipped(tree / MIGRATIONS.relative_to(ROOT))) < len(shipped())
    return Releases(tree, ROOT)


def file_of(migration: Migration) -> Path:
    return MIGRATIONS / f"{migration}.sql"


def _take_from_history(tree: Path, newest: Path) -> bool:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return False
    # A release is a commit of the main line: those of a branch come together in its merge.
    added = _git("log", "--first-parent", "-m", "--diff-filter=A", "--format=%H", "-1", "--", str(newest)).decode().strip()
    if not added:
        return False
    archive = _git("archive", "--format=tar", f"{added}^", "--", *PACKAGES, _PROMISE, _LOCK)
    if not archive:
        return False
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        if packed.extractfile(_LOCK).read() != (ROOT / _LOCK).read_bytes():  # type: ignore[union-attr]  # a file, no folder
            return False
        packed.extractall(tree, filter="data")
    return True


def _git(*arguments: str) -> bytes:
    """Empty when git refuses: a shallow clone lacks the commit, an early one the file."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False).stdout


@pytest.fixture
def settings(database_url: str) -> dict[str, str]:
    return {
        "POSTERN_DATABASE_URL": database_url,
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "POSTERN_BASE_URL": "http://id.example.com",
        "POSTERN_OWNER_EMAIL": _OWNER,
        "POSTERN_OWNER_PASSWORD": _PASSWORD,
    }


class Released(Postern):
    """A server behind one public address with others. Tests call it at its own address."""

    @property
    def port(self) -> int:
        return int(self.settings["POSTERN_BIND"].rpartition(":")[2])

    def _is_announced_or_dead(self) -> bool:
        return bool(self.logged("ready")) or self.process.poll() is not None


class Rollout:
    """Processes of several releases, each with a directory of its own."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        self._started: list[Released] = []

    def start(self, tree: Path, *arguments: str, wait: bool = True, **settings: str) -> Released:
        given = {**self._settings, "POSTERN_BIND": f"127.0.0.1:{free_port()}", **settings}
        server = Released(self._folder / f"data{len(self._started)}", arguments, given, tree=tree)
        server.data_dir.mkdir()
        self._started.append(server)
        server.start(wait=wait)
        return server

    def close(self) -> None:
        for server in self._started:
            server.close()


@pytest.fixture
def rollout(tmp_path: Path, settings: dict[str, str]) -> Iterator[Rollout]:
    made = Rollout(tmp_path, settings)
    yield made
    made.close()


@pytest.mark.parametrize("migrates", ["on", "off"])
def test_a_process_of_the_release_before_starts_and_serves_beside_the_new_one(releases: Releases, rollout: Rollout, migrates: str) -> None:
    """As a pod that restarts after the schema was migrated. Each release accepts the other's tokens."""
    if releases.newest.needs is None:
        pytest.fail("the newest migration is breaking: docs/decisions/0022 says what a release with such a migration has to tell")
    new = rollout.start(releases.after)
    old = rollout.start(releases.before, POSTERN_MIGRATE=migrates)
    (warning,) = old.logged("schema_ahead")
    assert warning["level"] == "warning"
    assert str(releases.newest) in warning["migrations"]
    assert not new.logged("schema_ahead")
    for here, there in ((old, new), (new, old)):
        signed_in = here.post("/api/auth/login", {"email": _OWNER, "password": _PASSWORD})
        assert signed_in.status == 200, signed_in.body
        assert there.get("/api/user", token=signed_in.json()["access_token"]).json()["email"] == _OWNER
    assert (old.stop(), new.stop()) == (0, 0)


def test_the_release_before_goes_on_with_the_views_and_functions_of_the_next(tmp_path: Path, rollout: Rollout, database_url: str) -> None:
    """They are replaced while it serves. Another process of it that starts and migrates afterwards does not put its own back."""
    tree = tmp_path / "later"
    tree.mkdir()
    edition = copy_with_later_edition(tree)
    old = rollout.start(ROOT)
    new = rollout.start(tree)
    again = rollout.start(ROOT, POSTERN_MIGRATE="on")
    (warning,) = again.logged("schema_ahead")
    assert warning["migrations"] == [edition]
    assert not new.logged("schema_ahead")
    servers = (old, new, again)
    for here in servers:
        signed_in = here.post("/api/auth/login", {"email": _OWNER, "password": _PASSWORD})
        assert signed_in.status == 200, signed_in.body
        for there in servers:
            assert there.get("/api/user", token=signed_in.json()["access_token"]).json()["email"] == _OWNER
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select number from schema_edition()").fetchone() == (shipped_views_and_functions().edition.number + 1,)
        assert connection.execute("select count(later) from organizations").fetchone() == (0,)
        (body,) = connection.execute("select prosrc from pg_proc where proname = 'holds_service_role'").fetchone() or ("",)
        assert "-- Later." in body
    assert [server.stop() for server in servers] == [0, 0, 0]


def test_beside_what_breaks_it_it_refuses_in_a_sentence(releases: Releases, rollout: Rollout, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into schema_migrations (number, name, checksum) values (%s, 'upheaval', '')", [len(shipped()) + 1])
    for tree in {releases.before, ROOT}:
        server = rollout.start(tree, wait=False)
        assert server.ended() == 1
        (sentence,) = [line for line in server.err.read_text().splitlines() if not line.startswith("{")]
        assert sentence.startswith("postern: The database was migrated by a newer Postern: this one knows up to ")
        assert sentence.endswith(f"and cannot run beside {len(shipped()) + 1:04}_upheaval")


def test_one_of_several_processes_that_begins_later_is_held_to_it_too(rollout: Rollout, database_url: str) -> None:
    """Its parent has begun long ago. It comes back as soon as the schema is one that it can run on."""
    server = rollout.start(ROOT, "--processes", "2")
    server.expected_errors |= {"process_died"}
    first, second = children(server.pid)
    newer = len(shipped()) + 1
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("insert into schema_migrations (number, name, checksum) values (%s, 'upheaval', '')", [newer])
        os.kill(first, signal.SIGKILL)
        until(lambda: f"and cannot run beside {newer:04}_upheaval" in server.err.read_text())
        until(lambda: len(server.logged("process_died")) >= 2)
        assert alive(second)
        connection.execute("delete from schema_migrations where number = %s", [newer])
    # Connections that came meanwhile have waited for it.
    assert [server.get("/health/ready", patience=30).status for _ in range(10)] == [200] * 10
    assert server.stop() == 0
