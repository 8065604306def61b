"""Processes webhook events of the payment provider."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.branding import Branding, mailed_logo
from core.domain.errors import Overloaded, Unauthorized, Unavailable
from core.domain.identifiers import SubscriptionId
from core.domain.secrets import Secret
from core.domain.services.billing import (
    Buyer,
    Facets,
    Managed,
    WantedSubscription,
    chosen_plan,
    is_late,
    kept_by_override,
    leading,
    next_check,
    override_holds,
    still_asks,
    wanted_of,
)
from core.domain.services.billing_news import News, NewsType, Snapshot, news_of, require_header, require_signature, require_text
from core.domain.services.plans import Occasion, Subscription, SubscriptionStatus, subscription_changed, subscription_created
from core.frozen import Frozen, replace
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.services.billing import (
    BillingInbox,
    BillingOutcome,
    Customer,
    HeldSubscription,
    LikelyBuyer,
    ListedEvent,
    SettledBillingEvent,
    WaitingBillingEvents,
)
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_PAUSE: Final = timedelta(seconds=30)
_FOREIGN: Final = "customer, organization, service, plan and person do not belong together"
_OTHER_CUSTOMER: Final = "the subscription belongs to another customer"


class Receiving(Frozen):
    """The settings for receiving news. The provider signs the news with one of the `secrets`; without secrets, billing is not set up.
    `livemode` is the mode of our own key at the provider, and None when the key does not tell its mode.
    """

    secrets: Sequence[Secret] = ()
    livemode: bool | None = None


class _Moved(Exception):
    pass


class Billing(Frozen):
    """`take` commits an event as one row, so no later error loses it. `apply` brings our records in line with all events of a subscription
    or customer, and may be repeated.
    """

    unit_of_work: UnitOfWorkFactory
    inbox: BillingInbox
    receiving: Receiving
    templates: MailTemplates
    metrics: Metrics
    system: System

    async def take(self, signature: str | None, body: bytes) -> News | None:
        """Store the news and return them. Returns None when the news need no further work: they came before, or are ignored. Raises
        `BadRequest` and `Unauthorized`.
        """
        now = self.system.clock.now()
        signature = require_header(signature)
        require_text(body)
        if not self.receiving.secrets:
            raise Unauthorized("Billing is not set up on this installation")
        require_signature(signature, body, self.receiving.secrets, now)
        news = news_of(body)
        outcome = self._outcome_at_once(news)
        if not await self.inbox.take(news, outcome, now):
            self.metrics.billing_event(news.label, "repeated")
            return None
        if outcome is not None:
            self.metrics.billing_event(news.label, outcome.value)
            return None
        return news

    def _outcome_at_once(self, news: News) -> BillingOutcome | None:
        if self.receiving.livemode not in {None, news.livemode}:
            log.info("billing_event_of_other_mode", event_id=news.id, livemode=news.livemode)
            return BillingOutcome.IGNORED
        return BillingOutcome.IGNORED if news.subject is None else None

    async def apply(self, subject: str, *, is_customer: bool) -> bool:
        """Apply all waiting news of this subscription or customer. Returns False after a failure: it is stored, and the news are tried
        again later. Raises `Unavailable` and `Overloaded`.
        """
        try:
            if is_customer:
                await self._apply_to_customer(subject)
            else:
                await self.observe(subject, None, 0)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:
            log.exception("billing_event_failed", subject=subject)
            await self.inbox.failed(subject, type(error).__name__, self.system.clock.now() + _PAUSE)
            return False
        return True

    async def observe(self, subject: str, look: Snapshot | None, looked_at: int) -> bool:
        """Apply the waiting news of a subscription and, if it is not None, `look`: the provider's description at `looked_at`. Returns True
        when a record of ours changed.
        """
        try:
            return await self._observe(subject, look, looked_at, again=True)
        except _Moved:
            # The buyer changed between the look-up and the locks. If the second try finds the same, the service is being deleted.
            return await self._observe(subject, look, looked_at, again=False)

    async def _observe(self, subject: str, look: Snapshot | None, looked_at: int, *, again: bool) -> bool:
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            candidate = await uow.billing.candidate(subject, look)
            place: Customer | None = None
            if candidate is not None and candidate.new_customer is not None:
                # Lock the organization's customer, so that of two concurrent subscriptions only one links a new customer.
                place = await uow.billing.customer(candidate.buyer.organization, self.system.ids.new(), now)
                if place is None:
                    candidate = None
            buyer = None if candidate is None else candidate.buyer
            current: Subscription | None = None
            if candidate is not None and buyer is not None:
                if not candidate.is_user:
                    await uow.billing.enroll(buyer, now)
                subscriber = await uow.subscriptions.hold(buyer.service, buyer.user)
                if subscriber is None:
                    raise _Moved
                current = subscriber.current
            held = await uow.billing.hold(subject, buyer, look, now)
            step = _Step(held, candidate, look, looked_at)
            if step.is_elsewhere and again:
                raise _Moved
            own = replace(held.own, facets=step.facets, plan=step.plan, customer=step.customer)
            check_at = None if own.is_released else next_check(own.facets, now, told=look is None)
            await uow.billing.save(own, step.buyer, check_at, now)
            if place is not None and step.buyer is not None and step.customer is not None:
                await self._keep_customer(uow, place, step.customer, now)
            changed = False
            if step.buyer is not None and not own.is_released:
                changed = await self._write(uow, step.buyer, held, own, current=current)
                await self._tell(uow, step, own, now)
            await uow.billing.settle(step.settled, now)
            await uow.commit()
        if place is not None and step.buyer is not None:
            log.info("billing_customer_kept", organization=str(step.buyer.organization), customer=step.customer)
        self._report(step)
        return changed

    async def _keep_customer(self, uow: UnitOfWork, place: Customer, external_id: str, now: datetime) -> None:
        """Keeps the provider's customer of this id for the organization. Checkouts and the portal use the organization's first customer;
        later ones only belong to the organization.
        """
        if place.external_id is None:
            await uow.billing.link_customer(place.id, external_id)
        elif place.external_id != external_id and not await uow.billing.add_customer(
            place.organization, self.system.ids.new(), external_id, now
        ):
            # Meanwhile it became the customer of another organization, or of this one by another subscription.
            raise _Moved

    async def _write(self, uow: UnitOfWork, buyer: Buyer, held: HeldSubscription, own: Managed, *, current: Subscription | None) -> bool:
        """Write our records of all subscriptions of this person and service. Ended subscriptions are written before the living one, which
        takes their place.
        """
        now = self.system.clock.now()
        together = [own, *held.others]
        leader = leading(together)
        plans = {plan.id: plan for plan in held.plans}
        overridden = [one for one in held.others if one.overridden_at is not None]
        kept = kept_by_override([own, *overridden] if override_holds(own, held.own.facets) else overridden, leader)
        wanted = [
            wish
            for one in together
            if one.plan is not None and (wish := wanted_of(one, plans[one.plan], leader)) is not None
            if one.external_id not in kept
        ]
        wanted.sort(key=lambda wish: (wish.status.lives, wish.started, wish.of.external_id))
        occasion = Occasion(buyer.organization, buyer.service_slug)
        changed = False
        for wish in wanted:
            if wish.status.lives and current is not None and current.status.lives and not current.managed:
                # The current subscription was given through the API. The paid subscription takes its place.
                over = replace(current, status=SubscriptionStatus.CANCELLED, updated_at=now)
                await uow.subscriptions.save(over)
                await uow.record(subscription_changed(current, over, occasion))
                current = None
            changed = await self._write_one(uow, buyer, wish, occasion, now) or changed
        return changed

    async def _write_one(self, uow: UnitOfWork, buyer: Buyer, wish: WantedSubscription, occasion: Occasion, now: datetime) -> bool:
        before = wish.of.record
        if before is None:
            made = Subscription(
                id=SubscriptionId(self.system.ids.new()),
                service=buyer.service,
                user=buyer.user,
                plan=wish.plan,
                plan_name=wish.plan_name,
                status=wish.status,
                current_period_end=wish.end,
                created_at=wish.started,
                updated_at=now,
                managed=True,
            )
            await uow.subscriptions.add(made)
            await uow.billing.assign(wish.of.external_id, made.id)
            await uow.record(subscription_created(made, occasion))
            return True
        after = replace(before, plan=wish.plan, plan_name=wish.plan_name, status=wish.status, current_period_end=wish.end)
        if after == before:
            return False
        after = replace(after, updated_at=now)
        await uow.subscriptions.save(after)
        await uow.record(subscription_changed(before, after, occasion))
        return True

    async def _tell(self, uow: UnitOfWork, step: "_Step", own: Managed, now: datetime) -> None:
        """Queue mails to the person about news that the person has to act on. News that arrive days late cause no mail."""
        assert step.buyer is not None  # noqa: S101 - for the type checker: the caller knows
        names = [name for news in step.taken if not is_late(news, now) and (name := _notice(news, step.before, own.facets)) is not None]
        if not names:
            return
        reader = await uow.billing.reader(step.buyer)
        if reader is None:
            return
        plan = next(plan.name for plan in step.held.plans if plan.id == own.plan)
        for name in dict.fromkeys(names):
            mail = self.templates.mail(
                name,
                reader.email.address,
                account=step.buyer.user,
                language=reader.language,
                branding=Branding(reader.organization_name),
                service=reader.service_name,
                application_logo=mailed_logo(reader.service_logo),
                plan=plan,
            )
            await uow.jobs.add(mail.as_job())

    async def _apply_to_customer(self, subject: str) -> None:
        now = self.system.clock.now()
        waiting = await self.inbox.customer_news(subject)
        async with self.unit_of_work() as uow:
            for news in waiting:
                if news.handled is NewsType.CUSTOMER_CREATED and news.key is not None:
                    # We requested this customer and got no answer. `news.key` is our random id of the customer, which nobody else knows.
                    await uow.billing.link_customer(news.key, subject)
                elif news.handled is NewsType.CUSTOMER_DELETED:
                    await uow.billing.end_customer(subject, now)
            await uow.billing.settle([SettledBillingEvent(news.id, BillingOutcome.APPLIED) for news in waiting], now)
            await uow.commit()
        for news in waiting:
            self.metrics.billing_event(news.label, BillingOutcome.APPLIED.value)

    def _report(self, step: "_Step") -> None:
        labels = {news.id: news.label for news in step.held.news}
        for settled in step.settled:
            self.metrics.billing_event(labels[settled.event], settled.outcome.value)
            if settled.outcome is BillingOutcome.REFUSED:
                log.warning("billing_event_refused", event_id=settled.event, subject=step.held.own.external_id, reason=settled.reason)

    async def events(self, *, waiting: bool, limit: int) -> Sequence[ListedEvent]:
        """The provider's events, newest first: with `waiting` only the events that have not been applied, otherwise all."""
        return await self.inbox.list(waiting=waiting, limit=limit)

    async def retry(self, event: str | None) -> int:
        return await self.inbox.retry(event)

    async def waiting(self) -> WaitingBillingEvents:
        return await self.inbox.waiting()


