"""Billing: the state of subscriptions by the payment provider's events, and hosted checkout."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.services.billing_news import Named, News, NewsType, Snapshot
from core.domain.services.clients import web_page
from core.domain.services.plans import LATEST_END, Subscription, SubscriptionStatus
from core.frozen import Frozen, replace

# The provider retries for days. Nobody gets a mail about older news.
LATE: Final = timedelta(days=3)
# How long after the end of a period we ask the provider. The provider needs an hour or so to bill the next period.
GRACE: Final = timedelta(minutes=15)
# The time between two questions about the same subscription while the answer stays the same.
AGAIN: Final = timedelta(hours=1)
SWEEP: Final = timedelta(days=1)
EVENT_RETENTION: Final = timedelta(days=90)

_STATUSES: Final[Mapping[str, SubscriptionStatus | None]] = {
    "trialing": SubscriptionStatus.ACTIVE,
    "active": SubscriptionStatus.ACTIVE,
    "past_due": SubscriptionStatus.PAST_DUE,
    "unpaid": SubscriptionStatus.PAST_DUE,
    "incomplete": None,
    "incomplete_expired": SubscriptionStatus.EXPIRED,
    "paused": SubscriptionStatus.EXPIRED,
    "canceled": SubscriptionStatus.CANCELLED,
}
# The order of news of the same second. A first payment turns `incomplete` into `active` within one second, and nothing follows the final
# states.
_RANKS: Final[Mapping[str, int]] = {"incomplete": 0, "canceled": 20, "incomplete_expired": 20}
_RANK: Final = 10
_MOST_NAMES: Final = 8
_LOOK: Final = ""
_PRECEDENCES: Final[Mapping[str, int]] = {
    _LOOK: 0,
    NewsType.SUBSCRIPTION_CREATED: 1,
    NewsType.TRIAL_WILL_END: 2,
    NewsType.SUBSCRIPTION_UPDATED: 3,
    NewsType.SUBSCRIPTION_DELETED: 4,
}

Place = tuple[int, int, str]
"""The rank of an item among its kind: the time at the provider, the precedence, the id."""


class Seen(Frozen):
    """A description of the subscription. `since` is when it began to be true, as far as we know: a new look with the same result does not
    change it.
    """

    place: Place
    snapshot: Snapshot
    since: int


class Paid(Frozen):
    place: Place
    until: int | None


class Said(Frozen):
    """The ids that the metadata named, and when it first named them."""

    created: int
    names: Named


class State(Frozen):
    """The state of a subscription. `status` is None when the subscription has not begun. `news_at` is the time of the newest news."""

    status: SubscriptionStatus | None
    end: datetime
    started: datetime
    snapshot: Snapshot
    news_at: int
    is_over: bool

    @property
    def lives(self) -> bool:
        return self.status is not None and self.status.lives


class Facets(Frozen):
    """Of each subscription at the provider we store a few facets. Each facet is the greatest item of its kind that any event contained:
    first by the time at the provider, then by precedence, then by ID. The greatest item of a set depends neither on the order of the items
    nor on repetitions, so events may arrive in any order, and more than once. The state of the subscription follows from its facets alone.
    """

    seen: Seen | None = None
    paid: Paid | None = None
    failed: Place | None = None
    deleted: Place | None = None
    said: Sequence[Said] = ()
    is_doubtful: bool = False
    """Two different descriptions have the same time, so only the provider can tell which of them is true."""

    def after(self, news: News) -> "Facets":
        """The facets with this news added. The order of the news makes no difference, and neither does adding the same news twice."""
        kind = news.handled
        place: Place = (news.created, _PRECEDENCES.get(news.type, 0), news.id)
        facets = self
        if news.snapshot is not None:
            rank = _RANKS.get(news.snapshot.status, _RANK)
            place = (news.created, rank + place[1], news.id)
            facets = facets.with_seen(Seen(place, news.snapshot, news.created)).with_names(news.snapshot, news.created)
        if kind is NewsType.SUBSCRIPTION_DELETED:
            facets = replace(facets, deleted=_greatest(facets.deleted, place))
        elif kind is NewsType.PAID and (facets.paid is None or facets.paid.place < place):
            facets = replace(facets, paid=Paid(place, news.paid_until))
        elif kind is NewsType.PAYMENT_FAILED:
            facets = replace(facets, failed=_greatest(facets.failed, place))
        return facets

    def with_seen(self, seen: Seen) -> "Facets":
        known = self.seen
        if known is None:
            return replace(self, seen=seen)
        higher, lower = max(known, seen, key=_place), min(known, seen, key=_place)
        doubtful = self.is_doubtful if known is higher else False
        if higher.place[:2] == lower.place[:2] and higher.snapshot != lower.snapshot:
            doubtful = True
        return replace(self, seen=higher, is_doubtful=doubtful)

    def with_names(self, snapshot: Snapshot, created: int) -> "Facets":
        """The earliest names win, because our own checkout wrote the first ones."""
        if snapshot.names is None:
            return self
        since = {one.names: one.created for one in self.said}
        since[snapshot.names] = min(created, since.get(snapshot.names, created))
        said = sorted((Said(at, names) for names, at in since.items()), key=lambda one: (one.created, str(one.names)))
        return replace(self, said=tuple(said[:_MOST_NAMES]))

    def looked(self, snapshot: Snapshot, at: int) -> "Facets":
        """The facets after a look at the provider, at this time of the provider's clock. The description that we saw overrides everything
        that happened before.
        """
        known = self.seen
        same = known is not None and known.snapshot == snapshot and self.deleted is None and not self._has_newer_invoice(known)
        place: Place = (at, _RANKS.get(snapshot.status, _RANK) + _PRECEDENCES[_LOOK], _LOOK)
        if known is not None and (known.place[0], known.place[2]) > (at, _LOOK):
            # The provider itself has sent news of this very second, or of a later one.
            return replace(self, is_doubtful=self.is_doubtful or (known.place[0] == at and known.snapshot != snapshot))
        return replace(self, seen=Seen(place, snapshot, known.since if same and known is not None else at), is_doubtful=False).with_names(
            snapshot, at
        )

    def _has_newer_invoice(self, seen: Seen) -> bool:
        invoices = [place for place in (self.failed, None if self.paid is None else self.paid.place) if place is not None]
        return any(place[0] > seen.place[0] for place in invoices)

    @property
    def is_open(self) -> bool:
        """Whether only the provider can tell how things stand: two different descriptions have the same time, or a payment of the second of
        the description says otherwise, and may be older or newer than it.
        """
        if self.is_doubtful:
            return True
        if self.seen is None or self.deleted is not None:
            return False
        at = self.seen.place[0]
        status = _STATUSES.get(self.seen.snapshot.status, SubscriptionStatus.PAST_DUE)
        return status is not None and status.lives and self._by_invoices(status, at) is not self._by_invoices(status, at - 1)

    def state(self) -> State | None:
        """None while no news has described the subscription itself."""
        if self.seen is None:
            return None
        snapshot, seen_at = self.seen.snapshot, self.seen.place[0]
        # A status that we do not know does not end the subscription.
        status = _STATUSES.get(snapshot.status, SubscriptionStatus.PAST_DUE)
        is_over = self.deleted is not None or snapshot.is_over
        end = snapshot.end
        if self.deleted is not None:
            status = SubscriptionStatus.CANCELLED
        elif status is None:
            if self.paid is not None and self.paid.place[0] >= seen_at:
                status = SubscriptionStatus.ACTIVE
        elif status.lives:
            status, end = self._by_invoices(status, seen_at), self._paid_end(seen_at, end)
        if is_over and snapshot.ended is not None:
            end = snapshot.ended
        times = [self.seen.since, *(place[0] for place in (self.failed, self.deleted) if place is not None)]
        if self.paid is not None:
            times.append(self.paid.place[0])
        return State(status, _moment(end or snapshot.started), _moment(snapshot.started), snapshot, max(times), is_over)

    def _by_invoices(self, status: SubscriptionStatus, seen_at: int) -> SubscriptionStatus:
        """The status in the subscription's description, unless an invoice was paid or failed later. If one was paid and one failed in the
        same second, the subscription counts as paid.
        """
        paid = self.paid.place[0] if self.paid is not None and self.paid.place[0] > seen_at else 0
        failed = self.failed[0] if self.failed is not None and self.failed[0] > seen_at else 0
        if not paid and not failed:
            return status
        return SubscriptionStatus.ACTIVE if paid >= failed else SubscriptionStatus.PAST_DUE

    def _paid_end(self, seen_at: int, end: int | None) -> int | None:
        if self.paid is None or self.paid.until is None or self.paid.place[0] < seen_at:
            return end
        return self.paid.until if end is None else max(end, self.paid.until)

    def as_json(self) -> dict[str, Json]:
        seen, paid = self.seen, self.paid
        return {
            "seen": None if seen is None else {"place": list(seen.place), "snapshot": seen.snapshot.as_json(), "since": seen.since},
            "paid": None if paid is None else {"place": list(paid.place), "until": paid.until},
            "failed": None if self.failed is None else list(self.failed),
            "deleted": None if self.deleted is None else list(self.deleted),
            "said": [[one.created, one.names.as_json()] for one in self.said],
            "is_doubtful": self.is_doubtful,
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Facets":
        seen, paid = kept.get("seen"), kept.get("paid")
        return cls(
            seen=None if seen is None else Seen(_kept(seen["place"]), Snapshot.of_json(seen["snapshot"]), seen["since"]),
            paid=None if paid is None else Paid(_kept(paid["place"]), paid["until"]),
            failed=None if kept.get("failed") is None else _kept(kept["failed"]),
            deleted=None if kept.get("deleted") is None else _kept(kept["deleted"]),
            said=tuple(Said(int(created), Named.of_json(names)) for created, names in kept.get("said", ())),
            is_doubtful=bool(kept.get("is_doubtful")),
        )


def _place(seen: Seen) -> Place:
    return seen.place


def _greatest(known: Place | None, place: Place) -> Place:
    return place if known is None or known < place else known


def _kept(place: Sequence[Any]) -> Place:
    created, precedence, identifier = place
    return (int(created), int(precedence), str(identifier))


def _moment(seconds: int) -> datetime:
    return min(datetime.fromtimestamp(seconds, UTC), LATEST_END)


class Buyer(Frozen):
    """The person who subscribes, and the service and organization of the subscription."""

    organization: OrganizationId
    service: ServiceId
    service_slug: str
    user: UserId


class OfferedPlan(Frozen):
    """A plan of the service. It may have been deleted after somebody bought it."""

    id: PlanId
    name: str
    price: str | None
    created_at: datetime


class Managed(Frozen):
    """A subscription at the provider, with our own record of it. `plan` is the plan that it was for when we last determined it."""

    external_id: str
    facets: Facets
    customer: str | None = None
    plan: PlanId | None = None
    record: Subscription | None = None
    overridden_at: datetime | None = None
    is_released: bool = False


class WantedSubscription(Frozen):
    """Our own record as it should be. `id` is None when there is no record yet."""

    of: Managed
    id: SubscriptionId | None
    plan: PlanId
    plan_name: str
    status: SubscriptionStatus
    end: datetime
    started: datetime


def chosen_plan(plans: Sequence[OfferedPlan], facets: Facets) -> OfferedPlan | None:
    """The plan whose price is paid; after that, the plan that the metadata names. A subscriber may have changed the plan at the provider,
    and a plan may have got a new price since. None when the metadata has never named a plan of the service.
    """
    if facets.seen is None:
        return None
    by_id = {plan.id: plan for plan in plans}
    snapshot = facets.seen.snapshot
    said = [by_id[one.names.plan] for one in facets.said if one.names.plan in by_id]
    if not said:
        return None
    named = said[0] if snapshot.names is None else by_id.get(snapshot.names.plan, said[0])
    paid_for = sorted((plan for plan in plans if snapshot.price is not None and plan.price == snapshot.price), key=_age)
    return named if named in paid_for or not paid_for else paid_for[0]


def _age(plan: OfferedPlan) -> tuple[datetime, str]:
    return plan.created_at, str(plan.id)


def leading(managed: Sequence[Managed]) -> Managed | None:
    """The subscription that counts among several living ones: the youngest. Nobody should have two, but it happens."""
    living = [(state.started, one.external_id, one) for one in managed if (state := one.facets.state()) is not None and state.lives]
    return max(living, key=lambda found: found[:2])[2] if living else None


def wanted_of(one: Managed, plan: OfferedPlan, leader: Managed | None) -> WantedSubscription | None:
    """None when the subscription has not begun. A second living subscription counts as expired, until the one that counts is over."""
    state = one.facets.state()
    if state is None or state.status is None:
        return None
    counts = leader is not None and leader.external_id == one.external_id
    status = SubscriptionStatus.EXPIRED if state.lives and not counts else state.status
    return WantedSubscription(one, None if one.record is None else one.record.id, plan.id, plan.name, status, state.end, state.started)


def override_holds(one: Managed, before: Facets) -> bool:
    """Whether a status that was set through the API still holds. It holds until newer news arrives."""
    state = one.facets.state()
    if one.overridden_at is None or state is None:
        return False
    return one.facets == before or state.news_at < int(one.overridden_at.timestamp())


def kept_by_override(overridden: Sequence[Managed], leader: Managed | None) -> set[str]:
    """The ids of the subscriptions whose record stays as it was set through the API. If by the provider's news another subscription lives,
    no record that is alive by hand stays: only one subscription lives.
    """
    one_lives = leader is not None and leader.external_id not in {one.external_id for one in overridden}
    return {one.external_id for one in overridden if not one_lives or one.record is None or not one.record.status.lives}


def next_check(facets: Facets, now: datetime, *, told: bool) -> datetime | None:
    """When to ask the provider about this subscription alone. None when the daily look at all subscriptions is enough. `told` is False
    after we have just asked.
    """
    state = facets.state()
    if state is None or facets.is_open:
        return now if told else now + AGAIN
    if state.is_over:
        return None
    if state.status is None:
        return now + AGAIN
    if not state.lives:
        return None
    due = state.end + GRACE
    return due if due > now else now if told else now + AGAIN


def is_late(news: News, now: datetime) -> bool:
    return now - news.at > LATE


def still_asks(news: News, facets: Facets) -> bool:
    """Whether a payment that needed the person's action still needs it."""
    state = facets.state()
    return state is not None and not state.is_over and (facets.paid is None or facets.paid.place[0] < news.created)


