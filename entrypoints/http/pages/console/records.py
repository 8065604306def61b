"""The page of a record, and the forms on it that change the record."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.domain.errors import Conflict, Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.cells import Cell, Column
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import WAS
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.resources import Resource, Section
from entrypoints.http.pages.console.sent_forms import (
    WrongInput,
    body_of,
    changed,
    counting,
    drawn,
    explained,
    moved,
    of_record,
    sealed,
    sent_texts,
    texts_of,
)
from entrypoints.http.pages.console.undo.undo_pages import changing, noted, offered
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, DoneLink, Head, Page, PageVisit


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
    given: tuple[Section, Mapping[str, Any]] | None = None,
    meanwhile: Sequence[tuple[str, str]] = (),
    told: tuple[bool, str] | None = None,
) -> bytes:
    """The page of a record. `given` has the section whose form was sent, with its texts. `meanwhile` has what somebody else has changed,
    `told` what an act has tried.
    """
    head = Head(
        title=resource.call(visit, record),
        state=_state(resource, visit, record),
        crumbs=resource.above(visit),
        curl=visit.curl(resource.record or resource.listed),
        done=done,
        errors=errors,
    )
    ending = resource.ending
    return visit.show(
        resource.template,
        resource.position,
        head,
        empty=(resource.text(visit, "empty_title"), resource.text(visit, "empty_text")) if record is None else None,
        facts=[] if record is None else facts_of(resource.facts or resource.columns, visit, record),
        sections=[
            await _section(resource, visit, record, one, given)
            for one in resource.sections
            if visit.may(one.shape.endpoint) and of_record(one.shape.inputs, record)
        ],
        at_fault=None if given is None else visit.here(f"{resource.one}/{given[0].name}"),
        acts=[
            (resource.text(visit, f"act_{act.name}"), visit.here(f"{resource.one}/{act.name}"), act.asks or act.shape is not None, act.kind)
            for act in resource.acts
            if record is not None and visit.may(act.endpoint) and act.shows(record)
        ],
        ending=None
        if ending is None or record is None or not visit.may(ending.endpoint)
        else (resource.text(visit, "end"), visit.here(f"{resource.one}/end")),
        below=[(visit.text(label), visit.here(where)) for label, where, of in resource.below if visit.may(of)],
        meanwhile=meanwhile,
        told=told,
        undos=await offered(visit, record, resource.undoables),
        **({} if resource.more is None or record is None else await resource.more(visit, record)),
    )


def facts_of(columns: Sequence[Column], visit: PageVisit, record: Any) -> Sequence[tuple[str, Cell]]:
    return [(visit.text(column.label), column.cell(record, visit.text, visit.path)) for column in visit.reachable(columns)]


def _state(resource: Resource, visit: PageVisit, record: Any) -> Any:
    if resource.state is None or record is None:
        return None
    value, words = resource.state
    key, tone = words(value(record))
    return visit.text(key), tone


async def _section(
    resource: Resource, visit: PageVisit, record: Any, section: Section, given: tuple[Section, Mapping[str, Any]] | None
) -> tuple[Any, ...]:
    inputs = of_record(section.shape.inputs, record)
    present = texts_of(inputs, record)
    texts = given[1] if given is not None and given[0] is section else present
    return (
        resource.text(visit, f"section_{section.name}"),
        visit.here(f"{resource.one}/{section.name}"),
        await drawn(visit, inputs, texts),
        {WAS: sealed(present)},
        visit.text("console.save"),
    )


def section_pages(resource: Resource, section: Section) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/{section.name}", section.shape.endpoint
    undoable = next((one for one in resource.undoables if one.name == section.name), None)

    async def ask_for(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await shown(resource, visit, await resource.find(visit)), 200)

    async def change(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        onward = visit.here(resource.one)
        record = await resource.find(visit)
        inputs = of_record(section.shape.inputs, record)
        own = inputs if section.whole else changed(inputs, call.body)
        if not own:
            return redirect(f"{onward}?done=unchanged")
        given = (section, sent_texts(inputs, call.body))
        if record is not None and (others := moved(inputs, call.body, record)):
            now = texts_of(others, record)
            meanwhile = [(visit.text(one.label), "\n".join(now[one.field]) if one.takes_several else now[one.field]) for one in others]
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
