"""Encrypts an assertion for its service provider, with xmlsec."""

import xmlsec
from lxml import etree

from adapters.saml.canonical import Markup
from adapters.saml.names import ASSERTION
from core.domain.federation.saml.messages import RequestDeclined, Status


def encrypted(assertion: Markup, certificate: str) -> Markup:
    """AES-256-GCM under a key of its own, which only the recipient's RSA key opens (RSA-OAEP). The assertion declares its namespaces
    itself: the recipient may read it on its own.
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
        # Some keys are well-formed and of no use, such as one whose modulus is even.
        raise RequestDeclined(Status.RESPONDER, "The service provider's key for encryption cannot be used") from None
    return Markup(etree.tostring(shell, method="c14n", exclusive=True, with_comments=False).decode())
