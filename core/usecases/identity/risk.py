"""Recovery links for platform owners whom the installation's risk policies refuse, and what organizations' recovery links share with
them.
"""

from collections.abc import Sequence
from datetime import datetime

from core.domain.errors import Forbidden, found
from core.domain.identifiers import OrganizationId
from core.domain.identity.account_mails import LinkRefused, Links, LinkUnknown, link_used
from core.domain.identity.accounts import Account
from core.domain.identity.endings import INSTALLATION_WAYS_BACK, Sealed
from core.domain.identity.risk_policies.owner_mails import WAY_BACK_MAILS, NotAWayBack, WayBack
from core.domain.identity.risk_policies.policies import RiskPolicies, RiskPolicy, lifted, risk_policies_updated
from core.domain.languages import Language
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.identity.guards.puzzles import opened_text, sealed_text
from ports.crypto import CannotOpen, KeyRing
from ports.mail import MailTemplates
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


def opened_way_back(keyring: KeyRing, token: Token, kind: Sealed, now: datetime) -> WayBack:
    """Opens a recovery link, the same for its page and for its button: the link is authentic and has not expired.

    Raises `LinkUnknown`, and `LinkRefused` for a link that is too old.
    """
    try:
        way = WayBack.unpacked(opened_text(keyring, token.reveal(), kind))
    except (CannotOpen, NotAWayBack):
        raise LinkUnknown("This link is not valid", words="link_invalid") from None
    if way.is_over(now):
        raise LinkRefused("This link has expired", words="link_expired")
    return way


def lifted_by(way: WayBack, owner: Account, rules: RiskPolicies) -> Sequence[RiskPolicy]:
    """Returns the policies that the link lifts. Raises `LinkRefused` when its account may no longer use it, or when no policy is left to
    lift.
    """
    found = way.lifts(rules) if way.is_good_for(owner) else ()
    if not found:
        raise link_used()
    return found


async def keep_changed(
    uow: UnitOfWork, organization: OrganizationId | None, before: RiskPolicies, after: RiskPolicies, actor: Actor
) -> None:
    """Commits, if anything has changed. None is the installation. The rules are held: of two requests, the second finds what the first has
    kept.
    """
    if after != before:
        await uow.risk_policies.save(organization, after)
        await uow.record(risk_policies_updated(organization, before, after, actor))
        await uow.commit()


class InstallationWayBack(Frozen):
    """Mails a recovery link to a platform owner whom a risk policy of the installation refuses.

    Such a policy refuses every sign-in, so nobody could sign in to change it. The platform owner still completes every factor, and then
    gets a mail. Its link opens one page without a sign-in, which sets the refusing policies to report-only. Nothing of a link is stored. On
    the server, the command `postern risk-rules shadow` does the same.
    """

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
