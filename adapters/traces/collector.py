"""The collector: the operator's own server that takes spans by OTLP/HTTP (https://opentelemetry.io/docs/specs/otlp)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from adapters.traces.otlp import OtlpEncoding
from core.domain.outbound import OutboundDestination
from core.domain.secrets import Secret
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.record import Collected, NotCollected

_TIMEOUT: Final = timedelta(seconds=10)
_PASSING: Final = frozenset({429, 502, 503, 504})


class _PartialSuccess(msgspec.Struct):
    # A 64-bit number, which is a text in the JSON form. Some collectors send a number all the same.
    rejected: str | int = msgspec.field(default=0, name="rejectedSpans")


class _Answer(msgspec.Struct):
    partial: _PartialSuccess | None = msgspec.field(default=None, name="partialSuccess")


class OtlpCollector:
    """Implements `ports.record.SpanCollector`."""

    def __init__(self, outbound: Outbound, to: OutboundDestination, headers: Sequence[tuple[str, Secret]], encoding: OtlpEncoding) -> None:
        self._outbound = outbound
        self._to = to
        self._headers = {"content-type": "application/json", "user-agent": "Postern"}
        self._secret_headers = headers
        self._encoding = encoding

    async def collect(self, texts: Sequence[str], count: int) -> Collected:
        headers = {**self._headers, **{name: value.reveal() for name, value in self._secret_headers}}
        request = OutboundRequest(self._to, self._encoding.body(texts), headers)
        try:
            answer = await self._outbound.post(request, _TIMEOUT)
        except OutboundFailed as failed:
            raise NotCollected(failed.failure.value, passes=True) from None
        if 200 <= answer.status < 300:
            return Collected(min(count, _rejected(answer)))
        passes = answer.status in _PASSING
        raise NotCollected(f"status {answer.status}", passes=passes, retry_after=answer.headers.get("retry-after"))


def _rejected(answer: OutboundAnswer) -> int:
    """How many spans the collector has refused, while it took the rest. 0 for an answer that is no such message."""
    try:
        partial = msgspec.json.decode(answer.body, type=_Answer).partial
        return 0 if partial is None else max(0, int(partial.rejected))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return 0
