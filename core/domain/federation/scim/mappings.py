"""SCIM attributes that an owner maps to profile fields of the organization."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA, USER_SCHEMA, InvalidPath, Path, Verb, parse_path
from core.domain.formats import Json
from core.domain.tenancy.profile_fields import FieldKind, FieldShape, checked_value, is_field_key
from core.frozen import Frozen


class MappableAttribute(Frozen):
    """An attribute with one value. An attribute with several parts or several entries is mapped by one part, of the entry of one type.

    The field stores the value, and the directory reads the value back as the attribute. A change of an attribute that no owner maps is
    dropped, and the recorder names it: so directories with their default mappings work as they are.
    """

    attribute: str
    part: str | None = None
    type: str | None = None
    is_of_enterprises: bool = False

    @property
    def name(self) -> str:
        """The path of the attribute, as directories have it in their own mappings."""
        selected = "" if self.type is None else f'[type eq "{self.type}"]'
        return f"{self.attribute}{selected}{'' if self.part is None else f'.{self.part}'}"


_WORK: Final = "work"
MAPPABLE: Final[Mapping[str, MappableAttribute]] = {
    one.name: one
    for one in (
        *map(MappableAttribute, ("title", "userType", "preferredLanguage", "locale", "timezone")),
        *(MappableAttribute("phoneNumbers", "value", kind) for kind in (_WORK, "mobile")),
        *(
            MappableAttribute(name, is_of_enterprises=True)
            for name in ("employeeNumber", "costCenter", "organization", "division", "department")
        ),
        *(MappableAttribute("manager", part, is_of_enterprises=True) for part in ("value", "displayName")),
    )
}
FITTING_KINDS: Final = frozenset({FieldKind.TEXT, FieldKind.NUMBER, FieldKind.DATE, FieldKind.CHOICE})
"""The kinds of fields that one text can fill."""
ScimMapping = Mapping[str, FieldShape]
"""The fields that the directory fills, by the names of their attributes."""
NOTHING_MAPPED: Final[ScimMapping] = MappingProxyType({})
_OF_TYPE: Final = re.compile(r"\s*type\s+eq\s+\"(?P<type>\w+)\"\s*", re.IGNORECASE)
# Longer numbers are no numbers of people, and take long to write out.
_LARGEST: Final = 10**15 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


def scim_mapping(given: Mapping[str, str]) -> Mapping[str, str]:
    """The keys of fields by attributes. Raises `BadRequest`. A field that the directory may not write is ignored as long as this is so."""
    unknown = sorted(set(given) - set(MAPPABLE))
    if unknown:
        raise BadRequest(f"profile_mapping: {unknown[0][:80]}: no such attribute; one of {', '.join(MAPPABLE)}", words="field_choice")
    if not all(is_field_key(key) for key in given.values()):
        raise BadRequest("profile_mapping: each attribute is mapped to the key of a field", words="mapping_key")
    if len(set(given.values())) < len(given):
        raise BadRequest("profile_mapping: each field only once", words="field_once")
    return dict(given)


def require_fields(mapping: Mapping[str, str], before: Mapping[str, str], keys: Collection[str]) -> None:
    """Raises `BadRequest` for a new entry whose field does not exist. An entry of before may outlive its field, and is ignored."""
    unknown = sorted(key for attribute, key in mapping.items() if key not in keys and before.get(attribute) != key)
    if unknown:
        raise BadRequest(
            f"profile_mapping: {unknown[0]}: the organization has no field with this key: declare it first", words="field_unknown"
        )


def stated_at(path: str, verb: Verb, value: Any) -> Mapping[str, Any]:
    """What a change at a path says about mappable attributes, by their names. None takes a value away."""
    text = path.strip()
    schema = ENTERPRISE_SCHEMA if text.lower().startswith(ENTERPRISE_SCHEMA.lower()) else USER_SCHEMA
    if text.lower() == schema.lower():
        return _stated_in_extension(verb, value)
    try:
        at = parse_path(text, schema)
    except InvalidPath:
        return {}
    places = [
        one for one in MAPPABLE.values() if one.attribute.lower() == at.attribute and one.is_of_enterprises is (schema is ENTERPRISE_SCHEMA)
    ]
    return _stated(places, at, verb, None if verb is Verb.REMOVE or value == "" else value)


def stated_in(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a whole resource says about mappable attributes."""
    return _all(stated_at(name, Verb.REPLACE, value) for name, value in resource.items())


