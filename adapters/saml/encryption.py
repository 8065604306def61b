"""Encrypts an assertion for its service provider, and decrypts what identity providers have encrypted for us."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any, Final

import xmlsec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from lxml import etree

from adapters.saml.parsing import only_child
from adapters.saml.signing import ASSERTION, DIGEST_SHA256, DS, XENC, XENC11, Markup, private_key
from core.domain.identity.upstream.connection_tests import Check
from core.domain.identity.upstream.saml import faults
from core.domain.identity.upstream.saml.faults import AnswerFault
from core.domain.saml import KeyPair, RequestDeclined, Status
from core.frozen import Frozen


def encrypted(assertion: Markup, certificate: str) -> Markup:
    """The assertion, encrypted with AES-256-GCM under a new key. Only the recipient's RSA key opens this key (RSA-OAEP). The assertion
    declares its namespaces itself, because the recipient may parse the decrypted assertion alone.
    """
    shell = etree.Element(f"{{{ASSERTION}}}EncryptedAssertion", nsmap={"saml": ASSERTION})
    data = xmlsec.template.encrypted_data_create(
        shell, xmlsec.constants.TransformAes256Gcm, type=xmlsec.constants.TypeEncElement, ns="xenc"
    )
    xmlsec.template.encrypted_data_ensure_cipher_value(data)
    information = xmlsec.template.encrypted_data_ensure_key_info(data, ns="ds")
    key = xmlsec.template.add_encrypted_key(information, xmlsec.constants.TransformRsaOaep)
    xmlsec.template.encrypted_data_ensure_cipher_value(key)
    shell.append(data)
    try:
        manager = xmlsec.KeysManager()
        manager.add_key(xmlsec.Key.from_memory(certificate, xmlsec.constants.KeyDataFormatCertPem))
        context = xmlsec.EncryptionContext(manager)
        context.key = xmlsec.Key.generate(xmlsec.constants.KeyDataAes, 256, xmlsec.constants.KeyDataTypeSession)
        context.encrypt_binary(data, assertion.encode())
    except xmlsec.Error:
        # Some keys are well-formed but useless, for example a key with an even modulus.
        raise RequestDeclined(Status.RESPONDER, "The service provider's key for encryption cannot be used") from None
    return Markup(etree.tostring(shell, method="c14n", exclusive=True, with_comments=False).decode())


Element = Any
_GCM: Final = {f"{XENC11}aes{bits}-gcm": bits // 8 for bits in (128, 192, 256)}
_CBC: Final = {f"{XENC}aes{bits}-cbc": bits // 8 for bits in (128, 192, 256)}
_OAEP: Final = {f"{XENC}rsa-oaep-mgf1p", f"{XENC11}rsa-oaep"}
_SHA1: Final = f"{DS}sha1"
# OAEP needs no hash that resists collisions, so SHA-1, which is its default, is good enough there.
_HASHES: Final[dict[str, type[hashes.HashAlgorithm]]] = {
    _SHA1: hashes.SHA1,
    DIGEST_SHA256: hashes.SHA256,
    "http://www.w3.org/2001/04/xmldsig-more#sha384": hashes.SHA384,
    f"{XENC}sha512": hashes.SHA512,
}
_MASKS: Final[dict[str, type[hashes.HashAlgorithm]]] = {
    f"{XENC11}mgf1sha1": hashes.SHA1,
    f"{XENC11}mgf1sha256": hashes.SHA256,
    f"{XENC11}mgf1sha384": hashes.SHA384,
    f"{XENC11}mgf1sha512": hashes.SHA512,
}
# Each of these costs a private operation of RSA for each of our keys.
_MOST_ENCRYPTED_KEYS: Final = 3
_BLOCK: Final = 16
_NONCE: Final = 12


class NotOpened(Exception):
    """The encrypted part cannot be opened. `check` says why."""

    def __init__(self, fault: AnswerFault, *, came: str = "", expected: str = "") -> None:
        super().__init__(fault.key)
        self.check: Check = fault.found(came=came, expected=expected)


class Opened(Frozen):
    text: bytes
    method: str
    """The name of the method, for people."""


def opened(encrypted: Element, keys: Sequence[KeyPair], *, covered: bool) -> Opened:
    """The content of an `EncryptedAssertion` or `EncryptedID`. `covered`: a verified signature covers the ciphertext. Raises `NotOpened`,
    and `MessageRefused` for a part that is there twice.

    Decrypts AES-GCM, or AES-CBC under a signature that covers it, with a key that RSA-OAEP opens. Only this form is read, and nothing in it
    is followed. So a response cannot make us fetch a URL or take another key.
    """
    data = only_child(encrypted, XENC, "EncryptedData")
    if data is None:
        raise _broken("there is no EncryptedData")
    information = only_child(data, DS, "KeyInfo")
    inside = [] if information is None else information.findall(f"{{{XENC}}}EncryptedKey")
    wrapped = inside + encrypted.findall(f"{{{XENC}}}EncryptedKey")
    if not 1 <= len(wrapped) <= _MOST_ENCRYPTED_KEYS:
        raise _broken(f"there are {len(wrapped)} EncryptedKey")
    method = _method(data)
    length = _GCM.get(method) or _CBC.get(method)
    if length is None:
        raise NotOpened(faults.WEAK_ENCRYPTION, came=method, expected="AES-GCM")
    if method in _CBC and not covered:
        raise NotOpened(faults.UNPROTECTED_CBC, came=method, expected="AES-GCM")
    key = _session_key(wrapped, keys, length)
    text = _by_gcm(key, _cipher(data)) if method in _GCM else _by_cbc(key, _cipher(data))
    return Opened(text, f"AES-{length * 8}-{'GCM' if method in _GCM else 'CBC'}")


def _session_key(wrapped: Sequence[Element], keys: Sequence[KeyPair], length: int) -> bytes:
    for one in wrapped:
        padding, cipher = _padding(one), _cipher(one)
        for pair in keys:
            try:
                key = private_key(pair.key.reveal()).decrypt(cipher, padding)
            except ValueError:
                continue
            if len(key) == length:
                return key
    raise NotOpened(faults.NO_KEY_OPENS, expected=f"one of {len(keys)} keys of this connection")


def _padding(wrapped: Element) -> OAEP:
    method = only_child(wrapped, XENC, "EncryptionMethod")
    uri = _method(wrapped)
    if method is None or uri not in _OAEP:
        raise NotOpened(faults.WEAK_ENCRYPTION, came=uri, expected="RSA-OAEP")
    digest, mask, label = only_child(method, DS, "DigestMethod"), only_child(method, XENC11, "MGF"), only_child(method, XENC, "OAEPparams")
    hashed = _HASHES.get(_SHA1 if digest is None else digest.get("Algorithm") or "")
    # The older method has no choice here (XML Encryption, section 5.5.2).
    masked = _MASKS.get(f"{XENC11}mgf1sha1" if mask is None or uri == f"{XENC}rsa-oaep-mgf1p" else mask.get("Algorithm") or "")
    if hashed is None or masked is None or (label is not None and (label.text or "").strip()):
        raise NotOpened(
            faults.WEAK_ENCRYPTION, came="RSA-OAEP with parameters that are not taken", expected="RSA-OAEP with SHA-1 or SHA-256"
        )
    return OAEP(MGF1(masked()), hashed(), None)


def _by_gcm(key: bytes, cipher: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(cipher[:_NONCE], cipher[_NONCE:], None)
    except (InvalidTag, ValueError):
        raise _broken("it was changed after the directory made it") from None


def _by_cbc(key: bytes, cipher: bytes) -> bytes:
    if len(cipher) < 2 * _BLOCK or len(cipher) % _BLOCK:
        raise _broken("its length is wrong")
    opening = Cipher(AES(key), CBC(cipher[:_BLOCK])).decryptor()
    text = opening.update(cipher[_BLOCK:]) + opening.finalize()
    if not 1 <= text[-1] <= _BLOCK:
        raise _broken("its padding is wrong")
    return text[: -text[-1]]


def _method(element: Element) -> str:
    method = only_child(element, XENC, "EncryptionMethod")
    return "" if method is None else method.get("Algorithm") or ""


def _cipher(element: Element) -> bytes:
    data = only_child(element, XENC, "CipherData")
    value = None if data is None else only_child(data, XENC, "CipherValue")
    if value is None or len(value):
        raise _broken("there is no CipherValue")
    try:
        return b64decode("".join((value.text or "").split()), validate=True)
    except ValueError:
        raise _broken("a CipherValue is not base64") from None


def _broken(reason: str) -> NotOpened:
    return NotOpened(faults.BROKEN_ENCRYPTION, came=reason)
