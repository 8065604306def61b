"""The namespaces and algorithms of SAML and XML Signature."""

from typing import Final

PROTOCOL: Final = "urn:oasis:names:tc:SAML:2.0:protocol"
ASSERTION: Final = "urn:oasis:names:tc:SAML:2.0:assertion"
METADATA: Final = "urn:oasis:names:tc:SAML:2.0:metadata"
DS: Final = "http://www.w3.org/2000/09/xmldsig#"
XENC: Final = "http://www.w3.org/2001/04/xmlenc#"
XENC11: Final = "http://www.w3.org/2009/xmlenc11#"

EXCLUSIVE: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
ENVELOPED: Final = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
RSA_SHA256: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
SHA256: Final = "http://www.w3.org/2001/04/xmlenc#sha256"
SIGNATURE_METHODS: Final = {
    RSA_SHA256: "RSA with SHA-256",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384": "RSA with SHA-384",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": "RSA with SHA-512",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": "ECDSA with SHA-256",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384": "ECDSA with SHA-384",
    "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": "ECDSA with SHA-512",
}
DIGEST_METHODS: Final = {
    SHA256: "SHA-256",
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
