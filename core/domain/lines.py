"""Sanitizes single lines that users type, such as names, titles and reasons, before others see them."""

import re
import unicodedata
from itertools import pairwise
from typing import Final

from core.domain.errors import BadRequest
from core.domain.normal_forms import NotNormalized, normalized

# Longer than any accepted text, with plenty of space around it. Checking a megabyte letter by letter would hold up all other requests.
LONGEST_TYPED: Final = 2000
# Of the short texts that are quoted beside ours. The longest of them has a few hundred characters.
_LONGEST_JUDGED: Final = 1000
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
    if text.isascii() and text.isprintable():
        return " ".join(text.split())  # the same, without a look at each letter
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


_FULL_STOPS: Final = ("FULL STOP",)
_SLASHES: Final = ("SOLIDUS", "SLASH")
_COLONS: Final = (" COLON", "RATIO")
# A scheme makes a link also without its slashes: browsers add them. The others are a scheme that people are told to mend, and two slashes.
_LINK: Final = re.compile(r"(?:https?|hxxps?|ftps?|mailto|javascript)\s*:|://|//(?=\S)|www\.", re.IGNORECASE)
_HOST: Final = re.compile(r"[^\W_][\w-]*\.[^\W\d_]{2}|[^\W_]\s+\.\s*[^\W\d_]{2}|\d{1,3}(?:\.\d{1,3}){3}")
_LOOKALIKE_MAIL: Final = re.compile(r"\S@\S")
_QUOTING: Final = re.compile(
    r"QUOTATION MARK|APOSTROPHE|PRIME|DITTO MARK|CORNER BRACKET|\b(?:ACUTE|GRAVE) ACCENT|GERSHAYIM|GERESH|(?:TURNED|REVERSED) COMMA"
)
# They stand within words, as in l'achat and п'ять, and within amounts of Switzerland.
_WITHIN_WORDS: Final = frozenset("'\u2019\u02bc\u02bb\u05f3\u05f4")
# The commonest apostrophe may also begin or end one word, as in 's avonds, un po' di, our customers' invoice.
_AT_AN_EDGE: Final = re.compile(r"(?<!\S)'(?=[^\W_])|(?<=[^\W_])'(?= [^\W_])")
_OTHER_FORMS: Final = ("<wide>", "<narrow>", "<font>", "<circle>", "<square>")


def folded(text: str) -> str:
    """The text with one form of each letter, and with the full stops, slashes and colons of all scripts as the usual ones. Raises
    `NotNormalized`.
    """
    plain = normalized(text, "NFKC", _LONGEST_JUDGED)
    # One letter can come apart into eighteen, and each is looked up by its name.
    if len(plain) > _LONGEST_JUDGED:
        raise NotNormalized(f"more than {_LONGEST_JUDGED} characters")
    return "".join(map(_usual, plain))


def has_link(text: str) -> bool:
    """Detects links in whatever script. Characters are found by their Unicode categories and names, since no list of them stays complete.

    Whether some program, or a person who types it, would make a link or an address of mail of a part of the text. What cannot be normalized
    could have one.
    """
    try:
        seen = folded(text)
    except NotNormalized:
        return True
    return _LINK.search(seen) is not None or _LOOKALIKE_MAIL.search(seen) is not None


def has_host(text: str) -> bool:
    """Whether the text has what could be the name or the address of a host. Many names of products could: `Node.js`."""
    try:
        return _HOST.search(folded(text)) is not None
    except NotNormalized:
        return True


def has_quotation(text: str) -> bool:
    """Detects quotation marks in whatever script.

    Whether the text has a mark with which it could leave a quotation, or seem to. Apostrophes of words are none.
    """
    edges = 0
    for before, letter, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        if not _quotes(letter) or (letter in _WITHIN_WORDS and _is_of_word(before) and _is_of_word(after)):
            continue
        if letter != "'":
            return True
        edges += 1
    # A second one could be the other end of a quotation.
    return edges > 1 or edges != len(_AT_AN_EDGE.findall(text)) or _has_bare_mark(text)


def has_other_forms(text: str) -> bool:
    """Whether the text has letters in another form or width than the usual one, or letters that only somebody's own font has."""
    return any(unicodedata.category(letter) == "Co" or _is_other_form(letter) for letter in text)


def _usual(letter: str) -> str:
    if letter == "\\":
        return "/"
    if letter.isascii():
        return letter
    name = unicodedata.name(letter, "")
    for endings, usual in ((_FULL_STOPS, "."), (_SLASHES, "/"), (_COLONS, ":")):
        if name.endswith(endings):
            return usual
    return letter


def _quotes(letter: str) -> bool:
    category = unicodedata.category(letter)
    if category in {"Pi", "Pf"}:
        return True
    # Letters may have an accent.
    is_mark = category[0] in "PS" or category == "Lm"
    return is_mark and _QUOTING.search(unicodedata.name(letter, "")) is not None


def _is_of_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter)[0] == "M"


def _has_bare_mark(text: str) -> bool:
    """Whether an accent stands on no letter, as a quotation mark would. An acute accent of its own comes apart so."""
    return any(before.isspace() and unicodedata.category(letter)[0] == "M" for before, letter in pairwise(f" {text}"))


def _is_other_form(letter: str) -> bool:
    usual = normalized(letter, "NFKC", 1)
    has_form = unicodedata.decomposition(letter).startswith(_OTHER_FORMS)
    return has_form and usual.isascii() and (usual.isalpha() or unicodedata.category(letter) == "Nd")
