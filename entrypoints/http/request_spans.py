"""The span of a request: it begins a trace, or continues the trace of a proxy that the operator trusts."""

from typing import Final

from core.domain.record.stories import TraceContext, read_traceparent
from entrypoints.http.machinery.addresses import ClientAddresses
from entrypoints.http.machinery.calls import UNMATCHED, Request
from ports.record import Attributes, SpanKind, Traces

_TRACEPARENT: Final = b"traceparent"
# More pairs of method, route and status than there are.
_MOST_KEPT: Final = 16_384
_SERVER: Final = SpanKind.SERVER
_SERVER_FAILED: Final = 500


class RequestSpans:
    """`heeds_proxies`: `traceparent` from a trusted proxy counts. From anybody else it never does: a client must neither make us trace its
    requests, nor put them into a trace of others.
    """

    def __init__(self, traces: Traces, addresses: ClientAddresses, *, heeds_proxies: bool) -> None:
        self._traces = traces
        self._addresses = addresses
        self._heeds_proxies = heeds_proxies
        self._kept: dict[tuple[str, str, int], tuple[str, Attributes]] = {}

    def begin(self, request: Request, peer: str | None) -> None:
        """The trace has the request's own id, so that this id alone leads to the trace; but not an id made of what a client has named."""
        parent = self._parent(request, peer) if self._heeds_proxies else None
        span = self._traces.begin(_SERVER, request.method, work=request.cause if request.id is request.cause else "", parent=parent)
        if span is not None:
            request.span = span.__enter__()

    def end(self, request: Request, method: str) -> None:
        span = request.span
        if span is None:
            return
        # A probe is known as one only after its route is found.
        if not request.quiet:
            span.name, span.attributes = self._described(method, request.template, request.status)
            span.own = (("postern.request_id", request.cause),)
            if request.status >= _SERVER_FAILED:
                span.error = str(request.status)
        span.__exit__(None, None, None)
        if not request.quiet:
            self._traces.finish(span)

    def _parent(self, request: Request, peer: str | None) -> TraceContext | None:
        given = request.header(_TRACEPARENT)
        if given is None or not self._addresses.is_ours(peer):
            return None
        return read_traceparent(given.decode("latin-1"))

    def _described(self, method: str, template: str, status: int) -> tuple[str, Attributes]:
        key = method, template, status
        known = self._kept.get(key)
        if known is None:
            known = _described(method, template, status)
            if len(self._kept) < _MOST_KEPT:
                self._kept[key] = known
        return known


def _described(method: str, template: str, status: int) -> tuple[str, Attributes]:
    said: Attributes = (("http.request.method", method), ("http.response.status_code", status))
    if template == UNMATCHED:
        # Strangers invent paths.
        return method, said
    return f"{method} {template}", (*said, ("http.route", template))
