"""Plans: their possible terms, and the event of a change."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, PlanId, ServiceId
from core.domain.record.events import SYSTEM
from core.domain.services.plans import (
    HIGHEST_PRICE,
    Plan,
    default_plan,
    plan_created,
    plan_currency,
    plan_deleted,
    plan_features,
    plan_name,
    plan_price,
    plan_price_id,
    plan_updated,
)
from core.frozen import replace

NOW = datetime(2026, 11, 20, tzinfo=UTC)
ORGANIZATION = OrganizationId(UUID(int=1))
PLAN = Plan(
    id=PlanId(UUID(int=2)),
    service=ServiceId(UUID(int=3)),
    key="pro",
    name="Pro",
    price_cents=900,
    currency="eur",
    features=("export",),
    billing_price_id="price_1",
    created_at=NOW,
    updated_at=NOW,
)


def test_a_service_begins_with_a_plan_that_costs_nothing() -> None:
    plan = default_plan(PLAN.id, PLAN.service, NOW)
    assert (plan.id, plan.service, plan.created_at, plan.updated_at) == (PLAN.id, PLAN.service, NOW, NOW)
    assert (plan.name, plan.price_cents, plan.currency, plan.features, plan.billing_price_id) == ("Free", 0, "usd", (), None)


def test_a_name_is_one_line_of_some_length() -> None:
    assert plan_name("  Pro\nplus ") == "Pro plus"
    assert plan_name("x" * 100) == "x" * 100
    for wrong in ("", " \u200b", "x" * 101):
        with pytest.raises(BadRequest, match="name:"):
            plan_name(wrong)


def test_a_price_is_what_an_integer_of_the_database_holds() -> None:
    assert [plan_price(cents) for cents in (0, HIGHEST_PRICE)] == [0, HIGHEST_PRICE]
    for wrong in (-1, HIGHEST_PRICE + 1):
        with pytest.raises(BadRequest, match="price_cents:"):
            plan_price(wrong)


@pytest.mark.parametrize(("text", "currency"), [("usd", "usd"), ("EUR", "eur"), (" Chf ", "chf")])
def test_a_currency_is_three_letters_in_lower_case(text: str, currency: str) -> None:
    assert plan_currency(text) == currency


@pytest.mark.parametrize("text", ["", "us", "usdt", "u1d", "u d", "\u0455d\u0501", "\u00fcsd"])
def test_nothing_else_is_a_currency(text: str) -> None:
    with pytest.raises(BadRequest, match="currency:"):
        plan_currency(text)


def test_features_keep_their_order_and_stand_there_once() -> None:
    assert plan_features([" sso ", "audit\nlog"]) == ("sso", "audit log")
    assert plan_features([]) == ()
    for wrong in ([""], ["x" * 101], ["sso", " sso"]):
        with pytest.raises(BadRequest, match="features:"):
            plan_features(wrong)


def test_features_are_measured_as_a_token_carries_them() -> None:
    # In JSON an ASCII letter is one byte, any other six, and one beyond the first 65 536 twelve.
    assert len(plan_features([f"{number:02}" + "x" * 98 for number in range(19)])) == 19
    for text in ("x" * 98, "\u00e9" * 98, "\U0001f680" * 98):
        with pytest.raises(BadRequest, match="2048 bytes"):
            plan_features([f"{number:02}{text}" for number in range(20)])
    with pytest.raises(BadRequest, match="2048 bytes"):
        plan_features(["\U0001f680" * 100, "\U0001f681" * 100])


def test_a_price_id_is_printable() -> None:
    assert plan_price_id(" price_1Nx ") == "price_1Nx"
    for wrong in ("", " ", "x" * 256, "a\nb", "\u00e9"):
        with pytest.raises(BadRequest, match="billing_price_id:"):
            plan_price_id(wrong)


def test_a_new_plan_and_one_that_goes_are_told_with_their_terms() -> None:
    for event, name in (
        (plan_created(PLAN, ORGANIZATION, "shop", SYSTEM), "plan.created"),
        (plan_deleted(PLAN, ORGANIZATION, "shop", SYSTEM), "plan.deleted"),
    ):
        assert (event.name, event.target.type, event.target.id, event.organization) == (name, "plan", str(PLAN.id), ORGANIZATION)
        assert event.details == {
            "service_id": str(PLAN.service),
            "service_slug": "shop",
            "key": "pro",
            "name": "Pro",
            "price_cents": 900,
            "currency": "eur",
            "features": ["export"],
            "billing_price_id": "price_1",
        }


def test_a_change_is_told_with_what_was_before() -> None:
    after = replace(PLAN, price_cents=0, billing_price_id=None)
    assert plan_updated(PLAN, after, ORGANIZATION, "shop", SYSTEM).details == {
        "service_id": str(PLAN.service),
        "service_slug": "shop",
        "name": "Pro",
        "currency": "eur",
        "old_price_cents": 900,
        "new_price_cents": 0,
        "old_billing_price_id": "price_1",
        "new_billing_price_id": None,
    }
