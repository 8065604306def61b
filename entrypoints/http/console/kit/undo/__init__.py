"""Undo: for ten minutes, the page of changed settings shows what they were, and a button puts them back.

A form says what it changes with `noted`, and the transaction of the change keeps it. Putting back calls the endpoint of the form again,
with the texts of before: so the rule, the limits, the fresh proof and the refusals are those of any change. Only fields that the form
changed are put back, and only while they have the values that the form gave them.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from core.domain.errors import Refusal
from core.domain.identifiers import ChangedSettingId
from core.domain.record.changed_settings import ChangedSetting, SettingChange, SettingsOvertaken, TakenBack, is_kept
from core.domain.secrets import Token
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Input, InputKind, Shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.sent_forms import (
    SeveralFaults,
    WrongInput,
    body_of,
    explained,
    of_record,
    said_back,
    sent_texts,
    with_their_choices,
)
from entrypoints.http.console.kit.sent_forms import texts_of as all_texts_of
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import Lines

# A change that comes in between is compared anew. So many in a row do not happen by chance.
_TRIES: Final = 3
_LONGEST_SHOWN: Final = 200


class Undoable(Frozen, kw_only=True):
    """A form whose changes can be put back."""

    name: str
    """The form's name among the forms of its page."""
    page: str
    """The template of the address of the page that shows the settings."""
    at: str
    """The template of the form's own address."""
    shape: Shape
    find: Callable[[PageVisit], Awaitable[Any]]
    """Reads the settings."""
    position: PagePosition
    whole: bool = False
    """Whether the endpoint sets all fields at once."""
    fixed: Callable[[Any], Mapping[str, Any]] = lambda _record: {}
    """Values of the body that the endpoint wants in each call, from the record."""

    @property
    def address(self) -> str:
        """The template of the address that puts back."""
        return f"{self.at}/undo"

    def called(self, visit: PageVisit) -> str:
        """The name of the page that shows the settings."""
        return visit.text(self.position.tab.label)


class OfferedUndo(Frozen):
    """A change that the page offers to put back."""

    change: ChangedSetting
    action: str
    was: Sequence[tuple[str, str]]
    """Labels and values of before."""


class UndoForm(BoundForm, frozen=True, kw_only=True):
    change: Lines = ""
    """The id of the change to put back."""


def noted(undoable: Undoable, visit: PageVisit, own: Sequence[Input], record: Any, form: Any) -> SettingChange | None:
    """What the form is about to change. None if there is nothing that could be put back: the settings are new, or secrets, or too long."""
    inputs = of_record(undoable.shape.inputs, record)
    changing = _open(with_their_choices(inputs, own))
    if record is None or not _open(own):
        return None
    sent = sent_texts(changing, form)
    return _change(undoable, visit, texts_of(changing, record), sent)


def _change(
    undoable: Undoable, visit: PageVisit, before: Mapping[str, Any], after: Mapping[str, Any], taken: TakenBack | None = None
) -> SettingChange | None:
    if not is_kept(before, after):
        return None
    new = ChangedSettingId(visit.postern.foundation.ids.new())
    return SettingChange(new, visit.here(undoable.page), undoable.name, before, after, taken)


@asynccontextmanager
async def changing(visit: PageVisit, change: SettingChange | None) -> AsyncIterator[None]:
    """The endpoint that the page asks meanwhile makes this change."""
    visit.call.request.change = change
    try:
        yield
    finally:
        visit.call.request.change = None


async def offered(visit: PageVisit, record: Any, undoables: Sequence[Undoable]) -> Sequence[OfferedUndo]:
    """What the page of the record offers to put back: nothing that has its earlier value already."""
    own = {one.name: one for one in undoables if visit.may(one.shape.endpoint)}
    if record is None or not own:
        return ()
    (page,) = {one.page for one in own.values()}
    found = [(own[one.section], one) for one in await _recent(visit, page, record) if one.section in own]
    return [
        OfferedUndo(one, visit.here(undoable.address), was)
        for undoable, one in found
        if (was := [(visit.text(field.label), await _shown(visit, field, one.before)) for field in _differing(undoable, one, record)])
    ]


