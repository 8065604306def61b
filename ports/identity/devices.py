"""Where devices are kept, and what is known of the place and the software that a person signs in from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import DeviceId, UserId
from core.domain.identity.devices import Device, Location, UserAgent
from core.domain.identity.risk import Approach, Knowledge, Sighting


class DeviceStore(Protocol):
    """Outside a unit of work, `list` and `get` are one statement and one round trip each. The other methods need a unit of work. Only
    PostgreSQL implements it.
    """

    async def list(self, user: UserId) -> Sequence[Device]:
        """The last used first."""

    async def get(self, device: DeviceId) -> Device | None: ...

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        """For a sign-in whose own look-up does not bring it: one round trip. Of an unknown user nothing is known."""

    async def add(self, device: Device, token_digest: bytes) -> None: ...

    async def used(self, device: DeviceId, user: UserId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        """Records the sign-in: time, place, risk and software. A digest replaces the device's token and ends its trust.

        It undoes a revocation or a removal that came in between: a device that has just signed in is in the list and can be revoked again.
        """

    async def trust(self, device: DeviceId, trust_digest: bytes, at: datetime, until: datetime) -> None:
        """From `at` until `until`, or until the trust period of one of the person's organizations is over, which may become shorter."""

    async def end_trust(self, user: UserId) -> None:
        """No device of this person may skip the second factor any longer."""

    async def hold(self, device: DeviceId) -> Device | None:
        """The device, revoked or not. Nobody else changes it until the transaction ends. None when there is no such device."""

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None: ...

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        """Revokes it with its token and its trust. The caller ends its sessions."""


class UserAgents(Protocol):
    async def parse(self, text: str) -> UserAgent:
        """Never fails: for nonsense it returns what little is known. Its time is bounded for any text."""


class Locations(Protocol):
    async def find(self, address: str | None) -> Location | None:
        """None when there is no database, or the database does not know the address."""


class Proxies(Protocol):
    def contain(self, address: str | None) -> bool | None:
        """None when there is no list, or the text is no address."""
