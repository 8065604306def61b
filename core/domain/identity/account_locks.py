"""Locks of accounts: if somebody else may have access to an account, everything that signs in to it ends at once."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final, Self
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

RECENT: Final = timedelta(days=30)
"""What was added in this time before the lock may be somebody else's."""
MOST_RECENT: Final = 100
"""A form may name this many of them."""
LOCK_LINK_LIFETIME: Final = timedelta(days=7)
# The mails that tell of something that a stranger may have done. Each has a link that locks the account.
LOCKING_MAILS: Final = frozenset(
    {
        *("new_device", "unusual_sign_in", "password_changed", "password_set", "email_changed_old", "user_key_made"),
        *("password_breached", "session_displaced", "risk_installation_way_back"),
        *("mfa_enabled", "mfa_disabled", "backup_codes_renewed", "identity_linked", "identity_unlinked"),
        *("passkey_added", "passkey_removed", "passkey_copied", "password_breached"),
    }
)
# Whoever reads the mailbox may end these on the way back. A second factor stays: they must not get past it.
_ENDED_ON_THE_WAY: Final = frozenset({AddedKind.PASSKEY, AddedKind.IDENTITY})
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_USER, _AT, _ADDRESS = slice(0, 16), slice(16, 24), slice(24, 40)


class LockedBy(StrEnum):
    """Who has locked the account, and how."""

    PERSON = "person"
    MAIL = "mail"
    """The reader of a mail that told of something."""
    PLATFORM = "platform"
    ORGANIZATION = "organization"
    """That made the account, while nobody else holds it."""


class NotALockLink(Exception):
    """These bytes were never in a link that locks an account."""


class AddressGivenUp(LinkRefused):
    """The account has another address than the one that the mail went to. "Forgot your password?" mails nothing there, so the reader must
    hear that somebody else has to help.
    """

    def __init__(self) -> None:
        super().__init__("The account has another e-mail address by now", words="lock_moved")


class LockLink(Frozen):
    """What the link in a mail is bound to: the account, its address then, and the mail."""

    user: UserId
    address: bytes
    """A part of the digest of the address."""
    mailed_at: datetime
    mail: str

    @classmethod
    def of(cls, user: UserId, address: Email, mail: str, now: datetime) -> Self:
        return cls(user, address_digest(address), now, mail)

    def is_over(self, now: datetime) -> bool:
        return now >= self.mailed_at + LOCK_LINK_LIFETIME

    def is_about(self, account: Account) -> bool:
        """An address that the account has given up locks it no more: its reader may be somebody else by now."""
        return account.id == self.user and address_digest(account.email) == self.address

    def is_spent(self, account: Account) -> bool:
        """A lock uses up all links that were mailed before it."""
        return account.locked_at is not None and self.mailed_at <= account.locked_at

    def packed(self) -> bytes:
        return self.user.bytes + ((self.mailed_at - _EPOCH) // _MICROSECOND).to_bytes(8) + self.address + self.mail.encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Reads what `packed` wrote. Raises `NotALockLink`."""
        mail = packed[_ADDRESS.stop :].decode("ascii", "replace")
        if mail not in LOCKING_MAILS:
            raise NotALockLink
        mailed_at = _EPOCH + int.from_bytes(packed[_AT]) * _MICROSECOND
        return cls(UserId(UUID(bytes=packed[_USER])), packed[_ADDRESS], mailed_at, mail)


class BeforeLock(Frozen):
    """What an account has that lets somebody in, as the lock finds it."""

    has_password: bool
    consents: int
    """The applications that may act for the person."""
    devices: int
    """The devices that are not asked for the second factor."""


class LockedAccount(Frozen):
    """The account after the lock, what the lock has ended, and what was added in the 30 days before it. A locked account is deactivated, so
    no request needs to ask for the lock. The reader of its mailbox unlocks it by a new password, and by nothing else. Of passkeys and
    linked identities of the last 30 days, only those come back that the user keeps then: an intruder may have added them.
    """

    account: Account
    changed: bool
    """False when the account was locked already."""
    had_password: bool = False
    sessions: int = 0
    devices: int = 0
    consents: int = 0
    keys: tuple[str, ...] = ()
    """The names of the person's keys for applications, of many only the first."""
    key_count: int = 0
    recent: Sequence[AddedWay] = ()


def recent_from(account: Account) -> datetime:
    """From when on something counts as added shortly before the account was locked. Raises `LookupError` for one that never was."""
    if account.locked_at is None:
        raise LookupError("The account was never locked")
    return account.locked_at - RECENT


def lost_on_the_way(recent: Sequence[AddedWay], kept: Sequence[str]) -> Sequence[AddedWay]:
    """Those among the recent ways in that end when the account opens again. `kept` are the ones that are the person's."""
    return [one for one in recent if one.kind in _ENDED_ON_THE_WAY and one.key not in kept]


class FactorWouldEnd(BadRequest):
    """The second factor is passkeys, and none of them would stay. Whoever reads the mailbox must not get past it."""

    text = "Your MFA method is passkeys: keep one of them, or contact your administrator"

    def __init__(self) -> None:
        super().__init__(words="locked_factor_would_end")


def account_locked(user: UserId, by: LockedBy, actor: Actor, *, personal: Mapping[str, str], organization: OrganizationId | None) -> Event:
    """`organization` has made the account. Organizations read how, and no more: what ended elsewhere, and which mail told of it, is none of
    their business.
    """
    return Event("security.account.locked", actor, Target("user", str(user)), organization, {"how": by.value}, personal=personal)


def account_unlocked(user: UserId, actor: Actor) -> Event:
    """The reader of the mailbox has chosen a new password."""
    return Event("security.account.unlocked", actor, Target("user", str(user)))


def address_digest(address: Email) -> bytes:
    """What links are bound to, so that an address that the account has given up opens nothing."""
    return sha256(address.key.encode("utf-8", "surrogatepass")).digest()[:16]
