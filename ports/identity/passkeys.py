"""The store of passkeys, and the reader of what authenticators answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.passkeys import Assertion, Passkey, PasskeyRegistration, ReadAssertion, ReadRegistration, RelyingParty
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount
from core.frozen import Frozen


class TakenChallenge(Frozen):
    """A challenge that an answer has used up, the passkey that answered, and its account: both None when nobody has such a passkey."""

    is_fresh: bool
    passkey: Passkey | None
    named: NamedAccount | None


class HeldPasskey(Frozen):
    passkey: Passkey
    ends_second_factor: bool
    """If the passkey goes, the person has no second factor any more."""


class PasskeyStore(Protocol):
    """Outside a unit of work, `list`, `find` and `take` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def list(self, user: UserId) -> Sequence[Passkey]:
        """Oldest first."""

    async def find(self, user: UserId, passkey: PasskeyId) -> Passkey | None:
        """None also for somebody else's passkey."""

    async def take(
        self, challenge_digest: bytes, credential_id: bytes, approach: Approach, *, application: Context = PLATFORM
    ) -> TakenChallenge | None:
        """Uses the challenge up, whether or not the answer turns out to be good. None when there is no such challenge: of many callers at
        once, one gets it. `application` is the one that the browser's flow leads to.
        """

    async def add_challenge(self, digest: bytes, expires_at: datetime) -> None: ...

    async def end_challenge(self, digest: bytes) -> None: ...

    async def add(self, passkey: Passkey, challenge_digest: bytes, session: SessionId) -> bool:
        """Uses the challenge up in any case. The new passkey is a second factor if the person's other passkeys are. Called after the
        account is held. False when the challenge or the session that asked for it is over, when somebody has this passkey already, or when
        the person has too many.
        """

    async def count(self, user: UserId) -> int: ...

    async def rename(self, user: UserId, passkey: PasskeyId, name: str) -> Passkey | None:
        """Returns the passkey as it was before. None when the person has no such passkey."""

    async def find_held(self, user: UserId, passkey: PasskeyId) -> HeldPasskey | None:
        """Called after the account is held: nobody removes a passkey without that."""

    async def remove(self, user: UserId, passkey: PasskeyId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. Backup codes that came with the passkeys go, too. Called after the account is held."""

    async def use(self, passkey: Passkey, sign_count: int, *, backed_up: bool, at: datetime) -> bool:
        """Keeps the counter. False when the passkey is gone, or was used meanwhile with a counter that is not lower. Called after the
        account is held.
        """

    async def become_second_factor(self, user: UserId, at: datetime) -> bool:
        """All passkeys of the person become the second factor; nobody turns on an authenticator app meanwhile. Called after the account is
        held. False when the person has no passkeys, or has a second factor already.
        """


class Authenticators(Protocol):
    """A library for WebAuthn implements it."""

    async def read_registration(self, given: PasskeyRegistration, relying_party: RelyingParty) -> ReadRegistration:
        """Reads and checks everything but the challenge, and returns it. Raises `PasskeyRefused` when the challenge cannot be read."""

    async def read_assertion(self, given: Assertion, relying_party: RelyingParty) -> ReadAssertion:
        """Reads and checks everything but the signature. Raises `PasskeyRefused` when not even the challenge can be read."""

    async def faults_of_keys(self, public_keys: Sequence[bytes]) -> Sequence[str]:
        """For each COSE_Key in turn, the reason why no passkey can have it here. Empty where there is none."""

    def verify(self, read: ReadAssertion, public_key: bytes) -> bool:
        """Whether the key has made the signature. Fast enough to be called where it is needed."""
