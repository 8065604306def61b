"""The store of second factors, and the arithmetic of codes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import PreauthenticationId, SessionId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.mfa import Guess, MfaEvent, MfaSecret, Preauthentication, SecondFactorStatus
from core.domain.json import Json
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor
from core.domain.secrets import Secret


class MfaStore(Protocol):
    """Outside a unit of work, `status`, `has_codes` and `find` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def status(self, user: UserId) -> SecondFactorStatus:
        """A pending set-up is not enabled. Used backup codes do not count."""

    async def were_shown(self, user: UserId, form: UUID) -> bool:
        """Whether the person has seen the backup codes that this form made."""

    async def has_codes(self, user: UserId, digests: Sequence[bytes]) -> bool:
        """Whether these are the person's backup codes, and none has been used."""

    async def put_pending(
        self, user: UserId, session: SessionId, sealed_secret: bytes, at: datetime, *, beside_passkeys: bool = False
    ) -> bool:
        """Stores a secret that is not enabled yet, for this session to confirm, or replaces the pending one. False when a secret is enabled
        already. False also when passkeys are the second factor, unless the secret may stand `beside_passkeys`.
        """

    async def find(self, user: UserId) -> MfaSecret | None: ...

    async def hold(self, user: UserId) -> bool:
        """Whether the person has a second factor. Nobody else changes it until the transaction ends."""

    async def is_enabled(self, user: UserId) -> bool:
        """Whether the person has a second factor at this moment: an authenticator app, or passkeys that are asked for after a password."""

    async def begin_guess(self, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        """Holds the secret and takes one token of the person's bucket, in one round trip. If the client is a trusted device of the person,
        the token comes from the device's own bucket. Guesses at one person's codes queue here until the transaction ends. A roll-back
        returns the token, so commit after a wrong code, too.
        """

    async def enable(self, user: UserId, step: int, at: datetime, *, beside_passkeys: bool = False) -> bool:
        """Of two callers, one gets True. False also when passkeys have just become the second factor, unless the secret may stand
        `beside_passkeys`.
        """

    async def redeem_step(self, user: UserId, step: int) -> bool:
        """Uses a time step up; no earlier step counts after it. False when the step was used before: of two callers, one gets True."""

    async def redeem_backup_code(self, user: UserId, digest: bytes, at: datetime) -> bool:
        """Of two callers, one gets True."""

    async def replace_backup_codes(self, user: UserId, digests: Sequence[bytes]) -> None:
        """Removes the earlier codes, used or not, and adds these."""

    async def disable(self, user: UserId) -> bool:
        """Deletes the secret and all codes. Passkeys are no longer asked for as a second factor. False when the person had no second
        factor.
        """

    async def log(
        self, event: MfaEvent, user: UserId, actor: Actor, *, success: bool, details: Mapping[str, Json] | None = None
    ) -> None: ...

    async def add_preauthentication(self, preauthentication: Preauthentication) -> None: ...

    async def find_preauthentication(self, id: PreauthenticationId) -> Preauthentication | None:  # noqa: A002 - the noun's own word
        """None when the pre-authentication is consumed, expired, or dead after too many wrong codes, or when the provider of its identity
        is off. Guesses on one pre-authentication queue here until the transaction ends, so that no guess beyond the limit is ever checked.
        """

    async def fail_preauthentication(self, id: PreauthenticationId) -> int:  # noqa: A002
        """Counts a wrong code. Returns how many there were."""

    async def consume_preauthentication(self, id: PreauthenticationId, at: datetime) -> bool:  # noqa: A002
        """Of two callers, one gets True."""

    async def end_preauthentications(self, user: UserId, at: datetime) -> None:
        """Ends every sign-in that still awaits its second factor. Called after the account is held, because a request that brings a code
        takes both locks in this order.
        """


class Totp(Protocol):
    """A library implements it."""

    def new_secret(self) -> Secret:
        """Base32, 160 bits."""

    def step_of(self, secret: Secret, code: str, at: datetime) -> int | None:
        """The time step for which this is the code, within the tolerance. None when the code fits no step. Takes constant time."""

    def uri(self, secret: Secret, account: str) -> Secret:
        """The URI for authenticator apps. It carries the secret."""

    async def qr_code(self, uri: Secret) -> Secret:
        """The QR code as SVG. Slow enough to run in a thread."""


class BackupCodeMaker(Protocol):
    """HMACs under a key of the installation implement it."""

    def new(self) -> Sequence[Secret]:
        """Ten codes, each `XXXX-XXXX`."""

    async def derived(self, user: UserId, form: str) -> Sequence[Secret]:
        """Ten codes that depend on the person and the form alone: the same form gets the same codes again. The form does not tell them to
        anybody without the server key.
        """

    async def prepare(self) -> None:
        """Fetches the server key, if this process does not have it yet. Not within a unit of work, because the key takes a connection of
        its own.
        """

    async def digest(self, user: UserId, code: str) -> bytes:
        """HMAC-SHA256 of the bare code under the server key."""
