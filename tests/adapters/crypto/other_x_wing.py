"""The sender's half of X-Wing and of HPKE a second time, from their documents: FIPS 203 (ML-KEM-768), draft-connolly-cfrg-xwing-kem-10 and
RFC 9180. Randomness is given, so that the draft's vectors say what comes out. For tests alone: it takes its time, and not always the same.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha3_256, sha3_512, sha256, shake_128, shake_256
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Q: Final = 3329
N: Final = 256
K: Final = 3
LABEL: Final = b"\\.//^\\"
SUITE: Final = b"HPKE" + (0x647A).to_bytes(2) + (0x0001).to_bytes(2) + (0x0002).to_bytes(2)
"""X-Wing, HKDF-SHA256, AES-256-GCM."""
Polynomial = list[int]


def encapsulate(public: bytes, randomness: bytes) -> tuple[bytes, bytes]:
    """The shared secret, and what the recipient needs. Section 5.4.1 of the draft."""
    shared, ciphertext = _ml_kem_encapsulate(public[:1184], randomness[:32])
    own = X25519PrivateKey.from_private_bytes(randomness[32:])
    own_public = own.public_key().public_bytes_raw()
    exchanged = own.exchange(X25519PublicKey.from_public_bytes(public[1184:]))
    return sha3_256(shared + exchanged + own_public + public[1184:] + LABEL).digest(), ciphertext + own_public


def seal(shared: bytes, info: bytes, content: bytes) -> bytes:
    """The first message of HPKE's base mode under a shared secret, without the ciphertext of the KEM (RFC 9180, sections 5.1 and 5.2)."""
    context = b"\x00" + _extract(b"", b"psk_id_hash", b"") + _extract(b"", b"info_hash", info)
    secret = _extract(shared, b"secret", b"")
    key, nonce = _expand(secret, b"key", context, 32), _expand(secret, b"base_nonce", context, 12)
    return AESGCM(key).encrypt(nonce, content, b"")


def _extract(salt: bytes, label: bytes, material: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + SUITE + label + material, sha256)


def _expand(secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return hmac.digest(secret, length.to_bytes(2) + b"HPKE-v1" + SUITE + label + info + b"\x01", sha256)[:length]


def _ml_kem_encapsulate(public: bytes, message: bytes) -> tuple[bytes, bytes]:
    """Algorithm 17 of FIPS 203."""
    both = sha3_512(message + sha3_256(public).digest()).digest()
    return both[:32], _encrypt(public, message, both[32:])


def _encrypt(public: bytes, message: bytes, randomness: bytes) -> bytes:
    """Algorithm 14."""
    t_hat = [_decoded(public[384 * i : 384 * (i + 1)], 12) for i in range(K)]
    seed = public[384 * K :]
    noise = [_sampled_noise(shake_256(randomness + bytes([i])).digest(128)) for i in range(2 * K + 1)]
    y_hat, e1, e2 = [_ntt(one) for one in noise[:K]], noise[K : 2 * K], noise[2 * K]
    # The matrix is used transposed: row i, column j comes from the bytes i, j.
    u = [_sum(_inverse_ntt(_dot([_sampled_uniform(seed + bytes([i, j])) for j in range(K)], y_hat)), e1[i]) for i in range(K)]
    bits = [_decompressed(bit, 1) for bit in _decoded(message, 1)]
    v = _sum(_sum(_inverse_ntt(_dot(t_hat, y_hat)), e2), bits)
    return b"".join(_encoded([_compressed(x, 10) for x in one], 10) for one in u) + _encoded([_compressed(x, 4) for x in v], 4)


def _dot(left: Sequence[Polynomial], right: Sequence[Polynomial]) -> Polynomial:
    total = [0] * N
    for a, b in zip(left, right, strict=True):
        total = _sum(total, _multiplied(a, b))
    return total


def _sum(left: Polynomial, right: Polynomial) -> Polynomial:
    return [(a + b) % Q for a, b in zip(left, right, strict=True)]


def _reversed_bits(number: int) -> int:
    return int(f"{number:07b}"[::-1], 2)


_ZETAS: Final = [pow(17, _reversed_bits(i), Q) for i in range(128)]
_GAMMAS: Final = [pow(17, 2 * _reversed_bits(i) + 1, Q) for i in range(128)]


def _ntt(given: Polynomial) -> Polynomial:
    """Algorithm 9."""
    f, i, length = list(given), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            zeta, i = _ZETAS[i], i + 1
            for j in range(start, start + length):
                t = zeta * f[j + length] % Q
                f[j], f[j + length] = (f[j] + t) % Q, (f[j] - t) % Q
        length //= 2
    return f


def _inverse_ntt(given: Polynomial) -> Polynomial:
    """Algorithm 10."""
    f, i, length = list(given), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            zeta, i = _ZETAS[i], i - 1
            for j in range(start, start + length):
                t = f[j]
                f[j], f[j + length] = (t + f[j + length]) % Q, zeta * (f[j + length] - t) % Q
        length *= 2
    return [x * 3303 % Q for x in f]


def _multiplied(f: Polynomial, g: Polynomial) -> Polynomial:
    """Algorithms 11 and 12."""
    product: Polynomial = []
    for i, gamma in enumerate(_GAMMAS):
        a, b, c, d = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
        product += [(a * c + b * d * gamma) % Q, (a * d + b * c) % Q]
    return product


def _sampled_uniform(seed: bytes) -> Polynomial:
    """Algorithm 7."""
    found: Polynomial = []
    stream = shake_128(seed).digest(3 * 512)
    for i in range(0, len(stream), 3):
        first, second = stream[i] + 256 * (stream[i + 1] % 16), stream[i + 1] // 16 + 16 * stream[i + 2]
        found += [one for one in (first, second) if one < Q]
    assert len(found) >= N
    return found[:N]


def _sampled_noise(stream: bytes) -> Polynomial:
    """Algorithm 8 with two bits on each side."""
    bits = _decoded(stream, 1)
    return [(bits[4 * i] + bits[4 * i + 1] - bits[4 * i + 2] - bits[4 * i + 3]) % Q for i in range(N)]


def _compressed(x: int, bits: int) -> int:
    return ((x << (bits + 1)) + Q) // (2 * Q) % (1 << bits)


def _decompressed(x: int, bits: int) -> int:
    return (2 * Q * x + (1 << bits)) >> (bits + 1)


def _encoded(values: Polynomial, bits: int) -> bytes:
    """Algorithm 5."""
    whole = sum(value << (bits * i) for i, value in enumerate(values))
    return whole.to_bytes(len(values) * bits // 8, "little")


def _decoded(content: bytes, bits: int) -> Polynomial:
    """Algorithm 6."""
    whole = int.from_bytes(content, "little")
    return [(whole >> (bits * i)) & ((1 << bits) - 1) for i in range(len(content) * 8 // bits)]
