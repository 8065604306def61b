"""`postern files`: writes the alert rules, the dashboard or the runbook of this version, which an installed package has beside it."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from entrypoints.cli.output.printing import tell
from entrypoints.failures import OK, StartFailed
from entrypoints.shipped_files import INSTALLED, REPOSITORY

# The files of each kind, by their paths in the repository. `pyproject.toml` has the same among its `data-files`.
FILES: Final[Mapping[str, Sequence[str]]] = {
    "alerts": ("ops/prometheus/alerts.yaml", "ops/prometheus/service-levels.yaml"),
    "dashboard": ("ops/grafana/postern.json",),
    "runbook": (
        "docs/operations.md",
        "docs/operations/alerts.md",
        "docs/operations/backups.md",
        "docs/operations/database.md",
        "docs/operations/install.md",
        "docs/operations/monitoring.md",
        "docs/operations/organizations.md",
        "docs/operations/people.md",
        "docs/operations/upgrades-and-keys.md",
    ),
}


def place(path: str) -> str:
    """Where a file stands in the folder of the package, and in the one that it is written to. The runbook's pages stand below its index,
    which links to them.
    """
    return path.removeprefix("docs/") if path.startswith("docs/") else Path(path).name


def run(arguments: argparse.Namespace) -> int:
    written = [_write(_found(path), Path(arguments.to, place(path))) for path in FILES[arguments.kind]]
    tell([{"path": str(path)} for path in written], *map(str, written), as_json=arguments.json)
    return OK


def _found(path: str, repository: Path = REPOSITORY, installed: Sequence[Path] = INSTALLED) -> Path:
    for one in (repository / path, *(folder / place(path) for folder in installed)):
        if one.is_file():
            return one
    raise StartFailed(f"{Path(path).name} is neither in {installed[-1]} nor in a checkout: install the complete package")


def _write(source: Path, target: Path) -> Path:
    """Replaces the file of another version, and no folder. Raises `StartFailed`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    except OSError as error:
        raise StartFailed(f"{target} cannot be written: {error.strerror}") from None
    return target
