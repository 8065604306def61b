"""The way back into an organization whose rules for risk keep its own owner out.

The owner signs in at the base address, which no organization's rule refuses, asks for a mail, and opens its link with all their factors.
The link opens one page, which puts the rules that refuse back in shadow. Rules that ask for a factor stay. Nothing of a link is kept.
"""

from collections.abc import Sequence

from core.domain.errors import Forbidden, RateLimited, found
from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.endings.sealed import WAYS_BACK
from core.domain.identity.links import Links
from core.domain.identity.mailed_tokens import LinkUnknown
from core.domain.identity.risk_policies.policies import RiskPolicies, RiskPolicy, lifted
from core.domain.identity.risk_policies.ways_back import WAY_BACK_MAILS, WayBack
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from core.usecases.identity.guards.sealed_texts import sealed_text
from core.usecases.identity.risk.lifting import keep_changed, lifted_by, opened_way_back
from ports.encryption import KeyRing
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.system import System
from ports.tenancy.members import KnownMember
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class RiskWaysBack(Frozen):
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
