"""The tools: each reading operation of the OpenAPI document is one, and `plan` proposes a configuration document."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from core.frozen import Frozen, field
from entrypoints.cli.mcp.asking import MOST_BYTES, Marker, NotReached, ProductAnswer, ProductClient, unmarked

PLAN: Final = "plan"
_ORGANIZATION: Final = "org_slug"
_OF_ORGANIZATIONS: Final = "/api/organizations"
_OF_PLATFORM: Final = "/api/platform"
_PROPOSALS: Final = f"{_OF_ORGANIZATIONS}/{{{_ORGANIZATION}}}/proposals"
_LONGEST: Final = 200
_DEEPEST: Final = 6
# Of arguments. No document has so many levels, and Python bears some hundreds.
_MOST_LEVELS: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BEGINNING: Final = 12
"""So many characters of the digest are the name of the proposal on its page."""
_LINK: Final = re.compile(r"https?://[a-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?/ui/o/[a-z0-9-]+/settings/proposals/[0-9a-f-]{36}")
_NOTHING: Final[Mapping[str, Any]] = {}
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class ToolMistake(Exception):
    """Nothing was read. `texts` say why."""

    def __init__(self, *texts: str) -> None:
        super().__init__(texts[0])
        self.texts = texts


class Tool(Frozen, kw_only=True):
    name: str
    title: str
    description: str
    path: str
    in_path: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The schemas of what a call takes, by name."""
    required: frozenset[str] = frozenset()

    def record(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": dict(self.parameters),
                "required": sorted(self.required),
                "additionalProperties": False,
            },
            "annotations": {"title": self.title, "readOnlyHint": self.name != PLAN, "destructiveHint": False, "openWorldHint": False},
        }


