"""The ways into an account. The last one cannot be removed: without it the person could not sign in any more, and would need help.

A mailed link does not count as a way in. Organizations may turn links off, and people may lose their mailbox.
"""

from core.domain.errors import BadRequest
from core.frozen import Frozen


class WaysIn(Frozen):
    """The number of ways in of each kind."""

    password: bool
    passkeys: int
    identities: int

    @property
    def count(self) -> int:
        return int(self.password) + self.passkeys + self.identities


class LastWayIn(BadRequest):
    text = "This is the last way into the account: set a password or add another way to sign in first"

    def __init__(self) -> None:
        super().__init__(words="last_way_in")


def require_another(left: WaysIn) -> None:
    """Checks the removal of one way in. `left` are the others; a provider that would not let the person in does not count. The caller holds
    the account, so of two removals at once the second sees that the first way is gone. Raises `LastWayIn`.
    """
    if left.count == 0:
        raise LastWayIn
