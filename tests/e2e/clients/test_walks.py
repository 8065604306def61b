"""Programs that use the clients, as people write them: their types are checked strictly, and they run against a real server."""

import sys
from pathlib import Path

import pytest

from tests.e2e.clients.conftest import MadeClients
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern
from tests.places import ROOT
from tests.tools import needs

TSC = ROOT / ".venv" / "typescript" / "node_modules" / "typescript" / "bin" / "tsc"
# As the strictest projects have it. The declarations of the package are checked, too.
STRICTLY = (
    *("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noImplicitOverride"),
    *("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"),
)
needs_typescript = pytest.mark.skipif(not TSC.exists(), reason="make .venv/ready-typescript installs the compiler, by npm")


def arguments(running: Postern, installation: Installation) -> tuple[str, str, str]:
    return f"http://127.0.0.1:{running.port}", "owner@postern.local", installation.owner_password


def mypy(clients: MadeClients, *what: str) -> None:
    options = ("--strict", "--config-file=", "--cache-dir", str(clients.folder / "mypy"), "--no-error-summary")
    clients.run(sys.executable, "-m", "mypy", *options, *what, MYPYPATH=str(clients.python))


@pytest.mark.parametrize("program", ["walk.py", "walk_asynchronously.py"])
def test_a_program_in_python_has_sound_types_and_walks(
    clients: MadeClients, running: Postern, installation: Installation, program: str
) -> None:
    # The whole package, and not what the program imports of it.
    mypy(clients, *sorted(map(str, (clients.python / "postern_client").glob("*.py"))), program)
    assert clients.run(sys.executable, program, *arguments(running, installation)) == "walked\n"


@needs("node")
@needs_typescript
def test_a_program_in_typescript_has_sound_types_and_walks(clients: MadeClients, running: Postern, installation: Installation) -> None:
    clients.run("node", TSC, *STRICTLY, "walk.ts")
    assert clients.run("node", "walk.js", *arguments(running, installation)) == "walked\n"


@needs("node")
@needs_typescript
def test_the_compiler_finds_what_is_wrong(clients: MadeClients) -> None:
    wrong = Path(clients.folder, "wrong.ts")
    wrong.write_text('import { Postern } from "@postern/client"\nawait new Postern("").createTeam("acme", { slug: 1, name: "Support" })\n')
    with pytest.raises(AssertionError, match="'number' is not assignable to type 'string'"):
        clients.run("node", TSC, "--noEmit", *STRICTLY, "wrong.ts")


def test_mypy_finds_what_is_wrong(clients: MadeClients) -> None:
    wrong = Path(clients.folder, "wrong.py")
    wrong.write_text('from postern_client import Postern\n\nPostern("").create_team("acme", slug=1, name="Support")\n')
    with pytest.raises(AssertionError, match='incompatible type "int"; expected "str"'):
        mypy(clients, "wrong.py")
