"""The example for Kubernetes with CloudNativePG starts here as processes. In the operator's place, the test makes what the manifest says,
promotes, and leads the Service `-rw` to the primary.
"""

import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.migrate import migrate, require_current
from ops.bench.harness import ring, serving
from ops.drill.cables import Cable
from ops.drill.cluster import NAMES, Node, running
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import needs

FOLDER: Final = ROOT / "ops" / "kubernetes"
EXAMPLE: Final = ROOT / "ops" / "cloudnative-pg"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLE / name).read_text()))


def spec() -> dict[str, Any]:
    (cluster,) = documents("cluster.yaml")
    return dict(cluster["spec"])


def secret(name: str) -> dict[str, str]:
    (found,) = [one for one in documents("secret.example.yaml") if one["metadata"]["name"] == name]
    return dict(found["stringData"])


def as_operator(node: Node, _password: str) -> None:
    """What the operator does with `bootstrap.initdb` and `managed.roles`, in this order."""
    made = spec()["bootstrap"]["initdb"]
    owner = secret(made["secret"]["name"])
    assert owner["username"] == made["owner"]
    for statement in made["postInitSQL"]:
        node.ask(statement)
    node.ask(sql.SQL("create role {} login password {}").format(sql.Identifier(made["owner"]), sql.Literal(owner["password"])))
    node.ask(sql.SQL("create database {} owner {}").format(sql.Identifier(made["database"]), sql.Identifier(made["owner"])))
    for statement in made["postInitApplicationSQL"]:
        node.ask(statement, database=made["database"])
    for role in spec()["managed"]["roles"]:
        given = secret(role["passwordSecret"]["name"])
        assert given["username"] == role["name"]
        node.ask(sql.SQL("alter role {} password {}").format(sql.Identifier(role["name"]), sql.Literal(given["password"])))


def here(address: str, port: int) -> str:
    """An address of the Secret, with this test's Service. The servers here have no certificates."""
    host = conninfo_to_dict(address)["host"]
    (cluster,) = documents("cluster.yaml")
    assert host == f"{cluster['metadata']['name']}-rw.{cluster['metadata']['namespace']}.svc"
    parts = {name: value for name, value in conninfo_to_dict(address).items() if name not in {"sslmode", "sslrootcert"}}
    return make_conninfo("", **{**parts, "host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"})


async def test_postern_follows_the_service_of_the_operator() -> None:
    synchronous = spec()["postgresql"]["synchronous"]
    assert spec()["instances"] == len(NAMES)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(open_directory())
        settings = {**spec()["postgresql"]["parameters"], "fsync": "off"}
        cluster = await stack.enter_async_context(
            running(place / "servers", synchronous=False, small_disks=False, settings=settings, prepare=as_operator)
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        service = await Cable(lambda: cluster.primary.port).lay(nursery)
        names = ", ".join(node.name for node in cluster.followers)
        confirmed = f"{synchronous['method']} {synchronous['number']} ({names})"
        await trio.to_thread.run_sync(cluster.primary.set, "synchronous_standby_names", confirmed)
        urls = {name: here(value, service.port) for name, value in secret("postern").items() if name.endswith("database-url")}
        await migrate(urls["migration-database-url"], lambda _line: None)
        await require_current(urls["database-url"])
        config = yaml.safe_load((FOLDER / "configmap.yaml").read_text())["data"]
        given = {"POSTERN_DATABASE_URL": urls["database-url"], "POSTERN_ENCRYPTION_KEYS": ring(place), "POSTERN_MAIL": "console"}
        async with serving(place, settings={**config, **given}) as server:
            old, new = cluster.primary, cluster.followers[0]
            await trio.to_thread.run_sync(old.server.stop)
            await cluster.promote(new)
            with trio.fail_after(PATIENCE):
                while await server.status("/health/ready") != 200:
                    await trio.sleep(0.1)


@pytest.mark.parametrize("folder", ["", "migration/"])
def test_the_authority_is_mounted_where_the_addresses_look_for_it(folder: str) -> None:
    (kustomization,) = documents(f"{folder}kustomization.yaml")
    assert kustomization["resources"] == (["../../kubernetes/migration"] if folder else ["../kubernetes", "cluster.yaml"])
    (patch,) = kustomization["patches"]
    changes = yaml.safe_load(patch["patch"])
    (volume,) = [change["value"] for change in changes if change["path"].endswith("/volumes/-")]
    (mount,) = [change["value"] for change in changes if "/volumeMounts/" in change["path"]]
    (cluster,) = documents("cluster.yaml")
    assert volume["secret"]["secretName"] == f"{cluster['metadata']['name']}-ca"
    assert mount["name"] == volume["name"]
    for name in ("database-url", "migration-database-url"):
        root = conninfo_to_dict(secret("postern")[name])["sslrootcert"]
        assert root == f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"


@needs("kubectl")
@pytest.mark.parametrize(("folder", "kind"), [(EXAMPLE, "Deployment"), (EXAMPLE / "migration", "Job")], ids=["serving", "migration"])
def test_kustomize_builds_it_with_the_authority(folder: Path, kind: str) -> None:
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    kinds = {document["kind"]: document for document in yaml.safe_load_all(built)}
    assert kinds.keys() == {"Job"} or {"Cluster", "Deployment", "Service"} <= kinds.keys()
    (container,) = kinds[kind]["spec"]["template"]["spec"]["containers"]
    assert "/etc/postern-db" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_its_secret_has_what_the_deployment_asks_for() -> None:
    usual = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())
    assert secret("postern").keys() == usual["stringData"].keys()
