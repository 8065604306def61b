"""What events are called on pages (the API has English labels of its own), and webhooks with their deliveries, and the SIEM."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.record.event_types import EVENT_TYPES, WEBHOOK_EVENTS
from core.domain.tenancy.siem import SiemProvider
from entrypoints.http.console.kit.cells import Tone, code, copied, in_words, number, plain, state, when, words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, ChoicePreset, InputKind, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Filter, Making, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.organization_tabs import DEVELOPERS_ENTRY, EVENTS, LOGS_ENTRY, SIEM_TAB, WEBHOOKS_TAB, position
from entrypoints.http.routes.tenancy.siem import configure_siem, get_siem_configuration, remove_siem, test_siem
from entrypoints.http.routes.tenancy.webhooks import (
    WebhookRecord,
    change_webhook,
    create_webhook,
    delete_webhook,
    get_webhook,
    list_webhook_deliveries,
    list_webhook_event_types,
    list_webhooks,
    redeliver_webhook_event,
    replay_webhook,
    rotate_webhook_secret,
    test_webhook,
)
from ports.outbound import Failure
from ports.texts import Text

LABELLED: Final = frozenset((*(one.name for one in EVENT_TYPES if one.audited), *(one.name for one in WEBHOOK_EVENTS)))


def event_in_words(name: str, text: Text) -> str:
    """The event's label, or its name if the catalogue does not have the event."""
    return str(text(f"console.event.{name}")) if name in LABELLED else name


_DELIVERED: Final = {True: ("console.state.delivered", Tone.GOOD), False: ("console.state.not_delivered", Tone.BAD)}
_ACTIVE: Final = {True: ("console.state.active", Tone.GOOD), False: ("console.state.off", Tone.WARN)}


def _standing(webhook: WebhookRecord) -> str:
    return "failing" if webhook.is_active and webhook.failing_since else "active" if webhook.is_active else "off"


_STANDING: Final = {
    "failing": ("console.webhooks.failing", Tone.BAD),
    "active": ("console.state.active", Tone.GOOD),
    "off": ("console.state.off", Tone.WARN),
}


def _problem(error: str) -> tuple[str, Tone]:
    key = f"console.delivery_problem.{error}"
    return (key if error in _PROBLEMS else "console.delivery_problem.other"), Tone.PLAIN


_PROBLEMS: Final = frozenset(one.value for one in Failure)
_PRESET_GROUPS: Final = ("Sign-in", "User management")


async def _delivered(visit: PageVisit) -> Sequence[Choice]:
    return [
        Choice(value, visit.text(key)) for value, key in (("true", "console.state.delivered"), ("false", "console.state.not_delivered"))
    ]


def _delivery(error: str) -> tuple[str, Tone]:
    return ("console.state.delivered", Tone.GOOD) if error == "ok" else ("console.state.not_delivered", Tone.BAD)


async def _siem_kinds(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("provider_type", one, visit.text)) for one in SiemProvider]


def group_key(category: str) -> str:
    """The text key of a group of events."""
    return f"console.event_group.{category.lower().replace(' ', '_').replace('-', '_')}"


async def _event_types(visit: PageVisit) -> Sequence[Choice]:
    return [
        Choice(one.value, event_in_words(one.value, visit.text), one.value, visit.text(group_key(one.category)))
        for one in await visit.ask(list_webhook_event_types)
    ]


async def _latest(visit: PageVisit, webhook: WebhookRecord) -> Mapping[str, Any]:
    failing = webhook.failing_since if _standing(webhook) == "failing" else None
    return {"latest": await latest_of(DELIVERIES, visit), "failing_since": failing, "problem": await _why(visit) if failing else ""}


async def _why(visit: PageVisit) -> str:
    """What was wrong with the newest message that was not delivered."""
    failed = (await visit.ask(list_webhook_deliveries, query={"delivered": False, "limit": 1})).deliveries
    return visit.text(_problem(failed[0].delivery_error)[0]) if failed and failed[0].delivery_error else ""


def _event_presets(visit: PageVisit) -> Sequence[ChoicePreset]:
    """The groups that most webhooks are for, and all events of today."""
    named = {one: [event.name for event in WEBHOOK_EVENTS if event.category == one] for one in _PRESET_GROUPS}
    return [
        *(ChoicePreset(group_key(one).rpartition(".")[2], visit.text(group_key(one)), names) for one, names in named.items()),
        ChoicePreset("everything", visit.text("console.presets_everything"), [one.name for one in WEBHOOK_EVENTS]),
    ]


