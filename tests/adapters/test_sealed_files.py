"""Files that one installation seals for another."""

import io
import os
from typing import Any

import pytest

from adapters.crypto.recipients import (
    SEALED_FILE_BEGINNING,
    OpeningFile,
    ReceivingKeyUnusable,
    SealingFile,
    fingerprint,
    fingerprint_of,
    parse_receiving_key,
    receiving_key,
)
from ports.crypto import CannotOpen

SECRET = b"s" * 32
CHUNK = 64 * 1024


def sealed(content: bytes, secret: bytes = SECRET) -> bytes:
    file = io.BytesIO()
    sealing = SealingFile(file, parse_receiving_key(receiving_key(secret)))
    assert sealing.writable()
    for start in range(0, len(content), 50_000):
        sealing.write(content[start : start + 50_000])
    sealing.finish()
    return file.getvalue()


def opened(content: bytes, secret: bytes = SECRET) -> bytes:
    opening = OpeningFile(io.BytesIO(content), secret)
    assert opening.readable()
    read = bytearray()
    buffer = bytearray(70_000)
    while count := opening.readinto(buffer):
        read += buffer[:count]
    return bytes(read)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17])
def test_what_was_sealed_opens(size: int) -> None:
    content = os.urandom(size)
    assert opened(sealed(content)) == content
    assert content not in sealed(content) or size < 8


def test_nobody_else_opens_it() -> None:
    with pytest.raises(CannotOpen, match="another installation"):
        opened(sealed(b"secret"), b"o" * 32)


def damaged() -> dict[str, bytes]:
    whole = sealed(os.urandom(3 * CHUNK))
    head, sealed_chunk = len(SEALED_FILE_BEGINNING) + 32, CHUNK + 16
    first, second = whole[head : head + sealed_chunk], whole[head + sealed_chunk : head + 2 * sealed_chunk]
    rest = whole[head + 2 * sealed_chunk :]
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    return {
        "nothing": b"",
        "another kind": b"PK\x03\x04" + whole,
        "only a beginning": whole[: head - 1],
        "a key that is none": SEALED_FILE_BEGINNING + bytes(32) + whole[head:],
        "no chunk": whole[:head],
        "cut between chunks": whole[: head + sealed_chunk],
        "cut in a chunk": whole[:-5],
        "longer": whole + b"x",
        "a chunk twice": whole[:head] + first + first + second + rest,
        "swapped": whole[:head] + second + first + rest,
        "a flipped bit": bytes(flipped),
    }


def test_a_damaged_file_does_not_open() -> None:
    for name, content in damaged().items():
        try:
            opened(content)
        except CannotOpen:
            continue
        pytest.fail(name)


@pytest.mark.parametrize("text", ["", "postern-receive-1-", "postern-receive-1-AAAA", "postern-receive-1-\u00e9", "x" * 60, "A" * 43])
def test_a_key_that_is_none(text: str) -> None:
    with pytest.raises(ReceivingKeyUnusable, match="receive-key"):
        parse_receiving_key(text)


def test_a_key_that_leads_nowhere() -> None:
    with pytest.raises(ReceivingKeyUnusable, match="anybody"):
        SealingFile(io.BytesIO(), bytes(32))


def test_both_operators_see_the_same_mark() -> None:
    key: Any = receiving_key(SECRET)
    assert fingerprint(parse_receiving_key(f" {key}\n")) == fingerprint_of(SECRET)
    assert len(fingerprint_of(SECRET)) == 24
