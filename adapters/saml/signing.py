"""Writes and signs our SAML documents: names and algorithms, canonical XML, XML signatures, and key pairs with certificates."""

import inspect
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from secrets import token_hex
from typing import Final, NewType

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from core.domain.saml import KeyPair, RequestDeclined, Status
from core.domain.secrets import Secret
from core.frozen import Frozen

PROTOCOL: Final = "urn:oasis:names:tc:SAML:2.0:protocol"
ASSERTION: Final = "urn:oasis:names:tc:SAML:2.0:assertion"
METADATA: Final = "urn:oasis:names:tc:SAML:2.0:metadata"
DS: Final = "http://www.w3.org/2000/09/xmldsig#"
XENC: Final = "http://www.w3.org/2001/04/xmlenc#"
XENC11: Final = "http://www.w3.org/2009/xmlenc11#"

EXCLUSIVE: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
ENVELOPED: Final = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
RSA_SHA256: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
DIGEST_SHA256: Final = "http://www.w3.org/2001/04/xmlenc#sha256"
SIGNATURE_METHODS: Final = {
    RSA_SHA256: "RSA with SHA-256",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384": "RSA with SHA-384",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": "RSA with SHA-512",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": "ECDSA with SHA-256",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384": "ECDSA with SHA-384",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": "ECDSA with SHA-512",
}
DIGEST_METHODS: Final = {
    DIGEST_SHA256: "SHA-256",
    "http://www.w3.org/2001/04/xmldsig-more#sha384": "SHA-384",
    "http://www.w3.org/2001/04/xmlenc#sha512": "SHA-512",
}

POST_BINDING: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
REDIRECT_BINDING: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
BEARER: Final = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
ENTITY: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:entity"
URI_NAME: Final = "urn:oasis:names:tc:SAML:2.0:attrname-format:uri"
BASIC_NAME: Final = "urn:oasis:names:tc:SAML:2.0:attrname-format:basic"
UNSPECIFIED_NAME: Final = "urn:oasis:names:tc:SAML:2.0:attrname-format:unspecified"


class Accepted(Frozen, kw_only=True):
    """The methods that are accepted from a kind of sender, with their names for people.

    Service providers choose among few methods, and all know RSA with SHA-256; identity providers sign as their operators have set them up.
    """

    sender: str
    methods: Mapping[str, str]
    digests: Mapping[str, str]
    renew: str
    """The advice when no certificate verifies a signature."""


OF_SERVICE_PROVIDERS: Final = Accepted(
    sender="the service provider",
    methods={RSA_SHA256: "RSA-SHA256"},
    digests={DIGEST_SHA256: "SHA-256"},
    renew="Upload the service provider's current metadata",
)
OF_DIRECTORIES: Final = Accepted(
    sender="the identity provider",
    methods=SIGNATURE_METHODS,
    digests=DIGEST_METHODS,
    renew="Upload the identity provider's current metadata",
)


Markup = NewType("Markup", str)

