"""Members of an organization: their roles, their leaving, the transfer of ownership, and help with a lost second factor."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive, Unauthorized, found
from core.domain.identifiers import OrganizationId, SessionId, UserId, UserKeyId
from core.domain.identity.accounts import Account, PasswordChosen
from core.domain.identity.callers import NOT_A_MEMBER, Caller, reason_of
from core.domain.identity.risk_policies.verdicts import KeptOut
from core.domain.identity.sessions import Context, TokenPair
from core.domain.identity.terms import require_accepted
from core.domain.mail import mail_domain
from core.domain.record.events import Actor
from core.domain.requests import Page
from core.domain.secrets import Password, Token
from core.domain.tenancy.members import (
    MOST_ASKED,
    ListedMembership,
    Member,
    MemberDetail,
    MemberList,
    Membership,
    UnconfirmedOwnership,
    member_removed,
    membership_confirmed,
    ownership_transferred,
    role_changed,
    session_opened,
    sought,
)
from core.domain.tenancy.roles import BuiltInRole, Capability, require_grantable, require_no_more
from core.domain.tenancy.sign_in_rules import outlasted, require_second_factor
from core.frozen import Frozen, replace
from core.usecases.identity.account_passwords import AccountPasswords
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in.admission import HooksToAsk
from core.usecases.tenancy.hook_asking import HookAsking, door_of_member
from core.usecases.tenancy.ownerships import Ownerships, require_in_person
from core.usecases.tenancy.rights import confirm_ownership, hold_members, require_capability, require_owner
from ports.jobs import Turns
from ports.system import Clock
from ports.tenancy.members import KnownMember, MemberStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Selected(Frozen):
    """The answer to a person who continues in an organization."""

    account: Account
    membership: Membership
    tokens: TokenPair


class Members(Frozen):
    """Every change locks the organization and checks the caller's rights again, because another change may have come in since the first
    check.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: MemberStore
    sessions: Sessions
    passwords: AccountPasswords
    ownerships: Ownerships
    hook_asking: HookAsking
    clock: Clock
    turns: Turns

    async def list(self, member: Member, page: Page, role: str | None = None, search: str = "") -> MemberList:
        """The members, oldest membership first. With a role, only the members in this role; with a text, only those whose address or name
        contains it. Raises `BadRequest`, and `Overloaded` when too many searches are under way.
        """
        wanted = sought(search)
        async with self.turns.take(member.organization) if wanted else nullcontext():
            return await self.lookup.list(member.organization, page, role, wanted)

    async def get(self, member: Member, user: UserId) -> MemberDetail:
        """Raises `NotFound`."""
        return found(await self.lookup.detail(member.organization, user), "There is no such member")

    async def change_role(self, caller: Member, user: UserId, slug: str, actor: Actor) -> KnownMember:
        """Give a member another role, built in or the organization's own. May be repeated. Raises `BadRequest` for the caller's own role,
        for the owner's role, for a role that does not exist, and for the role of owner, which only a transfer gives; `Forbidden`;
        `NotFound`.
        """
        if user == caller.user:
            raise BadRequest("You cannot change your own role", words="own_role")
        if slug == BuiltInRole.OWNER:
            raise BadRequest("role: to make somebody the owner, transfer the ownership", words="transfer_instead")
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            await require_owner(uow, acting, self.clock.now())
            target = target_in(known, user)
            role = found(
                await uow.roles.assignable(caller.organization, slug),
                "role: there is no such role",
                words="role_unknown",
                refusal=BadRequest,
            )
            require_no_more(target.capabilities, acting.capabilities)
            require_grantable(role.needed, acting.grantable)
            if target.membership.role == role.slug:
                return target
            changed = replace(target.membership, role=role.slug, role_id=role.id)
            await uow.members.change_role(caller.organization, user, role)
            await uow.record(role_changed(target.membership, target.account.email, role.slug, actor))
            await uow.commit()
        return replace(target, membership=changed, capabilities=role.capabilities)

    async def remove(self, caller: Member, user: UserId, actor: Actor) -> None:
        """Remove a member. From the next request on, the organization refuses the member's sessions, as it refuses any non-member's. Raises
        `BadRequest` for the caller and for the owner, `Forbidden` when the member may do more than the caller, `NotFound`.
        """
        if user == caller.person:
            raise BadRequest("You cannot remove yourself: another member has to do it", words="member_is_self")
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE)
            target = target_in(known, user)
            require_no_more(target.capabilities, acting.capabilities)
            await uow.members.remove(caller.organization, user)
            await uow.record(member_removed(target.membership, target.account.email, actor))
            await uow.commit()

    async def listed(self, caller: Caller, slug: str | None = None, *, most: int = MOST_ASKED) -> Sequence[ListedMembership]:
        """The memberships that others have made for the caller and that the caller has not answered yet. With a slug, only in that
        organization.
        """
        return await self.lookup.listed(caller.user, mail_domain(caller.email), slug, most)

    async def confirm(self, caller: Caller, organizations: Collection[OrganizationId]) -> None:
        """The caller confirms their memberships in these organizations, which makes the memberships the caller's own; and the ownership of
        those that others have made the caller the owner of. Nothing changes in an organization where the caller has confirmed already or is
        no member. Raises `Forbidden` while somebody impersonates the caller, and when nobody has proved the caller's address, unless a
        provider of that very organization has opened the session.
        """
        require_in_person(caller)
        async with self.unit_of_work() as uow:
            await self._confirm(uow, caller.user, organizations, caller.session)
            if not caller.email_is_verified and await uow.members.listed_among(caller.user, organizations):
                raise Forbidden("Verify your email address first", words="address_unproved")
            await uow.commit()

    async def leave(self, caller: Caller, organization: OrganizationId) -> None:
        """The caller says that they do not belong to this organization. The effect is the same as that of `remove`. An owner who has not
        confirmed the ownership declines it, too. May be repeated. Raises `BadRequest` for a membership that the caller has confirmed, and
        `Forbidden` while somebody impersonates the caller.
        """
        require_in_person(caller)
        async with self.unit_of_work() as uow:
            await self.ownerships.decline_in(uow, organization, caller.user)
            known = await uow.members.hold_listed(organization, caller.user)
            if known is None:
                if await uow.members.find(organization, caller.user) is not None:
                    raise BadRequest("You have made this membership your own: another member has to remove you", words="membership_own")
                return
            target_in({caller.user: known}, caller.user)
            await uow.members.remove(organization, caller.user)
            # Otherwise the organization that created the account could list the person again, and deactivate the account.
            await uow.members.release(organization, caller.user)
            await uow.record(member_removed(known.membership, known.account.email, _themselves(caller.user)))
            await uow.commit()

    async def listed_by_link(self, token: Token) -> Sequence[ListedMembership]:
        """The unconfirmed memberships of the person who chooses the first password of their account by this link."""
        return await self.lookup.listed_by_link(token.digest(), MOST_ASKED)

    async def choose_password(
        self,
        token: Token,
        new: Password,
        confirmed: Collection[OrganizationId],
        actor: Actor,
        *,
        keep_keys: Collection[UserKeyId],
        keep_ways: Sequence[str],
    ) -> PasswordChosen:
        """`AccountPasswords.reset`, with the memberships that the person confirms, and what stays, on the same page. Only the
        first password of an account confirms memberships, because a later reset may come from anybody who reads the mail.
        """

        async def confirm(uow: UnitOfWork, user: UserId) -> None:
            await self._confirm(uow, user, confirmed, None)

        return await self.passwords.reset(token, new, actor, keep_keys=keep_keys, keep_ways=keep_ways, first=confirm if confirmed else None)

    async def _confirm(self, uow: UnitOfWork, user: UserId, organizations: Collection[OrganizationId], session: SessionId | None) -> None:
        own = await uow.members.confirm(user, organizations, session, self.clock.now())
        await uow.record_all([membership_confirmed(one, _themselves(user)) for one in own])
        for one in own:
            if one.role == BuiltInRole.OWNER:
                await confirm_ownership(uow, UnconfirmedOwnership(one.organization, user), self.clock.now())

    async def transfer_ownership(self, caller: Member, user: UserId, actor: Actor) -> None:
        """The caller, who is the owner, becomes an admin, and this member becomes the owner, who hears of it by mail and may decline it.
        Raises `BadRequest` when that person is not a member, or is deactivated, and `Forbidden` when the caller is no longer the owner.
        """
        if user == caller.user:
            raise BadRequest("new_owner_user_id: you are already the owner", words="already_owner")
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            await require_owner(uow, acting, self.clock.now())
            target = found(
                known.get(user),
                "new_owner_user_id: this user is not a member of the organization",
                words="owner_not_member",
                refusal=BadRequest,
            )
            # Of somebody whom the organization merely lists, it does not learn the state of the account.
            if target.account.deactivated_at is not None and target.membership.own_since is not None:
                raise BadRequest("new_owner_user_id: this user is deactivated", words="account_deactivated")
            handed = await uow.members.transfer_ownership(caller.organization, caller.user, user, self.clock.now())
            await self.ownerships.tell_heir(uow, target.account, handed)
            await uow.record(ownership_transferred(caller.organization, caller.user, user, actor))
            await uow.commit()

    async def select(self, caller: Caller, slug: str, actor: Actor) -> Selected:
        """Open a new session for the caller in this organization. Raises `NotFound`, `Forbidden` when the caller is not a member,
        `OrganizationNotActive`, `ReauthenticationRequired` and `SecondFactorRequired` by the organization's sign-in rules, `TermsRequired`,
        `RefusedByHook`, `HooksBusy`, and `Unauthorized` when the session has ended since the request came in.
        """
        try:
            return await self._select(caller, slug, actor)
        except HooksToAsk as to_ask:
            (await self.hook_asking.ask(to_ask.door)).require_let_in()
        return await self._select(caller, slug, actor, asked=True)

    async def _select(self, caller: Caller, slug: str, actor: Actor, *, asked: bool = False) -> Selected:
        """Raises `HooksToAsk` before anything is written, so that no connection is held while hooks are asked."""
        async with self.unit_of_work() as uow:
            # Every transaction takes these locks in the same order: the account, the membership, then the sessions.
            entry = await uow.members.enter(slug, caller.user, caller.session)
            opener = await uow.sessions.hold_opener(caller.session, caller.user)
            if opener is None:
                raise Unauthorized("The session has ended", words="session_ended")
            if entry is None:
                raise NotFound("There is no such organization", words="organization_unknown")
            if entry.membership is None:
                raise Forbidden(NOT_A_MEMBER, words="not_a_member")
            if not entry.organization_is_active:
                raise OrganizationNotActive
            now, proved = self.clock.now(), opener.session.proved
            if entry.session_lifetime is not None and (proved.at is None or proved.at + entry.session_lifetime <= now):
                raise outlasted(entry.session_lifetime)
            require_second_factor(entry.second_factor_due, now)
            require_accepted(entry.terms_due, now)
            if entry.is_kept_out:
                raise KeptOut(entry.organization_slug)
            if entry.has_hooks and not asked and caller.impersonator is None:
                raise HooksToAsk(door_of_member(caller, entry.organization))
            opened = await self.sessions.open(
                uow,
                opener.account,
                device=caller.device,
                authenticated_by=caller.authentication_methods,
                context=Context(entry.organization, entry.organization_slug),
                parent=opener.session,
                proved=opener.session.proved,
            )
            if entry.has_hooks and asked:
                await uow.hooks.end_with_silence(opened.session.id, caller.session, caller.user, entry.organization, None)
            await uow.record(session_opened(entry.membership, opened.session.id, actor))
            await uow.commit()
        return Selected(opener.account, entry.membership, await self.sessions.tokens(opened))


