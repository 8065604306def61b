"""Traces use cases, if the settings name a collector."""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar

from actors.span_recorder import SpanRecorder
from adapters.system import SystemSecrets
from adapters.traces import OtlpCollector, OtlpEncoding, SampledTraces
from core import usecases
from core.domain.outbound import NotADestination, destination
from core.frozen import Frozen, names_of, replace
from entrypoints.settings import Settings, SettingsError
from ports.metrics import Metrics
from ports.outbound import Outbound
from ports.record import SpanKind, TraceSpan, current_span
from ports.system import Clock

Family = TypeVar("Family", bound=Frozen)

_USE_CASES: Final = f"{usecases.__name__}."


class Tracing(Frozen):
    traces: SampledTraces
    recorder: SpanRecorder


def tracing(settings: Settings, outbound: Outbound, metrics: Metrics, clock: Clock, version: str) -> Tracing | None:
    """Raises `SettingsError`."""
    if settings.traces_endpoint is None:
        return None
    try:
        to = destination(settings.traces_endpoint)
    except NotADestination as refusal:
        raise SettingsError(f"POSTERN_TRACES_ENDPOINT {refusal}") from None
    collector = OtlpCollector(outbound, to, settings.traces_headers or (), OtlpEncoding(version))
    recorder = SpanRecorder(collector, metrics, clock, spread=SystemSecrets().spread)
    return Tracing(SampledTraces(settings.traces_sample, recorder.take), recorder)


def with_spans(family: Family) -> Family:
    """The family, with a stand-in for each of its use cases.

    While tracing is on, callers hold a proxy for each use case, whose methods open a span. While tracing is off, there are no proxies.
    """
    stand_ins = {name: TracedUseCase(one) for name in names_of(family) if _is_use_case(one := getattr(family, name))}
    return replace(family, **stand_ins)


def _is_use_case(one: object) -> bool:
    return type(one).__module__.startswith(_USE_CASES)


class TracedUseCase:
    """Has everything that the use case has. Methods that wait open a span; it is named by class and method."""

    def __init__(self, use_case: Any) -> None:
        self._use_case = use_case

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._use_case, name)
        if not iscoroutinefunction(found):
            return found
        method = _with_span(found, f"{type(self._use_case).__name__}.{name}")
        # From now on Python finds the method without a call of `__getattr__`.
        self.__dict__[name] = method
        return method


def _with_span(method: Callable[..., Awaitable[Any]], name: str) -> Callable[..., Awaitable[Any]]:
    async def in_span(span: TraceSpan, args: Any, named: Any) -> Any:
        with span.child(SpanKind.INTERNAL, name):
            return await method(*args, **named)

    # No coroutine of its own while there is no span.
    @wraps(method)
    def called(*args: Any, **named: Any) -> Awaitable[Any]:
        span = current_span.get()
        return method(*args, **named) if span is None else in_span(span, args, named)

    return called
