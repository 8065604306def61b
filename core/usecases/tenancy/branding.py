"""Branding: the pictures, colours and type of an organization, chosen by members with permission."""

from core.domain.errors import found
from core.domain.identifiers import LogoId
from core.domain.record.events import Actor
from core.domain.requests import UNCHANGED
from core.domain.tenancy.branding import (
    LARGEST_LOGO,
    TIMEOUT,
    Logo,
    LookChange,
    LookPicture,
    OrganizationLook,
    branding_updated,
    logo_destination,
    logo_of,
    look_picture,
    picture_changed,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.fetches import not_fetched
from core.usecases.tenancy.rights import find_rights_for_update
from ports.outbound import Outbound, OutboundFailed
from ports.system import Ids
from ports.tenancy.organizations import LookStore
from ports.unit_of_work import UnitOfWorkFactory


class OrganizationBranding(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: LookStore
    outbound: Outbound
    ids: Ids

    async def get(self, member: Member) -> OrganizationLook:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return _found(await self.lookup.find(member.organization))

    async def logo(self, digest: str) -> Logo:
        """Returns the logo for everybody, because public pages show it. Raises `NotFound`."""
        return found(await self.lookup.logo(digest), "There is no such logo")

    async def change(self, member: Member, change: LookChange, actor: Actor) -> OrganizationLook:
        """Changes the branding. Postern fetches a logo whenever its address is sent, so sending the address again brings the new picture.
        Raises `BadRequest`, also when the logo cannot be fetched, and `Forbidden` when the caller may no longer change the branding.
        """
        change.require_something()
        # The check comes before the fetch, so that a wrong colour is refused at once.
        change.applied(OrganizationLook(None, None))
        logo = await self._fetched(change.logo_url) if isinstance(change.logo_url, str) else None
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            before = _found(await uow.looks.find(member.organization))
            after = change.applied(before)
            if after == before and logo is None:
                return before
            await uow.looks.save(member.organization, after)
            if change.logo_url is not UNCHANGED:
                await uow.looks.replace_picture(member.organization, LookPicture.LOGO, logo, LogoId(self.ids.new()))
                after = replace(after, logo_digest=None if logo is None else logo.digest)
            await uow.record(branding_updated(member.organization, before, after, actor, new_logo=logo is not None))
            await uow.commit()
        return after

    async def put_picture(self, member: Member, kind: LookPicture, content: bytes, actor: Actor, *, declared: str = "") -> OrganizationLook:
        """Sets an uploaded picture. An uploaded logo takes the place of one that was fetched. Raises `BadRequest`, `PayloadTooLarge`, and
        `Forbidden` when the caller may no longer change the branding.
        """
        return await self._replace(member, kind, look_picture(content, kind.bounds, declared), actor)

    async def remove_picture(self, member: Member, kind: LookPicture, actor: Actor) -> None:
        """Does nothing when there is none. Raises `Forbidden`."""
        await self._replace(member, kind, None, actor)

    async def _replace(self, member: Member, kind: LookPicture, picture: Logo | None, actor: Actor) -> OrganizationLook:
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            before = _found(await uow.looks.find(member.organization))
            after = before.with_picture(kind, None if picture is None else picture.digest)
            if after == before:
                return before
            await uow.looks.save(member.organization, after)
            await uow.looks.replace_picture(member.organization, kind, picture, LogoId(self.ids.new()))
            await uow.record(picture_changed(member.organization, kind, before, actor))
            await uow.commit()
        return after

    async def _fetched(self, url: str) -> Logo:
        try:
            answer = await self.outbound.get(logo_destination(url), TIMEOUT, most=LARGEST_LOGO)
        except OutboundFailed as failed:
            raise not_fetched(failed, "logo_url", "the picture", TIMEOUT) from None
        return logo_of(answer.status, answer.body)


def _found(look: OrganizationLook | None) -> OrganizationLook:
    return found(look, "There is no such organization", words="organization_unknown")
