"""Questions: a page of its own that asks once, and the form on it that does something. For screens made by hand; resources have acts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from core.domain.errors import Refusal
from core.domain.identity.proofs import StepUp
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.resource_pages import EndingForm
from entrypoints.http.console.kit.sent_forms import WrongInput, body_of, drawn, explained, sent_texts, texts_of
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit, button
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.endpoints import Endpoint


class QuestionSubject(Frozen):
    """The thing that a question is about."""

    called: str
    """The name of the thing, as people say it."""
    at: str
    """The address of its page, where the form leads."""
    crumbs: Sequence[tuple[str, str]]
    """The pages above the question."""
    record: Any = None


Load = Callable[[PageVisit], Awaitable[QuestionSubject]]
Do = Callable[[PageVisit, QuestionSubject, Any], Awaitable[Page | str | None]]
"""Gets the body of the form, if the question has a shape. Returns an answer, an address to go to, or None for the subject's page."""


class Question(Frozen, kw_only=True):
    name: str
    """A part of the names of its handlers, and of the endpoint's text keys: `<texts>.<name>`, `…_title`, `…_text`."""
    texts: str
    at: str
    of: Endpoint | CallerRule
    position: PagePosition
    load: Load
    do: Do
    shape: Shape | None = None
    typed: Callable[[QuestionSubject], str] | None = None
    """The text that the person has to type, for what cannot be brought back."""
    ends: Callable[[PageVisit, QuestionSubject], Sequence[str]] = lambda _visit, _subject: ()
    """The things that end, in the reader's language."""
    step_up: StepUp | None = None
    kind: str = "primary"


_QUESTIONS: Final[list[Question]] = []


def questions() -> Sequence[Question]:
    """All questions of the console, for the tests that compare them with the texts."""
    return tuple(_QUESTIONS)


def question_pages(question: Question) -> Sequence[Endpoint]:
    _QUESTIONS.append(question)
    asked = question.shape
    form = EndingForm if question.typed is not None else BoundForm if asked is None else asked.form
    stated_more: dict[str, Any] = {} if question.step_up is None else {"step_up": question.step_up}
    pressed = button(f"{question.texts}.{question.name}")
    name = f"{question.name}_by_{question.texts}".replace(".", "_")

    async def page(visit: PageVisit, subject: QuestionSubject, texts: Mapping[str, Any], errors: Mapping[str, str] = NO_ERRORS) -> bytes:
        key = f"{question.texts}.{question.name}"
        head = Head(
            title=visit.text(f"{key}_title", called=subject.called),
            crumbs=subject.crumbs,
            curl=visit.curl(question.of) if isinstance(question.of, Endpoint) else "",
            errors=errors,
        )
        return visit.show(
            "question.html",
            question.position,
            head,
            explained=visit.text(f"{key}_text"),
            action=visit.here(question.at),
            back=subject.at,
            button=visit.text(key),
            kind=question.kind,
            ends=question.ends(visit, subject),
            wanted="" if question.typed is None else question.typed(subject),
            inputs=() if asked is None else await drawn(visit, asked.inputs, texts),
        )

    async def ask_for(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await page(visit, await question.load(visit), {} if asked is None else texts_of(asked.inputs, None)), 200)

    async def answer(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        subject = await question.load(visit)
        texts = {} if asked is None else sent_texts(asked.inputs, call.body)
        if question.typed is not None and call.body.typed.strip() != question.typed(subject):
            return Answer(await page(visit, subject, texts, {"typed": visit.text("console.not_the_name")}), 400)
        try:
            shown = await question.do(visit, subject, None if asked is None else body_of(asked, call.body))
        except (WrongInput, Refusal) as problem:
            errors, status = explained(visit, problem, () if asked is None else asked.inputs)
            return Answer(await page(visit, subject, texts, errors), status)
        if isinstance(shown, Answer):
            return shown
        return redirect(shown or f"{subject.at}?done={pressed}")

    return (
        console.get(question.at, of=question.of, **stated_more)(stated(ask_for, f"ask_to_{name}", question.at)),
        console.post(question.at, of=question.of, **stated_more)(stated(answer, name, question.at, body=form)),
    )
