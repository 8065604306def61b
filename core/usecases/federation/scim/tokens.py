"""SCIM tokens, which members create and directories present, and the log of their requests."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.errors import Forbidden, NotFound, Unauthorized
from core.domain.federation.scim.tokens import (
    KIND,
    ScimExchange,
    ScimHolder,
    ScimToken,
    require_future,
    require_room,
    scim_token_created,
    scim_token_deleted,
)
from core.domain.identifiers import ScimTokenId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.tenancy.invitations import require_may_admit
from core.domain.tenancy.management_keys import NewMachineKey, holder_of, key_name
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.management_keys import add_key
from core.usecases.tenancy.rights import hold_rights
from ports.federation.scim import ScimExchangeStore, ScimTokenLookup
from ports.system import Presence, System
from ports.tenancy.connections import SetupLinkStore
from ports.unit_of_work import UnitOfWorkFactory


class ScimTokens(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ScimTokenLookup
    drafts: SetupLinkStore
    presence: Presence[ScimTokenId]
    system: System

    async def resolve(self, token: Token) -> ScimHolder:
        """The token's holder. Raises `Unauthorized` when there is no such token or it has expired, and `OrganizationNotActive`."""
        now = self.system.clock.now()
        known = await self.lookup.find(token.digest())
        if known is None and await self.drafts.seen(token.digest(), now):
            # Whoever sets the directory up waits for its first request.
            raise Unauthorized("The SCIM token is pending activation by an owner of the organization")
        holder = holder_of(known, token, now, "The SCIM token is not valid")
        self.presence.seen(holder.token, now)
        return holder

    async def create(self, member: Member, actor: Actor, *, name: str, expires_at: datetime | None) -> NewMachineKey[ScimToken]:
        """Raises `BadRequest`, and `Forbidden` when the member may not, or no longer, manage both integrations and members."""
        name = key_name(name)
        now = self.system.clock.now()
        require_future(expires_at, now)
        async with self.unit_of_work() as uow:
            # A directory adds and removes members, so a member who makes its token needs the same right.
            held = await hold_rights(uow, member, Capability.INTEGRATIONS_MANAGE)
            if Capability.MEMBERS_MANAGE not in held:
                raise Forbidden("A directory manages members: this requires the capability to manage them")
            require_may_admit(held)
            made, count = await add_key(
                uow.scim_tokens.add,
                lambda: self.system.secrets.key(KIND),
                lambda prefix: ScimToken(
                    id=ScimTokenId(self.system.ids.new()),
                    organization=member.organization,
                    name=name,
                    prefix=prefix,
                    expires_at=expires_at,
                    created_by=member.user,
                    created_at=now,
                ),
            )
            require_room(count)
            await uow.record(scim_token_created(made.key, actor))
            await uow.commit()
        return made

    async def list(self, member: Member) -> Sequence[ScimToken]:
        """Newest first, expired tokens included."""
        return await self.lookup.list(member.organization)

    async def delete(self, member: Member, token: ScimTokenId, actor: Actor) -> None:
        """The token is refused from the next request on. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.INTEGRATIONS_MANAGE)
            deleted = await uow.scim_tokens.delete(member.organization, token)
            if deleted is None:
                raise NotFound("There is no such SCIM token")
            await uow.record(scim_token_deleted(deleted, actor))
            await uow.commit()


class ScimExchanges(Frozen):
    store: ScimExchangeStore

    async def list(self, member: Member, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        """Newest first. With `refused`, only the refused exchanges."""
        return await self.store.list(member.organization, limit, refused=refused)