# The provider accepts no less than half an hour.
CHECKOUT_LIFETIME: Final = timedelta(hours=1)
# For so long, an equal request gets the same checkout. The rest of the checkout's hour is enough to pay.
REPEATED_WITHIN: Final = timedelta(minutes=25)
# The provider forgets idempotency keys after a day.
KEY_LIFETIME: Final = timedelta(hours=20)
_SESSION: Final = "{CHECKOUT_SESSION_ID}"


def return_address(text: str, field: str, redirect_uris: Iterable[str], *, names_session: bool = False) -> str:
    """Returns the URL to which a user returns from the hosted checkout, unchanged. It must be on the origin of one of the application's
    redirect URIs, to which users are sent anyway. Raises `BadRequest`, which names the field.
    """
    read = web_page(text.replace(_SESSION, "session") if names_session else text, field)
    if _origin(read) not in set(map(_origin, redirect_uris)):
        raise BadRequest(f"{field}: must be on an origin of the service's redirect URIs", words="origin_of_redirect")
    return text


def _origin(address: str) -> tuple[str, str] | None:
    parts = urlsplit(address)
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme)
    return None if usual is None else (parts.scheme, parts.netloc.lower().removesuffix(usual))


def digest_of(*parts: str) -> str:
    """A digest that tells two requests apart without storing them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_repeated(digest: str, last_digest: str, asked_at: datetime, now: datetime) -> bool:
    """Returns whether a checkout request repeats the last one."""
    return digest == last_digest and now - asked_at < REPEATED_WITHIN
