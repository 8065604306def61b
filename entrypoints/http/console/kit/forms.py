"""Forms of the console, made from the type of an endpoint's body. An input takes its kind, its limits and its choices from the field; the
form says which fields it asks for, in which order, and in which words. `sent_forms.py` reads what a browser sends back.

The form of a declared field, of an organization or of the installation: each kind of field asks for its own bounds alone.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from core.domain.lines import LONGEST_TYPED
from core.domain.secrets import Secret
from core.domain.tenancy.profile_fields import FieldKind, FieldPrompt, FieldWriter
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import code, listed, number, plain, when, words, yes_or_no
from entrypoints.http.console.kit.rows import PRESSED, Rows
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import Line, Lines, Parameter

_LONG: Final = 300
# What people write in sentences. Every other text, such as an address or a distinguished name, is one line, however long it may be.
_OF_PARAGRAPHS: Final = ("description", "reason")
# The separator of the steps of a place in the name of an HTML field.
STEP: Final = "__"
WAS: Final = "was"
"""The hidden field with the values that the form showed."""


ONLY_FILL: Final = "only_fill"
OnlyFill = Annotated[str, msgspec.Meta(max_length=3)]
"""`yes` where a search sends what somebody has typed to a form: the form comes back filled, and does nothing yet. The form token shows that
it was typed on a page of ours; a link fills nothing.
"""


class InputKind(StrEnum):
    TEXT = "text"
    LONG = "long"
    SECRET = "secret"  # noqa: S105 - a kind of input
    NUMBER = "number"
    MONEY = "money"
    """An amount in the own unit of a currency, which another input of the form says."""
    TICK = "tick"
    CHOICE = "choice"
    TICKS = "ticks"
    LINES = "lines"
    MOMENT = "moment"
    JSON = "json"
    CARDS = "cards"
    """A choice with everything in sight. Inputs under one of its values stand beneath the value."""
    ROWS = "rows"
    """Small things, each with fields of its own."""
    VALUE = "value"
    """JSON, or a text as it is where it is no JSON. For what is mostly a word."""


# What a browser leaves out has a value all the same.
_OF_LINES: Final = frozenset({InputKind.LONG, InputKind.LINES, InputKind.JSON, InputKind.VALUE})
_NEVER_EMPTY: Final = frozenset({InputKind.TICK, InputKind.TICKS, InputKind.ROWS})


class Choice(NamedTuple):
    value: str
    label: str
    hint: str = ""
    group: str = ""
    """The heading of the choices that belong together, in the reader's language."""


Choices = Callable[[PageVisit], Awaitable[Sequence[Choice]]]


class ChoicePreset(NamedTuple):
    """A button that ticks these choices and no others. What is stored is what is ticked, so a preset adds nothing later."""

    name: str
    label: str
    """In the reader's language."""
    values: Sequence[str]


ChoicePresets = Callable[[PageVisit], Sequence[ChoicePreset]]


class ShortName(NamedTuple):
    """A short name is made from another field, unless somebody chooses it."""

    source: str
    """The name of the HTML field."""
    otherwise: str
    """For a name without a letter that short names may have."""
    separator: str = "-"


class InvalidForm(Exception):
    """A form asks for a field that the endpoint's body lacks. Postern does not start."""


class Asked(Frozen):
    """A field that a form asks for, where the field's type does not say all."""

    name: str
    """The place in the body, with dots: `rule.max_length`."""
    kind: InputKind | None = None
    choices: Choices | None = None
    label: str = ""
    """A text key. By default `console.field.` and the last step of the name."""
    hint: str = ""
    """A text key."""
    shown: Callable[[Any], Any] | None = None
    """The present value in the record. By default the record's field of the same name."""
    under: tuple[str, str] | None = None
    """A choice and its value with which the input counts. The choice is in the same form, or in the record."""
    is_needed: bool = False
    """Whether it cannot be left empty where it counts, though the body can do without."""
    stands_for: Callable[[Any], Mapping[str, Any]] | None = None
    """The fields of the body that a value of the form stands for, where it is none of them itself."""
    at_first: Any = None
    """The value with which a form that makes something begins. By default the body's."""
    derived: ShortName | None = None
    """For a short name that the body needs and the form can do without."""
    unchosen: str = ""
    """A text key: what it means that nothing is chosen. By default `console.unchosen.` and the last step of the name."""
    rows: Rows | None = None
    """For things with fields of their own. `shown` then has the present rows, and `stands_for` takes rows."""
    can_wait: bool = False
    """Whether a form that makes something folds the field, as it folds all texts that may be left out: a choice, or what has a value."""
    at_once: bool = False
    """Whether the form asks in sight, though the body can do without: where one of several fields is needed."""
    currency: str = ""
    """Of an amount of money, the name of the input with its currency."""
    presets: ChoicePresets | None = None
    """Of ticks: what one often ticks together. None of its values is one that the reader may not give."""
    in_force: Callable[[PageVisit], str] | None = None
    """What counts while the field is empty, in words: `{in_force}` of the hint, and of what it means that nothing is chosen."""


