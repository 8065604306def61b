"""Calls to providers. A request has a form or no body, and its answer is JSON. Every other answer is refused, and its text is neither
logged nor passed on.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
import structlog

from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway, UnreadableAnswer
from core.domain.outbound import NotADestination, OutboundDestination, destination
from ports.outbound import NO_HEADERS, Outbound, OutboundAnswer, OutboundFailed, OutboundRequest

log = structlog.get_logger()

TIMEOUT: Final = timedelta(seconds=8)
LARGEST: Final = 64 << 10
# The most values in an answer. Tenants choose providers, their answers are decoded on the event loop, and each value costs time and memory.
# A real answer has only a fraction of this number.
MOST_VALUES: Final = 3000
# How many URLs of endpoints are kept parsed. The same few endpoints are called again and again.
MOST_READ: Final = 200
_DOWN: Final = 500
_JSON: Final = {"accept": "application/json", "user-agent": "Postern"}
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


class Calls:
    """`plain` makes calls over http, and `secure` calls over https. They differ, because not every provider may be called without
    encryption.
    """

    def __init__(self, secure: Outbound, plain: Outbound) -> None:
        self._secure = secure
        self._plain = plain

    def may_call(self, url: str) -> bool:
        """False when `url` is no URL, or leads to an address that is never called."""
        try:
            to = destination(url)
        except NotADestination:
            return False
        return self._by(to).may_call(to)

    async def reach(self, url: str) -> None:
        """Check that the provider answers at `url`, with any answer. Raises `ProviderAway`, an `OAuthError`, when it does not."""
        await self._got(_destination(url), NO_HEADERS)

    async def get(self, url: str, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        """Raises `OAuthError`."""
        to = _destination(url)
        answer = await self._got(to, headers)
        if answer.status != 200:
            raise _failed(to, f"status {answer.status}")
        if len(answer.body) > LARGEST:
            raise _unreadable(to, "too long")
        return _decoded(to, answer)

    async def _got(self, to: OutboundDestination, headers: Mapping[str, str]) -> OutboundAnswer:
        try:
            answer = await self._by(to).get(to, TIMEOUT, most=LARGEST, headers={**_JSON, **headers})
        except OutboundFailed as failed:
            raise _away(to, failed.failure.value) from None
        _require_up(to, answer)
        return answer

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, Mapping[str, Any]]:
        """An OAuth endpoint answers with an object, also when it refuses. Raises `OAuthError`."""
        to = _destination(url)
        request = OutboundRequest(to, urlencode(form).encode(), {**_JSON, **_FORM, **headers})
        try:
            answer = await self._by(to).post(request, TIMEOUT)
        except OutboundFailed as failed:
            raise _away(to, failed.failure.value) from None
        _require_up(to, answer)
        body = _decoded(to, answer)
        if not isinstance(body, dict):
            raise _failed(to, "no object")
        return answer.status, body

    def _by(self, to: OutboundDestination) -> Outbound:
        return self._secure if to.scheme == "https" else self._plain


def _destination(url: str) -> OutboundDestination:
    try:
        return _read(url)
    except NotADestination as refusal:
        raise OAuthError(detail=f"the URL {refusal}") from None


@lru_cache(maxsize=MOST_READ)
def _read(url: str) -> OutboundDestination:
    return destination(url)


def has_too_many_values(text: bytes) -> bool:
    """Whether JSON has too many values, counted before decoding. Each value but the first comes after a comma or an opening bracket."""
    return text.count(b",") + text.count(b"[") + text.count(b"{") > MOST_VALUES


def _decoded(to: OutboundDestination, answer: OutboundAnswer) -> Any:
    if has_too_many_values(answer.body):
        raise _unreadable(to, f"status {answer.status}, too many values")
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _unreadable(to, f"status {answer.status}, no JSON") from None


def _require_up(to: OutboundDestination, answer: OutboundAnswer) -> None:
    if answer.status >= _DOWN:
        raise _away(to, f"status {answer.status}")


def _away(to: OutboundDestination, why: str) -> ProviderAway:
    log.warning("upstream_failed", host=to.host, why=why)
    return ProviderAway(detail=f"{to.host}: {why}")


def _failed(to: OutboundDestination, why: str) -> OAuthError:
    log.warning("upstream_failed", host=to.host, why=why)
    return OAuthError(detail=f"{to.host}: {why}")


def _unreadable(to: OutboundDestination, why: str) -> UnreadableAnswer:
    log.warning("upstream_failed", host=to.host, why=why)
    return UnreadableAnswer(detail=f"{to.host}: {why}")
