"""Verify signatures of others. A signature counts only in the form of SAML core, section 5.4: a child of an element, over that element,
with exclusive canonicalization and a strong method. The form is checked before anything is computed. So a signature cannot make us use
another transform, fetch an address, or take a key from the document.
"""

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

from adapters.saml.accepted import OF_SERVICE_PROVIDERS, Accepted
from adapters.saml.names import DS, ENVELOPED, EXCLUSIVE
from core.domain.saml import MessageRefused

Element = Any
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
    """False when the document is unsigned. Raises `MessageRefused` for a signature of another form, or one that no certificate verifies."""
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
