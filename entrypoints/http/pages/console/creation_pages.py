"""The pages that make something, and the page that shows a secret once."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from core.domain.errors import Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.resources import Making, Resource
from entrypoints.http.pages.console.sent_forms import (
    SeveralFaults,
    WrongInput,
    body_of,
    counting,
    drawn,
    example_of,
    explained,
    require_one_at_most,
    sent_texts,
    texts_of,
    with_rows,
)
from entrypoints.http.pages.console.short_names import at_short_name, completed, is_taken
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit


def making_pages(resource: Resource, making: Making) -> Sequence[Endpoint]:
    at, endpoint, inputs = f"{resource.at}/~new", making.shape.endpoint, making.shape.inputs

    async def form(visit: PageVisit, texts: Mapping[str, Any], errors: Mapping[str, str] = NO_ERRORS) -> bytes:
        head = Head(
            title=resource.text(visit, "new"),
            crumbs=resource.above(visit),
            curl=visit.curl(endpoint, body=example_of(making.shape)),
            errors=errors,
        )
        return visit.show(
            "form.html",
            resource.position,
            head,
            inputs=await drawn(visit, inputs, texts),
            action=visit.here(at),
            back=visit.here(resource.at),
            button=resource.text(visit, "new"),
            explained=visit.text(making.explained) if making.explained else "",
        )

    async def ask_for(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await form(visit, {**texts_of(inputs, None), **making.begins(visit)}), 200)

    async def make(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        if (rows := with_rows(inputs, call.body)) is not None:
            return Answer(await form(visit, rows), 200)
        try:
            body = body_of(making.shape, completed(inputs, making.filled(call.body)))
            if making.faults is not None:
                require_one_at_most(making.faults(body))
            made = await visit.ask(endpoint, body=body)
        except (WrongInput, SeveralFaults, Refusal) as problem:
            errors, status = explained(visit, problem, counting(inputs, call.body))
            sent = call.body
            if is_taken(problem):
                errors, sent = at_short_name(inputs, errors), completed(inputs, sent, 2)
            return Answer(await form(visit, sent_texts(inputs, sent), errors), status)
        key = making.key or resource.key
        onward = visit.here(resource.one, **{resource.parameter: key(made)}) if resource.parameter else visit.here(resource.at)
        if making.secret:
            return Answer(shown_once(resource, visit, attrgetter(making.secret)(made), onward), 200)
        return redirect(f"{onward}?done=made")

    return (
        console.get(at, of=endpoint)(stated(ask_for, f"ask_for_{resource.name}", at)),
        console.post(at, of=endpoint)(stated(make, f"make_{resource.name}", at, body=making.shape.form)),
    )


def shown_once(resource: Resource, visit: PageVisit, secret: str, onward: str) -> bytes:
    head = Head(title=resource.text(visit, "secret_title"), crumbs=resource.above(visit))
    return visit.show("secret.html", resource.position, head, secret=secret, onward=onward, elsewhere=resource.elsewhere(visit))
