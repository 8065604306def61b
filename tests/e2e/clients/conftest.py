"""The clients as they are released, made once for a run of the tests."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ops.clients.build import write_clients
from tests.patience import PATIENCE

PROGRAMS = Path(__file__).parent / "programs"
VERSION = "9.8.7"


@dataclass(frozen=True)
class MadeClients:
    folder: Path
    """Programs are copied here, and find the packages beside them."""

    @property
    def python(self) -> Path:
        return self.folder / "python"

    def run(self, *command: str | Path, given: str = "", **variables: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            input=given,
            env={**_environment(), "PYTHONPATH": str(self.python), **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _environment() -> Mapping[str, str]:
    # The checkout's own settings, and what measures coverage, are none of the client's business.
    return {name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "COV_", "PYTHON"))}


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> MadeClients:
    folder = tmp_path_factory.mktemp("clients")
    write_clients(folder, VERSION)
    (folder / "node_modules" / "@postern").mkdir(parents=True)
    (folder / "node_modules" / "@postern" / "client").symlink_to(folder / "typescript")
    (folder / "package.json").write_text('{"type": "module"}')
    for program in PROGRAMS.iterdir():
        if program.is_file():
            shutil.copy(program, folder)
    return MadeClients(folder)
