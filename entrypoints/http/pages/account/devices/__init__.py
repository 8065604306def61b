"""A person's devices and sessions, the attempts to sign in to the account, and locking it, because somebody else may be in it."""

from math import ceil
from typing import Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, Refusal
from core.domain.federation.backchannel_requests import PROVIDER as BACKCHANNEL_PROVIDER
from core.domain.federation.oauth.device_flow import PROVIDER as DEVICE_PROVIDER
from core.domain.federation.saml.sign_in import PROVIDER as SAML_PROVIDER
from core.domain.identifiers import DeviceId, LoginEventId, SessionId
from core.domain.identity.devices import LONGEST_NAME, Device
from core.domain.identity.login_events import OwnLogin
from core.domain.identity.passkeys import PASSKEY_PROVIDER
from core.domain.identity.risk import DEMANDS_MORE, WEIGHTS, RiskFactor
from core.domain.identity.sessions import OwnSession
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER, SESSION_PROVIDER
from core.domain.identity.upstream.providers import NAMES, OWN_PROVIDER
from core.domain.requests import Page as Part
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, HOME, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import DEVICES, LOCK, ON_A_PAGE, SESSIONS, SIGN_INS, AnyCall, Done, Listing, Page, ask, back_to, show
from entrypoints.http.pages.kit import device_in, shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, page
from entrypoints.http.pages.mailed import locked_page

LOW_RISK: Final = "low"
_ONE: Final = f"{DEVICES}/{{device_id}}"
_REVOKE: Final = f"{_ONE}/revoke"
_REVOKED: Final = {"revoked": "devices.done_revoked"}
_RENAMED: Final = {"renamed": "devices.done_renamed"}
# The lowest score of a sign-in with anything unusual.
_RAISED: Final = min(WEIGHTS.values())


class DevicePagePath(msgspec.Struct, frozen=True):
    device_id: UUID


class DeviceNameForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""


