"""The way back for an owner whom rules for risk of their own organization keep out: a mailed link, with which they lift what refuses."""

from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.locking.account_locks import address_digest
from core.domain.rate_limits import RateLimit
from core.frozen import Frozen

WAY_BACK_LIFETIME: Final = timedelta(hours=1)
WAY_BACK_MAILS: Final = RateLimit("risk_way_back_mails", burst=3, seconds_per_request=600)
_NOBODY: Final = UUID(int=0)
_NO_ADDRESS: Final = bytes(16)
_LENGTH: Final = 56
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


class NotAWayBack(ValueError):
    """What the key ring opened is no link of this kind."""


class WayBack(Frozen):
    """What the link is bound to."""

    user: UserId
    organization: OrganizationId | None
    """None for the way back of a platform owner whom a rule of the installation refuses."""
    mailed_at: datetime
    address: bytes = _NO_ADDRESS
    """A part of the digest of the address that the mail went to, where the link counts without a sign-in."""

    @classmethod
    def of_platform_owner(cls, owner: Account, now: datetime) -> Self:
        return cls(owner.id, None, now, address_digest(owner.email))

    def is_good_for(self, owner: Account) -> bool:
        """Whether the account still has the address, and has not been locked since: its reader may be somebody else by now."""
        is_spent = owner.locked_at is not None and self.mailed_at <= owner.locked_at
        return address_digest(owner.email) == self.address and not is_spent

    def is_over(self, now: datetime) -> bool:
        return now >= self.mailed_at + WAY_BACK_LIFETIME

    def packed(self) -> bytes:
        mailed_at = ((self.mailed_at - _EPOCH) // _SECOND).to_bytes(8)
        return self.user.bytes + (self.organization or _NOBODY).bytes + mailed_at + self.address

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Reads what `packed` wrote. Raises `NotAWayBack`."""
        if len(packed) != _LENGTH:
            raise NotAWayBack
        at = _EPOCH + int.from_bytes(packed[32:40]) * _SECOND
        organization = UUID(bytes=packed[16:32])
        return cls(UserId(UUID(bytes=packed[:16])), None if organization == _NOBODY else OrganizationId(organization), at, packed[40:])
