"""The place of a caller in its trace, as the header `traceparent` tells it (W3C Trace Context, level 1)."""

import re
from typing import Final

from core.frozen import Frozen

_SAMPLED: Final = 1
# Version, trace id, span id, flags. A later version may add fields after a further dash; version 00 ends here, and ff is no version.
_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST_VERSION: Final = "00"
# The header of version 00 has 55 characters. Nobody needs more of a later version than this.
_LONGEST: Final = 512


class TraceContext(Frozen):
    """`trace` and `span` are ids in hexadecimal digits, 32 and 16 of them."""

    trace: str
    span: str
    sampled: bool

    def header(self) -> str:
        return f"{_FIRST_VERSION}-{self.trace}-{self.span}-{_SAMPLED if self.sampled else 0:02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """None for a text that is no `traceparent`. The specification wants such a header ignored."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found[1] == _FIRST_VERSION and found[5] is not None):
        return None
    return TraceContext(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))