def undo_pages(undoable: Undoable) -> Sequence[Endpoint]:
    endpoint = undoable.shape.endpoint

    async def show(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        undos = await offered(visit, await undoable.find(visit), (undoable,))
        return Answer(_page(undoable, visit, "" if undos else "too_late", undos=undos), 200)

    async def put_back(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        onward = visit.here(undoable.page)
        for _ in range(_TRIES):
            record = await undoable.find(visit)
            one = next((one for one in await _recent(visit, undoable.page, record) if str(one.id) == call.body.change), None)
            if one is None or one.section != undoable.name or record is None:
                return Answer(_page(undoable, visit, "too_late"), 409)
            fields = _differing(undoable, one, record)
            if not fields:
                return redirect(f"{onward}?done=unchanged")
            if not one.was_last and (others := _moved(undoable, one, record)):
                return Answer(_page(undoable, visit, "overtaken", await _compared(undoable, visit, others, one, record)), 409)
            try:
                await _put_back(undoable, visit, one, record)
            except SettingsOvertaken:
                continue
            except (WrongInput, SeveralFaults, Refusal) as problem:
                errors, status = explained(visit, problem, undoable.shape.inputs)
                said = {"": next(iter(errors.values()))}
                return Answer(_page(undoable, visit, "refused", await _compared(undoable, visit, fields, one, record), errors=said), status)
            return redirect(f"{onward}?done=put_back")
        return Answer(_page(undoable, visit, "overtaken"), 409)

    name = f"{undoable.name}_on_{undoable.page}".translate({ord(one): "_" for one in "/{}~-"})
    # After a fresh proof, the person comes back to this address.
    showing = [console.get(undoable.address, of=endpoint)(stated(show, f"show_undo_of_{name}", undoable.address))]
    return (
        *(showing if endpoint.step_up is not None else ()),
        console.post(undoable.address, of=endpoint)(stated(put_back, f"undo_{name}", undoable.address, body=UndoForm)),
    )


async def _put_back(undoable: Undoable, visit: PageVisit, one: ChangedSetting, record: Any) -> None:
    shaped = undoable.shape
    inputs = of_record(shaped.inputs, record)
    present = texts_of(_open(inputs), record)
    before = {name: text for name, text in one.before.items() if name in present}
    form = shaped.form(form_token=Token(""), **{**present, **before})
    own = [field for field in inputs if field.field in before or field.required]
    body = body_of(shaped, form, only=None if undoable.whole else own, fixed=undoable.fixed(record))
    now = {name: present[name] for name in before}
    async with changing(visit, _change(undoable, visit, now, before, one.taken_back)):
        await visit.ask(shaped.endpoint, body=body)


def _page(
    undoable: Undoable,
    visit: PageVisit,
    why: str,
    compared: Sequence[tuple[str, str, str]] = (),
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    undos: Sequence[OfferedUndo] = (),
) -> bytes:
    head = Head(
        title=visit.text("console.undo.not_put_back") if why else undoable.called(visit),
        crumbs=((undoable.called(visit), visit.here(undoable.page)),),
        errors=errors,
    )
    return visit.show(
        "undo/undo.html",
        undoable.position,
        head,
        explained=visit.text(f"console.undo.{why}") if why else "",
        undos=undos,
        compared=compared,
        back=visit.here(undoable.page),
    )


async def _recent(visit: PageVisit, page: str, record: Any) -> Sequence[ChangedSetting]:
    caller = visit.call.caller
    organization = caller.organization if isinstance(caller, Member) else None
    thing = getattr(record, "id", None)
    return await visit.postern.record.changes.list(organization, visit.here(page), None if thing is None else str(thing))


def texts_of(inputs: Sequence[Input], record: Any) -> Mapping[str, Any]:
    """The present texts, in the form in which they are kept."""
    return {name: text if isinstance(text, str) else tuple(text) for name, text in all_texts_of(inputs, record).items()}


def _open(inputs: Sequence[Input]) -> Sequence[Input]:
    """The inputs that are no secrets."""
    return [one for one in inputs if one.kind is not InputKind.SECRET]


def _differing(undoable: Undoable, one: ChangedSetting, record: Any) -> Sequence[Input]:
    """The fields that do not have their earlier value."""
    return [field for field, now in _present(undoable, one, record) if not _is_same(field, now, one.before[field.field])]


def _moved(undoable: Undoable, one: ChangedSetting, record: Any) -> Sequence[Input]:
    """The fields that do not have the value that the change gave them."""
    return [field for field, now in _present(undoable, one, record) if not _is_same(field, now, one.after.get(field.field, ""))]


def _present(undoable: Undoable, one: ChangedSetting, record: Any) -> Sequence[tuple[Input, Any]]:
    inputs = [field for field in _open(of_record(undoable.shape.inputs, record)) if field.field in one.before]
    present = texts_of(inputs, record)
    return [(field, present[field.field]) for field in inputs]


def _is_same(field: Input, one: Any, other: Any) -> bool:
    return bool(_plainly(field, one) == _plainly(field, other))


def _plainly(field: Input, text: Any) -> Any:
    if not isinstance(text, str):
        return list(text) if field.rows is not None else sorted(text)
    if field.kind is InputKind.MONEY:
        # "9,9" and "9.90" are the same amount.
        whole, _, part = text.strip().replace(",", ".").partition(".")
        return whole, part.rstrip("0")
    if field.kind is InputKind.JSON:
        try:
            return json.loads(text or "{}")
        except (ValueError, RecursionError):
            return text
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


async def _compared(
    undoable: Undoable, visit: PageVisit, fields: Sequence[Input], one: ChangedSetting, record: Any
) -> Sequence[tuple[str, str, str]]:
    """Label, the value of before, and the present value."""
    now = texts_of(with_their_choices(undoable.shape.inputs, fields), record)
    return [(visit.text(field.label), await _shown(visit, field, one.before), await _shown(visit, field, now)) for field in fields]


async def _shown(visit: PageVisit, field: Input, texts: Mapping[str, Any]) -> str:
    said = await said_back(visit, field, texts[field.field])
    if field.kind is InputKind.MONEY:
        said = f"{said} {texts.get(field.currency, '').upper()}".strip()
    return said if len(said) <= _LONGEST_SHOWN else f"{said[:_LONGEST_SHOWN]}…"
