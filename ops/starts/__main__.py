"""Runs the programs of all frameworks of the console and the guides: `python -m ops.starts`, or `make frameworks`. npm installs what the
lock says. The ordinary run of the tests has those that need no bundler.
"""

import json
import re
import shutil
import subprocess
import sys
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


def main() -> int:
    NIGHTLY.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(HERE / "nightly" / name, NIGHTLY)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=NIGHTLY, check=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/e2e/starts"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
