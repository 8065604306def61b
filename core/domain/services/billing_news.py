"""Webhook events of the payment provider, reduced to the parts that Postern stores: no name, no email address, no card."""

import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, UserId
from core.domain.secrets import Secret
from core.frozen import Frozen, names_of

BILLING_TOPIC: Final = "billing"
"""The doorbell's topic for news of the payment provider that somebody wants to be applied again."""

LONGEST_ID: Final = 255
# The year 9999, in seconds.
_LATEST: Final = 253_402_300_799
_OTHER: Final = "other"
_FINAL: Final = frozenset({"canceled", "incomplete_expired"})


class NewsType(StrEnum):
    """The types that we handle. Other types are accepted and have no effect."""

    SUBSCRIPTION_CREATED = "customer.subscription.created"
    SUBSCRIPTION_UPDATED = "customer.subscription.updated"
    SUBSCRIPTION_DELETED = "customer.subscription.deleted"
    TRIAL_WILL_END = "customer.subscription.trial_will_end"
    PAID = "invoice.paid"
    PAYMENT_FAILED = "invoice.payment_failed"
    ACTION_REQUIRED = "invoice.payment_action_required"
    CUSTOMER_CREATED = "customer.created"
    CUSTOMER_UPDATED = "customer.updated"
    CUSTOMER_DELETED = "customer.deleted"
    PAYMENT_METHOD_ATTACHED = "payment_method.attached"
    PAYMENT_METHOD_DETACHED = "payment_method.detached"
    CHECKOUT_COMPLETED = "checkout.session.completed"


_SUBSCRIPTIONS: Final = frozenset(
    {NewsType.SUBSCRIPTION_CREATED, NewsType.SUBSCRIPTION_UPDATED, NewsType.SUBSCRIPTION_DELETED, NewsType.TRIAL_WILL_END}
)
_INVOICES: Final = frozenset({NewsType.PAID, NewsType.PAYMENT_FAILED, NewsType.ACTION_REQUIRED})
_CUSTOMERS: Final = frozenset({NewsType.CUSTOMER_CREATED, NewsType.CUSTOMER_UPDATED, NewsType.CUSTOMER_DELETED})


class Named(Frozen):
    """The ids in our own metadata on a subscription. They count only when the organization, the service, the person and
    the plan belong together.
    """

    organization: OrganizationId
    service: ServiceId
    user: UserId
    plan: PlanId

    def as_json(self) -> dict[str, Json]:
        return {
            "organization": str(self.organization),
            "service": str(self.service),
            "user": str(self.user),
            "plan": str(self.plan),
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Named":
        organization, service, user, plan = (UUID(kept[part]) for part in ("organization", "service", "user", "plan"))
        return cls(OrganizationId(organization), ServiceId(service), UserId(user), PlanId(plan))


class Snapshot(Frozen):
    """A subscription as the provider describes it. Times are in seconds, as the provider gives them. `names` is None when the metadata is
    not ours, or is invalid; `claims` is True in the second case.
    """

    status: str
    customer: str
    started: int
    end: int | None
    ended: int | None
    price: str | None
    names: Named | None
    claims: bool

    @property
    def is_over(self) -> bool:
        return self.status in _FINAL

    def as_json(self) -> dict[str, Json]:
        parts: dict[str, Json] = {name: getattr(self, name) for name in names_of(self)}
        return {**parts, "names": None if self.names is None else self.names.as_json()}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Snapshot":
        return cls(**{**kept, "names": None if kept["names"] is None else Named.of_json(kept["names"])})


class News(Frozen):
    """`subject` is the id of the subscription or the customer that the news is about, if any. `key` is the mark that we put on a customer
    when we asked the provider to create it.
    """

    id: str
    type: str
    created: int
    livemode: bool
    subject: str | None = None
    snapshot: Snapshot | None = None
    paid_until: int | None = None
    customer: str | None = None
    key: UUID | None = None

    @property
    def handled(self) -> NewsType | None:
        return NewsType(self.type) if self.type in set(NewsType) else None

    @property
    def is_about_customer(self) -> bool:
        return self.handled in _CUSTOMERS

    @property
    def label(self) -> str:
        """The label for metrics, of which there must be few."""
        return self.type if self.handled is not None else _OTHER

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.created, UTC)

    def as_json(self) -> dict[str, Json]:
        return {
            "livemode": self.livemode,
            "snapshot": None if self.snapshot is None else self.snapshot.as_json(),
            "paid_until": self.paid_until,
            "customer": self.customer,
            "key": None if self.key is None else str(self.key),
        }

    @classmethod
    def of_json(cls, id: str, type: str, created: int, subject: str | None, kept: Mapping[str, Any]) -> "News":  # noqa: A002 - its words
        return cls(
            id,
            type,
            created,
            kept["livemode"],
            subject,
            None if kept["snapshot"] is None else Snapshot.of_json(kept["snapshot"]),
            kept["paid_until"],
            kept["customer"],
            None if kept["key"] is None else UUID(kept["key"]),
        )


