"""The Helm chart, as far as it can be read without Helm: `make chart` renders it, at night."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from shutil import copytree
from typing import Any, Final

import pytest
import yaml

from entrypoints.settings import DECLARATIONS
from ops.chart import __main__ as trying
from ops.chart import comparing
from ops.chart.comparing import CHART, differences, kustomized
from ops.release.version import COPIES
from tests.places import ROOT

SCHEMA: Final[Mapping[str, Any]] = json.loads((CHART / "values.schema.json").read_text())
VALUES: Final[Mapping[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES: Final = "\n".join(file.read_text() for file in sorted((CHART / "templates").iterdir()))
# The chart sets it itself: pods never migrate.
_OWN: Final = frozenset({"POSTERN_MIGRATE"})
_IN_SECRET: Final = frozenset({"POSTERN_DATABASE_URL", "POSTERN_ENCRYPTION_KEYS", "POSTERN_MAIL_PASSWORD"})
SETS: Final = sorted(trying.VALUES.glob("*.yaml"))


def places(schema: Mapping[str, Any], values: Any, at: str = "") -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Each value with its schema. Where a person chooses the names, the object is the value."""
    if (
        isinstance(values, dict)
        and "properties" in schema
        and "propertyNames" not in schema
        and schema.get("additionalProperties") is False
    ):
        for name in {*values, *schema["properties"]} - {"global"}:
            assert name in schema["properties"], f"the schema does not know {at}.{name}"
            assert name in values, f"values.yaml does not say {at}.{name}"
            yield from places(schema["properties"][name], values[name], f"{at}.{name}")
    else:
        yield at, schema, values


def test_each_value_has_its_schema_its_words_and_its_use() -> None:
    for at, schema, _ in places(SCHEMA, VALUES):
        whole = at.endswith((".resources.requests", ".resources.limits"))
        assert whole or "description" in schema, at
        used = at.rpartition(".")[0] if whole else at
        assert re.search(rf"\.Values{re.escape(used)}\b", TEMPLATES), f"no template uses {at}"


def test_templates_ask_for_no_value_that_is_not_there() -> None:
    known = {at for at, _, _ in places(SCHEMA, VALUES)}
    for asked in set(re.findall(r"\.Values(\.[\w.]+)", TEMPLATES)):
        assert any(one == asked or one.startswith(f"{asked}.") or asked.startswith(f"{one}.") for one in known), asked


def test_every_object_is_closed_or_has_names_of_its_own() -> None:
    def walk(schema: Mapping[str, Any], at: str) -> None:
        if schema.get("type") == "object" and at not in {".global", ".tolerations", ".networkPolicy.moreEgress"}:
            assert "additionalProperties" in schema, at
        for name, part in schema.get("properties", {}).items():
            walk(part, f"{at}.{name}")
        re.compile(schema.get("pattern", ""))

    assert SCHEMA["additionalProperties"] is False
    walk(SCHEMA, "")


def test_settings_and_secrets_are_those_of_the_product() -> None:
    settings = {name for one in DECLARATIONS if not one.secret for name in one.names} - _OWN
    assert set(SCHEMA["properties"]["settings"]["propertyNames"]["enum"]) == settings
    secret = {name for one in DECLARATIONS if one.secret for name in one.names} - _IN_SECRET
    assert set(SCHEMA["properties"]["secret"]["properties"]["more"]["propertyNames"]["enum"]) == secret
    assert VALUES["settings"].keys() <= settings


def test_the_settings_of_the_chart_are_those_of_the_kustomization() -> None:
    (configured,) = [one for one in kustomized() if one["kind"] == "ConfigMap"]
    assert {**VALUES["settings"], "POSTERN_MIGRATE": "off"} == configured["data"]


def test_the_version_is_the_products_and_a_release_writes_it() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"], chart["apiVersion"]) == (version, version, "v2")
    assert len(COPIES["ops/kubernetes/chart/Chart.yaml"]) == 2


