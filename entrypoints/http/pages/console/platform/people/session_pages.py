"""The living sessions of a person, which a platform owner ends."""

from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identifiers import SessionId
from core.domain.identity.proofs import StepUp
from core.domain.requests import Page as Part
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.pages.account import Listing
from entrypoints.http.pages.console.cells import plain, rows_of, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.people import ONE, SESSIONS_TAB, above, authority, load, position_of, user_of
from entrypoints.http.pages.console.platform.questions import Question, QuestionSubject, question_pages
from entrypoints.http.pages.console.resources import ON_A_PAGE_OF_LOG
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit, button

_ALL_ENDED: Final = button("console.people.end_sessions")

_ENDED: Final = button("console.people.end_session")

_AT: Final = f"{ONE}/sessions"
_END: Final = f"{_AT}/{{session_id}}/end"
_COLUMNS: Final = (
    plain(lambda one: one.device_name, "console.field.device"),
    plain(lambda one: "/".join(filter(None, (one.organization, one.service))), "console.field.place"),
    when("created_at"),
    when("last_seen_at"),
    when("ends_at"),
)


async def _show_sessions(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    subject = await load(visit)
    part = Part(call.query.page, ON_A_PAGE_OF_LOG)
    found = await postern.platform.account_administration.sessions(user_of(visit), part)
    rows = rows_of(_COLUMNS, found.sessions, visit.text, visit.path)
    number = call.query.page
    page = visit.show(
        "platform/people/sessions.html",
        position_of(SESSIONS_TAB),
        Head(title=subject.called, crumbs=above(visit), done=call.query.done),
        columns=_COLUMNS,
        rows=[(cells, visit.here(_END, session_id=one.id), one.impersonated) for cells, one in zip(rows, found.sessions, strict=True)],
        end_all=visit.here(f"{_AT}/end"),
        at=visit.here(_AT),
        older={"page": str(number + 1)} if part.offset + len(rows) < found.total else None,
        newer={"page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 200)


async def _end_session(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    try:
        session = SessionId(UUID(visit.path["session_id"]))
    except ValueError:
        raise NotFound from None
    await postern.platform.account_administration.end_session(user_of(visit), session, authority(visit))
    return redirect(f"{visit.here(_AT)}?done={_ENDED}")


async def _end_all(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> str:
    await visit.postern.platform.account_administration.revoke_sessions(user_of(visit), authority(visit))
    return f"{visit.here(_AT)}?done={_ALL_ENDED}"


_ALL: Final = Question(
    name="end_sessions",
    texts="console.people",
    at=f"{_AT}/end",
    of=PLATFORM_OWNER,
    position=position_of(SESSIONS_TAB),
    load=load,
    do=_end_all,
    kind="final",
    step_up=StepUp.ACCOUNT,
)

PAGES: Final = (
    console.get(_AT, of=PLATFORM_OWNER)(stated(_show_sessions, "show_sessions_of_person", _AT, query=Listing)),
    console.post(_END, of=PLATFORM_OWNER)(stated(_end_session, "end_session_of_person", _END, body=BoundForm)),
    *question_pages(_ALL),
)
