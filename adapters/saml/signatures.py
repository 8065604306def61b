"""Verify signatures of others. A signature counts only in the form of SAML core, section 5.4: a child of the root, over the root, with
exclusive canonicalization and RSA-SHA256. The form is checked before anything is computed. So a signature cannot make us use another
transform, fetch an address, or take a key from the document.
"""

from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import xmlsec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509 import load_pem_x509_certificate

from adapters.saml.names import DS, ENVELOPED, EXCLUSIVE, RSA_SHA256, SHA256
from core.domain.saml.messages import MessageRefused

Element = Any
_ID: Final = "ID"
_XML_ID: Final = "{http://www.w3.org/XML/1998/namespace}id"
_SIGNATURE: Final = f"{{{DS}}}Signature"
_WRONG: Final = "its signature does not verify with a certificate of the service provider"
_RENEW: Final = "Upload the service provider's current metadata"


def verified(root: Element, certificates: Sequence[str]) -> bool:
    """False when the document is unsigned. Raises `MessageRefused` for a signature of another form, or one that no certificate verifies."""
    signatures = list(root.iter(_SIGNATURE))
    if not signatures:
        return False
    _require_form(root, signatures)
    for pem in certificates:
        try:
            context = xmlsec.SignatureContext()
            context.key = _public_key(pem)
            context.register_id(root, _ID)
            context.verify(signatures[0])
        except xmlsec.Error:
            continue
        return True
    raise MessageRefused(_WRONG, _RENEW)


def is_signed(root: Element) -> bool:
    return next(root.iter(_SIGNATURE), None) is not None


def verify_octets(signed: bytes, signature: str, algorithm: str | None, certificates: Sequence[str]) -> None:
    """Verify the signature in the query of a URL (SAML bindings, section 3.4.4.1). Raises `MessageRefused`."""
    if algorithm != RSA_SHA256:
        raise MessageRefused("its signature is not RSA-SHA256", f"Sign with {RSA_SHA256}")
    try:
        # Some senders break the base64 into lines.
        value = b64decode("".join(signature.split()), validate=True)
    except ValueError:
        raise MessageRefused("its Signature is not base64") from None
    for pem in certificates:
        key = load_pem_x509_certificate(pem.encode()).public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            continue
        try:
            key.verify(value, signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            continue
        return
    raise MessageRefused(_WRONG, _RENEW)


def _require_form(root: Element, signatures: list[Element]) -> None:
    signature = signatures[0]
    if len(signatures) > 1 or signature.getparent() is not root:
        raise MessageRefused("it has several signatures, or one in the wrong place", "Sign the message itself, once")
    names = [_name(child) for child in signature]
    if names not in (["SignedInfo", "SignatureValue"], ["SignedInfo", "SignatureValue", "KeyInfo"]):
        raise MessageRefused("its signature has parts that it may not have", "Sign without ds:Object")
    information = signature[0]
    parts = [_name(child) for child in information]
    if parts != ["CanonicalizationMethod", "SignatureMethod", "Reference"]:
        raise MessageRefused("its signature does not have exactly one reference", "Sign the message itself, once")
    canonicalization, method, reference = information
    if canonicalization.get("Algorithm") != EXCLUSIVE or len(canonicalization):
        raise MessageRefused("its canonicalization is not the exclusive one", f"Use {EXCLUSIVE}")
    if method.get("Algorithm") != RSA_SHA256 or len(method):
        raise MessageRefused("its signature is not RSA-SHA256", f"Sign with {RSA_SHA256}")
    _require_reference(root, reference)
    # libxml2 always takes `xml:id` for an ID as well.
    ids = [value for one in root.iter() for name in (_ID, _XML_ID) if (value := one.get(name)) is not None]
    if len(ids) != len(set(ids)):
        raise MessageRefused("it has the same ID twice")


def _require_reference(root: Element, reference: Element) -> None:
    if not root.get(_ID) or reference.get("URI") != f"#{root.get(_ID)}":
        raise MessageRefused("its signature is over something else than the message", "Sign the message itself, by its ID")
    if [_name(child) for child in reference] != ["Transforms", "DigestMethod", "DigestValue"]:
        raise MessageRefused("its signature's reference is incomplete")
    transforms, digest, _ = reference
    if [(_name(one), one.get("Algorithm")) for one in transforms] != [("Transform", ENVELOPED), ("Transform", EXCLUSIVE)]:
        raise MessageRefused("its signature has other transforms than SAML allows", f"Use {ENVELOPED} and {EXCLUSIVE}")
    # SAML's transforms have only one parameter: a list of prefixes.
    if len(transforms[0]) or any(one.tag != f"{{{EXCLUSIVE}}}InclusiveNamespaces" for one in transforms[1]):
        raise MessageRefused("its signature's transforms have parameters")
    if digest.get("Algorithm") != SHA256 or len(digest):
        raise MessageRefused("its digest is not SHA-256", f"Use {SHA256}")


def _name(element: Element) -> str:
    """The element's name without the namespace of XML Signature. Empty for an element of another namespace."""
    return str(element.tag).removeprefix(f"{{{DS}}}") if str(element.tag).startswith(f"{{{DS}}}") else ""


@lru_cache(maxsize=64)
def _public_key(pem: str) -> Any:
    return xmlsec.Key.from_memory(pem, xmlsec.constants.KeyDataFormatCertPem)
