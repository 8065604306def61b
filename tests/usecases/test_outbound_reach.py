"""Whom a process reached lately."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import ReceiverKind
from core.usecases import outbound_reach
from core.usecases.outbound_reach import LATELY, AttemptsLately, OutboundReach, ReceiversLately
from tests.usecases.set_clock import SetClock

ACME, GLOBEX = OrganizationId(UUID(int=1)), OrganizationId(UUID(int=2))
ONE, TWO, THREE = UUID(int=11), UUID(int=12), UUID(int=13)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def reach(clock: SetClock) -> OutboundReach:
    return OutboundReach(clock)


def test_a_receiver_that_was_reached_once_counts_as_reached(reach: OutboundReach) -> None:
    for received in (False, True, False):
        reach.attempted(ReceiverKind.WEBHOOK, ONE, ACME, received=received)
    reach.attempted(ReceiverKind.WEBHOOK, TWO, ACME, received=False)
    reach.attempted(ReceiverKind.SIEM, THREE, GLOBEX, received=False)
    reached, attempts = reach.look()
    assert reached.receivers[ReceiverKind.WEBHOOK] == ReceiversLately(1, 1)
    assert reached.receivers[ReceiverKind.SIEM] == ReceiversLately(0, 1)
    assert reached.receivers[ReceiverKind.SIGNAL] == ReceiversLately(0, 0)
    # What is wrong at one of Acme's receivers is Acme's matter: it was reached at another.
    assert reached.organizations == ReceiversLately(1, 1)
    assert attempts == {ReceiverKind.WEBHOOK: AttemptsLately(1, 3, 2), ReceiverKind.SIEM: AttemptsLately(0, 1, 1)}


def test_attempts_are_told_once_and_receivers_as_long_as_the_alerts_look(reach: OutboundReach, clock: SetClock) -> None:
    reach.attempted(ReceiverKind.WEBHOOK, ONE, ACME, received=True)
    clock.pass_(timedelta(minutes=1))
    reach.attempted(ReceiverKind.WEBHOOK, ONE, ACME, received=False)
    reach.look()
    clock.pass_(LATELY - timedelta(minutes=1))
    reached, attempts = reach.look()
    # What it received is too long ago; the failure is not.
    assert (reached.receivers[ReceiverKind.WEBHOOK], attempts) == (ReceiversLately(0, 1), {})
    clock.pass_(timedelta(minutes=1))
    assert reach.look()[0].organizations == ReceiversLately(0, 0)


def test_of_too_many_receivers_the_latest_are_kept(reach: OutboundReach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound_reach, "MOST_RECEIVERS", 3)
    for receiver in (ONE, TWO, THREE):
        reach.attempted(ReceiverKind.SIGNAL, receiver, ACME, received=True)
    reach.attempted(ReceiverKind.SIGNAL, ONE, ACME, received=True)
    reach.attempted(ReceiverKind.SIGNAL, uuid4(), GLOBEX, received=False)
    assert len(reach._receivers) == 3
    assert (ReceiverKind.SIGNAL, TWO) not in reach._receivers
    assert reach.look()[0].receivers[ReceiverKind.SIGNAL] == ReceiversLately(2, 1)
