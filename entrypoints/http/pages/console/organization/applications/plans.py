"""The plans of an application."""

from typing import Any, Final

from core.domain.services.plans import priced, written
from entrypoints.http.pages.console.cells import code, copied, listed, number, plain, when
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.routes.services.plans import change_plan, create_plan, delete_plan, list_plans


def _amount(plan: Any) -> str:
    return written(plan.price_cents, plan.currency)


def _price(plan: Any) -> str:
    return priced(plan.price_cents, plan.currency)


_FIELDS: Final = (
    "name",
    Asked("price_cents", label="console.plans.price", hint="console.plans.price_hint", shown=_amount, currency="currency"),
    Asked("currency", hint="console.plans.currency_hint"),
    Asked("features", hint="console.plans.features_hint"),
    Asked("billing_price_id", hint="console.plans.price_id_hint"),
)

PLANS: Final = Resource(
    name="plans",
    position=application_tabs.ACCESS_POSITION,
    at=application_tabs.PLANS,
    listed=list_plans,
    columns=(plain("name"), plain(_price, "console.plans.price"), listed("features"), number("subscription_count"), when("created_at")),
    parameter="plan_id",
    facts=(
        plain(_price, "console.plans.price"),
        listed("features"),
        code("billing_price_id"),
        number("subscription_count"),
        copied("id"),
        when("created_at"),
    ),
    making=Making(shape(create_plan, *_FIELDS)),
    sections=(Section("change", shape(change_plan, *_FIELDS)),),
    ending=Ending(delete_plan),
    crumbs=application_tabs.above,
)

PAGES: Final = pages(PLANS)
