"""The lines of a mail's text: at most 79 columns, and links and addresses on one line."""

import re
from collections.abc import Callable, Mapping
from textwrap import TextWrapper
from typing import Final

from core.domain.languages import Language

_COLUMNS: Final = 79
# Non-breaking spaces, as French uses them, are no places to break at.
_wrapper: Final = TextWrapper(width=_COLUMNS, break_long_words=False, break_on_hyphens=False)
# Japanese and Chinese have no spaces between words: a line may end behind each character, unless a mark follows that belongs to it. Each
# takes two columns.
_WIDE: Final = "\u3000-\u30ff\u3400-\u9fff\uff01-\uff60"
_OPENING: Final = "「『（【《“‘"  # noqa: RUF001 - these very marks
_CLOSING: Final = "、。，．！？：；」』）】》”’ー…々"  # noqa: RUF001
_PART: Final = re.compile(rf"\s+|[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}{_CLOSING}]+)[{_CLOSING}]*|\S")
_IS_WIDE: Final = re.compile(f"[{_WIDE}]")


def _filled_closely(text: str) -> str:
    lines, line, room = [], "", _COLUMNS
    for part in _PART.findall(" ".join(text.split())):
        width = len(part) + len(_IS_WIDE.findall(part))
        if width > room and line:
            lines.append(line.rstrip())
            line, room = "", _COLUMNS
        if line or not part.isspace():
            line, room = line + part, room - width
    return "\n".join([*lines, line.rstrip()])


FILL: Final[Mapping[Language, Callable[[str], str]]] = {
    **dict.fromkeys(Language, _wrapper.fill),
    **dict.fromkeys((Language.JAPANESE, Language.CHINESE), _filled_closely),
}
