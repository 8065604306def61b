"""The devices that the caller signs in with."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import DeviceId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Device, DeviceType
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Name, Total, UpdatedAt, example

_TAGS = ("devices",)


class DevicePath(msgspec.Struct, frozen=True):
    device_id: UUID
    """The device's ID."""


class DeviceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A browser or app that has signed in to the account."""

    id: Id
    name: Annotated[str, example("Firefox on Linux")]
    """Your name for the device. The default contains the browser and the operating system."""
    device_type: Annotated[DeviceType, example("browser")]
    """The type of client."""
    browser: Annotated[str, example("Firefox")]
    """The browser; empty if unknown."""
    os: Annotated[str, example("Linux")]
    """The operating system; empty if unknown."""
    last_used_at: datetime
    """When the device was last used."""
    last_ip: Annotated[str, example("203.0.113.7")]
    """The IP address that the device was last used from; empty if the request came through a local socket."""
    is_current: bool
    """Whether this is the device of the request."""
    trusted: bool
    """Whether the device can skip MFA."""
    created_at: CreatedAt
    """When the device was first used."""


class LastLocation(msgspec.Struct, frozen=True):
    """The last location of a device, derived from its IP address."""

    city: Annotated[str, example("Oslo")] | None
    """The city; null if unknown."""
    country: Annotated[str, example("NO")] | None
    """The two-letter country code (ISO 3166-1); null if unknown."""


class DeviceDetail(DeviceSummary, frozen=True, kw_only=True):
    """A device with all details."""

    browser_version: Annotated[str, example("128.0")]
    """The version of the browser; empty if unknown."""
    os_version: Annotated[str, example("6.1")]
    """The version of the operating system; empty if unknown."""
    last_location: LastLocation
    """The last location of the device."""
    risk_score: Annotated[float, example(0.3)]
    """The risk score of the last sign-in with this device, from 0 to 1."""


class DeviceList(msgspec.Struct, frozen=True):
    """All devices of the account."""

    devices: Sequence[DeviceSummary]
    """The devices, most recently used first."""
    total: Total


class DeviceName(msgspec.Struct, frozen=True):
    """The new name of a device."""

    name: Annotated[Name, example("Work laptop")]
    """The name, 1 to 100 characters. Leading and trailing spaces are removed."""


class RenamedDevice(msgspec.Struct, frozen=True):
    """The renamed device."""

    id: Id
    name: Annotated[str, example("Work laptop")]
    """The new name."""
    device_type: Annotated[DeviceType, example("browser")]
    """The type of client."""
    updated_at: UpdatedAt


@endpoint.get("/api/user/devices", caller=OWN_USER, tags=_TAGS)
async def list_devices(call: Call, postern: Postern) -> DeviceList:
    """List your devices

    Returns the browsers and apps that have signed in to your account, most recently used first. The device of this request has
    `is_current`.
    """
    now = postern.foundation.clock.now()
    devices = [_summary(device, call.caller, now) for device in await postern.identity.devices.list(call.caller.user)]
    return DeviceList(devices, len(devices))


@endpoint.get("/api/user/devices/{device_id}", caller=OWN_USER, refuses=(NotFound,), tags=_TAGS)
async def get_device(call: Call[None, None, DevicePath], postern: Postern) -> DeviceDetail:
    """Get a device

    The location is derived from the device's last IP address, and can be wrong.
    """
    device = await postern.identity.devices.get(call.caller.user, DeviceId(call.path.device_id))
    location = device.last_location
    return DeviceDetail(
        **msgspec.structs.asdict(_summary(device, call.caller, postern.foundation.clock.now())),
        browser_version=device.agent.browser_version or "",
        os_version=device.agent.os_version or "",
        last_location=LastLocation(None, None) if location is None else LastLocation(location.city, location.country),
        risk_score=device.risk_score,
    )


@endpoint.patch("/api/user/devices/{device_id}", caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def rename_device(call: Call[DeviceName, None, DevicePath], postern: Postern) -> RenamedDevice:
    """Rename a device

    Only you see the name. Sessions and tokens of the device stay valid.
    """
    device = await postern.identity.devices.rename(call.caller.user, DeviceId(call.path.device_id), call.body.name, call.actor)
    return RenamedDevice(device.id, device.name, device.agent.device_type, device.updated_at)


@endpoint.delete("/api/user/devices/{device_id}", caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def revoke_device(call: Call[None, None, DevicePath], postern: Postern) -> Message:
    """Revoke a device

    From the next request, the device's sessions and refresh tokens are rejected. The request can be repeated safely. To revoke the device
    that you are using, sign out instead.
    """
    await postern.identity.devices.revoke(call.caller, DeviceId(call.path.device_id), call.actor)
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
