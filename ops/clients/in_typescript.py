"""The modules of the TypeScript client that come from the OpenAPI document: JavaScript as it runs, and its types beside it. Nothing has to
be compiled, so a release needs no Node.
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from ops.clients.document import JSON, Description, Operation, Parameter, Schema, reference

PACKAGE: Final = "@postern/client"
_HEAD: Final = "// Made from the OpenAPI document.\n"
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_WIDTH: Final = 120
_EXPORTED_TYPES: Final = 'export type * from "./types.js"\nexport type { CallOptions, ClientOptions } from "./calls.js"\n'
_EXPORTED: Final = "".join(f'export * from "./{name}.js"\n' for name in ("failures", "errors", "client"))


def modules(description: Description, version: str) -> Mapping[str, str]:
    return {
        "index.js": _HEAD + _EXPORTED,
        "index.d.ts": _HEAD + _EXPORTED + _EXPORTED_TYPES,
        "types.d.ts": _types(description),
        "errors.js": _errors(description),
        "errors.d.ts": _error_types(description),
        "client.js": _client(description, version),
        "client.d.ts": _client_types(description),
    }


def spelled(schema: Schema) -> str:
    """A schema as a type."""
    if (name := reference(schema)) is not None:
        return name
    if "anyOf" in schema:
        kinds = dict.fromkeys(kind for one in schema["anyOf"] for kind in spelled(one).split(" | "))
        return " | ".join(kinds)
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        inner = spelled(schema["items"])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        return f"Record<string, {spelled(schema.get('additionalProperties', {}))}>"
    return _PLAIN.get(kind or "", "unknown")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _class_of(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("_"))


def _errors(description: Description) -> str:
    names = {code: _class_of(code) for code in description.codes}
    classes = "".join(f"export class {name} extends ApiError {{}}\n" for name in names.values())
    listed = "".join(f"  {code}: {name},\n" for code, name in names.items())
    return f'{_HEAD}import {{ ApiError }} from "./failures.js"\n\n{classes}\nexport const BY_CODE = {{\n{listed}}}\n'


def _error_types(description: Description) -> str:
    classes = (
        f"{_comment(told + '.', '', 0)}export declare class {_class_of(code)} extends ApiError {{}}\n"
        for code, told in description.codes.items()
    )
    return f'{_HEAD}import {{ ApiError }} from "./failures.js"\n\n{"".join(classes)}'


def _types(description: Description) -> str:
    parts = [_HEAD]
    for name, schema in description.types.items():
        parts.append("\n" + _comment(schema.get("description", ""), "", 0))
        if "enum" in schema:
            parts.append(f"export type {name} = {spelled(schema)}\n")
            continue
        fields = "".join(_field(field) for field in description.fields(name))
        others = "  [name: string]: unknown\n" if schema.get("additionalProperties") else ""
        parts.append(f"export interface {name} {{\n{fields}{others}}}\n")
    return "".join(parts)


def _field(one: Parameter) -> str:
    name = one.name if one.name.isidentifier() else json.dumps(one.name)
    return f"{_comment(one.description, '', 2)}  {name}{'' if one.required else '?'}: {spelled(one.schema)}\n"


def _client(description: Description, version: str) -> str:
    methods = "".join(_method(one) for one in description.operations)
    imported = 'import { byAfter, byNumber, Caller, path } from "./calls.js"\nimport { BY_CODE } from "./errors.js"\n'
    settings = f'  static errors = BY_CODE\n  static userAgent = "postern-client-typescript/{version}"\n'
    return f"{_HEAD}{imported}\nexport class Postern extends Caller {{\n{settings}{methods}}}\n"


def _client_types(description: Description) -> str:
    names = sorted({name for one in description.operations for name in _used(one)})
    imported = "".join(f"  {name},\n" for name in names)
    return (
        f'{_HEAD}import {{ Caller, type CallOptions }} from "./calls.js"\nimport type {{\n{imported}}} from "./types.js"\n\n'
        f"export declare class Postern extends Caller {{\n{''.join(_method_types(one) for one in description.operations)}}}\n"
    )


def _used(one: Operation) -> set[str]:
    schemas = [one.answer or {}, *(parameter.schema for parameter in one.parameters), (one.paging and one.paging.item) or {}]
    named = {name for schema in schemas for name in _names(schema)}
    return named | ({one.body.type} if one.body and one.body.type else set())


def _names(schema: Schema) -> set[str]:
    if (name := reference(schema)) is not None:
        return {name}
    inner = (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ()))
    return {name for one in inner for name in _names(one)}


def _arguments(one: Operation) -> list[str]:
    """The names of the method's arguments."""
    names = [camel(part.name) for part in one.at("path")]
    if one.body:
        names.append("body" if one.body.type else "content")
        names += ["contentType"] if not one.body.type and len(one.body.content_types) > 1 else []
    return names + (["query"] if one.at("query", "header") else [])


