"""What the programs of all frameworks run with. `make` installs it, by pip and npm, from our locks. Express is installed with all that the
tests need; what needs a bundler has a folder of its own, for `make frameworks`.
"""

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HERE: Final = Path(__file__).parent
QUICK: Final = ROOT / ".venv" / "starts"
NIGHTLY: Final = ROOT / ".venv" / "starts-nightly"
_PYTHON_LOCKS: Final = ("requirements-dev.lock", "ops/requirements-frameworks.lock")


def locked(framework: str) -> set[str]:
    """The packages of the lock that the program of a framework runs with."""
    if framework in {"flask", "fastapi", "django"}:
        locks = "\n".join((ROOT / name).read_text() for name in _PYTHON_LOCKS)
        return {name.lower() for name in re.findall(r"^([A-Za-z0-9._-]+)==", locks, re.MULTILINE)}
    lock = json.loads((HERE / ("express" if framework == "express" else "nightly") / "package-lock.json").read_text())
    return set(lock["packages"][""]["dependencies"])
