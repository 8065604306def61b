"""How long sessions of an application last, how long they may rest, and how many there may be; and whose a change would end."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import Conflict, Refusal
from core.domain.identity.session_limits.reach import SessionReach
from core.domain.pages import MOST_COUNTED
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.pages.console.cells import number, sentence
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import WAS, Asked, Input, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.lists import APPLICATIONS, slug_of
from entrypoints.http.pages.console.records import record_page
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.sent_forms import (
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
from entrypoints.http.pages.console.undo.undo_pages import Undoable, changing, noted, undo_pages
from entrypoints.http.pages.console.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.routes.services.services import change_of, change_service, get_service, list_services
from ports.texts import Text

_CHANGE: Final = f"{application_tabs.SESSIONS}/change"
_SHAPE: Final = shape(
    change_service,
    Asked("session_lifetime_hours", hint="console.application_sessions.hours_hint"),
    Asked("session_idle_minutes", hint="console.application_sessions.idle_hint"),
    Asked("most_sessions", hint="console.application_sessions.most_hint"),
)
_UNDOABLE: Final = Undoable(
    name="application_sessions",
    page=application_tabs.SESSIONS,
    at=_CHANGE,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_service),
    position=application_tabs.SIGN_IN_POSITION,
)


def _unset(record: Any, text: Text) -> str:
    """A page without a fact would say nothing."""
    is_set = record.session_lifetime_hours or record.session_idle_minutes or record.most_sessions
    return "" if is_set else text("console.application_sessions.unset")


SESSIONS: Final = Resource(
    name="application_sessions",
    position=application_tabs.SIGN_IN_POSITION,
    at=application_tabs.LIST,
    page=application_tabs.SESSIONS,
    listed=list_services,
    columns=APPLICATIONS.columns,
    parameter="service_slug",
    key=slug_of,
    record=get_service,
    facts=(
        sentence(_unset, "console.application_sessions.title"),
        number("session_lifetime_hours"),
        number("session_idle_minutes"),
        number("most_sessions"),
    ),
    below=(("console.application_sessions.change", _CHANGE, change_service),),
    undone=(_UNDOABLE,),
    crumbs=application_tabs.above,
    titled=lambda visit, _service: visit.text("console.application_sessions.title"),
)

_SessionsForm: Any = msgspec.defstruct("ApplicationSessionsForm", [("sure", str, "")], bases=(_SHAPE.form,), frozen=True, kw_only=True)


@console.get(_CHANGE, of=change_service, also=(get_service,))
async def ask_for_application_sessions(call: Call[None, None, ServicePath, Member], postern: Postern) -> Page:
    """Ask for the lives of an application's sessions"""
    visit = PageVisit(call, postern)
    texts = texts_of(_SHAPE.inputs, await visit.ask(get_service))
    return Answer(await _form(visit, texts, texts), 200)


@console.post(_CHANGE, of=change_service, also=(get_service,))
async def send_application_sessions(call: Call[_SessionsForm, None, ServicePath, Member], postern: Postern) -> Page:
    """Change the lives of an application's sessions

    The first answer says whose sessions the change would end, and asks. The second form changes them.
    """
    visit, form = PageVisit(call, postern), call.body
    own, onward = changed(_SHAPE.inputs, form), visit.here(application_tabs.SESSIONS)
    if not own:
        return redirect(f"{onward}?done=unchanged")
    record = await visit.ask(get_service)
    present, texts = texts_of(_SHAPE.inputs, record), sent_texts(_SHAPE.inputs, form)
    if others := moved(_SHAPE.inputs, form, record):
        meanwhile = [(visit.text(one.label), said_back(visit, one, present[one.field])) for one in others]
        return Answer(await _form(visit, texts, present, meanwhile=meanwhile), status_of(Conflict()))
    try:
        body = body_of(_SHAPE, form, only=own)
        if form.sure != "yes":
            reach = await postern.services.services.session_effects(call.caller, call.path.service_slug, change_of(body))
            return Answer(_question(visit, own, present, texts, reach), 200)
        async with changing(visit, noted(_UNDOABLE, visit, own, record, form)):
            await visit.ask(change_service, body=body)
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, _SHAPE.inputs)
        return Answer(await _form(visit, texts, present, errors=errors), status)
    return redirect(f"{onward}?done=saved")


def _crumbs(visit: PageVisit) -> tuple[tuple[str, str], ...]:
    return (*application_tabs.above(visit), (SESSIONS.text(visit, "title"), visit.here(application_tabs.SESSIONS)))


async def _form(
    visit: PageVisit,
    texts: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    meanwhile: Sequence[tuple[str, str]] = (),
) -> bytes:
    head = Head(
        title=visit.text("console.application_sessions.change"),
        crumbs=_crumbs(visit),
        curl=visit.curl(change_service, body={"session_idle_minutes": 60}),
        errors=errors,
    )
    return visit.show(
        "organization/settings/rules_form.html",
        SESSIONS.position,
        head,
        inputs=await drawn(visit, _SHAPE.inputs, texts),
        hidden={WAS: sealed(present)},
        meanwhile=meanwhile,
        action=visit.here(_CHANGE),
        back=visit.here(application_tabs.SESSIONS),
    )


def _question(visit: PageVisit, own: Sequence[Input], present: Mapping[str, Any], texts: Mapping[str, Any], reach: SessionReach) -> bytes:
    return visit.show(
        "organization/applications/sessions/session_effects.html",
        SESSIONS.position,
        Head(
            title=visit.text("console.application_sessions.sure"),
            crumbs=(*_crumbs(visit), (visit.text("console.application_sessions.change"), visit.here(_CHANGE))),
        ),
        changes=[
            (visit.text(one.label), said_back(visit, one, present[one.field]), said_back(visit, one, texts[one.field])) for one in own
        ],
        reach=reach,
        at_least=MOST_COUNTED if MOST_COUNTED in {reach.outlasted_sessions, reach.people_beyond} else 0,
        hidden={WAS: sealed(present), **texts},
        action=visit.here(_CHANGE),
        back=visit.here(application_tabs.SESSIONS),
    )


PAGES: Final = (record_page(SESSIONS), *undo_pages(_UNDOABLE), ask_for_application_sessions, send_application_sessions)
