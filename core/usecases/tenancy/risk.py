"""Manages risk policies, reports whom they would affect, notifies owners, and recovers owners who lock themselves out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.errors import Forbidden, RateLimited, found
from core.domain.identifiers import LoginEventId, OrganizationId, UserId
from core.domain.identity.account_mails import Links, LinkUnknown
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.endings import WAYS_BACK
from core.domain.identity.risk_policies.checking import checked_exceptions, checked_policies, require_known_places
from core.domain.identity.risk_policies.owner_mails import (
    OWNER_NOTICES,
    OWNER_NOTICES_OF_RULE,
    WAY_BACK_MAILS,
    OwnerNotice,
    WayBack,
    owners_notified,
)
from core.domain.identity.risk_policies.policies import (
    PLATFORM_OWNER_ROLE,
    ExceptionKind,
    RiskAction,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    lifted,
)
from core.domain.identity.risk_policies.shadow import (
    ANYBODY_HERE,
    SPAN,
    STRANGER,
    OwnOutcome,
    PolicyReport,
    ShadowReport,
    own_outcome,
    require_exceptions_kept,
    require_shadow_first,
    way_by,
)
from core.domain.identity.risk_policies.verdicts import SignInFacts
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.guards.puzzles import sealed_text
from core.usecases.identity.risk import keep_changed, lifted_by, opened_way_back
from core.usecases.tenancy.ownerships import tell_owners
from core.usecases.tenancy.rights import hold_rights
from ports.crypto import KeyRing
from ports.identity.sign_in import Locations
from ports.mail import MailTemplates
from ports.system import SharedBuckets, System
from ports.tenancy.members import KnownMember
from ports.tenancy.organizations import MetSignIn, RiskPolicyStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class OwnerNotices(Frozen):
    """Mails the owners about a sign-in, because a risk policy says so."""

    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
    devices: Devices
    buckets: SharedBuckets
    templates: MailTemplates

    async def send(self, notice: OwnerNotice) -> int:
        """Returns the number of owners who get a mail: none when they have heard of this person by this rule within the hour, when the
        person or the sign-in has been forgotten meanwhile, or when nobody owns the organization.
        """
        noticed = await self.lookup.noticed(notice.login)
        owners = await self.lookup.owners(notice.organization)
        if noticed is None or not owners:
            return 0
        if await self.buckets.take(OWNER_NOTICES, notice.key) > 0 or await self.buckets.take(OWNER_NOTICES_OF_RULE, notice.key_of_rule) > 0:
            return 0
        # What the browser calls itself: the name that the person has given the device is theirs, and no organization's.
        location, device = noticed.location, await self.devices.called(noticed.user_agent)
        async with self.unit_of_work() as uow:
            await tell_owners(
                uow,
                self.templates,
                owners,
                "risk_owner_notice",
                person=noticed.email.address,
                rule=notice.name,
                everywhere=notice.organization is None,
                when=noticed.at,
                address=noticed.address,
                device=device,
                location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
            )
            await uow.record(owners_notified(notice, len(owners)))
            await uow.commit()
        return len(owners)


# A page of sign-ins takes some milliseconds, between which other requests run.
_BATCH: Final = 2000
# The report judges the newest, where there are more. It takes them in the order of time, as two countries and new devices ask for.
_MOST_BATCHES: Final = 100


class RiskReport(Frozen):
    """Whom the rules would have met in the last thirty days, and whether they would refuse the person who looks."""

    judged: int
    policies: Sequence[PolicyReport]
    addresses: Mapping[UserId, str]
    you: OwnOutcome | None
    """The rule that fits a sign-in of yours from here and now. None for none, and for a management key."""


async def judged(
    lookup: RiskPolicyStore, organization: OrganizationId | None, rules: RiskPolicies, now: datetime, you: OwnOutcome | None
) -> RiskReport:
    """Evaluates the sign-ins of the last 30 days by the policies as they are now, enforced or report-only.

    `organization`: None for the rules of the installation, which are asked about all sign-ins.
    """
    stranger = ANYBODY_HERE if organization is None else STRANGER
    report = ShadowReport(rules, await lookup.people(organization), now, stranger)
    after = await lookup.older(organization, now - SPAN, _BATCH * _MOST_BATCHES)
    while True:
        batch = await lookup.sign_ins(organization, now - SPAN, after, _BATCH)
        report.take(batch)
        if len(batch) < _BATCH:
            break
        after = batch[-1].id
    reports = report.reports()
    named = {met.user for one in reports for met in one.latest}
    addresses = await lookup.addresses([*named]) if named else {}
    return RiskReport(report.judged, reports, addresses, you)


_ASKING = frozenset(one for one in RiskAction if one.asks_for_factor or one is RiskAction.REFUSE)


class RiskPoliciesOfKeepers(Frozen):
    """Reads and changes the risk policies of an organization or of the installation, and lists the sign-ins that they affect. The caller
    has checked that a request for the installation's policies comes from a platform owner or the operator.

    Where an organization may be None, this means the installation. Changes and reports have a method for each keeper, since each admits
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
        checked = checked_policies(policies)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.RISK_POLICIES_MANAGE)
            return await self._change(uow, member.organization, checked, exceptions, actor)

    async def change_for_installation(
        self, policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], actor: Actor
    ) -> RiskPolicies:
        """As `change`, but for `Forbidden`."""
        checked = checked_policies(policies, of_installation=True)
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
        if not self.knows_countries:
            require_known_places(before.policies, checked)
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