class _Step:
    """The decisions about one locked subscription: the news that count, the buyer, and the plan."""

    def __init__(self, held: HeldSubscription, candidate: LikelyBuyer | None, look: Snapshot | None, looked_at: int) -> None:
        self.held = held
        self.before = held.own.facets
        self.customer = held.own.customer
        self.settled: list[SettledBillingEvent] = []
        self.taken: list[News] = []
        self.facets = self._with_news()
        if look is not None and self._is_of_customer(look):
            self.facets = self.facets.looked(look, looked_at)
        self.buyer = held.buyer or self._proved_buyer(candidate)
        # The subscription already belongs to a person other than the candidate.
        self.is_elsewhere = held.buyer is None and held.own.plan is not None and not held.own.is_released
        self.plan = held.own.plan
        if self.buyer is not None and (chosen := chosen_plan(held.plans, self.facets)) is not None:
            self.plan = chosen.id
        if self.plan is None or self.is_elsewhere:
            self.buyer = None
        self._judge()

    def _with_news(self) -> Facets:
        facets = self.before
        for news in self.held.news:
            if news.snapshot is not None and not self._is_of_customer(news.snapshot):
                self.settled.append(SettledBillingEvent(news.id, BillingOutcome.REFUSED, _OTHER_CUSTOMER))
                continue
            facets = facets.after(news)
            self.taken.append(news)
        return facets

    def _is_of_customer(self, snapshot: Snapshot) -> bool:
        """The first description of a subscription names its customer, and the provider never changes the customer."""
        if self.customer is None:
            self.customer = snapshot.customer
        return self.customer == snapshot.customer

    def _proved_buyer(self, candidate: LikelyBuyer | None) -> Buyer | None:
        """The candidate's buyer, if the provider has named this very organization, service and person for the subscription, and a new
        customer of the candidate is the subscription's. None otherwise, and for a subscription that has been released.
        """
        if candidate is None or self.held.own.is_released:
            return None
        if candidate.new_customer is not None and candidate.new_customer != self.customer:
            return None
        buyer = candidate.buyer
        named = {(one.names.organization, one.names.service, one.names.user) for one in self.facets.said}
        return buyer if (buyer.organization, buyer.service, buyer.user) in named else None

    def _judge(self) -> None:
        """Settle the news. News that claim to be for a person of ours, but do not fit the buyer, are stored as refused. A refusal is logged
        and has no other effect.
        """
        for news in self.taken:
            claims = news.snapshot is not None and news.snapshot.claims
            if claims and not self._stands_for(news.snapshot):
                self.settled.append(SettledBillingEvent(news.id, BillingOutcome.REFUSED, _FOREIGN))
            else:
                self.settled.append(SettledBillingEvent(news.id, BillingOutcome.APPLIED))

    def _stands_for(self, snapshot: Snapshot | None) -> bool:
        if self.held.own.is_released or self.is_elsewhere:
            return True
        if self.buyer is None or snapshot is None or snapshot.names is None:
            return False
        named = (snapshot.names.organization, snapshot.names.service, snapshot.names.user)
        of_service = snapshot.names.plan in {plan.id for plan in self.held.plans}
        return of_service and named == (self.buyer.organization, self.buyer.service, self.buyer.user)


def _notice(news: News, before: Facets, after: Facets) -> str | None:
    """The name of the mail that these news require, None for no mail."""
    was, state = before.state(), after.state()
    if news.handled is NewsType.TRIAL_WILL_END and state is not None and state.lives:
        return "billing_trial_ends"
    if news.handled is NewsType.ACTION_REQUIRED and still_asks(news, after):
        return "billing_action_required"
    is_due = state is not None and state.status is SubscriptionStatus.PAST_DUE
    if is_due and (was is None or was.status is not SubscriptionStatus.PAST_DUE):
        return "billing_payment_failed"
    return None
