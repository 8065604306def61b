"""The shared signals of an application: what it may hear of, and where; the streams that it has made, and what they were told."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.federation.signals import CONFIGURATION_ENDPOINT, SignalFate, StreamStatus, signal_events, signal_hosts
from core.domain.record.signals import OFFERED, SignalType
from core.domain.services.resource_servers import MANAGE_SIGNALS
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, code, copied, in_words, listed, listed_in_words, number, plain, sentence, state, when
from entrypoints.http.console.kit.cells import words as in_our_words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.effects import AskedChange, asking_form
from entrypoints.http.console.kit.forms import Asked, Choice, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Filter, Resource
from entrypoints.http.console.kit.undo import Undoable
from entrypoints.http.console.kit.visit import Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.routes.federation.signal_log import list_signal_deliveries, verify_signal_stream
from entrypoints.http.routes.federation.signals import SignalsBody, get_signals, remove_signals, set_signals
from entrypoints.http.routes.federation.streams import SIGNAL_DISCOVERY
from ports.texts import Text

_GUIDE: Final = "/docs/guides/apis-signals"
_CHANGE: Final = f"{applications.SIGNALS}/change"
_STREAMS: Final = f"{applications.SIGNALS}/streams"
_ACTIVE: Final = ("console.state.active", Tone.GOOD)
_STATUS: Final[Mapping[str, tuple[str, Tone]]] = {
    StreamStatus.ENABLED: _ACTIVE,
    StreamStatus.PAUSED: ("console.signal_streams.paused", Tone.WARN),
    StreamStatus.DISABLED: ("console.state.off", Tone.WARN),
}
_FATES: Final[Mapping[str, tuple[str, Tone]]] = {
    SignalFate.WAITING: ("console.signal_deliveries.waiting", Tone.WARN),
    SignalFate.RECEIVED: ("console.state.delivered", Tone.GOOD),
    SignalFate.GIVEN_UP: ("console.signal_deliveries.given_up", Tone.BAD),
    SignalFate.NO_LONGER_TOLD: ("console.signal_deliveries.no_longer_told", Tone.PLAIN),
    SignalFate.TOLD_WITH_ANOTHER: ("console.signal_deliveries.told_with_another", Tone.PLAIN),
}


def _event(name: str, text: Text) -> str:
    return in_words("signal_event", name, text)


async def _events(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, _event(one, visit.text), one.value) for one in OFFERED]


async def _find(visit: PageVisit) -> Any:
    """None while signals are off."""
    signals = await visit.ask(get_signals)
    return signals if signals.is_active else None


_SHAPE: Final = shape(
    set_signals,
    Asked("events", choices=_events, label="console.signals.events", hint="console.signals.events_hint"),
    Asked("hosts", label="console.signals.hosts", hint="console.signals.hosts_hint"),
)
_UNDOABLE: Final = Undoable(
    name="signals",
    page=applications.SIGNALS,
    at=_CHANGE,
    shape=_SHAPE,
    find=_find,
    position=applications.ACCESS_POSITION,
    whole=True,
)


async def _streams(visit: PageVisit, signals: Any) -> Mapping[str, Any]:
    """What the application's makers need until it has made a stream; afterwards, what tries a stream."""
    issuer = visit.postern.foundation.public_url
    streams: Sequence[Any] = () if signals is None else signals.streams
    needed = (
        ("console.field.issuer", issuer),
        ("console.signals.discovery", f"{issuer}{SIGNAL_DISCOVERY}"),
        ("console.signals.stream_endpoint", f"{issuer}{CONFIGURATION_ENDPOINT}"),
        ("console.signals.scope", MANAGE_SIGNALS),
    )
    tried = streams[0] if len(streams) == 1 and streams[0].status != StreamStatus.DISABLED and visit.may(verify_signal_stream) else None
    return {
        "latest": await latest_of(STREAMS, visit),
        "needed": () if streams else needed,
        "guide": _GUIDE,
        "verification": "" if tried is None else visit.here(f"{STREAMS.one}/verification", stream_id=tried.id),
    }


async def _ending(_visit: PageVisit, signals: Any) -> Sequence[tuple[str, int]]:
    return (("console.signals.ends_streams", 0 if signals is None else len(signals.streams)),)


SIGNALS: Final = Resource(
    name="signals",
    position=applications.ACCESS_POSITION,
    at=applications.SIGNALS,
    is_single=True,
    listed=get_signals,
    of_record=lambda signals: signals if signals.is_active else None,
    columns=(
        listed_in_words(lambda signals, text: [_event(one, text) for one in signals.events], "console.signals.events"),
        listed("hosts", "console.signals.hosts"),
    ),
    state=(lambda _signals: "on", {"on": _ACTIVE}.__getitem__),
    ending=Ending(remove_signals, counts=_ending),
    below=(("console.signals.change", _CHANGE, set_signals),),
    undone=(_UNDOABLE,),
    crumbs=applications.above,
    template="organization/applications/signals/signals.html",
    more=_streams,
)


