"""Connections outwards of applications: members draft them, and an owner makes active what the page has shown."""

from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import urlsplit

from core.domain.claims import Said
from core.domain.errors import BadRequest, NotFound, found
from core.domain.federation.provisioning.connections import (
    ProvisioningConnection,
    ProvisioningConnectionSettings,
    ProvisioningDraft,
    ProvisioningState,
    checked_draft,
    connection_settings,
    drafted,
    ending,
    halted,
    made_active,
    provisioning_changed,
    require_elsewhere,
    require_not_ending,
    token_context,
)
from core.domain.federation.provisioning.people import WhyGone, said_there
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, UserId
from core.domain.outbound import destination
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.services import Service
from core.domain.tenancy.members import Member
from core.domain.tenancy.upstream_providers import require_seen
from core.frozen import Frozen
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import find_members_for_update, require_owner
from ports.crypto import KeyRing
from ports.federation.provisioning import ProvisioningConnectionStore
from ports.federation.provisioning_runs import ProvisionedPeopleStore, ProvisioningRunStore
from ports.outbound import Outbound
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

NO_CONNECTION = "The application has no connection outwards"


class PeopleLeftThere(StrEnum):
    """What becomes of the people there when the connection goes."""

    LEAVE = "leave"
    END = "end"


class PreviewThere(Frozen):
    """What would be sent of a person, and why something would not."""

    user: UserId
    why_gone: WhyGone | None
    """Why the person would not be there at all."""
    said: Sequence[Said]


