"""The providers of SAML, whichever side they are on: their names, their certificates and our keys. Nobody checks who has issued a
certificate. It counts because an administrator has given it, and nothing of it counts but the key and the dates.
"""

import re
from base64 import b64decode
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest
from core.domain.secrets import Secret
from core.frozen import Frozen

LONGEST_METADATA: Final = 1 << 20
LONGEST_CERTIFICATE: Final = 32 << 10
"""In bytes, for the metadata of one provider."""
# SAML core, section 8.3.6.
LONGEST_ENTITY_ID: Final = 1024
_UNSUITABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class KeyPair(Frozen):
    """A key pair of ours: the self-signed certificate and the private key, both in PEM."""

    certificate: str
    key: Secret


def entity_id(text: str) -> str:
    """Entity ids are compared letter by letter. Raises `BadRequest`."""
    if not 1 <= len(text) <= LONGEST_ENTITY_ID or _UNSUITABLE.search(text):
        raise BadRequest(
            f"entity_id: 1 to {LONGEST_ENTITY_ID} characters without spaces or control characters",
            words="entity_id_malformed",
            values={"most": LONGEST_ENTITY_ID},
        )
    return text


def fingerprint(pem: str) -> str:
    """The same as `openssl x509 -fingerprint -sha256`, in lower case and without colons."""
    return sha256(b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))).hexdigest()
