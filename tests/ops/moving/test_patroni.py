"""The example with Patroni starts here as processes. In Patroni's place, the test promotes, and tells HAProxy which server is primary."""

import os
import re
import subprocess
from contextlib import AsyncExitStack, suppress
from inspect import signature
from pathlib import Path
from typing import Any

import psycopg
import trio
import yaml
from psycopg.conninfo import conninfo_to_dict

from adapters.postgres.driver.pool import Pool
from adapters.postgres.embedded import BINARIES
from adapters.postgres.migrate import MigrationFailed, migrate
from ops.bench.harness import Server, serving
from ops.drill.cluster import Cluster, Node, running
from ops.free_ports import free_port
from tests.ops import test_container
from tests.ops.moving import programs
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import needs, place_of

FOLDER = ROOT / "ops" / "patroni"
SERVERS = ("database-1", "database-2", "database-3")


class _Compose(yaml.SafeLoader):
    """With the tags by which a second file of compose replaces parts of the first one."""


def _override(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Compose.add_constructor("!override", _override)


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((FOLDER / "compose.yaml").read_text(), Loader=_Compose)  # noqa: S506 - a safe loader
    return loaded


def patroni() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "patroni.yaml").read_text())
    return loaded


def roles(node: Node, _password: str) -> None:
    """What `post_bootstrap` runs, with the passwords that compose gives it."""
    script = ROOT / "ops" / "container" / Path(patroni()["bootstrap"]["post_bootstrap"]).name
    given = {"DATABASE_OWNER_PASSWORD": "owner", "DATABASE_APP_PASSWORD": "app"}
    environment = {"PATH": f"{BINARIES}:{os.environ['PATH']}", "PGHOST": str(node.server.socket_dir), "PGPORT": str(node.port), **given}
    subprocess.run([script], env=environment, check=True, capture_output=True)


def haproxy_configuration(cluster: Cluster, port: int, asked: dict[str, int]) -> str:
    """The file as we ship it, with the ports of this test."""
    text = programs.replaced((FOLDER / "haproxy.cfg").read_text(), ("bind :5432", f"bind 127.0.0.1:{port}"))
    for server, node in zip(SERVERS, cluster.nodes, strict=True):
        line = f"server {server} {server}:5432"
        text = programs.replaced(text, (line, f"server {server} 127.0.0.1:{node.port} port {asked[node.name]}"))
    return text


async def answer_as_patroni(cluster: Cluster, node: Node, stream: trio.SocketStream) -> None:
    # On a busy machine HAProxy gives a question up while it is answered.
    with suppress(trio.BrokenResourceError):
        await _answer(cluster, node, stream)


async def _answer(cluster: Cluster, node: Node, stream: trio.SocketStream) -> None:
    async with stream:
        asked = await stream.receive_some(4096)
        assert asked.startswith(b"OPTIONS /primary HTTP/1."), asked
        is_primary = node is cluster.primary and bool(node.family())
        await stream.send_all(b"HTTP/1.0 %d X\r\ncontent-length: 0\r\n\r\n" % (200 if is_primary else 503))


def settings_of_postern(address: str = "") -> dict[str, str]:
    """As the first file of compose has them; the second one changes none."""
    assert "environment" not in compose()["services"]["postern"]
    base = test_container.compose()["services"]["postern"]["environment"]
    return {name: test_container.interpolated(value) for name, value in base.items()} | (
        {"POSTERN_DATABASE_URL": address} if address else {}
    )


def address_past_haproxy(cluster: Cluster) -> str:
    """As the comment in the example has it, with the places of this test's servers."""
    (written,) = re.findall(r"#   POSTERN_DATABASE_URL: (\S+)", (FOLDER / "compose.yaml").read_text())
    places = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
    return programs.replaced(test_container.interpolated(written), (",".join(SERVERS), places))


async def connections_of(node: Node) -> int:
    ((count,),) = await trio.to_thread.run_sync(
        node.ask, "select count(*) from pg_stat_activity where application_name = 'postern' and usename = 'postern_app'"
    )
    return int(count)


async def serves_from(server: Server, node: Node, at_least: int) -> None:
    with trio.fail_after(PATIENCE):
        while await server.status("/health/ready") != 200 or await connections_of(node) < at_least:
            await trio.sleep(0.1)


