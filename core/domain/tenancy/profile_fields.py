"""Profile fields: the attributes of users that an installation or an organization declares."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ProfileFieldId, UserId
from core.domain.jobs import NewJob
from core.domain.lines import typed_line
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace


class FieldKind(StrEnum):
    """The type of a field's value."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    CHOICE = "choice"
    LIST = "list"
    """A list of texts."""


class FieldWriter(StrEnum):
    """Who can write values of a field."""

    PERSON = "person"
    ADMINISTRATOR = "administrator"
    DIRECTORY = "directory"
    SERVICE = "service"
    """The servers of a service, with an API key."""
    PROVIDER = "provider"
    """An organization's own provider, at each sign-in through it."""


class FieldPrompt(StrEnum):
    """When a sign-in page asks the person for the value. It asks once; for a required field, until the field has a value."""

    REGISTRATION = "registration"
    """At the first sign-in of people who come after the field."""
    SIGN_IN = "sign_in"
    """At the next sign-in of everybody."""


FieldValue = str | int | float | bool | tuple[str, ...]
"""Dates are texts, as RFC 3339 writes them."""

MOST_FIELDS: Final = 50
"""The limit of an organization, and of the installation. A list shows all of its fields at once."""
LONGEST_KEY: Final = 50
LONGEST_LABEL: Final = 100
LONGEST_TEXT: Final = 1000
MOST_CHOICES: Final = 100
LONGEST_CHOICE: Final = 100
MOST_ITEMS: Final = 50
LONGEST_ITEM: Final = 200
LAST_POSITION: Final = 999
MOST_BYTES: Final = 16 * 1024
"""The limit of all values that an organization, or the installation, keeps of one person."""
NO_ROOM: Final = "fields_too_long"
"""The words of the refusal beyond this limit."""
# Beyond this, programs that read numbers as floats no longer tell neighbours apart (RFC 8259 section 6).
_LARGEST: Final = 2**53 - 1
FIELD_SCOPES: Final = ("profile", "email")
"""The scopes that can tell a field of the installation to applications."""
PURGE_JOB: Final = "profile_field.purge"
"""Removes the values of a deleted field. Its payload names the field as `field`."""
_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
_WRITTEN_NUMBER: Final = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,16})?")
_WRITTEN_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class FieldRule(Frozen, kw_only=True):
    """Bounds of a field's values. None, or no choice: this bound does not exist, or the kind of field does not have it."""

    min_length: int | None = None
    max_length: int | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    earliest: str | None = None
    latest: str | None = None
    choices: tuple[str, ...] = ()
    max_items: int | None = None

    @property
    def stated(self) -> Mapping[str, Json]:
        """The bounds that exist, by name."""
        return {name: value for name in _BOUNDS if (value := getattr(self, name)) is not None and value != ()}


_BOUNDS: Final = ("min_length", "max_length", "minimum", "maximum", "earliest", "latest", "choices", "max_items")
_BOUNDS_OF: Final[Mapping[FieldKind, frozenset[str]]] = {
    FieldKind.TEXT: frozenset({"min_length", "max_length"}),
    FieldKind.NUMBER: frozenset({"minimum", "maximum"}),
    FieldKind.BOOLEAN: frozenset(),
    FieldKind.DATE: frozenset({"earliest", "latest"}),
    FieldKind.CHOICE: frozenset({"choices"}),
    FieldKind.LIST: frozenset({"choices", "max_items", "max_length"}),
}
ANYTHING: Final = FieldRule()


class LostRule(FieldRule, kw_only=True):
    """What stands in the place of a rule that cannot be read. Nobody is asked for the field or sees it, until its owners say a rule."""


