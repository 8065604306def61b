"""Finds the phrases of the product's former language in what is rendered."""

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from ops.words.__main__ import found_in, terms

_terms: Final = cache(terms)
# What is no prose: scripts, styles, values that a person copies, and what a person has typed.
_NO_PROSE: Final = re.compile(rb"<(script|style|template|svg|code|pre|kbd|textarea)\b.*?</\1>|<!--.*?-->", re.DOTALL)
_TAG: Final = re.compile(rb"<[^>]*>")


def private_phrases(page: bytes) -> Sequence[str]:
    """The phrases of an English page that no reader of other products knows, as `ops/words/terms.toml` lists them."""
    text = html.unescape(_TAG.sub(b"\n", _NO_PROSE.sub(b"", page)).decode())
    return [f"“{found.group()}”: {one.instead}" for one, found in found_in(text, _terms().banned)]
