"""What management keys have made: it lasts without the key, and may end with it."""

from core.domain.errors import found
from core.domain.identifiers import ManagementKeyId
from core.domain.record.events import Actor
from core.domain.services.api_keys import api_key_deleted
from core.domain.services.client_secrets import made_secret_deleted
from core.domain.tenancy.invitations import revoked
from core.domain.tenancy.keys.management_keys import MOST_LISTED, MadeByKey, management_key_ended
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.keys.management_keys import NO_SUCH_MANAGEMENT_KEY
from core.usecases.tenancy.rights import hold_members, require_capability
from ports.clock import Clock
from ports.unit_of_work import UnitOfWorkFactory


class MadeByKeys(Frozen):
    unit_of_work: UnitOfWorkFactory
    clock: Clock

    async def end(self, member: Member, key: ManagementKeyId, actor: Actor, *, end_made: bool) -> MadeByKey:
        """End a management key, which is refused from the next request on. Nobody can accept its invitations any more. Returns what the key
        has made that lasted until now; with `end_made`, this ends too, except for memberships. Raises `NotFound`, and `Forbidden` when the
        caller may no longer do this, or may not manage services and wants to end what the key made.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, Capability.INTEGRATIONS_MANAGE)
            if end_made:
                require_capability(acting, Capability.SERVICES_MANAGE)
            made = await uow.management_keys.made(key)
            ended = found(await uow.management_keys.end(member.organization, key), NO_SUCH_MANAGEMENT_KEY)
            events = [management_key_ended(ended, actor, made, ended_made=end_made)]
            if end_made:
                # They are void in any case, so cancelling them takes no further right. Any beyond the limit stay void until they expire.
                invitations = await uow.invitations.cancel_made(member.organization, key, MOST_LISTED, self.clock.now())
                events += [revoked(one, actor) for one in invitations]
                secrets = await uow.client_secrets.delete_made(key)
                api_keys = await uow.api_keys.delete_made(key)
                events += [made_secret_deleted(one, actor) for one in secrets]
                events += [api_key_deleted(one, actor) for one in api_keys]
            await uow.record_all(events)
            await uow.commit()
        return made
