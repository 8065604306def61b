"""Hybrid keys against the vectors of X-Wing's draft, and on a machine whose library has no ML-KEM."""

import sys
from collections.abc import Callable
from hashlib import sha256, shake_128
from typing import Final

import pytest
from cryptography.hazmat.backends.openssl.backend import backend
from cryptography.hazmat.primitives import hpke

from adapters.crypto.hybrid_keys import PUBLIC_BYTES, SEALED_KEY_BYTES, NoHybridKeys, open_key, public_half, seal_key
from adapters.crypto.recipients import (
    RecipientSecrets,
    RecoveryKeyUnusable,
    make_recovery_key,
    make_x25519_recovery_key,
    open_ring,
    parse_recovery_key,
    seal_ring,
)
from ports.crypto import CannotOpen
from tests.adapters.crypto.other_x_wing import encapsulate, seal

KEY: Final = b"k" * 32
INFO: Final = b"what it is for"
# Appendix C of draft-connolly-cfrg-xwing-kem-10: the digests of `pk` and `ct`, and `ss`. Its `seed` and `eseed` are one stream of SHAKE128.
VECTORS: Final = (
    (
        "2e816deebcd76c5c80d0cd2d174478871658e8e2ff42bc9d4a6e486372e856bb",
        "17cd532d657e44c897ca6583e548a5424fc70bf54f99515a4d2bcf99e3469f33",
        "d2df0522128f09dd8e2c92b1e905c793d8f57a54c3da25861f10bf4ca613e384",
    ),
    (
        "c42ba5f8430d7d2c83739338203819f090e8303ce9c8b02107c272bfa5376916",
        "1661ea86d608a1924ba30840cb0a65f13ae051e3aec9cf0f064efc0bc92f2154",
        "f2e86241c64d60f6649fbc6c5b7d17180b780a3f34355e64a85749949c45f150",
    ),
    (
        "6b080d6b84f095342092fa7a22423e58bd681397ad0ef00eac92bd254db4fa95",
        "d3ca5578500344b5896cffc4fd740c9311946b82951df155e6fd86a7966b43c6",
        "953f7f4e8c5b5049bdc771d1dffada0dd961477d1a2ae0988baa7ea6898d893f",
    ),
)


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_the_vectors_of_the_draft(number: int) -> None:
    """What somebody else seals by the draft and by RFC 9180 opens here."""
    given = shake_128(b"").digest(96 * len(VECTORS))[96 * number : 96 * (number + 1)]
    seed, randomness = given[:32], given[32:]
    public = public_half(seed)
    shared, ciphertext = encapsulate(public, randomness)
    assert (sha256(public).hexdigest(), sha256(ciphertext).hexdigest(), shared.hex()) == VECTORS[number]
    assert open_key(ciphertext + seal(shared, INFO, KEY), seed, INFO) == KEY


def test_what_was_sealed_opens_with_its_key_and_purpose_alone() -> None:
    seed = b"s" * 32
    sealed = seal_key(KEY, public_half(seed), INFO)
    assert (len(public_half(seed)), len(sealed)) == (PUBLIC_BYTES, SEALED_KEY_BYTES)
    assert open_key(sealed, seed, INFO) == KEY
    assert seal_key(KEY, public_half(seed), INFO) != sealed
    # Each part counts: what ML-KEM and X25519 hand over, and the sealed key.
    for place in (0, 1087, 1088, 1119, 1120, len(sealed) - 1):
        altered = bytearray(sealed)
        altered[place] ^= 1
        with pytest.raises(CannotOpen):
            open_key(bytes(altered), seed, INFO)
    for wrong in ((sealed, b"o" * 32, INFO), (sealed, seed, b"another purpose"), (sealed[:-1], seed, INFO), (b"", seed, INFO)):
        with pytest.raises(CannotOpen):
            open_key(*wrong)


def test_half_of_a_hybrid_key_opens_nothing() -> None:
    """Whoever has broken one of the two has nothing."""
    seed, other = b"s" * 32, b"o" * 32
    halves = public_half(seed), public_half(other)
    for mixed in (halves[0][:1184] + halves[1][1184:], halves[1][:1184] + halves[0][1184:]):
        sealed = seal_key(KEY, mixed, INFO)
        for one in (seed, other):
            with pytest.raises(CannotOpen):
                open_key(sealed, one, INFO)


@pytest.mark.parametrize("public", [b"", b"x" * 32, b"\xff" * PUBLIC_BYTES, public_half(b"s" * 32)[:-32] + bytes(32)])
def test_a_public_half_that_is_none(public: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        seal_key(KEY, public, INFO)


def _without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in releases of the library that have no HPKE."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.hpke", None)


def _without_the_kem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpke, "KEM", object())


def _without_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in builds on an OpenSSL that has no ML-KEM."""
    monkeypatch.setattr(type(backend), "mlkem_supported", lambda _self: False)


@pytest.mark.parametrize("without", [_without_the_module, _without_the_kem, _without_the_algorithm])
def test_a_build_without_ml_kem_says_so(without: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_recovery_key()
    sealed = seal_ring("ring", parse_recovery_key(pair.public), "backup")
    public = public_half(b"s" * 32)
    without(monkeypatch)
    lower: list[Callable[[], object]] = [
        lambda: public_half(b"s" * 32),
        lambda: seal_key(KEY, public, INFO),
        lambda: open_key(b"", b"s" * 32, INFO),
    ]
    upper: list[Callable[[], object]] = [
        make_recovery_key,
        lambda: parse_recovery_key(pair.public),
        lambda: open_ring(sealed, pair.private, "backup"),
    ]
    for works, refusal in ((lower, NoHybridKeys), (upper, RecoveryKeyUnusable)):
        for work in works:
            with pytest.raises(refusal, match="has no ML-KEM"):
                work()
    # X25519 goes on.
    older = make_x25519_recovery_key()
    assert open_ring(seal_ring("ring", parse_recovery_key(older.public), "backup"), older.private, "backup") == "ring"


def test_private_halves_are_never_printed() -> None:
    pair = make_recovery_key()
    assert pair.private.decode().strip() not in repr(pair)
    assert "ssss" not in repr(RecipientSecrets(hybrid=b"s" * 32, x25519=b"s" * 32))
