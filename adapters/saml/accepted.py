"""The signatures that are accepted, by the kind of sender. Service providers choose among few methods, and all know RSA with SHA-256;
directories sign as their operators have set them up.
"""

from collections.abc import Mapping
from typing import Final

from adapters.saml.names import DIGEST_METHODS, RSA_SHA256, SHA256, SIGNATURE_METHODS
from core.frozen import Frozen


class Accepted(Frozen, kw_only=True):
    """The methods that are accepted from a kind of sender, with their names for people."""

    sender: str
    methods: Mapping[str, str]
    digests: Mapping[str, str]
    renew: str
    """The advice when no certificate verifies a signature."""


OF_SERVICE_PROVIDERS: Final = Accepted(
    sender="the service provider",
    methods={RSA_SHA256: "RSA-SHA256"},
    digests={SHA256: "SHA-256"},
    renew="Upload the service provider's current metadata",
)
OF_DIRECTORIES: Final = Accepted(
    sender="the directory", methods=SIGNATURE_METHODS, digests=DIGEST_METHODS, renew="Upload the directory's current metadata"
)
