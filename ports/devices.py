"""Where devices are kept, and what is known of where and with what somebody comes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.devices import Approach, Device, Knowledge, Location, Sighting, UserAgent
from core.domain.identifiers import DeviceId, UserId


class DeviceStore(Protocol):
    """Part of the unit of work."""

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        """For a sign-in whose own lookup does not bring it: one round trip. Nothing is known of an unknown user."""

    async def add(self, device: Device, token_digest: bytes) -> None: ...

    async def used(self, device: DeviceId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        """Note the sign-in: when, from where, at what risk, with what software. A digest replaces the device's token, and ends its trust.

        A revocation that came between is undone: whoever has just signed in shows in the list, and can be revoked again.
        """

    async def trust(self, device: DeviceId, trust_digest: bytes, until: datetime) -> None: ...

    async def end_trust(self, user: UserId) -> None:
        """No device of this person may skip the second factor any more."""

    async def hold(self, device: DeviceId) -> Device | None:
        """The device, revoked or not, and nobody else changes it until the transaction ends. None when there is none."""

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None: ...

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        """Revoke it with its token and its trust. Its sessions are ended beside it."""


class DeviceLookup(Protocol):
    """Outside any unit of work: one statement each. Revoked devices do not exist here."""

    async def list(self, user: UserId) -> Sequence[Device]:
        """The last used first."""

    async def get(self, device: DeviceId) -> Device | None: ...


class UserAgents(Protocol):
    async def parse(self, text: str) -> UserAgent:
        """Never fails: of nonsense, little is known. Bounded in time, whatever the text."""


class Locations(Protocol):
    async def find(self, address: str | None) -> Location | None:
        """None when there is no database, or it does not know the address."""


class Proxies(Protocol):
    def contain(self, address: str | None) -> bool | None:
        """None when no list was given, or it is no address."""