def read_rule(stored: object) -> FieldRule:
    """The rule as it is stored. A `LostRule` for what is none: one organization's row must not end a page about people of others."""
    if not isinstance(stored, Mapping):
        return LostRule()
    # A document says of each bound that it is not set.
    bounds = {name: bound for name, bound in stored.items() if bound is not None}
    if not all(name in _BOUNDS and _is_bound(name, bound) for name, bound in bounds.items()):
        return LostRule()
    return FieldRule(**{**bounds, "choices": tuple(bounds.get("choices", ()))})


def _is_bound(name: str, bound: object) -> bool:
    if name == "choices":
        return isinstance(bound, list | tuple) and all(isinstance(one, str) for one in bound)
    if name in {"earliest", "latest"}:
        return isinstance(bound, str)
    return type(bound) is int or (type(bound) is float and name in {"minimum", "maximum"})


class FieldShape(Frozen, kw_only=True):
    """The part of a field that decides which values it takes."""

    key: str
    kind: FieldKind
    rule: FieldRule = ANYTHING


class ProfileField(FieldShape, kw_only=True):
    """A field of the installation, if `organization` is None; otherwise of this organization alone.

    A field is declared first; then users, administrators, directories, applications and identity providers write its values, as far as the
    field allows.
    """

    id: ProfileFieldId
    organization: OrganizationId | None
    label: str
    written_by: frozenset[FieldWriter]
    scope: str | None = None
    """The scope that tells the field to applications. Only the installation's fields have one."""
    required: bool = False
    """The page that asks for the field has no "Not now", and the person cannot empty the field again."""
    asked_at: FieldPrompt | None = None
    position: int = 0
    created_at: datetime
    updated_at: datetime

    def is_written_by(self, writer: FieldWriter) -> bool:
        return writer in self.written_by

    @property
    def rule_is_lost(self) -> bool:
        return isinstance(self.rule, LostRule)


class KeptValues(Frozen):
    """All fields of one keeper, an organization or the installation, and what the keeper knows of one person. Fields whose rule is lost are
    left out. Their values stay.
    """

    fields: Sequence[ProfileField]
    values: Mapping[ProfileFieldId, FieldValue]
    updated_at: datetime | None = None
    """None when nobody has written a value yet."""

    @property
    def by_key(self) -> Mapping[str, FieldValue]:
        """The values, in the order of the fields."""
        return {field.key: self.values[field.id] for field in self.fields if field.id in self.values}

    def written_by(self, writer: FieldWriter) -> Sequence[ProfileField]:
        return [field for field in self.fields if field.is_written_by(writer)]


def is_field_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def checked_field(field: ProfileField) -> ProfileField:
    """The field, with its texts tidied. Raises `BadRequest` for rules that contradict each other, and for what only others may have."""
    if not is_field_key(field.key):
        raise BadRequest(
            f"key: 1 to {LONGEST_KEY} of a-z, 0-9 and _, beginning with a letter", words="key_malformed", values={"most": LONGEST_KEY}
        )
    label = typed_line("label", field.label)
    if not 1 <= len(label) <= LONGEST_LABEL:
        raise BadRequest(f"label: 1 to {LONGEST_LABEL} characters", words="field_length", values={"least": 1, "most": LONGEST_LABEL})
    if not field.written_by:
        raise BadRequest(f"written_by: at least one of {', '.join(FieldWriter)}", words="tick_one")
    if not 0 <= field.position <= LAST_POSITION:
        raise BadRequest(f"position: from 0 to {LAST_POSITION}", words="field_bounds", values={"least": 0, "most": LAST_POSITION})
    _require_writers(field)
    if field.scope is not None and (field.organization is not None or field.scope not in FIELD_SCOPES):
        raise BadRequest(f"scope: only fields of the installation have one; it is one of {', '.join(FIELD_SCOPES)}", words="field_scope")
    if field.asked_at is not None and not field.is_written_by(FieldWriter.PERSON):
        raise BadRequest(
            "asked_at: people can only be asked for fields that they can edit; add person to written_by", words="field_not_written"
        )
    if field.required and field.asked_at is None:
        raise BadRequest("required: set asked_at, which decides when people are asked for a required field", words="field_required_when")
    return replace(field, label=label, rule=_checked_rule(field.kind, field.rule))


