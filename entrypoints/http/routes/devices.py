"""The devices that the caller signs in with."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from core.domain.devices import Device, DeviceType
from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import DeviceId
from core.domain.sessions import Caller
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Message
from entrypoints.http.callers import USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

_TAGS = ("devices",)


class DevicePath(msgspec.Struct, frozen=True):
    device_id: UUID


class DeviceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`browser` and `os` are empty when the client does not say what it is, `last_ip` when it came through a local socket."""

    id: UUID
    name: str
    device_type: DeviceType
    browser: str
    os: str
    last_used_at: datetime
    last_ip: str
    is_current: bool
    trusted: bool
    created_at: datetime


class LastLocation(msgspec.Struct, frozen=True):
    """`country` by its two letters (ISO 3166-1). Null: not known."""

    city: str | None
    country: str | None


class DeviceDetail(DeviceSummary, frozen=True, kw_only=True):
    """`risk_score` is that of the last sign-in with it."""

    browser_version: str
    os_version: str
    last_location: LastLocation
    risk_score: float


class DeviceList(msgspec.Struct, frozen=True):
    devices: Sequence[DeviceSummary]
    total: int


class Rename(msgspec.Struct, frozen=True):
    name: str


class Renamed(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    device_type: DeviceType
    updated_at: datetime


@endpoint.get("/api/user/devices", caller=USER, tags=_TAGS)
async def list_devices(call: Call, services: Services) -> DeviceList:
    """The caller's devices, the last used first"""
    now = services.clock.now()
    devices = [_summary(device, call.caller, now) for device in await services.devices.list(call.caller.user)]
    return DeviceList(devices, len(devices))


@endpoint.get("/api/user/devices/{device_id}", caller=USER, refuses=(NotFound,), tags=_TAGS)
async def device_detail(call: Call[None, None, DevicePath], services: Services) -> DeviceDetail:
    """One of the caller's devices"""
    device = await services.devices.get(call.caller.user, DeviceId(call.path.device_id))
    location = device.last_location
    return DeviceDetail(
        **msgspec.structs.asdict(_summary(device, call.caller, services.clock.now())),
        browser_version=device.agent.browser_version or "",
        os_version=device.agent.os_version or "",
        last_location=LastLocation(None, None) if location is None else LastLocation(location.city, location.country),
        risk_score=device.risk_score,
    )


@endpoint.patch("/api/user/devices/{device_id}", caller=USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def rename_device(call: Call[Rename, None, DevicePath], services: Services) -> Renamed:
    """Name a device

    1 to 100 characters, without the space around them.
    """
    device = await services.devices.rename(call.caller.user, DeviceId(call.path.device_id), call.body.name, call.actor)
    return Renamed(device.id, device.name, device.agent.device_type, device.updated_at)


@endpoint.delete("/api/user/devices/{device_id}", caller=USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def revoke_device(call: Call[None, None, DevicePath], services: Services) -> Message:
    """Revoke a device

    Its sessions and refresh tokens are dead on the next request. May be repeated. The device in use is ended by signing out instead.
    """
    await services.devices.revoke(call.caller, DeviceId(call.path.device_id), call.actor)
    return Message("Device revoked")


def _summary(device: Device, caller: Caller, now: datetime) -> DeviceSummary:
    return DeviceSummary(
        id=device.id,
        name=device.name,
        device_type=device.agent.device_type,
        browser=device.agent.browser or "",
        os=device.agent.os or "",
        last_used_at=device.last_used_at,
        last_ip=device.last_address or "",
        is_current=device.id == caller.device,
        trusted=device.is_trusted(now),
        created_at=device.created_at,
    )
