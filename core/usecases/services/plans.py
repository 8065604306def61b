"""Plans: the offers of a service. Members of the service's organization create and change them."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import PlanId
from core.domain.record.events import Actor
from core.domain.services.plans import (
    MOST_PLANS,
    Plan,
    PlanChange,
    PlanOverview,
    WantedPlan,
    free_key,
    plan_created,
    plan_deleted,
    plan_key,
    plan_updated,
    stored_terms,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, names_of, replace, values_of
from core.usecases.tenancy.rights import hold_rights
from ports.services.plans import PlanStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

_NO_SUCH_PLAN: Final = "There is no such plan"


class Plans(Frozen):
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
