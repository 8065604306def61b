"""The modules of the Python client that come from the OpenAPI document."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from core.frozen import Frozen
from ops.clients.document import JSON, Description, Operation, Parameter, Schema, reference

PACKAGE: Final = "postern_client"
_HEAD: Final = '"""{}\n\nMade from the OpenAPI document."""\n\nfrom __future__ import annotations\n\n'
_FAILURES: Final = ("ApiError", "NotReached", "PosternError", "TimedOut", "UnexpectedAnswer")
_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TIMES: Final = {"date-time": "datetime", "date": "date"}
_WIDTH: Final = 120


def modules(description: Description, version: str) -> Mapping[str, str]:
    return {
        "__init__.py": _package(version),
        "types.py": _types(description),
        "errors.py": _errors(description),
        "client.py": _client(description, version),
    }


def spelled(schema: Schema) -> str:
    """A schema as an annotation."""
    if (name := reference(schema)) is not None:
        return name
    if "anyOf" in schema:
        # A set of alternatives reads best with None at the end, and each once: `float | int` is `float`.
        kinds = dict.fromkeys(kind for one in schema["anyOf"] for kind in spelled(one).split(" | "))
        if "float" in kinds:
            kinds.pop("int", None)
        return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))
    if "enum" in schema:
        return f"Literal[{', '.join(_quoted(one) if isinstance(one, str) else str(one) for one in schema['enum'])}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{spelled(schema['items'])}]"
    if kind == "object":
        return f"dict[str, {spelled(schema.get('additionalProperties', {}))}]"
    return _TIMES.get(schema.get("format", ""), _PLAIN.get(kind or "", "Any"))


def _package(version: str) -> str:
    return (
        '"""A client for Postern\'s API: `Postern` blocks, `AsyncPostern` is for asyncio and Trio."""\n\n'
        "from . import errors, types\nfrom .client import AsyncPostern, Postern\n"
        f"from .failures import {', '.join(_FAILURES)}\nfrom .records import UNSET, Unset\n\n"
        f'__version__ = "{version}"\n'
        f'__all__ = ["UNSET", "AsyncPostern", "Postern", "Unset", "errors", "types", {", ".join(map(_quoted, _FAILURES))}]\n'
    )


def _errors(description: Description) -> str:
    parts = [_HEAD.format("One class for each code of an error."), f"from .failures import {', '.join(_FAILURES)}\n\n"]
    names = {code: "".join(word.capitalize() for word in code.split("_")) for code in description.codes}
    parts += [f"\nclass {names[code]}(ApiError):\n{_docstring(told + '.', '', 4)}\n" for code, told in description.codes.items()]
    exported = "".join(f'    "{name}",\n' for name in sorted([*_FAILURES, *names.values()]))
    lines = "".join(f'    "{code}": {name},\n' for code, name in names.items())
    return "".join([*parts, f"\n__all__ = [\n{exported}]\nBY_CODE: dict[str, type[ApiError]] = {{\n{lines}}}\n"])


def _types(description: Description) -> str:
    parts = [
        _HEAD.format("The types of the API."),
        "from datetime import date, datetime\nfrom typing import Any, Literal, TypeAlias\n\nfrom .records import UNSET, Record, Unset\n\n",
        '__all__ = ["date", "datetime"]\n',
    ]
    enumerations = {name: schema for name, schema in description.types.items() if "enum" in schema}
    parts += [
        f"\n{name}: TypeAlias = {spelled(schema)}\n{_docstring(schema.get('description', ''), '', 0)}"
        for name, schema in enumerations.items()
    ]
    parts += ["\n" + _record(name, description) for name in _flattened(description) if name not in enumerations]
    return "".join(parts)


def _flattened(description: Description) -> Sequence[str]:
    """The types that remain: the fields of a body are arguments of the method, so the body's own type is needed only inside others."""
    bodies = {one.body.type for one in description.operations if one.body}
    schemas = [one.answer for one in description.operations if one.answer]
    schemas += [field.schema for name in description.types if "properties" in description.types[name] for field in description.fields(name)]
    inside = {name for schema in schemas for name in _names(schema)}
    return [name for name in description.types if name in inside or name not in bodies]


