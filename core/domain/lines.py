"""Lines of text that people type, such as names, titles and reasons, made safe to show to others."""

import re
import unicodedata
from typing import Final

from core.domain.errors import BadRequest

# Longer than any accepted text, with plenty of space around it. Checking a megabyte letter by letter would hold up all other requests.
LONGEST_TYPED: Final = 2000
_JOINER: Final = "\u2060"
# What mail programs make links of: `https://`, `www.`, and words with a dot between letters.
_LINKING: Final = re.compile(r"(?<=:)(?=//)|(?<=[^\W_])(?=\.[^\W\d_])")
# An address of mail, with marks around it. A path may have an @, too: a program that finds a host before it makes a link.
_MAIL: Final = re.compile(r"[(<\"'«„“]*[\w.!#$%&'*+=^`{|}~-]+@[\w.-]+[)>\"'»“”.,;:!?…]*")
_MARKUP: Final = re.compile(r"[<>]|://|\bwww\.|\]\(", re.IGNORECASE)
_JOINERS: Final = "\u200c\u200d"
# So many marks stand on one letter at most. Tibetan, the deepest of the living scripts, stacks six; dozens cover the lines around them.
MOST_MARKS: Final = 8
# Invisible letters and an invisible symbol: the fillers of Hangul, and Braille without a dot.
_BLANKS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def one_line(text: str) -> str:
    """The text without line breaks and other control characters. Characters that change the direction of writing go too: a name must not
    rearrange the sentence around it. Characters that join letters in some scripts stay. Empty when nothing visible is left.
    """
    line = " ".join("".join(letter for letter in text if letter.isspace() or letter in _JOINERS or not _is_control(letter)).split())
    return line if any(map(_is_visible, line)) else ""


def unlinked(text: str) -> str:
    """The text as no program takes it for a link, and as it was to the eye. A word joiner stands within `://`, and before a dot that a
    letter follows. Addresses of mail stay as they are, because people copy them.
    """
    return " ".join(word if _MAIL.fullmatch(word) else _LINKING.sub(_JOINER, word) for word in text.split(" "))


def has_markup(line: str) -> bool:
    """Whether some program would make a link, a tag or a picture of a part of the line."""
    return _MARKUP.search(line) is not None


def typed_line(field: str, text: str) -> str:
    """The typed text as one line. Raises `BadRequest` when the text is too long to check, or piles marks up."""
    if len(text) > LONGEST_TYPED:
        raise BadRequest(
            f"{field}: at most {LONGEST_TYPED} characters, with spaces at both ends counted",
            words="text_too_long",
            values={"most": LONGEST_TYPED},
        )
    require_few_marks(field, text)
    return one_line(text)


def require_few_marks(field: str, text: str) -> None:
    """Refuses more marks on one letter than any script needs. Raises `BadRequest`."""
    if _piles_marks(text):
        raise BadRequest(
            f"{field}: at most {MOST_MARKS} combining marks may follow one letter", words="too_many_marks", values={"most": MOST_MARKS}
        )


def _piles_marks(text: str) -> bool:
    """Characters that nobody sees end no pile."""
    marks = 0
    for letter in text:
        if unicodedata.category(letter)[0] == "M":
            marks += 1
        elif not _is_control(letter):
            marks = 0
        if marks > MOST_MARKS:
            return True
    return False


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cf"}


def _is_visible(letter: str) -> bool:
    """Whether the letter is visible on its own. A combining mark is not, because it needs another letter."""
    return letter not in _BLANKS and not _is_control(letter) and unicodedata.category(letter)[0] not in "MZ"