def news_of(body: bytes) -> News:
    """Reads both forms of the provider's objects. Older ones have the period on the subscription, and the subscription on the invoice.
    Newer ones have the period on the subscription's items, and the subscription in the invoice's `parent`.

    Reads a body whose signature is good. Raises `BadRequest` when the body is not an event. An event of a type that we do not handle may
    have any content.
    """
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not JSON") from None
    if not isinstance(event, dict):
        raise BadRequest("The body is not an event")
    data = event.get("data")
    thing = data.get("object") if isinstance(data, dict) else None
    identifier, name, created = _id(event, "id"), _id(event, "type"), _moment(event.get("created"))
    if identifier is None or name is None or created is None:
        raise BadRequest("The event has no id, type or time")
    bare = News(identifier, name, created, event.get("livemode") is True)
    if bare.handled is None:
        return bare
    if not isinstance(thing, dict):
        raise BadRequest("The event has no object")
    return _read(bare, bare.handled, thing)


def _read(bare: News, kind: NewsType, thing: Mapping[str, Any]) -> News:
    about: dict[str, Any] = {"customer": _id(thing, "customer")}
    if kind in _SUBSCRIPTIONS:
        # News of a deletion need not contain the status, because their type says it.
        said = {"status": "canceled", **thing} if kind is NewsType.SUBSCRIPTION_DELETED else thing
        about["subject"], about["snapshot"] = subscription_of(said)
    elif kind in _INVOICES:
        about["subject"] = _subscription_of_invoice(thing)
        about["paid_until"] = _paid_until(thing) if kind is NewsType.PAID else None
    elif kind is NewsType.CHECKOUT_COMPLETED:
        about["subject"] = _id(thing, "subscription")
    elif kind in _CUSTOMERS:
        about["subject"] = about["customer"] = _id(thing, "id")
        about["key"] = _uuid(_metadata(thing).get("customer_key"))
    return News(bare.id, bare.type, bare.created, bare.livemode, **about)


def subscription_of(thing: Mapping[str, Any]) -> tuple[str, Snapshot]:
    """The id and the state of a subscription. Raises `BadRequest`."""
    identifier, status, customer = _id(thing, "id"), _id(thing, "status"), _id(thing, "customer")
    if identifier is None or status is None or customer is None:
        raise BadRequest("The subscription has no id, status or customer")
    items = _rows(thing.get("items"))
    ends = [end for item in items if (end := _moment(item.get("current_period_end"))) is not None]
    end = _moment(thing.get("current_period_end"))
    prices = [price for item in items if (price := _price(item)) is not None]
    metadata = _metadata(thing)
    return identifier, Snapshot(
        status=status,
        customer=customer,
        started=_moment(thing.get("created")) or _moment(thing.get("start_date")) or 0,
        end=max(ends, default=None) if end is None else end,
        ended=_moment(thing.get("ended_at")),
        # Only one of several items may be ours, and nobody could tell which.
        price=prices[0] if len(prices) == 1 else None,
        names=_names(metadata),
        claims=any(part in metadata for part in ("org_id", "service_id", "user_id", "plan_id")),
    )


