"""The ways into an account. The last one stays: whoever removes it could not sign in any more, and would need help.

A mailed link is none of them. Organizations may turn links off, and a mailbox may be lost when it is needed.
"""

from core.domain.errors import BadRequest
from core.frozen import Frozen


class WaysIn(Frozen):
    """How many of each kind."""

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
    """Before one of them goes. `left` are the others; a provider that would not let the person in is none. The account is held, so that of
    two at once the second sees that the first is gone. Raises `LastWayIn`.
    """
    if left.count == 0:
        raise LastWayIn
