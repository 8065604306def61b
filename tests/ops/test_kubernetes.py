"""The Kubernetes manifests refer to each other correctly, and give the pods no rights that the pods do not need."""

import subprocess
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from entrypoints.http.routes import ROUTES
from entrypoints.settings import DECLARATIONS, read
from ops.image.making import CONFIG
from tests.places import ROOT
from tests.tools import needs

FOLDER = ROOT / "ops" / "kubernetes"


def manifest(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


def pod() -> dict[str, Any]:
    template: dict[str, Any] = manifest("deployment.yaml")["spec"]["template"]
    return template


def migration() -> dict[str, Any]:
    template: dict[str, Any] = manifest("migration/job.yaml")["spec"]["template"]
    return template


def rehearsal() -> dict[str, Any]:
    template: dict[str, Any] = manifest("rehearsal/job.yaml")["spec"]["template"]
    return template


PODS = (pod(), migration(), rehearsal())


def containers() -> list[dict[str, Any]]:
    return [container for one in PODS for container in one["spec"]["containers"]]


def test_the_kustomization_names_every_manifest_and_no_secret() -> None:
    named = set(manifest("kustomization.yaml")["resources"])
    there = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert named == there


def built(folder: Path) -> list[dict[str, Any]]:
    text = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    return list(yaml.safe_load_all(text))


@needs("kubectl")
def test_kustomize_builds_it() -> None:
    kinds = [document["kind"] for document in built(FOLDER)]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "Namespace", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"]
    (job,) = built(FOLDER / "migration")
    assert (job["kind"], job["metadata"]["namespace"]) == ("Job", "postern")


@needs("kubectl")
def test_kustomize_opens_the_way_to_the_directories_that_are_named(tmp_path: Path) -> None:
    mine = copytree(FOLDER, tmp_path / "kubernetes")
    file = mine / "kustomization.yaml"
    changed = file.read_text().replace("components: [release]", "components: [release, directories]")
    assert changed != file.read_text()
    file.write_text(changed)
    before, after = [next(one for one in built(folder) if one["kind"] == "NetworkPolicy")["spec"]["egress"] for folder in (FOLDER, mine)]
    assert after[:-1] == before
    assert after[-1] == {
        "to": [{"ipBlock": {"cidr": "10.20.0.0/24"}}],
        "ports": [{"protocol": "TCP", "port": 636}, {"protocol": "TCP", "port": 389}],
    }


@needs("kubectl")
def test_the_migration_has_the_image_of_the_pods_that_serve_afterwards() -> None:
    (deployment,) = [document for document in built(FOLDER) if document["kind"] == "Deployment"]
    (job,) = built(FOLDER / "migration")
    images = {container["image"] for one in (deployment, job) for container in one["spec"]["template"]["spec"]["containers"]}
    (named,) = manifest("release/kustomization.yaml")["images"]
    digest = f"@{named['digest']}" if "digest" in named else ""
    assert images == {f"{named['newName']}:{named['newTag']}{digest}"}


def test_the_rehearsal_reads_backups_and_has_no_way_to_the_database() -> None:
    (container,) = rehearsal()["spec"]["containers"]
    assert container["args"][:2] == ["upgrade", "rehearse"]
    assert "database-url" not in yaml.safe_dump(rehearsal())
    (backups,) = [mount for mount in container["volumeMounts"] if mount["name"] == "backups"]
    assert backups["readOnly"] is True
    # The times of an upgrade need a server that waits for its disk.
    assert "fsync=off" not in yaml.safe_dump(rehearsal())
    assert manifest("rehearsal/job.yaml")["spec"]["backoffLimit"] == 0


def test_the_migration_is_no_pod_that_serves() -> None:
    labels = migration()["metadata"]["labels"]
    for file in ("deployment.yaml", "poddisruptionbudget.yaml"):
        assert not manifest(file)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert not manifest("service.yaml")["spec"]["selector"].items() <= labels.items()
    # It may go out where the others may.
    assert manifest("networkpolicy.yaml")["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_pods_never_migrate_by_themselves() -> None:
    """Several would wait for one, and a migration in steps would take as long as its longest step for each start."""
    assert manifest("configmap.yaml")["data"]["POSTERN_MIGRATE"] == "off"
    assert "initContainers" not in pod()["spec"]
    (container,) = migration()["spec"]["containers"]
    serving = conninfo_to_dict(manifest("secret.example.yaml")["stringData"]["database-url"])["user"]
    assert container["args"] == ["migrate", "--grant", serving]


@pytest.mark.parametrize("container", containers(), ids=lambda container: container["name"])
def test_containers_may_do_nothing_that_they_need_not(container: dict[str, Any]) -> None:
    security = container["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("one", PODS, ids=["serving", "migration", "rehearsal"])
def test_the_pod_is_not_root_and_has_no_token_of_the_cluster(one: dict[str, Any]) -> None:
    spec = one["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    # Postern would refuse to start with variables like POSTERN_PORT, which are no settings.
    assert spec["enableServiceLinks"] is False


@pytest.mark.parametrize("one", PODS, ids=["serving", "migration", "rehearsal"])
def test_the_user_is_the_one_of_the_image(one: dict[str, Any]) -> None:
    image = (ROOT / "ops" / "container" / "Dockerfile").read_text()
    security = one["spec"]["securityContext"]
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in image
    assert CONFIG["User"] == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_two_replicas_of_which_one_may_be_away() -> None:
    deployment = manifest("deployment.yaml")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert manifest("poddisruptionbudget.yaml")["spec"]["minAvailable"] == 1


def test_probes_ask_for_what_answers() -> None:
    (server,) = pod()["spec"]["containers"]
    routes = {endpoint.path for endpoint in ROUTES}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert server[name]["httpGet"]["path"] in routes
        assert server[name]["httpGet"]["port"] == server["ports"][0]["name"]


def test_only_a_dead_process_is_restarted_and_only_a_ready_one_gets_requests() -> None:
    (server,) = pod()["spec"]["containers"]
    assert server["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert server["startupProbe"]["httpGet"]["path"] == "/health/live"
    assert server["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_a_pod_that_ends_has_time_to_leave_the_service_and_to_finish() -> None:
    (server,) = pod()["spec"]["containers"]
    waits = int(server["lifecycle"]["preStop"]["exec"]["command"][-1].rpartition("(")[2].rstrip(")"))
    stops = read({}).shutdown_timeout.total_seconds()
    assert waits + stops + 10 <= pod()["spec"]["terminationGracePeriodSeconds"]


def test_all_selectors_find_the_pods() -> None:
    labels = pod()["metadata"]["labels"]
    for selector in (
        manifest("deployment.yaml")["spec"]["selector"]["matchLabels"],
        manifest("service.yaml")["spec"]["selector"],
        manifest("poddisruptionbudget.yaml")["spec"]["selector"]["matchLabels"],
        manifest("networkpolicy.yaml")["spec"]["podSelector"]["matchLabels"],
        pod()["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_ports_match_all_the_way() -> None:
    (server,) = pod()["spec"]["containers"]
    (port,) = server["ports"]
    assert manifest("service.yaml")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert manifest("networkpolicy.yaml")["spec"]["ingress"][0]["ports"][0]["port"] == port["containerPort"]
    assert pod()["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])


def test_every_setting_exists_and_every_secret_has_its_key() -> None:
    keys = set(manifest("secret.example.yaml")["stringData"])
    secret = {declaration.name for declaration in DECLARATIONS if declaration.secret}
    used: set[str] = set()
    for container in containers():
        for variable in container.get("env", []):
            assert variable["name"] in secret
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == manifest("secret.example.yaml")["metadata"]["name"]
            used.add(reference["key"])
    assert used == keys


def test_the_settings_of_the_example_are_accepted() -> None:
    values: dict[str, str] = manifest("configmap.yaml")["data"]
    settings = read({**values, "POSTERN_DATABASE_URL": "postgresql://a@b/c", "POSTERN_ENCRYPTION_KEYS": "a:b"})
    assert settings.public_url == "https://id.example.com"
    assert not settings.migrate


def test_the_serving_container_never_sees_the_role_that_owns_the_tables() -> None:
    (server,) = pod()["spec"]["containers"]
    assert "migration-database-url" not in yaml.safe_dump(server)


def test_names_are_asked_for_wherever_the_cluster_answers_them() -> None:
    """DNS may be answered by a cache on the node, whose address is no pod's, or by pods in another namespace and on another port."""
    (names,) = [rule for rule in manifest("networkpolicy.yaml")["spec"]["egress"] if {"protocol": "UDP", "port": 53} in rule["ports"]]
    assert "to" not in names
    for protocol in ("UDP", "TCP"):
        for port in (53, 5353):
            assert {"protocol": protocol, "port": port} in names["ports"]


def test_no_way_out_leads_to_the_metadata_service_of_a_cloud() -> None:
    (world,) = [rule for rule in manifest("networkpolicy.yaml")["spec"]["egress"] if any("ipBlock" in peer for peer in rule.get("to", []))]
    assert "169.254.0.0/16" in world["to"][0]["ipBlock"]["except"]
