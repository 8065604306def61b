"""Runs the tests of the guards in every framework: `python -m ops.middleware`, or `make middleware`. npm installs what the lock says."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
INSTALLED: Final = ROOT / ".venv" / "frameworks-node"


def main() -> int:
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(Path(__file__).with_name(name), INSTALLED)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=INSTALLED, check=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/ops/middleware"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
