"""Answers of a directory, for the tests of their reader. XML is put together as text, signed by xmlsec, and encrypted by cryptography."""

import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, AsymmetricPadding, PKCS1v15
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from core.domain.identity.upstream.saml.assertions import AttributeMapping, Expected
from core.domain.saml import KeyPair
from core.domain.secrets import Secret
from core.frozen import replace
from ops.stand_ins.saml import (
    ACS,
    CONNECTION,
    DIRECTORY,
    DS,
    GIVEN,
    MAIL,
    NOW,
    REQUEST,
    SAML,
    XENC,
    Pair,
    directory,
    document,
    pair,
    response,
    sign,
    signed_assertion,
    written,
)

XENC11: Final = "http://www.w3.org/2009/xmlenc11#"
MAPPING: Final = AttributeMapping(email=(MAIL,), given_name=(GIVEN,))


def key_pair(one: Pair) -> KeyPair:
    return KeyPair(one.certificate, Secret(one.key))


def expected(**changes: Any) -> Expected:
    usual = Expected(
        entity_id=CONNECTION,
        acs_url=ACS,
        issuer=DIRECTORY,
        certificates=(directory().certificate,),
        decryption_keys=(key_pair(pair("ours")),),
        request_id=REQUEST,
        mapping=MAPPING,
        now=NOW,
    )
    return replace(usual, **changes)


def signed_response(text: str, signer: Pair | None = None, **more: Any) -> str:
    root = document(text)
    sign(root, signer or directory(), **more)
    return written(root)


def answer(text: str | None = None, **changes: Any) -> str:
    """An answer whose assertion is signed, as most directories make it."""
    return response(signed_assertion(text), **changes)


def encrypted(
    plain: str,
    recipient: Pair | None = None,
    *,
    method: str = f"{XENC11}aes256-gcm",
    wrapping: str = f"{XENC}rsa-oaep-mgf1p",
    parameters: str = "",
    padding: AsymmetricPadding | None = None,
    name: str = "EncryptedAssertion",
    beside: bool = False,
    change: Callable[[bytes], bytes] = bytes,
) -> str:
    """Text under a new key, which the recipient's key opens. `beside` puts the key behind the data, as some directories do."""
    length = int(method.rpartition("aes")[2][:3]) // 8
    key = os.urandom(length)
    if method.endswith("gcm"):
        nonce = os.urandom(12)
        cipher = nonce + AESGCM(key).encrypt(nonce, plain.encode(), None)
    else:
        start, missing = os.urandom(16), 16 - len(plain.encode()) % 16
        sealing = Cipher(AES(key), CBC(start)).encryptor()
        cipher = start + sealing.update(plain.encode() + bytes(missing - 1) + bytes([missing])) + sealing.finalize()
    public: Any = x509.load_pem_x509_certificate((recipient or pair("ours")).certificate.encode()).public_key()
    usual: AsymmetricPadding = PKCS1v15() if wrapping.endswith("1_5") else OAEP(MGF1(hashes.SHA1()), hashes.SHA1(), None)  # noqa: S303 - the default
    wrapped = public.encrypt(key, padding or usual)
    of_key = (
        f'<xenc:EncryptedKey xmlns:xenc="{XENC}"><xenc:EncryptionMethod Algorithm="{wrapping}">{parameters}</xenc:EncryptionMethod>'
        f"<xenc:CipherData><xenc:CipherValue>{b64encode(wrapped).decode()}</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey>"
    )
    inside, behind = ("", of_key) if beside else (f'<ds:KeyInfo xmlns:ds="{DS}">{of_key}</ds:KeyInfo>', "")
    return (
        f'<saml:{name} xmlns:saml="{SAML}"><xenc:EncryptedData xmlns:xenc="{XENC}" Type="{XENC}Element">'
        f'<xenc:EncryptionMethod Algorithm="{method}"/>{inside}<xenc:CipherData><xenc:CipherValue>{b64encode(change(cipher)).decode()}'
        f"</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData>{behind}</saml:{name}>"
    )


def values(found: Any, name: str) -> Sequence[str]:
    """The values of an attribute of an assertion that was read."""
    assert found.asserting is not None, found.failed
    return tuple(found.asserting.assertion.values(name))
