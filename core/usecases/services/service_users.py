"""The users of an application, for its own servers and for its organization."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Final

from core.domain.errors import BadRequest, NotFound, RateLimited, Unavailable, found
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.identity.account_locks import LockedBy
from core.domain.identity.accounts import unverified_account
from core.domain.mail import Email
from core.domain.record.events import Actor, Event
from core.domain.requests import Listed, Page
from core.domain.services.api_keys import KeyHolder
from core.domain.services.service_users import (
    ADDITIONS,
    AccountFate,
    EndUser,
    EndUserDetail,
    LockedOut,
    ServiceUser,
    ServiceUserDetail,
    email_changed,
    is_dear,
    metadata_changed,
    require_reachable,
    searched,
    sessions_in_services_ended,
    user_created,
    user_deleted,
    user_joined,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.organizations import Metadata, checked_metadata, same_metadata
from core.domain.tenancy.profile_fields import FieldWriter
from core.domain.tenancy.roles import Capability, require_no_more
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import AccountLocks, delete_made_account, end_access, end_user_keys, leave_to_another
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileValues
from core.usecases.tenancy.rights import hold_members, require_capability
from ports.jobs import Turns
from ports.mail import MailTemplates
from ports.services.services import EndUserStore, ServiceUserStore
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWorkFactory


class ServiceUsers(Frozen):
    """Manages the users of an application, for the application's own servers. They authenticate with an API key, and every method is
    limited to the key's application.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ServiceUserStore
    buckets: SharedBuckets
    templates: MailTemplates
    values: ProfileValues
    ownerships: Ownerships
    system: System

    async def list(self, holder: KeyHolder, limit: int, offset: int) -> Listed[ServiceUser]:
        """The service's users, in the order in which they became users of the service."""
        return await self.lookup.list(holder.service, limit, offset)

    async def detail(self, holder: KeyHolder, user: UserId) -> ServiceUserDetail:
        """The user with what the service and its organization keep of them. Raises `NotFound`."""
        return found(await self.lookup.detail(holder.service, user), _UNKNOWN)

    async def change_kept(
        self, holder: KeyHolder, user: UserId, actor: Actor, *, metadata: Metadata | None, profile: Mapping[str, Json] | None
    ) -> ServiceUserDetail:
        """Replaces the service's metadata of the user, and writes those fields of the organization that services may write. Raises
        `NotFound`, `BadRequest`.
        """
        wanted = None if metadata is None else checked_metadata(metadata)
        async with self.unit_of_work() as uow:
            # The organization and the account are locked before the person's place in the service.
            kept = None if profile is None else found(await uow.profile_values.hold(user, holder.organization), _UNKNOWN)
            after = found(await uow.service_users.hold_detail(holder.service, user), _UNKNOWN)
            if wanted is not None and not same_metadata(wanted, after.metadata):
                await uow.service_users.save_metadata(holder.service, user, wanted)
                await uow.record(metadata_changed(user, holder, actor))
                after = replace(after, metadata=wanted)
            if kept is not None and profile is not None:
                written = await self.values.written(uow, kept, profile, FieldWriter.SERVICE, actor)
                after = replace(after, profile=written.by_key)
            await uow.commit()
        return after

    async def add(self, holder: KeyHolder, email: Email, actor: Actor) -> ServiceUser:
        """Make the account with this address a user of the service. If no account has the address, a new account is created, without a
        password, and no mail is sent. May be repeated: concurrent calls all get the same account. Raises `RateLimited` when the key adds
        too many users.
        """
        wait = await self.buckets.take(ADDITIONS, str(holder.key))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ADDITIONS.name)
        now = self.system.clock.now()
        account = unverified_account(UserId(self.system.ids.new()), email, now)
        async with self.unit_of_work() as uow:
            is_new = await uow.accounts.add(account, None, holder.service, origin_organization=holder.organization)
            if is_new:
                await uow.record(user_created(account.id, holder, actor))
            joined = await uow.service_users.join(holder.service, email, now)
            if joined is None:
                # Since the request came in, the service was deleted, or the address moved to another account.
                raise Unavailable(retry_after=_SOON)
            user, has_joined = joined
            if has_joined and not is_new:
                await uow.record(user_joined(user.id, holder, actor))
            await uow.commit()
        return user

    async def change_email(self, holder: KeyHolder, user: UserId, email: Email | None, actor: Actor) -> ServiceUserDetail:
        """Give an account that belongs to this service alone another address, which its owner has to verify. A mail tells the old address.
        With None the address stays as it is. Raises `NotFound`, `Forbidden` for an account whose owner has proved its address or that
        belongs elsewhere too, and `BadRequest` for an address that is taken.
        """
        async with self.unit_of_work() as uow:
            held = found(await uow.service_users.hold(holder.service, user), _UNKNOWN)
            if email is None or email.address == held.account.email.address:
                return found(await uow.service_users.detail(holder.service, user), _UNKNOWN)
            held.require_movable()
            # Read the clock after `hold`, so that `now` is later than every earlier change of the account.
            now = self.system.clock.now()
            await uow.service_users.change_email(user, email, now)
            # Sessions, mailed links and unfinished flows belong to the holder of the earlier address.
            if email.key == held.account.email.key:
                await end_access(uow, user, now)
            else:
                await leave_to_another(uow, user, actor, holder.organization)
            mail = self.templates.mail(
                "email_changed_old",
                held.account.email.address,
                account=user,
                language=held.account.language or actor.language,
                new_email=email.address,
                done=True,
                when=now,
                address=None,
            )
            await uow.jobs.add(mail.as_job())
            await uow.record(email_changed(user, holder, actor))
            after = found(await uow.service_users.detail(holder.service, user), _UNKNOWN)
            await uow.commit()
        return after

    async def delete(self, holder: KeyHolder, user: UserId, actor: Actor) -> None:
        """Remove all data that the service has about the user, and the account itself if it belongs to this service alone. Raises
        `NotFound`, `Forbidden` for owners of an organization or of the platform, and `BadRequest` for an account of this service whose
        person has a subscription at another organization.
        """
        async with self.unit_of_work() as uow:
            organizations = await uow.service_users.hold_organizations(user, holder.organization, also=None)
            held = found(await uow.service_users.hold(holder.service, user), _UNKNOWN)
            fate = held.fate()
            events: Sequence[Event] = ()
            if fate is AccountFate.DELETED:
                request, now = PrivacyRequestId(self.system.ids.new()), self.system.clock.now()
                decline = self.ownerships.decline_in
                events = await delete_made_account(uow, user, holder.organization, organizations, decline, request=request, at=now)
            else:
                await uow.service_users.leave(holder.service, holder.organization, user)
            await uow.record_all([user_deleted(user, fate, holder, actor), *events])
            await uow.commit()


