"""Setup links: created and revoked by members and platform owners, and bound to the first browser."""

from collections.abc import Collection, Sequence
from typing import Final

import structlog

from core.domain.errors import Conflict, NotFound, found
from core.domain.identifiers import OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.callers import Caller
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.management_keys import NewMachineKey, key_name
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.setup import (
    SETUP_LINK_KIND,
    SETUP_LINK_LIFETIME,
    KnownSetupLink,
    SetupDraft,
    SetupLink,
    SetupLinkRefused,
    SetupLinkUnknown,
    SetupPurpose,
    require_browser,
    require_links_room,
    require_may_make,
    require_purpose,
    require_usable,
    setup_link_created,
    setup_link_released,
    setup_link_revoked,
    setup_link_used,
    user_name,
    wanted_purposes,
)
from core.domain.tenancy.upstream_providers import provider_deleted
from core.frozen import Frozen, replace
from core.usecases.tenancy.management_keys import add_key
from core.usecases.tenancy.rights import hold_members, hold_office, hold_rights, require_owner
from ports.mail import MailTemplates
from ports.system import Clock, System
from ports.tenancy.connections import ListedSetupLink, SetupLinkStore, UsedBy
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_SUCH_DRAFT: Final = "There is no such draft"


async def held_link(uow: UnitOfWork, known: KnownSetupLink, purpose: SetupPurpose, clock: Clock) -> KnownSetupLink:
    """The link as things are now; nobody revokes it until the unit of work ends. Raises `SetupLinkUnknown` and `SetupLinkRefused`."""
    held = await uow.setup_links.hold(known.link.id)
    if held is None:
        raise SetupLinkUnknown
    require_browser(held, known.browser_digest)
    require_usable(held, clock.now())
    if held.link.finished_at is not None:
        raise SetupLinkRefused(words="setup_used_up", values={"organization": held.branding.name})
    require_purpose(held, purpose)
    return held


async def held_draft(uow: UnitOfWork, known: KnownSetupLink, draft: SetupDraftId, clock: Clock) -> tuple[KnownSetupLink, SetupDraft]:
    """As `held_link`, with one of its drafts. Raises `NotFound`."""
    seen = await uow.setup_links.find_draft(known.link.organization, draft)
    if seen is None or seen.link != known.link.id:
        raise NotFound(NO_SUCH_DRAFT)
    held = await held_link(uow, known, seen.purpose, clock)
    # Read again: the organization is held only now.
    return held, found(await uow.setup_links.find_draft(known.link.organization, draft), NO_SUCH_DRAFT)


async def drop_connection(uow: UnitOfWork, draft: SetupDraft, actor: Actor, *, keeps_named: bool = False) -> None:
    """The connection of a draft that somebody drops. Nothing happens to one that was ever active. A domain route may lead to a connection
    that has passed its test: then it stays if `keeps_named`. Raises `Conflict` otherwise.
    """
    if draft.provider is None:
        return
    provider = await uow.upstream_providers.hold(draft.organization, draft.provider)
    if provider is None or provider.was_ever_active:
        return
    if await uow.upstream_providers.is_named(provider.id):
        if keeps_named:
            return
        raise Conflict("A domain route leads to this connection: an administrator of the organization changes it", words="setup_active")
    await uow.upstream_providers.delete(provider.id)
    await uow.record(provider_deleted(provider, actor))


log = structlog.get_logger()

NO_SUCH_LINK = "Setup link not found"


class WantedSetupLink(Frozen, kw_only=True):
    """What a member or platform owner asks for. `mail_to` gets the link from us; None if the maker hands it on."""

    name: str
    purposes: Collection[SetupPurpose]
    mail_to: Email | None = None
    language: Language | None = None
    """The language of the email."""


