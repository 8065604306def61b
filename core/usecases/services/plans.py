"""Plans: the offers of a service. Members of the service's organization create and change them."""

from collections.abc import Sequence

from core.domain.changes import UNCHANGED, Unchanged
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import PlanId
from core.domain.record.events import Actor
from core.domain.services.plans import (
    MOST_PLANS,
    Plan,
    PlanOverview,
    free_key,
    plan_created,
    plan_currency,
    plan_deleted,
    plan_features,
    plan_key,
    plan_name,
    plan_price,
    plan_price_id,
    plan_updated,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_rights
from ports.services.plans import PlanStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class Plans(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: PlanStore
    system: System

    async def list(self, member: Member, service: str) -> Sequence[PlanOverview]:
        """Cheapest first. Raises `NotFound`."""
        found = await self.lookup.list(member.organization, service)
        if found is None:
            raise NotFound("There is no such service")
        return found

    async def create(
        self,
        member: Member,
        service: str,
        actor: Actor,
        *,
        name: str,
        price_cents: int,
        currency: str,
        features: Sequence[str] = (),
        billing_price_id: str | None = None,
        key: str | None = None,
    ) -> PlanOverview:
        """Create a plan. Without a key, it gets one made of its name. Raises `BadRequest`, `NotFound`, `Conflict` when another plan of the
        service has the key, and `Forbidden` when the caller may no longer manage services.
        """
        wanted_key = None if key is None else plan_key(key)
        name, price_cents, currency = plan_name(name), plan_price(price_cents), plan_currency(currency)
        kept_features = plan_features(features)
        price_id = None if billing_price_id is None else plan_price_id(billing_price_id)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            found = await uow.services.hold(member.organization, service)
            if found is None:
                raise NotFound("There is no such service")
            taken = await uow.plans.keys(found.id)
            if len(taken) >= MOST_PLANS:
                raise BadRequest(f"A service has at most {MOST_PLANS} plans: delete one first")
            if wanted_key in taken:
                raise Conflict("key: the service already has a plan with this key")
            now = self.system.clock.now()
            plan = Plan(
                id=PlanId(self.system.ids.new()),
                service=found.id,
                key=free_key(name, taken) if wanted_key is None else wanted_key,
                name=name,
                price_cents=price_cents,
                currency=currency,
                features=kept_features,
                billing_price_id=price_id,
                created_at=now,
                updated_at=now,
            )
            await uow.plans.add(plan)
            await uow.record(plan_created(plan, member.organization, service, actor))
            await uow.commit()
        return PlanOverview(plan, 0)

    async def change(
        self,
        member: Member,
        service: str,
        plan: PlanId,
        actor: Actor,
        *,
        name: str | None = None,
        price_cents: int | None = None,
        currency: str | None = None,
        features: Sequence[str] | None = None,
        billing_price_id: str | Unchanged | None = UNCHANGED,
    ) -> PlanOverview:
        """Fields that are left out keep their values; a `billing_price_id` of None removes the price id. Subscribers have the new terms
        from their next token on. Raises `BadRequest`, `NotFound`, and `Forbidden` when the caller may no longer manage services.
        """
        if name is None and price_cents is None and currency is None and features is None and isinstance(billing_price_id, Unchanged):
            raise BadRequest("Send at least one of name, price_cents, currency, features and billing_price_id")
        wanted_name = None if name is None else plan_name(name)
        wanted_price = None if price_cents is None else plan_price(price_cents)
        wanted_currency = None if currency is None else plan_currency(currency)
        wanted_features = None if features is None else plan_features(features)
        wanted_price_id = plan_price_id(billing_price_id) if isinstance(billing_price_id, str) else billing_price_id
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            held = _found(await uow.plans.hold(member.organization, service, plan))
            before = held.plan
            after = replace(
                before,
                name=before.name if wanted_name is None else wanted_name,
                price_cents=before.price_cents if wanted_price is None else wanted_price,
                currency=before.currency if wanted_currency is None else wanted_currency,
                features=before.features if wanted_features is None else wanted_features,
                billing_price_id=before.billing_price_id if isinstance(wanted_price_id, Unchanged) else wanted_price_id,
            )
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
            held = _found(await uow.plans.hold(member.organization, service, plan))
            if held.subscription_count:
                raise BadRequest("The plan has active subscriptions")
            await uow.plans.delete(plan, self.system.clock.now())
            await uow.record(plan_deleted(held.plan, member.organization, service, actor))
            await uow.commit()


def _found(plan: PlanOverview | None) -> PlanOverview:
    if plan is None:
        raise NotFound("There is no such plan")
    return plan
