"""Organizations' own upstream providers: members who may manage the settings create, change and delete them."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import UpstreamProviderId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.oauth_credentials import client_id, client_secret
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.upstream_providers import (
    UpstreamProvider,
    issuer,
    profile_mapping,
    provider_created,
    provider_deleted,
    provider_name,
    provider_updated,
    require_room,
    scopes,
    sealing_context,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_rights
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.identity.upstream.protocols import UpstreamProtocols
from ports.ids import Ids
from ports.tenancy.upstream_providers import UpstreamProviderStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class OrganizationUpstreamProviders(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: UpstreamProviderStore
    protocols: UpstreamProtocols
    keyring: KeyRing
    clock: Clock
    ids: Ids

    async def list(self, member: Member) -> Sequence[UpstreamProvider]:
        return await self.lookup.list(member.organization)

    async def create(
        self,
        member: Member,
        actor: Actor,
        *,
        name: str,
        issued_by: str,
        client: str,
        secret: str,
        asked: Sequence[str],
        enabled: bool,
        mapping: Mapping[str, str],
    ) -> UpstreamProvider:
        """Create a provider. Raises `BadRequest`, also when the issuer does not answer as an OpenID Connect provider."""
        now = self.clock.now()
        provider = UpstreamProvider(
            id=UpstreamProviderId(self.ids.new()),
            organization=member.organization,
            name=provider_name(name),
            issuer=issuer(issued_by),
            client_id=client_id(client),
            scopes=scopes(asked),
            enabled=enabled,
            profile_mapping=profile_mapping(mapping),
            created_at=now,
            updated_at=now,
        )
        sealed = self._sealed(provider.id, secret)
        await self.protocols.check(provider.issuer)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            require_room(await uow.upstream_providers.count(member.organization))
            if not await uow.upstream_providers.add(provider, sealed):
                raise BadRequest(_NAME_TAKEN)
            await uow.record(provider_created(provider, actor))
            await uow.commit()
        return provider

    async def change(
        self,
        member: Member,
        provider: UpstreamProviderId,
        actor: Actor,
        *,
        name: str | None,
        issued_by: str | None,
        client: str | None,
        secret: str | None,
        asked: Sequence[str] | None,
        enabled: bool | None,
        mapping: Mapping[str, str] | None = None,
    ) -> UpstreamProvider:
        """Fields that are None keep their values. Raises `BadRequest`, also for another issuer, and `NotFound`."""
        if all(one is None for one in (name, issued_by, client, secret, asked, enabled, mapping)):
            raise BadRequest("Send at least one of name, client_id, client_secret, scopes, enabled and profile_mapping")
        wanted_name = None if name is None else provider_name(name)
        wanted_client = None if client is None else client_id(client)
        wanted_scopes = None if asked is None else scopes(asked)
        wanted_mapping = None if mapping is None else profile_mapping(mapping)
        sealed = None if secret is None else self._sealed(provider, secret)
        async with self.unit_of_work() as uow:
            before = await _held(uow, member, provider)
            if issued_by is not None and issued_by != before.issuer:
                # Identities are stored with their issuer, so connected people would no longer be recognised.
                raise BadRequest("issuer: it cannot be changed; for another one, make another provider")
            after = replace(
                before,
                name=before.name if wanted_name is None else wanted_name,
                client_id=before.client_id if wanted_client is None else wanted_client,
                scopes=before.scopes if wanted_scopes is None else wanted_scopes,
                enabled=before.enabled if enabled is None else enabled,
                profile_mapping=before.profile_mapping if wanted_mapping is None else wanted_mapping,
            )
            if after == before and sealed is None:
                return before
            after = replace(after, updated_at=self.clock.now())
            if not await uow.upstream_providers.save(after, sealed):
                raise BadRequest(_NAME_TAKEN)
            await uow.record(provider_updated(before, after, actor, secret=sealed is not None))
            await uow.commit()
        return after

    async def delete(self, member: Member, provider: UpstreamProviderId, actor: Actor) -> None:
        """Delete a provider and the identities that people have there. Raises `NotFound`, and `Conflict` while a domain route leads to the
        provider.
        """
        async with self.unit_of_work() as uow:
            deleted = await _held(uow, member, provider)
            if await uow.upstream_providers.is_named(provider):
                raise Conflict("A domain route leads to this provider: change the route first")
            await uow.upstream_providers.delete(provider)
            await uow.record(provider_deleted(deleted, actor))
            await uow.commit()

    def _sealed(self, provider: UpstreamProviderId, secret: str) -> bytes:
        return self.keyring.seal(client_secret(secret).reveal().encode(), sealing_context(provider))


async def _held(uow: UnitOfWork, member: Member, provider: UpstreamProviderId) -> UpstreamProvider:
    await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
    held = await uow.upstream_providers.hold(member.organization, provider)
    if held is None:
        raise NotFound("There is no such upstream provider")
    return held


_NAME_TAKEN: Final = "name: the organization has an upstream provider of this name"
