"""The queue of passwords: a caller's place depends on the caller's tokens or network address, and never on the named account."""

from datetime import UTC, datetime
from uuid import uuid4

from core.domain.identifiers import DeviceId, UserId
from core.domain.identity.accounts import unverified_account
from core.domain.identity.risk import NOTHING_KNOWN, Knowledge, KnownDevice
from core.domain.identity.sign_in import FamiliarAddresses, NamedAccount, Priority
from core.domain.mail import Email

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def named(knowledge: Knowledge) -> NamedAccount:
    account = unverified_account(UserId(uuid4()), Email("ada@example.org"), datetime(2026, 1, 1, tzinfo=UTC))
    return NamedAccount(account, None, mfa_enabled=False, knowledge=knowledge)


def test_an_address_is_familiar_for_everybody_once_anybody_has_signed_in_from_it() -> None:
    familiar = FamiliarAddresses()
    ada, nobody = named(Knowledge(sign_ins=50)), None
    for one in (ada, nobody):
        assert familiar.priority(HERE, one) is Priority.STRANGER
    familiar.add(HERE)
    for one in (ada, nobody):
        assert familiar.priority(HERE, one) is Priority.FAMILIAR
        assert familiar.priority(ELSEWHERE, one) is Priority.STRANGER


def test_the_token_of_a_device_of_the_account_is_known_from_everywhere_and_its_looks_are_not() -> None:
    familiar = FamiliarAddresses()
    device = KnownDevice(DeviceId(uuid4()))
    assert familiar.priority(ELSEWHERE, named(Knowledge(by_token=device))) is Priority.PROVEN
    assert familiar.priority(None, named(Knowledge(by_token=device))) is Priority.PROVEN
    assert familiar.priority(ELSEWHERE, named(Knowledge(by_agent=device))) is Priority.STRANGER
    assert familiar.priority(ELSEWHERE, named(NOTHING_KNOWN)) is Priority.STRANGER


def test_of_ipv6_a_network_is_familiar() -> None:
    familiar = FamiliarAddresses()
    familiar.add("2001:db8::1")
    assert "2001:db8::2" in familiar
    assert "2001:db8:0:1::1" not in familiar


def test_the_latest_are_remembered_and_no_address_is_none() -> None:
    familiar = FamiliarAddresses(most=2)
    familiar.add(None)
    assert None not in familiar
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        familiar.add(address)
    assert ["192.0.2.1" in familiar, "192.0.2.2" in familiar, "192.0.2.3" in familiar] == [True, False, True]
