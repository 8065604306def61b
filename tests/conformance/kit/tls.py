"""The conditions on TLS: what a server may speak (BCP 195)."""

import socket
import ssl
import warnings
from typing import Final
from urllib.parse import urlsplit

from tests.conformance.kit.relying import Suite
from tests.patience import PATIENCE

_RECOMMENDED: Final = "ECDHE+AESGCM"
_OTHERS: Final = "ALL:!aNULL:!ECDHE+AESGCM:!DHE+AESGCM:@SECLEVEL=0"
_INSECURE_NOW: Final = "DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384"


def speaks_well(suite: Suite, endpoint: str) -> None:
    parts = urlsplit(suite.metadata[endpoint])
    assert parts.hostname is not None
    place = (parts.hostname, parts.port or 443)
    assert _spoken(place, ssl.TLSVersion.TLSv1_2, _RECOMMENDED) == "TLSv1.2"
    suite.outcome.should(_spoken(place, ssl.TLSVersion.TLSv1_3) == "TLSv1.3", "no TLS 1.3")
    # Of both, the server chooses the newer.
    assert _spoken(place, None) == "TLSv1.3"
    for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        assert _spoken(place, old, "ALL:@SECLEVEL=0") == ""
    assert _spoken(place, ssl.TLSVersion.TLSv1_2, _OTHERS) == ""
    suite.outcome.should(_spoken(place, ssl.TLSVersion.TLSv1_2, _INSECURE_NOW) == "", "cipher suites with finite-field Diffie-Hellman")


def _spoken(place: tuple[str, int], version: ssl.TLSVersion | None, ciphers: str = "") -> str:
    """What the server speaks with a client that knows this version and these cipher suites alone. Empty if it refuses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    try:
        with socket.create_connection(place, PATIENCE) as plain, context.wrap_socket(plain) as wrapped:
            return wrapped.version() or ""
    except (ssl.SSLError, ConnectionError):
        return ""