class Input(Frozen):
    name: str
    kind: InputKind
    required: bool
    nullable: bool
    allowed: tuple[str, ...]
    choices: Choices | None
    attributes: Mapping[str, Any]
    label: str
    hint: str
    default: Any
    shown: Callable[[Any], Any]
    under: tuple[str, str] | None = None
    stands_for: Callable[[Any], Mapping[str, Any]] | None = None
    derived: ShortName | None = None
    rows: Rows | None = None
    can_wait: bool = False
    at_once: bool = False
    currency: str = ""
    unchosen: str = ""
    in_force: Callable[[PageVisit], str] | None = None
    in_force_words: str = ""
    """Of the page that shows the input."""
    presets: ChoicePresets | None = None
    offered: Sequence[ChoicePreset] = ()
    """The presets of the page that shows the input."""
    is_shared: bool = False
    """Whether the form has several inputs for the place, each under a value of its own."""
    optional: bool = False
    """Whether the form says that the value may be left out. A form that changes something does not say it: every value is there already."""

    @property
    def field(self) -> str:
        """The name of the HTML field."""
        return STEP.join((*self.name.split("."), *((self.under[1],) if self.is_shared and self.under is not None else ())))

    @property
    def is_color(self) -> bool:
        """Whether a swatch stands beside the text."""
        return self.kind is InputKind.TEXT and self.name.endswith("_color")

    @property
    def can_stay_open(self) -> bool:
        """Whether a choice may be left open, and says what that means. Another one shows an empty value only to be chosen."""
        return self.kind is InputKind.CHOICE and self.nullable and not (self.required or self.at_once)

    @property
    def takes_several(self) -> bool:
        return self.kind in {InputKind.TICKS, InputKind.ROWS}


class Shape(NamedTuple):
    """The inputs of a form, and the type that the browser's form is decoded into."""

    endpoint: Endpoint
    inputs: tuple[Input, ...]
    form: type[BoundForm]


def shape(endpoint: Endpoint, *asked: str | Asked) -> Shape:
    """The form for the body of an endpoint. Without names, the form asks for all fields that stand at the top of the body."""
    if endpoint.body_type is None:
        return Shape(endpoint, (), BoundForm)
    named = asked or tuple(one.name for one in msgspec.structs.fields(endpoint.body_type))
    asking = [one if isinstance(one, Asked) else Asked(one) for one in named]
    times = Counter(one.name for one in asking)
    body = inspect.type_info(endpoint.body_type)
    inputs = tuple(_input(endpoint, body, one, is_shared=times[one.name] > 1) for one in asking)
    pressed = [(PRESSED, Line, "")] if any(one.rows is not None or one.presets is not None for one in inputs) else []
    fields = [(WAS, Lines, ""), *pressed, *(_form_field(one) for one in inputs)]
    form: Any = msgspec.defstruct(f"{endpoint.handler.__name__}_form", fields, bases=(BoundForm,), frozen=True, kw_only=True)
    return Shape(endpoint, inputs, form)


def _form_field(one: Input) -> tuple[str, Any, Any]:
    if one.takes_several:
        return one.field, Sequence[Line], ()
    return (one.field, Secret, Secret("")) if one.kind is InputKind.SECRET else (one.field, _text_of(one), "")


def _text_of(one: Input) -> Any:
    """The bound of what a browser sends for the input. The endpoint's own bound words the refusal, beside the input."""
    return Lines if one.kind in _OF_LINES or one.attributes.get("maxlength", 0) > LONGEST_TYPED else Parameter


