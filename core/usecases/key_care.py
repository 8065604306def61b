"""Watches the keys: the age of the keys in force, and whether the ring still opens them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from core.domain.identifiers import KeyId
from core.domain.signing_keys import KeyPurpose, KeyState, SigningKey, day_of_ring_key, in_state, sealing_context
from core.frozen import Frozen
from core.usecases.signing_keys import SigningKeys
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing


class KeyCare(Frozen):
    signing_keys: SigningKeys
    keyring: KeyRing
    clock: Clock

    async def ages(self) -> Mapping[str, timedelta]:
        """Returns for each purpose how long the key has been in force. If Postern named an encryption key, the key's day is in its id."""
        now = self.clock.now()
        keys = await self.signing_keys.list()
        found = {purpose.value: in_state(keys, purpose, KeyState.CURRENT) for purpose in KeyPurpose}
        ages: dict[str, timedelta] = {purpose: key.age(now) for purpose, key in found.items() if key is not None}
        since = day_of_ring_key(self.keyring.current_key_id())
        if since is not None:
            ages["encryption"] = max(now - since, timedelta(0))
        return ages

    async def unreadable(self) -> Sequence[KeyId]:
        """Returns the current and next signing keys that no encryption key of the ring opens. Outgoing signing keys need only their public
        half.
        """
        keys = await self.signing_keys.list()
        return [key.id for key in keys if key.state is not KeyState.OUTGOING and not self._opens(key)]

    def _opens(self, key: SigningKey) -> bool:
        try:
            self.keyring.open(key.sealed_private_key, sealing_context(key.id))
        except CannotOpen:
            return False
        return True