def _names(schema: Schema) -> Iterator[str]:
    if (name := reference(schema)) is not None:
        yield name
    inner = (schema.get("items"), schema.get("additionalProperties"))
    for one in (*schema.get("anyOf", ()), *(one for one in inner if isinstance(one, Mapping))):
        yield from _names(one)


def _record(name: str, description: Description) -> str:
    schema = description.types[name]
    lines = [f"class {name}(Record):\n{_docstring(schema.get('description', ''), '', 4)}\n"]
    is_sent = name in description.sent
    lines += [f"    {one.name}: {_annotated(one, sent=is_sent)}\n{_docstring(one.description, '', 4)}" for one in description.fields(name)]
    if schema.get("additionalProperties"):
        lines.append('    additional: dict[str, Any]\n    """The other fields."""\n')
    return "".join(lines) + "\n"


def _annotated(field: Parameter, *, sent: bool) -> str:
    kind = spelled(field.schema)
    if field.required:
        return kind
    if not sent or ("default" in field.schema and field.schema["default"] is None):
        return f"{kind if kind == 'Any' or kind.endswith('None') else f'{kind} | None'} = None"
    return f"{kind} | Unset = UNSET"


def _client(description: Description, version: str) -> str:
    used = {name for one in description.operations for name in _used(one, description)}
    imported = "".join(f"    {name},\n" for name in sorted(used))
    return "".join(
        [
            _HEAD.format("The operations of the API, each a method by its name."),
            "from collections.abc import AsyncIterator, Iterator\nfrom datetime import date, datetime\nfrom typing import Any, Literal\n\n",
            "from . import calls\nfrom .errors import BY_CODE\nfrom .records import UNSET, Unset\n",
            f"from .types import (\n{imported})\n",
            *(_class(kind, description, version) for kind in (_Blocking, _Asynchronous)),
        ]
    )


def _used(one: Operation, description: Description) -> Iterator[str]:
    for schema in (one.answer, *(parameter.schema for parameter in _arguments(one, description)), one.paging and one.paging.item):
        yield from _names(schema or {})


class _Kind(Frozen, kw_only=True):
    """What the two classes differ by."""

    name: str
    base: str
    told: str
    definition: str
    wait: str
    suffix: str
    iterator: str


_Blocking: Final = _Kind(name="Postern", base="Caller", told="Calls that block.", definition="def", wait="", suffix="", iterator="Iterator")
_Asynchronous: Final = _Kind(
    name="AsyncPostern",
    base="AsyncCaller",
    told="Calls for asyncio and Trio.",
    definition="async def",
    wait="await ",
    suffix="_async",
    iterator="AsyncIterator",
)


def _class(kind: _Kind, description: Description, version: str) -> str:
    head = f'\n\nclass {kind.name}(calls.{kind.base}):\n    """{kind.told}"""\n\n    _errors = BY_CODE\n'
    parts = [f'{head}    _user_agent = "postern-client-python/{version}"\n']
    for one in description.operations:
        parts.append(_method(one, description, kind))
        if one.paging:
            parts.append(_iterator(one, kind))
    return "".join(parts)


def _arguments(one: Operation, description: Description) -> Sequence[Parameter]:
    fields = description.fields(one.body.type) if one.body and one.body.type else []
    return [*one.parameters, *fields]


def _method(one: Operation, description: Description, kind: _Kind) -> str:
    arguments = list(_signature(_arguments(one, description)))
    if one.body and not one.body.type:
        arguments += [] if "*" in arguments else ["*"]
        arguments += ["content: bytes"]
        if len(one.body.content_types) > 1:
            arguments += [f"content_type: Literal[{', '.join(_quoted(name) for name in one.body.content_types)}]"]
    answer, call = _answer(one), _call(one, description)
    if answer == "None":
        done = f"{kind.wait}self._do({call})"
    elif one.answer and "anyOf" in one.answer:
        # A type checker takes no union for a type, so the answer is said to be one where it is kept.
        done = f"answer: {answer} = {kind.wait}self._done({call}, {answer})\n        return answer"
    else:
        done = f"return {kind.wait}self._call({call}, {answer})"
    return (
        f"\n    {kind.definition} {one.id}(self{_joined(arguments)}) -> {answer}:\n{_docstring(one.summary, one.description, 8)}"
        f"        {done}\n"
    )


