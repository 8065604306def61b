"""The pages that make something, with short names made from names, and the page that shows a secret once.

Short names, made from names: for addresses and programs. Whoever wants another chooses it.

A form that was sent twice makes one thing. So where another thing has the short name, nothing is made: the form comes back with the short
name that has a number, and the button makes it.
"""

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from core.domain.errors import Conflict, Refusal
from core.domain.normal_forms import ascii_letters
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import ONLY_FILL, Input, OnlyFill
from entrypoints.http.console.kit.resources import Making, Resource
from entrypoints.http.console.kit.sent_forms import (
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
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit, button
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint

LONGEST_SHORT_NAME: Final = 50
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9]+")
# The words of refusals of a short name that another thing has, or had.
_TAKEN: Final = frozenset({"service_slug_taken", "short_name_taken", "key_used_once"})


def slug_from(name: str, otherwise: str, separator: str = "-", number: int = 1) -> str:
    """A short name that says the name; from the second on, it has the number. Letters that have no form in ASCII are left out, and
    `otherwise` stands for a name that has no other letter. With `_` as separator, it begins with a letter, as keys of fields do.
    """
    plain = _NOT_IN_SLUGS.sub(separator, ascii_letters(name)).strip(separator)
    if separator == "_" and plain[:1].isdigit():
        plain = f"{otherwise}_{plain}"
    end = "" if number == 1 else f"{separator}{number}"
    return f"{(plain or otherwise)[: LONGEST_SHORT_NAME - len(end)].strip(separator)}{end}"


def with_short_name(inputs: Sequence[Input], form: Any, number: int = 1) -> BoundForm:
    """The form with the short names that were left empty."""
    made = {
        one.field: slug_from(getattr(form, one.derived.source), one.derived.otherwise, one.derived.separator, number)
        for one in inputs
        if one.derived is not None and not getattr(form, one.field).strip()
    }
    completed: BoundForm = msgspec.structs.replace(form, **made)
    return completed


def is_taken(problem: Exception) -> bool:
    """Whether another thing has the short name."""
    return isinstance(problem, Conflict) and problem.words in _TAKEN


def at_short_name(inputs: Sequence[Input], errors: Mapping[str, str]) -> Mapping[str, str]:
    """The errors about a short name that is taken, at its field."""
    return {next((one.field for one in inputs if one.derived is not None), ""): next(iter(errors.values()))}


def making_pages(resource: Resource, making: Making) -> Sequence[Endpoint]:
    at, endpoint, inputs = f"{resource.at}/~new", making.shape.endpoint, making.shape.inputs
    done = button(resource.key_of("new")) if making.says else "made"

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
        if (rows := with_rows(visit, inputs, call.body)) is not None:
            return Answer(await form(visit, rows), 200)
        if call.body.only_fill:
            # A search knows a few of the fields. The others begin as they always do.
            given = {name: text for name, text in sent_texts(inputs, call.body).items() if text}
            return Answer(await form(visit, {**texts_of(inputs, None), **making.begins(visit), **given}), 200)
        try:
            body = body_of(making.shape, with_short_name(inputs, making.filled(call.body)))
            if making.faults is not None:
                require_one_at_most(making.faults(body))
            made = await visit.ask(endpoint, body=body)
        except (WrongInput, SeveralFaults, Refusal) as problem:
            errors, status = explained(visit, problem, counting(inputs, call.body))
            sent = call.body
            if is_taken(problem):
                errors, sent = at_short_name(inputs, errors), with_short_name(inputs, sent, 2)
            return Answer(await form(visit, sent_texts(inputs, sent), errors), status)
        key = making.key or resource.key
        onward = visit.here(resource.one, **{resource.parameter: key(made)}) if resource.parameter else visit.here(resource.at)
        if making.secret:
            return Answer(shown_once(resource, visit, attrgetter(making.secret)(made), onward), 200)
        return redirect(f"{onward}?done={done}")

    sent: Any = msgspec.defstruct(
        f"{resource.name}_making", [(ONLY_FILL, OnlyFill, "")], bases=(making.shape.form,), frozen=True, kw_only=True
    )
    return (
        console.get(at, of=endpoint)(stated(ask_for, f"ask_for_{resource.name}", at)),
        console.post(at, of=endpoint)(stated(make, f"make_{resource.name}", at, body=sent)),
    )


def shown_once(resource: Resource, visit: PageVisit, secret: str, onward: str) -> bytes:
    head = Head(title=resource.text(visit, "secret_title"), crumbs=resource.above(visit))
    return visit.show("secret.html", resource.position, head, secret=secret, onward=onward, elsewhere=resource.elsewhere(visit))
