"""Owners of organizations: how they confirm or decline an ownership, and the mails that they get."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.branding import Branding
from core.domain.errors import BadRequest, Forbidden, NotFound, found
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.tenancy.members import (
    DECLINED,
    NOT_YOUR_ORGANIZATION,
    Addressee,
    DeclinedOwnership,
    UnconfirmedOwnership,
    ownership_declined,
)
from core.domain.tenancy.organizations import OrganizationOverview
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from core.usecases.tenancy.rights import confirm_ownership
from ports.mail import MailTemplates
from ports.system import Clock
from ports.tenancy.members import Handed
from ports.tenancy.organizations import OrganizationStore
from ports.tenancy.receivers import Owner
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Ownerships(Frozen):
    """Confirms or declines an ownership that someone else has given to a user.

    The owner's first act that needs an owner confirms the ownership, too: see `core.usecases.tenancy.rights.require_owner`.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: OrganizationStore
    templates: MailTemplates
    links: Links
    clock: Clock

    async def of(self, caller: Caller, slug: str) -> OrganizationOverview:
        """The organization with this slug, for its members. Raises `NotFound`, and `Forbidden` for a token of another organization."""
        if caller.organization and caller.organization != slug:
            raise Forbidden(NOT_YOUR_ORGANIZATION, words="not_a_member")
        for one in await self.lookup.list(caller.user):
            if one.organization.slug == slug:
                return one
        raise NotFound(_UNKNOWN, words="organization_unknown")

    async def confirm(self, caller: Caller, organization: OrganizationId) -> None:
        """The caller says that the organization is theirs. May be repeated. Raises `NotFound` for people who are not members, `BadRequest`
        for members who are not the owner, and `Forbidden` while somebody impersonates the caller.
        """
        require_in_person(caller)
        async with self.unit_of_work() as uow:
            await uow.ownerships.hold(organization)
            await _require_owner(uow, organization, caller.user)
            await confirm_ownership(uow, UnconfirmedOwnership(organization, caller.user), self.clock.now())
            await uow.commit()

    async def decline(self, caller: Caller, organization: OrganizationId) -> None:
        """The caller says that the organization is not theirs, and stays a member. The former owner is the owner again, or the organization
        is suspended and the owners of the platform are told. May be repeated. Raises `NotFound` for people who are not members,
        `BadRequest` for an owner who has confirmed the ownership, and `Forbidden` while somebody impersonates the caller.
        """
        require_in_person(caller)
        async with self.unit_of_work() as uow:
            if await self.decline_in(uow, organization, caller.user):
                await uow.commit()
                return
            known = await uow.members.find(organization, caller.user)
        if known is None:
            raise NotFound(_UNKNOWN, words="organization_unknown")
        if known.membership.role == BuiltInRole.OWNER:
            raise BadRequest("You have confirmed that this organization is yours: transfer the ownership", words="ownership_confirmed")

    async def decline_in(self, uow: UnitOfWork, organization: OrganizationId, user: UserId) -> bool:
        """As `decline`, in a unit of work that is open. Whoever holds an account already has held the organization before. False when there
        is nothing to decline.
        """
        ownership = UnconfirmedOwnership(organization, user)
        await uow.ownerships.hold(organization)
        declined = await uow.ownerships.decline(ownership, DECLINED, self.clock.now())
        if declined is None:
            return False
        await uow.record_all(ownership_declined(ownership, declined))
        await self._tell(uow, ownership, declined)
        return True

    async def tell_heir(self, uow: UnitOfWork, heir: Account, handed: Handed) -> None:
        person = Addressee(heir.id, heir.email, heir.language)
        await self._mail(uow, "ownership_received", person, handed.organization_name, self.links.ownership(handed.organization_slug))

    async def _tell(self, uow: UnitOfWork, ownership: UnconfirmedOwnership, declined: DeclinedOwnership) -> None:
        called = declined.organization_name
        if declined.former is not None:
            link = self.links.organization(declined.organization_slug)
            await self._mail(uow, "ownership_returned", declined.former, called, link)
            return
        link = self.links.organization_of_platform(ownership.organization)
        for governor in await uow.ownerships.governors():
            await self._mail(uow, "ownership_declined", governor, called, link)

    async def _mail(self, uow: UnitOfWork, template: str, to: Addressee, called: str, link: str) -> None:
        mail = self.templates.mail(template, to.email.address, account=to.user, language=to.language, branding=Branding(called), link=link)
        await uow.jobs.add(mail.as_job())


def require_in_person(caller: Caller) -> None:
    """Raises `Forbidden` while somebody impersonates the caller."""
    if caller.impersonator is not None:
        raise Forbidden("Only the person themselves can say where they belong", words="person_says")


async def _require_owner(uow: UnitOfWork, organization: OrganizationId, user: UserId) -> None:
    known = found(await uow.members.find(organization, user), _UNKNOWN, words="organization_unknown")
    if known.membership.role != BuiltInRole.OWNER:
        raise BadRequest("You are not the owner of this organization", words="not_the_owner")


_UNKNOWN: Final = "There is no such organization"


async def tell_owners(
    uow: UnitOfWork, templates: MailTemplates, owners: Sequence[Owner], template: str, **values: str | bool | datetime | None
) -> None:
    """Mails the owners of an organization: about something that will stop working, or that they asked to be notified of."""
    for owner in owners:
        mail = templates.mail(
            template,
            owner.email.address,
            account=owner.user,
            language=owner.language,
            branding=owner.branding,
            carries_own_texts=owner.is_own,
            **values,
        )
        await uow.jobs.add(mail.as_job())
