"""The blocks of the guide work as they stand, one after the other: their types are sound, and a real server answers."""

import json
import re
import sys
from collections.abc import Mapping

import pytest

from tests.e2e.clients.conftest import MadeClients
from tests.e2e.clients.test_walks import STRICTLY, TSC, arguments, mypy, needs_typescript
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern
from tests.places import ROOT
from tests.tools import needs

GUIDE = (ROOT / "docs/guides/programs/clients.md").read_text()
READMES = {name: (ROOT / "ops/clients" / name / "README.md").read_text() for name in ("python", "typescript")}
PROCESS = "declare const process: { env: Record<string, string | undefined> }\n"
# What both say at last: one team and one member.
LAST = "1 1"


def blocks(text: str, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.fixture
def prepared(request: pytest.FixtureRequest, clients: MadeClients, running: Postern, installation: Installation) -> Mapping[str, str]:
    """The variables of the guide, with an organization for each language: a slug of a team is never used twice."""
    given = (*arguments(running, installation), request.param)
    made: dict[str, str] = json.loads(clients.run(sys.executable, "preparing.py", *given))
    return made


@pytest.mark.parametrize("prepared", ["acme"], indirect=True)
def test_the_lines_for_python_work(clients: MadeClients, prepared: Mapping[str, str]) -> None:
    (clients.folder / "guide.py").write_text(blocks(GUIDE, "python"))
    mypy(clients, "guide.py")
    shown = clients.run(sys.executable, "guide.py", **prepared)
    assert "There is such a team: " in shown
    assert shown.splitlines()[-2:] == ["False", LAST]


@pytest.mark.parametrize("prepared", ["acme-ts"], indirect=True)
@needs("node")
@needs_typescript
def test_the_lines_for_typescript_work(clients: MadeClients, prepared: Mapping[str, str]) -> None:
    (clients.folder / "guide.ts").write_text(PROCESS + blocks(GUIDE, "ts").replace('"acme"', '"acme-ts"'))
    clients.run("node", TSC, *STRICTLY, "guide.ts")
    shown = clients.run("node", "guide.js", **prepared)
    assert "There is such a team: " in shown
    assert shown.splitlines()[-2:] == ["false", LAST]


def test_the_lines_of_the_packages_have_sound_types(clients: MadeClients) -> None:
    (clients.folder / "readme.py").write_text(blocks(READMES["python"], "python"))
    mypy(clients, "readme.py")


@needs("node")
@needs_typescript
def test_the_lines_of_the_package_for_typescript_have_sound_types(clients: MadeClients) -> None:
    (clients.folder / "readme.ts").write_text(blocks(READMES["typescript"], "ts"))
    clients.run("node", TSC, "--noEmit", *STRICTLY, "readme.ts")
