"""The page of a record, and the forms on it that change the record."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from core.domain.errors import Conflict, Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.cells import Cell, Column
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import WAS, Input
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.resources import Resource, Section
from entrypoints.http.pages.console.sent_forms import (
    WrongInput,
    body_of,
    changed,
    counting,
    drawn,
    explained,
    has_words,
    moved,
    of_record,
    present_values,
    said_back,
    sealed,
    sent_texts,
    texts_of,
    with_rows,
)
from entrypoints.http.pages.console.undo.undo_pages import changing, noted, offered
from entrypoints.http.pages.console.visit import NO_ERRORS, ActLink, AnyCall, DoneLink, Head, Page, PageVisit

_DANGER: Final = "danger"
_KNOWN_SELDOM: Final = frozenset({"console.field.id", "console.field.created_at", "console.field.updated_at"})


class SentSection(NamedTuple):
    """A form that was sent, and is shown again."""

    section: Section
    texts: Mapping[str, Any]
    was: str = ""
    """The values with which the form began, if it was sent for another row and goes on."""


def record_page(resource: Resource) -> Endpoint:
    async def handler(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        if resource.instead is not None and (where := await resource.instead(visit)):
            return redirect(where)
        return Answer(await shown(resource, visit, await resource.find(visit), done=call.query.done), 200)

    of = resource.record or resource.listed
    return console.get(resource.one, of=of, also=resource.also)(
        stated(handler, f"show_one_of_{resource.name}", resource.one, query=DoneLink)
    )


async def shown(
    resource: Resource,
    visit: PageVisit,
    record: Any,
    *,
    done: str = "",
    errors: Mapping[str, str] = NO_ERRORS,
    given: SentSection | None = None,
    meanwhile: Sequence[tuple[str, str]] = (),
    told: tuple[bool, str] | None = None,
    opened: str = "",
) -> bytes:
    """The page of a record. `given` has the section whose form was sent, with its texts. `meanwhile` has what somebody else has changed,
    `told` what an act has tried. `opened` is the address of the form that is asked for.
    """
    acts = _acts(resource, visit, record)
    columns = resource.facts or resource.columns
    sections = [
        await _section(resource, visit, record, one, given)
        for one in resource.sections
        if visit.may(one.shape.endpoint) and of_record(one.shape.inputs, record)
    ]
    # What a panel shows and changes needs no place among the facts.
    panels = {one.label for section in sections for one, _, _ in section[2] if has_words(one)}
    head = Head(
        title=resource.call(visit, record),
        state=_state(resource, visit, record),
        crumbs=resource.above(visit),
        acts=acts[0],
        endings=acts[1],
        known=[] if record is None else facts_of([one for one in columns if one.label in _KNOWN_SELDOM], visit, record),
        curl=visit.curl(resource.record or resource.listed),
        done=done,
        errors=errors,
    )
    return visit.show(
        resource.template,
        resource.position,
        head,
        empty=(resource.text(visit, "empty_title"), resource.text(visit, "empty_text")) if record is None else None,
        facts=[]
        if record is None
        else [
            (label, cell)
            for label, cell in facts_of([one for one in columns if one.label not in {*_KNOWN_SELDOM, *panels}], visit, record)
            if cell.kind != "none"
        ],
        sections=sections,
        at_fault=None if given is None else visit.here(f"{resource.one}/{given.section.name}"),
        opened=opened,
        below=[(visit.text(label), visit.here(where)) for label, where, of in resource.below if visit.may(of)],
        meanwhile=meanwhile,
        told=told,
        undos=await offered(visit, record, resource.undoables),
        **({} if resource.more is None or record is None else await resource.more(visit, record)),
    )


def _acts(resource: Resource, visit: PageVisit, record: Any) -> tuple[Sequence[ActLink], Sequence[ActLink]]:
    """What one can do with the record, and what ends it."""
    if record is None:
        return (), ()
    acts = [
        ActLink(
            resource.text(visit, f"act_{act.name}"), visit.here(f"{resource.one}/{act.name}"), act.asks or act.shape is not None, act.kind
        )
        for act in resource.acts
        if visit.may(act.endpoint) and act.shows(record)
    ]
    endings = [one for one in acts if one.kind == _DANGER]
    if resource.ending is not None and visit.may(resource.ending.endpoint):
        endings.append(ActLink(resource.text(visit, "end"), visit.here(f"{resource.one}/end"), asks=True, kind=_DANGER))
    return [one for one in acts if one.kind != _DANGER], endings


def facts_of(columns: Sequence[Column], visit: PageVisit, record: Any) -> Sequence[tuple[str, Cell]]:
    return [(visit.text(column.label), column.cell(record, visit.text, visit.path)) for column in visit.reachable(columns)]


def _state(resource: Resource, visit: PageVisit, record: Any) -> Any:
    if resource.state is None or record is None:
        return None
    value, words = resource.state
    key, tone = words(value(record))
    return visit.text(key), tone


async def _section(resource: Resource, visit: PageVisit, record: Any, section: Section, given: SentSection | None) -> tuple[Any, ...]:
    inputs = of_record(section.shape.inputs, record)
    present = texts_of(inputs, record)
    own = given if given is not None and given.section is section else None
    shown = await drawn(visit, inputs, present if own is None else own.texts)
    now = shown if own is None else await drawn(visit, inputs, present)
    return (
        resource.text(visit, f"section_{section.name}"),
        visit.here(f"{resource.one}/{section.name}"),
        shown,
        {WAS: own.was if own is not None and own.was else sealed(present)},
        visit.text("console.save"),
        [] if record is None else present_values(visit, [one for one in now if one[0].name not in resource.shown_above]),
    )


async def _as_it_is(visit: PageVisit, one: Input, text: Any) -> str:
    if one.rows is not None:
        return await said_back(visit, one, text)
    return "\n".join(text) if one.takes_several else text


def section_pages(resource: Resource, section: Section) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/{section.name}", section.shape.endpoint
    undoable = next((one for one in resource.undoables if one.name == section.name), None)

    async def ask_for(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await shown(resource, visit, await resource.find(visit), opened=visit.here(at)), 200)

    async def change(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        onward = visit.here(resource.one)
        record = await resource.find(visit)
        inputs = of_record(section.shape.inputs, record)
        if (rows := with_rows(inputs, call.body)) is not None:
            return Answer(await shown(resource, visit, record, given=SentSection(section, rows, getattr(call.body, WAS))), 200)
        own = inputs if section.whole else changed(inputs, call.body)
        if not own:
            return redirect(f"{onward}?done=unchanged")
        given = SentSection(section, sent_texts(inputs, call.body))
        if record is not None and (others := moved(inputs, call.body, record)):
            now = texts_of(others, record)
            meanwhile = [(visit.text(one.label), await _as_it_is(visit, one, now[one.field])) for one in others]
            return Answer(await shown(resource, visit, record, given=given, meanwhile=meanwhile), status_of(Conflict()))
        try:
            # A body that cannot do without a field gets it unchanged, too.
            only = [one for one in inputs if one in own or one.required]
            change = None if undoable is None else noted(undoable, visit, own, record, call.body)
            async with changing(visit, change):
                await visit.ask(endpoint, body=body_of(section.shape, call.body, only=only))
        except (WrongInput, Refusal) as problem:
            errors, status = explained(visit, problem, counting(inputs, call.body))
            return Answer(await shown(resource, visit, record, errors=errors, given=given), status)
        return redirect(f"{onward}?done=saved")

    name = f"{section.name}_of_{resource.name}"
    return (
        console.get(at, of=endpoint)(stated(ask_for, f"ask_for_{name}", at)),
        console.post(at, of=endpoint)(stated(change, f"send_{name}", at, body=section.shape.form)),
    )