def _names(metadata: Mapping[str, Any]) -> Named | None:
    organization, service, user, plan = (_uuid(metadata.get(part)) for part in ("org_id", "service_id", "user_id", "plan_id"))
    if organization is None or service is None or user is None or plan is None:
        return None
    return Named(OrganizationId(organization), ServiceId(service), UserId(user), PlanId(plan))


def _subscription_of_invoice(thing: Mapping[str, Any]) -> str | None:
    old = _id(thing, "subscription")
    if old is not None:
        return old
    parent = thing.get("parent")
    details = parent.get("subscription_details") if isinstance(parent, dict) else None
    return _id(details, "subscription") if isinstance(details, dict) else None


def _paid_until(thing: Mapping[str, Any]) -> int | None:
    """The end of the longest period that the invoice is for. The invoice's own period is the previous one."""
    periods = [line.get("period") for line in _rows(thing.get("lines"))]
    ends = [end for period in periods if isinstance(period, dict) and (end := _moment(period.get("end"))) is not None]
    return max(ends, default=None)


def _price(item: Mapping[str, Any]) -> str | None:
    for name in ("price", "plan"):
        price = _id(item, name)
        if price is not None:
            return price
    return None


def _rows(listed: Any) -> Sequence[Mapping[str, Any]]:
    rows = listed.get("data") if isinstance(listed, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _metadata(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = thing.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _id(thing: Mapping[str, Any], name: str) -> str | None:
    """The id in this field. The provider may put the whole object in the place of its id."""
    value = thing.get(name)
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isascii() and value.isprintable() else None


def _moment(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LATEST else None


def _uuid(value: Any) -> UUID | None:
    try:
        parsed = UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return parsed if str(parsed) == value else None


SIGNATURE_TOLERANCE: Final = timedelta(minutes=5)
_LONGEST: Final = 4096
# During a change of secrets, the provider signs with each of them. Nobody has more than a few.
_MOST_SIGNATURES: Final = 16
_DIGITS: Final = 12
_SCHEME: Final = "v1"


def require_header(header: str | None) -> str:
    """Raises `BadRequest`."""
    if header is None:
        raise BadRequest("The header billing-signature is missing")
    return header


def require_text(body: bytes) -> None:
    """Raises `BadRequest`."""
    try:
        body.decode()
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8") from None


def require_signature(header: str, body: bytes, secrets: Sequence[Secret], now: datetime) -> None:
    """Verifies the signature of the payment provider: `t=<seconds>,v1=<hex>`, perhaps with several `v1` and with schemes that Postern does
    not know.

    Raises `Unauthorized` unless one of the secrets has signed this very body within five minutes before or after now: the provider's clock
    and ours may differ. All signatures are compared with all secrets, so the time that this takes does not tell which one matched.
    """
    stamp, signatures = _parts(header)
    message = stamp.encode() + b"." + body
    expected = [hmac.new(secret.reveal().encode(), message, "sha256").hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one, signature.encode()) for one in expected for signature in signatures]
    if not any(matches):
        raise Unauthorized("The signature does not match")
    if abs(int(stamp) - now.timestamp()) > SIGNATURE_TOLERANCE.total_seconds():
        raise Unauthorized("The signature is too old, or the clocks differ by more than five minutes")


def _parts(header: str) -> tuple[str, Sequence[str]]:
    if len(header) > _LONGEST or not header.isascii():
        raise Unauthorized("The signature header cannot be read")
    parts = [part.strip().partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == _SCHEME]
    if len(stamps) != 1 or not stamps[0].isdigit() or len(stamps[0]) > _DIGITS or not 0 < len(signatures) <= _MOST_SIGNATURES:
        raise Unauthorized("The signature header cannot be read")
    return stamps[0], signatures
