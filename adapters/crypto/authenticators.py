"""Read and verify the answers of authenticators. python-fido2 reads CBOR and verifies signatures of COSE keys. This module checks the rules
of Web Authentication level 3 (sections 7.1 and 7.2) one by one, so that each refusal has its reason.

Postern neither asks for an attestation nor reads one, because people choose their authenticators themselves.
"""

import json
import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import trio
from cryptography.exceptions import InvalidSignature

from core.domain.identity.passkeys import (
    ALGORITHMS,
    LONGEST_CREDENTIAL_ID,
    LONGEST_PUBLIC_KEY,
    Assertion,
    NewKey,
    PasskeyRefused,
    PasskeyRegistration,
    ReadAssertion,
    ReadRegistration,
    RelyingParty,
)

if TYPE_CHECKING:
    from fido2.webauthn import AuthenticatorData

_READ_AT_ONCE: Final = 2
# Without an attestation, the longest object has an RSA key. The limit bounds the time that reading CBOR takes.
_LONGEST_ATTESTATION: Final = 4096
_LONGEST_DATA: Final = 1024
_LONGEST_CLIENT_DATA: Final = 4096
_RSA: Final = -257
_RSA_BYTES: Final = range(256, 513)
# A client that could choose the exponent could choose how long a verification takes.
_RSA_EXPONENT: Final = b"\x01\x00\x01"
_UNREADABLE: Final = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)