@pytest.mark.parametrize("file", SETS, ids=lambda file: file.stem)
def test_a_set_of_values_names_what_is_there(file: Any) -> None:
    def walk(given: Any, schema: Mapping[str, Any], at: str) -> None:
        if isinstance(given, dict) and schema.get("additionalProperties") is False and "propertyNames" not in schema:
            for name, value in given.items():
                assert name in schema["properties"], f"{at}.{name}"
                walk(value, schema["properties"][name], f"{at}.{name}")
        names = schema.get("propertyNames", {}).get("enum")
        assert names is None or set(given) <= set(names), at
        if isinstance(given, str) and "pattern" in schema:
            assert re.search(schema["pattern"], given), at

    walk(yaml.safe_load(file.read_text()) or {}, SCHEMA, "")


def test_there_are_thirteen_sets_and_some_are_the_kustomizations() -> None:
    assert len(SETS) == 13
    assert trying.AS_KUSTOMIZE.keys() <= {file.stem for file in SETS}


def test_ldap_is_closed_until_networks_of_directories_are_named() -> None:
    assert VALUES["networkPolicy"]["directories"] == []
    network = re.compile(SCHEMA["properties"]["networkPolicy"]["properties"]["directories"]["items"]["pattern"])
    assert [bool(network.search(one)) for one in ("10.20.0.0/24", "fd00:20::/64", "10.20.0.1", "dc1.example.org", "")] == [
        *(True, True, False, False, False)
    ]

    def ports(components: Sequence[str]) -> set[int]:
        (policy,) = [one for one in kustomized(components) if one["kind"] == "NetworkPolicy"]
        return {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}

    assert ports(()).isdisjoint({636, 389})
    assert ports(("directories",)) == ports(()) | {636, 389}


def test_a_patch_that_the_comparison_cannot_apply_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = {"target": {"kind": "Service", "name": "postern"}, "patch": "[{op: remove, path: /spec/ports/0}]"}
    monkeypatch.setattr(comparing, "KUBERNETES", copytree(comparing.KUBERNETES, tmp_path / "kubernetes"))
    (tmp_path / "kubernetes" / "other").mkdir()
    (tmp_path / "kubernetes" / "other" / "kustomization.yaml").write_text(yaml.safe_dump({"patches": [patch]}))
    with pytest.raises(ValueError, match="No patch of ours does this yet"):
        kustomized(["other"])


def test_differences_are_told_and_what_is_helms_own_is_none() -> None:
    theirs = kustomized()
    ours = deepcopy(list(theirs))
    for one in ours:
        one["metadata"].setdefault("labels", {})["helm.sh/chart"] = "postern-0.1.0"
        if one["kind"] == "Job":
            one["metadata"]["name"] += "-1"
    assert differences(ours, theirs, image="postern") == []
    (deployment,) = [one for one in ours if one["kind"] == "Deployment"]
    deployment["spec"]["replicas"] = 3
    del deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    deployment["spec"]["template"]["spec"]["hostNetwork"] = True
    told = differences([one for one in ours if one["kind"] != "Service"], theirs, image="postern")
    assert told[0] == "the chart lacks Service postern"
    assert [line.partition(":")[0] for line in told[1:]] == [
        "Deployment postern.spec.replicas",
        "Deployment postern.spec.template.spec.containers[0].readinessProbe",
        "Deployment postern.spec.template.spec.hostNetwork",
    ]
    assert differences(ours, theirs[1:], image="postern")[0].startswith("only the chart has ")


def test_what_no_pod_may_be_is_told() -> None:
    made = deepcopy(list(kustomized()))
    assert [fault for one in made for fault in trying.unfit(one)] == []
    assert len(trying.pods(made)) == 4
    for pod in trying.pods(made):
        pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False
        pod["containers"][0]["resources"] = {}
        pod["securityContext"]["runAsNonRoot"] = False
    faults = [fault for one in made for fault in trying.unfit(one)]
    assert len(faults) == 12
    assert trying.unfit({"kind": "Service", "metadata": {"name": "x" * 64}}) == ["Service " + "x" * 64 + ": the name is too long"]