def _stated_in_extension(verb: Verb, value: Any) -> Mapping[str, Any]:
    if verb is Verb.REMOVE:
        return {name: None for name, one in MAPPABLE.items() if one.is_of_enterprises}
    inner = value.items() if isinstance(value, Mapping) else ()
    return _all(stated_at(f"{ENTERPRISE_SCHEMA}:{name}", verb, one) for name, one in inner)


def _all(stated: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {name: value for one in stated for name, value in one.items()}


def _stated(places: Sequence[MappableAttribute], at: Path, verb: Verb, value: Any) -> Mapping[str, Any]:
    selected = None if at.filter is None else _OF_TYPE.fullmatch(at.filter)
    if at.filter is not None and selected is None:
        return {}
    kind = None if selected is None else selected["type"].lower()
    chosen = [one for one in places if kind is None or one.type == kind]
    if at.part is not None:
        return {one.name: value for one in chosen if one.part is not None and one.part.lower() == at.part}
    found: dict[str, Any] = {}
    for one in chosen:
        given = _parts(value, one, kind)
        if one.part is None:
            found[one.name] = value
        elif given is None or one.part.lower() not in given:
            # An addition leaves what it does not name. So does a text: it stands for the first part alone.
            if verb is not Verb.ADD and not isinstance(value, str):
                found[one.name] = None
        else:
            found[one.name] = given[one.part.lower()]
    return found


def _parts(value: Any, wanted: MappableAttribute, selected: str | None) -> Mapping[str, Any] | None:
    """The parts of the entry that is wanted, by their names in lower case. An entry without a type is of the type work."""
    entries = value if isinstance(value, list | tuple) else [value]
    for one in entries:
        parts = {name.lower(): inner for name, inner in one.items()} if isinstance(one, Mapping) else {"value": one}
        if wanted.type is None or str(parts.get("type") or selected or _WORK).lower() == wanted.type:
            return None if one is None else parts
    return None


def fitting(field: FieldShape, stated: Any) -> Json:
    """The stated value as its field keeps it. None for no value, and for a value that the field does not take."""
    if stated is None or stated == "" or isinstance(stated, bool):
        return None
    text = str(stated) if isinstance(stated, int | float) and abs(stated) <= _LARGEST else stated
    is_number = field.kind is FieldKind.NUMBER and isinstance(text, str) and _NUMBER.fullmatch(text.strip()) is not None
    try:
        value = checked_value(field, (float(text) if "." in text else int(text)) if is_number else text)
    except BadRequest:
        return None
    return None if isinstance(value, tuple) else value


def filled(before: Mapping[str, Json], mapping: ScimMapping, stated: Mapping[str, Any]) -> Mapping[str, Json]:
    """The values of the fields, by key, after the directory has stated these attributes. None empties a field."""
    after = dict(before)
    for name, value in stated.items():
        if name in mapping:
            field = mapping[name]
            kept = fitting(field, value)
            if kept is not None or field.key in before:
                after[field.key] = kept
    return after


def is_kept(attribute: str, value: Any, mapping: ScimMapping, stated: Mapping[str, Any]) -> bool:
    """Whether fields take what the value of this attribute states: it empties them, or everything that they are mapped to fits."""
    mapped = [(mapping[name], one) for name, one in stated.items() if name in mapping and MAPPABLE[name].attribute == attribute]
    if value in (None, "", []):
        return bool(mapped)
    fits = [fitting(field, one) is not None for field, one in mapped if one not in (None, "")]
    return bool(fits) and all(fits)


def shown(mapping: ScimMapping, fields: Mapping[str, Json]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The attributes of the core schema, and those of the enterprise extension, that the fields have values for."""
    core, extension = dict[str, Any](), dict[str, Any]()
    for name, one in MAPPABLE.items():
        if name not in mapping or (value := fields.get(mapping[name].key)) is None:
            continue
        into, text = extension if one.is_of_enterprises else core, str(value)
        if one.type is not None:
            into.setdefault(one.attribute, []).append({"value": text, "type": one.type})
        elif one.part is not None:
            into.setdefault(one.attribute, {})[one.part] = text
        else:
            into[one.attribute] = text
    return core, extension


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
