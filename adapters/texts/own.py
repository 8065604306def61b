"""Renders custom texts of organizations."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from core.domain.texts.own_texts import FOOTER, NOTICE
from core.domain.texts.rules import END_OF_LINE, PLACEHOLDER, parts

# The address of a link is ours to write into an attribute, so it has no quotation marks, brackets or spaces.
_ADDRESS: Final = re.compile(r"https://[^\s()<>\"'\[\]{}\\]+")
# Where mail programs could find the beginning of a link: within `://`, before a dot that a letter follows, and where words meet a value or
# a link, since both sides together may be the name of a host. Addresses of links and of mail stay as they are.
_LINKING: Final = re.compile(
    r"(\]\(https://[^\s()<>\"'\[\]{}\\]+\)|(?<!\S)[\w.+%&~-]+@[\w-]+(?:\.[\w-]+)*[.,;:!?]*(?!\S))"
    r"|(?<=:)(?=//)|(?=\.(?:[^\W\d_]|[\[{]))|(?<=[A-Za-z0-9])(?=\[?\{)|(?<=\})(?=\[?[A-Za-z0-9])"
)
_JOINER: Final = "\u2060"
# All but the spaces at which no line ends, as French has them before its marks, and the one that is as wide as a letter.
_SPACES: Final = re.compile(r"[^\S\u00a0\u202f\u3000]+")
_EMPTY_LINE: Final = re.compile(r"\n\s*\n")
OWN_ALONE: Final = frozenset({FOOTER, NOTICE})


class Pieces:
    """A text with placeholders: what stands between them, and the names of the values, in turns."""

    __slots__ = ("literals", "names")

    def __init__(self, literals: list[str], names: list[str]) -> None:
        self.literals = literals
        self.names = names

    @classmethod
    def of(cls, text: str, escaped: Callable[[object], str]) -> "Pieces":
        split = PLACEHOLDER.split(text)
        # Plain strings, also of what is HTML by now: marked ones would escape what they are put together with.
        return cls([str(escaped(part)) for part in split[::2]], split[1::2])

    def follow(self, other: "Pieces", between: str = "") -> None:
        """Put the other text behind this one."""
        self.literals[-1] += between + other.literals[0]
        self.literals += other.literals[1:]
        self.names += other.names


# How a text is shown: on one line, for headings, buttons, attributes and subjects, or with its paragraphs.
PLAIN: Final = 0
PARAGRAPHS: Final = 1


# A text that cannot be shown: ours takes its place.
UNFIT: Final = Pieces([""], [])


def placeholders(text: str) -> frozenset[str]:
    return frozenset(PLACEHOLDER.findall(text))


def unlinked_words(text: str) -> str:
    """The text with no words that programs take for a link, as `core.domain.lines.unlinked` does for values."""
    return _LINKING.sub(lambda found: found[1] or _JOINER, text)


def _spaced_once(text: str) -> str:
    return _SPACES.sub(" ", text).strip(" ")


def on_one_line(text: str, kept: Callable[[str], str], escaped: Callable[[object], str]) -> Pieces:
    """A link is its words, and its address behind them."""
    made = Pieces([""], [])
    for words, address in _parts(_spaced_once(text)):
        made.follow(Pieces.of(kept(words), escaped))
        if address:
            made.literals[-1] += str(escaped(f" ({address})"))
    return made


def in_paragraphs(text: str, kept: Callable[[str], str], escaped: Callable[[object], str], between: str, *, html: bool) -> Pieces:
    """`between` ends a paragraph and begins the next. As plain text, a link is its words, and its address behind them.

    They have paragraphs and links, and nothing else that is more than text: whatever looks like a tag, a placeholder that does not exist,
    or another kind of URL is shown as it was typed.
    """
    line = partial(_line_of_html if html else on_one_line, kept=kept, escaped=escaped)
    end = f"<br>{END_OF_LINE}" if html else END_OF_LINE
    paragraphs = filter(str.strip, _EMPTY_LINE.split(text))
    return _following((_following(map(line, filter(str.strip, one.split(END_OF_LINE))), end) for one in paragraphs), between)


def _following(all_of_it: Iterable[Pieces], between: str) -> Pieces:
    first, *others = [*all_of_it] or [UNFIT]
    for one in others:
        first.follow(one, between)
    return first


def _line_of_html(text: str, kept: Callable[[str], str], escaped: Callable[[object], str]) -> Pieces:
    made = Pieces([""], [])
    for words, address in _parts(_spaced_once(text)):
        said = Pieces.of(kept(words), escaped)
        if address:
            said.literals[0] = f'<a href="{escaped(address)}" rel="noopener nofollow">' + said.literals[0]
            said.literals[-1] += "</a>"
        made.follow(said)
    return made


def _parts(line: str) -> Iterator[tuple[str, str]]:
    """Words and, where they are a link's, its address."""
    words = ""
    for part in parts(line):
        if isinstance(part, str):
            words += part
        elif _ADDRESS.fullmatch(part.address):
            yield words, ""
            yield part.words, part.address
            words = ""
        else:
            words += f"[{part.words}]({part.address})"
    yield words, ""
