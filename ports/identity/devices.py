"""The store of devices, and what tells the place and the software that a person signs in from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.devices import Device, Location, UserAgent
from core.domain.identity.risk import Approach, Knowledge, Sighting


class DeviceStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each; both skip revoked devices. The other methods
    need a unit of work.
    """

    async def list(self, user: UserId) -> Sequence[Device]:
        """The last used first."""

    async def find(self, device: DeviceId) -> Device | None: ...

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        """For a sign-in whose own look-up does not bring the knowledge: one round trip. Nothing is known of an unknown user."""

    async def add(self, device: Device, token_digest: bytes) -> None: ...

    async def used(self, device: DeviceId, user: UserId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        """Records the sign-in: time, place, risk and software. A digest replaces the device's token and ends its trust. A revocation or a
        removal that came in between is undone: a device that has just signed in is in the list and can be revoked again.
        """

    async def trust(self, device: DeviceId, trust_digest: bytes, at: datetime, until: datetime) -> None:
        """The trust lasts from `at` until `until`, or until the trust period of one of the person's organizations is over. That period may
        become shorter later.
        """

    async def end_trust(self, user: UserId) -> None:
        """From now on, no device of this person may skip the second factor."""

    async def hold(self, device: DeviceId) -> Device | None:
        """The device, revoked or not. Nobody else changes it until the transaction ends. None when there is no such device."""

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None: ...

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        """Revokes the device with its token and its trust. The caller ends the device's sessions."""

    async def revoke_all(self, user: UserId, at: datetime, *, but: SessionId | None = None) -> None:
        """Revokes every device of this person, except for the one of that session: nobody is known by them any more."""


class UserAgents(Protocol):
    """A library implements it."""

    async def parse(self, text: str) -> UserAgent:
        """Never fails: for nonsense it returns what little is known. The time is bounded for any text."""


class Locations(Protocol):
    """A database file of the operator implements it. Without one, nothing is found."""

    async def find(self, address: str | None) -> Location | None:
        """None when there is no database, or the database does not know the address."""


class Proxies(Protocol):
    """Lists of the operator implement it."""

    def contain(self, address: str | None) -> bool | None:
        """None when there is no list, or the text is no address."""
