"""User keys: an application's servers and its users make and end them, the servers ask whether one is valid, and members of the
organization set the bounds and end keys.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from core.domain.branding import mailed_logo
from core.domain.errors import BadRequest, NotFound, Unauthorized, found
from core.domain.identifiers import ApiKeyId, OrganizationId, ServiceId, UserId, UserKeyId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.api_keys import KeyHolder
from core.domain.services.user_keys import (
    LONGEST_KEY,
    HeldUserKey,
    KeyVerdict,
    OwnedUserKey,
    UserKey,
    UserKeyPage,
    UserKeyPlace,
    UserKeySettings,
    UserKeySettingsChange,
    UserStanding,
    WantedUserKey,
    changed,
    key_scopes,
    key_verdict,
    require_room,
    user_key_created,
    user_key_expiry,
    user_key_revoked,
    user_keys_updated,
)
from core.domain.tenancy.management_keys import NewMachineKey, holder_of, key_name
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import require_living
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.management_keys import add_key
from core.usecases.tenancy.rights import find_rights_for_update
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.services.services import UserKeyLookup, UserKeyStore
from ports.system import Presence, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

Found = TypeVar("Found")


class UserKeys(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: UserKeyStore
    checks: UserKeyLookup
    api_key_presence: Presence[ApiKeyId]
    presence: Presence[UserKeyId]
    templates: MailTemplates
    metrics: Metrics
    system: System

    async def verify(self, shown: Token, text: str, wanted: Collection[str], admit: Callable[[KeyHolder], None]) -> KeyVerdict:
        """Whether the text is a valid key of the application whose API key is shown, and has the wanted scopes. Both keys are looked up at
        once. `admit` refuses an API key that may not ask. Raises what `ApiKeys.resolve` raises.
        """
        now = self.system.clock.now()
        digest = Token(text if len(text) <= LONGEST_KEY else "").digest()
        both = await self.checks.find(shown.digest(), digest)
        holder = holder_of(None if both is None else both[0], shown, now, "The API key is not valid")
        self.api_key_presence.seen(holder.key, now)
        admit(holder)
        verdict = key_verdict(None if both is None else both[1], digest, wanted, now)
        if verdict.key is not None:
            self.presence.seen(verdict.key.id, now)
        self.metrics.user_key_checked("valid" if verdict.reason is None else verdict.reason.value)
        return verdict

    async def create(self, holder: KeyHolder, user: UserId, wanted: WantedUserKey, actor: Actor) -> NewMachineKey[UserKey]:
        """Make a key for a user of the application. Raises `BadRequest`, `NotFound`, `Forbidden` when the application has turned keys of
        users off or the user may not sign in there, and `Unauthorized` when the API key has ended meanwhile.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_share(user)
            if not await uow.user_keys.lock_creating_key(holder.key):
                # Whoever ended it may have ended all that it made.
                raise Unauthorized("The API key is not valid")
            place = _place(await uow.user_keys.find_target_for_update(holder.service, user))
            return await self._make(uow, place, wanted, actor, user=user, by=holder.key)

    async def create_own(
        self, caller: Caller, organization_slug: str, service_slug: str, wanted: WantedUserKey, actor: Actor
    ) -> NewMachineKey[UserKey]:
        """As `create`, by the person. Raises `Unauthorized` when the session has ended meanwhile."""
        known = await self.place(caller, organization_slug, service_slug)
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_share(caller.user)
            await require_living(uow, caller.session)
            place = _place(await uow.user_keys.find_target_for_update(known.service, caller.user))
            return await self._make(uow, place, wanted, actor, user=caller.user, by=None)

    async def _make(
        self, uow: UnitOfWork, place: UserKeyPlace, wanted: WantedUserKey, actor: Actor, *, user: UserId, by: ApiKeyId | None
    ) -> NewMachineKey[UserKey]:
        now = self.system.clock.now()
        place.require_maker()
        name, scopes = key_name(wanted.name), key_scopes(wanted.scopes, place)
        expires_at = user_key_expiry(wanted.expires_in_days, place.settings, now)
        made, count = await add_key(
            uow.user_keys.add,
            lambda: self.system.secrets.key(place.settings.prefix or ""),
            lambda prefix: UserKey(
                id=UserKeyId(self.system.ids.new()),
                service=place.service,
                user=user,
                name=name,
                prefix=prefix,
                resource=place.settings.resource_id if scopes else None,
                scopes=scopes,
                expires_at=expires_at,
                created_at=now,
                made_by_key=by,
            ),
        )
        require_room(count, place.settings)
        await uow.record(user_key_created(made.key, place.service_slug, place.organization, actor))
        await self._tell(uow, made.key, place, actor)
        await uow.commit()
        return made

    async def _tell(self, uow: UnitOfWork, key: UserKey, place: UserKeyPlace, actor: Actor) -> None:
        """Mails the person, whoever made the key: it acts as the person, and a stranger may have made it. The account is held, and has come
        to the service, so it is there.
        """
        person = (await uow.accounts.find_all([key.user]))[key.user]
        by_person = key.made_by_key is None
        mail = self.templates.mail(
            "user_key_made",
            person.email.address,
            account=key.user,
            language=person.language or (actor.language if by_person else None),
            called=key.name,
            application=place.service_name,
            application_logo=mailed_logo(place.service_logo),
            organization=place.organization_name,
            by_application=not by_person,
            when=key.created_at,
            # Of an application, it would be that of a server.
            address=actor.address if by_person else None,
        )
        await uow.jobs.add(mail.as_job())

    async def list(self, holder: KeyHolder, user: UserId | None, after: UserKeyId | None, limit: int) -> UserKeyPage:
        """Newest first, expired keys included: those of the application, or of one user."""
        return await self.lookup.list(holder.service, user, after, limit)

    async def get(self, holder: KeyHolder, key: UserKeyId) -> UserKey:
        """Raises `NotFound`."""
        return _known(await self.lookup.find(holder.service, key)).key

    async def revoke(self, holder: KeyHolder, key: UserKeyId, actor: Actor) -> None:
        """End a key: the next check refuses it. Raises `NotFound`."""
        await self._end(key, actor, service=holder.service, service_slug=holder.service_slug, organization=holder.organization)

    async def place(self, caller: Caller, organization_slug: str, service_slug: str) -> UserKeyPlace:
        """The application, for a person who is its user, or for anybody once it has turned keys on. Raises `NotFound`."""
        place = await self.lookup.place_at(organization_slug, service_slug, caller.user)
        if place is None or (place.standing is UserStanding.STRANGER and not place.settings.enabled):
            raise NotFound("There is no such application", words="service_unknown")
        return place

    async def list_own(self, caller: Caller, place: UserKeyPlace, after: UserKeyId | None, limit: int) -> UserKeyPage:
        return await self.lookup.list(place.service, caller.user, after, limit)

    async def get_own(self, caller: Caller, place: UserKeyPlace, key: UserKeyId) -> UserKey:
        """Raises `NotFound`."""
        known = _known(await self.lookup.find(place.service, key)).key
        return _known(known if known.user == caller.user else None)

    async def revoke_own(self, caller: Caller, place: UserKeyPlace, key: UserKeyId, actor: Actor) -> None:
        """Raises `NotFound`."""
        await self._end(
            key, actor, service=place.service, service_slug=place.service_slug, organization=place.organization, user=caller.user
        )

    async def list_held(self, caller: Caller) -> Sequence[HeldUserKey]:
        """The person's keys at all applications, the newest first, without those that have expired."""
        return await self.lookup.held_by(caller.user, self.system.clock.now())

    async def get_held(self, caller: Caller, key: UserKeyId) -> HeldUserKey:
        """Raises `NotFound`."""
        return _known(next((one for one in await self.list_held(caller) if one.id == key), None))

    async def revoke_held(self, caller: Caller, key: UserKeyId, actor: Actor) -> None:
        """Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            ended = _known(await uow.user_keys.delete_held(caller.user, key))
            await uow.record(user_key_revoked(ended.key, ended.service_slug, ended.organization, actor))
            await uow.commit()

    async def list_of_service(self, member: Member, service_slug: str, after: UserKeyId | None, limit: int) -> UserKeyPage:
        """As `list`, for a member of the organization. Raises `NotFound`."""
        return found(await self.lookup.list_of(member.organization, service_slug, after, limit), NO_SUCH_SERVICE)

    async def get_of_service(self, member: Member, service_slug: str, key: UserKeyId) -> OwnedUserKey:
        """Raises `NotFound`."""
        return _known(await self.lookup.find(found(await self.lookup.service(member.organization, service_slug), NO_SUCH_SERVICE), key))

    async def revoke_of_service(self, member: Member, service_slug: str, key: UserKeyId, actor: Actor) -> None:
        """Raises `NotFound`."""
        service = found(await self.lookup.service(member.organization, service_slug), NO_SUCH_SERVICE)
        await self._end(key, actor, service=service, service_slug=service_slug, organization=member.organization)

    async def settings(self, member: Member, service_slug: str) -> UserKeySettings:
        """Raises `NotFound`."""
        return found(await self.lookup.settings(member.organization, service_slug), NO_SUCH_SERVICE)

    async def change_settings(self, member: Member, service_slug: str, change: UserKeySettingsChange, actor: Actor) -> UserKeySettings:
        """Raises `NotFound`, `BadRequest`, and `Forbidden` when the caller may no longer manage services."""
        if not change.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            before = found(await uow.user_keys.settings(member.organization, service_slug), NO_SUCH_SERVICE)
            after = changed(before, change)
            if after.resource is not None and after.resource_id is None:
                api = found(
                    await uow.user_keys.standing_for(service.id, after.resource),
                    "resource: the service represents no API with this identifier",
                    words="no_such_api",
                    refusal=BadRequest,
                )
                after = replace(after, resource_id=api)
            if after == before:
                return before
            await uow.user_keys.save_settings(service.id, after, self.system.clock.now())
            await uow.record(user_keys_updated(before, after, service, actor))
            await uow.commit()
        return after

    async def _end(
        self,
        key: UserKeyId,
        actor: Actor,
        *,
        service: ServiceId,
        service_slug: str,
        organization: OrganizationId,
        user: UserId | None = None,
    ) -> None:
        async with self.unit_of_work() as uow:
            ended = _known(await uow.user_keys.delete(service, key, user))
            await uow.record(user_key_revoked(ended, service_slug, organization, actor))
            await uow.commit()


def _known(key: Found | None) -> Found:
    return found(key, "The service has no such user API key", words="user_key_unknown")


def _place(place: UserKeyPlace | None) -> UserKeyPlace:
    return found(place, "There is no such application", words="service_unknown")
