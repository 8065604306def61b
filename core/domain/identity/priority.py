"""What is known of a caller who wants a password checked, before it is checked: it decides who waits where when many wait.

It must tell a stranger nothing about an account. So it comes from what the callers hold themselves (a device token, a session, a mailed
link), or only from their address, if anyone has signed in from there, and never from the account that they name.
"""

from collections import OrderedDict
from enum import IntEnum
from typing import Final

from core.domain.identity.sign_in import NamedAccount
from core.domain.rate_limits import client_key


class Priority(IntEnum):
    """Higher is better known."""

    STRANGER = 0
    FAMILIAR = 1
    """Comes from an address that somebody has signed in from."""
    PROVEN = 2
    """Shows the token of one of the account's own devices, a session, or what was mailed to its address."""


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
        """The priority of a caller who comes from there to sign in to the account that they name."""
        if named is not None and named.knowledge.by_token is not None:
            return Priority.PROVEN
        return Priority.FAMILIAR if address in self else Priority.STRANGER
