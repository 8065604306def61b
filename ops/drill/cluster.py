"""Three PostgreSQL servers, of which two follow the third. The drill moves the primary as Patroni would.

Each server is a process of its own, with its files on a small disk of its own (tmpfs, if we may mount one), behind two cables: one for
clients, one for the servers that follow it.
"""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
import trio
from psycopg import sql
from psycopg.conninfo import make_conninfo

from adapters.postgres.embedded import APPLICATION, BINARIES, PORT, EmbeddedPostgres
from ops.bench import processes
from ops.bench.filling.fill import may_fill
from ops.drill.cables import Cable
from ops.free_ports import free_port

NAMES: Final = ("north", "east", "south")
REPLICATOR: Final = "replicator"
DISK: Final = "640m"
# Nobody but root and the server's user can enter the directory of the socket. The ports are open to every user of the machine.
_ACCESS: Final = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost replication replicator 127.0.0.1/32 scram-sha-256\n"
_SETTINGS: Final = {"listen_addresses": "127.0.0.1", "wal_keep_size": "128MB", "max_wal_size": "256MB", "max_wal_senders": "10"}
_PATIENCE: Final = 60.0


class NoSuchDisk(Exception):
    """Only root can give a server a small disk of its own."""


class Node:
    """One server. Everything that blocks runs in a thread."""

    def __init__(self, name: str, place: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.port = free_port()
        self.place = place
        self.server = EmbeddedPostgres(place, {**_SETTINGS, **settings, "port": str(self.port), "cluster_name": name})
        self.for_clients = Cable(self.port)
        self.for_followers = Cable(self.port)

    @property
    def data(self) -> Path:
        return self.server.cluster / "data"

    def url(self, database: str = "postgres") -> str:
        """For the drill itself, as a superuser, past the cables."""
        return self.server.url(database).replace(f"port={PORT}", f"port={self.port}")

    def ask(self, statement: Any, values: Any = (), database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        self.ask(sql.SQL("alter system set {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        self.ask("select pg_reload_conf()")

    def family(self) -> list[int]:
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            if processes.is_alive(pid):
                return processes.tree(pid, without=None)
        return []

    def send(self, number: signal.Signals) -> None:
        processes.send(self.family(), number)

    def end(self) -> None:
        """As if its machine lost its power. It may have been stopped before."""
        family = self.family()
        processes.send(family, signal.SIGKILL)
        processes.send(family, signal.SIGCONT)
        self.server.stop()

    def copy(self, primary: "Node", password: str) -> None:
        """Makes it a follower of the primary, from a copy of all files."""
        self.end()
        shutil.rmtree(self.server.cluster, ignore_errors=True)
        owner = primary.data.stat()
        self.place.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.server.cluster.mkdir(mode=0o700)
        os.chown(self.server.cluster, owner.st_uid, owner.st_gid)
        root = os.geteuid() == 0
        subprocess.run(
            [
                *(str(BINARIES / "pg_basebackup"), "--no-password", "--checkpoint=fast", "--no-sync", f"--pgdata={self.data}"),
                *("--host=127.0.0.1", f"--port={primary.port}", f"--username={REPLICATOR}"),
            ],
            env={"PATH": os.environ["PATH"], "PGPASSWORD": password},
            user=owner.st_uid if root else None,
            group=owner.st_gid if root else None,
            extra_groups=[] if root else None,
            cwd=self.server.cluster,
            check=True,
            capture_output=True,
        )
        (self.data / "standby.signal").touch()
        os.chown(self.data / "standby.signal", owner.st_uid, owner.st_gid)
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{primary.conninfo_of_followers(self.name, password)}'\n")
        self.server.start()

    def conninfo_of_followers(self, follower: str, password: str) -> str:
        return make_conninfo(
            "",
            host="127.0.0.1",
            port=self.for_followers.port,
            user=REPLICATOR,
            password=password,
            application_name=follower,
            sslmode="disable",
            gssencmode="disable",
        )


class Cluster:
    """`async with running(place) as cluster:`, then give `cluster.url` to Postern."""

    def __init__(self, nodes: Sequence[Node], password: str, *, synchronous: bool) -> None:
        self.nodes = nodes
        self.primary = nodes[0]
        self.synchronous = synchronous
        self._password = password

    @property
    def url(self) -> str:
        """With every host, as an operator would write it."""
        hosts = ",".join(f"127.0.0.1:{node.for_clients.port}" for node in self.nodes)
        return f"postgresql://{APPLICATION}:{self._password}@{hosts}/{APPLICATION}?sslmode=disable&gssencmode=disable"

    @property
    def followers(self) -> list[Node]:
        return [node for node in self.nodes if node is not self.primary]

    def ask(self, statement: Any, values: Any = ()) -> list[Any]:
        """A question to the primary, in Postern's database."""
        return self.primary.ask(statement, values, APPLICATION)

    async def candidate(self) -> Node:
        """The follower that becomes primary: the synchronous one, if there is one."""
        if not self.synchronous:
            return self.followers[0]
        (chosen,) = self._names_of_standbys
        return next(node for node in self.nodes if node.name == chosen)

    async def promote(self, node: Node) -> None:
        """Returns when it takes writes. At first it waits for no standby, as under Patroni without `synchronous_mode_strict`."""
        await trio.to_thread.run_sync(node.set, "synchronous_standby_names", "")
        await trio.to_thread.run_sync(node.ask, "select pg_promote(true, 60)")
        await trio.to_thread.run_sync(node.ask, "select pg_logical_emit_message(true, 'drill', '')")
        self.primary = node

    async def repair(self) -> None:
        """Until every other server follows the primary, and one of them synchronously, if that is wanted."""
        for node in self.nodes:
            node.for_clients.mend()
            node.for_followers.mend()
        for node in self.followers:
            if not await self._follows(node):
                await trio.to_thread.run_sync(node.copy, self.primary, self._password)
                await self._streaming(node)
        await self._wait_for_standbys()

    async def _follows(self, node: Node) -> bool:
        if not node.family():
            return False
        try:
            wanted = self.primary.conninfo_of_followers(node.name, self._password)
            with trio.fail_after(5):
                if not (await trio.to_thread.run_sync(node.ask, "select pg_is_in_recovery()", abandon_on_cancel=True))[0][0]:
                    return False
            await trio.to_thread.run_sync(node.set, "primary_conninfo", wanted)
            with trio.fail_after(5):
                await self._streaming(node)
        except (psycopg.Error, trio.TooSlowError):
            return False
        return True

    async def _streaming(self, node: Node) -> None:
        question = "select count(*) from pg_stat_replication where application_name = %s and state = 'streaming'"
        with trio.fail_after(_PATIENCE):
            while (await trio.to_thread.run_sync(self.primary.ask, question, [node.name]))[0][0] == 0:  # noqa: ASYNC110 - another process
                await trio.sleep(0.1)

    async def _wait_for_standbys(self) -> None:
        self._names_of_standbys = [self.followers[0].name] if self.synchronous else []
        await trio.to_thread.run_sync(self.primary.set, "synchronous_standby_names", ", ".join(self._names_of_standbys))
        question = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        with trio.fail_after(_PATIENCE):
            while (await trio.to_thread.run_sync(self.primary.ask, question))[0][0] != len(self._names_of_standbys):  # noqa: ASYNC110
                await trio.sleep(0.1)

    _names_of_standbys: Sequence[str] = ()


@asynccontextmanager
async def running(
    place: Path,
    *,
    synchronous: bool = True,
    small_disks: bool = True,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[Node, str], None] | None = None,
) -> AsyncIterator[Cluster]:
    """The servers, with an empty database for Postern, unless `prepare` makes something else on the first one; it also gets the password of
    the role that followers use. Afterwards the servers and their files are gone.
    """
    with ExitStack() as stack:
        nodes = [Node(name, stack.enter_context(_disk(place / name, small=small_disks)), dict(settings or {})) for name in NAMES]
        password = secrets.token_urlsafe(16)
        cluster = Cluster(nodes, password, synchronous=synchronous)
        for node in nodes:
            stack.callback(node.end)
        await trio.to_thread.run_sync(begin, nodes[0], password, prepare)
        async with trio.open_nursery() as nursery:
            for node in nodes:
                await node.for_clients.lay(nursery)
                await node.for_followers.lay(nursery)
            await cluster.repair()
            yield cluster
            nursery.cancel_scope.cancel()


def begin(node: Node, password: str, prepare: Callable[[Node, str], None] | None = None) -> None:
    """Starts it as the first server, with the roles of followers and of Postern, and a database for Postern unless `prepare` is given."""
    with EmbeddedPostgres(node.place):
        (node.data / "pg_hba.conf").write_text(_ACCESS)
    node.server.start()
    _make_role(node, REPLICATOR, "login replication", password)
    (prepare or _make_database)(node, password)


def _make_role(node: Node, name: str, rights: LiteralString, password: str) -> None:
    node.ask(sql.SQL("create role {} {} password {}").format(sql.Identifier(name), sql.SQL(rights), sql.Literal(password)))


def _make_database(node: Node, password: str) -> None:
    _make_role(node, APPLICATION, "login", password)
    node.ask(sql.SQL("create database {0} owner {0}").format(sql.Identifier(APPLICATION)))
    node.ask(may_fill(APPLICATION))


@contextmanager
def _disk(place: Path, *, small: bool) -> Iterator[Path]:
    place.mkdir(mode=0o711, parents=True)
    if not small or os.geteuid() != 0:
        yield place
        return
    options = f"size={DISK},mode=0711"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "postern-drill", str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)
