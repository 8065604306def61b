"""Attributes of the standard schemas that Postern keeps only where an owner maps them to fields (`mappings.py`). A change of any other is
dropped, and the flight recorder names it: so directories with their default mappings go through as they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from core.domain.federation.scim.errors import InvalidPath
from core.domain.federation.scim.mappings import NOTHING_MAPPED, ScimMapping, is_kept, stated_at
from core.domain.federation.scim.patches import Path, Verb, parse_path
from core.domain.federation.scim.schemas import ENTERPRISE_SCHEMA, USER_SCHEMA
from core.domain.json import Json

_CORE: Final = (
    *("nickName", "profileUrl", "title", "userType", "preferredLanguage", "locale", "timezone", "password"),
    *("phoneNumbers", "ims", "photos", "addresses", "entitlements", "roles", "x509Certificates"),
)
_OF_NAMES: Final = ("middleName", "honorificPrefix", "honorificSuffix")
_ENTERPRISE: Final = ("employeeNumber", "costCenter", "organization", "division", "department", "manager")
_UNKEPT: Final[Mapping[tuple[str, str | None], str]] = {
    **{(name.lower(), None): name for name in _CORE},
    **{("name", part.lower()): f"name.{part}" for part in _OF_NAMES},
    ("emails", "display"): "emails.display",
}
_OF_ENTERPRISES: Final = {name.lower(): name for name in _ENTERPRISE}
_OTHER_TYPE: Final = re.compile(r"\s*type\s+eq\s+\"(?:home|other)\"\s*", re.IGNORECASE)
# So many a line of the recorder names.
_MOST_NAMED: Final = 20


def is_of_enterprises(path: str) -> bool:
    """Whether a path names the enterprise extension, or an attribute of it."""
    name = path.strip().lower()
    return name == ENTERPRISE_SCHEMA.lower() or _enterprise_attribute(name) in _OF_ENTERPRISES


def is_unkept(path: Path) -> bool:
    return _name_of(path.attribute, path.part) != ""


def is_other_address(path: Path) -> bool:
    """Whether a path selects an address of another type than work. Old default mappings have one."""
    return path.attribute == "emails" and path.filter is not None and _OTHER_TYPE.fullmatch(path.filter) is not None


def dropped(body: Json, mapping: ScimMapping = NOTHING_MAPPED) -> Sequence[str]:
    """The names of the attributes of a body that are not kept, as far as a line has room. They are not mapped, or their field does not take
    the value.
    """
    if not isinstance(body, Mapping):
        return ()
    operations = body.get("Operations", body.get("operations"))
    stated = _of_resource(body) if operations is None else _of_operations(operations)
    names = {name for path, value in stated for name in _left_out(path, value, mapping)}
    return sorted(names)[:_MOST_NAMED]


def _of_operations(operations: Json) -> Iterator[tuple[str, Any]]:
    for one in operations if isinstance(operations, list) else ():
        if not isinstance(one, Mapping):
            continue
        path, value = one.get("path"), one.get("value")
        if isinstance(path, str) and path:
            yield path, value
        elif isinstance(value, Mapping):
            yield from _of_resource(value)


def _of_resource(resource: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    # An empty list says that there is nothing to keep.
    return ((name, value) for name, value in resource.items() if value not in ([], None))


def _left_out(path: str, value: Any, mapping: ScimMapping) -> Iterator[str]:
    if path.strip().lower() == ENTERPRISE_SCHEMA.lower() and isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _left_out(f"{ENTERPRISE_SCHEMA}:{inner}", one, mapping)
        return
    stated = stated_at(path, Verb.REPLACE, value) if mapping else {}
    yield from (name for name in _of_attribute(path, value) if not is_kept(name, value, mapping, stated))


def _of_attribute(path: str, value: Any) -> Iterator[str]:
    name = path.strip().lower()
    if (known := _OF_ENTERPRISES.get(_enterprise_attribute(name))) is not None:
        yield known
    else:
        yield from _of_core(path, value)


def _of_core(text: str, value: Any) -> Iterator[str]:
    try:
        path = parse_path(text, USER_SCHEMA)
    except InvalidPath:
        return
    if is_other_address(path):
        yield path.attribute
    parts = [part.lower() for part in _names(value)] if (path.attribute, path.part) == ("name", None) else [path.part]
    yield from filter(None, (_name_of(path.attribute, part) for part in parts))


def _names(value: Any) -> Sequence[str]:
    return list(value) if isinstance(value, Mapping) else ()


def _name_of(attribute: str, part: str | None) -> str:
    """The name of what is not kept; empty for anything else. Parts of an attribute that is not kept are not kept either."""
    return _UNKEPT.get((attribute, None)) or _UNKEPT.get((attribute, part)) or ""


def _enterprise_attribute(name: str) -> str:
    start = f"{ENTERPRISE_SCHEMA.lower()}:"
    return name[len(start) :].partition("[")[0].partition(".")[0] if name.startswith(start) else ""
