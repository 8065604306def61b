"""Unpack and parse SAML documents of others. A document must be small and in UTF-8, and may have no document type, entities, comments or
processing instructions. Values are read from the places that the standard gives them, and never by a search through the document.
"""

import re
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from lxml import etree

from core.domain.saml import LONGEST_MESSAGE, Envelope, MessageRefused, SamlBinding

Element = Any
_DECLARATION: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?\s*"""  # a byte order mark may come first
    rb"""<\?xml\s+version\s*=\s*["']1\.0["'](?:\s+encoding\s*=\s*["'](?i:utf-8)["'])?(?:\s+standalone\s*=\s*["'](?:yes|no)["'])?\s*\?>"""
)
_ENDS_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MOST_ELEMENTS: Final = 500
_MOST_ATTRIBUTES: Final = 100
LONGEST_VALUE: Final = 4096


def unpacked(envelope: Envelope, most: int = LONGEST_MESSAGE) -> bytes:
    """Raises `MessageRefused`."""
    if envelope.binding is SamlBinding.POST:
        return unpacked_form(envelope.packed, LONGEST_MESSAGE)
    packed = _decoded(envelope.packed)
    try:
        inflating = zlib.decompressobj(-zlib.MAX_WBITS)
        document = inflating.decompress(packed, most + 1)
    except zlib.error:
        raise MessageRefused("it is not compressed by DEFLATE", "With the redirect binding, compress without a header") from None
    if len(document) <= most and (not inflating.eof or inflating.unused_data):
        raise MessageRefused("its compressed form is cut off, or has something behind it")
    if len(document) > LONGEST_MESSAGE:
        raise MessageRefused(f"it has more than {LONGEST_MESSAGE >> 10} KiB")
    return document


def unpacked_form(packed: str, most: int) -> bytes:
    """The message of a form, up to this many bytes. Raises `MessageRefused`."""
    document = _decoded(packed)
    if _is_compressed(document):
        raise MessageRefused("it is compressed", "With the POST binding, send base64 of the XML itself")
    if len(document) > most:
        raise MessageRefused(f"it has more than {most >> 10} KiB")
    return document


def _decoded(packed: str) -> bytes:
    try:
        return b64decode("".join(packed.split()), validate=True)
    except ValueError:
        raise MessageRefused("it is not base64") from None


def _is_compressed(packed: bytes) -> bool:
    """Whether a message of the POST binding is compressed. Some libraries compress these messages by default. A message that begins with
    `<` or a byte order mark is not compressed.
    """
    if packed.lstrip()[:1] in {b"<", b"\xef"}:
        return False
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, 1) != b""
    except zlib.error:
        return False


def parsed(
    document: bytes, *, message: bool = True, most_elements: int = _MOST_ELEMENTS, around: Mapping[str | None, str] | None = None
) -> Element:
    """The root. With the namespaces that are declared `around` the document, which was a part of another one, the root is an element that
    declares them and contains the document's. Raises `MessageRefused`.
    """
    found = _DECLARATION.match(document)
    rest = document[found.end() :] if found else document
    try:
        rest.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageRefused("it is not in UTF-8") from None
    if _ENDS_TEXT.search(rest):
        raise MessageRefused("it has control characters")
    forbidden = (b"<!", b"<?") if message else (b"<!DOCTYPE", b"<!ENTITY", b"<!ELEMENT", b"<!ATTLIST", b"<!NOTATION")
    if any(one in rest for one in forbidden):
        raise MessageRefused("it has a document type, a comment, CDATA or a processing instruction", "Leave these out")
    if around is not None:
        rest = _within(rest, around)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        encoding="utf-8",
    )
    try:
        root = etree.fromstring(rest, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise MessageRefused("it is not well-formed XML") from None
    if message:
        _require_few(root, most_elements)
    return root


def _within(document: bytes, around: Mapping[str | None, str]) -> bytes:
    begin = etree.tostring(etree.Element("around", nsmap=dict(around)))
    return b"".join((begin.removesuffix(b"/>"), b">", document, b"</around>"))


def _require_few(root: Element, most: int) -> None:
    for count, element in enumerate(root.iter()):
        if count >= most:
            raise MessageRefused(f"it has more than {most} elements")
        if len(element.attrib) > _MOST_ATTRIBUTES:
            raise MessageRefused(f"one of its elements has more than {_MOST_ATTRIBUTES} attributes")


def only_child(parent: Element, namespace: str, name: str) -> Element | None:
    """The child of this name, or None. Raises `MessageRefused` when several children have this name."""
    found = list(parent.iterchildren(f"{{{namespace}}}{name}"))
    if len(found) > 1:
        raise MessageRefused(f"it has several {name}")
    return found[0] if found else None


def text_of(element: Element) -> str:
    if len(element):
        raise MessageRefused("it has elements where text should be")
    # Only what XML calls white space. Any other that somebody has put into a name makes another name.
    return _bounded(element.text or "").strip(" \t\r\n")


def attribute_of(element: Element, name: str) -> str | None:
    value = element.get(name)
    return None if value is None else _bounded(value)


def _bounded(text: str) -> str:
    if len(text) > LONGEST_VALUE:
        raise MessageRefused("one of its values is too long")
    return text


def flag_of(root: Element, name: str) -> bool:
    said = boolean_of(root, name)
    if said is None and root.get(name) is not None:
        raise MessageRefused(f"its {name} is neither true nor false")
    return said is True


def boolean_of(element: Element, name: str) -> bool | None:
    """None when the element lacks the attribute, or the value is no boolean."""
    return {"true": True, "1": True, "false": False, "0": False}.get(element.get(name, "").strip())
