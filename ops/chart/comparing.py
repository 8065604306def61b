"""Compares what Helm renders with the files that kustomize builds: both must run the same."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

KUBERNETES: Final = Path(__file__).resolve().parent.parent / "kubernetes"
CHART: Final = KUBERNETES / "chart"
# What kustomize has, and no release of Helm: the namespace is made by whoever installs.
_NOT_IN_CHART: Final = frozenset({"Namespace"})
# What only Helm says of its objects, and what a digest of the settings makes anew.
_OF_HELM: Final = frozenset({"app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "helm.sh/chart"})
_OF_CHART: Final = frozenset({"checksum/settings", "helm.sh/resource-policy"})

Document = Mapping[str, Any]


def kustomized(components: Sequence[str] = ()) -> Sequence[Document]:
    """The documents of the kustomizations, with their migration and backups, as they stand in the files and as these components change
    them.
    """
    folders = [KUBERNETES, KUBERNETES / "migration", KUBERNETES / "backups"]
    found = []
    for folder in folders:
        named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
        found += [one for name in named for one in documents((folder / name).read_text(encoding="utf-8"))]
    there = [one for one in found if one["kind"] not in _NOT_IN_CHART]
    for name in components:
        component = yaml.safe_load((KUBERNETES / name / "kustomization.yaml").read_text(encoding="utf-8"))
        for patch in component["patches"]:
            there = [_patched(one, patch) for one in there]
    return there


def _patched(one: Document, patch: Mapping[str, Any]) -> Document:
    """As kustomize applies the patches that we write: each adds one more entry to a list."""
    target = patch["target"]
    if (one["kind"], one["metadata"]["name"]) != (target["kind"], target["name"]):
        return one
    made = deepcopy(dict(one))
    for operation in yaml.safe_load(patch["patch"]):
        steps = operation["path"].strip("/").split("/")
        if operation["op"] != "add" or steps[-1] != "-":
            raise ValueError(f"No patch of ours does this yet: {operation}")
        within: Any = made
        for step in steps[:-1]:
            within = within[step]
        within.append(operation["value"])
    return made


def documents(text: str) -> Iterator[Document]:
    yield from (one for one in yaml.safe_load_all(text) if one)


def differences(chart: Sequence[Document], kustomize: Sequence[Document], *, image: str) -> Sequence[str]:
    """In words, each difference that is not Helm's own. `image` is what the chart's pods run."""
    ours, theirs = _by_name(chart, image), _by_name(kustomize, image)
    missing = [f"the chart lacks {kind} {name}" for kind, name in sorted(theirs.keys() - ours.keys())]
    more = [f"only the chart has {kind} {name}" for kind, name in sorted(ours.keys() - theirs.keys())]
    both = [f"{' '.join(key)}{line}" for key in sorted(ours.keys() & theirs.keys()) for line in _unlike(ours[key], theirs[key])]
    return [*missing, *more, *both]


def _by_name(found: Sequence[Document], image: str) -> Mapping[tuple[str, str], Any]:
    return {(one["kind"], _name(one)): _plain(one, image) for one in found}


def _name(one: Document) -> str:
    """The name of a Job has the release's number in the chart, since a Job cannot be changed."""
    return str(one["metadata"]["name"]).removesuffix("-1") if one["kind"] == "Job" else str(one["metadata"]["name"])


def _plain(value: Any, image: str, within: str = "") -> Any:
    if isinstance(value, Mapping):
        left = {
            name: _plain(one, image, name)
            for name, one in value.items()
            if name not in {*_OF_HELM, *_OF_CHART, "namespace", "imagePullPolicy"} and not (within == "metadata" and name == "name")
        }
        return {name: one for name, one in left.items() if one != {} or name in {"emptyDir", "egress", "metadata"}}
    if isinstance(value, list):
        return [_plain(one, image) for one in value]
    return "postern" if within == "image" and value == image else value


def _unlike(ours: Any, theirs: Any, at: str = "") -> Iterator[str]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in theirs and (at, name) == (".metadata", "labels"):
                continue  # kustomize labels what has selectors, and the chart all
            if name not in theirs:
                yield f"{at}.{name}: only the chart has {ours[name]!r}"
            elif name not in ours:
                yield f"{at}.{name}: the chart lacks {theirs[name]!r}"
            else:
                yield from _unlike(ours[name], theirs[name], f"{at}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _unlike(one, other, f"{at}[{number}]")
    elif ours != theirs:
        yield f"{at}: the chart has {ours!r}, kustomize has {theirs!r}"
