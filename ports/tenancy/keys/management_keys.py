"""The store of management keys, as digests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ManagementKeyId, OrganizationId, TrustedIssuerId, UserId
from core.domain.tenancy.keys.machine_keys import KnownKey
from core.domain.tenancy.keys.management_keys import MadeByKey, ManagementKey, ManagementKeyHolder


class ManagementKeyLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Look-ups of keys by many requests share one statement, so
    they stay apart from `ManagementKeyStore`. `organization` is None for the keys of the platform.
    """

    async def find(self, digest: bytes) -> KnownKey[ManagementKeyHolder] | None:
        """Every request with a key asks here. None when there is no such key, or its organization is gone."""

    async def find_trusting(self, key: ManagementKeyId, rule: TrustedIssuerId, rule_of: datetime) -> KnownKey[ManagementKeyHolder] | None:
        """The key, if it has this trusted issuer, unchanged since then. None when either has ended, or the key's organization is gone."""

    async def list(self, organization: OrganizationId | None) -> Sequence[ManagementKey]:
        """Newest first, expired keys included."""

    async def find_with_made(self, organization: OrganizationId | None, key: ManagementKeyId) -> tuple[ManagementKey, MadeByKey] | None:
        """The key, and what it has made that lasts. None when there is no such key."""


class ManagementKeyStore(Protocol):
    """All methods need a unit of work in which the caller has locked the organization, or the platform owners as a whole."""

    async def add(self, key: ManagementKey, digest: bytes) -> int | None:
        """Returns how many keys the organization, or the platform, had before. None when another key has this prefix."""

    async def able(self, key: ManagementKeyId) -> KnownKey[ManagementKeyHolder] | None:
        """The key, with what it may do as things are now. None when the key has ended or expired."""

    async def find(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        """None when there is no such key."""

    async def adopt(self, key: ManagementKey, digest: bytes, owner: UserId, at: datetime, former_until: datetime) -> ManagementKey | None:
        """The owner answers for the key from now on. It has the prefix of `key` and a new secret with this digest. The former secret counts
        until `former_until` if whoever knows it is still here, otherwise no longer. None when another key has this prefix.
        """

    async def made(self, key: ManagementKeyId) -> MadeByKey:
        """What the key has made that lasts: the newest of each kind, at most `MOST_LISTED`."""

    async def end(self, organization: OrganizationId | None, key: ManagementKeyId) -> ManagementKey | None:
        """Returns the ended key. None when there is no such key: of two callers, one gets None."""