class Tools:
    """With an organization, the tools are those of this one alone. They are made of the description that the product gives of itself."""

    def __init__(self, asking: ProductClient, organization: str | None) -> None:
        self._asking = asking
        self._organization = organization
        self._tools: dict[str, Tool] = {}
        self._words: frozenset[str] = frozenset()

    def list(self) -> Sequence[Mapping[str, Any]]:
        """Raises `ToolMistake` if the product does not answer."""
        self._learn()
        return [one.record() for one in self._tools.values()]

    def find(self, name: str) -> Tool:
        """Raises `ToolMistake`."""
        self._learn()
        if name not in self._tools:
            raise ToolMistake(f"There is no tool {name[:100]!r}: tools/list has all of them")
        return self._tools[name]

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Raises `ToolMistake`."""
        _require_sayable(arguments)
        given = unmarked(arguments)
        _require_fit(tool, given)
        if self._organization is not None:
            given = {**given, _ORGANIZATION: self._organization}
        path = tool.path
        for name in tool.in_path:
            path = path.replace(f"{{{name}}}", _step(name, given[name]))
        marker = Marker(self._words)
        if tool.name == PLAN:
            return self._proposed(self._asked(marker, path, body={"document": given["document"]}), marker)
        query = {name: _plainly(value) for name, value in given.items() if name not in tool.in_path and value is not None}
        told = self._asked(marker, path, query=query)
        return [marker.notice(f"{tool.name} has answered."), _marked(marker, told.body)]

    def _proposed(self, told: ProductAnswer, marker: Marker) -> Sequence[str]:
        link = told.body.get("url")
        if not isinstance(link, str) or not _LINK.fullmatch(link):
            raise ToolMistake("The answer has no link to the proposal")
        digest = told.body.get("digest")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ToolMistake("The answer has no digest of the plan")
        about = (
            f"Nothing is changed. This is the proposal {digest[:_BEGINNING]} until {told.body['expires_at']}. An owner of the organization"
            f" sees it by this name and applies it here, and nobody applies it anywhere else: {link}"
        )
        # Its own digest is that of the document, and the page shows the one above.
        plan = _marked(marker, {name: value for name, value in told.body["plan"].items() if name != "digest"})
        if len(plan) > MOST_BYTES:
            return [about, f"The plan has more than {MOST_BYTES >> 10} KiB, so it stands on that page alone."]
        return [about, marker.notice("This is what it would change."), plan]

    def _asked(self, marker: Marker, path: str, *, query: Mapping[str, Any] = _NOTHING, body: Any = None) -> ProductAnswer:
        try:
            told = self._asking.get(path, query) if body is None else self._asking.post(path, body)
        except NotReached as failure:
            raise ToolMistake(str(failure)) from None
        if told.is_too_large:
            raise ToolMistake(f"The answer has more than {MOST_BYTES >> 10} KiB: ask for less, by `limit` or by a filter")
        if told.status in {200, 201} and told.body is not None:
            return told
        raise _refusal(told, marker)

    def _learn(self) -> None:
        if self._tools:
            return
        try:
            description = self._asking.description()
        except NotReached as failure:
            raise ToolMistake(str(failure)) from None
        schemas = description.get("components", {}).get("schemas", {})
        self._words = frozenset(_words(schemas)) | {"error", "error_code", "timestamp"}
        tools = [
            self._tool(path, operation, schemas)
            for path, operations in description.get("paths", {}).items()
            if (operation := operations.get("get")) is not None and self._is_ours(path, operation)
        ]
        if self._asking.opens_organization:
            tools.append(self._plan())
        self._tools = {one.name: one for one in tools}

    def _is_ours(self, path: str, operation: Mapping[str, Any]) -> bool:
        """A reading operation of the administration that this key or token opens. What a person has of their own, and what services ask
        with keys of theirs, is none.
        """
        is_of_organization = path.startswith(f"{_OF_ORGANIZATIONS}/{{{_ORGANIZATION}}}")
        if self._organization is not None and not is_of_organization:
            return False
        if self._asking.is_key and "x-management-key" not in operation:
            return False
        if path.startswith(_OF_PLATFORM):
            is_open = self._asking.opens_platform
        else:
            is_open = path.startswith(_OF_ORGANIZATIONS) and self._asking.opens_organization
        return is_open and "application/json" in operation["responses"].get("200", {}).get("content", {})

    def _tool(self, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Tool:
        taken = [one for one in operation.get("parameters", ()) if one["in"] != "header"]
        asked = [one for one in taken if not (self._organization is not None and one["name"] == _ORGANIZATION)]
        return Tool(
            name=operation["operationId"],
            title=operation["summary"],
            description="\n\n".join(filter(None, (f"{operation['summary']}.", operation.get("description")))),
            path=path,
            in_path=tuple(one["name"] for one in taken if one["in"] == "path"),
            parameters={
                one["name"]: {**_inlined(one["schema"], schemas), **({"description": one["description"]} if "description" in one else {})}
                for one in asked
            },
            required=frozenset(one["name"] for one in asked if one.get("required")),
        )

    def _plan(self) -> Tool:
        named = (_ORGANIZATION,) if self._organization is None else ()
        return Tool(
            name=PLAN,
            title="Propose a configuration document to the owner",
            description=(
                "Changes nothing. Plans a configuration document of one organization and gives a link, on which an owner sees the plan and"
                " applies exactly it, or does not. Show the link to the person whom you work for. The tool `get_organization_configuration`"
                " shows the form of a document. What the document leaves out stays as it is. It holds no secrets."
            ),
            path=_PROPOSALS,
            in_path=(_ORGANIZATION,),
            parameters={
                **{name: {"type": "string", "description": "The organization's slug."} for name in named},
                "document": {"type": "object", "description": 'The document: {"postern": 1, "organizations": {"<slug>": {…}}}'},
            },
            required=frozenset({*named, "document"}),
        )


def _require_sayable(arguments: Mapping[str, Any]) -> None:
    """Half a character is no text, and what is nested without end is no document. Both can be written in JSON."""
    level: list[Any] = [arguments]
    for _ in range(_MOST_LEVELS):
        if any(isinstance(one, str) and not _is_whole(one) for one in level):
            raise ToolMistake("The arguments have half of a character, such as \\ud800 alone")
        level = [part for one in level for part in _parts(one)]
        if not level:
            return
    raise ToolMistake(f"The arguments are nested more than {_MOST_LEVELS} levels deep")


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in text)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    return value if isinstance(value, list) else ()


def _marked(marker: Marker, answer: Any) -> str:
    try:
        return marker.marked(answer)
    except RecursionError:
        raise ToolMistake("The answer is nested too deep") from None


def _require_fit(tool: Tool, given: Mapping[str, Any]) -> None:
    if unknown := sorted(given.keys() - tool.parameters.keys()):
        known = ", ".join(sorted(tool.parameters)) or "nothing"
        raise ToolMistake(f"{tool.name} takes no {unknown[0][:100]!r}; it takes {known}")
    if missing := sorted(name for name in tool.required if given.get(name) is None):
        raise ToolMistake(f"{tool.name} needs {', '.join(missing)}")
    for name, value in given.items():
        wanted = _types(tool.parameters[name])
        if value is not None and wanted and not any(_is_of(value, one) for one in wanted):
            raise ToolMistake(f"{name} must be of the type {' or '.join(wanted)}")


def _is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, object))


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    """The types that a schema names; empty if it takes anything."""
    if "anyOf" in schema:
        return [one for part in schema["anyOf"] for one in _types(part) if one != "null"]
    named = schema.get("type")
    return [named] if isinstance(named, str) else []


def _step(name: str, value: Any) -> str:
    """A value in a path. It stays one step of it."""
    text = str(value)
    if not 1 <= len(text) <= _LONGEST or text in {".", ".."}:
        raise ToolMistake(f"{name} has 1 to {_LONGEST} characters, and is no step upwards")
    return quote(text, safe="")


def _plainly(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [_plainly(one) for one in value] if isinstance(value, list) else value


def _refusal(told: ProductAnswer, marker: Marker) -> ToolMistake:
    if told.status in {301, 302, 303, 307, 308}:
        return ToolMistake("Postern answers from another address: give that one as --url. The key was not sent there")
    body = told.body if isinstance(told.body, dict) else {}
    code = body.get("error_code")
    about = f"Refused with status {told.status}" + (f", {code}" if isinstance(code, str) and re.fullmatch(r"[A-Z_]{1,60}", code) else "")
    if told.status == 401:
        about += ": the key or the token is wrong, has ended, or has expired"
    if told.status == 403:
        about += ": the key or the person may not read this"
    if told.retry_after.isdigit():
        about += f". Ask again in {told.retry_after} seconds"
    message = body.get("error")
    return ToolMistake(f"{about}.", *([marker.notice("The reason follows."), marker.text(message)] if isinstance(message, str) else []))


def _words(schema: Any) -> Iterator[str]:
    """The names of fields and the values of enumerations."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties
        yield from (one for one in schema.get("enum", ()) if isinstance(one, str))
        for name, part in schema.items():
            if name not in {"example", "examples", "description"}:
                yield from _words(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _words(part)


def _inlined(schema: Any, schemas: Mapping[str, Any], depth: int = 0) -> Any:
    """The schema without references: a client of MCP does not know the document that they lead to."""
    if isinstance(schema, list):
        return [_inlined(one, schemas, depth) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and depth < _DEEPEST:
        return _inlined(schemas.get(schema["$ref"].rpartition("/")[2], {}), schemas, depth + 1)
    return {name: _inlined(one, schemas, depth) for name, one in schema.items() if name not in {"$ref", "examples", "example"}}
