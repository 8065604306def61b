"""Where second factors are kept, and the arithmetic of codes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.devices import Client
from core.domain.events import Actor
from core.domain.identifiers import PreauthenticationId, UserId
from core.domain.json import Json
from core.domain.mfa import Guess, MfaEvent, MfaSecret, MfaStatus, Preauthentication
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Secret


class MfaStore(Protocol):
    """Part of the unit of work."""

    async def put_pending(self, user: UserId, sealed_secret: bytes, at: datetime) -> bool:
        """Store or replace a secret that is not enabled yet. False when one is enabled already."""

    async def find(self, user: UserId) -> MfaSecret | None: ...

    async def hold(self, user: UserId) -> MfaSecret | None:
        """The same, and nobody else changes it until the transaction ends."""

    async def begin_guess(self, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        """Hold the secret and take one token of the person's bucket, in one round trip; of its own bucket, when the client is a trusted
        device of theirs. Guesses of the same person queue here until the transaction ends. The token comes back if it is rolled back:
        commit, whether the code was right or wrong.
        """

    async def enable(self, user: UserId, step: int, at: datetime) -> bool:
        """Of two callers, one gets True."""

    async def redeem_step(self, user: UserId, step: int) -> bool:
        """A step counts once, and none before it any more. False when it was used: of two callers, one gets True."""

    async def redeem_backup_code(self, user: UserId, digest: bytes, at: datetime) -> bool:
        """Of two callers, one gets True."""

    async def replace_backup_codes(self, user: UserId, digests: Sequence[bytes]) -> None:
        """Earlier ones are gone, used or not."""

    async def disable(self, user: UserId) -> bool:
        """Delete the secret and all codes. False when there was no enabled one."""

    async def log(
        self, event: MfaEvent, user: UserId, actor: Actor, *, success: bool, details: Mapping[str, Json] | None = None
    ) -> None: ...

    async def add_preauthentication(self, preauthentication: Preauthentication) -> None: ...

    async def find_preauthentication(self, id: PreauthenticationId) -> Preauthentication | None:  # noqa: A002 - the noun's own word
        """None when it is consumed, expired, or dead after too many wrong codes. Guesses on the same one queue here until the transaction
        ends, so that no more than those are ever looked at.
        """

    async def fail_preauthentication(self, id: PreauthenticationId) -> int:  # noqa: A002
        """Count a wrong code. Returns how many there were."""

    async def consume_preauthentication(self, id: PreauthenticationId, at: datetime) -> bool:  # noqa: A002
        """Of two callers, one gets True."""

    async def end_preauthentications(self, user: UserId, at: datetime) -> None:
        """Every sign-in that still awaits its second factor. Before the account is held: whoever gives a code takes them in this order."""


class MfaLookup(Protocol):
    """Outside any unit of work."""

    async def status(self, user: UserId) -> MfaStatus:
        """A set-up that is pending is not enabled. Used backup codes are none."""


class Totp(Protocol):
    def new_secret(self) -> Secret:
        """Base32, 160 bits."""

    def step_of(self, secret: Secret, code: str, at: datetime) -> int | None:
        """The time step for which this is the code, within the tolerance. None when it is for none. Constant time."""

    def uri(self, secret: Secret, account: str) -> Secret:
        """For authenticators. Carries the secret."""

    async def qr_code(self, uri: Secret) -> Secret:
        """As SVG. Some ten milliseconds of work, in a thread."""


class BackupCodes(Protocol):
    def new(self) -> Sequence[Secret]:
        """Ten, each `XXXX-XXXX`."""

    async def prepare(self) -> None:
        """Fetch the server key, if this process has not yet. Not within a unit of work: it takes a connection of its own."""

    async def digest(self, user: UserId, code: str) -> bytes:
        """HMAC-SHA256 of the bare code under the server key."""
