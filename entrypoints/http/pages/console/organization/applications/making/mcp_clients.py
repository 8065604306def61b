"""The redirect addresses of MCP clients that name themselves by no metadata document: each client's own, exactly as it publishes and sends
them. An application with these is public and installed on people's devices, so the ports of addresses on the device itself do not count.
"""

from collections.abc import Mapping, Sequence
from typing import Final

PUBLISHED: Final[Mapping[str, Sequence[str]]] = {
    "Cursor": (
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ),
    "VS Code": (
        "https://vscode.dev/redirect",
        "https://insiders.vscode.dev/redirect",
        "http://127.0.0.1:33418/",
        "http://127.0.0.1/",
    ),
    "Gemini CLI": ("http://localhost:7777/oauth/callback",),
    "mcp-remote": ("http://localhost:3334/oauth/callback",),
    # Its pages, and its command line.
    "MCP Inspector": ("http://localhost:6274/oauth/callback", "http://127.0.0.1:6276/oauth/callback"),
    "FastMCP": ("http://localhost/callback",),
}
REDIRECT_URIS: Final = tuple(address for addresses in PUBLISHED.values() for address in addresses)
