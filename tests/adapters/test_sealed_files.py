"""Files that one installation seals for another."""

import io
import os
import sys
from base64 import b64decode
from typing import Final

import pytest

from adapters.crypto.recipients import (
    OpeningFile,
    ReceivingKeyUnusable,
    RecipientKey,
    RecipientSecrets,
    SealingFile,
    parse_receiving_key,
    receiving_key,
)
from ports.crypto import CannotOpen

SECRETS: Final = RecipientSecrets(hybrid=b"s" * 32, x25519=b"s" * 32)
OTHERS: Final = RecipientSecrets(hybrid=b"o" * 32, x25519=b"o" * 32)
KEYS: Final = {"hybrid": SECRETS.hybrid_key, "x25519": SECRETS.x25519_key}
BEGINNINGS: Final = {"hybrid": 23 + 25 + 1168, "x25519": 23 + 32}
CHUNK = 64 * 1024
# Sealed by the program of 6317c5813, before there were hybrid keys.
FORMER_FILE: Final = b64decode(
    "cG9zdGVybi1vcmdhbml6YXRpb24tMQo/JXgrUWUf5HaLKP1mb6iNY+rFQSwcoZxmTCVj+oXaODsgaB1Pw7M3sCPkazOGPW6/iF++K2lNkr7mABRNNA=="
)
FORMER_RECEIVING_KEY: Final = "postern-receive-1-DNM7euXU8joegglJxUMVfT0kQIsZb_nOKanOcVxtITk"


def sealed(content: bytes, kind: str = "hybrid") -> bytes:
    file = io.BytesIO()
    sealing = SealingFile(file, parse_receiving_key(receiving_key(KEYS[kind])))
    assert sealing.writable()
    for start in range(0, len(content), 50_000):
        sealing.write(content[start : start + 50_000])
    sealing.finish()
    return file.getvalue()


def opened(content: bytes, secrets: RecipientSecrets = SECRETS) -> bytes:
    opening = OpeningFile(io.BytesIO(content), secrets)
    assert opening.readable()
    read = bytearray()
    buffer = bytearray(70_000)
    while count := opening.readinto(buffer):
        read += buffer[:count]
    return bytes(read)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17])
def test_what_was_sealed_opens(size: int, kind: str) -> None:
    content = os.urandom(size)
    whole = sealed(content, kind)
    assert opened(whole) == content
    assert content not in whole or size < 8
    assert len(whole) == BEGINNINGS[kind] + size + 16 * max(1, -(-size // CHUNK))


def test_a_file_of_the_release_before_opens() -> None:
    assert opened(FORMER_FILE) == b"what was moved"
    assert parse_receiving_key(FORMER_RECEIVING_KEY) == KEYS["x25519"]


def test_nobody_else_opens_it() -> None:
    with pytest.raises(CannotOpen, match="another installation"):
        opened(sealed(b"secret", "x25519"), OTHERS)
    with pytest.raises(CannotOpen) as refused:
        opened(sealed(b"secret"), OTHERS)
    assert str(refused.value) == (
        f"it was sealed for a key with the fingerprint {KEYS['hybrid'].fingerprint}, and this key has the fingerprint "
        f"{OTHERS.hybrid_key.fingerprint}: it is for another installation"
    )


def damaged(kind: str) -> dict[str, bytes]:
    whole = sealed(os.urandom(3 * CHUNK), kind)
    head, sealed_chunk = BEGINNINGS[kind], CHUNK + 16
    first, second = whole[head : head + sealed_chunk], whole[head + sealed_chunk : head + 2 * sealed_chunk]
    rest = whole[head + 2 * sealed_chunk :]
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    return {
        "nothing": b"",
        "another kind": b"PK\x03\x04" + whole,
        "only a beginning": whole[: head - 1],
        "a key that is none": whole[: head - 32] + bytes(32) + whole[head:],
        "a fingerprint that is none": whole[:23] + b"\xff" * 24 + whole[47:],
        "another kind of key": whole[:21] + (b"1" if kind == "hybrid" else b"2") + whole[22:],
        "no chunk": whole[:head],
        "cut between chunks": whole[: head + sealed_chunk],
        "cut in a chunk": whole[:-5],
        "longer": whole + b"x",
        "a chunk twice": whole[:head] + first + first + second + rest,
        "swapped": whole[:head] + second + first + rest,
        "a flipped bit": bytes(flipped),
    }


@pytest.mark.parametrize("kind", KEYS)
def test_a_damaged_file_does_not_open(kind: str) -> None:
    for name, content in damaged(kind).items():
        try:
            opened(content)
        except CannotOpen:
            continue
        pytest.fail(name)


@pytest.mark.parametrize(
    "text", ["", "postern-receive-1-", "postern-receive-1-AAAA", "postern-receive-1-\u00e9", "postern-receive-2-AAAA", "x" * 60, "A" * 43]
)
def test_a_key_that_is_none(text: str) -> None:
    with pytest.raises(ReceivingKeyUnusable, match="receive-key"):
        parse_receiving_key(text)


def test_a_key_that_leads_nowhere() -> None:
    with pytest.raises(ReceivingKeyUnusable, match="anybody"):
        SealingFile(io.BytesIO(), RecipientKey(bytes(32)))
    with pytest.raises(ReceivingKeyUnusable, match="anybody"):
        SealingFile(io.BytesIO(), RecipientKey(b"\xff" * 1216))


@pytest.mark.parametrize("kind", KEYS)
def test_both_operators_see_the_same_mark(kind: str) -> None:
    key = KEYS[kind]
    assert parse_receiving_key(f" {receiving_key(key)}\n") == key
    assert parse_receiving_key(receiving_key(key)).fingerprint == key.fingerprint
    assert len(key.fingerprint) == 24


def test_a_build_without_ml_kem_names_the_other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sealed(b"secret")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.hpke", None)
    with pytest.raises(ReceivingKeyUnusable, match=r"no ML-KEM.*receive-key --x25519"):
        SealingFile(io.BytesIO(), KEYS["hybrid"])
    with pytest.raises(CannotOpen, match=r"sealed for a hybrid key.*no ML-KEM"):
        opened(whole)
    assert opened(sealed(b"secret", "x25519")) == b"secret"
