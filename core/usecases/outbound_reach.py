"""Whom this process reached lately, of all that it sends to receivers of organizations: for metrics, and for a line a minute in the log."""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import ReceiverKind
from core.frozen import Frozen
from ports.system import Clock

LATELY: Final = timedelta(minutes=15)
"""The alerts look at so much time."""
MOST_RECEIVERS: Final = 1_000
"""Those with the latest attempts. Of more, a look would hold the event loop, and their shares say as much as those of all."""


class ReceiversLately(Frozen):
    """How many receivers were reached lately, and how many only failed."""

    reached: int = 0
    failed: int = 0


class AttemptsLately(Frozen):
    """Attempts since the last look, and how many receivers failed in them."""

    received: int
    failed: int
    failing_receivers: int


class OutboundLately(Frozen):
    """By kind, and for organizations over all kinds. Of an organization that was reached anywhere, nothing is amiss on our side."""

    receivers: Mapping[ReceiverKind, ReceiversLately]
    organizations: ReceiversLately


class _Receiver:
    __slots__ = ("failed_at", "organization", "received_at")

    def __init__(self, organization: OrganizationId) -> None:
        self.organization = organization
        self.received_at: datetime | None = None
        self.failed_at: datetime | None = None


class OutboundReach:
    """Lives in the memory of its process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._receivers: OrderedDict[tuple[ReceiverKind, UUID], _Receiver] = OrderedDict()
        self._received: Counter[ReceiverKind] = Counter()
        self._failed: Counter[ReceiverKind] = Counter()
        self._looked_at = clock.now()

    def attempted(self, kind: ReceiverKind, receiver: UUID, organization: OrganizationId, *, received: bool) -> None:
        now = self._clock.now()
        known = self._receivers.pop((kind, receiver), None) or _Receiver(organization)
        self._receivers[kind, receiver] = known
        if received:
            known.received_at = now
            self._received[kind] += 1
        else:
            known.failed_at = now
            self._failed[kind] += 1
        if len(self._receivers) > MOST_RECEIVERS:
            self._receivers.popitem(last=False)

    def look(self) -> tuple[OutboundLately, Mapping[ReceiverKind, AttemptsLately]]:
        """Whom this process reached lately, and the attempts since the last look, by kind where there were any."""
        now, since = self._clock.now(), self._looked_at
        self._drop(now - LATELY)
        reached: Counter[ReceiverKind] = Counter()
        failed: Counter[ReceiverKind] = Counter()
        failing: Counter[ReceiverKind] = Counter()
        organizations: dict[OrganizationId, bool] = {}
        for (kind, _), one in self._receivers.items():
            is_reached = one.received_at is not None and one.received_at > now - LATELY
            (reached if is_reached else failed)[kind] += 1
            organizations[one.organization] = organizations.get(one.organization, False) or is_reached
            failing[kind] += one.failed_at is not None and one.failed_at >= since
        counted = Counter(organizations.values())
        attempts = {
            kind: AttemptsLately(self._received[kind], self._failed[kind], failing[kind])
            for kind in ReceiverKind
            if self._received[kind] or self._failed[kind]
        }
        self._received, self._failed, self._looked_at = Counter(), Counter(), now
        receivers = {kind: ReceiversLately(reached[kind], failed[kind]) for kind in ReceiverKind}
        return OutboundLately(receivers, ReceiversLately(counted[True], counted[False])), attempts

    def _drop(self, before: datetime) -> None:
        """They stand in the order of their latest attempts."""
        while self._receivers:
            key, oldest = next(iter(self._receivers.items()))
            if max(one for one in (oldest.received_at, oldest.failed_at) if one is not None) > before:
                return
            del self._receivers[key]
