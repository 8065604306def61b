"""Rules for risk: members who may manage them read and change them, and see whom they would have met."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from core.domain.errors import found
from core.domain.identifiers import LoginEventId, UserId
from core.domain.identity.risk_policies.checking import checked_exceptions, checked_policies
from core.domain.identity.risk_policies.facts import SignInFacts
from core.domain.identity.risk_policies.policies import (
    ExceptionKind,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    risk_policies_updated,
)
from core.domain.identity.risk_policies.shadow import OwnOutcome, own_outcome
from core.domain.identity.risk_policies.shadow_first import require_exceptions_kept, require_shadow_first
from core.domain.identity.risk_policies.ways import way_by
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.risk.reports import RiskReport, judged
from ports.identity.devices import Locations
from ports.system import System
from ports.tenancy.risk.risk_policies import MetSignIn, RiskPolicyStore
from ports.unit_of_work import UnitOfWorkFactory


class OrganizationRiskPolicies(Frozen):
    """`knows_countries`: the installation has a database of places."""

    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
    locations: Locations
    system: System
    knows_countries: bool

    async def get(self, member: Member) -> RiskPolicies:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return found(await self.lookup.find(member.organization), "There is no such organization", words="organization_unknown")

    async def change(
        self, member: Member, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], actor: Actor
    ) -> RiskPolicies:
        """Replaces all rules and exceptions. They hold from the next sign-in on. A rule counts only after it stood in shadow as it is.
        Raises `BadRequest`, and `Forbidden` when the caller may no longer change the rules.
        """
        checked = checked_policies(policies, knows_countries=self.knows_countries)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.RISK_POLICIES_MANAGE)
            before = found(await uow.risk_policies.find(member.organization), "There is no such organization", words="organization_unknown")
            now = self.system.clock.now()
            require_shadow_first(before.policies, checked)
            excepted = checked_exceptions(exceptions, before.exceptions, now)
            require_exceptions_kept(before.exceptions, checked, excepted, now)
            after = before.applied(checked, excepted, now)
            if after == before:
                return before
            await uow.risk_policies.save(member.organization, after)
            await uow.record(risk_policies_updated(member.organization, before, after, actor))
            await uow.commit()
        return after

    async def report(self, member: Member, address: str | None) -> RiskReport:
        rules = await self.get(member)
        you = await self._of_oneself(member, rules, address)
        return await judged(self.lookup, member.organization, rules, self.system.clock.now(), you)

    async def excepted(self, member: Member, rules: RiskPolicies) -> Mapping[UserId, str]:
        """The addresses of the members whom exceptions leave out."""
        people = [UserId(UUID(one.value)) for one in rules.exceptions if one.kind is ExceptionKind.PERSON]
        return await self.lookup.excepted(member.organization, people) if people else {}

    async def met(self, member: Member, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        """The sign-ins about which a rule has decided, the newest first; with `before`, only older ones."""
        return await self.lookup.met(member.organization, before, limit)

    async def _of_oneself(self, member: Member, rules: RiskPolicies, address: str | None) -> OwnOutcome | None:
        if member.key is not None:
            return None
        location, now = await self.locations.find(address), self.system.clock.now()
        person = (await self.lookup.people(member.organization)).get(member.user)
        facts = SignInFacts(
            user=member.user,
            teams=frozenset[UUID]() if person is None else person.teams,
            role=member.role,
            score=0.0,
            way=way_by(member.caller.authentication_methods),
            country=None if location is None else location.country,
            address=address,
            new_device=False,
            impossible_travel=False,
            hour=now.hour,
        )
        return own_outcome(rules, facts, now)