def _method(one: Operation) -> str:
    arguments = _arguments(one)
    path = one.path
    for part in one.at("path"):
        path = path.replace(f"{{{part.wire}}}", f"${{{camel(part.name)}}}")
    given = [f'method: "{one.method}"', f"path: path`{path}`"]
    if one.credentials:
        given.append(f"credentials: {json.dumps(one.credentials)}")
    for name, where in (("query", "query"), ("headers", "header")):
        taken = one.at(where)
        if taken:
            given.append(f"{name}: {{ {', '.join(f'{_key(parameter.wire)}: query.{parameter.name}' for parameter in taken)} }}")
    if one.body:
        given.append(("form: body" if one.body.is_form else "body") if one.body.type else "content")
        if "contentType" in arguments:
            given.append("contentType")
        elif not one.body.type and one.body.content_types[0] != JSON:
            given.append(f'contentType: "{one.body.content_types[0]}"')
    if one.answer is None or one.answer.get("type") == "string":
        given.append(f'answer: "{"nothing" if one.answer is None else "text"}"')
    defaults = [f"{name} = {{}}" if name == "query" else name for name in arguments]
    done = f"  {camel(one.id)}({', '.join([*defaults, 'options'])}) {{\n    return this.call({{ {', '.join(given)} }}, options)\n  }}\n"
    return "\n" + done + (_iterator(one) if one.paging else "")


def _iterator(one: Operation) -> str:
    assert one.paging is not None  # noqa: S101 - the caller looked
    paging, parts = one.paging, [camel(part.name) for part in one.at("path")]
    arguments = [*parts, "{ limit = 100, ...query } = {}", "options"]
    turned = f"{{ ...query, {paging.way}: at, limit }}"
    fetch = f"(at) => this.{camel(one.id)}({', '.join([*parts, turned, 'options'])})"
    items = f"(page) => page{f'.{paging.items}' if paging.items else ''}"
    numbers = f", {{ first: {paging.first}, step: {1 if paging.way == 'page' else 'limit'}, size: limit }}"
    by = f"byAfter({fetch}, {items})" if paging.way == "after" else f"byNumber({fetch}, {items}{numbers})"
    return f"\n  {camel(one.iterator)}({', '.join(arguments)}) {{\n    return {by}\n  }}\n"


def _method_types(one: Operation) -> str:
    arguments = [f"{camel(part.name)}: string" for part in one.at("path")]
    if one.body and one.body.type:
        arguments.append(f"body{'' if one.body.required else '?'}: {one.body.type}")
    elif one.body:
        arguments.append("content: string | ArrayBuffer | Uint8Array | Blob")
        if len(one.body.content_types) > 1:
            arguments.append(f"contentType: {' | '.join(json.dumps(kind) for kind in one.body.content_types)}")
    if one.at("query", "header"):
        arguments.append(_query(one.at("query", "header")))
    answer = "void" if one.answer is None else spelled(one.answer) if one.answer else "Record<string, unknown>"
    told = _comment(one.summary, one.description, 2)
    method = f"{told}  {camel(one.id)}({', '.join([*arguments, 'options?: CallOptions'])}): Promise<{answer}>\n"
    if one.paging is None:
        return method
    parts = [f"{camel(part.name)}: string" for part in one.at("path")]
    takes = [parameter for parameter in one.paging.takes if parameter.place != "path"]
    parts += [_query(takes, "limit?: number"), "options?: CallOptions"]
    comment = _comment(f"Iterate over all entries of `{camel(one.id)}`, `limit` at a time", "", 2)
    return f"{method}{comment}  {camel(one.iterator)}({', '.join(parts)}): AsyncGenerator<{spelled(one.paging.item)}, void, undefined>\n"


def _query(parameters: Sequence[Parameter], *more: str) -> str:
    fields = [f"{parameter.name}{'' if parameter.required else '?'}: {spelled(parameter.schema)}" for parameter in parameters]
    is_optional = not any(parameter.required for parameter in parameters)
    return f"query{'?' if is_optional else ''}: {{ {'; '.join([*fields, *more])} }}"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment(summary: str, description: str, indent: int) -> str:
    if not summary:
        return ""
    space = " " * indent
    paragraphs = [summary, *(paragraph for paragraph in description.split("\n\n") if paragraph.strip())]
    lines = [
        line for number, paragraph in enumerate(paragraphs) for line in ([""] if number else []) + _wrapped(paragraph, _WIDTH - indent)
    ]
    lines = [line.replace("*/", "*\\/") for line in lines]
    if len(lines) == 1:
        return f"{space}/** {lines[0]} */\n"
    return f"{space}/**\n" + "".join(f"{space} * {line}".rstrip() + "\n" for line in lines) + f"{space} */\n"


def _wrapped(paragraph: str, width: int) -> list[str]:
    if paragraph.lstrip().startswith(("- ", "| ", "```")):
        return textwrap.dedent(paragraph).splitlines()
    return textwrap.wrap(" ".join(paragraph.split()), width - 6, break_long_words=False, break_on_hyphens=False)
