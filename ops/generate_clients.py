"""Makes clients of the OpenAPI document with the generators that people use, compiles them, and lints the document:

.venv/bin/python -m ops.generate_clients
.venv/bin/python -m ops.generate_clients --keep /var/tmp/clients    keeps the generators' packages for the next run
.venv/bin/python -m ops.generate_clients --write    writes what it found into docs/guides/programs/generated-clients.md, if all is good

Each line is one generator or linter. The status is 1 if a client lacks operations or does not compile, or if a linter finds an error. The
packages come from where pip and npm are set up to fetch them, and Java runs one of them. They are large, so CI does not run this.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.frozen import Frozen
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.routes import ROUTES
from ops.guides.pages import ROOT
from ops.guides.trying import node_packages, python_packages

PYTHON_PACKAGES: Final = (
    "openapi-generator-cli==7.26.0",
    "openapi-python-client==0.29.1",
    # openapi-python-client formats with ruff. The others are what the clients import.
    "ruff==0.17.6",
    "pydantic==2.14.4",
    "python-dateutil==2.9.0.post0",
    "urllib3==2.7.0",
)
NODE_PACKAGES: Final = (
    "@hey-api/openapi-ts@0.95.0",
    "@redocly/cli@2.77.0",
    "@stoplight/spectral-cli@6.16.3",
    "openapi-typescript@7.13.0",
    "typescript@5.9.3",
)
DOCUMENT: Final = "openapi.json"
GUIDE: Final = ROOT / "docs" / "guides" / "programs" / "generated-clients.md"
_PACKAGES: Final[Mapping[str, str]] = {
    "openapi-generator python": "openapi-generator-cli",
    "openapi-generator typescript-fetch": "openapi-generator-cli",
    "openapi-python-client": "openapi-python-client",
    "openapi-typescript": "openapi-typescript",
    "@hey-api/openapi-ts": "@hey-api/openapi-ts",
    "Spectral": "@stoplight/spectral-cli",
    "Redocly": "@redocly/cli",
}
"""The package of each generator and linter, whose version the guide shows."""
_LINTED: Final[Mapping[str, str]] = {"Spectral": " by `spectral:oas`", "Redocly": " by `recommended`"}
_CONFIGURATIONS: Final[Mapping[str, str]] = {
    "spectral.yaml": 'extends: ["spectral:oas"]\n',
    "redocly.yaml": "extends:\n  - recommended\n",
}
_IMPORT_ALL: Final = (
    "import importlib, pkgutil, sys; sys.path.insert(0, {parent!r}); root = importlib.import_module({name!r});"
    " [importlib.import_module(one.name) for one in pkgutil.walk_packages(root.__path__, root.__name__ + '.')]"
)
_TSC: Final = (
    *("tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"),
    *("--lib", "es2022,dom,dom.iterable"),
)
_PATIENCE: Final = 600.0


class Failed(Exception):
    """A generator or linter that fails. The text is the end of its output."""


class Generator(Frozen, kw_only=True):
    """A generator, and how its client is compiled."""

    name: str
    command: Sequence[str]
    """The command that writes the client into the directory or file `client`."""
    client: str
    compiled: Sequence[str]
    """The command that compiles the client."""
    lacks: frozenset[str] = frozenset()
    """Operations that the generator cannot make a call of."""


class Linter(Frozen, kw_only=True):
    name: str
    command: Sequence[str]
    """The command that writes its findings as JSON."""
    count: Callable[[Any], tuple[int, int]]
    """The numbers of errors and warnings in that JSON."""


def _generated(language: str, client: str) -> tuple[str, ...]:
    return ("openapi-generator-cli", "generate", "-g", language, "-i", DOCUMENT, "-o", client)


def _imported(parent: str, name: str) -> tuple[str, ...]:
    return ("python", "-c", _IMPORT_ALL.format(parent=parent, name=name))


GENERATORS: Final = (
    Generator(
        name="openapi-generator python",
        command=_generated("python", "generator"),
        client="generator/openapi_client",
        compiled=_imported("generator", "openapi_client"),
    ),
    Generator(
        name="openapi-generator typescript-fetch",
        command=_generated("typescript-fetch", "fetch"),
        client="fetch",
        compiled=(*_TSC, "fetch/index.ts"),
    ),
    Generator(
        name="openapi-python-client",
        command=("openapi-python-client", "generate", "--path", DOCUMENT, "--output-path", "client", "--meta", "none"),
        client="client",
        compiled=_imported(".", "client"),
        # It knows no body of a picture or of XML.
        lacks=frozenset(
            (
                *("set_picture", "upload_logo", "upload_dark_logo", "upload_favicon", "upload_background", "upload_service_logo"),
                *("upload_saml_metadata", "upload_upstream_provider_metadata"),
            )
        ),
    ),
    Generator(
        name="openapi-typescript",
        command=("openapi-typescript", DOCUMENT, "-o", "schema.ts"),
        client="schema.ts",
        compiled=(*_TSC, "schema.ts"),
    ),
    Generator(
        name="@hey-api/openapi-ts",
        command=("openapi-ts", "-i", DOCUMENT, "-o", "hey", "-c", "@hey-api/client-fetch"),
        client="hey",
        compiled=(*_TSC, "hey/index.ts"),
    ),
)
LINTERS: Final = (
    Linter(
        name="Spectral",
        command=("spectral", "lint", DOCUMENT, "--ruleset", "spectral.yaml", "--format", "json", "--quiet"),
        count=lambda found: (sum(one["severity"] == 0 for one in found), sum(one["severity"] == 1 for one in found)),
    ),
    Linter(
        name="Redocly",
        command=("redocly", "lint", "--config", "redocly.yaml", "--format", "json", DOCUMENT),
        count=lambda found: (found["totals"]["errors"], found["totals"]["warnings"]),
    ),
)


class Workshop:
    """A directory with the document, and the generators beside it."""

    def __init__(self, place: Path, installed: Path, document: Mapping[str, Any]) -> None:
        self._place = place
        self._programs = os.pathsep.join((str(installed / "bin"), str(installed / "node_modules" / ".bin"), os.environ["PATH"]))
        self.operations = {one["operationId"] for methods in document["paths"].values() for one in methods.values()}
        (place / DOCUMENT).write_text(json.dumps(document))
        for name, text in _CONFIGURATIONS.items():
            (place / name).write_text(text)

    def generate(self, one: Generator) -> str:
        self._run(one.command)
        lacking = self.operations - named_in(self._place / one.client, self.operations)
        if lacking != one.lacks:
            raise Failed(f"lacks {', '.join(sorted(lacking)) or 'nothing, against what is expected'}")
        self._run(one.compiled)
        return f"{len(self.operations) - len(lacking)} of {len(self.operations)} operations, compiles"

    def lint(self, one: Linter) -> str:
        errors, warnings = one.count(json.loads(self._run(one.command, may_fail=True)))
        if errors:
            raise Failed(f"{errors} errors")
        return f"0 errors, {warnings} warnings"

    def _run(self, command: Sequence[str], *, may_fail: bool = False) -> str:
        variables = {**os.environ, "PATH": self._programs, "HOME": str(self._place)}
        done = subprocess.run(command, cwd=self._place, env=variables, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        if done.returncode and not may_fail:
            raise Failed(f"{command[0]}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout


def named_in(client: Path, operations: set[str]) -> set[str]:
    """The operations that a client has a name for, in the style of any language."""
    files = [client] if client.is_file() else [file for file in client.rglob("*") if file.suffix in {".py", ".ts"}]
    words = {word for file in files for word in (file.stem, *re.findall(r"\w+", file.read_text()))}
    styles = {word.replace("_", "").lower() for word in words}
    return {name for name in operations if name.replace("_", "") in styles}


def outcomes(workshop: Workshop, generators: Sequence[Generator], linters: Sequence[Linter]) -> Iterator[tuple[str, str, bool]]:
    """The name of each generator and linter, the outcome in words, and whether it is good."""
    attempts: list[tuple[str, Callable[[], str]]] = [(one.name, partial(workshop.generate, one)) for one in generators]
    attempts += [(one.name, partial(workshop.lint, one)) for one in linters]
    for name, attempt in attempts:
        try:
            yield name, attempt(), True
        except Failed as failure:
            yield name, str(failure), False


def document() -> dict[str, Any]:
    return openapi.document([*ROUTES, *PAGES], base_url="https://id.example.org", version="1.0.0")


def written(guide: str, told: Sequence[tuple[str, str]], operations: int, day: str) -> str:
    """The guide with these outcomes, by the names of generators and linters."""
    before, _, rest = guide.partition("**Tested** on ")
    packages = dict(
        package.rsplit(separator, 1) for separator, names in (("==", PYTHON_PACKAGES), ("@", NODE_PACKAGES)) for package in names
    )
    lines = [
        f"**Tested** on {day} by `python -m ops.generate_clients`, which writes this table, with the document of all {operations}",
        f"operations. TypeScript is {packages['typescript']}, with `--strict`; each module of a Python client is imported.",
        "",
        "| generator or linter | version | outcome |",
        "|---|---|---|",
        *(f"| {name} | {packages[_PACKAGES[name]]} | {outcome}{_LINTED.get(name, '')} |" for name, outcome in told),
    ]
    # The table ends the part; a paragraph follows.
    _, table, after = rest.rpartition(" |\n\n")
    return f"{before}{chr(10).join(lines)}\n\n{after}" if table else f"{before}{chr(10).join(lines)}\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="ops.generate_clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the generators' packages stay for the next run")
    parser.add_argument("--write", action="store_true", help="write the guide's table")
    given = parser.parse_args()
    told: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="postern-clients-", ignore_cleanup_errors=True) as temporary:
        installed = (given.keep or Path(temporary) / "packages").resolve()
        python_packages(installed, PYTHON_PACKAGES)
        node_packages(installed, NODE_PACKAGES)
        place = Path(temporary) / "clients"
        place.mkdir()
        good, workshop = True, Workshop(place, installed, document())
        for name, outcome, is_good in outcomes(workshop, GENERATORS, LINTERS):
            print(f"{'ok ' if is_good else 'NOT'}  {name}: {outcome}", flush=True)
            told.append((name, outcome))
            good = good and is_good
    if good and given.write:
        GUIDE.write_text(written(GUIDE.read_text(), told, len(workshop.operations), datetime.now(tz=UTC).date().isoformat()))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
