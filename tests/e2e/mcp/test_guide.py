"""The guide names the versions that are tried, and its programs can be read."""

import json
import re

from tests.e2e.mcp.conftest import GUARDS, PAGE
from tests.places import ROOT


def test_the_guide_names_the_versions_that_are_tried() -> None:
    tried = PAGE.text[PAGE.text.index("**Tried**") : PAGE.text.index("## In Postern")]
    pinned = json.loads((GUARDS / "package.json").read_text())["dependencies"]
    (python,) = re.findall(r"^mcp==(\S+)", (ROOT / "ops/requirements-frameworks.lock").read_text(), re.MULTILINE)
    assert f"mcp {python} " in tried
    for name in ("@modelcontextprotocol/sdk", "@modelcontextprotocol/client"):
        assert f"{name} {pinned[name]}" in " ".join(tried.split())


def test_the_programs_can_be_read_and_check_what_the_guide_promises() -> None:
    files = PAGE.files()
    assert set(files) == {"server.py", "server.mjs", "client.py", "client.mjs"}
    for name in ("server.py", "client.py"):
        compile(files[name], name, "exec")
    exported = set(re.findall(r"^export (\w+)=", PAGE.shell(), re.MULTILINE))
    assert {"RESOURCE_ID", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "ASSISTANT_ID"} <= exported
