"""etcd and Patroni of the recipe for three machines, as processes here: by its files, and by the lines that its guide tells an operator to
type. Only addresses, ports and folders are replaced. What systemd gives to the services, the code below gives to the processes.
"""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import trio

from adapters.postgres.embedded import BINARIES, open_way
from ops.bench import processes
from ops.bench.harness import COMMAND, DidNotStart
from ops.bench.report import ROOT
from ops.drill.proxies import FOLDER, MEMBERS, Changed, program, replaced
from ops.free_ports import free_port

GUIDE: Final = ROOT / "docs" / "guides" / "running" / "three-machines.md"
CONFIGURATION: Final = ROOT / "ops" / "patroni" / "patroni.yaml"
ROLES: Final = ROOT / "ops" / "container" / "database-roles.sh"
# Debian's unit starts Patroni as this user, and pg_hba.conf lets this user be the superuser of the same name.
USER: Final = "postgres"
# A line of the guide that takes longer hangs.
PROMPT: Final = 60.0
_PATIENCE: Final = 120.0
_PORTS: Final = (2379, 2380, 8008, 5432)
_ROLES: Final = ("leader", "replica", "sync_standby")


def told(words: str) -> str:
    """The line of the guide that ends with these words, in one piece."""
    text = GUIDE.read_text()
    fences = r"^ *```sh\n(.*?)^ *```"
    lines = [one for block in re.findall(fences, text, re.MULTILINE | re.DOTALL) for one in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    for one in [*lines, *spans]:
        if (line := " ".join(one.split())).endswith(words):
            return line
    raise Changed(words)


def values(text: str) -> dict[str, str]:
    """The lines `NAME=value`, as systemd reads a file of them."""
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


class DatabaseMachine:
    """One of the three, with its etcd and its Patroni, which runs its PostgreSQL."""

    def __init__(self, number: int, place: Path) -> None:
        place.mkdir(mode=0o755)
        self.name = f"machine-{number}"
        self.address = MEMBERS[number - 1]
        self.place = place
        self.ports = {port: free_port() for port in _PORTS}
        self._etcd: subprocess.Popen[bytes] | None = None
        self._patroni: subprocess.Popen[bytes] | None = None

    @property
    def places(self) -> Mapping[str, str]:
        """Where the addresses of the recipe are here."""
        return {f"{self.address}:{port}": f"127.0.0.1:{here}" for port, here in self.ports.items()}

    @property
    def configuration(self) -> Path:
        return self.place / "config.yml"

    def lay(self, places: Mapping[str, str]) -> None:
        """Writes its files, and gives those to PostgreSQL's user that are his."""
        data, store = self.place / "database", self.place / "etcd"
        text = replaced(
            _at(places, CONFIGURATION.read_text()),
            {
                "0.0.0.0:8008": self.places[f"{self.address}:8008"],
                "0.0.0.0:5432": self.places[f"{self.address}:5432"],
                "/etc/patroni": str(self.place),
            },
        )
        self.configuration.write_text(text)
        roles = self.place / ROLES.name
        roles.write_bytes(ROLES.read_bytes())
        roles.chmod(0o755)
        store.mkdir(mode=0o700)
        data.mkdir(mode=0o700)
        owner = pwd.getpwnam(USER)
        os.chown(data, owner.pw_uid, owner.pw_gid)
        self._of_etcd = values(_at(places, self._own("etcd.env"))) | {"ETCD_DATA_DIR": str(store)}
        self._of_patroni = values(
            replaced(
                _at(places, self._own("patroni.env")),
                {"/usr/lib/postgresql/18/bin": str(BINARIES), "/var/lib/postgresql/patroni": str(data / "files")},
            )
        ) | {"PGPORT": str(self.ports[5432])}

    def _own(self, name: str) -> str:
        """The file of machine-1, with the lines that differ as they are here."""
        lines = (FOLDER / name).read_text().splitlines()
        own = [
            line if line.startswith("ETCD_INITIAL_CLUSTER=") else line.replace(MEMBERS[0], self.address).replace("machine-1", self.name)
            for line in lines
        ]
        return "\n".join(own)

    def start_etcd(self) -> None:
        if self._etcd is None:
            self._etcd = self._started("etcd", [program("etcd")], self._of_etcd, user=None)

    def start_patroni(self) -> None:
        if self._patroni is None:
            self._patroni = self._started("patroni", [program("patroni"), str(self.configuration)], self._of_patroni, user=USER)

    def _started(self, name: str, command: Sequence[str], settings: Mapping[str, str], user: str | None) -> subprocess.Popen[bytes]:
        owner = pwd.getpwnam(user) if user else None
        with (self.place / f"{name}.log").open("ab") as output:
            return subprocess.Popen(
                command,
                env={**_PATHS, **settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.place,
                process_group=0,
                user=owner and owner.pw_uid,
                group=owner and owner.pw_gid,
                extra_groups=owner and [],
            )

    def kill_etcd(self) -> None:
        _kill(self._etcd)
        self._etcd = None

    def lose(self) -> None:
        """The machine is gone for good. In its place comes one with its address, and with nothing in its folders."""
        self.kill()
        for folder in (self.place / "etcd", self.place / "database" / "files"):
            shutil.rmtree(folder)
        self._of_etcd["ETCD_INITIAL_CLUSTER_STATE"] = "existing"

    def kill_database(self) -> None:
        """Patroni first: it would start PostgreSQL again."""
        _kill(self._patroni)
        self._patroni = None
        processes.send(self._servers(), signal.SIGKILL)

    def kill(self) -> None:
        """As if the machine lost its power."""
        self.kill_database()
        self.kill_etcd()

    def _servers(self) -> list[int]:
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.place / "database" / "files" / "postmaster.pid").read_text().splitlines()[0])
            if processes.is_alive(pid):
                return processes.tree(pid, without=None)
        return []

    def last_words(self) -> str:
        return "\n".join(
            f"{name}: {line}"
            for name in ("etcd", "patroni")
            if (log := self.place / f"{name}.log").exists()
            for line in log.read_text(errors="replace").splitlines()[-12:]
        )


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()


