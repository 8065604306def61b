"""OAuth credentials: an organization's own clients at the upstream providers. Members who may manage the settings set and remove them."""

from core.domain.identifiers import OAuthCredentialId
from core.domain.identity.upstream.providers import Provider
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.oauth_credentials import (
    OAuthCredentials,
    client_id,
    client_secret,
    credentials_removed,
    credentials_updated,
    sealing_context,
)
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from ports.encryption import KeyRing
from ports.system import System
from ports.tenancy.oauth_credentials import OAuthCredentialStore
from ports.unit_of_work import UnitOfWorkFactory


class OrganizationOAuthCredentials(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: OAuthCredentialStore
    keyring: KeyRing
    system: System

    async def get(self, member: Member, provider: Provider) -> OAuthCredentials | None:
        return await self.lookup.find(member.organization, provider)

    async def configure(self, member: Member, actor: Actor, provider: Provider, *, client: str, secret: str) -> OAuthCredentials:
        """Replace the organization's credentials at this provider. Raises `BadRequest`, and `Forbidden` when the caller may no longer
        change the settings.
        """
        now = self.system.clock.now()
        credentials = OAuthCredentials(
            id=OAuthCredentialId(self.system.ids.new()),
            organization=member.organization,
            provider=provider,
            client_id=client_id(client),
            created_at=now,
            updated_at=now,
        )
        sealed = self.keyring.seal(client_secret(secret).reveal().encode(), sealing_context(credentials.id))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            await uow.oauth_credentials.save(credentials, sealed)
            await uow.record(credentials_updated(credentials, actor))
            await uow.commit()
        return credentials

    async def remove(self, member: Member, actor: Actor, provider: Provider) -> None:
        """Remove the credentials; nothing happens when there are none. Raises `Forbidden` when the caller may no longer change the
        settings.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.oauth_credentials.remove(member.organization, provider)
            if removed is not None:
                await uow.record(credentials_removed(removed, actor))
                await uow.commit()
