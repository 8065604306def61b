"""Runs the tests of the guards in every framework, of libraries that ask for tokens for an API, and of MCP in both SDKs:
`python -m ops.middleware`, or `make middleware`. npm installs what the lock says.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
INSTALLED: Final = ROOT / ".venv" / "frameworks-node"
TESTS: Final = ("tests/ops/middleware", "tests/e2e/relying/test_apis.py", "tests/e2e/mcp")


def main() -> int:
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(Path(__file__).with_name(name), INSTALLED)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=INSTALLED, check=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *TESTS], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
