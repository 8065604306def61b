"""MD4, as RFC 1320 describes it. Lists of NTLM hashes are made with it, and OpenSSL no longer offers it. It protects nothing here."""

from struct import Struct
from typing import Final

_BLOCK: Final = Struct("<16I")
_STATE: Final = Struct("<4I")
_WORD: Final = 0xFFFFFFFF
_BEGINNING: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_SECOND: Final = 0x5A827999
_THIRD: Final = 0x6ED9EBA1
# Each round's order of the words of a block, and by how much each step rotates.
_ROUNDS: Final = (
    (tuple(range(16)), (3, 7, 11, 19)),
    ((0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), (3, 5, 9, 13)),
    ((0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15)),
)
_FIRST_STEPS, _SECOND_STEPS, _THIRD_STEPS = (
    tuple((word, shifts[step % 4], 32 - shifts[step % 4]) for step, word in enumerate(order)) for order, shifts in _ROUNDS
)


def md4(text: bytes) -> bytes:
    padded = text + b"\x80" + bytes(-(len(text) + 9) % 64) + (8 * len(text)).to_bytes(8, "little")
    state = _BEGINNING
    for at in range(0, len(padded), 64):
        state = _mixed(state, _BLOCK.unpack_from(padded, at))
    return _STATE.pack(*state)


def _mixed(state: tuple[int, int, int, int], words: tuple[int, ...]) -> tuple[int, int, int, int]:
    a, b, c, d = state
    for word, left, right in _FIRST_STEPS:
        mixed = (a + (d ^ (b & (c ^ d))) + words[word]) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    for word, left, right in _SECOND_STEPS:
        mixed = (a + (b & c | b & d | c & d) + words[word] + _SECOND) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    for word, left, right in _THIRD_STEPS:
        mixed = (a + (b ^ c ^ d) + words[word] + _THIRD) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    return tuple((old + new) & _WORD for old, new in zip(state, (a, b, c, d), strict=True))  # type: ignore[return-value]  # four of four
