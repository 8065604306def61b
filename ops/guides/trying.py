"""A product in a trial: where it is installed, how it is started, and the browsers of people who sign in to it."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, cast

import httpx

from ops.browser.chromium import PROGRAM
from ops.browser.signing import SigningBrowser, browser
from ops.free_ports import free_port
from ops.guides.pages import Page
from ops.guides.tenants import PASSWORD, Person, Tenant

_PATIENCE: Final = 180.0


class Trial:
    """One guide, the product that it is about, and the tenant whose people sign in."""

    def __init__(self, page: Page, tenant: Tenant, installed: Path, place: Path, opened: ExitStack) -> None:
        self.page = page
        self.tenant = tenant
        self.place = place
        """An empty directory for the product's files."""
        self.installed = installed
        """Where the packages are."""
        self.port = free_port()
        self.at = f"http://127.0.0.1:{self.port}"
        self._opened = opened
        self._addresses: Mapping[str, str] = {}
        self.exported: Mapping[str, str] = {}

    def set_up(self, address: str) -> None:
        """Follows the page: pastes its shell lines, and writes its files. `address` is the product's address on the page."""
        self._addresses = {address: self.at}
        self.exported = self.tenant.follow(self.page, self._addresses)
        for name, text in self.page.files().items():
            file = self.place / name.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.filled(text))
        if (packages := self.installed / "node_modules").exists():
            # Node looks for packages beside the program.
            (self.place / "node_modules").symlink_to(packages)

    def filled(self, text: str) -> str:
        """The text with the addresses of this trial, and what the shell lines exported in place of `<NAME>`."""
        text = self.tenant.here(text, self._addresses)
        for name, value in self.exported.items():
            text = text.replace(f"<{name}>", value)
        return text

    def run(self, *command: str | Path, **variables: str) -> str:
        """Runs a command of the product to its end."""
        done = subprocess.run(
            command, cwd=self.place, env=self._environment(variables), capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        if done.returncode:
            raise SystemExit(f"{command} fails:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    @contextmanager
    def talking(self, *command: str | Path, **variables: str) -> Iterator[IO[str]]:
        """What a command of the product says, which waits meanwhile. It ends with the block."""
        log = self._opened.enter_context((self.place / "log").open("ab"))
        process = subprocess.Popen(
            command, cwd=self.place, env=self._environment(variables), stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
        )
        with process:
            try:
                yield cast("IO[str]", process.stdout)
            finally:
                process.kill()

    def start(self, *command: str | Path, ready: str = "/", **variables: str) -> None:
        """Starts the product, which answers at the port of the trial once it is ready, and ends with the trial."""
        self._start(command, lambda: _answers(f"{self.at}{ready}"), variables)

    def start_over_the_machine(self, *command: str, answers: Callable[[], bool]) -> None:
        """As `start`, for a product that knows its paths and speaks no HTTP: it sees the files of Debian's packages, and those of the guide
        for /etc, over the machine's own. Nobody else sees them there. Only root may do this. `answers` says whether the product does.
        """
        folders = {"/usr": self.installed, "/etc": self.place}
        over = "; ".join(f"mount -t overlay over -o lowerdir={above}{folder}:{folder} {folder}" for folder, above in folders.items())
        within = ("unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", f'{over}; exec "$@"', "sh")
        self._start((*within, *command), answers, {})

    def _start(self, command: Sequence[str | Path], answers: Callable[[], bool], variables: Mapping[str, str]) -> None:
        log = self.place / "log"
        process = self._opened.enter_context(_started(command, self.place, self._environment(variables), log))
        deadline = time.monotonic() + _PATIENCE
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"The product does not start:\n{log.read_text()[-5000:]}")
            time.sleep(0.2)

    def browser(self, person: Person) -> SigningBrowser:
        return self._opened.enter_context(browser(person.email, PASSWORD))

    def sign_in(self, person: Person, begin: str, callback: str) -> tuple[httpx.Client, httpx.Response]:
        """The person's browser, and what the product shows at the end of the sign-in that begins at this path."""
        theirs = self.browser(person)
        came = theirs.arrive(f"{self.at}{begin}", f"{self.at}{callback}")
        return theirs.client, theirs.client.get(came, follow_redirects=True)

    def version(self, package: str) -> str:
        told = self.run(self.program("python"), "-c", f"from importlib.metadata import version; print(version({package!r}))")
        return told.strip()

    def node_version(self, package: str) -> str:
        told: str = json.loads((self.installed / "node_modules" / package / "package.json").read_text())["version"]
        return told

    def debian_version(self, package: str) -> str:
        (archive,) = (self.installed / "archives").glob(f"{package}_*.deb")
        return subprocess.run(["dpkg-deb", "--field", archive, "Version"], capture_output=True, text=True, check=True).stdout.strip()

    def program(self, name: str) -> Path:
        return self.installed / "bin" / name

    def log(self) -> str:
        """What the product has written so far."""
        return log.read_text() if (log := self.place / "log").exists() else ""

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "PYTHON", "VIRTUAL_ENV"))}
        path = os.pathsep.join((str(self.installed / "bin"), str(self.installed / "node_modules" / ".bin"), inherited["PATH"]))
        return {**inherited, "PATH": path, "HOME": str(self.place), **self.exported, **variables}


def require(condition: object, told: str) -> None:
    """Prints what the product shows, or ends the trial if it shows something else."""
    if not condition:
        raise SystemExit(f"NOT  {told}")
    print(f"ok   {told}", flush=True)


def until(condition: Callable[[], object], told: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not (seen := condition()) and time.monotonic() < deadline:
        time.sleep(0.2)
    require(seen, told)


def python_packages(place: Path, packages: Sequence[str]) -> None:
    """A virtual environment of the product's own. A place that is kept from another trial is used as it is."""
    if packages and not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True)
        (place / "complete").touch()


def node_packages(place: Path, packages: Sequence[str]) -> None:
    if not packages:
        return
    if shutil.which("npm") is None:
        raise SystemExit("npm is missing: install Node.js first")
    if not (place / "node_modules").exists():
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, *packages], check=True)


def chromium_program() -> str:
    found = shutil.which(PROGRAM)
    if found is None:
        raise SystemExit(f"{PROGRAM} is missing: ops/install-test-tools installs it")
    return found


def debian_packages(place: Path, packages: Sequence[str]) -> None:
    """Unpacks the packages, and those that they need, without installing any of them. The machine stays as it is."""
    if not packages or (place / "usr").exists():
        return
    archives = place / "archives"
    (archives / "partial").mkdir(parents=True)
    fetch = ("apt-get", "install", "--yes", "--quiet", "--download-only", "--reinstall", "--no-install-recommends")
    subprocess.run([*fetch, "-o", f"Dir::Cache::Archives={archives}", *packages], check=True, stdout=subprocess.DEVNULL)
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", archive, place], check=True)


@contextmanager
def _started(command: Sequence[str | Path], place: Path, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as written:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the product with the processes that it has started, which are in its group."""
    for signal_number in (15, 9):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=10).status_code < 400
    except httpx.HTTPError:
        return False
