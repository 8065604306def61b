"""How our clients for Python and TypeScript call an endpoint, with the values of its example. The names are those that `ops/clients` gives
(`tests/e2e/clients/test_samples.py` compares).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from entrypoints.http.description.wording import pretty

Json = dict[str, Any]

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_KEY: Final = re.compile(r'^(\s*)"([A-Za-z_]\w*)":', re.MULTILINE)
_WORD: Final = re.compile(r"\b(true|false|null)\b(?=[,\s\]}]|$)(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)")
_IN_PYTHON: Final = {"true": "True", "false": "False", "null": "None"}
_WIDEST: Final = 76


def has_samples(operation: Json) -> bool:
    """Whether the clients have the endpoint: pages are for browsers, and SCIM has clients of its own."""
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    is_page = any("html" in kind for answer in answers for kind in answer.get("content", {}))
    return bool(answers) and not is_page and operation["security"] != [{"scim": []}]


def in_python(operation: Json) -> str:
    media_type, body = _body(operation)
    arguments = [json.dumps(str(value)) for value in _given(operation, "path").values()]
    named = {**_given(operation, "query"), **(body if isinstance(body, Mapping) else {})}
    arguments += [f"{name}={_python(value)}" for name, value in named.items() if _IDENTIFIER.fullmatch(name)]
    if media_type and not isinstance(body, Mapping):
        arguments.append("content=content")
        arguments += [f"content_type={json.dumps(media_type)}"] if _has_several_kinds(operation) else []
    return _call(f"postern.{operation['operationId']}", arguments)


def in_typescript(operation: Json) -> str:
    media_type, body = _body(operation)
    arguments = [json.dumps(str(value)) for value in _given(operation, "path").values()]
    if isinstance(body, Mapping):
        arguments.append(_typescript(body))
    elif media_type:
        arguments.append("content")
        arguments += [json.dumps(media_type)] if _has_several_kinds(operation) else []
    in_body = body if isinstance(body, Mapping) else {}
    query = {name: value for name, value in _given(operation, "query").items() if name not in in_body}
    arguments += [_typescript(query)] if query else []
    first, *rest = operation["operationId"].split("_")
    return "await " + _call(f"postern.{first}{''.join(word[:1].upper() + word[1:] for word in rest)}", arguments)


def _given(operation: Json, place: str) -> Json:
    """The parameters that a call must have, with their examples."""
    return {one["name"]: one["example"] for one in operation.get("parameters", ()) if one["in"] == place and one["required"]}


def _body(operation: Json) -> tuple[str, Any]:
    content: Mapping[str, Json] = operation.get("requestBody", {}).get("content", {})
    media_type, body = next(iter(content.items()), ("", {}))
    is_object = "$ref" in body.get("schema", {})
    return media_type, body.get("example") if is_object else None


def _has_several_kinds(operation: Json) -> bool:
    return len(operation["requestBody"]["content"]) > 1


def _python(value: Any) -> str:
    return _WORD.sub(lambda found: _IN_PYTHON[found[1]], pretty(value))


def _typescript(value: Any) -> str:
    text = pretty(value)
    flat = " ".join(text.split()) if '"' in text and len(text) < _WIDEST else text
    return _KEY.sub(r"\1\2:", text) if flat is text else re.sub(r'"([A-Za-z_]\w*)":', r"\1:", flat)


def _call(method: str, arguments: list[str]) -> str:
    line = f"{method}({', '.join(arguments)})"
    if len(line) <= _WIDEST or ("\n" in line and len(arguments) < 3):
        return line
    inside = ",\n".join(arguments).replace("\n", "\n  ")
    return f"{method}(\n  {inside},\n)"