def _require_writers(field: ProfileField) -> None:
    """An installation has no directory, service or provider that could write its fields."""
    others = sorted(field.written_by - {FieldWriter.PERSON, FieldWriter.ADMINISTRATOR})
    if field.organization is None and others:
        raise BadRequest(
            f"written_by: only person and administrator write fields of the installation, not {', '.join(others)}", words="field_writers"
        )


def _checked_rule(kind: FieldKind, rule: FieldRule) -> FieldRule:
    foreign = sorted(set(rule.stated) - _BOUNDS_OF[kind])
    if foreign:
        raise BadRequest(f"rule: a field of the kind {kind} has no {', '.join(foreign)}", words="field_rule_foreign")
    if kind is FieldKind.CHOICE and not rule.choices:
        raise BadRequest(
            f"rule: choices: 1 to {MOST_CHOICES}, for a field of the kind choice", words="choices_missing", values={"most": MOST_CHOICES}
        )
    longest = LONGEST_ITEM if kind is FieldKind.LIST else LONGEST_TEXT
    _require_bounds("min_length", rule.min_length, 0, longest)
    _require_bounds("max_length", rule.max_length, 1, longest)
    _require_bounds("max_items", rule.max_items, 1, MOST_ITEMS)
    _require_bounds("minimum", rule.minimum, -_LARGEST, _LARGEST)
    _require_bounds("maximum", rule.maximum, -_LARGEST, _LARGEST)
    _require_order("max_length", rule.min_length, rule.max_length)
    _require_order("maximum", rule.minimum, rule.maximum)
    for name, day in (("earliest", rule.earliest), ("latest", rule.latest)):
        if day is not None:
            _date(f"rule: {name}", day)
    if rule.earliest is not None and rule.latest is not None and rule.earliest > rule.latest:
        raise BadRequest("rule: latest: not before earliest", words="bounds_crossed")
    return replace(rule, choices=_choices(rule.choices))


