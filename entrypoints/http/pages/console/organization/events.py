"""Webhooks of an organization, with their deliveries."""

from collections.abc import Sequence
from typing import Final

from entrypoints.http.pages.console.cells import Tone, code, copied, listed, plain, state, when
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.places import EVENTS, EVENTS_ENTRY, WEBHOOKS_TAB, spot
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Filter, Making, Resource, Section
from entrypoints.http.pages.console.visit import Visit
from entrypoints.http.routes.tenancy.webhook_deliveries import list_webhook_deliveries, test_webhook
from entrypoints.http.routes.tenancy.webhooks import (
    change_webhook,
    create_webhook,
    delete_webhook,
    list_webhooks,
    rotate_webhook_secret,
    webhook_detail,
    webhook_event_types,
)

_ACTIVE: Final = {True: ("console.state.active", Tone.GOOD), False: ("console.state.off", Tone.WARN)}


async def _event_types(visit: Visit) -> Sequence[Choice]:
    return [Choice(one.value, one.value, one.label) for one in await visit.ask(webhook_event_types)]


_EVENTS: Final = Asked("events", choices=_event_types, hint="console.webhooks.events_hint")

WEBHOOKS: Final = Resource(
    name="webhooks",
    spot=spot(EVENTS_ENTRY, WEBHOOKS_TAB),
    at=EVENTS,
    listed=list_webhooks,
    rows="webhooks",
    columns=(plain("name"), code("url"), state("is_active", _ACTIVE), when("created_at")),
    parameter="webhook_id",
    record=webhook_detail,
    state=(lambda webhook: webhook.is_active, _ACTIVE.__getitem__),
    facts=(code("url"), listed("events"), when("paused_at"), copied("id"), when("created_at"), when("updated_at")),
    making=Making(shape(create_webhook, "name", "url", _EVENTS), secret="secret"),  # noqa: S106 - the name of a field
    sections=(Section("change", shape(change_webhook, "name", "url", "is_active", _EVENTS)),),
    acts=(Act("test", test_webhook), Act("rotate-secret", rotate_webhook_secret, asks=True, secret="secret")),  # noqa: S106 - as above
    ending=Ending(delete_webhook),
    below=(("console.deliveries.title", f"{EVENTS}/{{webhook_id}}/deliveries", list_webhook_deliveries),),
)

DELIVERIES: Final = Resource(
    name="deliveries",
    spot=spot(EVENTS_ENTRY, WEBHOOKS_TAB),
    at=f"{EVENTS}/{{webhook_id}}/deliveries",
    listed=list_webhook_deliveries,
    rows="deliveries",
    columns=(code("event_type"), when("created_at")),
    filters=(Filter("event_type", "console.field.event_type"),),
    crumbs=lambda visit: ((WEBHOOKS.text(visit, "title"), visit.here(EVENTS)),),
)

PAGES: Final = (*pages(WEBHOOKS), *pages(DELIVERIES))
