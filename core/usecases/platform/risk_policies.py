"""Rules for risk of the installation: platform owners read and change them, and see whom they would have met. The caller has checked that
the request comes from a platform owner or the operator.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from core.domain.errors import found
from core.domain.identifiers import LoginEventId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.risk_policies.checking import checked_exceptions, checked_policies
from core.domain.identity.risk_policies.facts import SignInFacts
from core.domain.identity.risk_policies.policies import (
    PLATFORM_OWNER_ROLE,
    ExceptionKind,
    RiskAction,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    lifted,
    risk_policies_updated,
)
from core.domain.identity.risk_policies.shadow import own_outcome
from core.domain.identity.risk_policies.shadow_first import require_exceptions_kept, require_shadow_first
from core.domain.identity.risk_policies.ways import way_by
from core.domain.record.events import Actor
from core.frozen import Frozen
from core.usecases.tenancy.risk.reports import RiskReport, judged
from ports.identity.devices import Locations
from ports.system import System
from ports.tenancy.risk.risk_policies import MetSignIn, RiskPolicyStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ASKING = frozenset(one for one in RiskAction if one.asks_for_factor or one is RiskAction.REFUSE)


class InstallationRiskPolicies(Frozen):
    """`knows_countries`: the installation has a database of places."""

    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
    locations: Locations
    system: System
    knows_countries: bool

    async def get(self) -> RiskPolicies:
        return found(await self.lookup.find(None), "There are no rules")

    async def change(self, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], actor: Actor) -> RiskPolicies:
        """Replaces all rules and exceptions. They hold from the next sign-in on. A rule counts only after it stood in shadow as it is.
        Raises `BadRequest`.
        """
        checked = checked_policies(policies, knows_countries=self.knows_countries, of_installation=True)
        async with self.unit_of_work() as uow:
            before = await self._held(uow)
            now = self.system.clock.now()
            require_shadow_first(before.policies, checked)
            excepted = checked_exceptions(exceptions, before.exceptions, now, of_installation=True)
            require_exceptions_kept(before.exceptions, checked, excepted, now)
            after = before.applied(checked, excepted, now)
            await self._save(uow, before, after, actor)
        return after

    async def put_in_shadow(self, actor: Actor, *, factors: bool) -> Sequence[RiskPolicy]:
        """Puts the rules that refuse in shadow, and with `factors` those that ask for one, too. Returns them."""
        async with self.unit_of_work() as uow:
            before = await self._held(uow)
            actions = _ASKING if factors else {RiskAction.REFUSE}
            chosen = [one for one in before.counting if one.action in actions]
            await self._save(uow, before, lifted(before, chosen, self.system.clock.now()), actor)
        return chosen

    async def report(self, caller: Caller, address: str | None) -> RiskReport:
        rules = await self.get()
        location, now = await self.locations.find(address), self.system.clock.now()
        facts = SignInFacts(
            user=caller.user,
            role=PLATFORM_OWNER_ROLE,
            score=0.0,
            way=way_by(caller.authentication_methods),
            country=None if location is None else location.country,
            address=address,
            new_device=False,
            impossible_travel=False,
            hour=now.hour,
        )
        return await judged(self.lookup, None, rules, now, own_outcome(rules, facts, now))

    async def excepted(self, rules: RiskPolicies) -> Mapping[UserId, str]:
        """The addresses of the people whom exceptions leave out."""
        people = [UserId(UUID(one.value)) for one in rules.exceptions if one.kind is ExceptionKind.PERSON]
        return await self.lookup.addresses(people) if people else {}

    async def met(self, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        """The sign-ins about which a rule has decided, the newest first; with `before`, only older ones."""
        return await self.lookup.met(None, before, limit)

    async def _held(self, uow: UnitOfWork) -> RiskPolicies:
        await uow.risk_policies.hold_installation()
        return found(await uow.risk_policies.find(None), "There are no rules")

    async def _save(self, uow: UnitOfWork, before: RiskPolicies, after: RiskPolicies, actor: Actor) -> None:
        if after != before:
            await uow.risk_policies.save(None, after)
            await uow.record(risk_policies_updated(None, before, after, actor))
            await uow.commit()