def _input(endpoint: Endpoint, described: Any, asked: Asked, *, is_shared: bool) -> Input:
    """`described` is the type of the body."""
    stated: inspect.Field | None = None
    for step in asked.name.split("."):
        structs = [one for one in _unwrapped(described) if isinstance(one, inspect.StructType)]
        stated = next((one for struct in structs for one in struct.fields if one.encode_name == step), None)
        if stated is None:
            raise InvalidForm(f"{endpoint} has no field {asked.name}")
        described = stated.type
    assert stated is not None  # noqa: S101 - for the type checker: a name has a step
    kinds = _unwrapped(described)
    allowed = tuple(str(value) for kind in kinds for value in _values(kind))
    kind = InputKind.ROWS if asked.rows is not None else asked.kind or _kind(kinds, asked, _most(described))
    needed = (
        stated.required or _is_never_empty(stated, kinds, kind) or asked.is_needed or (asked.under is not None and kind is InputKind.CHOICE)
    )
    required = needed and not _may_be_null(described) and kind not in _NEVER_EMPTY and asked.derived is None
    return Input(
        name=asked.name,
        kind=kind,
        required=required,
        nullable=_may_be_null(described),
        allowed=allowed,
        choices=asked.choices,
        attributes=_attributes(described, kinds, kind),
        label=asked.label or f"console.field.{asked.name.rpartition('.')[2]}",
        hint=asked.hint,
        default=_default(stated) if asked.at_first is None else asked.at_first,
        shown=_shown_under(asked.under, asked.shown or _reader(asked.name)),
        under=asked.under,
        stands_for=asked.stands_for,
        derived=asked.derived,
        rows=asked.rows,
        can_wait=asked.can_wait,
        at_once=asked.at_once,
        currency=asked.currency,
        unchosen=asked.unchosen or f"console.unchosen.{asked.name.rpartition('.')[2]}",
        in_force=asked.in_force,
        presets=asked.presets,
        is_shared=is_shared,
        optional=not (required or asked.at_once or asked.derived) and endpoint.method != "PATCH" and kind is not InputKind.VALUE,
    )


def _default(stated: inspect.Field) -> Any:
    return None if stated.default in {msgspec.NODEFAULT, msgspec.UNSET} else stated.default


def _is_never_empty(stated: inspect.Field, kinds: Sequence[inspect.Type], kind: InputKind) -> bool:
    """Whether the field of a change can be left out but not be empty, so that its input keeps a value."""
    has_least = any(isinstance(one, inspect.StrType) and one.min_length for one in kinds)
    return stated.default is msgspec.UNSET and (kind in {InputKind.NUMBER, InputKind.MONEY, InputKind.CHOICE, InputKind.CARDS} or has_least)


def _reader(name: str) -> Callable[[Any], Any]:
    steps = name.split(".")

    def read(record: Any) -> Any:
        for step in steps:
            record = record.get(step) if isinstance(record, Mapping) else getattr(record, step, None)
        return None if record is msgspec.UNSET else record

    return read


