"""The embedded PostgreSQL: after any death of any process, the next start has the data."""

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from adapters.postgres import embedded
from adapters.postgres.embedded import AlreadyServed, EmbeddedPostgres, EmbeddedPostgresError
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.places import ROOT

OWNS_AND_SLEEPS = """
import sys, time
from pathlib import Path
from adapters.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print("up", flush=True)
time.sleep(600)
"""

LAUNCHES_AND_DIES = """
import os, sys, time
from pathlib import Path
from adapters.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server._launch(server._runner())
os._exit(0 if server._ready_before(time.monotonic() + 120) else 1)
"""


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """One data directory for all tests here: each leaves it stopped and whole, which is what they are about."""
    # Not under pytest's own directory: pytest closes that one to other users, and root's PostgreSQL runs as one.
    with tempfile.TemporaryDirectory(prefix="postern-embedded-") as name:
        # Whichever test comes first: a start that has to do this says so, where some tests read what the server's owner says.
        Path(name).chmod(0o711)
        yield Path(name) / "data"


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedPostgres]:
    made = EmbeddedPostgres(directory, settings={"fsync": "off"})
    yield made
    made.stop()


def _mark(server: EmbeddedPostgres, text: str) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("create table if not exists marks (text text)")
        connection.execute("insert into marks values (%s)", [text])


def _marked(server: EmbeddedPostgres, text: str) -> bool:
    with psycopg.connect(server.url("postgres")) as connection:
        return connection.execute("select from marks where text = %s", [text]).fetchone() is not None


def _pid(server: EmbeddedPostgres) -> int:
    pid = server._pid()
    assert pid is not None
    return pid


def _wait_until_gone(pid: int) -> None:
    """For a server that is not our child: a process that ends gives up its working directory, by which we know a server of ours, a moment
    before the kernel reports its end.
    """
    deadline = time.monotonic() + PATIENCE
    while embedded._alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_starts_keeps_the_data_and_stops(server: EmbeddedPostgres) -> None:
    with server:
        pid = _pid(server)
        _mark(server, "first")
        assert server.is_running()
        assert server.is_owned()
    assert not server.is_running()
    assert not server.is_owned()
    assert not embedded._alive(pid)
    with server:
        assert _marked(server, "first")


def test_the_program_has_a_role_and_a_database_of_its_own(server: EmbeddedPostgres) -> None:
    with server:
        server.prepare_application()
        server.prepare_application()
        with psycopg.connect(server.application_url) as connection:
            row = connection.execute("select usename, current_database(), usesuper from pg_user where usename = user").fetchone()
    assert row == ("postern", "postern", False)


def test_only_its_owner_can_reach_the_data_and_the_socket(server: EmbeddedPostgres) -> None:
    with server:
        assert server.cluster.stat().st_mode & 0o077 == 0
        assert server.socket_dir.stat().st_mode & 0o077 == 0
        with psycopg.connect(server.url("postgres")) as connection:
            assert connection.execute("show listen_addresses").fetchone() == ("",)


def test_a_second_owner_is_told_so(server: EmbeddedPostgres, directory: Path) -> None:
    with server:
        with pytest.raises(AlreadyServed, match="Another Postern process uses the data directory"):
            EmbeddedPostgres(directory).start()
        assert server.is_running()