_UNKNOWN: Final = "The service has no such user"
_SOON: Final = 1.0


class EndUsers(Frozen):
    """Shows an organization the people who use its applications, and ends their sessions there."""

    unit_of_work: UnitOfWorkFactory
    lookup: EndUserStore
    locks: AccountLocks
    turns: Turns
    clock: Clock

    async def list(
        self, organization: OrganizationId, page: Page, *, search: str = "", service: ServiceId | None = None
    ) -> Listed[EndUser]:
        """Newest account first. Raises `BadRequest`, also for a page beyond what a search shows; `NotFound` when the organization has no
        such service; `Overloaded` when too many searches are under way.
        """
        wanted = searched(search)
        require_reachable(page, wanted)
        # Every member may search, and a search among many end users takes long. Turns limit concurrent searches, so that they do not use up
        # the database connections of other requests.
        async with self.turns.take(organization) if is_dear(page, wanted) else nullcontext():
            found = await self.lookup.list(organization, page, search=wanted, service=service)
        if found is None:
            raise NotFound("The organization has no such service")
        return found

    async def get(self, organization: OrganizationId, user: UserId) -> EndUserDetail:
        """Raises `NotFound` for a person who uses none of the organization's services."""
        return found(await self.lookup.find(organization, user), _END_USER_UNKNOWN)

    async def end_sessions(self, organization: OrganizationId, user: UserId, actor: Actor, *, of_member: bool = False) -> int:
        """Sign the person out of the organization's services, from the person's next request on. Authorization codes and device codes that
        wait for a session there become invalid. Sessions elsewhere, and in the organization itself, stay. `of_member` ends those in the
        organization itself as well. May be repeated. Raises `NotFound`.
        """
        async with self.unit_of_work() as uow:
            # Lock the account against a concurrent exchange of a code: either the exchange has added its session already, or the exchange
            # waits and then finds the code gone.
            await uow.accounts.hold(user)
            ended = found(
                await uow.end_users.end_sessions(organization, user, of_member=of_member), _NO_MEMBER if of_member else _END_USER_UNKNOWN
            )
            if ended:
                await uow.record(sessions_in_services_ended(organization, user, ended, actor))
            # Commit also when no session has ended: codes that were approved a moment ago have no session yet, and are removed too.
            await uow.commit()
        return ended

    async def lock(self, caller: Member, user: UserId, actor: Actor, *, of_member: bool = False) -> LockedOut:
        """Locks the account if the organization has made it and nobody else holds it. Of anybody else, ends what is the organization's own:
        the person's sessions and codes there, and their keys for its applications. May be repeated. Raises `NotFound`; `BadRequest` for the
        caller, and for a deactivated account; `Forbidden` when the person may do more in the organization than the caller.
        """
        if user == caller.person:
            raise BadRequest("Lock your own account on the pages of your account", words="lock_own")
        organization = caller.organization
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE if of_member else Capability.END_USERS_MANAGE)
            if user in known:
                require_no_more(known[user].capabilities, acting.capabilities)
            await uow.accounts.hold(user)
            account = (await uow.accounts.find_all([user])).get(user)
            if account is None:
                raise NotFound(_NO_MEMBER if of_member else _END_USER_UNKNOWN)
            sessions = count = 0
            is_its_own = await uow.account_locks.is_the_makers(user, organization)
            if is_its_own:
                locked = await self.locks.lock_held(uow, account, LockedBy.ORGANIZATION, actor, organization=organization)
                sessions, count = locked.sessions, locked.key_count
            # The tie is looked at here, too: nothing has happened to a person whom the organization does not know.
            ended = found(
                await uow.end_users.end_sessions(organization, user, of_member=of_member), _NO_MEMBER if of_member else _END_USER_UNKNOWN
            )
            if ended:
                await uow.record(sessions_in_services_ended(organization, user, ended, actor))
            keys = await end_user_keys(uow, user, self.clock.now(), actor, but=(), organization=organization)
            await uow.commit()
        return LockedOut(account_locked=is_its_own, sessions=sessions + ended, keys=count + len(keys))


_NO_MEMBER: Final = "The organization has no such member"
_END_USER_UNKNOWN: Final = "The organization has no such end user"
