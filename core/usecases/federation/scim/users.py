"""The people of an organization as its directory manages them."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound, RateLimited
from core.domain.federation.scim.filters import Filter, pins
from core.domain.federation.scim.protocol import InvalidPath, InvalidValue, PatchOperation
from core.domain.federation.scim.resources import require_version, user_version
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import (
    ADDITIONS,
    NO_FIELDS,
    HeldUser,
    ProvisionedFate,
    ProvisionedUser,
    ReasonForLeaving,
    ScimProfile,
    Stated,
    email_changed,
    has_other_profile,
    patched,
    profile_changed,
    stated_profile,
    user_joined,
    user_left,
    user_listed,
    user_signed_up,
)
from core.domain.formats import Json
from core.domain.identifiers import MembershipId, PrivacyRequestId, UserId
from core.domain.identity.account_mails import AccountMail, AskedMail, Links
from core.domain.identity.accounts import Account, unverified_account
from core.domain.jobs import CAN_WAIT, NewJob
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import Actor, Event
from core.domain.requests import Listed
from core.domain.tenancy.invitations import revoked
from core.domain.tenancy.profile_fields import NO_ROOM, FieldWriter, KeptValues
from core.domain.tenancy.profile_values import HeldPerson
from core.frozen import Frozen, replace
from core.usecases.federation.scim.enrolment import Changes, Enrolment, fate_of_joining, require_place, require_room
from core.usecases.identity.account_endings import delete_made_account, end_access, leave_to_another
from core.usecases.identity.accounts import Accounts
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileValues
from ports.federation.scim import AddressChange, Capacity, Newcomer, Order, ProvisionedUserStore
from ports.identity.accounts import EmailSyntax
from ports.jobs import Turns
from ports.mail import MailTemplates
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWork

_KNOWN: Final = "userName: the organization has a user with this email address"
# The last position at which a list can start.
_LAST: Final = 1_000_000_000


class Search(Frozen):
    """The search of a directory. `start` counts from 1."""

    filter: Filter | None
    order: Order
    start: int
    count: int

    @property
    def is_dear(self) -> bool:
        """Whether the search reads all people of the organization."""
        return self.order != Order() if self.filter is None else pins(self.filter) is None


class ScimUsers(Frozen):
    changes: Changes
    lookup: ProvisionedUserStore
    accounts: Accounts
    syntax: EmailSyntax
    buckets: SharedBuckets
    turns: Turns
    templates: MailTemplates
    links: Links
    values: ProfileValues
    ownerships: Ownerships
    system: System

    async def get(self, holder: ScimHolder, user: UserId) -> ProvisionedUser:
        """Raises `NotFound` for a person that the directory does not know."""
        found = await self.lookup.find(holder.organization, user)
        if found is None:
            raise NotFound(UNKNOWN)
        return found

    async def list(self, holder: ScimHolder, search: Search) -> Listed[ProvisionedUser]:
        """Raises `Overloaded` when too many searches over all people are under way."""
        offset = min(max(search.start, 1) - 1, _LAST)
        async with self.turns.take(holder.organization) if search.is_dear else nullcontext():
            return await self.lookup.list(holder.organization, search.filter, search.order, offset, search.count)

    async def create(self, holder: ScimHolder, stated: Stated, actor: Actor) -> ProvisionedUser:
        """Makes the person a member, with a new account if the address has none. An existing account is not changed, unless the
        organization has made it; an account that others have deactivated stays so, and nothing here tells it. Raises `Conflict` for a
        person that the directory knows already, `TeamLimitExceeded`, `InvalidValue`, `RateLimited`, and `Overloaded`.
        """
        profile = stated_profile(stated, mapping=holder.mapping)
        email = self._email(profile.user_name)
        wait = await self.buckets.take(ADDITIONS, str(holder.organization))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ADDITIONS.name)
        while True:
            async with self.changes.one(holder) as uow:
                newcomer = await uow.provisioned_users.hold_address(holder.organization, email)
                if newcomer is None:
                    raise NotFound(_GONE)
                if newcomer.is_known:
                    raise Conflict(_KNOWN)
                require_place(newcomer.known, newcomer.capacity)
                if profile.active:
                    require_room(newcomer.capacity, 1)
                enrolment = Enrolment(uow, self.system.ids, holder, actor, self.system.clock.now())
                created = await self._create(enrolment, newcomer, email, profile)
            if created is not None:
                return created
            # A simultaneous registration has made an account with this address.

    async def replace(self, holder: ScimHolder, user: UserId, stated: Stated, version: str | None, actor: Actor) -> ProvisionedUser:
        """Raises the errors of `patch`."""
        async with self.changes.one(holder) as uow:
            capacity, held = await self._held(uow, holder, user, version)
            profile = stated_profile(stated, held.user.profile, holder.mapping)
            return await self._change(
                Enrolment(uow, self.system.ids, holder, actor, self.system.clock.now()), capacity, held, profile, whole=True
            )

    async def patch(
        self, holder: ScimHolder, user: UserId, operations: Sequence[PatchOperation], version: str | None, actor: Actor
    ) -> ProvisionedUser:
        """Applies all operations or none. Raises `NotFound`, `PreconditionFailed`, `Forbidden` for a person with more rights than a member,
        `Mutability` for an account that is in use elsewhere, `Conflict`, `TeamLimitExceeded`, and the errors of the operations themselves.

        Steps:
        1. `Changes.one` waits for the changes of the organization in this process, without a connection, and begins a unit of work.
        2. `ScimUsers._held` locks organization and user by `ProvisionedUserStore.hold`. `require_version` compares `If-Match`.
        3. `patched` applies the operations to the profile, as pure domain code.
        4. `ScimUsers._change` compares before and after, and writes only differences.
        5. `ScimUsers._move` moves an unverified account of the organization to another email address.
        6. `Enrolment.enter` makes an activated user a member again.
        7. `Enrolment.leave` ends the membership of a deactivated user, and access with it.
        8. `ProvisionedUserStore.save` stores the profile. `ProvisionedUserStore.list_by` records which token lists the user.
        9. `UnitOfWork.record_all` adds events and audit entries to the same transaction.
        10. `ScimUsers._write` and `ScimUsers._written` write mapped custom fields. The unit of work commits.
        """
        async with self.changes.one(holder) as uow:
            capacity, held = await self._held(uow, holder, user, version)
            profile = patched(held.user.profile, str(user), operations, holder.mapping)
            return await self._change(Enrolment(uow, self.system.ids, holder, actor, self.system.clock.now()), capacity, held, profile)

    async def delete(self, holder: ScimHolder, user: UserId, version: str | None, actor: Actor) -> None:
        """Deletes the account if this organization has made it and nobody else holds it. Otherwise the person leaves the organization, and
        an account that the directory had switched off is active again. Raises `NotFound`, `PreconditionFailed`, `Forbidden`, and
        `BadRequest` while the person has a subscription at another organization.
        """
        async with self.changes.one(holder) as uow:
            organizations = await uow.service_users.hold_organizations(user, holder.organization, also=holder.organization)
            _, held = await self._held(uow, holder, user, version)
            held.require_ordinary()
            now = self.system.clock.now()
            events: list[Event] = [revoked(one, actor) for one in await uow.invitations.cancel_to(holder.organization, [user], now)]
            if held.is_own:
                request = PrivacyRequestId(self.system.ids.new())
                decline = self.ownerships.decline_in
                events += await delete_made_account(uow, user, holder.organization, organizations, decline, request=request, at=now)
            else:
                await uow.provisioned_users.leave(holder.organization, [user], now, deactivated=False)
                await uow.provisioned_users.forget(holder.organization, user)
            fate = ProvisionedFate.DELETED if held.is_own else ProvisionedFate.KEPT
            await uow.record_all([*events, user_left(held, ReasonForLeaving.DELETED, fate, holder, actor)])
            await uow.commit()

    async def _create(
        self, enrolment: Enrolment[ScimHolder], newcomer: Newcomer, email: Email, profile: ScimProfile
    ) -> ProvisionedUser | None:
        """Returns None when a simultaneous request has made the account."""
        uow, holder, actor, now = enrolment.uow, enrolment.holder, enrolment.actor, enrolment.now
        account = newcomer.account or unverified_account(UserId(self.system.ids.new()), email, now)
        events: list[Event] = []
        if newcomer.account is None:
            if not await uow.accounts.add(account, None, origin_organization=holder.organization):
                return None
            events.append(user_signed_up(account.id, holder, actor))
        elif account.nobody_knows_address and account.deactivated_at is None:
            await self.accounts.disown_unverified(uow, account.id, actor)
        users = uow.provisioned_users
        if profile.active:
            await users.enter(holder.organization, {account.id: MembershipId(self.system.ids.new())}, now)
            kept = fate_of_joining(account, holder.organization)
            events.append(user_joined(account.id, ProvisionedFate.CREATED if newcomer.account is None else kept, holder, actor))
            await self._welcome(enrolment, newcomer, account)
        else:
            await users.leave(holder.organization, [account.id], now, deactivated=True)
            if newcomer.is_own:
                await end_access(uow, account.id, now)
            if newcomer.account is None or newcomer.is_own:
                await users.deactivate_accounts(holder.organization, [account.id], now)
            if newcomer.account is not None:
                events.append(user_listed(account.id, holder, actor))
        await users.save(holder.organization, account.id, profile, now)
        await users.list_by(holder.token, holder.organization, [account.id])
        await uow.record_all(events)
        fields = await self._write(enrolment, account.id, profile.fields, whole=True) if profile.fields else NO_FIELDS
        await uow.commit()
        # An existing account keeps the spelling of its address.
        shown = replace(profile, user_name=account.email.address, fields=fields)
        return ProvisionedUser(id=account.id, profile=shown, created_at=now, updated_at=now)

    async def _welcome(self, enrolment: Enrolment[ScimHolder], newcomer: Newcomer, account: Account) -> None:
        """Mails a link to choose a password to a person whose address is not proved yet; the link proves the address. Other people need no
        link.
        """
        uow, holder = enrolment.uow, enrolment.holder
        if account.nobody_knows_address:
            await uow.jobs.add(_choose_password(holder, account.id, account.email, account.language))
            return
        mail = self.templates.mail(
            "joined",
            account.email.address,
            account=account.id,
            language=account.language or enrolment.actor.language,
            branding=newcomer.branding,
            link=self.links.frontend_url,
        )
        await uow.jobs.add(replace(mail.as_job(), priority=CAN_WAIT))

    async def _held(self, uow: UnitOfWork, holder: ScimHolder, user: UserId, version: str | None) -> tuple[Capacity, HeldUser]:
        found = await uow.provisioned_users.hold(holder.organization, user)
        if found is None:
            raise NotFound(UNKNOWN)
        require_version(version, user_version(found[1].user.profile, holder.mapping))
        found[1].require_scims()
        return found

    async def _change(
        self, enrolment: Enrolment[ScimHolder], capacity: Capacity, held: HeldUser, after: ScimProfile, *, whole: bool = False
    ) -> ProvisionedUser:
        """Saves all differences at once. `whole`: the directory has sent the whole resource, in which fields that do not exist are ignored,
        as other attributes are.
        """
        uow, holder, actor, now = enrolment.uow, enrolment.holder, enrolment.actor, enrolment.now
        user, before = held.user.id, held.user.profile
        email = self._email(after.user_name) if after.user_name != before.user_name else held.account.email
        if email.key == held.account.email.key and not held.is_own:
            # Another spelling of the same address changes nothing for anybody.
            after = replace(after, user_name=before.user_name)
        if after == before:
            return held.user
        events: list[Event] = []
        if after.user_name != before.user_name:
            events += await self._move(enrolment, held, email)
        if after.active and not before.active:
            events += await enrolment.enter(capacity, [held])
            if held.account.nobody_knows_address:
                # The person may have been created inactive, and so never got a link to choose a password.
                await uow.jobs.add(_choose_password(holder, user, email, held.account.language))
        elif before.active and not after.active:
            events += await enrolment.leave([held], ReasonForLeaving.DEACTIVATED)
        if has_other_profile(before, after):
            events.append(profile_changed(user, before, after, holder, actor))
        await uow.provisioned_users.save(holder.organization, user, after, now)
        await uow.provisioned_users.list_by(holder.token, holder.organization, [user])
        await uow.record_all(events)
        if after.fields != before.fields:
            after = replace(after, fields=await self._write(enrolment, user, after.fields, whole=whole))
        await uow.commit()
        return replace(held.user, profile=after, updated_at=now)

    async def _write(self, enrolment: Enrolment[ScimHolder], user: UserId, given: Mapping[str, Json], *, whole: bool) -> Mapping[str, Json]:
        """Writes the organization's fields. Returns those that the directory may write. Raises `InvalidValue`, `InvalidPath`."""
        kept = await enrolment.uow.profile_values.hold(user, enrolment.holder.organization)
        if kept is None:
            raise NotFound(UNKNOWN)
        own = {field.key for field in kept.kept.written_by(FieldWriter.DIRECTORY)}
        foreign = sorted(set(given) - own)
        if foreign and not whole:
            raise InvalidPath(f"path: {foreign[0][:80]} is not a field that the directory can write")
        known = {key: value for key, value in given.items() if key in own}
        # A person who fills the row with values of their own must not keep the directory from changing them.
        mapped = {field.key: None for field in enrolment.holder.mapping.values() if field.key in own}
        try:
            after = await self._written(enrolment, kept, known, or_else={**known, **mapped} if mapped else None)
        except BadRequest as refusal:
            raise InvalidValue(refusal.message) from None
        return {key: list(value) if isinstance(value, tuple) else value for key, value in after.by_key.items() if key in own}

    async def _written(
        self, enrolment: Enrolment[ScimHolder], kept: HeldPerson, given: Mapping[str, Json], *, or_else: Mapping[str, Json] | None
    ) -> KeptValues:
        """Writes the other values if the row has no room for the given ones. Raises `BadRequest`."""
        try:
            return await self.values.written(enrolment.uow, kept, given, FieldWriter.DIRECTORY, enrolment.actor)
        except BadRequest as refusal:
            if refusal.words != NO_ROOM or or_else is None:
                raise
            return await self.values.written(enrolment.uow, kept, or_else, FieldWriter.DIRECTORY, enrolment.actor)

    async def _move(self, enrolment: Enrolment[ScimHolder], held: HeldUser, email: Email) -> Sequence[Event]:
        """Moves the account to another address. The holder of the earlier address gets a mail and loses the account with its password. The
        link mailed to the new address proves this address by the choice of a new password.
        """
        uow, holder, actor, now = enrolment.uow, enrolment.holder, enrolment.actor, enrolment.now
        held.require_ordinary()
        user, old = held.user.id, held.account.email
        if email.key != old.key:
            held.require_movable()
        change = await uow.provisioned_users.change_address(holder.organization, user, email, now)
        if change is AddressChange.KNOWN:
            raise Conflict(_KNOWN)
        if change is AddressChange.TAKEN:
            raise InvalidValue("userName: this email address cannot be used")
        if email.key == old.key:
            return [email_changed(user, holder, actor)]
        await leave_to_another(uow, user, actor, holder.organization)
        language = held.account.language or actor.language
        mail = self.templates.mail(
            "email_changed_old", old.address, account=user, language=language, new_email=email.address, done=True, when=now, address=None
        )
        await uow.jobs.add(mail.as_job())
        # The holder of the new address has chosen no language yet.
        await uow.jobs.add(_choose_password(holder, user, email, None))
        return [email_changed(user, holder, actor)]

    def _email(self, text: str) -> Email:
        """Raises `InvalidValue`."""
        try:
            return self.syntax.parse(text)
        except BadRequest as refusal:
            raise InvalidValue("userName: must be an email address", detail=refusal.detail) from None


def _choose_password(holder: ScimHolder, user: UserId, email: Email, language: Language | None) -> NewJob:
    """The mail may be sent later, because nobody waits for it in front of a screen."""
    return AskedMail(AccountMail.SET_PASSWORD, email, holder.organization_slug, language, can_wait=True, account=user).as_job()


UNKNOWN: Final = "The organization has no such user"
_GONE: Final = "The organization no longer exists"