_EVENTS: Final = Asked("events", choices=_event_types, hint="console.webhooks.events_hint", presets=_event_presets)

WEBHOOKS: Final = Resource(
    name="webhooks",
    position=position(DEVELOPERS_ENTRY, WEBHOOKS_TAB),
    at=EVENTS,
    listed=list_webhooks,
    rows="webhooks",
    columns=(plain("name"), code("url"), state(_standing, _STANDING), when("failing_since"), when("created_at")),
    parameter="webhook_id",
    record=get_webhook,
    state=(_standing, _STANDING.__getitem__),
    facts=(
        code("url"),
        when("failing_since"),
        when("paused_at"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(shape(create_webhook, "name", "url", _EVENTS), secret="secret"),  # noqa: S106 - the name of a field
    sections=(Section("change", shape(change_webhook, "name", "url", "is_active", _EVENTS)),),
    acts=(
        Act("test", test_webhook),
        Act("replay", replay_webhook, shape=shape(replay_webhook, "since", "until", Asked("event_type", choices=_event_types))),
        Act("rotate-secret", rotate_webhook_secret, asks=True, secret="secret"),  # noqa: S106 - as above
    ),
    ending=Ending(delete_webhook),
    template="organization/webhook.html",
    more=_latest,
    also=(list_webhook_deliveries,),
)


async def _name(visit: PageVisit) -> str:
    return WEBHOOKS.called(await WEBHOOKS.find(visit))


console.name(WEBHOOKS.one, _name, beneath=f"{WEBHOOKS.one}/deliveries")

DELIVERIES: Final = Resource(
    name="deliveries",
    position=position(DEVELOPERS_ENTRY, WEBHOOKS_TAB),
    at=f"{EVENTS}/{{webhook_id}}/deliveries",
    listed=list_webhook_deliveries,
    rows="deliveries",
    is_log=True,
    columns=(
        code("event_type"),
        state("delivered", _DELIVERED),
        number("response_status_code"),
        state("delivery_error", _problem, "console.field.delivery_error"),
        when("next_retry_at"),
        when("created_at", "console.field.happened_at"),
    ),
    filters=(Filter("event_type", "console.field.event_type", _event_types), Filter("delivered", "console.field.state", _delivered)),
    parameter="delivery_id",
    called=lambda one: str(one.event_type),
    state=(lambda one: one.delivered, _DELIVERED.__getitem__),
    facts=(
        number("response_status_code"),
        plain("response_body"),
        state("delivery_error", _problem, "console.field.delivery_error"),
        number("attempt_count"),
        when("next_retry_at"),
        when("created_at", "console.field.happened_at"),
        code(lambda one: json.dumps(one.payload, ensure_ascii=False, indent=1), "console.field.payload"),
        copied("id"),
    ),
    acts=(Act("redeliver", redeliver_webhook_event),),
    crumbs=lambda visit: (
        (WEBHOOKS.text(visit, "title"), visit.here(EVENTS)),
        (visit.named(WEBHOOKS.one), visit.here(WEBHOOKS.one)),
    ),
)

SIEM: Final = Resource(
    name="siem",
    position=position(LOGS_ENTRY, SIEM_TAB),
    at=f"{EVENTS}/siem",
    is_single=True,
    listed=get_siem_configuration,
    columns=(
        plain("name"),
        words("provider_type", SiemProvider),
        code("endpoint_url"),
        state(lambda siem: siem.last_error or "ok", _delivery, "console.field.delivery"),
        plain("last_error"),
        number("lag"),
        when("last_delivered_at"),
        when("updated_at"),
    ),
    state=(lambda siem: siem.is_active, _ACTIVE.__getitem__),
    sections=(
        Section(
            "change",
            shape(
                configure_siem,
                "name",
                Asked("provider_type", choices=_siem_kinds),
                "endpoint_url",
                Asked("api_key", kind=InputKind.SECRET, hint="console.siem.secret_hint"),
                Asked("auth_header", kind=InputKind.SECRET, hint="console.siem.secret_hint"),
                "batch_size",
                Asked("is_active", kind=InputKind.TICK),
            ),
            whole=True,
        ),
    ),
    acts=(Act("test", test_siem, said=lambda tried, _: (tried.success, tried.message)),),
    ending=Ending(remove_siem),
)

PAGES: Final = (*pages(WEBHOOKS), *pages(DELIVERIES), *pages(SIEM))
