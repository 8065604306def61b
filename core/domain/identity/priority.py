"""The priority of a caller who wants a password checked. It decides who waits when many callers wait.

The priority must tell a stranger nothing about an account. So it comes from what the caller holds (a device token, a session, a mailed
link), or from the caller's address, if anyone has signed in from there. It never comes from the account that the caller names.
"""

from collections import OrderedDict
from enum import IntEnum
from typing import Final

from core.domain.identity.sign_in import NamedAccount
from core.domain.rate_limits import client_key


class Priority(IntEnum):
    """Higher numbers go first."""

    STRANGER = 0
    FAMILIAR = 1
    """The caller comes from an address that somebody has signed in from."""
    PROVEN = 2
    """The caller shows the token of one of the account's own devices, a session, or a mailed link."""


MOST_FAMILIAR: Final = 20_000


class FamiliarAddresses:
    """Addresses that people have signed in from, as far as this process remembers: a limited number of the latest. An IPv6 /64 counts as
    one.
    """

    def __init__(self, most: int = MOST_FAMILIAR) -> None:
        self._most = most
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, address: str | None) -> bool:
        return address is not None and client_key(address) in self._keys

    def add(self, address: str | None) -> None:
        if address is None:
            return
        key = client_key(address)
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > self._most:
            self._keys.popitem(last=False)

    def priority(self, address: str | None, named: NamedAccount | None) -> Priority:
        """The priority of a caller at this address who signs in to the named account."""
        if named is not None and named.knowledge.by_token is not None:
            return Priority.PROVEN
        return Priority.FAMILIAR if address in self else Priority.STRANGER
