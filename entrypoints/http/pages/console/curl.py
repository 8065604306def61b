"""The call of the API that does the same as a page, as a line for a shell."""

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.navigation import address


def curl(base_url: str, endpoint: Endpoint, path: Mapping[str, object], *, body: Any = None, query: Mapping[str, Any] | None = None) -> str:
    """`path` has the values of the endpoint's path. A secret is never among the values: its place says what belongs there."""
    asked = f"?{urlencode(query)}" if query else ""
    parts = ["curl"]
    if endpoint.method != "GET":
        parts.append(f"-X {endpoint.method}")
    parts += ['-H "Authorization: Bearer $TOKEN"']
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
    parts.append(shlex.quote(f"{base_url}{address(endpoint.path, path)}{asked}"))
    return " \\\n  ".join(parts)