NOTHING: Final[Mapping[str, str]] = {}
_NAMESPACES: Final = {"ds": DS, "md": METADATA, "saml": ASSERTION, "samlp": PROTOCOL}
_DECLARED: Final = {prefix: f' xmlns:{prefix}="{namespace}"' for prefix, namespace in _NAMESPACES.items()}
# Not compiled here, since Python takes long over ranges of Unicode and most installations write no SAML.
_NOT_XML: Final = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
# The ampersand comes first, because the entities for the other characters contain an ampersand.
_IN_TEXT: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#xD;"))
_IN_ATTRIBUTES: Final = (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\t", "&#x9;"), ("\n", "&#xA;"), ("\r", "&#xD;"))


def element(name: str, attributes: Mapping[str, str], *content: Markup, declared: bool = False) -> Markup:
    """Writes XML in its canonical form (Exclusive XML Canonicalization 1.0) from the beginning. So the text can be signed as it is, and
    need not be parsed, copied or canonicalized first. Markup has a type of its own, which only these functions make, so a value can never
    become markup.

    An element. `name` has a prefix. With `declared`, the element declares the namespace of the prefix, since no element around it does.
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
    if re.search(_NOT_XML, value):
        raise RequestDeclined(Status.RESPONDER, f"{what.rpartition(':')[2]} has characters that XML cannot have")
    for character, written in characters:
        value = value.replace(character, written)
    return value


# `ENVELOPED` means that the digest does not cover the signature. The digest is taken before the signature is put into the document.
_METHODS: Final = (
    element("ds:CanonicalizationMethod", {"Algorithm": EXCLUSIVE}),
    element("ds:SignatureMethod", {"Algorithm": RSA_SHA256}),
)
_TRANSFORMS: Final = element(
    "ds:Transforms", NOTHING, element("ds:Transform", {"Algorithm": ENVELOPED}), element("ds:Transform", {"Algorithm": EXCLUSIVE})
)
_DIGEST: Final = element("ds:DigestMethod", {"Algorithm": DIGEST_SHA256})


def _signed_info(reference: str, digest: str, *, alone: bool) -> Markup:
    of = element("ds:Reference", {"URI": reference}, _TRANSFORMS, _DIGEST, worded("ds:DigestValue", digest))
    return element("ds:SignedInfo", NOTHING, *_METHODS, of, declared=alone)


# `SignedInfo` is signed as a document of its own, with its namespace declared. In the document, the element around it declares the
# namespace.
_ALONE: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=True))
_WITHIN: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=False))


def signature(over: Markup, its_id: str, signer: KeyPair) -> Markup:
    """The signature over the whole element `over`. The caller puts the signature into that element.

    The document is in canonical form, so XML Signature needs only a digest over the text, and an RSA signature over a few lines that
    contain the digest. xmlsec verifies the signatures of others. For our own signatures it would parse, copy and canonicalize the document
    each time, which takes as long as the signature itself.
    """
    reference, digest = f"#{its_id}", b64encode(sha256(over.encode()).digest()).decode()
    value = worded("ds:SignatureValue", b64encode(sign_octets(_ALONE(reference, digest).encode(), signer)).decode())
    within = _WITHIN(reference, digest)
    return element("ds:Signature", NOTHING, within, value, key_info(signer.certificate, declared=False), declared=True)


def sign_octets(octets: bytes, signer: KeyPair) -> bytes:
    return private_key(signer.key.reveal()).sign(octets, padding.PKCS1v15(), hashes.SHA256())


@lru_cache(maxsize=64)
def key_info(certificate: str, *, declared: bool) -> Markup:
    bare = "".join(line for line in certificate.splitlines() if line and not line.startswith("-----"))
    data = element("ds:X509Data", NOTHING, worded("ds:X509Certificate", bare))
    return element("ds:KeyInfo", NOTHING, data, declared=declared)


# The first signature with a loaded key takes twice as long as later ones. The cache holds as many keys as sign in a busy minute.
@lru_cache(maxsize=64)
def private_key(pem: str) -> RSAPrivateKey:
    # This module made the key, and it was kept sealed, so its primes need no further check, which would take some thirty milliseconds.
    key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - this module makes no other
    return key


RSA_BITS: Final = 2048
# X.520: a common name has at most 64 characters.
_LONGEST_NAME: Final = 64


class RsaCertificates:
    """Implements `ports.saml.CertificateMaker`.

    Makes RSA key pairs that sign assertions, each with a self-signed certificate. Service providers trust the certificate because it is in
    our metadata, and use nothing of it but the key.
    """

    def __init__(self) -> None:
        # Finding two primes takes a good part of a second. One pair at a time is plenty.
        self._limiter = trio.CapacityLimiter(1)

    async def make(self, common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
        return await trio.to_thread.run_sync(_made, common_name, serial, valid_from, valid_until, limiter=self._limiter)


def _made(common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
    pair = generate_private_key(65537, RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_LONGEST_NAME])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(pair.public_key())
        .serial_number(serial)
        .not_valid_before(datetime.fromtimestamp(valid_from, UTC))
        .not_valid_after(datetime.fromtimestamp(valid_until, UTC))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(pair, SHA256())
    )
    private = pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), Secret(private.decode())
