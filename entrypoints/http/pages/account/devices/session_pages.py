"""`/ui/sessions`: a person's sessions, and ending one of them or all others."""

from math import ceil
from typing import Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import SessionId
from core.domain.identity.sessions import OwnSession
from core.domain.requests import Page as Part
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages import device_in, shipped_pages
from entrypoints.http.pages.account import ON_A_PAGE, SESSIONS, AnyCall, Listing, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_END: Final = f"{SESSIONS}/{{session_id}}/end"
_END_OTHERS: Final = f"{SESSIONS}/end-others"
_DONE: Final = {"ended": "sessions.done_ended", "others": "sessions.done_others"}


class SessionPath(msgspec.Struct, frozen=True):
    session_id: UUID


@page.get(SESSIONS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_sessions(call: Call[None, Listing], postern: Postern) -> bytes:
    """List where you are signed in"""
    link = call.query
    listed = await postern.identity.own_sessions.list(call.caller, link.part)
    return show(
        call,
        postern,
        "devices/sessions.html",
        SESSIONS,
        sessions=listed.sessions,
        current=call.caller.session,
        others=listed.others,
        end_others=_END_OTHERS,
        number=link.page,
        pages=ceil(listed.total / ON_A_PAGE),
        done=_DONE.get(link.done, ""),
    )


@page.get(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_end_session(call: Call[None, None, SessionPath], postern: Postern) -> Page | bytes:
    """Ask before a session ends"""
    session = SessionId(call.path.session_id)
    if session == call.caller.session:
        return redirect(SESSIONS)
    ending = await postern.identity.own_sessions.tree(call.caller, session)
    ends = [_described(call, one) for one in ending]
    return ask(
        call, postern, SESSIONS, f"{SESSIONS}/{session}/end", name="session_end", button="session_end.button", back=SESSIONS, ends=ends
    )


@page.post(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def end_session(call: Call[BoundForm, None, SessionPath], postern: Postern) -> Page:
    """End a session, and the sessions that were opened from it

    Ending a session that has already ended is no error. To end the present session, the person signs out.
    """
    try:
        await postern.identity.own_sessions.end(call.caller, SessionId(call.path.session_id), call.actor)
    except BadRequest:
        return redirect(SESSIONS)
    return back_to(SESSIONS, "ended")


@page.get(_END_OTHERS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def ask_to_end_others(call: Call, postern: Postern) -> Page | bytes:
    """Ask before all other sessions end"""
    listed = await postern.identity.own_sessions.list(call.caller, Part(1, ON_A_PAGE))
    if not listed.others:
        return redirect(SESSIONS)
    ends = [_described(call, one) for one in listed.sessions if not one.opened_here]
    values = {"count": listed.others}
    return ask(
        call, postern, SESSIONS, _END_OTHERS, name="sessions_end", button="sessions_end.button", back=SESSIONS, values=values, ends=ends
    )


@page.post(_END_OTHERS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def end_other_sessions(call: Call[BoundForm], postern: Postern) -> Page:
    """End all other sessions"""
    await postern.identity.sessions.sign_out_others(call.caller.user, call.caller.session, call.actor)
    return back_to(SESSIONS, "others")


def _described(call: AnyCall, session: OwnSession) -> str:
    text = shipped_pages().text(call.language)
    what = text("sessions.impersonated") if session.impersonated else session.service or session.organization or text("sessions.platform")
    device = device_in(text, session.device_name) or text("sessions.no_device")
    return text("sessions.described", what=what, device=device)