def _themselves(user: UserId) -> Actor:
    """The person as actor, without IP address and device: the organization learns the person's answer, but not where it was given."""
    return Actor(user)


def target_in(known: Mapping[UserId, KnownMember], user: UserId) -> KnownMember:
    """The member that a caller wants to change or remove. Raises `NotFound`, and `BadRequest` for the owner."""
    target = found(known.get(user), "There is no such member")
    if target.membership.role == BuiltInRole.OWNER:
        raise BadRequest("This cannot be done to the owner: transfer the ownership first", words="transfer_first")
    return target


class MemberFactors(Frozen):
    """Helps members who have lost their second factor. A user who manages the members of an organization can disable the second factor of
    an account that belongs to this organization alone. For every other account only the platform owners can.
    """

    unit_of_work: UnitOfWorkFactory
    mfa: Mfa

    async def disable(self, caller: Member, user: UserId, reason: str, actor: Actor) -> bool:
        """Disable a member's second factor. From then on the member signs in without it, and a mail tells them. Returns False when the
        member had no second factor. Raises `NotFound`, `BadRequest` for the caller, for the owner, and without a reason, and `Forbidden`
        when the member may do more than the caller, or when the account does not belong to the organization alone: the account may open
        other organizations too, and this organization must not weaken the sign-in there.
        """
        reason = reason_of(reason)
        if user == caller.user:
            raise BadRequest(
                "Another member has to do it: your own second factor you disable with DELETE /api/user/mfa", words="another_member"
            )
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE)
            target = target_in(known, user)
            require_no_more(target.capabilities, acting.capabilities)
            await uow.accounts.hold(user)
            if not await uow.members.belongs_here_alone(caller.organization, user):
                raise Forbidden(
                    "This account is not your organization's alone: the owners of the platform can help", words="platform_can_help"
                )
            account = target.account
            disabled = await self.mfa.force_end(
                uow, user, account.email, actor, reason=reason, language=account.language, organization=caller.organization
            )
            await uow.commit()
        return disabled
