"""What a link that locks an account is bound to, and what comes back."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_locks import LOCK_LINK_LIFETIME, LOCKING_MAILS, LockLink, NotALockLink, lost_on_the_way, recent_from
from core.domain.identity.account_mails import AccountMail
from core.domain.identity.accounts import Account, unverified_account
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.mail import Email
from core.frozen import replace

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
ADA, BOB = UserId(UUID(int=1)), UserId(UUID(int=2))
ADDRESS = Email("ada@example.org")
SECOND = timedelta(seconds=1)


def account(
    user: UserId = ADA, email: Email = ADDRESS, locked_at: datetime | None = None, deactivated_at: datetime | None = None
) -> Account:
    return replace(unverified_account(user, email, NOW - timedelta(days=99)), locked_at=locked_at, deactivated_at=deactivated_at)


@pytest.mark.parametrize("mail", sorted(LOCKING_MAILS))
def test_a_link_is_read_as_it_was_written(mail: str) -> None:
    link = LockLink.of(ADA, ADDRESS, mail, NOW + timedelta(microseconds=7))
    assert LockLink.unpacked(link.packed()) == link


@pytest.mark.parametrize("packed", [b"", b"x" * 39, b"x" * 40, LockLink.of(ADA, ADDRESS, "invitation", NOW).packed(), b"\xff" * 60])
def test_other_bytes_are_no_link(packed: bytes) -> None:
    with pytest.raises(NotALockLink):
        LockLink.unpacked(packed)


def test_a_link_is_about_one_account_at_one_address() -> None:
    link = LockLink.of(ADA, ADDRESS, "new_device", NOW)
    assert link.is_about(account())
    assert link.is_about(account(email=Email("ADA@example.org")))
    assert not link.is_about(account(BOB))
    assert not link.is_about(account(email=Email("ada@example.com")))


def test_a_link_lasts_for_days_and_for_one_lock() -> None:
    link = LockLink.of(ADA, ADDRESS, "new_device", NOW)
    assert not link.is_over(NOW + LOCK_LINK_LIFETIME - SECOND)
    assert link.is_over(NOW + LOCK_LINK_LIFETIME)
    assert not link.is_spent(account())
    assert not link.is_spent(account(locked_at=NOW - SECOND))
    assert link.is_spent(account(locked_at=NOW))
    assert link.is_spent(account(locked_at=NOW + SECOND))


def test_equal_moments_are_a_lock() -> None:
    assert account(locked_at=NOW, deactivated_at=NOW).is_locked
    # It was locked once, and somebody has deactivated it since.
    assert not account(locked_at=NOW - SECOND, deactivated_at=NOW).is_locked
    assert not account(locked_at=NOW).is_locked
    assert not account(deactivated_at=NOW).is_locked
    assert not account().is_locked


def test_only_a_link_for_a_new_password_goes_to_a_locked_account() -> None:
    locked = replace(account(locked_at=NOW, deactivated_at=NOW), email_verified_at=NOW)
    due = {kind for kind in AccountMail if kind.is_due(locked, NOW + SECOND)}
    assert due == {AccountMail.RESET}
    # Somebody asked before the lock, or nobody did.
    assert not AccountMail.RESET.is_due(locked, NOW)
    assert not AccountMail.RESET.is_due(locked, None)
    assert not locked.is_shut
    assert not locked.opens_by_proof
    assert not locked.is_switched_off_by(OrganizationId(UUID(int=3)))


def test_passkeys_and_identities_go_unless_they_are_kept_and_the_app_stays() -> None:
    ways = [AddedWay(kind, UUID(int=number), "x", NOW) for number, kind in enumerate(AddedKind)]
    lost = lost_on_the_way(ways, [f"passkey:{UUID(int=99)}", f"identity:{ways[3].id}"])
    assert [one.kind for one in lost] == [AddedKind.PASSKEY]


def test_recent_is_what_was_added_in_the_thirty_days_before_the_lock() -> None:
    assert recent_from(account(locked_at=NOW)) == NOW - timedelta(days=30)
    with pytest.raises(LookupError):
        recent_from(account())
