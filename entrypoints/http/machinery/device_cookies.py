"""The device tokens that an answer to a sign-in carries, so that Postern recognises the device later: cookies for browsers, headers for all
other clients.
"""

from datetime import timedelta
from typing import Final

from core.domain.identity.devices import Remembered
from core.domain.secrets import Token
from entrypoints.http.machinery.answers import Headers
from entrypoints.http.machinery.calls import DEVICE_COOKIE, DEVICE_TRUST_COOKIE, HOST_PREFIX
from entrypoints.http.machinery.headers import DEVICE_TOKEN

# Browsers keep no cookie for longer than 400 days (RFC 6265bis section 5.5).
_DEVICE_REMEMBERED: Final = timedelta(days=400)


def device_headers(remembered: Remembered, base_url: str) -> Headers:
    """The headers with the device's tokens. Over https, each cookie is Secure and its name has the `__Host-` prefix, so that a page on a
    neighbouring host cannot set another cookie in its place.
    """
    https = base_url.startswith("https://")
    headers = []
    if remembered.device_token is not None:
        headers.append((DEVICE_TOKEN.key, remembered.device_token.reveal().encode()))
        headers.append(_cookie(DEVICE_COOKIE, remembered.device_token, _DEVICE_REMEMBERED, https=https))
    if remembered.trust_token is not None and remembered.trusted_for is not None:
        headers.append(_cookie(DEVICE_TRUST_COOKIE, remembered.trust_token, remembered.trusted_for, https=https))
    return tuple(headers)


def _cookie(name: str, token: Token, lasts: timedelta, *, https: bool) -> tuple[bytes, bytes]:
    prefix, secure = (HOST_PREFIX, "; Secure") if https else ("", "")
    value = f"{prefix}{name}={token.reveal()}; Max-Age={int(lasts.total_seconds())}; Path=/; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", value.encode()
