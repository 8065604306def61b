"""XML that is written in its canonical form (Exclusive XML Canonicalization 1.0) from the beginning: what is signed is the text as it
stands, and nothing has to be read, copied or put into another form first.

Markup has a type of its own, which only these functions make: a value can never become markup.
"""

import re
from collections.abc import Mapping
from typing import Final, NewType

from adapters.saml.names import ASSERTION, DS, METADATA, PROTOCOL
from core.domain.federation.saml.messages import RequestDeclined, Status

Markup = NewType("Markup", str)

NOTHING: Final[Mapping[str, str]] = {}
_NAMESPACES: Final = {"ds": DS, "md": METADATA, "saml": ASSERTION, "samlp": PROTOCOL}
# Most values: nothing in them is written in another way.
_PLAIN: Final = re.compile(r"[ !#-%'-;=?-~]*")
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# In this order: what stands for a character has an ampersand itself.
_IN_TEXT: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#xD;"))
_IN_ATTRIBUTES: Final = (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\t", "&#x9;"), ("\n", "&#xA;"), ("\r", "&#xD;"))


def element(name: str, attributes: Mapping[str, str], *content: Markup, declared: bool = False) -> Markup:
    """With its prefix. `declared`: no element around it has declared that prefix. Raises `RequestDeclined` for a value that XML cannot
    have.
    """
    prefix = name.partition(":")[0]
    namespace = f' xmlns:{prefix}="{_NAMESPACES[prefix]}"' if declared else ""
    written = "".join([f' {key}="{_escaped(key, attributes[key], _IN_ATTRIBUTES)}"' for key in sorted(attributes)])
    return Markup(f"<{name}{namespace}{written}>{''.join(content)}</{name}>")


def worded(name: str, text: str, attributes: Mapping[str, str] = NOTHING, *, declared: bool = False) -> Markup:
    """An element whose content is text. Raises `RequestDeclined` for text that XML cannot have."""
    return element(name, attributes, Markup(_escaped(name.partition(":")[2], text, _IN_TEXT)), declared=declared)


def put_behind(child: Markup, new: Markup, whole: Markup) -> Markup:
    """The element with a new child behind its first one, or in the first place if `child` is empty."""
    # No attribute has a `<`, so this is where the first child begins.
    place = whole.index("<", 1) + len(child)
    return Markup(whole[:place] + new + whole[place:])


def _escaped(what: str, value: str, characters: tuple[tuple[str, str], ...]) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if _NOT_XML.search(value):
        raise RequestDeclined(Status.RESPONDER, f"{what} has characters that XML cannot have")
    for character, written in characters:
        value = value.replace(character, written)
    return value
