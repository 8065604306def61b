"""Unpacks and parses SAML documents of others, and verifies their signatures."""

import re
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import xmlsec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509 import load_pem_x509_certificate
from lxml import etree

from adapters.saml.signing import DS, ENVELOPED, EXCLUSIVE, OF_SERVICE_PROVIDERS, Accepted
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

    A document must be small and in UTF-8, and may have no document type, entities, comments or processing instructions. Values are read
    from the places that the standard gives them, and never by a search through the document.
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


SIGNATURE: Final = f"{{{DS}}}Signature"
_ID: Final = "ID"
_LONGEST_PREFIXES: Final = 256
_XML_ID: Final = "{http://www.w3.org/XML/1998/namespace}id"
# libxml2 takes no other attribute for an ID than `xml:id` and those that it is told. Readers by other authors may.
_IDS: Final = (_ID, _XML_ID, "Id", "id")


class FormRefused(MessageRefused):
    """A signature in another form than SAML's."""


class MethodRefused(MessageRefused):
    """A signature by a method that is not accepted."""

    def __init__(self, reason: str, advice: str, method: str) -> None:
        super().__init__(reason, advice)
        self.method = method


def verified(root: Element, certificates: Sequence[str], accepted: Accepted = OF_SERVICE_PROVIDERS) -> bool:
    """False when the document is unsigned. Raises `MessageRefused` for a signature of another form, or one that no certificate verifies.

    A signature counts only in the form of SAML core, section 5.4: a child of an element, over that element, with exclusive canonicalization
    and a strong method. The form is checked before anything is computed. So a signature cannot make us use another transform, fetch a URL,
    or take a key from the document.
    """
    signatures = list(root.iter(SIGNATURE))
    if not signatures:
        return False
    if len(signatures) > 1 or signatures[0].getparent() is not root:
        raise FormRefused("it has several signatures, or one in the wrong place", "Sign the message itself, once")
    require_form(signatures[0], accepted)
    require_unique_ids(root)
    if not any(verifies(signatures[0], pem) for pem in certificates):
        raise _wrong(accepted)
    return True


def is_signed(root: Element) -> bool:
    return next(root.iter(SIGNATURE), None) is not None


def verifies(signature: Element, pem: str) -> bool:
    """Whether the certificate's key has made the signature over its parent. The caller has checked the form."""
    try:
        context = xmlsec.SignatureContext()
        context.key = _public_key(pem)
        context.register_id(signature.getparent(), _ID)
        context.verify(signature)
    except xmlsec.Error:
        return False
    return True


def verify_octets(
    signed: bytes, signature: str, algorithm: str | None, certificates: Sequence[str], accepted: Accepted = OF_SERVICE_PROVIDERS
) -> None:
    """Verify the signature in the query of a URL (SAML bindings, section 3.4.4.1). Raises `MessageRefused`."""
    if algorithm is None or algorithm not in accepted.methods:
        raise MethodRefused(
            f"its signature is not {_named(accepted.methods)}", f"Sign with {next(iter(accepted.methods))}", algorithm or ""
        )
    try:
        # Some senders break the base64 into lines.
        value = b64decode("".join(signature.split()), validate=True)
    except ValueError:
        raise MessageRefused("its Signature is not base64") from None
    kind, hash_ = _method(algorithm)
    for pem in certificates:
        key = load_pem_x509_certificate(pem.encode()).public_key()
        try:
            if isinstance(key, rsa.RSAPublicKey) and kind == "rsa":
                key.verify(value, signed, padding.PKCS1v15(), hash_)
            elif isinstance(key, ec.EllipticCurvePublicKey) and kind == "ecdsa":
                # XML Signature writes the two numbers one after the other (section 6.4.3).
                half = len(value) // 2
                pair = int.from_bytes(value[:half], "big"), int.from_bytes(value[half:], "big")
                key.verify(encode_dss_signature(*pair), signed, ec.ECDSA(hash_))
            else:
                continue
        except InvalidSignature:
            continue
        return
    raise _wrong(accepted)


