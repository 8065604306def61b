"""The product as its operators use it: the `postern` command in processes of its own."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import EFFECTS, shipped, shipped_views_and_functions
from adapters.postgres.migrating.schema import replaceable_of
from tests.e2e.warm.processes import COMMAND, PosternProcess, run
from tests.patience import PATIENCE
from tests.places import MIGRATIONS, REPLACEABLE, ROOT

_URL = re.compile(r"http://127\.0\.0\.1:(\d+)")
PACKAGES: Final = ("core", "ports", "adapters", "actors", "entrypoints")


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def environment(data_dir: Path, settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "NOTIFY_", "WATCHDOG_", "COV_"))}
    return {**inherited, "POSTERN_DATA_DIR": str(data_dir), "POSTERN_BIND": "127.0.0.1:0", **settings}


def copy_product(tree: Path) -> None:
    """Copies the product, so that a test can run another release of it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))


def copy_later(tree: Path) -> str:
    """Copies the product with one migration more. Returns the migration's name."""
    copy_product(tree)
    name = f"{len(shipped()) + 1:04}_later"
    folder = tree / MIGRATIONS.relative_to(ROOT)
    (folder / f"{name}.sql").write_text(
        "-- additive\nalter table users add column later text;\ncreate index users_later on users (later);\n"
    )
    with (folder / EFFECTS).open("a") as effects:
        effects.write(f'\n[{name}]\nusers = {{ lock = "access exclusive", reads = true, indexes = 1 }}\n')
    return name


def copy_with_later_edition(tree: Path) -> str:
    """Copies the product with the next edition of its views and functions: a view has a column more, and a function another body. Returns
    the edition's name.
    """
    copy_product(tree)
    file = tree / REPLACEABLE.relative_to(ROOT)
    number = shipped_views_and_functions().edition.number
    text = file.read_text()
    for there, later in (
        (f"-- edition {number}\n", f"-- edition {number + 1}\n"),
        ("\n      from all_organizations\n", ", 1 as later\n      from all_organizations\n"),
        ("    return exists (select from held_service_roles", "    -- Later.\n    return exists (select from held_service_roles"),
    ):
        assert text.count(there) == 1, there
        text = text.replace(there, later)
    file.write_text(text)
    return str(replaceable_of(text))


def command(data_dir: Path, *arguments: str, given: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command other than `serve` to its end."""
    return command_of(ROOT, data_dir, *arguments, given=given, **settings)


def command_of(tree: Path, data_dir: Path, *arguments: str, given: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of another release."""
    return run([*COMMAND, *arguments], env=environment(data_dir, settings), given=given, patience=PATIENCE, cwd=tree)


def until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits until the condition's value is true, and returns the value."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """The serving processes under a parent, oldest first."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z" and b"--as-child" in (directory / "cmdline").read_bytes():
                found.append(int(directory.name))
    return sorted(found)


@dataclass
class Postern:
    """One `postern serve`."""

    data_dir: Path
    arguments: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    expected_errors: set[str] = field(default_factory=set)
    tree: Path = ROOT
    """The checkout that it runs from."""
    command: Sequence[str] = (*COMMAND, "serve")
    number: int = field(default_factory=count(1).__next__)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> Path:
        return self.data_dir.parent / f"server{self.number}.out"

    @property
    def err(self) -> Path:
        return self.data_dir.parent / f"server{self.number}.err"

    def start(self, *, wait: bool = True) -> None:
        out, err = self.out.open("wb"), self.err.open("ab")
        with out, err:
            self._process = PosternProcess(
                [*self.command, *self.arguments],
                env=environment(self.data_dir, self.settings),
                cwd=self.tree,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until(self._is_announced_or_dead)
        assert self.process.poll() is None, self.err.read_text()
        # On a busy machine, a first look may outlast its deadline, and the answer is 503 until the next look.
        until(lambda: self.get("/health/ready").status == 200)

    def _is_announced_or_dead(self) -> bool:
        return _URL.search(self.out.read_text()) is not None or self.process.poll() is not None

    @property
    def port(self) -> int:
        found = _URL.search(self.out.read_text())
        assert found is not None
        return int(found[1])

    def get(self, path: str, patience: float = PATIENCE, *, token: str | None = None) -> JsonAnswer:
        return self._request("GET", path, patience, None if token is None else {"Authorization": f"Bearer {token}"})

    def post(self, path: str, body: Mapping[str, Any], patience: float = PATIENCE, *, token: str | None = None) -> JsonAnswer:
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self._request("POST", path, patience, {"Content-Type": "application/json", **bearer}, json.dumps(body))

    def _request(
        self, method: str, path: str, patience: float, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> JsonAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:
            connection.request(method, path, body, {"Connection": "close", **(headers or {})})
            response = connection.getresponse()
            return JsonAnswer(response.status, response.read())
        finally:
            connection.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.err.read_text().splitlines() if line.startswith("{")]

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == event]

    def postgres(self) -> int:
        """The process of its embedded server."""
        pid = EmbeddedPostgres(self.data_dir)._pid_file()[0]
        assert pid is not None
        return pid

    def close(self) -> None:
        """Stops everything that the test left running. An unexpected error in the log fails the test."""
        if self._process is not None and self._process.poll() is None:
            for child in children(self.pid):
                os.kill(child, signal.SIGKILL)
            # Another server's workers are in its own group.
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        left = EmbeddedPostgres(self.data_dir)
        pid = left._pid_file()[0]
        if pid is not None and left._is_ours(pid) and not left.is_owned():
            os.kill(pid, signal.SIGQUIT)
            until(lambda: not alive(pid))
        unexpected = [line for line in self.log() if line["level"] in {"error", "critical"} and line["event"] not in self.expected_errors]
        assert not unexpected, unexpected


def copy(source: Path, target: Path) -> Path:
    """Copies a data directory with its owners and modes, which PostgreSQL checks."""
    subprocess.run(["cp", "--archive", str(source), str(target)], check=True)
    return target


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
