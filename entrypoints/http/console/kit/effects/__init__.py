"""Changes that ask first: the first answer to the form says what the change would do to people, the second form makes it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import Conflict, Refusal
from core.frozen import Frozen
from entrypoints.http.console.kit.forms import WAS, Input, Shape
from entrypoints.http.console.kit.sent_forms import (
    SeveralFaults,
    WrongInput,
    body_of,
    changed,
    drawn,
    explained,
    moved,
    said_back,
    sealed,
    sent_texts,
    texts_of,
)
from entrypoints.http.console.kit.undo import Undoable, changing, noted
from entrypoints.http.console.kit.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line

_SURE: Final = "yes"


def asking_form(shape: Shape) -> Any:
    """What the form sends. It says whether the person has seen the first answer."""
    return msgspec.defstruct(f"Asked{shape.form.__name__}", [("sure", Line, "")], bases=(shape.form,), frozen=True, kw_only=True)


class AskedChange(Frozen, kw_only=True):
    undoable: Undoable
    change: Endpoint
    example: Mapping[str, Any]
    """The body of the command that the form shows."""
    title: str
    """The name of the form's title, which is its button, too."""
    question: str
    """The name of the title of the first answer."""
    effects: Callable[[PageVisit, Any], Awaitable[Mapping[str, Any]]]
    """What a change with this body would do, for the template. Raises the change's refusals."""
    template: str
    crumbs: Callable[[PageVisit], Sequence[tuple[str, str]]]
    done: str = "saved"
    """The word in the address of the page afterwards: the notice says what came of it."""

    async def ask(self, visit: PageVisit) -> Page:
        texts = texts_of(self.undoable.shape.inputs, await self.undoable.find(visit))
        return Answer(await self._form(visit, texts, texts), 200)

    async def send(self, visit: PageVisit, form: Any) -> Page:
        shape = self.undoable.shape
        own, onward = changed(shape.inputs, form), visit.here(self.undoable.page)
        if not own:
            return redirect(f"{onward}?done=unchanged")
        record = await self.undoable.find(visit)
        present, texts = texts_of(shape.inputs, record), sent_texts(shape.inputs, form)
        if others := moved(shape.inputs, form, record):
            meanwhile = [(visit.text(one.label), await said_back(visit, one, present[one.field])) for one in others]
            return Answer(await self._form(visit, texts, present, meanwhile=meanwhile), status_of(Conflict()))
        try:
            # What the form did not change is as it is now, and not as the form showed it.
            kept = {one.field: present[one.field] for one in shape.inputs if one not in own}
            texts = {**texts, **kept}
            body = body_of(shape, msgspec.structs.replace(form, **kept), only=None if self.undoable.whole else own)
            if form.sure != _SURE:
                return Answer(await self._question(visit, own, present, texts, await self.effects(visit, body)), 200)
            async with changing(visit, noted(self.undoable, visit, own, record, form)):
                await visit.ask(self.change, body=body)
        except (WrongInput, SeveralFaults, Refusal) as problem:
            errors, status = explained(visit, problem, shape.inputs)
            return Answer(await self._form(visit, texts, present, errors=errors), status)
        return redirect(f"{onward}?done={self.done}")

    async def _form(
        self,
        visit: PageVisit,
        texts: Mapping[str, Any],
        present: Mapping[str, Any],
        *,
        errors: Mapping[str, str] = NO_ERRORS,
        meanwhile: Sequence[tuple[str, str]] = (),
    ) -> bytes:
        head = Head(
            title=visit.text(self.title),
            crumbs=tuple(self.crumbs(visit)),
            curl=visit.curl(self.change, body=dict(self.example)),
            errors=errors,
        )
        return visit.show(
            "effects/form.html",
            self.undoable.position,
            head,
            inputs=await drawn(visit, self.undoable.shape.inputs, texts),
            hidden={WAS: sealed(present)},
            meanwhile=meanwhile,
            action=visit.here(self.undoable.at),
            back=visit.here(self.undoable.page),
        )

    async def _question(
        self, visit: PageVisit, own: Sequence[Input], present: Mapping[str, Any], texts: Mapping[str, Any], effects: Mapping[str, Any]
    ) -> bytes:
        action = visit.here(self.undoable.at)
        return visit.show(
            self.template,
            self.undoable.position,
            Head(title=visit.text(self.question), crumbs=(*self.crumbs(visit), (visit.text(self.title), action))),
            changes=[
                (visit.text(one.label), await said_back(visit, one, present[one.field]), await said_back(visit, one, texts[one.field]))
                for one in own
            ],
            hidden={WAS: sealed(present), **texts},
            sure=_SURE,
            button=visit.text(self.title),
            action=action,
            back=visit.here(self.undoable.page),
            **effects,
        )
