"""Finds the route of a path. A path without parameters is looked up in a dict. Other paths are matched by a tree of segments."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from entrypoints.http.machinery.endpoints import InvalidDeclaration, parameters

Target = TypeVar("Target")

_NO_VALUES: Final[dict[str, str]] = {}


class Route(Generic[Target]):
    """One path template, with a target for each method."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.parameters = parameters(template)
        self.targets: dict[str, Target] = {}
        self.allowed: tuple[str, ...] = ()

    def add(self, method: str, target: Target) -> None:
        self.targets[method] = target
        if method == "GET":
            self.targets["HEAD"] = target
        self.allowed = (*sorted(self.targets), "OPTIONS")


class _Node(Generic[Target]):
    def __init__(self) -> None:
        self.literals: dict[str, _Node[Target]] = {}
        self.parameter: _Node[Target] | None = None
        self.route: Route[Target] | None = None


class Router(Generic[Target]):
    """Splits the raw path into segments, and percent-decodes each segment afterwards. So an encoded slash is part of a segment and never
    divides two segments.
    """

    def __init__(self, targets: Iterable[tuple[str, str, Target]]) -> None:
        self._routes: dict[str, Route[Target]] = {}
        self._fixed: dict[bytes, Route[Target]] = {}
        self._root: _Node[Target] = _Node()
        for method, template, target in targets:
            self._route(template).add(method, target)

    def find(self, path: bytes) -> tuple[Route[Target] | None, dict[str, str]]:
        """The route of a raw path, with the values of its parameters."""
        route = self._fixed.get(path)
        if route is not None:
            return route, _NO_VALUES
        segments = _segments(path)
        if segments is None:
            return None, _NO_VALUES
        values: list[str] = []
        route = _walk(self._root, segments, 0, values)
        return route, dict(zip(route.parameters, values, strict=True)) if route is not None else _NO_VALUES

    def _route(self, template: str) -> Route[Target]:
        node = self._root
        for segment in template[1:].split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        if node.route is None:
            node.route = Route(template)
            if not node.route.parameters:
                self._fixed[template.encode()] = node.route
        if node.route.template != template:
            raise InvalidDeclaration(f"{template} and {node.route.template} are the same path: their parameters must have the same names")
        return node.route


def _segments(path: bytes) -> list[str] | None:
    """None for a path that no route can match: it is not UTF-8, or contains a NUL."""
    if path.startswith((b"http://", b"https://")):
        # The absolute form (RFC 9112 section 3.2.2), which clients send to proxies. A server must accept this form, too.
        path = b"/" + path.split(b"/", 3)[-1] if path.count(b"/") > 2 else b"/"
    if not path.startswith(b"/"):
        return None
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in path[1:].split(b"/")]
    except UnicodeDecodeError:
        return None
    return None if any("\x00" in segment for segment in segments) else segments


def _walk(node: _Node[Target], segments: list[str], at: int, values: list[str]) -> Route[Target] | None:
    if at == len(segments):
        return node.route
    segment = segments[at]
    literal = node.literals.get(segment)
    if literal is not None:
        route = _walk(literal, segments, at + 1, values)
        if route is not None:
            return route
    if node.parameter is None or not segment:
        return None
    values.append(segment)
    route = _walk(node.parameter, segments, at + 1, values)
    if route is None:
        values.pop()
    return route