class ProvisioningConnections(Frozen):
    unit_of_work: UnitOfWorkFactory
    store: ProvisioningConnectionStore
    runs: ProvisioningRunStore
    people: ProvisionedPeopleStore
    keyring: KeyRing
    outbound: Outbound
    system: System
    base_url: str

    async def get(self, member: Member, service_slug: str) -> tuple[ProvisioningConnection | None, int]:
        """With the number of people who are active there. Raises `NotFound`."""
        kept = found(await self.store.find(member.organization, service_slug), NO_SUCH_SERVICE)
        return kept.connection, kept.active_there

    async def preview(self, member: Member, service_slug: str, user: UserId) -> PreviewThere:
        """By the functions of tokens, and as the settings are now. Raises `NotFound`, also for people who are no members."""
        work = found(await self.runs.work(member.organization, service_slug), NO_CONNECTION)
        people = await self.people.people(work, [user])
        if not people or not people[0].is_member:
            raise NotFound("The organization has no such member")
        (person,) = people
        mapping = [one for one in work.mapping if one.attribute not in work.left_out]
        return PreviewThere(user, person.why_gone, said_there(person, mapping, issuer=self.base_url))

    async def draft(self, member: Member, service_slug: str, draft: ProvisioningDraft, actor: Actor) -> ProvisioningConnection:
        """Makes or changes a connection. What was active stops, and waits for an owner. Raises `BadRequest`, `NotFound`, `Forbidden`, and
        `Conflict` for a circle and for a connection that ends everybody.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await find_members_for_update(uow, member)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            before = await uow.provisioning.find_for_update(service.id)
            settings = checked_draft(draft, before)
            self._require_callable(settings.base_url)
            await self._check(uow, member, settings)
            if before is None:
                after = self._new(service, settings)
                await uow.provisioning.add(after, self._sealed(after, settings))
            else:
                require_not_ending(before)
                after = drafted(before, settings, now)
                await self._save(uow, before, after, settings)
            if after != before:
                await uow.record(provisioning_changed("service.provisioning.updated", before, after, service.slug, actor))
            await uow.commit()
        return after

    async def activate(self, member: Member, service_slug: str, actor: Actor, *, seen: str) -> ProvisioningConnection:
        """Makes exactly the settings active that the owner has seen. The first run with them is a plan. Raises `BadRequest`, `NotFound`,
        `Forbidden` for anybody but an owner, and `Conflict` for other settings.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            service, before = await self._held_by_owner(uow, member, service_slug)
            require_seen(seen, before.digest)
            after = made_active(before, now)
            if before.state is not ProvisioningState.ACTIVE:
                # The operator may allow other networks since the draft.
                self._require_callable(before.base_url)
                # A directory may have come since the draft.
                await self._check_circle(uow, before.organization, before.base_url, token_is_own=False)
                # Not with the draft: who was forgotten here has to be deleted there, and a draft is no owner's word.
                if before.is_elsewhere:
                    await uow.provisioning.forget_people(before.id)
                await uow.provisioning.save(after, keeps_token=True, sealed_token=None)
                await uow.record(provisioning_changed("service.provisioning.activated", before, after, service.slug, actor))
            await uow.commit()
        return after

    async def stop(self, member: Member, service_slug: str, actor: Actor) -> ProvisioningConnection:
        """Sends nothing until an owner makes it active again. May be repeated. Raises `NotFound`, `Forbidden` and `Conflict`."""
        async with self.unit_of_work() as uow:
            await find_members_for_update(uow, member)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            before = found(await uow.provisioning.find_for_update(service.id), NO_CONNECTION)
            after = halted(before, self.system.clock.now())
            if after != before:
                await uow.provisioning.save(after, keeps_token=True, sealed_token=None)
                await uow.record(provisioning_changed("service.provisioning.deactivated", before, after, service.slug, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, service_slug: str, left: PeopleLeftThere, actor: Actor) -> None:
        """Deletes the connection, and leaves its people there, or ends them first. Raises `NotFound`, `Forbidden` for anybody but an owner,
        and `Conflict`.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            service, before = await self._held_by_owner(uow, member, service_slug)
            after = None
            if left is PeopleLeftThere.END:
                require_not_ending(before)
                after = ending(before, now)
                await uow.provisioning.save(after, keeps_token=True, sealed_token=None)
            else:
                await uow.provisioning.delete(before.id)
            await uow.record(provisioning_changed("service.provisioning.deleted", before, after, service.slug, actor))
            await uow.commit()

    async def _held_by_owner(self, uow: UnitOfWork, member: Member, service_slug: str) -> tuple[Service, ProvisioningConnection]:
        acting, _ = await find_members_for_update(uow, member)
        await require_owner(uow, acting, self.system.clock.now())
        service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
        return service, found(await uow.provisioning.find_for_update(service.id), NO_CONNECTION)

    async def _check(self, uow: UnitOfWork, member: Member, draft: ProvisioningConnectionSettings) -> None:
        token_is_own = False
        if draft.token is not None:
            token_is_own = await uow.provisioning.find_organization_by_scim_token(Token(draft.token).digest()) == member.organization
        await self._check_circle(uow, member.organization, draft.base_url, token_is_own=token_is_own)
        if draft.teams is not None and len(await uow.provisioning.teams(member.organization, draft.teams)) < len(set(draft.teams)):
            raise BadRequest("team_ids: the organization has no such team", words="tick_one")

    async def _check_circle(self, uow: UnitOfWork, organization: OrganizationId, base_url: str, *, token_is_own: bool) -> None:
        directories = [str(urlsplit(one).hostname) for one in await uow.provisioning.directories(organization)]
        require_elsewhere(base_url, token_is_own=token_is_own, directories=directories)

    def _require_callable(self, base_url: str) -> None:
        """As for webhooks. A name is judged at each call, by the addresses that it has then."""
        if not self.outbound.may_call(destination(base_url)):
            raise BadRequest(
                "base_url: this URL is not public, and the operator of this installation has not allowed it", words="address_not_public"
            )

    async def _save(
        self, uow: UnitOfWork, before: ProvisioningConnection, after: ProvisioningConnection, draft: ProvisioningConnectionSettings
    ) -> None:
        if after == before:
            return
        keeps_token = draft.token is None and after.token_set_at is not None
        await uow.provisioning.save(after, keeps_token=keeps_token, sealed_token=self._sealed(after, draft))

    def _new(self, service: Service, draft: ProvisioningConnectionSettings) -> ProvisioningConnection:
        now = self.system.clock.now()
        return ProvisioningConnection(
            id=ProvisioningConnectionId(self.system.ids.new()),
            organization=service.organization,
            service=service.id,
            **connection_settings(draft),
            token_set_at=None if draft.token is None else now,
            made_at=now,
            changed_at=now,
        )

    def _sealed(self, connection: ProvisioningConnection, draft: ProvisioningConnectionSettings) -> bytes | None:
        return None if draft.token is None else self.keyring.seal(draft.token.encode(), token_context(connection.id))
