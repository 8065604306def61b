"""Cross-origin requests: off unless the operator lists origins. Credentials mode is never allowed; callers send bearer tokens."""

from collections.abc import Sequence

from entrypoints.http.machinery.headers import HeaderList

_REQUEST_HEADERS = b"authorization, content-type, x-api-key, x-device-token, x-device-trust-token, x-request-id"
_ANSWER_HEADERS = b"retry-after, x-device-token, x-request-id"
_REMEMBER_SECONDS = b"600"
# Sent to requests without an origin too: a cache in between must not hand their answer to a request that has one.
_VARY = (b"vary", b"Origin")


class CrossOrigin:
    def __init__(self, origins: Sequence[str]) -> None:
        self._answers: dict[bytes, HeaderList] = {
            origin.encode(): [
                _VARY,
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", _ANSWER_HEADERS),
            ]
            for origin in origins
        }

    @property
    def enabled(self) -> bool:
        return bool(self._answers)

    def headers(self, origin: bytes | None) -> HeaderList:
        """For the answer to an ordinary request."""
        return self._answers.get(origin or b"", [_VARY])

    def preflight_headers(self, origin: bytes | None, methods: bytes) -> HeaderList:
        """The further headers for an answer to OPTIONS. An origin that is not listed gets no permission, and the browser does not send the
        request.
        """
        if origin not in self._answers:
            return []
        return [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _REMEMBER_SECONDS),
        ]
