"""`postern import … --clients`: the clients of another system as a configuration document. Nobody is imported."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from adapters.imports.files import ImportFiles
from adapters.imports.keycloak_realms import parts_of
from core.domain.platform.imports import auth0, keycloak_clients
from core.domain.platform.imports.clients import ForeignParts, document, lost_addresses
from entrypoints.cli.configuration.files import read_files
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import StartFailed

# The folders of an export of a0deploy as a directory, and where its YAML has the same.
_FOLDERS: Final[Mapping[str, str]] = {
    "clients/*.json": "clients",
    "roles/*.json": "roles",
    "connections/*.json": "connections",
    "database-connections/*/database.json": "databases",
    "resource-servers/*.json": "resourceServers",
    "actions/*.json": "actions",
    "rules/*.json": "rules",
    "hooks/*.json": "hooks",
}

_LONGEST_LINE: Final = 500


def write_clients(arguments: argparse.Namespace, asked: ImportFiles) -> None:
    """Raises `StartFailed`, `BadRequest` and `OSError`."""
    if not arguments.organization:
        raise StartFailed("--clients needs --organization: the services of the document are those of an organization")
    path, parts = Path(arguments.clients), foreign_parts(asked)
    lines, lost = list(document(arguments.organization, parts)), list(lost_addresses(parts))
    if not arguments.plan:
        try:
            with path.open("x", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)
        except FileExistsError:
            raise StartFailed(f"{path} is there already: name another file") from None
    if arguments.json:
        print_json({"file": str(path), "is_plan": arguments.plan, "clients": len(parts.clients), "lost_addresses": lost})
        return
    for line in lost_lines(lost):
        print(line)
    if arguments.plan:
        print(f"This was a plan: {path} would have {len(parts.clients)} clients.")
    else:
        print(f"{path} has the clients of {parts.system}. Nobody was imported. Read it, then: postern config plan {path}")


def foreign_parts(asked: ImportFiles) -> ForeignParts:
    """Raises `StartFailed`, `BadRequest` and `OSError`."""
    if asked.kind == "keycloak":
        return keycloak_clients.foreign_parts(parts_of(asked))
    return auth0.foreign_parts(_tenant(asked.files))


def lost_lines(lost: Sequence[str]) -> Iterator[str]:
    """For the terminal."""
    if lost:
        yield "Addresses of clients that no service gets:"
        yield from (f"  {printable(line, _LONGEST_LINE)}" for line in lost)


def _tenant(files: Sequence[Path]) -> Mapping[str, Any]:
    """What a0deploy wrote: its one YAML file, or its folder. Raises `StartFailed`."""
    if len(files) != 1:
        raise StartFailed("--clients reads one export of a0deploy: its tenant.yaml, or its folder")
    (path,) = files
    if path.is_dir():
        tenant: Mapping[str, Any] = {
            key: [read_files([str(one)]).tree for one in sorted(path.glob(pattern))] for pattern, key in _FOLDERS.items()
        }
    else:
        tenant = read_files([str(path)]).tree
    if not tenant.get("clients") and not tenant.get("roles") and not tenant.get("connections"):
        raise StartFailed(f"{path}: is no export of a0deploy: it has neither clients, nor roles, nor connections")
    return tenant
