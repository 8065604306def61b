"""Rules for risk: members who may manage them read and change them, and see whom they would have met."""

from collections.abc import Mapping, Sequence
from typing import Final
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
from core.domain.identity.risk_policies.shadow import SPAN, OwnOutcome, PolicyReport, ShadowReport, own_outcome
from core.domain.identity.risk_policies.shadow_first import require_shadow_first
from core.domain.identity.risk_policies.ways import way_by
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from ports.identity.devices import Locations
from ports.system import System
from ports.tenancy.risk.risk_policies import MetSignIn, RiskPolicyStore
from ports.unit_of_work import UnitOfWorkFactory

# A page of sign-ins takes some milliseconds, between which other requests run.
_BATCH: Final = 2000
# A report reads the latest of an organization with more.
_MOST_BATCHES: Final = 100


class RiskReport(Frozen):
    """Whom the rules would have met in the last thirty days, and whether they would refuse the person who looks."""

    judged: int
    policies: Sequence[PolicyReport]
    addresses: Mapping[UserId, str]
    you: OwnOutcome | None
    """The rule that fits a sign-in of yours from here and now. None for none, and for a management key."""


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
            after = before.applied(checked, checked_exceptions(exceptions, before.exceptions, now), now)
            if after == before:
                return before
            await uow.risk_policies.save(member.organization, after)
            await uow.record(risk_policies_updated(member.organization, before, after, actor))
            await uow.commit()
        return after

    async def report(self, member: Member, address: str | None) -> RiskReport:
        """Judges the sign-ins of the last thirty days, in batches, by the rules as they are now, in shadow or not."""
        rules = await self.get(member)
        now = self.system.clock.now()
        report, after = ShadowReport(rules, await self.lookup.people(member.organization), now), None
        for _ in range(_MOST_BATCHES):
            batch = await self.lookup.sign_ins(member.organization, now - SPAN, after, _BATCH)
            report.take(batch)
            if len(batch) < _BATCH:
                break
            after = batch[-1].id
        reports = report.reports()
        named = {met.user for one in reports for met in one.latest}
        addresses = await self.lookup.addresses([*named]) if named else {}
        return RiskReport(report.judged, reports, addresses, await self._of_oneself(member, rules, address))

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
            two_countries=False,
            hour=now.hour,
        )
        return own_outcome(rules, facts, now)
