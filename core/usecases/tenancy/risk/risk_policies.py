"""Rules for risk have a keeper: an organization or the installation. Whoever may manage them reads and changes them, and sees whom they
would have met. The caller has checked that a request for the installation's comes from a platform owner or the operator.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from core.domain.errors import found
from core.domain.identifiers import LoginEventId, OrganizationId, UserId
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
)
from core.domain.identity.risk_policies.shadow import OwnOutcome, own_outcome
from core.domain.identity.risk_policies.shadow_first import require_exceptions_kept, require_shadow_first
from core.domain.identity.risk_policies.ways import way_by
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.identity.risk.lifting import keep_changed
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.risk.reports import RiskReport, judged
from ports.identity.devices import Locations
from ports.system import System
from ports.tenancy.risk.risk_policies import MetSignIn, RiskPolicyStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ASKING = frozenset(one for one in RiskAction if one.asks_for_factor or one is RiskAction.REFUSE)


class RiskPoliciesOfKeepers(Frozen):
    """Where an organization may be None, this means the installation. Changes and reports have a method for each keeper, since each admits
    other callers. `knows_countries`: the installation has a database of places.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
    locations: Locations
    system: System
    knows_countries: bool

    async def get(self, organization: OrganizationId | None) -> RiskPolicies:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return _known(await self.lookup.find(organization))

    async def change(
        self, member: Member, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], actor: Actor
    ) -> RiskPolicies:
        """Replaces all rules and exceptions. They hold from the next sign-in on. A rule counts only after it stood in shadow as it is.
        Raises `BadRequest`, and `Forbidden` when the caller may no longer change the rules.
        """
        checked = checked_policies(policies, knows_countries=self.knows_countries)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.RISK_POLICIES_MANAGE)
            return await self._change(uow, member.organization, checked, exceptions, actor)

    async def change_for_installation(
        self, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], actor: Actor
    ) -> RiskPolicies:
        """As `change`, but for `Forbidden`."""
        checked = checked_policies(policies, knows_countries=self.knows_countries, of_installation=True)
        async with self.unit_of_work() as uow:
            await uow.risk_policies.hold_installation()
            return await self._change(uow, None, checked, exceptions, actor)

    async def put_in_shadow(self, actor: Actor, *, factors: bool) -> Sequence[RiskPolicy]:
        """Puts the installation's rules that refuse in shadow, and with `factors` those that ask for one, too. Returns them."""
        async with self.unit_of_work() as uow:
            await uow.risk_policies.hold_installation()
            before = _known(await uow.risk_policies.find(None))
            actions = _ASKING if factors else {RiskAction.REFUSE}
            chosen = [one for one in before.counting if one.action in actions]
            await keep_changed(uow, None, before, lifted(before, chosen, self.system.clock.now()), actor)
        return chosen

    async def report(self, member: Member, address: str | None) -> RiskReport:
        rules, now, you = await self.get(member.organization), self.system.clock.now(), None
        if member.key is None:
            person = (await self.lookup.people(member.organization)).get(member.user)
            teams = frozenset[UUID]() if person is None else person.teams
            you = await self._of_oneself(rules, now, member.caller, member.role, address, teams=teams)
        return await judged(self.lookup, member.organization, rules, now, you)

    async def report_for_installation(self, owner: Caller, address: str | None) -> RiskReport:
        rules, now = await self.get(None), self.system.clock.now()
        you = await self._of_oneself(rules, now, owner, PLATFORM_OWNER_ROLE, address)
        return await judged(self.lookup, None, rules, now, you)

    async def excepted(self, organization: OrganizationId | None) -> Mapping[UserId, str]:
        """The addresses of the people whom exceptions leave out; for an organization, of its members alone."""
        rules = await self.get(organization)
        people = [UserId(UUID(one.value)) for one in rules.exceptions if one.kind is ExceptionKind.PERSON]
        if not people:
            return {}
        return await (self.lookup.addresses(people) if organization is None else self.lookup.excepted(organization, people))

    async def met(self, organization: OrganizationId | None, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        """The sign-ins about which a rule has decided, the newest first; with `before`, only older ones."""
        return await self.lookup.met(organization, before, limit)

    async def _change(
        self,
        uow: UnitOfWork,
        organization: OrganizationId | None,
        checked: Sequence[RiskPolicy],
        exceptions: Sequence[RiskException],
        actor: Actor,
    ) -> RiskPolicies:
        """The keeper is held."""
        before, now = _known(await uow.risk_policies.find(organization)), self.system.clock.now()
        require_shadow_first(before.policies, checked)
        excepted = checked_exceptions(exceptions, before.exceptions, now, of_installation=organization is None)
        require_exceptions_kept(before.exceptions, checked, excepted, now)
        after = before.applied(checked, excepted, now)
        await keep_changed(uow, organization, before, after, actor)
        return after

    async def _of_oneself(
        self, rules: RiskPolicies, now: datetime, caller: Caller, role: str, address: str | None, *, teams: frozenset[UUID] = frozenset()
    ) -> OwnOutcome | None:
        location = await self.locations.find(address)
        facts = SignInFacts(
            user=caller.user,
            teams=teams,
            role=role,
            score=0.0,
            way=way_by(caller.authentication_methods),
            country=None if location is None else location.country,
            address=address,
            new_device=False,
            impossible_travel=False,
            hour=now.hour,
        )
        return own_outcome(rules, facts, now)


def _known(rules: RiskPolicies | None) -> RiskPolicies:
    """An organization may be gone, and the installation never is."""
    return found(rules, "There is no such organization", words="organization_unknown")