def _iterator(one: Operation, kind: _Kind) -> str:
    assert one.paging is not None  # noqa: S101 - the caller looked
    paging, arguments = one.paging, list(_signature(one.paging.takes))
    arguments += [] if "*" in arguments else ["*"]
    arguments += ["limit: int = 100"]
    given = [parameter.name if parameter.place == "path" else f"{parameter.name}={parameter.name}" for parameter in paging.takes]
    turned = "after=UNSET if at is None else at" if paging.way == "after" else f"{paging.way}=at"
    fetch = f"lambda at: self.{one.id}({', '.join([*given, turned, 'limit=limit'])})"
    items = f"lambda page: page{f'.{paging.items}' if paging.items else ''}"
    numbers = "" if paging.way == "after" else f", first={paging.first}, step={1 if paging.way == 'page' else 'limit'}, size=limit"
    by = ("by_after" if paging.way == "after" else "by_number") + kind.suffix
    told = _docstring(f"Iterate over all entries of `{one.id}`, `limit` at a time", "", 8)
    head = f"\n    def {one.iterator}(self{_joined(arguments)}) -> {kind.iterator}[{spelled(paging.item)}]:\n"
    return f"{head}{told}        return calls.{by}({fetch}, {items}{numbers})\n"


def _answer(one: Operation) -> str:
    if one.answer is None:
        return "None"
    return spelled(one.answer) if one.answer else "dict[str, Any]"


def _signature(parameters: Sequence[Parameter]) -> Iterator[str]:
    """What is in the path goes by its place, the rest by its name."""
    yield from (f"{one.name}: str" for one in parameters if one.place == "path")
    named = sorted((one for one in parameters if one.place != "path"), key=lambda one: not one.required)
    if named:
        yield "*"
    for one in named:
        yield f"{one.name}: {spelled(one.schema)}" + ("" if one.required else " | Unset = UNSET")


def _joined(arguments: Iterable[str]) -> str:
    return "".join(f", {one}" for one in arguments)


def _call(one: Operation, description: Description) -> str:
    parts = one.at("path")
    template = one.path
    for part in parts:
        template = template.replace(f"{{{part.wire}}}", "{}")
    place = f"calls.path({', '.join([_quoted(template), *(part.name for part in parts)])})" if parts else _quoted(template)
    given = [f"method={_quoted(one.method)}", f"path={place}"]
    if one.credentials:
        given.append(f"credentials=({', '.join(_quoted(name) for name in one.credentials)},)")
    for name, where in (("query", "query"), ("headers", "header")):
        if one.at(where):
            given.append(f"{name}={_dictionary(one.at(where))}")
    if one.body and one.body.type:
        given.append(f"body={_dictionary(description.fields(one.body.type))}")
        given += ["is_form=True"] if one.body.is_form else []
        given += [] if one.body.required else ["may_be_empty=True"]
    elif one.body:
        given.append("content=content")
        kinds = one.body.content_types
        given += ["content_type=content_type"] if len(kinds) > 1 else [f"content_type={_quoted(kinds[0])}"] if kinds[0] != JSON else []
    return f"calls.Call({', '.join(given)})"


def _dictionary(parameters: Sequence[Parameter]) -> str:
    return f"{{{', '.join(f'{_quoted(one.wire)}: {one.name}' for one in parameters)}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _docstring(summary: str, description: str, indent: int) -> str:
    if not summary:
        return ""
    space = " " * indent
    paragraphs = [summary, *(paragraph for paragraph in description.split("\n\n") if paragraph.strip())]
    lines = "\n\n".join(_wrapped(paragraph, _WIDTH - indent) for paragraph in paragraphs)
    lines = lines.replace("\\", "\\\\").replace('"""', "'''")
    body = textwrap.indent(lines, space).lstrip()
    end = f"\n{space}" if "\n" in body else " " if body.endswith('"') else ""
    return f'{space}"""{body}{end}"""\n'


def _wrapped(paragraph: str, width: int) -> str:
    if paragraph.lstrip().startswith(("- ", "| ", "```")):
        return textwrap.dedent(paragraph)
    return textwrap.fill(" ".join(paragraph.split()), width - 3, break_long_words=False, break_on_hyphens=False)
