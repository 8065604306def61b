"""The texts of forms: the texts that a form shows, and the body that the browser's texts make.

A browser sends text alone. `body_of` makes the endpoint's body from it, so that the endpoint's own rules decide about every value.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.secrets import Secret
from core.domain.services.plans import in_smallest_unit
from core.frozen import replace
from entrypoints.http.console.kit.cells import field_of, in_words
from entrypoints.http.console.kit.forms import WAS, Choice, Input, InputKind, Shape
from entrypoints.http.console.kit.rows import PRESSED, cut, filled, joined, lines_of, place_of, pressed_on
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.decoding import convert, decode_own_type
from entrypoints.http.machinery.errors import NotAsDeclared, status_of

Place = tuple[int, str]


class WrongInput(Exception):
    """A value that the body's type does not take, of this input; or a body that the inputs of the form cannot mend. `others` are further
    values that do not fit, so that a form says all of its faults at once. `cells` has the line and the field of a fault in rows, by the
    name of the input.
    """

    def __init__(
        self,
        one: Input | None,
        given: Any = "",
        others: Sequence[tuple[Input, Any]] = (),
        cells: Mapping[str, Place] = MappingProxyType({}),
    ) -> None:
        super().__init__("" if one is None else one.name)
        self.input = one
        self.given = given
        self.others = others
        self.cells = cells


class SeveralFaults(Exception):
    """Refusals of several fields of one form, which its page says at once."""

    def __init__(self, faults: Sequence[BadRequest]) -> None:
        super().__init__(", ".join(fault.message for fault in faults))
        self.faults = faults


def require_one_at_most(faults: Sequence[BadRequest]) -> None:
    """The endpoint has the words for a single fault. Raises `SeveralFaults`."""
    if len(faults) >= _SEVERAL:
        raise SeveralFaults(faults)


Problem = WrongInput | SeveralFaults | Refusal
# The place in a message of a type: `… - at `$[1].max_age``.
_CELL: Final = re.compile(r"\$\[(?P<line>\d+)\]\.(?P<part>[a-z_]+)")
_LONGEST_SEALED: Final = 64
_SEVERAL: Final = 2
# Of several values, a page says so many, and how many more there are.
_MOST_SAID: Final = 6
_MOST_ROWS: Final = 12
Drawn = tuple[Input, Any, Sequence[Any]]
"""An input with its present text, and its choices or rows."""
# The place at the start of a refusal's message: `redirect_uris[0]: …`, `rule: choices: …`, `scopes[1].name: …`.
_PLACE: Final = re.compile(r"(?P<name>[a-z_]+(?:(?:\.|: )[a-z_]+)*)(?:\[(?P<line>\d+)\](?:\.(?P<part>[a-z_]+))?)?[^: ]*: ")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _no_constant(name: str) -> None:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(name)


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


_TEXTS: Final[Mapping[InputKind, Callable[[Any], str]]] = MappingProxyType(
    {
        InputKind.TICK: lambda value: "yes" if value else "",
        InputKind.LINES: lambda value: "\n".join(str(_plain(item)) for item in value),
        InputKind.JSON: lambda value: json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=2) if value else "",
        InputKind.VALUE: lambda value: value if isinstance(value, str) and not _is_json(value) else json.dumps(value, ensure_ascii=False),
        InputKind.MOMENT: lambda value: value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M"),
    }
)


_MISFITS: Final[Mapping[InputKind, str]] = MappingProxyType(
    {
        InputKind.JSON: "console.not_json",
        InputKind.MONEY: "refusals.amount_malformed",
        InputKind.MOMENT: "console.not_a_moment",
        InputKind.CHOICE: "refusals.field_choice",
        InputKind.CARDS: "refusals.field_choice",
        InputKind.TICKS: "refusals.field_choice",
        InputKind.LINES: "console.lines_do_not_fit",
        InputKind.ROWS: "console.lines_do_not_fit",
    }
)


def text_of(one: Input, value: Any) -> Any:
    """A value as the form shows it: text, or a list of texts for an input that takes several. A secret is never shown."""
    if one.rows is not None:
        return joined(one.rows, value or ())
    if one.takes_several:
        return sorted(str(_plain(item)) for item in value or ())
    if value is None or one.kind is InputKind.SECRET:
        return ""
    return _TEXTS[one.kind](value) if one.kind in _TEXTS else str(_plain(value))


def texts_of(inputs: Sequence[Input], record: Any) -> dict[str, Any]:
    """By the name of the HTML field. A record of None means a new thing: the form shows the defaults of the body."""
    return {one.field: text_of(one, one.default if record is None else one.shown(record)) for one in inputs}


def sent_texts(inputs: Sequence[Input], form: BoundForm) -> dict[str, Any]:
    """The texts of a form that was sent, without secrets: a page never shows a secret again."""
    return {
        one.field: "" if one.kind is InputKind.SECRET else _several(one, given) if one.takes_several else given.replace("\r\n", "\n")
        for one in inputs
        for given in (getattr(form, one.field),)
    }


def _several(one: Input, given: Sequence[str]) -> list[str]:
    return sorted(_ticked(given)) if one.rows is None else joined(one.rows, filled(one.rows, given))


def with_rows(visit: PageVisit, inputs: Sequence[Input], form: BoundForm) -> dict[str, Any] | None:
    """The texts of a form whose button adds a row or takes one away, or ticks a preset. None if the form was sent by another button."""
    of, _, what = getattr(form, PRESSED, "").partition(" ")
    for one in inputs:
        if one.presets is not None and of == one.field:
            return {**sent_texts(inputs, form), of: next((list(each.values) for each in one.presets(visit) if each.name == what), [])}
        if one.rows is not None and (rows := pressed_on(one.rows, one.field, form)) is not None:
            return {**sent_texts(inputs, form), one.field: rows}
    return None


def sealed(texts: Mapping[str, Any]) -> str:
    """For the hidden field `WAS`."""
    return json.dumps({name: _brief(text) for name, text in texts.items()}, ensure_ascii=False, sort_keys=True)


def _brief(text: Any) -> str:
    """A long text as its digest, since pages stay light. Texts are compared alone."""
    whole = text if isinstance(text, str) else "\n".join(text)
    return whole if len(whole) <= _LONGEST_SEALED else sha256(whole.encode()).hexdigest()


def unsealed(was: str) -> Mapping[str, Any]:
    """The hidden field comes back from the browser, so its content may be anything."""
    try:
        texts = json.loads(was)
    except (ValueError, RecursionError):
        return {}
    return texts if isinstance(texts, dict) else {}


def changed(inputs: Sequence[Input], form: BoundForm) -> tuple[Input, ...]:
    """The inputs whose value differs from the value that the form showed. A secret counts if it was given."""
    was, sent = unsealed(getattr(form, WAS)), sent_texts(inputs, form)
    return tuple(
        one
        for one in inputs
        if (getattr(form, one.field).reveal() if one.kind is InputKind.SECRET else _brief(sent[one.field]) != was.get(one.field))
    )


def moved(inputs: Sequence[Input], form: BoundForm, record: Any) -> tuple[Input, ...]:
    """The changed inputs whose value somebody else has changed since the form was shown."""
    was, now = unsealed(getattr(form, WAS)), texts_of(inputs, record)
    return tuple(one for one in changed(inputs, form) if one.kind is not InputKind.SECRET and _brief(now[one.field]) != was.get(one.field))


def body_of(shaped: Shape, form: BoundForm, *, only: Sequence[Input] | None = None, fixed: Mapping[str, Any] | None = None) -> Any:
    """The endpoint's body, or None if it takes none. `only` has the inputs of a change; `fixed` has values that the page itself gives.
    Raises `WrongInput`, and `SeveralFaults` for rows that say nothing that the endpoint knows.
    """
    if shaped.endpoint.body_type is None:
        return None
    body: dict[str, Any] = dict(fixed or {})
    asked = shaped.inputs if only is None else with_their_choices(shaped.inputs, only)
    counted = counting(asked, form)
    wrong, faults = list[Input](), list[BadRequest]()
    for one in asked:
        try:
            value = _sent(one, getattr(form, one.field), form) if one in counted else _not_chosen(shaped, one, counted)
            stood_for = None if one.stands_for is None or value is msgspec.UNSET else one.stands_for(value)
        except WrongInput:
            wrong.append(one)
            continue
        except SeveralFaults as several:
            faults += several.faults
            continue
        if value is msgspec.UNSET:
            continue
        if stood_for is not None:
            for name, part in stood_for.items():
                # Several inputs may each stand for a part of the same mapping.
                body[name] = {**body[name], **part} if isinstance(part, Mapping) and isinstance(body.get(name), Mapping) else part
            continue
        *steps, last = one.name.split(".")
        inner = body
        for step in steps:
            inner = inner.setdefault(step, {})
        inner[last] = value
    if faults:
        raise SeveralFaults(faults)
    return _converted(shaped, body, [one for one in asked if one in counted], wrong, form)


def _converted(shaped: Shape, body: Mapping[str, Any], counted: Sequence[Input], wrong: Sequence[Input], form: BoundForm) -> Any:
    """The body, if nothing is `wrong` already. Raises `WrongInput` with all inputs whose values do not fit."""
    assert shaped.endpoint.body_type is not None  # noqa: S101 - for the type checker: the caller has looked
    try:
        made = convert(body, shaped.endpoint.body_type)
    except NotAsDeclared as refusal:
        first, *_ = _placed(refusal.message, counted)
        if first is None and not wrong:
            raise WrongInput(None) from None
        wrong = [*wrong, *(one for one in counted if one is first or _misfit_in(shaped, one, body) is not None)]
    else:
        # The use case has words of its own for a single fault.
        if not wrong and sum(_is_out_of_bounds(one, form) for one in counted) < _SEVERAL:
            return made
    wrong = [*wrong, *(one for one in counted if _is_out_of_bounds(one, form))]
    (one, given), *others = [(one, getattr(form, one.field)) for one in counted if one in wrong]
    cells = {one.name: _cell(found) for one in wrong if one.rows is not None and (found := _misfit_in(shaped, one, body))}
    raise WrongInput(one, given, others, {name: cell for name, cell in cells.items() if cell is not None})


def _cell(message: str) -> Place | None:
    found = _CELL.search(message)
    return None if found is None else (int(found["line"]), found["part"])


def _is_out_of_bounds(one: Input, form: BoundForm) -> bool:
    """Whether a required text is empty, or a text is longer than its field takes."""
    given = getattr(form, one.field)
    if one.kind not in {InputKind.TEXT, InputKind.LONG, InputKind.SECRET} or not isinstance(given, str):
        return False
    most = one.attributes.get("maxlength")
    return (one.required and not given.strip()) or (most is not None and len(given) > most)


def _misfit_in(shaped: Shape, one: Input, body: Mapping[str, Any]) -> str | None:
    """The message of the type of the body's field, if it refuses the value of this input. Parts of a field are left to the body as a
    whole.
    """
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(shaped.endpoint.body_type)}
    if one.name not in body or one.name not in kinds:
        return None
    try:
        msgspec.convert(body[one.name], kinds[one.name], strict=False, dec_hook=decode_own_type)
    except (ValueError, OverflowError) as error:
        return str(error)
    return None


def counting(inputs: Sequence[Input], form: BoundForm) -> Sequence[Input]:
    """The inputs without those under a value that the form did not choose."""
    return [one for one in inputs if one.under is None or getattr(form, one.under[0], one.under[1]) == one.under[1]]


def of_record(inputs: Sequence[Input], record: Any) -> Sequence[Input]:
    """The inputs that a form about the record asks for: without those under a value that the record does not have, and cannot get."""
    names = {one.name for one in inputs}
    return [
        one
        for one in inputs
        if record is None or one.under is None or one.under[0] in names or getattr(record, one.under[0], None) == one.under[1]
    ]


async def said_back(visit: PageVisit, one: Input, given: Any) -> str:
    """A text of the form, or several, as people say it: a choice as the form says it."""
    if one.kind is InputKind.TICK:
        return visit.text("console.yes" if given == "yes" else "console.no")
    if not given:
        return visit.text(one.unchosen if one.can_stay_open else "console.nothing", in_force=_in_force(visit, one))
    if one.rows is not None:
        return "; ".join(lines_of(one.rows, given, visit.text))
    items = given if one.takes_several else given.split("\n")
    labels = {choice.value: choice.label for choice in await _choices(visit, one)}
    return ", ".join(labels.get(each, each) for each in items)


def with_their_choices(inputs: Sequence[Input], only: Sequence[Input]) -> Sequence[Input]:
    """A choice and the inputs under it go together, and so do an amount and its currency."""
    choices = {one.under[0] if one.under is not None else one.name for one in only} & {one.name for one in inputs}
    choices |= {one.currency for one in only}
    return [
        one
        for one in inputs
        if one in only or one.name in choices or one.currency in choices - {""} or (one.under is not None and one.under[0] in choices)
    ]


def _not_chosen(shaped: Shape, one: Input, counted: Sequence[Input]) -> Any:
    """A change empties what the chosen value does not have."""
    is_another = any(other.name == one.name for other in counted)
    return None if shaped.endpoint.method == "PATCH" and not is_another else msgspec.UNSET


def _sent(one: Input, given: Any, form: BoundForm) -> Any:
    if one.takes_several:
        return _ticked(given) if one.rows is None else filled(one.rows, given)
    if isinstance(given, Secret):
        return given.reveal() or msgspec.UNSET
    if one.kind is InputKind.TICK:
        return given == "yes"
    if one.kind is InputKind.LINES:
        lines = [line.strip() for line in given.splitlines() if line.strip()]
        return lines if lines or not one.nullable else None
    stripped = given.strip()
    if not stripped and not one.required:
        return _empty(one)
    return _amount(one, stripped, getattr(form, one.currency)) if one.kind is InputKind.MONEY else _parsed(one, stripped)


def _amount(one: Input, given: str, currency: str) -> int:
    try:
        return in_smallest_unit(given, currency)
    except BadRequest:
        raise WrongInput(one, given) from None


def _ticked(given: Sequence[str]) -> list[str]:
    """The values that were ticked, each once. The tick of a group has all values of the group, with spaces between."""
    return list(dict.fromkeys(value for one in given for value in one.split()))


def _parsed(one: Input, given: str) -> Any:
    if one.kind is InputKind.VALUE:
        return json.loads(given) if _is_json(given) else given
    try:
        if one.kind is InputKind.JSON:
            return json.loads(given or "{}")
        if one.kind is InputKind.MOMENT:
            return datetime.fromisoformat(given).replace(tzinfo=UTC).isoformat()
    except (ValueError, RecursionError):
        raise WrongInput(one, given) from None
    return given


def _empty(one: Input) -> Any:
    """The value of an input that was left empty: null where the body takes null, an empty text, or nothing at all."""
    if one.nullable or one.kind is InputKind.VALUE:
        return None
    if one.kind is InputKind.JSON:
        return {}
    return "" if one.kind in {InputKind.TEXT, InputKind.LONG} else msgspec.UNSET


def _in_force(visit: PageVisit, one: Input) -> str:
    return "" if one.in_force is None else one.in_force(visit)


async def drawn(visit: PageVisit, inputs: Sequence[Input], texts: Mapping[str, Any]) -> Sequence[Drawn]:
    """Each input with its present text and its choices, or its rows."""
    made = list[Drawn]()
    for one in inputs:
        choices: Sequence[Any] = await _choices(visit, one) if one.rows is None else cut(one.rows, texts.get(one.field, ()))
        shown = one if one.in_force is None else replace(one, in_force_words=_in_force(visit, one))
        if one.presets is not None:
            shown = replace(shown, offered=one.presets(visit))
        made.append((shown, texts.get(one.field, [] if one.takes_several else ""), choices))
    return made


async def _choices(visit: PageVisit, one: Input) -> Sequence[Choice]:
    if one.choices is not None:
        return await one.choices(visit)
    return [Choice(value, in_words(field_of(one.label), value, visit.text)) for value in one.allowed]


def has_words(one: Input) -> bool:
    """Whether the present value can be said in a line. A secret cannot, nor what programs read."""
    return one.kind not in {InputKind.SECRET, InputKind.JSON, InputKind.LONG} and one.label != "console.field.name"


def present_values(visit: PageVisit, inputs: Sequence[Drawn]) -> Sequence[tuple[str, str]]:
    """What a form would change, as it is now: the label of each input and its value. What is empty says nothing. Rows have their names in
    place of labels, and a currency stands at its amount.
    """
    texts = {one.name: value for one, value, _ in inputs}
    priced = {one.currency: f" {texts[one.currency].upper()}" for one, _, _ in inputs if one.currency}
    shown = [(one, f"{value}{priced[one.currency]}" if one.currency else value, choices) for one, value, choices in inputs]
    return [
        pair
        for one, value, choices in shown
        if has_words(one) and one.name not in priced
        for pair in _presented(visit, one, value, choices)
    ]


def _presented(visit: PageVisit, one: Input, value: Any, choices: Sequence[Any]) -> Sequence[tuple[str, str]]:
    if one.rows is not None:
        beyond = len(choices) - _MOST_ROWS
        more = [(f"+{beyond}", "…")] if beyond > 0 else []
        return [*(one.rows.said(visit.text, row) for row in choices[:_MOST_ROWS]), *more]
    said = _present(visit, one, value, choices)
    return [(visit.text(one.label), said)] if said else []


def _present(visit: PageVisit, one: Input, value: Any, choices: Sequence[Choice]) -> str:
    if one.kind is InputKind.TICK:
        return visit.text("console.yes" if value == "yes" else "console.no")
    values = value if one.takes_several else [line for line in value.split("\n") if line]
    labels = {choice.value: choice.label for choice in choices}
    said = [labels.get(each, each) for each in values]
    beyond = len(said) - _MOST_SAID
    return ", ".join(said[:_MOST_SAID]) + (f" +{beyond}" if beyond > 0 else "")


def example_of(shaped: Shape) -> Mapping[str, Any]:
    """A body for the line of the shell: what must be given, by its name."""
    return {one.name: [] if one.takes_several else "…" for one in shaped.inputs if one.required}


def explained(visit: PageVisit, problem: Problem, inputs: Sequence[Input] = ()) -> tuple[Mapping[str, str], int]:
    """The errors of a form with these inputs after a problem, and the status of the answer. Raises what is no fault of the form."""
    if isinstance(problem, WrongInput):
        if problem.input is None:
            return {"": visit.text("refusals.bad_request")}, 400
        wrong = ((problem.input, problem.given), *problem.others)
        return dict(_misfit_at(visit, one, given, problem.cells.get(one.name)) for one, given in wrong), 400
    if isinstance(problem, SeveralFaults):
        # Of a field with two faults, the first stands.
        each = [explained(visit, fault, inputs)[0] for fault in reversed(problem.faults)]
        return {field: words for one in each for field, words in one.items()}, 400
    if isinstance(problem, NotFound) or status_of(problem) >= 500:
        raise problem
    one, line, part = _placed(problem.message, inputs)
    said = visit.said(problem)
    if one is not None and one.rows is not None and line is not None:
        named = one.rows.faults.get(problem.words, one.rows.fields[0].name)
        return {place_of(one.field, line, part if one.rows.field(part) is not None else named): said}, status_of(problem)
    if one is not None and one.kind is InputKind.LINES and line is not None:
        said = visit.text("console.at_line", number=line + 1, problem=said)
    return {getattr(problem, "field", "") if one is None else one.field: said}, status_of(problem)


def _placed(message: str, inputs: Sequence[Input]) -> tuple[Input | None, int | None, str]:
    """The input that a message for programs is about, the number of the line in it, and the field of that row."""
    found = _PLACE.match(message)
    if found is None:
        return None, None, ""
    name = found["name"].replace(": ", ".")
    one = next((one for one in inputs if one.name == name or name.startswith(f"{one.name}.")), None)
    return one, None if found["line"] is None else int(found["line"]), found["part"] or ""


def _misfit_at(visit: PageVisit, one: Input, given: Any, cell: Place | None) -> tuple[str, str]:
    """The place of an error, and its words."""
    if one.rows is None or cell is None:
        return one.field, _misfit(visit, one, given)
    line, part = cell
    field = one.rows.field(part)
    bounds = None if field is None else field.bounds
    said = visit.text("console.does_not_fit") if bounds is None else visit.text("refusals.field_bounds", least=bounds[0], most=bounds[1])
    return place_of(one.field, line, part), said


def _misfit(visit: PageVisit, one: Input, given: Any) -> str:
    """The reader's words for a value that does not have the type of its field."""
    if one.kind is InputKind.NUMBER:
        least, most = one.attributes.get("min"), one.attributes.get("max")
        return (
            visit.text("refusals.field_number")
            if least is None or most is None
            else visit.text("refusals.field_bounds", least=least, most=most)
        )
    if one.kind in _MISFITS:
        return visit.text(_MISFITS[one.kind])
    text = given.reveal() if isinstance(given, Secret) else given
    if not text.strip():
        return visit.text("refusals.field_text")
    most = one.attributes.get("maxlength")
    return visit.text("refusals.text_too_long", most=most) if most is not None and len(text) > most else visit.text("console.does_not_fit")
