"""Buttons on the page of a record: acts, and the end of the thing."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from core.domain.errors import NotFound, Refusal
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.creation_pages import shown_once
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Shape
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.records import facts_of, shown
from entrypoints.http.pages.console.resources import Act, Ending, Resource
from entrypoints.http.pages.console.sent_forms import WrongInput, body_of, drawn, example_of, explained, sent_texts, texts_of
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit, button


class EndingForm(BoundForm, frozen=True, kw_only=True):
    typed: str = ""
    """The name of the thing, as the person typed it."""


class SeenForm(BoundForm, frozen=True, kw_only=True):
    digest: str = ""
    """The digest of what the page showed."""


def act_pages(resource: Resource, act: Act) -> Sequence[Endpoint]:
    at, endpoint = f"{resource.one}/{act.name}", act.endpoint

    pressed = button(resource.key_of(f"act_{act.name}"))
    shape = act.shape or Shape(endpoint, (), BoundForm if act.seen is None else SeenForm)

    async def question(visit: PageVisit, texts: Mapping[str, Any], errors: Mapping[str, str] = NO_ERRORS) -> bytes:
        record = await resource.find(visit)
        digest = "" if act.seen is None else act.seen(record)
        example = {_seen_field(endpoint): digest} if digest else example_of(shape) or None
        head = _head(resource, visit, record, f"ask_{act.name}_title", visit.curl(endpoint, body=example))
        return visit.show(
            act.template,
            resource.position,
            replace(head, errors=errors),
            explained=resource.text(visit, f"ask_{act.name}_text"),
            action=visit.here(at),
            back=visit.here(resource.one),
            button=resource.text(visit, f"act_{act.name}"),
            # What is dangerous beside other buttons is what this page asks for.
            kind="final" if act.kind in {"danger", "final"} else "primary",
            ends=(),
            wanted="",
            inputs=await drawn(visit, shape.inputs, texts),
            facts=facts_of(act.facts, visit, record),
            digest=digest,
            offered=act.seen is None or act.shows(record),
            **({} if act.more is None else await act.more(visit, record)),
        )

    async def confirm(call: AnyCall, postern: Postern) -> Page:
        return Answer(await question(PageVisit(call, postern), texts_of(shape.inputs, None)), 200)

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
        except (WrongInput, Refusal) as problem:
            errors, status = explained(visit, problem, shape.inputs)
            if act.seen is not None or shape.inputs:
                # If the settings have changed meanwhile, the page shows what they are now.
                texts = {} if act.seen is not None else sent_texts(shape.inputs, call.body)
                return Answer(await question(visit, texts, errors), status)
            return Answer(await shown(resource, visit, await resource.find(visit), errors=errors), status)
        # A form that was sent twice brings no secret the second time.
        if act.secret and (secret := attrgetter(act.secret)(done)) is not None:
            return Answer(shown_once(resource, visit, secret, onward), 200)
        if act.said is not None:
            return Answer(await shown(resource, visit, await resource.find(visit), told=act.said(done)), 200)
        return redirect(f"{listed if act.leaves else f'{onward}?done='}{pressed}")

    # A form whose endpoint asks for a fresh proof has a page at its own address, since the proof leads back there.
    asking = [console.get(at, of=endpoint)(stated(confirm, f"confirm_{act.name}_of_{resource.name}", at))]
    return (
        *(asking if act.asks or shape.inputs or endpoint.step_up is not None else ()),
        console.post(at, of=endpoint)(stated(do, f"{act.name}_of_{resource.name}", at, body=shape.form)),
    )


def _body(endpoint: Endpoint, shape: Shape, form: Any, act: Act) -> Any:
    if endpoint.body_type is None:
        return None
    return body_of(shape, form) if act.seen is None else endpoint.body_type(**{_seen_field(endpoint): form.digest})


def _seen_field(endpoint: Endpoint) -> str:
    """The only field of the body, for the digest of what somebody has seen."""
    (field,) = msgspec.structs.fields(endpoint.body_type)
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
