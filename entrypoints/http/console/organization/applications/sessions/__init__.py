"""How long sessions of an application last, how long they may rest, and how many there may be; and whose a change would end."""

from collections.abc import Mapping
from typing import Any, Final

from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import number, sentence
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.effects import AskedChange, asking_form
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.resource_pages import record_page
from entrypoints.http.console.kit.resources import Resource
from entrypoints.http.console.kit.undo import Undoable, undo_pages
from entrypoints.http.console.kit.visit import Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import APPLICATION_LIST, slug_of
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.routes.services.services import change_of, change_service, get_service, list_services
from ports.texts import Text

_CHANGE: Final = f"{applications.SESSIONS}/change"
_SHAPE: Final = shape(
    change_service,
    Asked("session_lifetime_hours", hint="console.application_sessions.hours_hint"),
    Asked("session_idle_minutes", hint="console.application_sessions.idle_hint"),
    Asked("most_sessions", hint="console.application_sessions.most_hint"),
)
_UNDOABLE: Final = Undoable(
    name="application_sessions",
    page=applications.SESSIONS,
    at=_CHANGE,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_service),
    position=applications.SIGN_IN_POSITION,
)


def _unset(record: Any, text: Text) -> str:
    """A page without a fact would say nothing."""
    is_set = record.session_lifetime_hours or record.session_idle_minutes or record.most_sessions
    return "" if is_set else text("console.application_sessions.unset")


SESSIONS: Final = Resource(
    name="application_sessions",
    position=applications.SIGN_IN_POSITION,
    at=applications.LIST,
    page=applications.SESSIONS,
    listed=list_services,
    columns=APPLICATION_LIST.columns,
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
    crumbs=applications.above,
    titled=lambda visit, _service: visit.text("console.application_sessions.title"),
)


async def _reach(visit: PageVisit, body: Any) -> Mapping[str, Any]:
    reach = await visit.postern.services.services.session_effects(visit.call.caller, visit.call.path.service_slug, change_of(body))
    return {
        "reach": reach,
        "reaches": reach.outlasted_sessions or reach.people_beyond,
        "at_least": MOST_ROWS_COUNTED if MOST_ROWS_COUNTED in {reach.outlasted_sessions, reach.people_beyond} else 0,
    }


_ASKED: Final = AskedChange(
    undoable=_UNDOABLE,
    change=change_service,
    example={"session_idle_minutes": 60},
    title="console.application_sessions.change",
    question="console.application_sessions.sure",
    effects=_reach,
    template="organization/applications/sessions/session_effects.html",
    crumbs=lambda visit: (*applications.above(visit), (SESSIONS.text(visit, "title"), visit.here(applications.SESSIONS))),
)
_SessionsForm: Any = asking_form(_SHAPE)


@console.get(_CHANGE, of=change_service, also=(get_service,))
async def ask_for_application_sessions(call: Call[None, None, ServicePath, Member], postern: Postern) -> Page:
    """Ask for the lives of an application's sessions"""
    return await _ASKED.ask(PageVisit(call, postern))


@console.post(_CHANGE, of=change_service, also=(get_service,))
async def send_application_sessions(call: Call[_SessionsForm, None, ServicePath, Member], postern: Postern) -> Page:
    """Change the lives of an application's sessions

    The first answer says whose sessions the change would end, and asks. The second form changes them.
    """
    return await _ASKED.send(PageVisit(call, postern), call.body)


PAGES: Final = (record_page(SESSIONS), *undo_pages(_UNDOABLE), ask_for_application_sessions, send_application_sessions)