@page.get(DEVICES, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_devices(call: Call[None, Listing], postern: Postern) -> bytes:
    """List your devices, the most recently used first"""
    link = call.query
    devices = await postern.identity.devices.list(call.caller.user)
    return show(
        call,
        postern,
        "devices/devices.html",
        DEVICES,
        devices=devices[link.part.offset : link.part.offset + ON_A_PAGE],
        tag=tag,
        current=call.caller.device,
        number=link.page,
        pages=ceil(len(devices) / ON_A_PAGE),
        done=_REVOKED.get(link.done, ""),
    )


@page.get(_ONE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_device(call: Call[None, Done, DevicePagePath], postern: Postern) -> bytes:
    """See the details of a device"""
    return _device(call, postern, await _own(call, postern), _RENAMED.get(call.query.done, ""))


@page.post(_ONE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def name_device(call: Call[DeviceNameForm, None, DevicePagePath], postern: Postern) -> Page:
    """Give a device another name"""
    device = await _own(call, postern)
    try:
        await postern.identity.devices.rename(call.caller.user, device.id, call.body.name, call.actor)
    except BadRequest as refusal:
        return Answer(_device(call, postern, device, name=call.body.name, refusal=refusal), 400)
    return back_to(f"{DEVICES}/{device.id}", "renamed")


@page.get(_REVOKE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_revoke_device(call: Call[None, None, DevicePagePath], postern: Postern) -> bytes:
    """Ask before a device is revoked"""
    return _ask(call, postern, await _own(call, postern))


@page.post(_REVOKE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def revoke_own_device(call: Call[BoundForm, None, DevicePagePath], postern: Postern) -> Page:
    """Revoke a device

    The device's sessions are revoked. The current device cannot be revoked: sign out instead.
    """
    try:
        await postern.identity.devices.revoke(call.caller, DeviceId(call.path.device_id), call.actor)
    except Forbidden:
        raise NotFound("Device not found", words="device_unknown") from None
    except BadRequest as refusal:
        return Answer(_ask(call, postern, await _own(call, postern), refusal), 400)
    return back_to(DEVICES, "revoked")


def risk_level(device: Device) -> str:
    """The risk of the device's last sign-in, in one word. Every device is new once, so that alone is nothing unusual."""
    if device.risk_factors == (RiskFactor.NEW_DEVICE,):
        return LOW_RISK
    if device.risk_score > DEMANDS_MORE:
        return "high"
    return "raised" if device.risk_score >= _RAISED else LOW_RISK


def tag(device: Device) -> str:
    """The text key of the device's risk in the list. Empty when the risk is low."""
    return "" if risk_level(device) == LOW_RISK else f"devices.risk_{risk_level(device)}"


async def _own(call: AnyCall, postern: Postern) -> Device:
    """The person's own device. Another person's device counts as unknown, so the page does not reveal that it exists."""
    try:
        return await postern.identity.devices.get(call.caller.user, DeviceId(call.path.device_id))
    except Forbidden:
        raise NotFound("Device not found", words="device_unknown") from None


def _device(
    call: AnyCall, postern: Postern, device: Device, done: str = "", *, name: str | None = None, refusal: Refusal | None = None
) -> bytes:
    known = {factor.value for factor in RiskFactor}
    place = f"{DEVICES}/{device.id}"
    return show(
        call,
        postern,
        "devices/device.html",
        DEVICES,
        device=device,
        risk=f"own_device.risk_{risk_level(device)}",
        is_usual=risk_level(device) == LOW_RISK,
        reasons=[f"own_device.reason.{factor}" for factor in device.risk_factors if factor in known],
        current=device.id == call.caller.device,
        action=place,
        revoke=f"{place}/revoke",
        back=DEVICES,
        name=device.name if name is None else name,
        longest=LONGEST_NAME,
        done=done,
        errors={} if refusal is None else {"name": refusal},
    )


def _ask(call: AnyCall, postern: Postern, device: Device, refusal: Refusal | None = None) -> bytes:
    place = f"{DEVICES}/{device.id}"
    values = {"device": device_in(shipped_pages().text(call.language), device.name)}
    return ask(
        call,
        postern,
        DEVICES,
        f"{place}/revoke",
        name="device_revoke",
        button="device_revoke.button",
        back=place,
        values=values,
        refusal=refusal,
    )


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


NAMED_FAILURES: Final = {
    PASSWORD_PROVIDER: "sign_ins.by_password",
    LINK_PROVIDER: "sign_ins.by_link",
    PASSKEY_PROVIDER: "sign_ins.by_passkey",
    OWN_PROVIDER: "sign_ins.by_provider",
    DEVICE_PROVIDER: "sign_ins.by_device",
    BACKCHANNEL_PROVIDER: "sign_ins.by_afar",
    SAML_PROVIDER: "sign_ins.by_saml",
    SESSION_PROVIDER: "sign_ins.by_session",
}


class Older(msgspec.Struct, frozen=True):
    before: UUID | None = None


@page.get(SIGN_INS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_sign_ins(call: Call[None, Older], postern: Postern) -> bytes:
    """List the attempts to sign in to your account, newest first"""
    before = None if call.query.before is None else LoginEventId(call.query.before)
    # The page asks for one entry more than it shows. If it gets that entry, there are older ones.
    found = await postern.identity.login_events.list_own(call.caller.user, before, ON_A_PAGE + 1)
    logins = found[:ON_A_PAGE]
    older = f"{SIGN_INS}?before={logins[-1].event.id}" if len(found) > ON_A_PAGE else ""
    newest = SIGN_INS if before is not None else ""
    return show(
        call,
        postern,
        "devices/sign_ins.html",
        SIGN_INS,
        logins=logins,
        failure=failure,
        named=NAMED_FAILURES,
        providers=NAMES,
        older=older,
        newest=newest,
    )


def failure(login: OwnLogin) -> str:
    """The text key of the reason why an attempt failed. Empty when the attempt succeeded."""
    reason = login.event.failure
    return "" if reason is None else f"sign_ins.failure.{reason.value}"


@page.get(LOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def ask_to_lock_own_account(call: Call, postern: Postern) -> bytes:
    """Ask before your account is locked"""
    text = shipped_pages().text(call.language)
    ends = [text(f"lock_own.ends.{one}") for one in ("sessions", "keys", "password")]
    return ask(
        call, postern, LOCK, LOCK, name="lock_own", button="lock_own.button", back=HOME, ends=ends, afterwards=text("lock_own.stays")
    )


@page.post(LOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(BadRequest,))
async def send_lock_of_own_account(call: Call[BoundForm], postern: Postern) -> bytes:
    """Lock your account

    It needs no fresh proof: whoever finds a stranger in the account has no time for one, and the mailbox opens it again.
    """
    return locked_page(call, postern, await postern.identity.account_locks.lock_own(call.caller, call.actor))
