"""Plans: the offers of a service to its users, each with a price."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from core.domain.changes import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, PlanId, ServiceId
from core.domain.json import Json
from core.domain.lines import one_line
from core.domain.record.differences import differences
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.teams import free_slug, slug_stem
from core.frozen import Frozen, names_of

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


_CHECKS: Final[Checks] = {
    "name": plan_name,
    "price_cents": plan_price,
    "currency": plan_currency,
    "features": plan_features,
    "billing_price_id": plan_price_id,
}


def stored_terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms as they are stored. Raises `BadRequest`."""
    return checked(terms, _CHECKS)


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
