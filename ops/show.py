"""Shows two promises. Each command makes an installation for it and deletes it at the end:

.venv/bin/python -m ops.show kill         kill -9 under load, and nothing that was answered is lost
.venv/bin/python -m ops.show tampering    a row of the audit log is altered, and `postern audit verify` finds it
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg

from adapters.postgres.embedded import EmbeddedPostgres
from ops.free_ports import free_port
from ops.patience import PATIENCE

POSTERN: Final = (sys.executable, "-m", "entrypoints.cli.main")
ROOT: Final = Path(__file__).resolve().parent.parent
CLIENTS: Final = 8
KILLS: Final = 5
# The server answers this many more registrations before the next kill.
BETWEEN: Final = 25


class Installation:
    """A `postern serve` on a data directory of its own, which outlives the server."""

    def __init__(self, place: Path, *arguments: str, within: Sequence[str] = (), **settings: str) -> None:
        self.place = place
        self._command = (*within, *POSTERN, "serve", *arguments)
        self.port = free_port()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
        self.environment = {
            **inherited,
            "POSTERN_DATA_DIR": str(place),
            "POSTERN_BIND": f"127.0.0.1:{self.port}",
            "POSTERN_LOG_FORMAT": "json",
            # All load comes from one address, so rate limits would stop it.
            "POSTERN_RATE_LIMITS": "off",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def database_url(self) -> str:
        return EmbeddedPostgres(self.place).application_url

    def start(self) -> None:
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, env=self.environment, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while self.ask("GET", "/health/ready") != 200:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((self.place / "log").read_text()[-2000:])
            time.sleep(0.05)

    def children(self) -> list[int]:
        """The serving processes, in the order of their start."""
        lines = [line for line in (self.place / "log").read_text().splitlines() if '"process_started"' in line]
        return [json.loads(line)["pid"] for line in lines]

    def kill(self, *pids: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_whole(self) -> None:
        """Returns when the address is free. A killed process takes a moment to end, and a new process may not be in the log yet."""
        if self._process is not None:
            self.kill(self._process.pid)
            self._process.wait()
        deadline = time.monotonic() + PATIENCE
        while not self._address_is_free():
            if time.monotonic() > deadline:
                raise SystemExit("Something still listens after kill -9 of all processes.")
            self.kill(*self.children())
            time.sleep(0.01)

    def _address_is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError:
                return False
            return True

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def ask(self, method: str, path: str, body: object = None) -> int | None:
        """Returns the status, or None without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return None
        else:
            return answer.status
        finally:
            connection.close()


@contextmanager
def installation(*arguments: str, within: Sequence[str] = (), **settings: str) -> Iterator[Installation]:
    """`within` is a command that runs the server."""
    with tempfile.TemporaryDirectory(prefix="postern-show-", ignore_cleanup_errors=True) as directory:
        # Under root, PostgreSQL runs as another user. That user must be able to pass through this directory.
        Path(directory).chmod(0o711)
        (place := Path(directory) / "data").mkdir(mode=0o711)
        made = Installation(place, *arguments, within=within, **settings)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def kill() -> int:
    """Clients register accounts all the time. After a 200, the account must exist at the end, with its entry in the audit log."""
    answered: list[str] = []
    others: Counter[int | None] = Counter()
    over = threading.Event()

    def register(server: Installation, client: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            email = f"{client}.{number}@example.org"
            status = server.ask("POST", "/api/auth/register", {"email": email, "password": "three wet matches"})
            if status == 200:
                answered.append(email)
            else:
                others[status] += 1
                time.sleep(0.05)

    def until_answered(count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(answered) < count and time.monotonic() < deadline:
            time.sleep(0.01)

    with installation("--processes", "2") as server:
        clients = [threading.Thread(target=register, args=(server, client)) for client in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            for number in range(1, KILLS + 1):
                until_answered(number * BETWEEN)
                victim = server.children()[-2]  # of the two that serve, the one that has served longer
                server.kill(victim)
                print(f"{len(answered):>4} registrations answered: kill -9 of a serving process, {number} of {KILLS}", flush=True)
            until_answered((KILLS + 1) * BETWEEN)
            server.kill_whole()
            print(f"{len(answered):>4} registrations answered: kill -9 of all processes at once, and a new start", flush=True)
            server.start()
            until_answered((KILLS + 2) * BETWEEN)
        finally:
            over.set()
            for client in clients:
                client.join()
        with psycopg.connect(server.database_url) as connection:
            kept = {email for (email,) in connection.execute("select email from users")}
            recorded = "select email from users where id::text in (select target_id from audit_entries where target_type = 'user')"
            on_record = {email for (email,) in connection.execute(recorded)}
    lost = set(answered) - (kept & on_record)
    print(f"{len(answered):>4} registrations answered, {len(lost)} of them lost; {others.pop(None, 0)} tries met no server or lost it")
    for status, count in others.items():
        print(f"{count:>4} were answered with {status}")
    return 1 if lost or not answered else 0


def tampering() -> int:
    """Alters the audit log as somebody with all rights on the database: successes become failures."""
    with installation() as server:
        deadline = time.monotonic() + PATIENCE
        while "not linked yet" in (before := _verify(server)).stdout and time.monotonic() < deadline:
            time.sleep(0.2)
        print(before.stdout)
        alter = "update audit_entries set success = not success"
        with psycopg.connect(server.database_url, autocommit=True) as connection:
            changed = connection.execute(alter).rowcount
        print(f'$ psql --command "{alter}"\nUPDATE {changed}\n')
        after = _verify(server)
        print(after.stdout + after.stderr, end="")
    return 0 if before.returncode == 0 and after.returncode == 1 else 1


def _verify(server: Installation) -> subprocess.CompletedProcess[str]:
    command = [*POSTERN, "audit", "verify"]
    done = subprocess.run(command, cwd=ROOT, env=server.environment, capture_output=True, text=True, check=False)
    done.stdout = f"$ postern audit verify\n{done.stdout}"
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("promise", choices=("kill", "tampering"))
    return kill() if parser.parse_args().promise == "kill" else tampering()


if __name__ == "__main__":
    sys.exit(main())