class SetupLinks(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SetupLinkStore
    templates: MailTemplates
    links: Links
    system: System

    async def create(self, member: Member, actor: Actor, wanted: WantedSetupLink, *, activates: bool) -> NewMachineKey[SetupLink]:
        """Raises `BadRequest`, and `Forbidden` when the member may not do what the link is for, or is no owner and wants it to activate by
        itself.
        """
        purposes = wanted_purposes(wanted.purposes)
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_may_make(purposes, acting.capabilities)
            if activates:
                await require_owner(uow, acting, self.system.clock.now())
            made = await self._add(uow, self._link(member.organization, wanted, purposes, member.user, activates=activates), wanted, actor)
            await uow.commit()
        return made

    async def create_for_platform(
        self, owner: Caller, organization: OrganizationId, actor: Actor, wanted: WantedSetupLink
    ) -> NewMachineKey[SetupLink]:
        """For a customer. An owner of the organization decides what becomes active. Raises `BadRequest`, `NotFound`, and `Forbidden` when
        the caller is no longer a platform owner, or the organization is not active.
        """
        purposes = wanted_purposes(wanted.purposes)
        async with self.unit_of_work() as uow:
            await hold_office(uow, owner)
            if not await uow.setup_links.hold_organization(organization):
                raise NotFound("There is no such active organization")
            link = replace(self._link(organization, wanted, purposes, owner.user, activates=False), by_platform=True)
            made = await self._add(uow, link, wanted, actor)
            await uow.commit()
        return made

    async def list(self, organization: OrganizationId) -> Sequence[ListedSetupLink]:
        """Newest first, ended links included."""
        return await self.lookup.list(organization)

    async def get(self, organization: OrganizationId, link: SetupLinkId) -> ListedSetupLink:
        """Raises `NotFound`."""
        return found(await self.lookup.find_listed(organization, link), NO_SUCH_LINK)

    async def list_for_platform(self, organization: OrganizationId) -> Sequence[ListedSetupLink]:
        """As `list`, for the links that platform owners made."""
        return [one for one in await self.lookup.list(organization) if one.link.by_platform]

    async def get_for_platform(self, organization: OrganizationId, link: SetupLinkId) -> ListedSetupLink:
        """As `get`, for a link that a platform owner made. What members have made is no business of the platform's."""
        known = await self.get(organization, link)
        if not known.link.by_platform:
            raise NotFound(NO_SUCH_LINK)
        return known

    async def release(self, member: Member, link: SetupLinkId, actor: Actor) -> None:
        """The next browser that presses the button owns the link. Raises `NotFound`, also when no browser owns it, and `Forbidden` when the
        member may not do what the link is for.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            known = found(await uow.setup_links.find_listed(member.organization, link), NO_SUCH_LINK)
            require_may_make(known.link.purposes, acting.capabilities)
            await self._release(uow, member.organization, link, actor)

    async def release_for_platform(self, owner: Caller, organization: OrganizationId, link: SetupLinkId, actor: Actor) -> None:
        """As `release`, for a link that a platform owner made."""
        async with self.unit_of_work() as uow:
            await self._hold_link_of_platform(uow, owner, organization, link)
            await self._release(uow, organization, link, actor)

    async def revoke(self, member: Member, link: SetupLinkId, actor: Actor) -> None:
        """The link opens nothing from the next request on, and its drafts are gone. What is active stays. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            await self._revoke(uow, member.organization, link, actor)

    async def revoke_for_platform(self, owner: Caller, organization: OrganizationId, link: SetupLinkId, actor: Actor) -> None:
        """As `revoke`, for a link that a platform owner made."""
        async with self.unit_of_work() as uow:
            await self._hold_link_of_platform(uow, owner, organization, link)
            await self._revoke(uow, organization, link, actor)

    async def look(self, token: Token) -> KnownSetupLink:
        """The link of a token, for the page with the button. It changes nothing, however often a program opens it. Raises
        `SetupLinkUnknown` and `SetupLinkRefused`.
        """
        known = await self.lookup.find_by_token(token.digest())
        if known is None:
            raise SetupLinkUnknown
        require_usable(known, self.system.clock.now())
        return known

    async def begin(self, token: Token, browser: Token, name: str, actor: Actor) -> SetupLink:
        """Bind the link to this browser. May be repeated in this browser. Raises `BadRequest`, `SetupLinkUnknown`, `SetupLinkRefused`."""
        known = await self.look(token)
        if known.browser_digest == browser.digest():
            return known.link
        by = UsedBy(digest=browser.digest(), name=user_name(name), address=actor.address, user_agent=actor.user_agent)
        async with self.unit_of_work() as uow:
            # The organization is held, so that nobody revokes the link at this moment.
            held = await uow.setup_links.hold(known.link.id)
            if held is None:
                raise SetupLinkUnknown
            require_usable(held, self.system.clock.now())
            owned = await uow.setup_links.own(known.link.id, by, self.system.clock.now())
            if owned is None:
                require_browser(held, browser.digest())
                return held.link
            await uow.record(setup_link_used(owned, replace(actor, key=owned.acting, user=None)))
            await uow.commit()
        log.info("setup_link_used", link=str(owned.id), organization=str(owned.organization))
        return owned

    async def enter(self, link: SetupLinkId, browser: Token | None) -> KnownSetupLink:
        """The link, for a page in the browser that owns it. Raises `SetupLinkUnknown` and `SetupLinkRefused`."""
        if browser is None:
            # Nothing tells such a browser whether there is a link.
            raise SetupLinkRefused(words="setup_unknown")
        known = await self.lookup.find(link)
        if known is None:
            raise SetupLinkUnknown
        require_browser(known, browser.digest())
        require_usable(known, self.system.clock.now())
        return known

    async def of_connection(self, provider: UpstreamProviderId, browser: Token | None) -> SetupLinkId | None:
        """The link with which this browser sets the connection up, for the way back from a test."""
        return None if browser is None else await self.lookup.find_by_connection(provider, browser.digest())

    def _link(
        self, organization: OrganizationId, wanted: WantedSetupLink, purposes: tuple[SetupPurpose, ...], maker: UserId, *, activates: bool
    ) -> SetupLink:
        now = self.system.clock.now()
        return SetupLink(
            id=SetupLinkId(self.system.ids.new()),
            organization=organization,
            name=key_name(wanted.name),
            prefix="",
            purposes=purposes,
            activates=activates,
            by_platform=False,
            mailed_to=None if wanted.mail_to is None else wanted.mail_to.address,
            expires_at=now + SETUP_LINK_LIFETIME,
            created_by=maker,
            created_at=now,
        )

    async def _add(self, uow: UnitOfWork, link: SetupLink, wanted: WantedSetupLink, actor: Actor) -> NewMachineKey[SetupLink]:
        made, count = await add_key(
            uow.setup_links.add, lambda: self.system.secrets.key(SETUP_LINK_KIND), lambda prefix: replace(link, prefix=prefix)
        )
        require_links_room(count)
        await uow.record(setup_link_created(made.key, actor))
        if wanted.mail_to is not None:
            await self._mail(uow, made, wanted)
        return made

    async def _mail(self, uow: UnitOfWork, made: NewMachineKey[SetupLink], wanted: WantedSetupLink) -> None:
        known = await uow.setup_links.find(made.key.id)
        assert known is not None  # noqa: S101 - this unit of work has added the link
        mail = self.templates.mail(
            "setup_link",
            made.key.mailed_to or "",
            account=None,
            language=wanted.language,
            branding=known.branding,
            link=self.links.setup(made.text),
            until=made.key.expires_at,
        )
        # Our own server sends the mail: whoever reads the link first owns it, and the operator of another server could.
        await uow.jobs.add(mail.as_job())

    async def _hold_link_of_platform(self, uow: UnitOfWork, owner: Caller, organization: OrganizationId, link: SetupLinkId) -> None:
        """Locks the set of platform owners and the organization, and checks that the link is one of theirs. Raises `Forbidden` when the
        caller is no platform owner any more, and `NotFound` for a link that no platform owner made.
        """
        await hold_office(uow, owner)
        await uow.setup_links.hold_organization(organization)
        known = await uow.setup_links.find_listed(organization, link)
        if known is None or not known.link.by_platform:
            raise NotFound(NO_SUCH_LINK)

    async def _release(self, uow: UnitOfWork, organization: OrganizationId, link: SetupLinkId, actor: Actor) -> None:
        released = found(await uow.setup_links.release(organization, link), "No browser uses this set-up link")
        await uow.record(setup_link_released(released, actor))
        await uow.commit()

    async def _revoke(self, uow: UnitOfWork, organization: OrganizationId, link: SetupLinkId, actor: Actor) -> None:
        revoked = found(
            await uow.setup_links.revoke(organization, link, self.system.clock.now()), "Setup link not found that could be revoked"
        )
        drafts = [draft for draft in await uow.setup_links.drafts(link) if not draft.is_active]
        await uow.setup_links.drop_drafts(link)
        for draft in drafts:
            await drop_connection(uow, draft, actor, keeps_named=True)
        await uow.record(setup_link_revoked(revoked, actor, len(drafts)))
        await uow.commit()
