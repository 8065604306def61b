"""Encrypts an assertion for its service provider, with xmlsec."""

import xmlsec
from lxml import etree

from adapters.saml.canonical import Markup
from adapters.saml.names import ASSERTION
from core.domain.saml import RequestDeclined, Status


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
