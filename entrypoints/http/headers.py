"""The headers that answers carry whatever they say: made once, so that an answer adds only what is its own."""

from typing import Final

HeaderList = list[tuple[bytes, bytes]]

JSON: Final = b"application/json"
NO_STORE: Final = "no-store"
_A_YEAR = 31_536_000

# An API answer is never a document: should a browser show one all the same, nothing in it runs and nobody may frame it.
_API_POLICY = b"default-src 'none'; frame-ancestors 'none'"
# A page that a declared endpoint answers with: no script at all, styles and forms of ours alone.
_PLAIN_PAGE_POLICY = b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
# A page of Quart's: scripts too, but from our own address alone and none within the page.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PERMISSIONS = b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"


def security_headers(*, https: bool) -> HeaderList:
    """For every answer. Strict transport only where the base URL is https: elsewhere browsers ignore it."""
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"permissions-policy", _PERMISSIONS),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]
    if https:
        headers.append((b"strict-transport-security", b"max-age=%d" % _A_YEAR))
    return headers


def api_headers(common: HeaderList, media_type: bytes | None, cache: str = NO_STORE) -> HeaderList:
    policy = _PLAIN_PAGE_POLICY if media_type is not None and media_type.startswith(b"text/html") else _API_POLICY
    headers = [*common, (b"content-security-policy", policy), (b"cache-control", cache.encode())]
    if media_type is not None:
        headers.append((b"content-type", media_type))
    return headers
