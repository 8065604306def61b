"""All pages of a resource; its record, with the forms that change it, the buttons of its acts, and its end."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.errors import Conflict, NotFound, Refusal
from core.domain.identity.profiles import Portrait
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Column, mark_of
from entrypoints.http.console.kit.creation_pages import making_pages, shown_once
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import WAS, Input, Shape
from entrypoints.http.console.kit.lists import list_page
from entrypoints.http.console.kit.many import bulk_page, export_page
from entrypoints.http.console.kit.resources import Act, Ending, Resource, Section, found_by_words
from entrypoints.http.console.kit.sent_forms import (
    SeveralFaults,
    WrongInput,
    body_of,
    changed,
    counting,
    drawn,
    example_of,
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
from entrypoints.http.console.kit.undo import changing, noted, offered, undo_pages
from entrypoints.http.console.kit.visit import NO_ERRORS, ActLink, AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line

_DANGER: Final = "danger"
_MOST_NAMED: Final = 4
_KNOWN_SELDOM: Final = frozenset(
    {
        *("console.field.id", "console.field.created_at", "console.field.updated_at"),
        *("console.hook.digest", "console.people_there.digest"),
    }
)


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
        shown = await shown_record(resource, visit, await resource.find(visit), done=call.query.done, saved=call.query.fields.split())
        return Answer(shown, 200)

    of = resource.record or resource.listed
    found_by_words.add(resource)
    return console.get(resource.one, of=of, also=resource.also)(
        stated(handler, f"show_one_of_{resource.name}", resource.one, query=DoneLink)
    )


async def shown_record(
    resource: Resource,
    visit: PageVisit,
    record: Any,
    *,
    done: str = "",
    saved: Sequence[str] = (),
    errors: Mapping[str, str] = NO_ERRORS,
    given: SentSection | None = None,
    meanwhile: Sequence[tuple[str, str]] = (),
    told: tuple[bool, str] | None = None,
    opened: str = "",
) -> bytes:
    """The page of a record. `saved` names fields. `given` has the section whose form was sent, with its texts. `meanwhile` has what
    somebody else has changed, `told` what an act has tried. `opened` is the address of the form that is asked for.
    """
    acts = acts_of(resource, visit, record)
    columns = resource.facts or resource.columns
    sections = [
        await _section(resource, visit, record, one, given)
        for one in resource.sections
        if visit.may(one.shape.endpoint) and of_record(one.shape.inputs, record)
    ]
    if not sections and not acts[0] and len(acts[1]) == 1:
        # All that one can do is to end it, so that stands beside the name.
        acts = acts[1], ()
    # What a panel shows and changes needs no place among the facts.
    panels = {one.label for section in sections for one, _, _ in section[2] if has_words(one)}
    head = Head(
        title=resource.call(visit, record),
        mark=_mark(resource, visit, record),
        state=_state(resource, visit, record),
        crumbs=resource.above(visit),
        acts=acts[0],
        endings=acts[1],
        known=[] if record is None else facts_of([one for one in columns if one.label in _KNOWN_SELDOM], visit, record),
        curl=visit.curl(resource.record or resource.listed),
        done=done,
        done_to=_named(resource, visit, saved),
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
        below=_below(resource, visit, record),
        meanwhile=meanwhile,
        told=told,
        undos=await offered(visit, record, resource.undoables),
        **await _beside(resource, visit, record),
    )


def _below(resource: Resource, visit: PageVisit, record: Any) -> Sequence[tuple[str, str]]:
    # Below what is not there yet there is nothing to read. What sets it up stands there.
    return [
        (visit.text(label), visit.here(where))
        for label, where, of in resource.below
        if (record is not None or of.method != "GET") and visit.may(of)
    ]


async def _beside(resource: Resource, visit: PageVisit, record: Any) -> Mapping[str, Any]:
    """What the template shows beside the record, or beside its beginning."""
    if record is None:
        return {} if resource.beginning is None else await resource.beginning(visit)
    return {} if resource.more is None else await resource.more(visit, record)


def _named(resource: Resource, visit: PageVisit, fields: Sequence[str]) -> str:
    """What the notice says of the fields that were saved. The names stand in the address, so they may be anything."""
    named = [visit.text(one.label) for section in resource.sections for one in section.shape.inputs if one.field in fields]
    return "; ".join(dict.fromkeys(named)) if len(named) <= _MOST_NAMED else ""


def acts_of(resource: Resource, visit: PageVisit, record: Any) -> tuple[Sequence[ActLink], Sequence[ActLink]]:
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
    endings += [
        ActLink(visit.text(one.label), visit.here(one.at), asks=True, kind=_DANGER)
        for one in resource.end_links
        if visit.may(one.endpoint) and one.shows(record)
    ]
    return [one for one in acts if one.kind != _DANGER], endings


def facts_of(columns: Sequence[Column], visit: PageVisit, record: Any) -> Sequence[tuple[str, Cell]]:
    return [(visit.text(column.label), column.cell(record, visit.text, visit.path)) for column in visit.reachable(columns)]


def _state(resource: Resource, visit: PageVisit, record: Any) -> Any:
    if resource.state is None or record is None:
        return None
    value, words = resource.state
    key, tone = words(value(record))
    return visit.text(key), tone


def _mark(resource: Resource, visit: PageVisit, record: Any) -> Portrait | None:
    """The sign of what people make and change. What only happened has none."""
    if record is None or resource.page or resource.is_single or resource.is_log or not resource.sections:
        return None
    sign, thing = resource.columns[0].mark, getattr(record, "id", None)
    if sign is not None:
        return sign(record)
    return mark_of(resource.call(visit, record), thing) if isinstance(thing, UUID) else None


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
        section.folds,
    )


async def _as_it_is(visit: PageVisit, one: Input, text: Any) -> str:
    if one.rows is not None:
        return await said_back(visit, one, text)
    return "\n".join(text) if one.takes_several else text


def section_pages(resource: Resource, section: Section) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/{section.name}", section.shape.endpoint
    done = button(resource.key_of(f"section_{section.name}")) if section.says else "saved"
    undoable = next((one for one in resource.undoables if one.name == section.name), None)

    async def ask_for(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await shown_record(resource, visit, await resource.find(visit), opened=visit.here(at)), 200)

    async def change(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        onward = visit.here(resource.one)
        record = await resource.find(visit)
        inputs = of_record(section.shape.inputs, record)
        if (rows := with_rows(visit, inputs, call.body)) is not None:
            return Answer(await shown_record(resource, visit, record, given=SentSection(section, rows, getattr(call.body, WAS))), 200)
        own = inputs if section.whole else changed(inputs, call.body)
        if not own:
            return redirect(f"{onward}?done=unchanged")
        given = SentSection(section, sent_texts(inputs, call.body))
        if record is not None and (others := moved(inputs, call.body, record)):
            now = texts_of(others, record)
            meanwhile = [(visit.text(one.label), await _as_it_is(visit, one, now[one.field])) for one in others]
            return Answer(await shown_record(resource, visit, record, given=given, meanwhile=meanwhile), status_of(Conflict()))
        try:
            # A body that cannot do without a field gets it unchanged, too.
            only = [one for one in inputs if one in own or one.required]
            change = None if undoable is None else noted(undoable, visit, own, record, call.body)
            async with changing(visit, change):
                answer = await visit.ask(endpoint, body=body_of(section.shape, call.body, only=only, fixed=section.fixed(record)))
        except (WrongInput, SeveralFaults, Refusal) as problem:
            errors, status = explained(visit, problem, counting(inputs, call.body))
            return Answer(await shown_record(resource, visit, record, errors=errors, given=given), status)
        if section.secret and (secret := attrgetter(section.secret)(answer)) is not None:
            return Answer(shown_once(resource, visit, secret, onward), 200)
        named = "+".join(one.field for one in changed(inputs, call.body)) if done == "saved" else ""
        return redirect(f"{onward}?done={done}{named and f'&fields={named}'}")

    name = f"{section.name}_of_{resource.name}"
    return (
        console.get(at, of=endpoint)(stated(ask_for, f"ask_for_{name}", at)),
        console.post(at, of=endpoint)(stated(change, f"send_{name}", at, body=section.shape.form)),
    )


class EndingForm(BoundForm, frozen=True, kw_only=True):
    typed: Line = ""
    """The name of the thing, as the person typed it."""


def act_pages(resource: Resource, act: Act) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/{act.name}", act.endpoint
    pressed = button(resource.key_of(f"act_{act.name}"))
    shape = _shape_of(act)

    async def confirm(call: AnyCall, postern: Postern) -> Page:
        return Answer(await _question(resource, act, shape, PageVisit(call, postern), texts_of(shape.inputs, None)), 200)

    async def do(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        onward = visit.here(resource.one)
        listed = f"{visit.here(resource.at)}?done="
        record = await resource.find(visit) if act.given is not None else None
        if act.given is not None and not act.shows(record):
            # The form was sent twice, or somebody else was quicker.
            return redirect(f"{listed}unchanged")
        try:
            body = _body(endpoint, shape, call.body, act) if act.given is None else act.given(record)
            done = await visit.ask(endpoint, body=body)
        except (WrongInput, SeveralFaults, Refusal) as problem:
            errors, status = explained(visit, problem, shape.inputs)
            if act.seen is not None or shape.inputs:
                # If the settings have changed meanwhile, the page shows what they are now.
                texts = {} if act.seen is not None else sent_texts(shape.inputs, call.body)
                return Answer(await _question(resource, act, shape, visit, texts, errors=errors), status)
            return Answer(await shown_record(resource, visit, await resource.find(visit), errors=errors), status)
        # A form that was sent twice brings no secret the second time.
        if act.secret and (secret := attrgetter(act.secret)(done)) is not None:
            return Answer(shown_once(resource, visit, secret, onward), 200)
        if act.said is not None:
            return Answer(await shown_record(resource, visit, await resource.find(visit), told=act.said(done, visit.text)), 200)
        return redirect(f"{listed if act.leaves else f'{onward}?done='}{pressed}")

    # A form whose endpoint asks for a fresh proof has a page at its own address, since the proof leads back there.
    asking = [console.get(at, of=endpoint)(stated(confirm, f"confirm_{act.name}_of_{resource.name}", at))]
    return (
        *(asking if act.asks or shape.inputs or endpoint.step_up is not None else ()),
        console.post(at, of=endpoint)(stated(do, f"{act.name}_of_{resource.name}", at, body=shape.form)),
    )


async def _question(
    resource: Resource, act: Act, shape: Shape, visit: PageVisit, texts: Mapping[str, Any], *, errors: Mapping[str, str] = NO_ERRORS
) -> bytes:
    """The page that asks before an act. Raises `NotFound`."""
    record, endpoint = await resource.find(visit), act.endpoint
    if record is None and act.facts:
        # Somebody has removed it, or it was never there: the question is about nothing.
        raise NotFound("There is nothing to ask about")
    digest = "" if act.seen is None else act.seen(record)
    example = {_seen_field(endpoint): digest} if digest else example_of(shape) or None
    head = _head(resource, visit, record, f"ask_{act.name}_title", visit.curl(endpoint, body=example))
    return visit.show(
        act.template,
        resource.position,
        replace(head, errors=errors),
        explained=resource.text(visit, f"ask_{act.name}_text"),
        action=visit.here(f"{resource.one}/{act.name}"),
        back=visit.here(resource.one),
        button=resource.text(visit, f"act_{act.name}"),
        # What is dangerous beside other buttons is what this page asks for.
        kind="final" if act.kind in {"danger", "final"} else "primary",
        ends=(),
        wanted="",
        inputs=await drawn(visit, shape.inputs if act.asks_for(record) else (), texts),
        facts=facts_of(act.facts, visit, record),
        digest=digest,
        offered=act.seen is None or act.shows(record),
        later="" if act.later is None else act.later(record, visit.text),
        **({} if act.more is None else await act.more(visit, record)),
    )


def _shape_of(act: Act) -> Shape:
    shape = act.shape or Shape(act.endpoint, (), BoundForm)
    if act.seen is None:
        return shape
    form: Any = msgspec.defstruct(f"{shape.form.__name__}_seen", [("digest", Line, "")], bases=(shape.form,), frozen=True, kw_only=True)
    return shape._replace(form=form)


def _body(endpoint: Endpoint, shape: Shape, form: Any, act: Act) -> Any:
    if endpoint.body_type is None:
        return None
    return body_of(shape, form, fixed=None if act.seen is None else {_seen_field(endpoint): form.digest})


def _seen_field(endpoint: Endpoint) -> str:
    """The only field that the body cannot do without, for the digest of what somebody has seen."""
    (field,) = (one for one in msgspec.structs.fields(endpoint.body_type) if one.required)
    return field.encode_name


def ending_pages(resource: Resource, ending: Ending) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/end", ending.endpoint
    pressed = button(resource.key_of("end"))

    async def question(visit: PageVisit, record: Any, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
        counts = () if ending.counts is None else await ending.counts(visit, record)
        return visit.show(
            "question.html",
            resource.position,
            replace(_head(resource, visit, record, "end_title", visit.curl(endpoint)), errors=errors),
            explained=resource.text(visit, "end_text"),
            action=visit.here(at),
            back=visit.here(resource.one),
            button=resource.text(visit, "end"),
            kind="final",
            ends=[visit.text(key, count=count) for key, count in counts if count],
            wanted="" if ending.typed is None else ending.typed(record),
        )

    async def confirm(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await question(visit, await resource.find(visit)), 200)

    async def end(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        try:
            if ending.typed is not None:
                record = await resource.find(visit)
                if record is not None and call.body.typed.strip() != ending.typed(record):
                    return Answer(await question(visit, record, {"typed": visit.text("console.not_the_name")}), 400)
            await visit.ask(endpoint, query=ending.query)
        except NotFound:
            pass  # The form was sent twice, or somebody else was quicker: the thing is gone.
        except Refusal as problem:
            errors, status = explained(visit, problem)
            return Answer(await question(visit, await resource.find(visit), errors), status)
        return redirect(f"{visit.here(resource.at)}?done={pressed}")

    return (
        console.get(at, of=endpoint)(stated(confirm, f"ask_to_end_{resource.name}", at)),
        console.post(at, of=endpoint)(stated(end, f"end_{resource.name}", at, body=EndingForm)),
    )


def _head(resource: Resource, visit: PageVisit, record: Any, title: str, curl: str) -> Head:
    called = resource.call(visit, record)
    return Head(
        title=resource.text(visit, title, called=called),
        crumbs=(*resource.above(visit), (called, visit.here(resource.one))),
        curl=curl,
    )


def pages(resource: Resource) -> list[Endpoint]:
    made = [] if resource.is_single else [list_page(resource)]
    if resource.exported:
        made.append(export_page(resource))
    made += [bulk_page(resource, bulk) for bulk in resource.bulks]
    if resource.making is not None:
        made += making_pages(resource, resource.making)
    if resource.parameter or resource.is_single:
        made.append(record_page(resource))
        for section in resource.sections:
            made += section_pages(resource, section)
        for undoable in resource.undoables:
            made += undo_pages(undoable)
        for act in resource.acts:
            made += act_pages(resource, act)
        if resource.ending is not None:
            made += ending_pages(resource, resource.ending)
    return made
