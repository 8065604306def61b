"""Plans and subscriptions of an application, and amounts of money."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.formats import Json, timestamp
from core.domain.identifiers import ApiKeyId, OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.identity.sessions import SubscriptionState
from core.domain.lines import one_line
from core.domain.record.events import SYSTEM, Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.tenancy.teams import free_slug, slug_stem
from core.frozen import Frozen, names_of, replace

SUBSCRIPTION_TOPIC: Final = "subscriptions"
"""The doorbell's topic for periods that end at another time than before."""

# The limit for one service. A list shows all of its plans at once.
MOST_PLANS: Final = 100
LONGEST_NAME: Final = 100
LONGEST_FEATURE: Final = 100
LONGEST_PRICE_ID: Final = 255
# The largest number of the database's integer type: more than twenty million in any currency.
HIGHEST_PRICE: Final = 2**31 - 1
# Every access token of the service contains the features as JSON in ASCII. The token travels in a header, and all headers share 8 KiB.
LARGEST_FEATURES: Final = 2048
_CURRENCY_LETTERS: Final = 3
_KEY: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?")


class PlanTerms(Frozen, kw_only=True):
    """`billing_price_id` is the price at the payment provider. A plan without one cannot be bought."""

    name: str
    price_cents: int
    currency: str
    features: Sequence[str] = ()
    billing_price_id: str | None = None


class WantedPlan(PlanTerms, kw_only=True):
    """A plan that is about to be created. Without a key, it gets one made of its name."""

    key: str | None = None


class PlanChange(RecordChange, kw_only=True):
    """A `billing_price_id` of None removes the price id."""

    name: str | Unchanged = UNCHANGED
    price_cents: int | Unchanged = UNCHANGED
    currency: str | Unchanged = UNCHANGED
    features: Sequence[str] | Unchanged = UNCHANGED
    billing_price_id: str | Unchanged | None = UNCHANGED


class Plan(PlanTerms, kw_only=True):
    """An offer of an application to its users, with a price."""

    id: PlanId
    service: ServiceId
    key: str
    """The name of the plan for programs and documents: unique in the service. It never changes."""
    created_at: datetime
    updated_at: datetime


class PlanOverview(Frozen):
    """A plan, with the number of its active and past-due subscriptions."""

    plan: Plan
    subscription_count: int


def default_plan(plan: PlanId, service: ServiceId, now: datetime) -> Plan:
    """The plan that every new service begins with."""
    return Plan(
        id=plan,
        service=service,
        key="free",
        name="Free",
        price_cents=0,
        currency="usd",
        features=(),
        billing_price_id=None,
        created_at=now,
        updated_at=now,
    )


