"""Sign-in rules: members who manage the settings read and change them, and see what a change of session limits would reach."""

from collections.abc import Sequence

from core.domain.errors import BadRequest, found
from core.domain.identifiers import ServiceId
from core.domain.identity.session_limits import NOBODY_REACHED, SessionLimits, SessionReach, reaches_anybody
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import (
    RulesEffects,
    SignInRules,
    SignInRulesChange,
    asked_of,
    due_after,
    require_of_oneself,
    sign_in_rules_updated,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import find_rights_for_update
from ports.identity.accounts import EmailSyntax
from ports.identity.sessions import SessionReachLookup
from ports.system import Clock
from ports.tenancy.organizations import SignInRulesStore
from ports.unit_of_work import UnitOfWorkFactory


async def reached_sessions(
    lookup: SessionReachLookup, member: Member, service: ServiceId | None, before: SessionLimits, after: SessionLimits
) -> SessionReach:
    """Without a round trip if nothing becomes stricter."""
    if not reaches_anybody(before, after):
        return NOBODY_REACHED
    asker = None if member.signed_in is None else member.signed_in.session
    return await lookup.reach(member.organization, service, before, after, asker=asker)


class OrganizationSignInRules(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SignInRulesStore
    session_reach: SessionReachLookup
    syntax: EmailSyntax
    clock: Clock

    async def get(self, member: Member) -> SignInRules:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return found(await self.lookup.find(member.organization), "There is no such organization", words="organization_unknown")

    async def effects(self, member: Member, change: SignInRulesChange) -> RulesEffects:
        """What the change would reach, without making it. Raises as `change` does for a change that is not allowed, and `NotFound`."""
        before = await self.get(member)
        after = self._checked(change).applied(before, self.clock.now())
        after.require_fitting()
        after.require_whole_demand(change)
        if isinstance(change.all_factor_role, str) and not await self.lookup.knows_role(member.organization, change.all_factor_role):
            raise _unknown_role()
        asked = asked_of(before, after)
        reach = await self.lookup.reach(member.organization, asked)
        sessions = await reached_sessions(self.session_reach, member, None, before.session_limits, after.session_limits)
        return RulesEffects(
            without_second_factor=reach.without_second_factor,
            due=due_after(after.mfa_required_since, after) if asked.factor else None,
            uninvitable=reach.uninvitable,
            administrators_without=reach.administrators_without,
            administrators_due=None if asked.admin_factor is None else due_after(after.admin_required_since, after),
            admin_factor=after.admin_factor,
            members_without=reach.members_without,
            members_due=None if asked.all_factor is None else due_after(after.all_required_since, after),
            sessions=sessions,
        )

    async def change(self, member: Member, change: SignInRulesChange, actor: Actor) -> SignInRules:
        """Change the rules. The new rules hold from the next request and sign-in on. Raises `BadRequest`, `Forbidden` when the caller may
        no longer change the rules, and `SecondFactorRequired` when a caller without a second factor makes the organization require one:
        otherwise the caller would lock themselves out.
        """
        change = self._checked(change)
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            held = await uow.sign_in_rules.get(member.organization, member.responsible)
            before = held.rules
            after = change.applied(before, self.clock.now())
            after.require_fitting()
            after.require_whole_demand(change)
            if after == before:
                return before
            named = change.all_factor_role
            if isinstance(named, str) and not await uow.sign_in_rules.knows_role(member.organization, named):
                raise _unknown_role()
            if member.key is None:
                require_of_oneself(before, after, has_second_factor=held.has_second_factor, has_passkey=held.has_passkey)
            await uow.sign_in_rules.save(member.organization, after)
            await uow.record(sign_in_rules_updated(member.organization, before, after, actor))
            await uow.commit()
        return after

    def _checked(self, change: SignInRulesChange) -> SignInRulesChange:
        change.require_allowed()
        return replace(
            change,
            invitation_domains=self._domains("invitation_domains", change.invitation_domains),
            registration_domains=self._domains("registration_domains", change.registration_domains),
        )

    def _domains(self, field: str, texts: Sequence[str] | None) -> Sequence[str] | None:
        """The domains in the form in which the domains of addresses are compared, sorted and without duplicates."""
        return None if texts is None else sorted({self._domain(field, text.strip()) for text in texts})

    def _domain(self, field: str, text: str) -> str:
        try:
            email = self.syntax.parse(f"somebody@{text}")
        except BadRequest as refusal:
            raise BadRequest(
                f"{field}: each must be the domain of an e-mail address, such as acme.example",
                words="domains_malformed",
                detail=refusal.detail,
            ) from None
        return email.domain


def _unknown_role() -> BadRequest:
    return BadRequest("all_factor_role: there is no such role of an application here", words="all_factor_role_unknown")
