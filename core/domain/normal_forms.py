"""The one place that normalizes texts (Unicode Standard Annex #15).

To bring combining marks into order takes time that grows with the square of their number, and holds the interpreter's lock: 60 KB of them
stop the process for 20 seconds, in whatever thread. So this module takes no text beyond its caller's bound, and no long run of marks.
`tests/house/test_normalizing.py` refuses any other use of `unicodedata.normalize`.
"""

import unicodedata
from typing import Final, Literal

NormalForm = Literal["NFC", "NFKC", "NFKD"]

LONGEST_NORMALIZED: Final = 1024
"""In characters. Passwords, names and searches are shorter."""
MOST_MARKS_IN_A_RUN: Final = 30
"""UAX #15, section 13, Stream-Safe Text Format: no language has more than half as many."""
LONGEST_OF_ANY_MARKS: Final = 128
"""In characters. The order of so few marks costs a tenth of a millisecond."""
# Letters that begin with a mark only when they come apart. All other marks have a combining class of their own.
_COME_APART: Final = frozenset("\u0f73\u0f75\u0f81\uff9e\uff9f")
_PAIRS: Final = frozenset("\u0344\u0f73\u0f75\u0f81")


class NotNormalized(ValueError):
    """The text is too long to normalize, or has a run of too many combining marks."""


def normalized(text: str, form: NormalForm, longest: int, *, any_marks: bool = False) -> str:
    """Returns the text in its normal form.

    Args:
        text: Any text, from anybody.
        form: The form of Annex #15.
        longest: The caller's bound, in characters.
        any_marks: Whether a run of marks may have any length, for texts of at most `LONGEST_OF_ANY_MARKS` characters.

    Raises:
        NotNormalized: The text is longer than the bound, or has a run of more than 30 combining marks.

    """
    if len(text) > longest or (any_marks and len(text) > LONGEST_OF_ANY_MARKS):
        raise NotNormalized(f"more than {longest} characters")
    if text.isascii():
        return text
    if not any_marks and has_long_run(text):
        raise NotNormalized(f"more than {MOST_MARKS_IN_A_RUN} combining marks in a row")
    return unicodedata.normalize(form, text)


def folded(text: str, longest: int, *, any_marks: bool = False) -> str:
    """Returns the text as names are compared: normalized by NFKC, without case.

    Raises:
        NotNormalized: As `normalized`.

    """
    if len(text) <= longest and text.isascii():
        return text.lower()
    # Case folding can undo the normalization ("ǰ" is an example), so normalize before and after. A letter becomes 18 letters at most, and
    # three by folding, and none of them is a mark where the text had none.
    plain = normalized(text, "NFKC", longest, any_marks=any_marks).casefold()
    return unicodedata.normalize("NFKC", plain)


def ascii_letters(text: str) -> str:
    """Returns what ASCII has of the text, for short names: in lower case, and without marks. Empty for a text that cannot be normalized."""
    try:
        return normalized(text.casefold(), "NFKD", LONGEST_NORMALIZED).encode("ascii", "ignore").decode()
    except NotNormalized:
        return ""


def has_long_run(text: str) -> bool:
    """Whether more than 30 combining marks follow each other, counted as they come apart. Looks at each character once."""
    run = 0
    for letter in text:
        if not unicodedata.combining(letter) and letter not in _COME_APART:
            run = 0
            continue
        run += 2 if letter in _PAIRS else 1
        if run > MOST_MARKS_IN_A_RUN:
            return True
    return False
