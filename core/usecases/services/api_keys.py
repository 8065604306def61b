"""API keys and client secrets of applications: created, revoked, and presented on requests."""

from collections.abc import Sequence

from core.domain.errors import found
from core.domain.identifiers import ApiKeyId, ClientSecretId
from core.domain.record.events import SYSTEM, Actor
from core.domain.requests import Listed
from core.domain.secrets import Token
from core.domain.services.api_keys import (
    API_KEY_KIND,
    CLIENT_SECRETS_KIND,
    ApiKey,
    ClientSecret,
    KeyHolder,
    Permission,
    PlacedKey,
    api_key_created,
    api_key_deleted,
    client_secret_created,
    client_secret_deleted,
    key_expiry,
    key_permissions,
    require_confidential,
    require_grantable,
    require_room_for_api_key,
    require_room_for_client_secret,
)
from core.domain.services.user_keys import MadeUserKey, user_key_revoked
from core.domain.tenancy.management_keys import NewMachineKey, holder_of, key_name, prefix_of
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.management_keys import add_key
from core.usecases.tenancy.rights import hold_members, hold_rights, require_capability
from ports.services.services import ApiKeyLookup, ClientSecretStore, UserKeyStore
from ports.system import Presence, System
from ports.unit_of_work import UnitOfWorkFactory

_NO_SUCH_KEY = "The service has no such API key"


class ApiKeys(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ApiKeyLookup
    user_keys: UserKeyStore
    presence: Presence[ApiKeyId]
    system: System

    async def resolve(self, key: Token) -> KeyHolder:
        """The key's holder. Raises `Unauthorized` when there is no such key or it has expired, and `OrganizationNotActive`."""
        now = self.system.clock.now()
        holder = holder_of(await self.lookup.find(key.digest()), key, now, "The API key is not valid")
        self.presence.seen(holder.key, now)
        return holder

    async def create(
        self,
        member: Member,
        service_slug: str,
        actor: Actor,
        *,
        name: str,
        permissions: tuple[Permission, ...],
        expires_in_days: int | None = None,
    ) -> NewMachineKey[ApiKey]:
        """Create a key. Raises `BadRequest`, `NotFound`, and `Forbidden` for a permission whose capability the member lacks."""
        name, permissions = key_name(name), key_permissions(permissions)
        now = self.system.clock.now()
        expires_at = key_expiry(expires_in_days, now)
        async with self.unit_of_work() as uow:
            require_grantable(permissions, await hold_rights(uow, member, Capability.SERVICES_MANAGE))
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            made, count = await add_key(
                uow.api_keys.add,
                lambda: self.system.secrets.key(API_KEY_KIND),
                lambda prefix: ApiKey(
                    id=ApiKeyId(self.system.ids.new()),
                    service=service.id,
                    name=name,
                    prefix=prefix,
                    permissions=permissions,
                    expires_at=expires_at,
                    created_by=member.responsible,
                    created_at=now,
                    made_by_key=member.key_id,
                ),
            )
            require_room_for_api_key(count)
            placed = PlacedKey(made.key, service.slug, member.organization, member.organization_slug)
            await uow.record(api_key_created(placed, actor))
            await uow.commit()
        return made

    async def list(self, member: Member, service_slug: str, limit: int, offset: int) -> Listed[ApiKey]:
        """Newest first, expired keys included. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug, limit, offset), NO_SUCH_SERVICE)

    async def get(self, member: Member, service_slug: str, key: ApiKeyId) -> ApiKey:
        """Raises `NotFound`."""
        return found(await self.lookup.find_by_id(member.organization, service_slug, key), _NO_SUCH_KEY)

    async def made(self, member: Member, key: ApiKey) -> Sequence[MadeUserKey] | None:
        """The keys of users that the key has made. None when the caller may not see the users of services."""
        return await self.user_keys.made_with(key.service, key.id) if member.may(Capability.END_USERS_VIEW) else None

    async def delete(self, member: Member, service_slug: str, key: ApiKeyId, actor: Actor, *, end_made: bool) -> None:
        """Deletes the key, which is refused from the next request on. The keys of users that it made stay, or end too with `end_made`.
        Raises `NotFound`, and `Forbidden` when the caller wants to end those and may not, or no longer, manage services and their users.
        """
        async with self.unit_of_work() as uow:
            if end_made:
                acting, _ = await hold_members(uow, member)
                require_capability(acting, Capability.SERVICES_MANAGE)
                require_capability(acting, Capability.END_USERS_MANAGE)
            deleted = found(await uow.api_keys.delete(member.organization, service_slug, key), _NO_SUCH_KEY)
            ended = await uow.user_keys.end_made(deleted.key.service, key) if end_made else ()
            revoked = [user_key_revoked(one, deleted.service_slug, deleted.organization, actor) for one in ended]
            await uow.record_all([api_key_deleted(deleted, actor), *revoked])
            await uow.commit()

    async def revoke(self, prefix: str, operator: str) -> PlacedKey:
        """Deletes an API key for an operator, who knows only the key's prefix. The key is refused from the next request on. The caller has
        checked that the operator may do this. Raises `NotFound`.
        """
        async with self.unit_of_work() as uow:
            deleted = found(await uow.api_keys.revoke(prefix), "There is no API key with this prefix")
            await uow.record(api_key_deleted(deleted, SYSTEM, operator))
            await uow.commit()
        return deleted


class NewClientSecret(Frozen):
    """A new client secret with its text. Postern stores the prefix and a digest, so no later answer has the text."""

    secret: ClientSecret
    text: Token


class ClientSecrets(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ClientSecretStore
    system: System

    async def create(self, member: Member, service_slug: str, actor: Actor) -> NewClientSecret:
        """Create a client secret. Raises `NotFound`, `BadRequest` when the service cannot keep a secret or has two secrets already, and
        `Forbidden` when the caller may no longer manage services.
        """
        text = self.system.secrets.key(CLIENT_SECRETS_KIND)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            require_confidential(service)
            require_room_for_client_secret(await uow.client_secrets.count(service.id))
            secret = ClientSecret(
                ClientSecretId(self.system.ids.new()),
                service.id,
                prefix_of(text),
                member.responsible,
                self.system.clock.now(),
                member.key_id,
            )
            await uow.client_secrets.add(secret, text.digest())
            await uow.record(client_secret_created(secret, service, actor))
            await uow.commit()
        return NewClientSecret(secret, text)

    async def list(self, member: Member, service_slug: str) -> Sequence[ClientSecret]:
        """Oldest first. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug), NO_SUCH_SERVICE)

    async def delete(self, member: Member, service_slug: str, secret: ClientSecretId, actor: Actor) -> None:
        """The secret is refused from the next request on. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            deleted = found(await uow.client_secrets.delete(service.id, secret), "The service has no such client secret")
            await uow.record(client_secret_deleted(deleted, service, actor))
            await uow.commit()
