"""The keys that sign tokens and the keys that encrypt what is stored, for platform owners. Their private halves are nowhere shown."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import Conflict
from core.domain.identity.proofs import StepUp
from core.domain.tokens import KeyPurpose, KeyState
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("installation",)
_KEYS = "/api/platform/signing-keys"
_KeyName = Annotated[str, example("9f2c1a7e")]


class SigningKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key that signs, has signed, or will sign."""

    id: _KeyName
    """The key's id: `kid` in the header of what it signs."""
    purpose: KeyPurpose
    """What the key signs: access tokens, ID tokens with RS256, or ID tokens with ES256."""
    state: KeyState
    """`current` signs. `next` is published and signs after the next rotation. `outgoing` only verifies what it has signed."""
    algorithm: Annotated[str, example("ES256")]
    """The algorithm."""
    created_at: CreatedAt
    activated_at: datetime | None
    """Since when the key signs; null if it has not yet signed."""
    retires_at: datetime | None
    """Until when the key verifies; null if no end is set."""


class EncryptionKeyRecord(msgspec.Struct, frozen=True):
    """A key of the ring that encrypts what is stored."""

    id: Annotated[str, example("2026-03-04-a1b2c3")]
    """The key's id."""
    encrypts: bool
    """Whether it encrypts what is stored from now on. The others only decrypt."""


class SigningKeyList(msgspec.Struct, frozen=True):
    """The keys of the installation."""

    signing_keys: Sequence[SigningKeyRecord]
    """The keys that verify, by purpose and state."""
    encryption_keys: Sequence[EncryptionKeyRecord]
    """The ring of keys that encrypt what is stored, the one that encrypts first."""
    reencryption_finished: bool
    """Whether everything stored is encrypted with the first key of the ring."""


class RotatedKeys(msgspec.Struct, frozen=True):
    """What a rotation did for one purpose."""

    purpose: KeyPurpose
    """What the keys sign."""
    activated: _KeyName
    """The key that signs from now on."""
    outgoing: _KeyName
    """The key that signed before. It verifies for two more days."""
    added: _KeyName
    """The next key, published from now on."""
    is_hasty: bool
    """Whether the activated key was published so lately that applications may not know it yet."""


class KeyRotation(msgspec.Struct, frozen=True):
    """The result of a rotation."""

    rotated: Sequence[RotatedKeys]
    """One for each purpose."""


@endpoint.get(_KEYS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_signing_keys(_call: Call, postern: Postern) -> SigningKeyList:
    """List the keys that sign tokens, and those that encrypt what is stored

    Public facts alone: nobody can read a private key.
    """
    foundation = postern.foundation
    now = foundation.clock.now()
    keys = [key for key in await foundation.signing_keys.list() if key.verifies(now)]
    return SigningKeyList(
        [
            SigningKeyRecord(
                id=key.id,
                purpose=key.purpose,
                state=key.state,
                algorithm=key.purpose.algorithm,
                created_at=key.created_at,
                activated_at=key.activated_at,
                retires_at=key.retires_at,
            )
            for key in sorted(keys, key=lambda key: (key.purpose, key.state))
        ],
        [EncryptionKeyRecord(name, number == 0) for number, name in enumerate(foundation.keyring.key_ids())],
        await foundation.reencryption.is_finished(),
    )


@endpoint.post(f"{_KEYS}/rotate", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, refuses=(Conflict,), tags=_TAGS)
async def rotate_signing_keys(call: Call, postern: Postern) -> KeyRotation:
    """Rotate the keys that sign tokens

    The next keys sign from now on, and new next keys are published. Tokens that were signed before stay valid. Wait ten minutes between two
    rotations, so that applications know the key that signs next. You need a recent proof of who you are.
    """
    return KeyRotation(
        [
            RotatedKeys(one.purpose, one.activated, one.outgoing, one.added, one.is_hasty)
            for one in await postern.foundation.signing_keys.rotate(call.actor)
        ]
    )
