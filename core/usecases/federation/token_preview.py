"""Previews of tokens, for those who look after a service."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from core.domain.errors import NotFound
from core.domain.federation.oauth.resources import SCOPES
from core.domain.federation.token_preview import (
    MOST_VERDICTS,
    PreviewedPerson,
    ServiceAccess,
    TokenPreview,
    token_preview,
    verdict,
)
from core.domain.identifiers import UserId
from core.domain.mail import Email
from core.domain.tenancy.members import Member, knows_of_office
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from ports.federation.oauth import PreviewLookup
from ports.jobs import Turns
from ports.system import Clock


class TokenPreviews(Frozen):
    lookup: PreviewLookup
    clock: Clock
    issuer: str
    access_lifetime: timedelta
    turns: Turns

    async def preview(self, member: Member, service_slug: str, user: UserId, scopes: Sequence[str] = SCOPES) -> TokenPreview:
        """What the service would learn of this person, if the service asks for these scopes. Raises `Forbidden` for a member who may not
        see end users, and `NotFound`, also for people without a tie to the service or its organization.
        """
        member.require(Capability.END_USERS_VIEW)
        found = await self.lookup.find(member.organization, service_slug, user)
        if found is None:
            raise NotFound("The organization has no such service, or nobody of this id has to do with it")
        return self._preview(_as_read(member, found.for_organization), scopes)

    async def preview_of(
        self, member: Member, organization_slug: str, service_slug: str, email: Email, scopes: Sequence[str] = SCOPES
    ) -> TokenPreview:
        """The same, for the person with this address. `organization_slug` is the organization of the member. Raises the errors of
        `preview`.
        """
        member.require(Capability.END_USERS_VIEW)
        found = await self.lookup.find_named(organization_slug, service_slug, email)
        if found is None or found.application.organization != member.organization:
            raise NotFound("The organization has no such service, or nobody with this address has to do with it")
        return self._preview(_as_read(member, found.for_organization), scopes)

    async def verdicts(self, member: Member, user: UserId) -> Sequence[ServiceAccess]:
        """For each service of the organization whether this person may sign in, and why. Raises `NotFound` for people without a tie to the
        organization, and where there is no service; `Forbidden` for a member who may not see end users.
        """
        member.require(Capability.END_USERS_VIEW)
        found = await self.lookup.find_all(member.organization, user, MOST_VERDICTS)
        if not found:
            raise NotFound("The organization has no service, or nobody of this id has to do with it")
        return [_access(member, one) for one in found]

    async def hook_refused_at(self, member: Member, user: UserId) -> datetime | None:
        """When the organization's hook has last refused a sign-in of this person that is still open. It is asked anew at the next one, so
        it is no part of a verdict. None for a member who may not read the hook.
        """
        if not (member.may(Capability.END_USERS_VIEW) and member.may(Capability.WEBHOOKS_MANAGE)):
            return None
        return await self.lookup.hook_refused_at(member.organization, user)

    async def tied(self, member: Member, email: Email) -> UserId:
        """The member of the organization, or the user of one of its services, with this address. Raises `NotFound` for every other address,
        whether an account has it or not, and `Forbidden` for a member who may not see end users.
        """
        member.require(Capability.END_USERS_VIEW)
        found = await self.lookup.find_tied(member.organization, email)
        if found is None:
            raise NotFound("Nobody with this address has to do with the organization")
        return found

    async def admitted(self, member: Member, service_slug: str, after: UserId | None, limit: int) -> tuple[Sequence[ServiceAccess], bool]:
        """The members and users whom the service admits, by their ids, and whether there are more. All members may be among them, and are
        then sorted, so it takes turns. Raises `Forbidden` for a member who may not see end users, and `NotFound`.
        """
        member.require(Capability.END_USERS_VIEW)
        async with self.turns.take(member.organization):
            found = await self.lookup.find_admitted(member.organization, service_slug, after, limit + 1)
        if found is None:
            raise NotFound("The organization has no such service")
        return [_access(member, one) for one in found[:limit]], len(found) > limit

    async def explain(self, email: Email, organization_slug: str, service_slug: str) -> TokenPreview:
        """For operators. Raises `NotFound`."""
        found = await self.lookup.find_named(organization_slug, service_slug, email)
        if found is None:
            raise NotFound(f"There is no service {organization_slug}/{service_slug}, or {email} has nothing to do with it")
        return self._preview(found, SCOPES)

    def _preview(self, found: PreviewedPerson, scopes: Sequence[str]) -> TokenPreview:
        return token_preview(found, scopes, issuer=self.issuer, now=self.clock.now(), lifetime=self.access_lifetime)


def _access(member: Member, person: PreviewedPerson) -> ServiceAccess:
    known = _as_read(member, person.for_organization)
    return ServiceAccess(known, verdict(known))


def _as_read(member: Member, person: PreviewedPerson) -> PreviewedPerson:
    return replace(person, is_platform_owner=knows_of_office(member, person.user, is_platform_owner=person.is_platform_owner))