@needs("haproxy")
async def test_postern_follows_the_primary_by_haproxy_and_by_several_hosts() -> None:
    settings = patroni()["bootstrap"]["dcs"]["postgresql"]["parameters"]
    async with AsyncExitStack() as stack:
        place = stack.enter_context(open_directory())
        cluster = await stack.enter_async_context(
            running(
                place / "servers",
                synchronous=patroni()["bootstrap"]["dcs"]["synchronous_mode"],
                small_disks=False,
                settings={name: str(value) for name, value in settings.items()} | {"fsync": "off"},
                prepare=roles,
            )
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        asked = {}
        for node in cluster.nodes:
            listeners = await nursery.start(trio.serve_tcp, lambda stream, node=node: answer_as_patroni(cluster, node, stream), 0)
            asked[node.name] = listeners[0].socket.getsockname()[1]
        port = free_port()
        file = place / "haproxy.cfg"
        file.write_text(haproxy_configuration(cluster, port, asked))
        await stack.enter_async_context(programs.running(place_of("haproxy"), "-db", "-f", str(file), port=port, log=place / "haproxy.log"))
        by_haproxy = programs.replaced(settings_of_postern()["POSTERN_DATABASE_URL"], ("@database:5432/", f"@127.0.0.1:{port}/"))
        await _migrated(by_haproxy.replace("postern_app:app", "postern_owner:owner"))
        servers = []
        for name, address in {"one": by_haproxy, "two": address_past_haproxy(cluster)}.items():
            (place / name).mkdir()
            servers.append(await stack.enter_async_context(serving(place / name, settings=settings_of_postern(address))))
        old, new = cluster.primary, await cluster.candidate()
        await trio.to_thread.run_sync(old.server.stop)
        await cluster.promote(new)
        for number, server in enumerate(servers, 1):
            await serves_from(server, new, number)


async def _migrated(address: str) -> None:
    """HAProxy asks its servers once a second, so at first it takes a standby for the primary."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                await migrate(address, lambda _line: None)
            except (psycopg.Error, MigrationFailed):
                await trio.sleep(0.1)
            else:
                return


def test_compose_leads_to_the_servers_that_haproxy_knows() -> None:
    services = compose()["services"]
    assert set(SERVERS) < set(services)
    assert conninfo_to_dict(settings_of_postern()["POSTERN_DATABASE_URL"])["host"] == "database"
    (mounted,) = services["database"]["volumes"]
    assert (ROOT / "ops" / mounted.split(":")[0]).resolve() == FOLDER / "haproxy.cfg"
    known = re.findall(r"^ +server (\S+) (\S+):5432$", (FOLDER / "haproxy.cfg").read_text(), re.MULTILINE)
    assert known == [(server, server) for server in SERVERS]
    for server in SERVERS:
        environment = services[server]["environment"]
        assert environment["PATRONI_NAME"] == server
        assert environment["PATRONI_POSTGRESQL_CONNECT_ADDRESS"] == f"{server}:5432"
        assert environment["PATRONI_RESTAPI_CONNECT_ADDRESS"].endswith(patroni()["restapi"]["listen"].rpartition(":")[2])
        assert "ports" not in services[server]


def test_the_image_copies_what_it_starts() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    (copied,) = re.findall(r"^COPY (.*) /etc/patroni/$", text, re.MULTILINE)
    assert all((ROOT / "ops" / file).exists() for file in copied.split())
    assert {Path(file).name for file in copied.split()} == {"patroni.yaml", "server.sh", "database-roles.sh"}
    assert os.access(FOLDER / "server.sh", os.X_OK)


def test_the_times_of_patroni_fit_together() -> None:
    dcs = patroni()["bootstrap"]["dcs"]
    assert dcs["ttl"] >= dcs["loop_wait"] + 2 * dcs["retry_timeout"]


def test_haproxy_lets_connections_live_as_long_as_the_pool_does() -> None:
    hours = re.findall(r"timeout (?:client|server) (\d+)h", (FOLDER / "haproxy.cfg").read_text())
    lifetime = signature(Pool).parameters["max_lifetime"].default
    assert all(int(one) * 3600 > 1.1 * lifetime for one in hours)
    assert len(hours) == 2
