"""Numbers of JSON that take a thousand times as long to read as others.

msgspec reads `1e-320`, and any number whose exponent lies near the ends of what a float can be, in ten microseconds, and holds the
interpreter's lock all the while: 64 KB of them stop the process for a tenth of a second, 2 MB for two seconds, in whatever thread. No
program sends many of them. So whatever decodes JSON of others by msgspec counts them before.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

MOST_FAR_NUMBERS: Final = 100
"""In a body: what these cost is a millisecond."""
# An exponent of three digits. Those of two cost no more than other numbers.
_FAR: Final = re.compile(rb"[0-9][eE][-+]?0*[1-9][0-9]{2}")
# Between two slices of a long body other threads get their turn.
_SLICE: Final = 32 << 10


def has_too_many_values(body: bytes, most: int) -> bool:
    """Whether JSON has more values than these, or too many that take long, counted before decoding. Each value but the first comes after a
    comma or an opening bracket.
    """
    return body.count(b",") + body.count(b"[") + body.count(b"{") > most or has_many_far_numbers(body)


def has_many_far_numbers(body: bytes) -> bool:
    """Whether more than 100 numbers outside of texts have an exponent of three digits."""
    if not _are_many(_slices(body)):
        return False
    # Digests and certificates have what looks like such numbers, in texts.
    return _are_many(outside_of_texts(body))


def outside_of_texts(body: bytes) -> Iterator[bytes]:
    """What stands between the texts of a JSON document, a slice at a time."""
    is_text = False
    for part in _slices(body.replace(b"\\\\", b"").replace(b'\\"', b"")):
        pieces = part.split(b'"')
        yield b'"'.join(pieces[1 if is_text else 0 :: 2])
        is_text ^= len(pieces) % 2 == 0


def _slices(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _SLICE] for at in range(0, len(body), _SLICE))


def _are_many(parts: Iterator[bytes]) -> bool:
    found = 0
    for part in parts:
        found += sum(1 for _ in islice(_FAR.finditer(part), MOST_FAR_NUMBERS + 1))
        if found > MOST_FAR_NUMBERS:
            return True
    return False
