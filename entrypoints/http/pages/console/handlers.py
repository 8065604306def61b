"""Handlers that are made for a declaration. They state their types as handlers made by hand do."""

from typing import Any

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.pages.console.visit import Page


def stated(handler: Any, name: str, at: str, *, body: Any = None, query: Any = None) -> Any:
    """`at` is the template of the page's address: the endpoint that the page offers converts the values into its own types."""
    path: Any = msgspec.defstruct("ConsolePath", [(one, str) for one in parameters(at)], frozen=True)
    handler.__name__ = handler.__qualname__ = name.replace("-", "_")
    handler.__annotations__ = {"call": Call[body, query, path, Any], "postern": Postern, "return": Page}
    return handler
