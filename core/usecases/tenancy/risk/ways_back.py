"""The way back into an organization whose rules for risk keep its own owner out.

The owner signs in at the base address, which no organization's rule refuses, asks for a mail, and opens its link with all their factors.
The link opens one page, which puts the rules that refuse back in shadow. Rules that ask for a factor stay. Nothing of a link is kept.
"""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import Forbidden, RateLimited, found
from core.domain.identifiers import OrganizationId
from core.domain.identity.callers import Caller
from core.domain.identity.links import Links
from core.domain.identity.mailed_tokens import LinkUnknown
from core.domain.identity.risk_policies.policies import RiskPolicy, refusing
from core.domain.identity.risk_policies.ways_back import WAY_BACK_MAILS, WayBack
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from core.usecases.identity.risk.lifting import lift_refusing, opened_way_back, require_in_time
from core.usecases.sealed_texts import sealed_text
from ports.encryption import KeyRing
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.system import System
from ports.tenancy.risk.risk_policies import RiskPolicyStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_CONTEXT: Final = "mail.risk_way_back"


class RiskWaysBack(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: RiskPolicyStore
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
            way = WayBack(caller.user, organization, self.system.clock.now())
            token = Token(sealed_text(self.keyring, way.packed(), _CONTEXT))
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
        """The rules that refuse. Raises `LinkRefused`."""
        self._read(caller, organization, token)
        rules = found(await self.lookup.find(organization), "There is no such organization", words="organization_unknown")
        return refusing(rules)

    async def lift(self, caller: Caller, organization: OrganizationId, token: Token, actor: Actor) -> int:
        """Puts the rules that refuse back in shadow, and returns their number. Whether the caller is the owner is asked once more, so that
        an owner who is removed at this moment lifts nothing. Raises `LinkRefused`, `Forbidden`.
        """
        self._read(caller, organization, token)
        async with self.unit_of_work() as uow:
            await _hold_owner(uow, organization, caller)
            before = found(await uow.risk_policies.find(organization), "There is no such organization", words="organization_unknown")
            return await lift_refusing(uow, organization, before, actor, self.system.clock.now())

    def _read(self, caller: Caller, organization: OrganizationId, token: Token) -> None:
        way = opened_way_back(self.keyring, token, _CONTEXT)
        if (way.user, way.organization) != (caller.user, organization):
            raise LinkUnknown("This link is not valid", words="link_invalid")
        require_in_time(way, self.system.clock.now())


async def _hold_owner(uow: UnitOfWork, organization: OrganizationId, caller: Caller) -> None:
    """Raises `Forbidden` for anybody but the owner, who acts in person."""
    if caller.impersonator is not None:
        raise Forbidden
    known = (await uow.members.hold(organization, caller.user)).get(caller.user)
    if known is None or known.membership.role != BuiltInRole.OWNER or known.account.deactivated_at is not None:
        raise Forbidden
