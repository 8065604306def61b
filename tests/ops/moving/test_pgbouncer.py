"""The configuration of PgBouncer that we ship starts here, and Postern serves through it."""

import os
import pwd
import re
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from entrypoints.installation import connections_of
from entrypoints.settings import read
from ops.bench.harness import serving
from ops.free_ports import free_port
from tests.ops.moving import programs
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import needs, place_of

FILE = ROOT / "ops" / "pgbouncer" / "pgbouncer.ini"


def written(name: str) -> str:
    (value,) = re.findall(rf"^{name} = (.*)$", FILE.read_text(), re.MULTILINE)
    return str(value)


def configuration(database: str, port: int, users: Path, mode: str) -> str:
    """The file as we ship it, before the server of this test, which asks for no password."""
    server = conninfo_to_dict(database)
    place = f"host={server['host']} port={server['port']} dbname={server['dbname']}"
    return programs.replaced(
        FILE.read_text(),
        ("postern = host=db.internal port=5432 dbname=postern", f"postern = {place}"),
        ("listen_port = 6432", f"listen_port = {port}"),
        ("auth_file = /etc/pgbouncer/userlist.txt", f"auth_file = {users}\nunix_socket_dir ="),
        ("pool_mode = session", f"pool_mode = {mode}"),
    )


async def started(stack: AsyncExitStack, database: str, mode: str) -> str:
    """The address of Postern's database by PgBouncer."""
    place = stack.enter_context(open_directory())
    place.chmod(0o755)
    port, file, users = free_port(), place / "pgbouncer.ini", place / "userlist.txt"
    file.write_text(configuration(database, port, users, mode))
    with psycopg.connect(database) as connection:
        name = connection.info.user
    users.write_text(f'"{name}" "app"\n')
    command = [place_of("pgbouncer"), "-q", str(file)]
    if os.geteuid() == 0:
        # It refuses to be root, and only the owner of the server's socket may enter its directory.
        command[1:1] = ["-u", pwd.getpwuid(Path(str(conninfo_to_dict(database)["host"])).stat().st_uid).pw_name]
    await stack.enter_async_context(programs.running(*command, port=port, log=place / "pgbouncer.log"))
    return make_conninfo(database, host="127.0.0.1", port=port, user=name, password="app", dbname="postern", sslmode="disable")


@needs("pgbouncer")
async def test_postern_serves_through_it(database_url: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        address = await started(stack, database_url, written("pool_mode"))
        async with serving(tmp_path, database_url=address) as server:
            assert await server.status("/health/ready", PATIENCE) == 200


def test_it_has_sessions_for_the_processes_that_its_comment_names() -> None:
    (told,) = re.findall(r"need (\d) \* \((\d+) \+ (\d)\) \+ (\d)\.", FILE.read_text())
    processes, each, beside, more = map(int, told)
    assert connections_of(read({}), processes) == processes * (each + beside)
    assert more == processes
    assert int(written("default_pool_size")) >= processes * (each + beside) + more
