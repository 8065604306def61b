"""The guide names the versions that are tried, and its programs can be read."""

import json
import re

from ops.middleware.clients_of_others import FASTMCP, INSPECTOR
from tests.e2e.mcp.conftest import GUARDS, PAGE
from tests.places import ROOT


def test_the_guide_names_the_versions_that_are_tried() -> None:
    tried = PAGE.text[PAGE.text.index("**Tested**") : PAGE.text.index("## Set up Postern")]
    pinned = json.loads((GUARDS / "package.json").read_text())["dependencies"]
    (python,) = re.findall(r"^mcp==(\S+)", (ROOT / "ops/requirements-frameworks.lock").read_text(), re.MULTILINE)
    assert f"mcp {python} " in tried
    told = " ".join(tried.split())
    for name in ("@modelcontextprotocol/sdk", "@modelcontextprotocol/client", "mcp-remote"):
        assert f"{name} {pinned[name]}" in told
    assert f"FastMCP {FASTMCP} " in told
    assert f"MCP Inspector {INSPECTOR}." in told


def test_the_programs_can_be_read_and_check_what_the_guide_promises() -> None:
    files = PAGE.files()
    assert set(files) == {"server.py", "server.mjs", "client.py", "client.mjs", "fastmcp_server.py", "fastmcp_client.py"}
    for name in ("server.py", "client.py", "fastmcp_server.py", "fastmcp_client.py"):
        compile(files[name], name, "exec")
    exported = set(re.findall(r"^export (\w+)=", PAGE.shell(), re.MULTILINE))
    assert {"RESOURCE_ID", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "ASSISTANT_ID"} <= exported
