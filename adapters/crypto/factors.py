"""Verifies authenticators: passkeys, codes of authenticator apps, and backup codes."""

import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyotp
import trio
from cryptography.exceptions import InvalidSignature

from core.domain.identifiers import UserId
from core.domain.identity.mfa import BACKUP_CODE_ALPHABET, BACKUP_CODE_LENGTH, BACKUP_CODES, STEP, TOLERANCE, as_shown, step_at
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
from core.domain.secrets import Secret
from ports.crypto import ServerSecrets

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
    """Implements `ports.identity.sign_in.Authenticators`.

    Reads and verifies the responses of WebAuthn authenticators. python-fido2 reads CBOR and verifies signatures of COSE keys. This class
    checks the rules of Web Authentication level 3 (sections 7.1 and 7.2) one by one, so that each refusal has its reason. Postern neither
    requests an attestation nor reads one, because users choose their authenticators themselves.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(_READ_AT_ONCE)
        self._is_loaded = False

    async def read_registration(
        self, given: PasskeyRegistration, relying_party: RelyingParty, *, may_be_absent: bool = False
    ) -> ReadRegistration:
        # In a thread, because a registration is longer than an assertion, and an attacker may send one that is slow to read.
        return await trio.to_thread.run_sync(_read_registration, given, relying_party, may_be_absent, limiter=self._limiter)

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


def _read_registration(given: PasskeyRegistration, relying_party: RelyingParty, may_be_absent: bool) -> ReadRegistration:  # noqa: FBT001 - the thread passes by position
    challenge, fault = _read_client_data(given.client_data, "webauthn.create", relying_party)
    try:
        made = _made(given, relying_party, fault, may_be_absent=may_be_absent)
    except PasskeyRefused as refusal:
        return ReadRegistration(challenge, None, refusal.detail or "")
    return ReadRegistration(challenge, made, "")


def _made(given: PasskeyRegistration, relying_party: RelyingParty, fault: str, *, may_be_absent: bool) -> NewKey:
    from fido2 import cbor  # noqa: PLC0415
    from fido2.webauthn import AttestationObject  # noqa: PLC0415

    if len(given.attestation_object) > _LONGEST_ATTESTATION:
        raise PasskeyRefused("the attestation object is too long")
    try:
        data = AttestationObject(given.attestation_object).auth_data
    except _UNREADABLE as error:
        raise PasskeyRefused(f"the attestation object cannot be read: {error!r}") from None
    fault = fault or _fault_of(data, relying_party, may_be_absent=may_be_absent)
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
    if said.get("origin") not in relying_party.origins:
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


def _fault_of(data: "AuthenticatorData", relying_party: RelyingParty, *, may_be_absent: bool = False) -> str:
    """Section 7.1, step 16: a browser that makes a passkey by itself need not ask the person. A sign-in always needs them."""
    if data.rp_id_hash != sha256(relying_party.id.encode()).digest():
        return "it is for another relying party"
    if not may_be_absent and not data.is_user_present():
        return "nobody was present"
    if not may_be_absent and not data.is_user_verified():
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


_SECRET_CHARACTERS: Final = 32  # of base32: 160 bits, as RFC 4226 section 4 recommends
# The label is only shown to the person. A QR code holds some 2,300 bytes, and a letter outside ASCII can take 12 of these bytes.
_LONGEST_LABEL: Final = 128
_DRAWN_AT_ONCE: Final = 2


class PyotpTotp:
    """Implements `ports.identity.sign_in.Totp` with SHA-1, 6 digits and 30 seconds, because every authenticator supports these.

    Time-based one-time passwords (RFC 6238) by pyotp, and the QR code that brings the secret to an authenticator app, by segno.
    """

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._limiter = trio.CapacityLimiter(_DRAWN_AT_ONCE)

    def new_secret(self) -> Secret:
        return Secret(pyotp.random_base32(_SECRET_CHARACTERS))

    def step_of(self, secret: Secret, code: str, at: datetime) -> int | None:
        hotp = pyotp.HOTP(secret.reveal())
        now = step_at(at)
        given = code.encode()
        found = None
        # All steps are compared, so that the time taken does not tell which step matched. The latest match counts, because accepting a step
        # uses up the earlier steps too.
        for step in range(now - TOLERANCE, now + TOLERANCE + 1):
            if compare_digest(hotp.at(step).encode(), given):
                found = step
        return found

    def uri(self, secret: Secret, account: str) -> Secret:
        totp = pyotp.TOTP(secret.reveal(), interval=int(STEP.total_seconds()))
        return Secret(totp.provisioning_uri(name=account[:_LONGEST_LABEL], issuer_name=self._issuer))

    async def qr_code(self, uri: Secret) -> Secret:
        return Secret(await trio.to_thread.run_sync(_draw, uri.reveal(), limiter=self._limiter))


def _draw(uri: str) -> str:
    """The code has a white ground and a quiet zone, because cameras could not read it off a dark page otherwise."""
    import segno  # noqa: PLC0415 - most processes draw none, and it takes a megabyte; this is a thread of its own

    drawn = BytesIO()
    code = segno.make(uri, error="l", micro=False)
    code.save(drawn, kind="svg", scale=4, light="#fff", xmldecl=False, nl=False, svgclass=None, lineclass=None, title="QR code")
    return drawn.getvalue().decode()


_PURPOSE: Final = "backup_codes"
# Names the key for derived codes. A form that is sent twice gets the same derived codes.
_SHOWN: Final = "shown_backup_codes"


class HmacBackupCodes:
    """Implements `ports.identity.sign_in.BackupCodes`.

    Backup codes are random, and the database has only their HMACs under a key of the installation. So a thief of a database dump cannot
    guess the codes.
    """

    def __init__(self, server_secrets: ServerSecrets) -> None:
        self._server_secrets = server_secrets

    def new(self) -> Sequence[Secret]:
        # A set, because a code that is drawn twice would leave the person with one code fewer.
        codes: set[str] = set()
        while len(codes) < BACKUP_CODES:
            codes.add("".join(secrets.choice(BACKUP_CODE_ALPHABET) for _ in range(BACKUP_CODE_LENGTH)))
        return [Secret(as_shown(code)) for code in codes]

    async def derived(self, user: UserId, form: str) -> Sequence[Secret]:
        key = await self._server_secrets.get(_SHOWN)
        codes: dict[str, None] = {}
        for number in count():
            # 256 is a multiple of 32, so all characters are equally likely.
            drawn = hmac.digest(key, user.bytes + f"{number} {form}".encode(), hashlib.sha256)[:BACKUP_CODE_LENGTH]
            codes["".join(BACKUP_CODE_ALPHABET[byte % len(BACKUP_CODE_ALPHABET)] for byte in drawn)] = None
            if len(codes) == BACKUP_CODES:
                break
        return [Secret(as_shown(code)) for code in codes]

    async def prepare(self) -> None:
        await self._server_secrets.get(_PURPOSE)

    async def digest(self, user: UserId, code: str) -> bytes:
        # The digest covers the person's id, so that equal codes of two people have different digests.
        return hmac.digest(await self._server_secrets.get(_PURPOSE), user.bytes + code.encode(), hashlib.sha256)
