"""Where passkeys are kept, and what reads the answers of authenticators."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.passkeys import Assertion, Passkey, PasskeyRegistration, ReadAssertion, ReadRegistration, RelyingParty
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import NamedAccount
from core.frozen import Frozen


class TakenChallenge(Frozen):
    """What an answer to a challenge is about: the passkey and its account, or neither where nobody has such a passkey."""

    is_fresh: bool
    passkey: Passkey | None
    named: NamedAccount | None


class HeldPasskey(Frozen):
    passkey: Passkey
    ends_second_factor: bool
    """Without it, the person has no second factor any more."""


class PasskeyStore(Protocol):
    """Outside a unit of work, `list`, `get` and `take` are one statement and one round trip each. The other methods need a unit of work.
    Only PostgreSQL implements it.
    """

    async def list(self, user: UserId) -> Sequence[Passkey]:
        """Oldest first."""

    async def get(self, user: UserId, passkey: PasskeyId) -> Passkey | None:
        """None also for somebody else's."""

    async def take(self, challenge_digest: bytes, credential_id: bytes, approach: Approach) -> TakenChallenge | None:
        """Uses the challenge up, whatever becomes of the answer. None: there is no such challenge; of many at once, one gets an answer."""

    async def add_challenge(self, digest: bytes, expires_at: datetime) -> None: ...

    async def end_challenge(self, digest: bytes) -> None: ...

    async def add(self, passkey: Passkey, challenge_digest: bytes, session: SessionId) -> bool:
        """Uses the challenge up, in any case. The new one is a second factor if the person's others are. Called after the account is held.
        False: the challenge is over, or the session that asked for it; somebody has this passkey already; or the person has too many.
        """

    async def count(self, user: UserId) -> int: ...

    async def rename(self, user: UserId, passkey: PasskeyId, name: str) -> Passkey | None:
        """As it was before. None: the person has no such passkey."""

    async def find_held(self, user: UserId, passkey: PasskeyId) -> HeldPasskey | None:
        """Called after the account is held, without which nobody removes one."""

    async def remove(self, user: UserId, passkey: PasskeyId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. Backup codes that came with them go, too. Called after the account is held."""

    async def use(self, passkey: PasskeyId, user: UserId, sign_count: int, *, backed_up: bool, at: datetime) -> bool:
        """Keeps the counter. False: the passkey is gone, or was used meanwhile with a counter that is not lower. Called after the account
        is held.
        """

    async def become_second_factor(self, user: UserId, at: datetime) -> bool:
        """All of the person's passkeys. Called after the account is held. False: there are none, or the person has a second factor already;
        nobody turns on an authenticator app meanwhile.
        """


class Authenticators(Protocol):
    async def read_registration(self, given: PasskeyRegistration, relying_party: RelyingParty) -> ReadRegistration:
        """Everything but the challenge. Raises `PasskeyRefused` where not even that can be read."""

    async def read_assertion(self, given: Assertion, relying_party: RelyingParty) -> ReadAssertion:
        """Everything but the signature. Raises `PasskeyRefused` where not even the challenge can be read."""

    def verify(self, read: ReadAssertion, public_key: bytes) -> bool:
        """Whether the key has signed it. Fast enough to be called where it is needed."""
