"""The way back for platform owners whom a rule of the installation refuses.

Such a rule refuses at every sign-in, so nobody could sign in to change it. A platform owner whom it refuses gives every factor all the
same, and gets a mail. Its link opens one page without a sign-in, which puts the rules that refuse back in shadow. Nothing of a link is
kept. The command `postern risk-rules shadow` does the same for whoever has the machine.
"""

from collections.abc import Sequence

from core.domain.errors import Forbidden, found
from core.domain.identity.accounts import Account
from core.domain.identity.endings.sealed import INSTALLATION_WAYS_BACK
from core.domain.identity.links import Links
from core.domain.identity.risk_policies.policies import RiskPolicies, RiskPolicy, lifted
from core.domain.identity.risk_policies.ways_back import WAY_BACK_MAILS, WayBack
from core.domain.languages import Language
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.identity.guards.sealed_texts import sealed_text
from core.usecases.identity.risk.lifting import keep_changed, lifted_by, opened_way_back
from ports.encryption import KeyRing
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class InstallationWayBack(Frozen):
    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    buckets: SharedBuckets
    templates: MailTemplates
    links: Links
    system: System

    async def mail(self, owner: Account, language: Language | None) -> None:
        """Called when a platform owner has given every factor, and a rule has refused. No answer says whether a mail went out."""
        if await self.buckets.take(WAY_BACK_MAILS, f"{owner.id}") > 0:
            return
        way = WayBack.of(owner.id, None, owner.email, self.system.clock.now())
        link = self.links.installation_way_back(Token(sealed_text(self.keyring, way.packed(), INSTALLATION_WAYS_BACK)))
        mail = self.templates.mail(
            "risk_installation_way_back", owner.email.address, account=owner.id, language=owner.language or language, link=link
        )
        async with self.unit_of_work() as uow:
            await uow.jobs.add(mail.as_job())
            await uow.commit()

    async def look(self, token: Token) -> Sequence[RiskPolicy]:
        """The rules that the link lifts. Raises `LinkRefused`, `Forbidden`."""
        way = self._read(token)
        async with self.unit_of_work() as uow:
            return lifted_by(way, await _owner(uow, way), await _rules(uow))

    async def lift(self, token: Token, actor: Actor) -> Sequence[RiskPolicy]:
        """Puts the rules that refuse, and have counted since before the mail, back in shadow, and returns them. Whether the person is a
        platform owner is asked once more, so that one who is removed at this moment lifts nothing. Raises `LinkRefused`, `Forbidden`.
        """
        way = self._read(token)
        async with self.unit_of_work() as uow:
            await uow.platform_owners.hold()
            await uow.accounts.hold_shared(way.user)
            owner = await _owner(uow, way)
            await uow.risk_policies.hold_installation()
            before = await _rules(uow)
            chosen = lifted_by(way, owner, before)
            after = lifted(before, chosen, self.system.clock.now())
            await keep_changed(uow, None, before, after, replace(actor, user=way.user))
        return chosen

    def _read(self, token: Token) -> WayBack:
        return opened_way_back(self.keyring, token, INSTALLATION_WAYS_BACK, self.system.clock.now())


async def _owner(uow: UnitOfWork, way: WayBack) -> Account:
    """Raises `Forbidden` for whoever is no platform owner any more."""
    owner = (await uow.accounts.find_all([way.user])).get(way.user)
    if owner is None or not owner.is_platform_owner or owner.deactivated_at is not None:
        raise Forbidden
    return owner


async def _rules(uow: UnitOfWork) -> RiskPolicies:
    return found(await uow.risk_policies.find(None), "There are no rules")