def _at(places: Mapping[str, str], text: str) -> str:
    for old, new in places.items():
        text = text.replace(old, new)
    return text


_PATHS: Final = {"PATH": f"{BINARIES}:{COMMAND.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Patroni:
    """The database of the recipe: `async with running(place) as database:`, then give `database.url` to Postern."""

    def __init__(self, place: Path) -> None:
        place.mkdir(mode=0o755)
        self.place = place
        self.machines = [DatabaseMachine(number, place / f"machine-{number}") for number in range(1, len(MEMBERS) + 1)]
        self._places = {old: new for machine in self.machines for old, new in machine.places.items()}
        for machine in self.machines:
            machine.lay(self._places)
        # An address without a port, as in a URL, is PostgreSQL's.
        hosts = ",".join(machine.places[f"{machine.address}:5432"] for machine in self.machines)
        self._replaced = {",".join(MEMBERS): hosts, "/etc/patroni": str(self.machines[0].place), "/etc/postern": str(place), **self._places}
        self.url = _at(self._replaced, (FOLDER / "database-url.example").read_text().strip())

    async def start(self) -> None:
        """Step 1 of the guide: every etcd, then the first server, which becomes the primary, then the others."""
        for machine in self.machines:
            machine.start_etcd()
        with self._asked("etcd"), trio.fail_after(_PATIENCE):
            while len([one for one in (await self._said(told("member list"))).splitlines() if "started" in one]) < len(MEMBERS):  # noqa: ASYNC110
                await trio.sleep(0.1)
        self.machines[0].start_patroni()
        with self._asked("the first primary"), trio.fail_after(_PATIENCE):
            while await self.members() != {self.machines[0].name: "leader"}:  # noqa: ASYNC110 - others work
                await trio.sleep(0.1)
        await self.repair()

    async def repair(self) -> None:
        """What is gone is started, and everything is waited for: a leader, a synchronous standby and a replica."""
        for machine in self.machines:
            machine.start_etcd()
            machine.start_patroni()
        with self._asked("a leader, a synchronous standby and a replica"), trio.fail_after(_PATIENCE):
            while tuple(sorted((await self.members()).values())) != _ROLES:  # noqa: ASYNC110 - others work
                await trio.sleep(0.2)

    async def switch_over(self) -> None:
        """Somebody moves the primary by the line of the guide, again if Patroni refuses at first, and waits until another server is it."""
        old = await self.leader()
        with self._asked("a switchover"), trio.fail_after(_PATIENCE):
            while "Successfully switched over" not in await self.typed("switchover --force"):  # noqa: ASYNC110
                await trio.sleep(1)
            while await self.leader() is old:  # noqa: ASYNC110 - others work
                await trio.sleep(0.1)

    async def replace_second(self) -> None:
        """Machine-2 is lost for good, and a new one takes its place, as the guide says."""
        await trio.to_thread.run_sync(self.machines[1].lose)
        await self.typed("cut -d , -f 1)")
        await self.typed("--peer-urls=http://10.0.0.12:2380")
        await self.repair()

    async def members(self) -> Mapping[str, str]:
        """By the name of each server that runs, its role."""
        return await trio.to_thread.run_sync(self._members)

    def _members(self) -> Mapping[str, str]:
        for machine in self.machines:
            with (
                suppress(OSError, ValueError),
                urllib.request.urlopen(f"http://127.0.0.1:{machine.ports[8008]}/cluster", timeout=2) as read,
            ):
                members: list[dict[str, Any]] = json.load(read)["members"]
                return {one["name"]: one["role"] for one in members if one.get("state") in {"running", "streaming"}}
        return {}

    async def leader(self) -> DatabaseMachine:
        with self._asked("a leader"), trio.fail_after(_PATIENCE):
            while True:
                names = [name for name, role in (await self.members()).items() if role == "leader"]
                if names:
                    return next(machine for machine in self.machines if machine.name == names[0])
                await trio.sleep(0.1)

    async def typed(self, words: str) -> str:
        """What the guide's line that ends with these words says. A line that fails or hangs is an error."""
        return await self._said(told(words), strict=True)

    async def _said(self, line: str, *, strict: bool = False) -> str:
        here = _at(self._replaced, line).replace("…", "change-me")
        with trio.fail_after(PROMPT):
            done = await trio.run_process(
                ["/bin/sh", "-c", here],
                env=_PATHS | {"LANG": "C.UTF-8"},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=self.place,
            )
        if strict and done.returncode:
            raise DidNotStart(f"{line}\n{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()

    def url_of(self, role: str) -> str:
        """Past Postern, to whichever server takes writes."""
        return f"{self.url.replace('postern_app', role)}?target_session_attrs=read-write&connect_timeout=2"

    def ask(self, statement: Any, given: Any = ()) -> list[Any]:
        """A question to the primary, in Postern's database, as a superuser."""
        with psycopg.connect(self.url_of(USER), autocommit=True) as connection:
            cursor = connection.execute(statement, given or None)
            return cursor.fetchall() if cursor.description else []

    def _asked(self, what: str) -> "_Told":
        return _Told(what, self.machines)

    def kill(self) -> None:
        for machine in self.machines:
            machine.kill()


class _Told:
    """An end of our patience says what the machines wrote last."""

    def __init__(self, what: str, machines: Sequence[DatabaseMachine]) -> None:
        self._what = what
        self._machines = machines

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, trio.TooSlowError):
            said = "\n".join(f"{one.name}\n{one.last_words()}" for one in self._machines)
            raise DidNotStart(f"waited for {self._what} in vain:\n{said}") from error


def wanted() -> str | None:
    """Why this machine cannot run the recipe's database, if it cannot."""
    if os.geteuid() != 0:
        return "only root may start PostgreSQL as another user"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"there is no user {USER}: see ops/install-test-tools"
    return None


@asynccontextmanager
async def running(place: Path) -> AsyncIterator[Patroni]:
    """The three machines. Afterwards their processes are gone."""
    if (reason := wanted()) is not None:
        raise DidNotStart(reason)
    open_way(place.parent)
    open_way(BINARIES)
    database = Patroni(place)
    try:
        await database.start()
        yield database
    finally:
        database.kill()
