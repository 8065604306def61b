"""Consents for the people who gave them: the applications that can act for a person, and the end of a consent."""

from collections.abc import Sequence

from core.domain.errors import NotFound
from core.domain.federation.oauth.consents import ApplicationAccess, Consent, consent_given, consent_revoked, resource_consent_revoked
from core.domain.identifiers import ConsentId, ResourceServerId, ServiceId, UserId
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.federation.consents import ConsentStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Consents(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConsentStore

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        """The applications that have a consent of the person, or a session for the person; of agents, those that may act at this moment."""
        return [one for one in await self.lookup.list(user) if one.agent is None or one.resources]

    async def revoke(self, user: UserId, service: ServiceId, actor: Actor) -> ApplicationAccess:
        """Ends the application's sessions, refresh tokens and codes for this person, from the next request on. The application has to ask
        for consent again. Raises `NotFound` when the application has no access.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            access = await uow.consents.revoke(user, service)
            if access is None:
                raise NotFound("This application has no access to your account")
            await uow.record(consent_revoked(access, actor))
            await uow.commit()
        return access

    async def revoke_resource(self, user: UserId, service: ServiceId, resource: ResourceServerId, actor: Actor) -> ApplicationAccess:
        """Ends what the application may do at one API, with every session and code that was granted it. Raises `NotFound` when the
        application has no access there.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            access = await uow.consents.revoke_resource(user, service, resource)
            ended = None if access is None else next((one for one in access.resources if one.id == resource), None)
            if access is None or ended is None:
                raise NotFound("This application has no access to this API for you")
            await uow.record(resource_consent_revoked(access, ended, actor))
            await uow.commit()
        return access


async def give_consent(uow: UnitOfWork, id: ConsentId, consent: Consent, actor: Actor) -> bool:  # noqa: A002 - the noun's own word
    """Runs in the caller's unit of work, which locks the account. False when the service is being deleted."""
    given_to = await uow.consents.give(id, consent)
    if given_to is None:
        return False
    await uow.record(consent_given(consent, given_to, actor))
    return True
