"""`/ui/devices`: a person's devices: naming one, the reasons for its risk, and revoking one."""

from math import ceil
from typing import Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, Refusal
from core.domain.identifiers import DeviceId
from core.domain.identity.devices import LONGEST_NAME, Device
from core.domain.identity.risk import DEMANDS_MORE, WEIGHTS, RiskFactor
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages import device_in, shipped_pages
from entrypoints.http.pages.account import DEVICES, ON_A_PAGE, AnyCall, Done, Listing, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

LOW: Final = "low"
_ONE: Final = f"{DEVICES}/{{device_id}}"
_REVOKE: Final = f"{_ONE}/revoke"
_REVOKED: Final = {"revoked": "devices.done_revoked"}
_RENAMED: Final = {"renamed": "devices.done_renamed"}
# The lowest score of a sign-in with anything unusual.
_RAISED: Final = min(WEIGHTS.values())


class DevicePagePath(msgspec.Struct, frozen=True):
    device_id: UUID


class DeviceNameForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""


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

    The device's sessions end. The device that the person is using cannot be revoked: the person signs out instead.
    """
    try:
        await postern.identity.devices.revoke(call.caller, DeviceId(call.path.device_id), call.actor)
    except Forbidden:
        raise NotFound("There is no such device", words="device_unknown") from None
    except BadRequest as refusal:
        return Answer(_ask(call, postern, await _own(call, postern), refusal), 400)
    return back_to(DEVICES, "revoked")


def level(device: Device) -> str:
    """The risk of the device's last sign-in, in one word. Every device is new once, so that alone is nothing unusual."""
    if device.risk_factors == (RiskFactor.NEW_DEVICE,):
        return LOW
    if device.risk_score > DEMANDS_MORE:
        return "high"
    return "raised" if device.risk_score >= _RAISED else LOW


def tag(device: Device) -> str:
    """The text key of the device's risk in the list. Empty when the risk is low."""
    return "" if level(device) == LOW else f"devices.risk_{level(device)}"


async def _own(call: AnyCall, postern: Postern) -> Device:
    """The person's own device. Another person's device counts as unknown, so the page does not reveal that it exists."""
    try:
        return await postern.identity.devices.get(call.caller.user, DeviceId(call.path.device_id))
    except Forbidden:
        raise NotFound("There is no such device", words="device_unknown") from None


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
        risk=f"own_device.risk_{level(device)}",
        is_usual=level(device) == LOW,
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
