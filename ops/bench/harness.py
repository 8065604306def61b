"""The measured product: `postern serve`, started by its own command, with its database and the load on it."""

import base64
import json
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from adapters.postgres.embedded import EmbeddedPostgres
from ops.bench import processes
from ops.bench.load import Summary, Target, fetch
from ops.bench.report import ROOT, Figure
from ops.free_ports import free_port
from ops.patience import PATIENCE

COMMAND: Final = Path(sys.executable).parent / "postern"
READY: Final = "/health/ready"
_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_BY_THE_SCRIPT: Final = "Run `ops/install-test-tools` as root, or install Debian's package {}."
_NODE: Final = "Install Node.js 20.19 or later, which brings npm."
_HOW: Final[Mapping[str, str]] = {
    "wrk": _BY_THE_SCRIPT.format("wrk"),
    "h2load": _BY_THE_SCRIPT.format("nghttp2-client"),
    "openssl": _BY_THE_SCRIPT.format("openssl"),
    "git": "Install git.",
    "node": _NODE,
    "npm": _NODE,
}
"""How to install each program that cases need besides Python."""


class DidNotStart(Exception):
    """The server ended, or was not ready in time. The message carries the end of its log."""


class Skipped(Exception):
    """The case cannot run here. The message says why."""


def tool(name: str) -> str:
    """The program's place. Raises `Skipped` if it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise Skipped(_sentence(name))
    return found


def absent() -> Sequence[str]:
    """A sentence for each program that is not installed."""
    return [_sentence(name) for name in _HOW if shutil.which(name) is None]


def _sentence(name: str) -> str:
    return f"{name} is not installed. {_HOW[name]}"


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of the benchmark's command line."""

    seconds: float = 5.0
    connections: int = 32
    users: int = 10_000
    rounds: int = 200
    pairs: int = 500
    bar: float | None = None
    """Of a comparison with a commit: the most that the ratio of processor time, PostgreSQL's too, may be."""


Case = Callable[[Options], Awaitable[Sequence[Figure]]]