class RiskWaysBack(Frozen):
    """Recovers an organization whose risk policies refuse its own owner.

    The owner signs in at the base URL, where no organization's policy applies, requests a mail, and opens its link after all factors. The
    link opens one page, which sets the refusing policies to report-only. Policies that require a factor stay. Nothing of a link is stored.
    """

    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    buckets: SharedBuckets
    templates: MailTemplates
    links: Links
    system: System

    async def ask(self, caller: Caller, organization: OrganizationId, slug: str) -> None:
        """Mails the link to the owner. Raises `Forbidden` for anybody else, and `RateLimited`."""
        wait = await self.buckets.take(WAY_BACK_MAILS, f"{caller.user}")
        if wait > 0:
            raise RateLimited(retry_after=wait)
        async with self.unit_of_work() as uow:
            await _hold_owner(uow, organization, caller)
            way = WayBack.of(caller.user, organization, caller.email, self.system.clock.now())
            token = Token(sealed_text(self.keyring, way.packed(), WAYS_BACK))
            mail = self.templates.mail(
                "risk_way_back",
                caller.email.address,
                account=caller.user,
                language=caller.language,
                link=self.links.risk_way_back(slug, token),
            )
            await uow.jobs.add(mail.as_job())
            await uow.commit()

    async def look(self, caller: Caller, organization: OrganizationId, token: Token) -> Sequence[RiskPolicy]:
        """The rules that the link lifts. Raises `LinkRefused`, and `Forbidden` for anybody but the owner."""
        way = self._read(caller, organization, token)
        async with self.unit_of_work() as uow:
            _require_owner(caller, await uow.members.find(organization, caller.user))
            return lifted_by(way, await _account(uow, caller), await _rules(uow, organization))

    async def lift(self, caller: Caller, organization: OrganizationId, token: Token, actor: Actor) -> Sequence[RiskPolicy]:
        """Puts the rules that refuse, and have counted since before the mail, back in shadow, and returns them. Whether the caller is the
        owner is asked once more, so that an owner who is removed at this moment lifts nothing. Raises `LinkRefused`, `Forbidden`.
        """
        way = self._read(caller, organization, token)
        async with self.unit_of_work() as uow:
            await _hold_owner(uow, organization, caller)
            await uow.accounts.hold_shared(caller.user)
            before = await _rules(uow, organization)
            chosen = lifted_by(way, await _account(uow, caller), before)
            after = lifted(before, chosen, self.system.clock.now())
            await keep_changed(uow, organization, before, after, actor)
        return chosen

    def _read(self, caller: Caller, organization: OrganizationId, token: Token) -> WayBack:
        way = opened_way_back(self.keyring, token, WAYS_BACK, self.system.clock.now())
        if (way.user, way.organization) != (caller.user, organization):
            raise LinkUnknown("This link is not valid", words="link_invalid")
        return way


async def _hold_owner(uow: UnitOfWork, organization: OrganizationId, caller: Caller) -> None:
    """Raises `Forbidden` for anybody but the owner, who acts in person."""
    _require_owner(caller, (await uow.members.hold(organization, caller.user)).get(caller.user))


def _require_owner(caller: Caller, known: KnownMember | None) -> None:
    if caller.impersonator is not None:
        raise Forbidden
    if known is None or known.membership.role != BuiltInRole.OWNER or known.account.deactivated_at is not None:
        raise Forbidden


async def _account(uow: UnitOfWork, caller: Caller) -> Account:
    return found((await uow.accounts.find_all([caller.user])).get(caller.user), "There is no such account")


async def _rules(uow: UnitOfWork, organization: OrganizationId) -> RiskPolicies:
    return found(await uow.risk_policies.find(organization), "There is no such organization", words="organization_unknown")