def _choices(given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MOST_CHOICES:
        raise BadRequest(f"rule: choices: at most {MOST_CHOICES}", words="field_list", values={"most": MOST_CHOICES})
    choices = tuple(typed_line("rule: choices", one) for one in given)
    if not all(1 <= len(one) <= LONGEST_CHOICE for one in choices):
        raise BadRequest(f"rule: choices: each has 1 to {LONGEST_CHOICE} characters", words="line_length", values={"most": LONGEST_CHOICE})
    if len(set(choices)) < len(choices):
        raise BadRequest("rule: choices: each only once", words="field_once")
    return choices


def _require_bounds(name: str, value: float | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise BadRequest(f"rule: {name}: from {least} to {most}", words="field_bounds", values={"least": least, "most": most})


def _require_order(name: str, lower: float | None, upper: float | None) -> None:
    if lower is not None and upper is not None and lower > upper:
        raise BadRequest(f"rule: {name}: not below the lower bound", words="bounds_crossed")


def checked_value(field: FieldShape, given: Json) -> FieldValue:
    """The value as it is kept. Raises `BadRequest` for a value that the field does not take. The refusal never repeats the value."""
    match field.kind:
        case FieldKind.TEXT:
            return _text(field, given)
        case FieldKind.NUMBER:
            return _number(field, given)
        case FieldKind.BOOLEAN:
            if not isinstance(given, bool):
                raise _refused(field, "true or false", "field_boolean")
            return given
        case FieldKind.DATE:
            if not isinstance(given, str):
                raise _refused(field, "a date, such as 2026-07-31", "field_date")
            return _dated(field, given)
        case FieldKind.CHOICE:
            if not isinstance(given, str) or given not in field.rule.choices:
                raise _refused(field, f"one of {', '.join(field.rule.choices)}", "field_choice")
            return given
        case _:  # a list
            return _items(field, given)


def _text(field: FieldShape, given: Json) -> str:
    if not isinstance(given, str):
        raise _refused(field, "a text", "field_text")
    text = typed_line(field.key, given)
    least, most = field.rule.min_length or 1, field.rule.max_length or LONGEST_TEXT
    if not least <= len(text) <= most:
        raise _refused(field, f"{least} to {most} characters", "field_length", least=least, most=most)
    return text


def _number(field: FieldShape, given: Json) -> int | float:
    # An integer of JSON may have thousands of digits, which no float has room for.
    if isinstance(given, bool) or not isinstance(given, int | float) or (isinstance(given, float) and not math.isfinite(given)):
        raise _refused(field, "a number", "field_number")
    least = -_LARGEST if field.rule.minimum is None else field.rule.minimum
    most = _LARGEST if field.rule.maximum is None else field.rule.maximum
    if not least <= given <= most:
        raise _refused(field, f"a number from {least} to {most}", "field_bounds", least=least, most=most)
    return given


def _dated(field: FieldShape, given: str) -> str:
    day = _date(field.key, given)
    if (field.rule.earliest is not None and day < field.rule.earliest) or (field.rule.latest is not None and day > field.rule.latest):
        earliest, latest = field.rule.earliest or "…", field.rule.latest or "…"
        raise _refused(field, f"a date from {earliest} to {latest}", "field_dates", earliest=earliest, latest=latest)
    return day


def _date(name: str, text: str) -> str:
    refusal = BadRequest(f"{name}: a date, such as 2026-07-31", words="field_date")
    if _DATE.fullmatch(text) is None:
        raise refusal
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise refusal from None


def _items(field: FieldShape, given: Json) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise _refused(field, "a list of texts", "field_list", most=MOST_ITEMS)
    most, longest = field.rule.max_items or MOST_ITEMS, field.rule.max_length or LONGEST_ITEM
    if len(given) > most:
        raise _refused(field, f"at most {most} entries", "field_list", most=most)
    items = tuple(typed_line(field.key, str(one)) for one in given)
    if not all(1 <= len(one) <= longest for one in items):
        raise _refused(field, f"each entry with 1 to {longest} characters", "field_length", least=1, most=longest)
    if len(set(items)) < len(items):
        raise _refused(field, "each entry only once", "field_once")
    if field.rule.choices and not set(items) <= set(field.rule.choices):
        raise _refused(field, f"each entry one of {', '.join(field.rule.choices)}", "field_choices", choices=", ".join(field.rule.choices))
    return items


def _refused(field: FieldShape, expected: str, words: str, **values: object) -> BadRequest:
    return BadRequest(f"{field.key}: {expected}", words=words, values=values)


def kept_value(field: ProfileField, stored: Json) -> FieldValue | None:
    """The value as PostgreSQL has it. None for a value of a form that the kind does not have."""
    if isinstance(stored, Sequence) and not isinstance(stored, str):
        return tuple(one for one in stored if isinstance(one, str)) if field.kind is FieldKind.LIST else None
    return stored if isinstance(stored, str | int | float) and field.kind is not FieldKind.LIST else None


class ChangedValues(Frozen):
    values: Mapping[ProfileFieldId, FieldValue]
    """All values after the change."""
    keys: Sequence[str]
    """The keys whose values differ now."""


def changed_values(before: KeptValues, given: Mapping[str, Json], writer: FieldWriter) -> ChangedValues:
    """What the keeper knows after `writer` has given these values; None empties a field, and keys that are not given stay. Raises
    `BadRequest` for a key that is not declared, or that this writer may not write, and for a value that its field does not take.
    """
    fields = {field.key: field for field in before.fields}
    values, keys = dict(before.values), list[str]()
    for key, value in given.items():
        field = fields.get(key)
        if field is None:
            raise BadRequest(f"{key[:LONGEST_KEY]}: there is no such field", words="field_unknown")
        if not field.is_written_by(writer):
            raise BadRequest(f"{key}: cannot be written here, only by {', '.join(sorted(field.written_by))}", words="field_not_here")
        wanted = None if is_empty(field, value) else checked_value(field, value)
        if wanted is None and field.required and writer is FieldWriter.PERSON:
            raise BadRequest(f"{key}: this field is required", words="field_required")
        if wanted == values.get(field.id) and type(wanted) is type(values.get(field.id)):
            continue
        keys.append(key)
        if wanted is None:
            del values[field.id]
        else:
            values[field.id] = wanted
    if keys:
        _require_room(values)
    return ChangedValues(values, sorted(keys))


def is_empty(field: ProfileField, value: Json) -> bool:
    """Whether the value empties the field, as forms do."""
    return value is None or value == ([] if field.kind is FieldKind.LIST else "")


def _require_room(values: Mapping[ProfileFieldId, FieldValue]) -> None:
    size = len(json.dumps({str(field): value for field, value in values.items()}, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise BadRequest(f"All values of a person together have at most {MOST_BYTES} bytes, not {size}", words=NO_ROOM)


def suitable_values(before: KeptValues, given: Mapping[str, Json], writer: FieldWriter) -> tuple[Mapping[str, Json], Sequence[str]]:
    """The values that their fields take, and the keys of the others: for values that a provider has sent, whose mistakes must not keep
    anybody out.
    """
    fields = {field.key: field for field in before.fields}
    suitable, wrong = dict[str, Json](), list[str]()
    for key, told in given.items():
        value = meant_by_texts(fields[key], told) if key in fields else told
        try:
            changed_values(before, {key: value}, writer)
        except BadRequest:
            wrong.append(key)
        else:
            suitable[key] = value
    return suitable, wrong


def meant_by_texts(field: FieldShape, given: Json) -> Json:
    """What a provider means that knows only texts, and no lists of one, as directories by LDAP and SAML do."""
    if not isinstance(given, str):
        return given
    match field.kind:
        case FieldKind.LIST:
            return [given] if given else []
        case FieldKind.NUMBER if _WRITTEN_NUMBER.fullmatch(given):
            return float(given) if "." in given else int(given)
        case FieldKind.BOOLEAN:
            # "TRUE" and "FALSE" are those of LDAP (RFC 4517, section 3.3.3), "1" and "0" further ones of XML.
            return _WRITTEN_BOOLEANS.get(given.lower(), given)
    return given


def purge_job(field: UUID) -> NewJob:
    return NewJob(PURGE_JOB, {"field": str(field)})


def field_created(field: ProfileField, actor: Actor) -> Event:
    return _event("profile_field.created", field, actor, {"kind": field.kind.value, "written_by": sorted(field.written_by)})


def field_updated(before: ProfileField, after: ProfileField, actor: Actor) -> Event:
    changed = [name for name in _CHANGEABLE if getattr(before, name) != getattr(after, name)]
    return _event("profile_field.updated", after, actor, {"changed": changed, "written_by": sorted(after.written_by)})


def field_deleted(field: ProfileField, actor: Actor) -> Event:
    return _event("profile_field.deleted", field, actor, {"kind": field.kind.value})


_CHANGEABLE: Final = ("label", "rule", "written_by", "scope", "required", "asked_at", "position")


def values_changed(person: UserId, organization: OrganizationId | None, keys: Sequence[str], by: FieldWriter, actor: Actor) -> Event:
    """The event names the fields, and never tells a value."""
    details: dict[str, Json] = {"keys": list(keys), "written_by": by.value}
    return Event("user.fields.updated", actor, Target("user", str(person)), organization, details)


def _event(name: str, field: ProfileField, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("profile_field", str(field.id)), field.organization, {"key": field.key, **details})
