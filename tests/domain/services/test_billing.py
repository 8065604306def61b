"""Facets: events in any order, repeated or lost, lead to the same result."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.identifiers import PlanId
from core.domain.services.billing import (
    AGAIN,
    GRACE,
    Facets,
    Managed,
    OfferedPlan,
    State,
    chosen_plan,
    is_late,
    leading,
    next_check,
    override_holds,
    still_asks,
    wanted_of,
)
from core.domain.services.billing_news import News, NewsType, Snapshot, news_of, subscription_of
from core.domain.services.plans import SubscriptionStatus

NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
SECOND: Final = int(NOW.timestamp())
IDS: Final = {part: f"00000000-0000-7000-8000-00000000000{n}" for n, part in enumerate(("org_id", "service_id", "user_id", "plan_id"))}
PLAN: Final = PlanId(UUID(IDS["plan_id"]))


def described(status: str = "active", **more: Any) -> dict[str, Any]:
    return {
        "id": "sub_1",
        "status": status,
        "customer": "cus_1",
        "created": SECOND - 100,
        "current_period_end": SECOND + 1000,
        "items": {"data": [{"price": {"id": "price_1"}}]},
        "metadata": IDS,
        **more,
    }


def told(kind: NewsType, at: int, thing: dict[str, Any] | None = None, identifier: str = "") -> News:
    body = {"id": identifier or f"evt_{kind}_{at}", "type": kind.value, "created": SECOND + at, "data": {"object": thing or described()}}
    return news_of(_json(body))


def invoice(until: int) -> dict[str, Any]:
    return {"id": "in_1", "subscription": "sub_1", "lines": {"data": [{"period": {"end": SECOND + until}}, {"period": None}, {}]}}


def _json(body: Any) -> bytes:
    import json  # noqa: PLC0415

    return json.dumps(body).encode()


def after(*news: News, facets: Facets | None = None) -> Facets:
    facets = facets or Facets()
    for one in news:
        facets = facets.after(one)
    return facets


def state(facets: Facets) -> State:
    found = facets.state()
    assert found is not None
    return found


# Everything that can be told of one subscription, with seconds close enough to clash.
statuses = st.sampled_from(["incomplete", "trialing", "active", "past_due", "unpaid", "paused", "canceled", "incomplete_expired", "new"])
moments = st.integers(0, 6)


@st.composite
def any_news(draw: st.DrawFn) -> News:
    kind = draw(st.sampled_from(list(NewsType)[:7]))
    at, number = draw(moments), draw(st.integers(0, 3))
    if kind in {NewsType.PAID, NewsType.PAYMENT_FAILED, NewsType.ACTION_REQUIRED}:
        thing = invoice(draw(st.integers(-10, 5000)))
    else:
        price = draw(st.sampled_from(["price_1", "price_2"]))
        metadata = draw(st.sampled_from([IDS, {}, {**IDS, "plan_id": IDS["user_id"]}, {**IDS, "user_id": "nobody"}]))
        thing = described(
            draw(statuses),
            current_period_end=SECOND + draw(st.integers(0, 5000)),
            items={"data": [{"price": price}]},
            metadata=metadata,
            ended_at=draw(st.one_of(st.none(), st.just(SECOND))),
        )
    return told(kind, at, thing, f"evt_{kind}_{at}_{number}")


@settings(max_examples=200)
@given(st.lists(any_news(), min_size=1, max_size=8, unique_by=lambda news: news.id), st.integers(0, 2**32), statuses)
def test_any_order_with_repetitions_and_losses_and_then_one_look_is_the_same(all_news: list[News], seed: int, status: str) -> None:
    """Ten thousand permutations in all."""
    random, in_order = Random(seed), after(*all_news)  # noqa: S311 - for order, not for secrets
    # The provider knows better than all of it, except that what was deleted stays so.
    truth = subscription_of(described("canceled" if in_order.deleted else status))[1]
    known = state(in_order.looked(truth, SECOND + 10))
    for _ in range(50):
        shuffled = [*all_news, *random.choices(all_news, k=random.randint(0, 5))]
        random.shuffle(shuffled)
        facets = after(*shuffled)
        assert facets.state() == in_order.state()
        heard = random.sample(shuffled, k=random.randint(0, len(shuffled)))
        looked = after(*heard).looked(truth, SECOND + 10)
        one = state(looked)
        assert (one.status, one.end, one.snapshot, one.is_over) == (known.status, known.end, known.snapshot, known.is_over)
        # What was delayed changes nothing any more.
        late = state(after(*shuffled, facets=looked))
        assert (late.status, late.end) == (known.status, known.end)


@given(st.lists(any_news(), min_size=1, max_size=8))
def test_what_is_kept_between_two_pieces_of_news_is_enough_to_go_on_with(all_news: list[News]) -> None:
    kept = Facets()
    for one in all_news:
        kept = Facets.of_json(kept.after(News.of_json(one.id, one.type, one.created, one.subject, one.as_json())).as_json())
    assert kept == after(*all_news)


def test_a_look_within_the_second_of_news_does_not_decide() -> None:
    heard = after(told(NewsType.SUBSCRIPTION_UPDATED, 5))
    snapshot = subscription_of(described("past_due"))[1]
    looked = heard.looked(snapshot, SECOND + 5)
    assert (state(looked).status, looked.is_doubtful) == (SubscriptionStatus.ACTIVE, True)
    assert next_check(looked, NOW, told=False) == NOW + AGAIN
    assert state(looked.looked(snapshot, SECOND + 6)).status is SubscriptionStatus.PAST_DUE
    again = heard.looked(snapshot, SECOND + 6)
    assert state(again.looked(subscription_of(described())[1], SECOND + 6)).status is SubscriptionStatus.ACTIVE


def test_two_descriptions_of_one_second_are_doubtful() -> None:
    one = told(NewsType.SUBSCRIPTION_UPDATED, 1, identifier="evt_a")
    other = told(NewsType.SUBSCRIPTION_UPDATED, 1, described("past_due"), "evt_b")
    facets = after(one, other)
    assert facets.is_doubtful
    assert after(other, one) == facets
    assert next_check(facets, NOW, told=True) == NOW
    assert not after(told(NewsType.SUBSCRIPTION_UPDATED, 2), facets=facets).is_doubtful


@pytest.mark.parametrize(
    ("status", "kind", "is_open"),
    [
        ("active", NewsType.PAYMENT_FAILED, True),
        ("trialing", NewsType.PAYMENT_FAILED, True),
        ("past_due", NewsType.PAID, True),
        # Both say the same, or the description is final.
        ("past_due", NewsType.PAYMENT_FAILED, False),
        ("active", NewsType.PAID, False),
        ("canceled", NewsType.PAYMENT_FAILED, False),
        ("incomplete", NewsType.PAYMENT_FAILED, False),
    ],
)
def test_an_invoice_of_the_second_of_the_description_is_asked_about(status: str, kind: NewsType, is_open: bool) -> None:
    """The provider dates by the second, so nobody but the provider knows which of the two came first."""
    one, other = told(NewsType.SUBSCRIPTION_UPDATED, 1, described(status)), told(kind, 1, invoice(5000))
    facets = after(one, other)
    assert after(other, one) == facets
    assert facets.is_open == is_open
    assert (next_check(facets, NOW, told=True) == NOW) == is_open
    if not is_open:
        return
    assert next_check(facets, NOW, told=False) == NOW + AGAIN
    # The provider's word settles it, and so do later news.
    answer = subscription_of(described("past_due" if status != "past_due" else "active"))[1]
    looked = facets.looked(answer, SECOND + 2)
    assert (looked.is_open, state(looked).status) == (
        False,
        SubscriptionStatus.PAST_DUE if status != "past_due" else SubscriptionStatus.ACTIVE,
    )
    assert not after(told(NewsType.SUBSCRIPTION_UPDATED, 2, described(status)), facets=facets).is_open
    assert not after(told(NewsType.PAID, 2, invoice(5000)), facets=facets).is_open or status == "past_due"


def test_a_payment_of_the_second_of_a_failure_settles_it() -> None:
    facets = after(
        told(NewsType.SUBSCRIPTION_UPDATED, 1), told(NewsType.PAYMENT_FAILED, 1, invoice(5000)), told(NewsType.PAID, 1, invoice(5000))
    )
    assert not facets.is_open
    assert state(facets).status is SubscriptionStatus.ACTIVE


def test_when_the_provider_is_asked() -> None:
    assert next_check(Facets(), NOW, told=True) == NOW
    assert next_check(Facets(), NOW, told=False) == NOW + AGAIN

    def due(status: str, end: int, *, told_now: bool = True) -> datetime | None:
        facets = after(told(NewsType.SUBSCRIPTION_CREATED, 0, described(status, current_period_end=SECOND + end)))
        return next_check(facets, NOW, told=told_now)

    assert due("active", 1000) == NOW + timedelta(seconds=1000) + GRACE
    assert due("active", -10_000) == NOW
    assert due("active", -10_000, told_now=False) == NOW + AGAIN
    assert due("incomplete", 1000) == NOW + AGAIN
    assert due("canceled", 1000) is None
    assert due("paused", 1000) is None


def test_the_end_of_a_subscription() -> None:
    no_end = after(told(NewsType.SUBSCRIPTION_CREATED, 0, described(current_period_end=None)))
    assert state(no_end).end == datetime.fromtimestamp(SECOND - 100, UTC)
    paid = after(told(NewsType.PAID, 5, invoice(5000)), facets=no_end)
    assert state(paid).end == NOW + timedelta(seconds=5000)
    far = after(told(NewsType.SUBSCRIPTION_CREATED, 0, described(current_period_end=253_402_300_799)))
    assert state(far).end.year == 9999


def plan(number: int, price: str | None) -> OfferedPlan:
    return OfferedPlan(PlanId(UUID(int=number)), f"Plan {number}", price, NOW + timedelta(seconds=number))


def test_what_is_paid_for_decides_about_the_plan() -> None:
    named = OfferedPlan(PLAN, "Named", "price_old", NOW)
    facets = after(told(NewsType.SUBSCRIPTION_CREATED, 0))
    assert chosen_plan([], facets) is None
    assert chosen_plan([named], Facets()) is None
    assert chosen_plan([plan(1, "price_1")], facets) is None
    assert chosen_plan([named, plan(1, "price_2")], facets) == named
    assert chosen_plan([named, plan(2, "price_1"), plan(1, "price_1")], facets) == plan(1, "price_1")
    same = OfferedPlan(PLAN, "Named", "price_1", NOW + timedelta(days=1))
    assert chosen_plan([same, plan(1, "price_1")], facets) == same
    # The metadata are gone, or are another person's now: the first valid ones count.
    later = after(told(NewsType.SUBSCRIPTION_UPDATED, 5, described(metadata={})), facets=facets)
    assert chosen_plan([named], later) == named
    later = after(told(NewsType.SUBSCRIPTION_UPDATED, 5, described(metadata={**IDS, "plan_id": IDS["org_id"]})), facets=facets)
    assert chosen_plan([named], later) == named


def managed(external_id: str, *news: News, **more: Any) -> Managed:
    return Managed(external_id, after(*news), **more)


def test_of_several_that_live_one_counts() -> None:
    old = managed("sub_1", told(NewsType.SUBSCRIPTION_CREATED, 0))
    young = managed("sub_2", told(NewsType.SUBSCRIPTION_CREATED, 0, described(created=SECOND)))
    over = managed("sub_3", told(NewsType.SUBSCRIPTION_DELETED, 0, described("canceled", created=SECOND + 5)))
    nothing = managed("sub_4", told(NewsType.PAID, 0, invoice(5)))
    assert leading([old, young, over, nothing]) == young
    assert leading([over, nothing]) is None
    wanted = [wanted_of(one, plan(1, None), young) for one in (old, young, over)]
    assert [one.status for one in wanted if one] == [SubscriptionStatus.EXPIRED, SubscriptionStatus.ACTIVE, SubscriptionStatus.CANCELLED]
    assert wanted_of(nothing, plan(1, None), young) is None


def test_what_was_set_through_the_api_holds_until_newer_news() -> None:
    first = told(NewsType.SUBSCRIPTION_CREATED, 0)
    known = managed("sub_1", first, overridden_at=NOW + timedelta(seconds=5.5))
    assert override_holds(known, known.facets)
    older, newer = told(NewsType.PAID, 3, invoice(5)), told(NewsType.PAYMENT_FAILED, 5, invoice(5))
    assert override_holds(managed("sub_1", first, older, overridden_at=known.overridden_at), known.facets)
    assert not override_holds(managed("sub_1", first, newer, overridden_at=known.overridden_at), known.facets)
    assert not override_holds(managed("sub_1", first), Facets())
    assert not override_holds(managed("sub_1", overridden_at=NOW), Facets())


def test_what_is_worth_a_mail() -> None:
    asks = told(NewsType.ACTION_REQUIRED, 5, invoice(5))
    assert not still_asks(asks, Facets())
    first = told(NewsType.SUBSCRIPTION_CREATED, 0)
    assert still_asks(asks, after(first, asks))
    assert not still_asks(asks, after(first, asks, told(NewsType.PAID, 6, invoice(5))))
    assert still_asks(asks, after(first, asks, told(NewsType.PAID, 4, invoice(5))))
    assert not still_asks(asks, after(first, told(NewsType.SUBSCRIPTION_DELETED, 9)))
    assert is_late(first, NOW + timedelta(days=4))
    assert not is_late(first, NOW)


@pytest.mark.parametrize(
    "thing",
    [
        {**described(), "customer": {"id": "cus_1", "object": "customer"}},
        {**described(), "current_period_end": None, "items": {"data": [{"price": "price_1", "current_period_end": SECOND + 1000}]}},
        {**described(), "items": {"data": [{"plan": {"id": "price_1"}}]}},
        {**described(), "created": None, "start_date": SECOND - 100},
    ],
)
def test_both_forms_of_the_providers_objects_are_read(thing: dict[str, Any]) -> None:
    assert subscription_of(thing) == subscription_of(described())


def test_odd_parts_are_left_out() -> None:
    odd = described(
        items={"data": "x"}, metadata="x", current_period_end=True, ended_at=-5, created="1", cancel_at="never", start_date=10**20
    )
    _, snapshot = subscription_of(odd)
    assert snapshot == Snapshot("active", "cus_1", 0, None, None, None, None, claims=False)
    two = described(items={"data": [{"price": "a"}, {"price": "b"}, 5, {}]}, metadata={**IDS, "plan_id": 5})
    _, snapshot = subscription_of(two)
    assert (snapshot.price, snapshot.names, snapshot.claims) == (None, None, True)
    upper = described(metadata={**IDS, "user_id": "0000000000007000800000000000000A"})
    assert subscription_of(upper)[1].names is None
    with pytest.raises(BadRequest):
        subscription_of({"id": "x" * 300})


def test_a_deletion_says_by_its_type_what_became_of_the_subscription() -> None:
    bare = {"id": "sub_1", "customer": "cus_1"}
    snapshot = told(NewsType.SUBSCRIPTION_DELETED, 0, bare).snapshot
    assert snapshot is not None
    assert snapshot.status == "canceled"
    with pytest.raises(BadRequest):
        told(NewsType.SUBSCRIPTION_UPDATED, 0, bare)


def test_what_an_invoice_is_about() -> None:
    def subject(**thing: Any) -> str | None:
        return told(NewsType.PAYMENT_FAILED, 0, {"id": "in_1", **thing}).subject

    assert subject(subscription="sub_1") == "sub_1"
    assert subject(subscription=None, parent={"subscription_details": {"subscription": "sub_1"}}) == "sub_1"
    assert subject(parent={"subscription_details": None}) is None
    assert subject(parent=None) is None


def test_news_are_counted_under_few_names() -> None:
    assert told(NewsType.PAID, 0, invoice(1)).label == "invoice.paid"
    assert news_of(_json({"id": "evt_1", "type": "x" * 50, "created": 5})).label == "other"
    assert told(NewsType.CUSTOMER_CREATED, 0, {"id": "cus_1", "metadata": {"customer_key": IDS["org_id"]}}).key == UUID(IDS["org_id"])
    assert told(NewsType.CUSTOMER_DELETED, 0, {"id": "cus_1"}).is_about_customer
    assert told(NewsType.CHECKOUT_COMPLETED, 0, {"id": "cs_1", "subscription": "sub_9"}).subject == "sub_9"
    assert told(NewsType.PAID, 0, invoice(1)).at == NOW
