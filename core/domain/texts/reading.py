"""The form of an own text: paragraphs of words, placeholders and links. Whoever shows a text takes it apart with these functions."""

import re
from collections.abc import Sequence
from typing import Final

from core.frozen import Frozen

PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
BETWEEN_PARAGRAPHS: Final = "\n\n"
END_OF_LINE: Final = "\n"
# The words and the address of a link. Neither has brackets of its own, so that no two programs can read it in two ways.
_LINK: Final = re.compile(r"\[([^\[\]\n]+)\]\(([^()\s]+)\)")


class TextLink(Frozen):
    words: str
    address: str


def paragraphs(text: str) -> Sequence[str]:
    return text.split(BETWEEN_PARAGRAPHS)


def parts(paragraph: str) -> Sequence[str | TextLink]:
    """What the paragraph says, in order: strings, which may have placeholders, and links, whose words may have them."""
    found: list[str | TextLink] = []
    end = 0
    for match in _LINK.finditer(paragraph):
        if match.start() > end:
            found.append(paragraph[end : match.start()])
        found.append(TextLink(match[1], match[2]))
        end = match.end()
    if end < len(paragraph):
        found.append(paragraph[end:])
    return found


def links(text: str) -> Sequence[TextLink]:
    return [TextLink(match[1], match[2]) for match in _LINK.finditer(text)]


def without_links(text: str) -> str:
    """The text with the words of its links alone."""
    return _LINK.sub(r"\1", text)
