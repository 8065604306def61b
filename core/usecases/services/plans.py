"""Plans of an application, and the subscriptions of its users."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized, found
from core.domain.identifiers import PlanId, SubscriptionId, UserId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor
from core.domain.requests import Listed
from core.domain.services.api_keys import KeyHolder
from core.domain.services.plans import (
    MOST_PLANS,
    PERIOD,
    Occasion,
    OwnSubscription,
    Plan,
    PlanChange,
    PlanOverview,
    Subscription,
    SubscriptionStatus,
    WantedPlan,
    free_key,
    period_end,
    plan_created,
    plan_deleted,
    plan_key,
    plan_updated,
    stored_terms,
    subscription_changed,
    subscription_created,
    subscription_deleted,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, names_of, replace, values_of
from core.usecases.tenancy.rights import hold_rights
from ports.services.billing import PlanStore, SubscriptionStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NO_SUCH_PLAN: Final = "There is no such plan"


class Plans(Frozen):
    """Creates and changes plans, for members."""

    unit_of_work: UnitOfWorkFactory
    lookup: PlanStore
    system: System

    async def list(self, member: Member, service: str) -> Sequence[PlanOverview]:
        """Cheapest first. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service), "There is no such service")

    async def create(self, member: Member, service: str, actor: Actor, wanted: WantedPlan) -> PlanOverview:
        """Raises `BadRequest`, `NotFound`, `Conflict` when another plan of the service has the key, and `Forbidden` when the caller may no
        longer manage services.
        """
        wanted_key = None if wanted.key is None else plan_key(wanted.key)
        terms = stored_terms(values_of(wanted))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            known = found(await uow.services.hold(member.organization, service), "There is no such service")
            taken = await uow.plans.keys(known.id)
            if len(taken) >= MOST_PLANS:
                raise BadRequest(
                    f"A service has at most {MOST_PLANS} plans: delete one first", words="limit_reached", values={"most": MOST_PLANS}
                )
            if wanted_key in taken:
                raise Conflict("key: the service already has a plan with this key", words="short_name_taken")
            now = self.system.clock.now()
            plan = Plan(
                id=PlanId(self.system.ids.new()),
                service=known.id,
                key=free_key(terms["name"], taken) if wanted_key is None else wanted_key,
                **terms,
                created_at=now,
                updated_at=now,
            )
            await uow.plans.add(plan)
            await uow.record(plan_created(plan, member.organization, service, actor))
            await uow.commit()
        return PlanOverview(plan, 0)

    async def change(self, member: Member, service: str, plan: PlanId, actor: Actor, change: PlanChange) -> PlanOverview:
        """Subscribers have the new terms from their next token on. Raises `BadRequest`, `NotFound`, and `Forbidden` when the caller may no
        longer manage services.
        """
        if not change.said:
            raise BadRequest(
                f"Send at least one of {', '.join(names_of(change)[:-1])} and {names_of(change)[-1]}", words="nothing_to_change"
            )
        terms = stored_terms(change.said)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            held = found(await uow.plans.hold(member.organization, service, plan), _NO_SUCH_PLAN)
            before = held.plan
            after = replace(before, **terms)
            if after == before:
                return held
            after = replace(after, updated_at=self.system.clock.now())
            await uow.plans.save(after)
            await uow.record(plan_updated(before, after, member.organization, service, actor))
            await uow.commit()
        return PlanOverview(after, held.subscription_count)

    async def delete(self, member: Member, service: str, plan: PlanId, actor: Actor) -> None:
        """Delete a plan. Raises `NotFound`, `BadRequest` while anybody is subscribed to the plan, and `Forbidden` when the caller may no
        longer manage services.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            held = found(await uow.plans.hold(member.organization, service, plan), _NO_SUCH_PLAN)
            if held.subscription_count:
                raise BadRequest("The plan has active subscriptions", words="plan_in_use")
            await uow.plans.delete(plan, self.system.clock.now())
            await uow.record(plan_deleted(held.plan, member.organization, service, actor))
            await uow.commit()


class Subscriptions(Frozen):
    """Manages subscriptions for the application's servers, shows users theirs, and ends each with its period."""

    unit_of_work: UnitOfWorkFactory
    lookup: SubscriptionStore
    system: System

    async def own(self, caller: Caller) -> OwnSubscription:
        """The caller's own subscription to the service that the caller is signed in to. Raises `BadRequest` for a token without a
        service.
        """
        if caller.organization_id is None or not caller.service:
            raise BadRequest("This needs a token for a service: sign in to the service")
        found = await self.lookup.own(caller.organization_id, caller.service, caller.user)
        if found is None:
            # The person, the organization or the service has been deleted since the request came in.
            raise Unauthorized("The session has ended")
        return found

    async def list(self, holder: KeyHolder, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        """All subscriptions of the service, oldest first. A subscription whose period ended a moment ago is still listed under the status
        `active`, but its own status says expired.
        """
        found = await self.lookup.list(holder.service, status, limit, offset)
        now = self.system.clock.now()
        return Listed([subscription.settled(now) for subscription in found.items], found.total)

    async def get(self, holder: KeyHolder, user: UserId) -> Subscription:
        """The user's active or past-due subscription, otherwise the newest. Raises `NotFound`."""
        return found(await self.lookup.current(holder.service, user), _NONE).settled(self.system.clock.now())

    async def create(
        self,
        holder: KeyHolder,
        user: UserId,
        plan: PlanId,
        actor: Actor,
        *,
        status: SubscriptionStatus = SubscriptionStatus.ACTIVE,
        current_period_end: datetime | None = None,
    ) -> Subscription:
        """Create a subscription. Raises `NotFound` for a person who is not a user of the service and for an unknown plan, `Forbidden` for
        another service's plan, `Conflict` when the person has an active or past-due subscription, `BadRequest`.
        """
        now = self.system.clock.now()
        end = now + PERIOD if current_period_end is None else period_end(current_period_end)
        async with self.unit_of_work() as uow:
            held = found(await uow.subscriptions.hold(holder.service, user), "The service has no such user")
            current = held.current
            leaving = current.plan if current is not None and current.has_lapsed(now) else None
            offered = _of_service(await uow.plans.offer(holder.service, plan, leaving=leaving), holder)
            if current is not None:
                await _settle(uow, current, holder, now)
            subscription = Subscription(
                id=SubscriptionId(self.system.ids.new()),
                service=holder.service,
                user=user,
                plan=plan,
                plan_name=offered.name,
                status=status,
                current_period_end=end,
                created_at=now,
                updated_at=now,
            ).settled(now)
            if not await uow.subscriptions.add(subscription):
                raise Conflict("The user has an active subscription", words="plan_in_use")
            await uow.record(subscription_created(subscription, _by(holder, actor)))
            await uow.commit()
        return subscription

    async def change(
        self,
        holder: KeyHolder,
        user: UserId,
        actor: Actor,
        *,
        status: SubscriptionStatus | None = None,
        current_period_end: datetime | None = None,
    ) -> Subscription:
        """Change the user's active or past-due subscription, otherwise the newest. Fields that are None keep their values. Raises
        `NotFound`, and `BadRequest` when the subscription would become active or past due on a deleted plan.
        """
        end = None if current_period_end is None else period_end(current_period_end)
        async with self.unit_of_work() as uow:
            held = await uow.subscriptions.hold(holder.service, user)
            now = self.system.clock.now()
            before = await _settle(uow, found(None if held is None else held.current, _NONE), holder, now)
            after = replace(
                before,
                status=before.status if status is None else status,
                current_period_end=before.current_period_end if end is None else end,
            ).settled(now)
            if after == before:
                return before
            revives = after.status.lives and not before.status.lives
            if revives and await uow.plans.offer(holder.service, after.plan) is None:
                raise BadRequest("The plan is no longer offered", words="plan_gone")
            after = replace(after, updated_at=now)
            await uow.subscriptions.save(after, overridden_at=now)
            await uow.record(subscription_changed(before, after, _by(holder, actor)))
            await uow.commit()
        return after

    async def delete(self, holder: KeyHolder, user: UserId, actor: Actor) -> None:
        """Remove all subscriptions that the user ever had to the service. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            held = await uow.subscriptions.hold(holder.service, user)
            current = found(None if held is None else held.current, _NONE).settled(self.system.clock.now())
            await uow.subscriptions.delete_all(holder.service, user)
            await uow.record(subscription_deleted(current, _by(holder, actor)))
            await uow.commit()

    async def due_in(self) -> float | None:
        """The seconds until the first period ends. None when none runs."""
        return await self.lookup.due_in()

    async def expire_due(self, since: datetime | None, most: int) -> tuple[int, datetime | None]:
        """Expire one batch of subscriptions whose period has ended at or after `since`. Returns the number of subscriptions and the `since`
        of the next batch.
        """
        async with self.unit_of_work() as uow:
            expired = await uow.subscriptions.expire_due(since, most)
            if not expired:
                return 0, since
            await uow.record_all(
                [
                    subscription_changed(replace(one.subscription, status=SubscriptionStatus.ACTIVE), one.subscription, one.occasion)
                    for one in expired
                    if one.occasion is not None
                ]
            )
            await uow.commit()
        return len(expired), max(one.subscription.current_period_end for one in expired)


_NONE: Final = "The user has no subscription"


def _by(holder: KeyHolder, actor: Actor) -> Occasion:
    return Occasion(holder.organization, holder.service_slug, actor, holder.key)


async def _settle(uow: UnitOfWork, written: Subscription, holder: KeyHolder, now: datetime) -> Subscription:
    """Store that the subscription has expired, if its period is over, so that another subscription may take its place."""
    if not written.has_lapsed(now):
        return written
    settled = replace(written.settled(now), updated_at=now)
    await uow.subscriptions.save(settled)
    await uow.record(subscription_changed(written, settled, Occasion(holder.organization, holder.service_slug)))
    return settled


def _of_service(plan: Plan | None, holder: KeyHolder) -> Plan:
    if plan is None:
        raise NotFound("There is no such plan")
    if plan.service != holder.service:
        raise Forbidden("The plan belongs to another service", words="plan_unfit")
    return plan