@dataclass(slots=True)
class Server:
    """One `postern serve` with its child processes."""

    process: trio.Process
    port: int
    log: Path
    data_dir: Path
    settings: Mapping[str, str] = field(repr=False)
    readied_after: float = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def tls(self) -> bool:
        return "POSTERN_TLS_KEY" in self.settings

    @property
    def database_url(self) -> str:
        return self.settings.get("POSTERN_DATABASE_URL") or embedded_url(self.data_dir)

    def target(self, path: str, headers: Mapping[str, str] | None = None) -> Target:
        return Target("127.0.0.1", self.port, path, headers or {}, self.tls)

    def pids(self) -> list[int]:
        return processes.tree(self.pid)

    def workers(self) -> list[int]:
        """The serving processes: the children under `--processes`, otherwise the one process."""
        return self.pids()[1:] or [self.pid]

    def resident(self) -> float:
        return sum(processes.resident_megabytes(pid) for pid in self.pids())

    async def status(self, path: str, patience: float = 5.0) -> int | None:
        answer = await fetch(self.target(path), patience)
        return answer.status if answer is not None else None

    async def until(self, path: str, status: int, patience: float) -> float:
        """Returns the seconds until the path answers with this status. Raises `DidNotStart`."""
        started = trio.current_time()
        with trio.move_on_after(patience):
            while await self.status(path, 2) != status:
                if self.process.returncode is not None:
                    raise DidNotStart(f"`postern serve` ended with {self.process.returncode}:\n{self.tail()}")
                await trio.sleep(0.01)
            return trio.current_time() - started
        raise DidNotStart(f"{path} did not answer {status} within {patience:g} s:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    async def stop(self, number: signal.Signals = signal.SIGTERM, patience: float = 15.0) -> float:
        """Sends the signal and waits for the end. Returns how long that took. After `patience`, it kills everything."""
        started = trio.current_time()
        family = processes.tree(self.pid, without=None) if self.process.returncode is None else []
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        with trio.move_on_after(patience, shield=True) as waiting:
            await self.process.wait()
        if waiting.cancelled_caught:
            processes.send(family, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await self.process.wait()
        return trio.current_time() - started


@contextmanager
def directory() -> Iterator[Path]:
    """A temporary data directory. After the case, the directory and its PostgreSQL are gone, even if the case failed."""
    place = Path(tempfile.mkdtemp(prefix="postern-bench-"))
    try:
        yield place
    finally:
        _end_postgres(place)
        shutil.rmtree(place, ignore_errors=True)


def _end_postgres(place: Path) -> None:
    with suppress(OSError, ValueError, IndexError):
        pid = int((place / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
        if not Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"postgres"):
            return
        family = processes.tree(pid, without=None)
        processes.send(family, signal.SIGCONT)
        processes.send(family, signal.SIGKILL)


def embedded_url(data_dir: Path) -> str:
    return EmbeddedPostgres(data_dir.resolve()).application_url


@asynccontextmanager
async def serving(
    data_dir: Path,
    *,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    database_url: str | None = None,
    path: str = READY,
    patience: float = PATIENCE,
    stop: bool = True,
    tree: Path | None = None,
) -> AsyncIterator[Server]:
    """Starts the product and waits until `path` answers 200. Without a database, it runs its embedded one. Rate limits are off, because no
    case measures them. `tree` is the directory of the code, if it is not the installed one.
    """
    port = free_port()
    given = settings_for(data_dir, f"127.0.0.1:{port}", database_url) | dict(settings or {})
    log = data_dir / "bench.log"
    with log.open("ab") as output:
        process = await trio.lowlevel.open_process(
            [*_command(tree), "serve", *arguments],
            env=environment_of(tree) | given,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=tree or ROOT,
        )
    server = Server(process, port, log, data_dir, given)
    try:
        server.readied_after = await server.until(path, 200, patience)
        yield server
    finally:
        if stop or process.returncode is None:
            await server.stop()


def _command(tree: Path | None) -> list[str]:
    if tree is None:
        return [str(COMMAND)]
    # This does the same as the command, if it were installed from that tree.
    module, _, function = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]["postern"].partition(":")
    return [sys.executable, "-c", f"import sys; from {module} import {function}; sys.exit({function}())"]


def settings_for(data_dir: Path, bind: str, database_url: str | None = None) -> dict[str, str]:
    settings = {
        "POSTERN_BIND": bind,
        "POSTERN_DATA_DIR": str(data_dir),
        "POSTERN_RATE_LIMITS": "off",
        "POSTERN_OWNER_PASSWORD": secrets.token_urlsafe(16),
    }
    if database_url is not None:
        settings |= {"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": ring(data_dir)}
    return settings


def environment_of(tree: Path | None) -> dict[str, str]:
    """Our environment without the product's settings. The code comes from that tree, if there is one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    return kept if tree is None else kept | {"PYTHONPATH": str(tree)}


def ring(data_dir: Path) -> str:
    """The encryption key of an installation on our database. It is the same at each start."""
    kept = data_dir / "bench.ring"
    if not kept.exists():
        kept.touch(mode=0o600)
        kept.write_text(f"bench:{base64.b64encode(secrets.token_bytes(32)).decode()}")
    return kept.read_text()


@contextmanager
def postgres(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL for this case, with an empty database `postern`. The product treats it as an external server: the case may stop it."""
    server = EmbeddedPostgres(data_dir / "server")
    with server:
        server.prepare_application()
        yield server


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a load, with the processor time of the server and of the generator."""

    load: Summary
    cpu: float
    generator_cpu: float

    @property
    def microseconds(self) -> float:
        """The server's processor time per request."""
        return self.cpu / self.load.requests * 1e6 if self.load.requests else float("inf")

    @property
    def generator_microseconds(self) -> float:
        return self.generator_cpu / self.load.requests * 1e6 if self.load.requests else float("inf")


async def measure(server: Server, target: Target, options: Options, *, threads: int = 1, tokens: Path | None = None) -> Measured:
    """Loads the target from another process, after a moment to warm up."""
    await generate(target, options.connections, min(1.0, options.seconds / 4), threads=threads, tokens=tokens)
    pids = server.pids()
    before, ended_before = processes.cpu_seconds(pids), _cpu_of_ended_children()
    summary = await generate(target, options.connections, options.seconds, threads=threads, tokens=tokens)
    return Measured(summary, processes.cpu_seconds(pids) - before, _cpu_of_ended_children() - ended_before)


def _cpu_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def kept(file: Path, lines: Iterable[str]) -> Path:
    """The file with what a load sends, as `generate` takes it. It has credentials, so nobody else reads it."""
    file.touch(mode=0o600)
    file.write_text("\n".join(lines))
    return file


async def generate(
    target: Target, connections: int, seconds: float, *, threads: int = 1, tokens: Path | None = None, pause: float = 0.0
) -> Summary:
    """Uses wrk if it is installed, because wrk takes the least time from the server; otherwise our own generator. `tokens` is a file with a
    header in each line; a tab and a path may follow, if the path is not the target's. `tokens` needs wrk. A pause between a connection's
    requests needs our generator.
    """
    headers = [f"{name}: {value}" for name, value in target.headers.items()]
    if tokens is not None or (not pause and shutil.which("wrk") is not None):
        command = [tool("wrk"), f"-t{threads}", f"-c{connections}", f"-d{seconds:.0f}s" if seconds >= 1 else "-d1s", "-s", str(_SCRIPT)]
        command += [word for header in headers for word in ("-H", header)]
    else:
        command = [sys.executable, "-m", "ops.bench.load", "--connections", str(connections)]
        command += ["--seconds", str(seconds), "--pause", str(pause)]
        command += [word for header in headers for word in ("--header", header)]
    extra = [] if tokens is None else ["--", str(tokens)]
    done = await trio.run_process([*command, target.url, *extra], capture_stdout=True, cwd=ROOT)
    return Summary(**json.loads(done.stdout.splitlines()[-1]))