async def _effects(visit: PageVisit, body: SignalsBody) -> Mapping[str, Any]:
    """What the application hears of from then on, and which streams end. Raises `BadRequest`."""
    told, named = signal_events(body.events), signal_hosts(body.hosts)
    before = await _find(visit)
    events, streams = ((), ()) if before is None else (before.events, before.streams)
    begun = [_event(one, visit.text) for one in told if one not in events]
    over = [_event(one, visit.text) for one in events if one not in told]
    ended = [one.host for one in streams if one.host is not None and one.host not in named]
    return {"begun": begun, "over": over, "ended": ended, "reaches": begun or over or ended, "at_least": 0}


def _crumbs(visit: PageVisit) -> Sequence[tuple[str, str]]:
    return (*applications.above(visit), (SIGNALS.text(visit, "title"), visit.here(applications.SIGNALS)))


_ASKED: Final = AskedChange(
    undoable=_UNDOABLE,
    change=set_signals,
    example={"events": ["session-revoked"], "hosts": ["app.example.org"]},
    title="console.signals.change",
    question="console.signals.sure",
    effects=_effects,
    template="organization/applications/signals/effects.html",
    crumbs=_crumbs,
)
_SignalsForm: Any = asking_form(_SHAPE)


@console.get(_CHANGE, of=set_signals, also=(get_signals,))
async def ask_for_signals(call: Call[None, None, ServicePath, Member], postern: Postern) -> Page:
    """Ask for what an application may hear of, and where"""
    return await _ASKED.ask(PageVisit(call, postern))


@console.post(_CHANGE, of=set_signals, also=(get_signals,))
async def send_signals(call: Call[_SignalsForm, None, ServicePath, Member], postern: Postern) -> Page:
    """Turn on the signals of an application, or change them

    The first answer says what would be told, and which streams would end. The second form changes it.
    """
    return await _ASKED.send(PageVisit(call, postern), call.body)


def _titled(visit: PageVisit, stream: Any) -> str:
    return str(stream.description or _way(stream, visit.text))


def _way(stream: Any, text: Text) -> str:
    return str(stream.host or text("console.signal_streams.polled"))


async def _latest(visit: PageVisit, _stream: Any) -> Mapping[str, Any]:
    return {"latest": await latest_of(DELIVERIES, visit) if visit.may(list_signal_deliveries) else None}


STREAMS: Final = Resource(
    name="signal_streams",
    position=applications.ACCESS_POSITION,
    at=_STREAMS,
    listed=get_signals,
    rows="streams",
    columns=(
        sentence(_way, "console.signal_streams.way"),
        plain("description", "console.signal_streams.description"),
        state("status", _STATUS),
        plain("granted_by", "console.signal_streams.granted_by"),
        when("created_at"),
    ),
    parameter="stream_id",
    called=lambda stream: str(stream.description or stream.host or stream.id),
    titled=_titled,
    state=(lambda stream: stream.status, _STATUS.__getitem__),
    facts=(
        sentence(_way, "console.signal_streams.way"),
        listed_in_words(lambda stream, text: [_event(one, text) for one in stream.events], "console.signals.events"),
        plain("description", "console.signal_streams.description"),
        plain("reason", "console.signal_streams.reason"),
        plain("granted_by", "console.signal_streams.granted_by"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    acts=(Act("verification", verify_signal_stream, shows=lambda stream: stream.status != StreamStatus.DISABLED),),
    template="organization/applications/signals/stream.html",
    more=_latest,
    also=(list_signal_deliveries,),
    crumbs=_crumbs,
)


async def _name(visit: PageVisit) -> str:
    return _titled(visit, await STREAMS.find(visit))


console.name(STREAMS.one, _name, beneath=f"{STREAMS.one}/deliveries")


async def _outcomes(visit: PageVisit) -> Sequence[Choice]:
    return [Choice("true", visit.text("console.state.delivered")), Choice("false", visit.text("console.state.not_delivered"))]


DELIVERIES: Final = Resource(
    name="signal_deliveries",
    position=applications.ACCESS_POSITION,
    at=f"{STREAMS.one}/deliveries",
    listed=list_signal_deliveries,
    rows="deliveries",
    is_log=True,
    columns=(
        in_our_words("event_type", SignalType, "console.signal_deliveries.signal_event"),
        state("state", _FATES),
        number("response_status_code", "console.signal_deliveries.answer"),
        code("delivery_error", "console.signal_deliveries.problem"),
        when("next_retry_at", "console.signal_deliveries.next"),
        when("created_at", "console.signal_deliveries.queued"),
    ),
    filters=(Filter("delivered", "console.field.state", _outcomes),),
    crumbs=lambda visit: (
        *_crumbs(visit),
        (STREAMS.text(visit, "title"), visit.here(_STREAMS)),
        (visit.named(STREAMS.one), visit.here(STREAMS.one)),
    ),
)

PAGES: Final = (*pages(SIGNALS), ask_for_signals, send_signals, *pages(STREAMS), *pages(DELIVERIES))
