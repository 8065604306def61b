"""Programs of `programs` that Node runs, with the libraries that npm has installed."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ops.middleware.installed import INSTALLED
from tests.patience import PATIENCE

PROGRAMS: Final = Path(__file__).parent / "programs"


def with_packages(place: Path, program: str) -> Path:
    if not (place / "node_modules").exists():
        (place / "node_modules").symlink_to(INSTALLED / "node_modules")
    return Path(shutil.copy(PROGRAMS / program, place))


def run_in_node(place: Path, program: str, arguments: Sequence[str], arrive: Callable[[str], str]) -> str:
    """Runs a program that sends a person to an address, and reads where the person came to. Returns what it prints at its end."""
    with subprocess.Popen(
        ["node", with_packages(place, program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        came = arrive(running.stderr.readline().strip())
        told, wrong = running.communicate(f"{came}\n", timeout=PATIENCE)
        assert running.returncode == 0, wrong
    return told