def _left_behind(directory: Path) -> int:
    """A running server whose owner was killed."""
    owner = subprocess.Popen([sys.executable, "-c", OWNS_AND_SLEEPS, str(directory)], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    pid = EmbeddedPostgres(directory)._pid_file()[0]
    assert pid is not None
    return pid


def test_a_server_left_by_a_killed_owner_is_taken_over(server: EmbeddedPostgres, directory: Path) -> None:
    left = _left_behind(directory)
    _mark(server, "taken over")
    with server:
        assert _pid(server) == left
        assert server.is_running()
        assert _marked(server, "taken over")
    _wait_until_gone(left)


def test_a_left_server_on_its_way_out_is_started_again(server: EmbeddedPostgres, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _left_behind(directory)
    original = EmbeddedPostgres._ready_before

    def stopped_meanwhile(self: EmbeddedPostgres, deadline: float) -> bool:
        if self._adopted == left:
            os.kill(left, signal.SIGINT)
            _wait_until_gone(left)
        return original(self, deadline)

    monkeypatch.setattr(EmbeddedPostgres, "_ready_before", stopped_meanwhile)
    with server:
        assert server.is_running()
        assert _pid(server) != left


def test_a_killed_server_is_revived_with_its_data(server: EmbeddedPostgres) -> None:
    with server:
        _mark(server, "before the crash")
        with psycopg.connect(server.url("postgres")):  # a backend that holds on to the shared memory for a moment
            os.kill(_pid(server), signal.SIGKILL)
            while server.is_running():
                time.sleep(0.01)
            server.revive()
        assert _marked(server, "before the crash")
        pid = _pid(server)
        server.revive()
        assert _pid(server) == pid


def _hang(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_hung_server_is_stopped_with_all_its_processes(server: EmbeddedPostgres, log: CapturedLog) -> None:
    """As on a disk that does not answer: nothing of the server reacts any more."""
    server.start()
    # The server first: from then on nothing starts another process.
    _hang(_pid(server))
    hung = server._holders()
    assert len(hung) > 3
    for pid in hung:
        _hang(pid)
    server.stop(patience=0.2)
    assert server._holders() == []
    assert not any(map(embedded._alive, hung))
    (said,) = log.events("embedded_postgres_killed")
    assert (said["pids"], said["left"]) == (hung, [])


def test_a_start_names_and_ends_what_a_killed_server_left(server: EmbeddedPostgres, directory: Path, log: CapturedLog) -> None:
    with server:
        _mark(server, "before the orphans")
    server.start()
    killed = _pid(server)
    _hang(killed)
    orphans = [pid for pid in server._holders() if pid != killed]
    for pid in orphans:
        _hang(pid)
    os.kill(killed, signal.SIGKILL)
    _wait_until_gone(killed)
    server.stop()
    assert server._holders() == orphans
    after = EmbeddedPostgres(directory, settings={"fsync": "off"}, orphan_patience=0.2)
    with after:
        assert _marked(after, "before the orphans")
        assert not any(map(embedded._alive, orphans))
    assert log.events("embedded_postgres_held")[0]["pids"] == orphans
    (ended,) = log.events("embedded_postgres_orphans_killed")
    assert ended["pids"] == orphans


def test_a_pid_file_that_names_another_program_does_not_stop_the_start(server: EmbeddedPostgres) -> None:
    with server:
        words = (server.cluster / "data" / "postmaster.pid").read_text().splitlines()
        os.kill(_pid(server), signal.SIGKILL)
    # Our own number stands for that of any program that got it since, "ready" and all.
    file = server.cluster / "data" / "postmaster.pid"
    file.write_text("\n".join([str(os.getpid()), *words[1:]]))
    with server:
        assert server.is_running()
        assert _pid(server) != os.getpid()


def test_a_first_start_that_was_killed_in_the_middle_leaves_nothing_half_made() -> None:
    with tempfile.TemporaryDirectory(prefix="postern-embedded-") as name:
        server = EmbeddedPostgres(Path(name), settings={"fsync": "off"})
        half = server.cluster / "initdb" / "base"
        half.mkdir(parents=True)
        (half / "debris").write_text("")
        with server:
            assert server.is_running()
        assert not half.exists()


def test_a_first_start_killed_while_its_initdb_works_does_not_stop_the_next() -> None:
    with tempfile.TemporaryDirectory(prefix="postern-embedded-") as name:
        server = EmbeddedPostgres(Path(name), settings={"fsync": "off"})
        owner = subprocess.Popen([sys.executable, "-c", OWNS_AND_SLEEPS, name], stdout=subprocess.DEVNULL, cwd=ROOT)
        while not any(server.cluster.glob("initdb*/global")):
            time.sleep(0.001)
        owner.kill()
        owner.wait()
        with server:
            assert server.is_running()
        deadline = time.monotonic() + PATIENCE
        while _works_in(server.cluster):  # the orphan, which would stand in the way of the clean-up
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _works_in(cluster: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("cwd").readlink().is_relative_to(cluster):
                return True
    return False


def test_a_server_that_a_killed_owner_was_just_starting_is_taken_over(
    server: EmbeddedPostgres, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server:
        pass
    left: list[int] = []
    original = EmbeddedPostgres._launch

    def another_was_quicker(self: EmbeddedPostgres, runner: pwd.struct_passwd | None) -> None:
        if not left:
            subprocess.run([sys.executable, "-c", LAUNCHES_AND_DIES, str(directory)], check=True, cwd=ROOT)
            left.append(EmbeddedPostgres(directory)._pid_file()[0] or 0)
        original(self, runner)

    monkeypatch.setattr(EmbeddedPostgres, "_launch", another_was_quicker)
    with server:
        assert _pid(server) == left[0]
    _wait_until_gone(left[0])


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_it_learns_none_of_our_settings(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTERN_ENCRYPTION_KEYS", "id:hunter2")
    with server:
        assert b"POSTERN_" not in Path(f"/proc/{_pid(server)}/environ").read_bytes()


def test_a_long_path_gets_a_socket_elsewhere(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 30))
    assert server.socket_dir.parent == Path(tempfile.gettempdir())
    assert server.socket_dir != EmbeddedPostgres(tmp_path / ("long" * 31)).socket_dir


def test_a_path_with_odd_letters_survives_the_url() -> None:
    url = EmbeddedPostgres(Path("/srv/a b&c=d%/x")).url("postgres")
    assert psycopg.conninfo.conninfo_to_dict(url)["host"] == "/srv/a b&c=d%/x/postgres/run"


def test_data_of_another_version_is_refused(server: EmbeddedPostgres) -> None:
    with server:
        pass
    file = server.cluster / "data" / "PG_VERSION"
    file.write_text("17\n")
    try:
        with pytest.raises(EmbeddedPostgresError, match="was made by PostgreSQL 17; this Postern carries 18"):
            server.start()
    finally:
        file.write_text("18\n")
    assert not server.is_owned()


def test_a_server_that_cannot_start_says_why(directory: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"did not start: .*max_connections"):
        EmbeddedPostgres(directory, settings={"max_connections": "none"}).start()


def test_a_full_disk_does_not_pass_by_waiting(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL says so with words that it otherwise has for what passes."""
    server.stop()
    launched: list[object] = []
    monkeypatch.setattr(EmbeddedPostgres, "_launch", lambda _self, runner: launched.append(runner))
    monkeypatch.setattr(
        EmbeddedPostgres, "_last_words", lambda _self: 'could not write lock file "postmaster.pid": No space left on device'
    )
    with pytest.raises(EmbeddedPostgresError, match=r"did not start: could not write lock file .* No space left"):
        server.start(patience=2)
    assert len(launched) == 1


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="file/data cannot be used: Not a directory"):
        EmbeddedPostgres(tmp_path / "file" / "data").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a directory away")
def test_a_socket_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    server.cluster.mkdir(parents=True)
    os.chown(server.cluster, 12345, 12345)
    with pytest.raises(EmbeddedPostgresError, match="belongs to another user"):
        server.start()


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    server.data_dir.mkdir()
    target = tmp_path / "elsewhere"
    target.mkdir()
    server.cluster.symlink_to(target)
    with pytest.raises(EmbeddedPostgresError, match="cannot be used"):
        server.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
def test_root_does_not_work_in_another_users_installation(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    server.cluster.mkdir(parents=True)
    os.chown(server.data_dir, 12345, 12345)
    with pytest.raises(EmbeddedPostgresError, match="belongs to user 12345: run Postern as that user"):
        server.start()
    assert list(server.data_dir.iterdir()) == [server.cluster]


def test_a_start_can_be_given_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):
        pass

    def enough() -> None:
        raise Enough

    server = EmbeddedPostgres(directory, on_wait=enough)
    # On a busy machine the server may be ready before this process looks.
    with monkeypatch.context() as slow:
        slow.setattr(EmbeddedPostgres, "_pid_file", lambda _server: (None, ""))
        with pytest.raises(Enough):
            server.start()
    assert not server.is_owned()
    assert server._left_running() is None


def test_an_installation_without_binaries_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "BINARIES", tmp_path)
    with pytest.raises(EmbeddedPostgresError, match="POSTERN_DATABASE_URL names one elsewhere"):
        EmbeddedPostgres(tmp_path / "data").start()


def test_its_log_does_not_grow_for_ever(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LONGEST_LOG", 1)
    with server:
        pass
    with server:
        assert server.log_file.with_suffix(".log.1").exists()