def require_form(signature: Element, accepted: Accepted) -> str:
    """The method of a signature over its parent, which a reference by the parent's ID must name. Raises `FormRefused`, `MethodRefused`."""
    names = [_name(child) for child in signature]
    if names not in (["SignedInfo", "SignatureValue"], ["SignedInfo", "SignatureValue", "KeyInfo"]):
        raise FormRefused("its signature has parts that it may not have", "Sign without ds:Object")
    information = signature[0]
    parts = [_name(child) for child in information]
    if parts != ["CanonicalizationMethod", "SignatureMethod", "Reference"]:
        raise FormRefused("its signature does not have exactly one reference", "Sign the message itself, once")
    canonicalization, method, reference = information
    if canonicalization.get("Algorithm") != EXCLUSIVE or len(canonicalization):
        raise FormRefused("its canonicalization is not the exclusive one", f"Use {EXCLUSIVE}")
    uri = method.get("Algorithm") or ""
    if uri not in accepted.methods or len(method):
        raise MethodRefused(f"its signature is not {_named(accepted.methods)}", f"Sign with {next(iter(accepted.methods))}", uri)
    _require_reference(signature.getparent(), reference, accepted)
    return uri


def require_unique_ids(root: Element) -> None:
    """Raises `FormRefused`."""
    ids = [value for one in root.iter() for name in _IDS if (value := one.get(name)) is not None]
    if len(ids) != len(set(ids)):
        raise FormRefused("it has the same ID twice")


def _require_reference(signed: Element, reference: Element, accepted: Accepted) -> None:
    if not signed.get(_ID) or reference.get("URI") != f"#{signed.get(_ID)}":
        raise FormRefused("its signature is over something else than the message", "Sign the message itself, by its ID")
    if [_name(child) for child in reference] != ["Transforms", "DigestMethod", "DigestValue"]:
        raise FormRefused("its signature's reference is incomplete")
    transforms, digest, _ = reference
    if [(_name(one), one.get("Algorithm")) for one in transforms] != [("Transform", ENVELOPED), ("Transform", EXCLUSIVE)]:
        raise FormRefused("its signature has other transforms than SAML allows", f"Use {ENVELOPED} and {EXCLUSIVE}")
    # SAML's transforms have only one parameter: a list of prefixes. libxml2 goes through the whole list at each element of the document.
    prefixes = transforms[1]
    if len(transforms[0]) or len(prefixes) > 1 or any(one.tag != f"{{{EXCLUSIVE}}}InclusiveNamespaces" for one in prefixes):
        raise FormRefused("its signature's transforms have parameters")
    if any(len(one.get("PrefixList", "")) > _LONGEST_PREFIXES for one in prefixes):
        raise FormRefused(f"its signature's list of prefixes has more than {_LONGEST_PREFIXES} characters")
    uri = digest.get("Algorithm") or ""
    if uri not in accepted.digests or len(digest):
        raise MethodRefused(f"its digest is not {_named(accepted.digests)}", f"Use {next(iter(accepted.digests))}", uri)


def _wrong(accepted: Accepted) -> MessageRefused:
    return MessageRefused(f"its signature does not verify with a certificate of {accepted.sender}", accepted.renew)


def _named(methods: Mapping[str, str]) -> str:
    return " or ".join(methods.values())


def _method(uri: str) -> tuple[str, hashes.HashAlgorithm]:
    kind, _, digest = uri.rpartition("#")[2].partition("-")
    return kind, {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}[digest]


def _name(element: Element) -> str:
    """The element's name without the namespace of XML Signature. Empty for an element of another namespace."""
    return str(element.tag).removeprefix(f"{{{DS}}}") if str(element.tag).startswith(f"{{{DS}}}") else ""


@lru_cache(maxsize=64)
def _public_key(pem: str) -> Any:
    return xmlsec.Key.from_memory(pem, xmlsec.constants.KeyDataFormatCertPem)
