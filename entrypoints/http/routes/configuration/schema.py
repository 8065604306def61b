"""The JSON schema of configuration files, made of the same types that read them. Editors complete and validate by it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.domain.platform.configuration.objects import ORGANIZATION, SERVICE
from entrypoints.http.description.field_texts import lift, texts_of
from entrypoints.http.machinery.fields import tell_stored_bounds
from entrypoints.http.routes.configuration.kinds import ENTRY_SOURCES, ObjectKind, Within
from entrypoints.http.routes.configuration.reading import VERSION
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS, within

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SECRET: Final = {
    "type": ["string", "null"],
    "pattern": "^(env:.+|file:.+)$",
    "description": "A reference: env:NAME, or file:/path. The command resolves it; the API takes secrets separately from the document.",
}
_REFERENCE: Final = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind.entry for kind in KINDS], ref_template=_REFERENCE)
    tell_stored_bounds(components)
    for kind in KINDS:
        _describe(kind, components[kind.entry.__name__])
    defined = {name: one for name, one in components.items() if name != BY_ID[ORGANIZATION].entry.__name__}
    for kind in (BY_ID[ORGANIZATION], BY_ID[SERVICE]):
        place = Within.ORGANIZATION if kind.is_single else Within.SERVICE
        defined[kind.entry.__name__] = _holder(components[kind.entry.__name__], within(place))
    return {
        "$schema": _DIALECT,
        "title": "A configuration document of Postern",
        "type": "object",
        "required": ["postern"],
        "additionalProperties": False,
        "properties": {
            "postern": {"const": VERSION, "description": "The version of the document format."},
            "platform": {**_holder({"type": "object", "properties": {}}, within(Within.PLATFORM)), "description": "The installation."},
            "organizations": {
                "description": "Organizations by slug. `postern config apply` with --owner creates organizations that do not exist yet.",
                "type": "object",
                "additionalProperties": {"$ref": _REFERENCE.format(name=BY_ID[ORGANIZATION].entry.__name__)},
            },
        },
        "$defs": dict(sorted(defined.items())),
    }


def _describe(kind: ObjectKind, described: dict[str, Any]) -> None:
    properties = described.setdefault("properties", {})
    described.pop("title", None)
    for source in ENTRY_SOURCES[kind.entry.__name__]:
        for name, text in texts_of(source).items():
            if name in properties:
                lift(properties[name])
                properties[name]["description"] = text
    for name in kind.secrets:
        properties[name] = _SECRET


def _holder(described: Mapping[str, Any], kinds: Mapping[str, ObjectKind]) -> dict[str, Any]:
    properties = {**described.get("properties", {}), **{name: _of_kind(kind) for name, kind in kinds.items()}}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _of_kind(kind: ObjectKind) -> dict[str, Any]:
    one = {"$ref": _REFERENCE.format(name=kind.entry.__name__)}
    if kind.is_single:
        return {"anyOf": [one, {"type": "null"}]} if kind.end is not None else one
    entries = {"type": "object", "additionalProperties": {"anyOf": [one, {"type": "null"}]}}
    whole = {
        "type": "object",
        "required": ["whole", "entries"],
        "additionalProperties": False,
        "properties": {
            "whole": {"type": "boolean", "description": "Whether all other entries are deleted."},
            "entries": {"anyOf": [entries, {"type": "null"}]},
        },
    }
    return {"anyOf": [whole, entries]}
