"""Write XML in its canonical form (Exclusive XML Canonicalization 1.0) from the beginning. So the text can be signed as it is, and need not
be parsed, copied or canonicalized first.

Markup has a type of its own, which only these functions make, so a value can never become markup.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Final, NewType

from adapters.saml.names import ASSERTION, DS, METADATA, PROTOCOL
from core.domain.saml import RequestDeclined, Status

Markup = NewType("Markup", str)

NOTHING: Final[Mapping[str, str]] = {}
_NAMESPACES: Final = {"ds": DS, "md": METADATA, "saml": ASSERTION, "samlp": PROTOCOL}
_DECLARED: Final = {prefix: f' xmlns:{prefix}="{namespace}"' for prefix, namespace in _NAMESPACES.items()}
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The ampersand comes first, because the entities for the other characters contain an ampersand.
_IN_TEXT: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#xD;"))
_IN_ATTRIBUTES: Final = (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\t", "&#x9;"), ("\n", "&#xA;"), ("\r", "&#xD;"))


def element(name: str, attributes: Mapping[str, str], *content: Markup, declared: bool = False) -> Markup:
    """An element. `name` has a prefix. With `declared`, the element declares the namespace of the prefix, since no element around it does.
    Raises `RequestDeclined` for a value that XML cannot have.
    """
    head = name + _DECLARED[name.partition(":")[0]] if declared else name
    if attributes:
        head += "".join([f' {key}="{_escaped(key, attributes[key], _IN_ATTRIBUTES)}"' for key in sorted(attributes)])
    return Markup(f"<{head}>{''.join(content)}</{name}>")


def worded(name: str, text: str, attributes: Mapping[str, str] = NOTHING, *, declared: bool = False) -> Markup:
    """An element whose content is text. Raises `RequestDeclined` for text that XML cannot have."""
    return element(name, attributes, Markup(_escaped(name, text, _IN_TEXT)), declared=declared)


class Mould:
    """A template for markup in which only a few values differ. The markup is made once, with a mark in the place of each value. Filling the
    template then takes half the time of making the markup. Values that need escaping go through the function that made the template.
    """

    def __init__(self, make: Callable[..., Markup]) -> None:
        """`make` returns the markup for the values. Each value occurs once in the markup."""
        self._make = make
        # The marks are random, so no other text of the markup equals a mark.
        marks = [token_hex() for _ in inspect.signature(make).parameters]
        whole = make(*marks)
        places = [whole.index(mark) for mark in marks]
        self._order = sorted(range(len(marks)), key=places.__getitem__)
        self._filled = whole.replace("%", "%%")
        for mark in marks:
            self._filled = self._filled.replace(mark, "%s")

    def __call__(self, *values: str) -> Markup:
        """Raises `RequestDeclined` for a value that XML cannot have."""
        if not _is_plain("".join(values)):
            return self._make(*values)
        return Markup(self._filled % tuple([values[place] for place in self._order]))


def put_behind(child: Markup, new: Markup, whole: Markup) -> Markup:
    """The element `whole` with `new` as a child after `child`, its first child. With an empty `child`, `new` becomes the first child."""
    # No attribute contains a `<`, so the first child begins at the second `<`.
    place = whole.index("<", 1) + len(child)
    return Markup(whole[:place] + new + whole[place:])


def _is_plain(value: str) -> bool:
    """Whether no character of the value needs escaping. Most values are plain."""
    return value.isascii() and value.isprintable() and not ("&" in value or "<" in value or ">" in value or '"' in value)


def _escaped(what: str, value: str, characters: tuple[tuple[str, str], ...]) -> str:
    if _is_plain(value):
        return value
    if _NOT_XML.search(value):
        raise RequestDeclined(Status.RESPONDER, f"{what.rpartition(':')[2]} has characters that XML cannot have")
    for character, written in characters:
        value = value.replace(character, written)
    return value