def plan_name(text: str) -> str:
    name = one_line(text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def plan_key(text: str) -> str:
    """The key of a new plan. Raises `BadRequest`."""
    if not _KEY.fullmatch(text):
        raise BadRequest(
            "key: 1 to 50 of a-z, 0-9, - and _, with a letter or digit at both ends", words="short_name_malformed", values={"most": 50}
        )
    return text


def free_key(name: str, taken: Collection[str]) -> str:
    """A key for a plan that was given none, made of its name."""
    return free_slug(slug_stem(name, "plan"), taken)


def plan_price(cents: int) -> int:
    if not 0 <= cents <= HIGHEST_PRICE:
        raise BadRequest(f"price_cents: 0 to {HIGHEST_PRICE}", words="field_bounds", values={"least": 0, "most": HIGHEST_PRICE})
    return cents


def plan_currency(text: str) -> str:
    """The currency in lower case."""
    currency = text.strip()
    if len(currency) != _CURRENCY_LETTERS or not (currency.isascii() and currency.isalpha()):
        raise BadRequest("currency: three letters, such as usd", words="currency_malformed")
    return currency.lower()


def plan_features(texts: Sequence[str]) -> tuple[str, ...]:
    """The features, in the order of the request."""
    features = tuple(one_line(text) for text in texts)
    if not all(1 <= len(feature) <= LONGEST_FEATURE for feature in features):
        raise BadRequest(f"features: each 1 to {LONGEST_FEATURE} characters", words="line_length", values={"most": LONGEST_FEATURE})
    if len(set(features)) != len(features):
        raise BadRequest("features: each may appear only once", words="field_once")
    if len(json.dumps(features)) > LARGEST_FEATURES:
        raise BadRequest(
            f"features: together at most {LARGEST_FEATURES} bytes of JSON, since every access token carries them",
            words="features_too_large",
            values={"most": LARGEST_FEATURES},
        )
    return features


def plan_price_id(text: str | None) -> str | None:
    if text is None:
        return None
    identifier = text.strip()
    if not 1 <= len(identifier) <= LONGEST_PRICE_ID or not (identifier.isascii() and identifier.isprintable()):
        raise BadRequest(
            f"billing_price_id: 1 to {LONGEST_PRICE_ID} printable ASCII characters, or null",
            words="ascii_length",
            values={"most": LONGEST_PRICE_ID},
        )
    return identifier


CHECKS: Final[Checks] = {
    "name": plan_name,
    "price_cents": plan_price,
    "currency": plan_currency,
    "features": plan_features,
    "billing_price_id": plan_price_id,
}


def stored_terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms as they are stored. Raises `BadRequest`."""
    return checked(terms, CHECKS)


def plan_created(plan: Plan, organization: OrganizationId, service_slug: str, actor: Actor) -> Event:
    return _event("plan.created", plan, organization, {"service_slug": service_slug, **_terms(plan)}, actor)


def plan_updated(before: Plan, after: Plan, organization: OrganizationId, service_slug: str, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details: dict[str, Json] = {
        "service_slug": service_slug,
        "name": after.name,
        "currency": after.currency,
        **differences(_terms(before), _terms(after)),
    }
    return _event("plan.updated", after, organization, details, actor)


def plan_deleted(plan: Plan, organization: OrganizationId, service_slug: str, actor: Actor) -> Event:
    return _event("plan.deleted", plan, organization, {"service_slug": service_slug, **_terms(plan)}, actor)


def _terms(plan: Plan) -> Mapping[str, Json]:
    return {"key": plan.key, **{name: getattr(plan, name) for name in names_of(PlanTerms)}, "features": list(plan.features)}


def _event(name: str, plan: Plan, organization: OrganizationId, details: Mapping[str, Json], actor: Actor) -> Event:
    return Event(name, actor, Target("plan", str(plan.id)), organization, {"service_id": str(plan.service), **details})


# The period when the caller names none.
PERIOD: Final = timedelta(days=30)
# Every database and client can show every moment of this range in every time zone.
EARLIEST_END: Final = datetime(1970, 1, 2, tzinfo=UTC)
LATEST_END: Final = datetime(9999, 12, 30, tzinfo=UTC)


class SubscriptionStatus(StrEnum):
    """The state of a subscription."""

    ACTIVE = "active"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PAST_DUE = "past_due"

    @property
    def lives(self) -> bool:
        """A user of a service has at most one subscription with such a status. All others are history."""
        return self in {SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE}


class Subscription(Frozen, kw_only=True):
    """A user's plan at an application, and the end of the paid period."""

    id: SubscriptionId
    service: ServiceId
    user: UserId
    plan: PlanId
    plan_name: str
    status: SubscriptionStatus
    current_period_end: datetime
    created_at: datetime
    updated_at: datetime
    managed: bool = False
    """The payment provider bills the subscription, and the provider alone says when it ends."""

    def settled(self, now: datetime) -> "Subscription":
        """The subscription with the status that counts now. An active subscription whose period has ended is expired, even before the
        database says so. A past-due subscription waits for the payment provider, and so does one that the provider manages.
        """
        return replace(self, status=SubscriptionStatus.EXPIRED) if self.has_lapsed(now) else self

    def has_lapsed(self, now: datetime) -> bool:
        """The subscription has expired, and the database does not say so yet."""
        return self.status is SubscriptionStatus.ACTIVE and not self.managed and self.current_period_end <= now


class OwnSubscription(Frozen):
    """The data that people may know about their own subscription."""

    service_slug: str
    state: SubscriptionState


class Occasion(Frozen):
    """The service of a change, and its actor. By default the change has no actor but the system."""

    organization: OrganizationId
    service_slug: str
    actor: Actor = SYSTEM
    key: ApiKeyId | None = None


class Expired(Frozen):
    """A subscription that has just expired. `occasion` is None when its service is being deleted: then there is no event."""

    subscription: Subscription
    occasion: Occasion | None


def period_end(given: datetime) -> datetime:
    """The moment in UTC. Raises `BadRequest`."""
    # The comparison comes first: a moment outside the range cannot be converted to UTC.
    if not EARLIEST_END <= given <= LATEST_END:
        raise BadRequest(
            f"current_period_end: between {EARLIEST_END:%Y-%m-%d} and {LATEST_END:%Y-%m-%d}",
            words="period_end_bounds",
            values={"earliest": f"{EARLIEST_END:%Y-%m-%d}", "latest": f"{LATEST_END:%Y-%m-%d}"},
        )
    return given.astimezone(UTC)


def subscription_created(subscription: Subscription, occasion: Occasion) -> Event:
    return _event_subscription("subscription.created", subscription, occasion)


def subscription_changed(before: Subscription, after: Subscription, occasion: Occasion) -> Event:
    """The event is `subscription.canceled` if that is the new status, otherwise `subscription.updated`. It contains the earlier values."""
    old: Mapping[str, Json] = {"old_status": before.status.value, "old_current_period_end": timestamp(before.current_period_end)}
    cancelled = after.status is SubscriptionStatus.CANCELLED and before.status is not SubscriptionStatus.CANCELLED
    return _event_subscription("subscription.canceled" if cancelled else "subscription.updated", after, occasion, old)


def subscription_deleted(subscription: Subscription, occasion: Occasion) -> Event:
    # The audit log has no event of its own for a deletion. For subscribers of events, the subscription is cancelled.
    return _event_subscription("subscription.canceled", subscription, occasion, {"deleted": True})


def _event_subscription(
    name: str, subscription: Subscription, occasion: Occasion, more: Mapping[str, Json] = MappingProxyType({})
) -> Event:
    details: dict[str, Json] = {
        "service_id": str(subscription.service),
        "service_slug": occasion.service_slug,
        "user_id": str(subscription.user),
        "plan_id": str(subscription.plan),
        "plan_name": subscription.plan_name,
        "status": subscription.status.value,
        "current_period_end": timestamp(subscription.current_period_end),
        **more,
    }
    if occasion.key is not None:
        details["api_key_id"] = str(occasion.key)
    return Event(name, occasion.actor, Target("subscription", str(subscription.id)), occasion.organization, details)


_USUAL: Final = 2
_OTHERS: Final[Mapping[int, str]] = {
    0: "bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf",
    3: "bhd iqd jod kwd lyd omr tnd",
    4: "clf uyw",
}
_DECIMALS: Final = {currency: decimals for decimals, currencies in _OTHERS.items() for currency in currencies.split()}
# A point and a comma both stand before the decimals, and nothing stands between thousands: "1,000" is a thousand dollars to some readers
# and one dinar to others.
_AMOUNT: Final = re.compile(r"(?P<whole>\d{1,10})(?:[.,](?P<part>\d{1,4}))?", re.ASCII)


def decimals_of(currency: str) -> int:
    """How many decimals amounts of this currency have. Two, if nobody knows the currency."""
    return _DECIMALS.get(currency.strip().lower(), _USUAL)


def written(smallest: int, currency: str) -> str:
    """The amount without the currency: 990 is "9.90" in euros and "990" in yen."""
    decimals = decimals_of(currency)
    whole, part = divmod(smallest, 10**decimals)
    return f"{whole}.{part:0{decimals}}" if decimals else str(whole)


def priced(smallest: int, currency: str) -> str:
    """The amount with its currency: "9.90 EUR"."""
    return f"{written(smallest, currency)} {currency.upper()}"


def in_smallest_unit(text: str, currency: str) -> int:
    """Parses an amount of money as people write it: in the currency's own unit, with its number of decimals (ISO 4217). Everything else
    counts in the smallest unit. Raises `BadRequest` for what is no amount of this currency, or more than a price can be.
    """
    found, decimals = _AMOUNT.fullmatch(text.strip()), decimals_of(currency)
    part = "" if found is None else (found["part"] or "").rstrip("0")
    if found is None or len(part) > decimals:
        raise BadRequest("price: an amount with the decimals of its currency", words="amount_malformed")
    smallest = int(found["whole"] + part.ljust(decimals, "0"))
    if smallest > HIGHEST_PRICE:
        raise BadRequest(f"price: at most {written(HIGHEST_PRICE, currency)}", words="amount_malformed")
    return smallest
