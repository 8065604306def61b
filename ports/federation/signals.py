"""Stores of Shared Signals: settings, streams, and the claims of the dispatcher."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.federation.signal_grants import OfferedSignals
from core.domain.federation.signals import DueSignal, SignalCaller, SignalDelivery, SignalGrant, SignalSettings, SignalStream
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SessionId, SignalStreamId, UserId
from core.frozen import Frozen
from ports.record import ClaimedReceiver


class KeptSignals(Frozen):
    """A service of the organization, and its signals. None while they are off."""

    service: ServiceId
    settings: SignalSettings | None


class SignalStore(Protocol):
    """Outside a unit of work, `settings`, `list` and `find` may be called, each as one statement and one round trip. The other methods
    need a unit of work. The caller of the methods that change a service's settings or streams holds the service.
    """

    async def settings(self, organization: OrganizationId, service_slug: str) -> KeptSignals | None:
        """None when the organization has no such service."""

    async def turn_on(self, service: ServiceId, settings: SignalSettings, at: datetime) -> None:
        """Turns signals on, or changes them."""

    async def turn_off(self, service: ServiceId) -> None:
        """Ends all streams of the service, too."""

    async def hold_settings(self, service: ServiceId) -> SignalSettings | None:
        """They stay as they are until the unit of work ends, and nobody else makes or changes streams of the service. None while signals
        are off.
        """

    async def counts(self, service: ServiceId, organization: OrganizationId) -> tuple[int, int]:
        """How many streams the service has, and how many the organization. After the organization is held."""

    async def services(self, organization: OrganizationId) -> Sequence[ServiceId]:
        """Those with streams, by their ids."""

    async def list(self, service: ServiceId) -> Sequence[SignalStream]:
        """The oldest first."""

    async def find(self, service: ServiceId, stream: SignalStreamId) -> SignalStream | None: ...

    async def add(self, stream: SignalStream, sealed_header: bytes | None) -> None:
        """After `hold_settings`."""

    async def save(self, stream: SignalStream, *, keeps_header: bool, sealed_header: bytes | None) -> None:
        """After `hold_settings`. With `keeps_header`, the header of before stays, and `sealed_header` says nothing. Wakes the
        dispatchers.
        """

    async def delete(self, stream: SignalStreamId) -> None:
        """With what waits for it. After `hold_settings`."""

    async def verified_at(self, stream: SignalStreamId) -> datetime | None:
        """When a proof of life was asked for last. After `hold_settings`."""

    async def note_verification(self, stream: SignalStreamId, at: datetime) -> None: ...


class SignalCallers(Protocol):
    """Outside any unit of work: one statement and one round trip."""

    async def find(self, service: ServiceId, client: ClientId, issued_at: datetime) -> SignalCaller | None:
        """None for a service that has ended, that has another client id since, that is no longer one that authenticates, that has lost a
        credential since its token was issued, or whose organization is not active.
        """

    async def find_granted(self, grant: SignalGrant, issued_at: datetime) -> SignalCaller | None:
        """The application of the session. None when the session has ended, when its person has taken the scopes back or may no longer
        grant them, and for what `find` finds nothing for.
        """

    async def find_again(self, caller: SignalCaller) -> SignalCaller | None:
        """The caller as things are now."""


class SignalOffers(Protocol):
    """Outside any unit of work: one statement and one round trip. Only requests that ask for scopes of signals cost it."""

    async def find(self, service: ServiceId, user: UserId, session: SessionId) -> OfferedSignals | None:
        """What this person, in this session of a browser, may grant the application. None while signals are off, and for somebody who may
        not manage the integrations of its organization.
        """

    async def are_on(self, service: ServiceId) -> bool:
        """False also for an application that cannot authenticate."""


class SignalPolls(Protocol):
    """Outside any unit of work."""

    async def acknowledge(self, stream: SignalStreamId, received: Collection[UUID], refused: Mapping[UUID, str]) -> int:
        """What the stream's application has received, and what it refused and why. Both are over. What does not wait for this stream is
        left out. Returns how many waited. One statement.
        """

    async def waiting(self, stream: SignalStreamId, limit: int) -> Sequence[DueSignal]:
        """What waits for a polled stream, the oldest first. Gives up before what may not be told any more. Empty while the stream, or its
        organization, is paused.
        """

    async def wait(self, organization: OrganizationId, stream: SignalStreamId) -> bool:
        """Waits until something waits for the stream, but no longer than `LONGEST_POLL`, and holds no connection meanwhile. False at once
        where a poll of the stream waits already, or too many wait in this process, or nobody looks.
        """

    def open(self) -> None:
        """From now on somebody calls `look` whenever there may be something."""

    def close(self) -> None:
        """Nobody looks any more: polls that wait go on, and no other waits."""

    async def look(self) -> None:
        """Wakes the polls for whose streams something waits. One statement for all."""


class ClaimedStream(ClaimedReceiver, kw_only=True):
    client: ClientId
    sealed_header: bytes | None


class SignalLogLookup(Protocol):
    """Outside any unit of work: one statement and one round trip."""

    async def list(
        self,
        organization: OrganizationId,
        service_slug: str,
        stream: SignalStreamId,
        *,
        before: UUID | None,
        delivered: bool | None,
        limit: int,
    ) -> Sequence[SignalDelivery] | None:
        """Newest first; those behind the place `before`. None when no such service of the organization has such a stream."""
