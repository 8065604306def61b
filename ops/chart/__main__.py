"""Tries the chart with Helm itself: `make chart`. Lint, thirteen sets of values, what is refused, and the kustomize files beside it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from ops.chart.comparing import CHART, Document, differences, documents, kustomized

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HELM: Final = ROOT / ".venv" / "helm"
VALUES: Final = Path(__file__).with_name("values")
# The sets that make what kustomize builds, each with the components that it is built with.
AS_KUSTOMIZE: Final[Mapping[str, Sequence[str]]] = {"02-kustomize": (), "13-directories": ("directories",)}
_WARNING: Final = 2
_CONFINED: Final = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
# What a person may get wrong, each with what the refusal must say.
REFUSED: Final[Sequence[tuple[Mapping[str, Any], str]]] = (
    ({"replica": 3}, "'replica' not allowed"),
    ({"image": {"repositry": "registry.example.com/postern"}}, "'repositry' not allowed"),
    ({"settings": {"POSTERN_BASE_ULR": "https://id.example.com"}}, "POSTERN_BASE_ULR"),
    ({"settings": {"POSTERN_BASE_URL": "id.example.com"}}, "POSTERN_BASE_URL"),
    ({"settings": {"POSTERN_ENCRYPTION_KEYS": "a:b"}}, "POSTERN_ENCRYPTION_KEYS"),
    ({"replicas": 0}, "replicas"),
    ({"image": {"digest": "0.1.0"}}, "digest"),
    ({"networkPolicy": {"from": []}}, "from"),
    ({"networkPolicy": {"directories": ["dc1.example.org"]}}, "directories"),
    ({"backups": {"schedule": "daily"}}, "schedule"),
    ({"trialDatabase": {"enabled": True}, "backups": {"enabled": True}}, "trialDatabase is for a trial, and has no backups"),
    ({"trialDatabase": {"enabled": True}, "secret": {"name": "mine"}}, "trialDatabase makes its own Secret"),
    ({"replicas": 3, "disruptionBudget": {"minAvailable": 3}}, "disruptionBudget.minAvailable must be below replicas"),
)


def main() -> int:
    faults = [*_linted(), *_rendered(), *_accepted()]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"The chart: {len(faults)} faults." if faults else "The chart is linted, renders, refuses, and is what kustomize builds.")
    return 1 if faults else 0


def _helm() -> Any:
    sys.path.insert(0, str(HELM))
    import helm_python  # type: ignore[import-not-found]  # noqa: PLC0415 - `make chart` installs it

    return helm_python


def render(values: Mapping[str, Any]) -> Sequence[Document]:
    """Raises the library's error for values that the schema or a template refuses."""
    with _helm().Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name="postern", namespace="postern")
    return [one for name, text in sorted(rendered.items()) if not name.endswith(".txt") for one in documents(text)]


def _linted() -> Sequence[str]:
    found = _helm().lint(str(CHART))
    return [*map(str, found["errors"]), *(f"lint: {one}" for one in found["messages"] if one["severity"] >= _WARNING)]


def _rendered() -> Sequence[str]:
    faults = []
    for file in sorted(VALUES.glob("*.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        try:
            made = render(values)
        except Exception as error:  # noqa: BLE001 - of a library; it is told with the others
            faults.append(f"{file.stem}: {error}")
            continue
        faults += [f"{file.stem}: {fault}" for one in made for fault in unfit(one)]
        if file.stem in AS_KUSTOMIZE:
            (image,) = {one["image"] for pod in pods(made) for one in pod["containers"]}
            beside = kustomized(AS_KUSTOMIZE[file.stem])
            faults += [f"{file.stem}, kustomize: {line}" for line in differences(made, beside, image=image)]
        print(f"{file.stem}: {len(made)} objects")
    return faults


def _accepted() -> Sequence[str]:
    """Values that ought to be refused, and are not, or not in words."""
    faults = []
    for values, words in REFUSED:
        try:
            render(values)
        except Exception as error:  # noqa: BLE001 - as above
            if words not in str(error):
                faults.append(f"{values} is refused without {words!r}: {error}")
        else:
            faults.append(f"{values} is not refused")
    return faults


def pods(made: Sequence[Document]) -> Sequence[Mapping[str, Any]]:
    return [spec for one in made if (spec := _pod(one)) is not None]


def _pod(one: Document) -> Mapping[str, Any] | None:
    spec: Any = one.get("spec") or {}
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod: Mapping[str, Any] | None = spec.get("template", {}).get("spec")
    return pod


def unfit(one: Document) -> Sequence[str]:
    """What no object of any release may be, in words."""
    named = f"{one['kind']} {one['metadata']['name']}"
    faults = [] if len(one["metadata"]["name"]) <= 63 else [f"{named}: the name is too long"]
    pod = _pod(one)
    if pod is None:
        return faults
    if pod.get("automountServiceAccountToken") is not False or pod.get("enableServiceLinks") is not False:
        faults.append(f"{named}: the pod gets a token or variables of the cluster")
    if not pod["securityContext"].get("runAsNonRoot"):
        faults.append(f"{named}: the pod may be root")
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        if container["securityContext"] != {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }:
            faults.append(f"{named}: the container {container['name']} may do more than it needs")
        if "memory" not in container["resources"].get("limits", {}):
            faults.append(f"{named}: the container {container['name']} has no limit of memory")
    return faults


if __name__ == "__main__":
    sys.exit(main())