class Fido2Authenticators:
    """Implements `ports.identity.sign_in.Authenticators`."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(_READ_AT_ONCE)
        self._is_loaded = False

    async def read_registration(self, given: PasskeyRegistration, relying_party: RelyingParty) -> ReadRegistration:
        # In a thread, because a registration is longer than an assertion, and an attacker may send one that is slow to read.
        return await trio.to_thread.run_sync(_read_registration, given, relying_party, limiter=self._limiter)

    async def read_assertion(self, given: Assertion, relying_party: RelyingParty) -> ReadAssertion:
        if not self._is_loaded:
            await trio.to_thread.run_sync(_load, limiter=self._limiter)
            self._is_loaded = True
        challenge, fault = _read_client_data(given.client_data, "webauthn.get", relying_party)
        try:
            data = _read_data(given.authenticator_data)
        except PasskeyRefused as refusal:
            # The challenge is known, so the refused assertion uses it up as well.
            return ReadAssertion(given, challenge, 0, False, False, fault or refusal.detail or "")
        fault = fault or _fault_of(data, relying_party)
        return ReadAssertion(given, challenge, data.counter, data.is_backup_eligible(), data.is_backed_up(), fault)

    async def faults_of_keys(self, public_keys: Sequence[bytes]) -> Sequence[str]:
        return await trio.to_thread.run_sync(lambda: [_fault_of_bytes(one) for one in public_keys], limiter=self._limiter)

    def verify(self, read: ReadAssertion, public_key: bytes) -> bool:
        from fido2 import cbor  # noqa: PLC0415 - loaded by now
        from fido2.cose import CoseKey  # noqa: PLC0415

        key: Any = CoseKey.parse(cbor.decode(public_key))  # type: ignore[arg-type]
        signed = read.given.authenticator_data + sha256(read.given.client_data).digest()
        try:
            key.verify(signed, read.given.signature)
        except InvalidSignature:
            return False
        return True


def _load() -> None:
    """The import takes a few milliseconds and a megabyte, so it waits for the first passkey."""
    import fido2.cose  # noqa: PLC0415
    import fido2.webauthn  # noqa: F401, PLC0415


def _read_registration(given: PasskeyRegistration, relying_party: RelyingParty) -> ReadRegistration:
    challenge, fault = _read_client_data(given.client_data, "webauthn.create", relying_party)
    try:
        made = _made(given, relying_party, fault)
    except PasskeyRefused as refusal:
        return ReadRegistration(challenge, None, refusal.detail or "")
    return ReadRegistration(challenge, made, "")


def _made(given: PasskeyRegistration, relying_party: RelyingParty, fault: str) -> NewKey:
    from fido2 import cbor  # noqa: PLC0415
    from fido2.webauthn import AttestationObject  # noqa: PLC0415

    if len(given.attestation_object) > _LONGEST_ATTESTATION:
        raise PasskeyRefused("the attestation object is too long")
    try:
        data = AttestationObject(given.attestation_object).auth_data
    except _UNREADABLE as error:
        raise PasskeyRefused(f"the attestation object cannot be read: {error!r}") from None
    fault = fault or _fault_of(data, relying_party)
    made = data.credential_data
    if made is None:
        raise PasskeyRefused("there is no key in it")
    fault = fault or _fault_of_key(made.public_key)
    if not fault and not 0 < len(made.credential_id) <= LONGEST_CREDENTIAL_ID:
        fault = "the credential's id has the wrong length"
    if not fault and given.is_discoverable is False:
        fault = "the authenticator cannot find it by itself"
    if fault:
        raise PasskeyRefused(fault)
    return NewKey(
        credential_id=bytes(made.credential_id),
        public_key=cbor.encode(made.public_key),
        sign_count=data.counter,
        aaguid=UUID(bytes=bytes(made.aaguid)),
        backup_eligible=data.is_backup_eligible(),
        backed_up=data.is_backed_up(),
    )


def _read_client_data(text: bytes, kind: str, relying_party: RelyingParty) -> tuple[str, str]:
    """The challenge, and a sentence that says what is wrong. Empty when nothing is wrong."""
    if len(text) > _LONGEST_CLIENT_DATA:
        raise PasskeyRefused("the client data are too long")
    try:
        said: Any = json.loads(text)
        challenge = said["challenge"]
    except _UNREADABLE as error:
        raise PasskeyRefused(f"the client data cannot be read: {error!r}") from None
    if not isinstance(challenge, str):
        raise PasskeyRefused("the challenge is no text")
    if said.get("type") != kind:
        return challenge, f"the type is not {kind}"
    if said.get("origin") != relying_party.origin:
        return challenge, f"the origin is {said.get('origin')!r}"
    if said.get("crossOrigin"):
        return challenge, "it comes from a page within another site's"
    return challenge, ""


def _read_data(text: bytes) -> "AuthenticatorData":
    from fido2.webauthn import AuthenticatorData  # noqa: PLC0415

    if len(text) > _LONGEST_DATA:
        raise PasskeyRefused("the authenticator data are too long")
    try:
        return AuthenticatorData(text)
    except _UNREADABLE as error:
        raise PasskeyRefused(f"the authenticator data cannot be read: {error!r}") from None


def _fault_of(data: "AuthenticatorData", relying_party: RelyingParty) -> str:
    if data.rp_id_hash != sha256(relying_party.id.encode()).digest():
        return "it is for another relying party"
    if not data.is_user_present():
        return "nobody was present"
    if not data.is_user_verified():
        return "nobody was verified"
    if data.is_backed_up() and not data.is_backup_eligible():
        return "it is backed up and must not be"
    return ""


def _fault_of_bytes(public_key: bytes) -> str:
    from fido2 import cbor  # noqa: PLC0415
    from fido2.cose import CoseKey  # noqa: PLC0415

    if len(public_key) > LONGEST_PUBLIC_KEY:
        return "the key is too long"
    try:
        return _fault_of_key(CoseKey.parse(cbor.decode(public_key)))  # type: ignore[arg-type]
    except _UNREADABLE as error:
        return f"the key cannot be read: {type(error).__name__}"


def _fault_of_key(key: Any) -> str:
    algorithm = key.get(3)
    if algorithm not in ALGORITHMS:
        return f"the algorithm is {algorithm!r}"
    if algorithm == _RSA and not (isinstance(key.get(-1), bytes) and len(key[-1]) in _RSA_BYTES and key.get(-2) == _RSA_EXPONENT):
        return "the RSA key has the wrong size"
    try:
        key.verify(b"", b"")
    except InvalidSignature:
        return ""
    except _UNREADABLE as error:
        return f"the key is none: {error!r}"
    return "the key takes any signature"