def _shown_under(under: tuple[str, str] | None, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if under is None:
        return read
    choice, value = under
    chosen = _reader(choice)
    return lambda record: read(record) if chosen(record) == value else None


def _unwrapped(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _unwrapped(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [inner for one in kind.types for inner in _unwrapped(one)]
    return [kind]


def _values(kind: inspect.Type) -> Sequence[Any]:
    if isinstance(kind, inspect.EnumType):
        return [one.value for one in kind.cls]
    if isinstance(kind, inspect.LiteralType):
        return kind.values
    if isinstance(kind, inspect.CollectionType):
        return [value for inner in _unwrapped(kind.item_type) for value in _values(inner)]
    if isinstance(kind, inspect.VarTupleType):
        return [value for inner in _unwrapped(kind.item_type) for value in _values(inner)]
    return ()


def _may_be_null(kind: inspect.Type) -> bool:
    return any(isinstance(one, inspect.NoneType) for one in _unwrapped(kind))


def _schema(kind: inspect.Type) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    pending = [kind]
    while pending:
        one = pending.pop()
        if isinstance(one, inspect.Metadata):
            found |= one.extra_json_schema or {}
            pending.append(one.type)
        elif isinstance(one, inspect.UnionType):
            pending += one.types
    return found


def _most(kind: inspect.Type) -> int | None:
    most = _schema(kind).get("maxLength")
    for one in _unwrapped(kind):
        most = most or getattr(one, "max_length", None)
    return most if isinstance(most, int) else None


# The first type that fits decides.
_KINDS: Final[tuple[tuple[Any, InputKind], ...]] = (
    (inspect.BoolType, InputKind.TICK),
    ((inspect.IntType, inspect.FloatType), InputKind.NUMBER),
    (inspect.DateTimeType, InputKind.MOMENT),
    ((inspect.EnumType, inspect.LiteralType), InputKind.CHOICE),
    ((inspect.CollectionType, inspect.VarTupleType), InputKind.LINES),
    ((inspect.DictType, inspect.AnyType), InputKind.JSON),
    (inspect.CustomType, InputKind.SECRET),
)


def _kind(kinds: Sequence[inspect.Type], asked: Asked, most: int | None) -> InputKind:
    takes_several = any(isinstance(one, inspect.CollectionType | inspect.VarTupleType) for one in kinds)
    if takes_several and (asked.choices is not None or any(map(_values, kinds))):
        return InputKind.TICKS
    if asked.choices is not None:
        return InputKind.CHOICE
    if asked.currency:
        return InputKind.MONEY
    for fits, kind in _KINDS:
        if any(isinstance(one, fits) for one in kinds):
            return kind
    return InputKind.LONG if most is not None and most > _LONG and asked.name.endswith(_OF_PARAGRAPHS) else InputKind.TEXT


def _attributes(described: inspect.Type, kinds: Sequence[inspect.Type], kind: InputKind) -> Mapping[str, Any]:
    schema, found = _schema(described), dict[str, Any]()
    if kind in {InputKind.TEXT, InputKind.LONG, InputKind.SECRET} and (most := _most(described)) is not None:
        found["maxlength"] = most
    if kind is InputKind.NUMBER:
        numbers = [one for one in kinds if isinstance(one, inspect.IntType | inspect.FloatType)]
        least = schema.get("minimum", next((one.ge for one in numbers), None))
        largest = schema.get("maximum", next((one.le for one in numbers), None))
        found |= {name: value for name, value in (("min", least), ("max", largest)) if value is not None}
    return found


def _bound(kind: FieldKind, name: str, hint: str = "") -> Asked:
    return Asked(
        f"rule.{name}",
        kind=InputKind.LINES if name == "choices" else None,
        under=("kind", kind),
        label=f"console.declared_fields.{name}",
        hint=hint,
    )


FIELD_BOUNDS: Final = (
    _bound(FieldKind.TEXT, "min_length"),
    _bound(FieldKind.TEXT, "max_length"),
    _bound(FieldKind.NUMBER, "minimum"),
    _bound(FieldKind.NUMBER, "maximum"),
    _bound(FieldKind.DATE, "earliest", "console.declared_fields.date_hint"),
    _bound(FieldKind.DATE, "latest", "console.declared_fields.date_hint"),
    _bound(FieldKind.CHOICE, "choices", "console.declared_fields.choices_hint"),
    _bound(FieldKind.LIST, "choices", "console.declared_fields.list_hint"),
    _bound(FieldKind.LIST, "max_items"),
    _bound(FieldKind.LIST, "max_length"),
)
FIELD_ASKED: Final = ("written_by", Asked("asked_at", hint="console.declared_fields.asked_at_hint"), "required")
"""Who writes values, and when a person is asked for one."""
NEW_FIELD: Final = (
    "label",
    Asked("key", hint="console.declared_fields.key_hint", derived=ShortName("label", "field", "_")),
    Asked("kind", kind=InputKind.CARDS),
    *FIELD_BOUNDS,
    *FIELD_ASKED,
)
FIELD_COLUMNS: Final = (
    plain("label"),
    code("key"),
    words("kind", FieldKind),
    words("written_by", FieldWriter),
    words("asked_at", FieldPrompt),
    yes_or_no("required"),
)
FIELD_FACTS: Final = (
    code("key"),
    words("kind", FieldKind),
    words("written_by", FieldWriter),
    words("asked_at", FieldPrompt),
    yes_or_no("required"),
    number("position"),
    listed("rule.choices"),
    yes_or_no("rule_is_lost"),
    when("created_at"),
    when("updated_at"),
)
