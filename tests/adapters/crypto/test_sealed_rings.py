"""Key rings that are sealed for a recovery key, of both kinds, and those of the release before."""

from base64 import b64decode
from collections.abc import Callable
from typing import Final

import pytest

from adapters.crypto.recipients import (
    RecoveryKeyUnusable,
    RecoveryPair,
    make_recovery_key,
    make_x25519_recovery_key,
    open_ring,
    parse_recovery_key,
    seal_ring,
)
from ports.crypto import CannotOpen

RING: Final = "2026-11-30.abcdef:a2V5"
BACKUP: Final = "20261130T000000Z-abcdef"
KINDS: Final = (make_recovery_key, make_x25519_recovery_key)
# Sealed by the program of 6317c5813, before there were hybrid keys.
FORMER_RING: Final = b64decode("cG9zdGVybi1yaW5nLTEK45SNErsykjt/UPb4gIqVO4wHfb+IazMFPIuV1z+cbFXFDQr7NprhvNVLtsYQS/sKq4lgTNpdBWJX")
FORMER_KEY: Final = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIHJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnJy
-----END PRIVATE KEY-----
"""


def sealed(pair: RecoveryPair) -> bytes:
    return seal_ring(RING, parse_recovery_key(pair.public), BACKUP)


@pytest.mark.parametrize("make", KINDS)
def test_a_ring_opens_with_its_key_and_for_its_backup(make: Callable[[], RecoveryPair]) -> None:
    pair = make()
    ring = sealed(pair)
    assert RING.encode() not in ring
    assert open_ring(ring, pair.private, BACKUP) == RING
    assert open_ring(ring, b"\n " + pair.private.strip() + b"\r\n", BACKUP) == RING
    assert parse_recovery_key(pair.public).fingerprint == pair.fingerprint
    with pytest.raises(CannotOpen, match="altered"):
        open_ring(ring, pair.private, "20261201T000000Z-abcdef")


def test_a_ring_of_the_release_before_opens() -> None:
    assert open_ring(FORMER_RING, FORMER_KEY, BACKUP) == "test:a2V5"


def test_a_wrong_key_is_told_apart_from_damage() -> None:
    hybrid, other, older = make_recovery_key(), make_recovery_key(), make_x25519_recovery_key()
    ring = sealed(hybrid)
    with pytest.raises(CannotOpen) as refused:
        open_ring(ring, other.private, BACKUP)
    assert str(refused.value) == (
        f"they were sealed for a key with the fingerprint {hybrid.fingerprint}, and this key has the fingerprint {other.fingerprint}"
    )
    with pytest.raises(CannotOpen, match=f"sealed for a hybrid key with the fingerprint {hybrid.fingerprint}, and this is an X25519 key"):
        open_ring(ring, older.private, BACKUP)
    with pytest.raises(CannotOpen, match="sealed for an X25519 key, and this is a hybrid one"):
        open_ring(sealed(older), hybrid.private, BACKUP)
    with pytest.raises(CannotOpen, match="altered, or sealed for another recovery key"):
        open_ring(sealed(older), make_x25519_recovery_key().private, BACKUP)


def test_a_fingerprint_of_another_key_does_not_pass_for_its_own() -> None:
    """The line is part of what HPKE seals under."""
    hybrid, other = make_recovery_key(), make_recovery_key()
    forged = sealed(hybrid).replace(hybrid.fingerprint.encode(), other.fingerprint.encode())
    for pair, words in ((hybrid, "sealed for a key"), (other, "^altered$")):
        with pytest.raises(CannotOpen, match=words):
            open_ring(forged, pair.private, BACKUP)


def test_each_altered_byte_is_noticed() -> None:
    pair = make_recovery_key()
    whole = sealed(pair)
    for place in (0, 13, 14, 15, 20, 38, 39, 40, 1000, 1170, 1206, 1207, len(whole) - 1):
        altered = bytearray(whole)
        altered[place] ^= 1
        with pytest.raises(CannotOpen):
            open_ring(bytes(altered), pair.private, BACKUP)
    for length in (0, 5, 15, 39, 40, 100, 1206, len(whole) - 1):
        with pytest.raises(CannotOpen):
            open_ring(whole[:length], pair.private, BACKUP)
    with pytest.raises(CannotOpen, match="altered"):
        open_ring(whole + b"x", pair.private, BACKUP)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "must be a public half"),
        (b"x" * 100_000, "must be a public half"),
        (b"\xff\xfe", "must be a public half"),
        (b"postern-recovery-2-AAAA", "incomplete or was altered"),
        (b"postern-recovery-2-" + b"_" * 1622, "none that anybody could have made"),
        (b"postern-recovery-2-" + b"\xc3\xa9" * 1622, "incomplete or was altered"),
        (FORMER_KEY, "private half"),
        (b"postern-recovery-secret-2-AAAA", "private half"),
    ],
)
def test_what_is_no_public_half(file: bytes, words: str) -> None:
    with pytest.raises(RecoveryKeyUnusable, match=words):
        parse_recovery_key(file)


@pytest.mark.parametrize("make", KINDS)
def test_the_halves_are_not_confused(make: Callable[[], RecoveryPair]) -> None:
    pair = make()
    with pytest.raises(RecoveryKeyUnusable, match="private half of a recovery key: keep it offline") as refused:
        parse_recovery_key(pair.private)
    assert pair.private.decode().strip() not in str(refused.value)
    with pytest.raises(RecoveryKeyUnusable, match="only the private half decrypts"):
        open_ring(sealed(pair), pair.public, BACKUP)


@pytest.mark.parametrize("file", [b"", b"x" * 100_000, b"postern-recovery-secret-2-", b"postern-recovery-secret-2-AAAA", b"\x00"])
def test_what_is_no_private_half(file: bytes) -> None:
    with pytest.raises(RecoveryKeyUnusable):
        open_ring(FORMER_RING, file, BACKUP)
