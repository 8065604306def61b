"""Invitations: made, answered by the invited person or by a manager in their place, cancelled, and closed when their time has passed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.domain.branding import NamedApplication
from core.domain.errors import BadRequest, Forbidden, InvitationExpired, NotFound, RateLimited, found
from core.domain.identifiers import InvitationId, MembershipId, OrganizationId, UserId
from core.domain.identity.account_mails import AccountMail, AskedMail, Links
from core.domain.identity.accounts import opened_by_proof, unverified_account
from core.domain.identity.callers import Caller
from core.domain.identity.profiles import NOTHING_STATED, StatedProfile
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import Page
from core.domain.secrets import Token
from core.domain.tenancy.invitations import (
    LIFETIME,
    LISTED_TOKEN_LIFETIME,
    UNKNOWN,
    Invitation,
    InvitationOffer,
    InvitationStatus,
    Inviter,
    ListedToken,
    OwnInvitation,
    Way,
    accepted,
    declined,
    expired,
    invited,
    joined,
    read_listed_token,
    require_invitable,
    require_may_offer,
    require_pending,
    revoked,
)
from core.domain.tenancy.members import Member, Membership, MembershipOrigin
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import end_access
from core.usecases.identity.account_passwords import AccountPasswords, FittingPassword
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.profiles import Profiles
from core.usecases.tenancy.rights import find_rights_for_update
from core.usecases.tenancy.texts import organization_mail
from ports.crypto import ServerSecrets
from ports.mail import MailTemplates
from ports.system import System
from ports.tenancy.members import ById, ByToken, InvitationStore, ListedInvitation
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key that signs the tokens in people's own lists.
LISTED_TOKENS: Final = "invitation_tokens"


class Issued(Frozen):
    """A new invitation. The token exists only here. The mailed link has another one, which the inviter never sees."""

    invitation: Invitation
    inviter: Inviter
    token: Token


class PresentedInvitation(Frozen):
    """The invitation of a token, and what the token says about the person who presents it."""

    which: ByToken | ById
    way: Way
    user: UserId | None = None
    """The person who got the token. This person must still have the invited address."""
    impersonator: UserId | None = None


class Invitations(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: InvitationStore
    accounts: Accounts
    passwords: AccountPasswords
    profiles: Profiles
    templates: MailTemplates
    links: Links
    server_secrets: ServerSecrets
    system: System

    async def create(self, member: Member, email: Email, role: str, actor: Actor, replaces: InvitationId | None = None) -> Issued:
        """Makes an invitation and mails its link. The answer does not show whether the address has an account, except that a member cannot
        be invited. `replaces` is a pending invitation to the same address, which ends with it: one link works, and a refusal ends none.
        """
        if role == BuiltInRole.OWNER:
            raise BadRequest("role: to change the owner, transfer the ownership", words="transfer_instead")
        now = self.system.clock.now()
        token, mailed = self.system.secrets.mailed_token(), self.system.secrets.mailed_token()
        async with self.unit_of_work() as uow:
            granted = None if member.key is None else await find_rights_for_update(uow, member, Capability.MEMBERS_MANAGE)
            # The mail names a person who invites, so a management key invites in the name of the person who answers for it.
            prospect = await uow.invitations.prospect(member.organization, member.responsible, email, now)
            if granted is not None and (prospect is None or not prospect.capabilities):
                raise Forbidden(
                    "Nobody answers for this management key any more: an owner has to adopt it before it can invite people",
                    words="key_unanswered",
                )
            if prospect is not None and granted is not None and not prospect.inviter_is_own:
                raise Forbidden(
                    "Whoever answers for this management key has not confirmed that they belong to the organization", words="key_unanswered"
                )
            if prospect is None:
                raise NotFound("There is no such organization", words="organization_unknown")
            offered = found(
                await uow.roles.assignable(member.organization, role),
                "role: the organization has no such role",
                words="role_unknown",
                refusal=BadRequest,
            )
            require_may_offer(offered, prospect.capabilities if granted is None else prospect.capabilities & granted)
            require_invitable(email, prospect.domains)
            if prospect.is_member:
                raise BadRequest("email: this person is already a member", words="already_member")
            wait = prospect.seconds_to_wait(now)
            if wait > 0:
                raise RateLimited("Too many invitations in the last hour, to this address or altogether", retry_after=wait)
            if prospect.lapsed is not None:
                await uow.record(expired(prospect.lapsed))
            if replaces is not None:
                former = await uow.invitations.cancel(member.organization, replaces, now)
                own = former if former is not None and former.email.key == email.key else None
                await uow.record(revoked(found(own, "replaces: this address has no such pending invitation"), actor))
            invitation = Invitation(
                id=InvitationId(self.system.ids.new()),
                organization=member.organization,
                email=email,
                role=offered.slug,
                role_id=offered.id,
                invited_by=member.responsible,
                token_digest=token.digest(),
                status=InvitationStatus.PENDING,
                expires_at=now + LIFETIME,
                created_at=now,
                made_by_key=member.key_id,
                # The organization's own mail server could read the link, so the link would prove nothing.
                mailed_digest=None if prospect.has_mail_server else mailed.digest(),
            )
            if not await uow.invitations.add(invitation):
                raise BadRequest("email: this address has a pending invitation; revoke it first", words="already_invited")
            # Whoever runs the organization's own server reads the mail, and must not learn that there is an account, and its language.
            known = None if prospect.has_mail_server else prospect.language
            # The choice of the server is made here: a server that is set up a moment later must not get a link that proves an address.
            mail = organization_mail(
                self.templates,
                member.organization,
                "invitation",
                email.address,
                account=None,
                language=known or actor.language,
                branding=prospect.branding,
                is_own=False,
                link=self.links.invitation(token if prospect.has_mail_server else mailed),
                inviter=prospect.inviter.email.address,
                until=invitation.expires_at,
                **_named(offered.application),
            )
            await uow.jobs.add(mail.as_job() if prospect.has_mail_server else mail.mail.as_job())
            await uow.record(invited(invitation, actor))
            await uow.commit()
        return Issued(invitation, prospect.inviter, token)

    async def list(self, organization: OrganizationId, status: InvitationStatus | None, page: Page) -> Sequence[ListedInvitation]:
        """Newest first, each with its status as of now, even if that has not been written down yet."""
        now = self.system.clock.now()
        return [
            ListedInvitation(replace(one.invitation, status=one.invitation.status_at(now)), one.inviter, one.key)
            for one in await self.lookup.list(organization, status, now, page)
        ]

    async def cancel(self, member: Member, invitation: InvitationId, actor: Actor) -> None:
        async with self.unit_of_work() as uow:
            cancelled = found(
                await uow.invitations.cancel(member.organization, invitation, self.system.clock.now()),
                "There is no such pending invitation",
            )
            await uow.record(revoked(cancelled, actor))
            await uow.commit()

    async def list_own(self, caller: Caller) -> Sequence[tuple[OwnInvitation, Token]]:
        """Invitations to the caller's own address that can be answered. Each comes with a token that works once, for a quarter of an hour,
        and only while the caller's session lives.
        """
        now = self.system.clock.now()
        own = await self.lookup.list_own(caller.user, caller.session, now)
        key = await self.server_secrets.get(LISTED_TOKENS)
        until = now + LISTED_TOKEN_LIFETIME
        return [
            (one, ListedToken(one.id, caller.user, caller.session, caller.impersonator, min(until, one.expires_at)).signed(key))
            for one in own
        ]

    async def require_listed(self, caller: Caller, invitation: InvitationId, token: Token) -> None:
        """Raises `NotFound` unless the token is from the caller's own list and for this invitation: another person's token would answer in
        that person's name.
        """
        listed = read_listed_token(token, await self.server_secrets.get(LISTED_TOKENS))
        if listed is None or (listed.invitation, listed.user, listed.session) != (invitation, caller.user, caller.session):
            raise NotFound("There is no such invitation")

    async def look(self, token: Token) -> InvitationOffer:
        """What a link leads to. It may be opened any number of times. Raises `BadRequest` when the invitation can no longer be answered."""
        presented = await self._presented(token)
        offer = _require_meant(await self.lookup.find(presented.which), presented)
        require_pending(offer.invitation)
        if offer.invitation.is_overdue(self.system.clock.now()):
            raise InvitationExpired
        offer.require_backed()
        return offer

    async def answered(self, token: Token) -> InvitationOffer:
        """The invitation of a token in any state, for the page after the answer. Raises `BadRequest`."""
        presented = await self._presented(token)
        return _require_meant(await self.lookup.find(presented.which), presented)

    async def may_choose_password(self, offer: InvitationOffer) -> bool:
        """Whether the invited person chooses a password on the page that accepts. For people who sign in at a provider, a password would be
        of no use.
        """
        return offer.chooses_password and not await self.passwords.sign_in_domains.requires_provider(offer.invitation.email)

    async def accept_with_password(self, token: Token, password: FittingPassword, actor: Actor, *, name: str = "") -> None:
        """Does what `accept` does, and sets the account's first password, in one unit of work. Only for the token that our own mail server
        has sent, and for an account that nobody has used: any other acceptance leads to a mailed link. Signs nobody in. Raises
        `BadRequest`, and leaves the invitation as it was if the name is refused.
        """
        stated = self.profiles.named(name)
        presented = await self._presented(token)
        offer = await self.look(token)
        if not await self.may_choose_password(offer):
            raise _by_mail_alone()
        encoded = await self.passwords.encoded(password)
        done = False
        while not done:
            async with self.unit_of_work() as uow:
                offer = _require_meant(await uow.invitations.find_for_update(presented.which), presented)
                require_pending(offer.invitation)
                if not offer.chooses_password:
                    # Another request has given the account a way in meanwhile.
                    raise _by_mail_alone()
                done = await self._accept(uow, offer, presented.way, _answering(presented, actor), encoded=encoded, stated=stated)

    async def accept(self, token: Token, actor: Actor, *, signed_in: UserId | None = None, name: str = "") -> None:
        """Accepted by the holder of the link or of a token from their own list. If the address has no account, one is made. `signed_in` has
        a session in the browser that shows the link: where only a directory has vouched for the address, the person proves it there first,
        and keeps what is theirs. `name` is kept as `chooses_password` says: others hold the other tokens, and a profile is the person's
        own. Raises `BadRequest`.
        """
        stated = self.profiles.named(name)
        presented = await self._presented(token)
        done = False
        while not done:
            async with self.unit_of_work() as uow:
                offer = _require_meant(await uow.invitations.find_for_update(presented.which), presented)
                if offer.account is not None and offer.account.id == signed_in and offer.account.address_is_idp_verified:
                    raise BadRequest("Verify your email address first", words="address_unproved")
                done = await self._accept(uow, offer, presented.way, _answering(presented, actor), stated=stated)

    async def accept_on_behalf(self, member: Member, invitation: InvitationId, actor: Actor) -> None:
        """Accepted by a manager, who must be able to give the role."""
        done = False
        while not done:
            async with self.unit_of_work() as uow:
                granted = None if member.key is None else await find_rights_for_update(uow, member, Capability.MEMBERS_MANAGE)
                offer = found(
                    await uow.invitations.find_for_update(ById(invitation, member.organization), manager=member.responsible),
                    "There is no such invitation",
                    words="invitation_unknown",
                )
                if granted is not None:
                    offer = replace(offer, backing=granted)
                require_may_offer(offer.offered, offer.backing)
                done = await self._accept(uow, offer, Way.ON_BEHALF, actor)

    async def decline(self, token: Token, actor: Actor) -> None:
        """Allowed after its time has passed too, as long as it has not been closed."""
        presented = await self._presented(token)
        async with self.unit_of_work() as uow:
            offer = _require_meant(await uow.invitations.find_alone_for_update(presented.which), presented)
            require_pending(offer.invitation)
            await uow.invitations.close(offer.invitation.id, InvitationStatus.REJECTED, self.system.clock.now())
            await uow.record(declined(offer.invitation, presented.way, _answering(presented, actor)))
            await uow.commit()

    async def was_just_answered(self, token: Token, status: InvitationStatus) -> bool:
        """Returns whether the invitation has got this answer a moment ago, so that a form that is sent twice is no error."""
        presented = await self._presented(token)
        offer = await self.lookup.find(presented.which)
        return offer is not None and offer.invitation.has_just_become(status, self.system.clock.now())

    async def due_in(self) -> float | None:
        """Returns the seconds until the first pending invitation expires, and None when none is pending."""
        return await self.lookup.due_in()

    async def expire_due(self, since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        """Close one batch of invitations whose time has passed, oldest first. Returns how many, and where the next batch begins."""
        async with self.unit_of_work() as uow:
            lapsed = await uow.invitations.expire_due(self.system.clock.now(), since, limit)
            if lapsed:
                await uow.record_all([expired(one) for one in lapsed])
                await uow.commit()
        return len(lapsed), max((one.expires_at for one in lapsed), default=since)

    async def _presented(self, token: Token) -> PresentedInvitation:
        listed = read_listed_token(token, await self.server_secrets.get(LISTED_TOKENS))
        if listed is None:
            return PresentedInvitation(ByToken(token.digest()), Way.LINK)
        if listed.expires_at <= self.system.clock.now():
            raise InvitationExpired("This token has expired; list your invitations again", words="invitation_token_expired")
        return PresentedInvitation(ById(listed.invitation, session=listed.session), Way.OWN_LIST, listed.user, listed.impersonator)

    async def _accept(
        self,
        uow: UnitOfWork,
        offer: InvitationOffer,
        way: Way,
        actor: Actor,
        *,
        encoded: str | None = None,
        stated: StatedProfile = NOTHING_STATED,
    ) -> bool:
        """`encoded` is the hash of a first password that the person has chosen while accepting. False when the account or the membership
        appeared at this very moment. The caller then starts over.
        """
        invitation = offer.invitation
        now = self.system.clock.now()
        require_pending(invitation)
        if invitation.is_overdue(now):
            # The closing of an overdue invitation is kept, even though the answer is a refusal.
            await uow.invitations.close(invitation.id, InvitationStatus.EXPIRED, now)
            await uow.record(expired(invitation.lapsed()))
            await uow.commit()
            raise InvitationExpired
        offer.require_backed()
        offer.require_acceptable(by_themselves=way is Way.OWN_LIST or (way is Way.LINK and offer.by_mail))
        # Whoever accepts for somebody whom a directory has vouched for proves nothing, so it ends nothing either.
        proves = (
            offer.account is not None
            and not offer.is_shut
            and (offer.account.nobody_knows_address or (offer.account.address_is_idp_verified and way is Way.LINK and offer.by_mail))
        )
        account = offer.account or unverified_account(UserId(self.system.ids.new()), invitation.email, now, actor.language)
        if offer.account is None:
            if not await uow.accounts.add(account, None):
                return False
            target = Target("user", str(account.id))
            await uow.record(Event("user.signup.success", actor, target, details={"provider": "invitation"}))
        elif proves:
            await self.accounts.disown_unverified(uow, account.id, actor)
            if offer.opens_account:
                await uow.accounts.open_by_proof(account.id, now)
                await uow.record(opened_by_proof(account.id, actor))
        if encoded is not None:
            if account.address_is_proved:
                # An account that is new has nothing to end, and `disown_unverified` has ended what an unproved one had.
                await end_access(uow, account.id, now)
            await self.passwords.set_first(uow, account, encoded, actor)
        elif offer.account is None or proves:
            asked = AskedMail(AccountMail.SET_PASSWORD, account.email, offer.organization_slug, actor.language, account=account.id)
            await uow.jobs.add(asked.as_job())
        await self.profiles.fill(uow, account.id, stated if offer.chooses_password else NOTHING_STATED, actor, "")
        await uow.invitations.close(invitation.id, InvitationStatus.ACCEPTED, now)
        is_theirs = _is_theirs(offer, way, actor)
        membership = Membership(
            MembershipId(self.system.ids.new()),
            invitation.organization,
            account.id,
            invitation.role,
            now,
            invitation.role_id,
            _came_by(offer, is_theirs=is_theirs),
            own_since=now if is_theirs else None,
        )
        added = await uow.members.add(membership)
        if added:
            await uow.record_all([joined(invitation, account.id, actor), accepted(invitation, account.id, way, actor)])
            await uow.commit()
        return added


def _require_meant(offer: InvitationOffer | None, presented: PresentedInvitation) -> InvitationOffer:
    """The invitation exists, and the person that the token was given to still has the address."""
    if offer is None:
        raise BadRequest(UNKNOWN, words="invitation_unknown")
    if presented.user is not None and (offer.account is None or offer.account.id != presented.user):
        raise BadRequest(UNKNOWN, words="invitation_unknown", detail="the token was given to somebody who now has another address")
    return offer


def _by_mail_alone() -> BadRequest:
    return BadRequest("A password cannot be chosen here: accept without one, and open the link in the mail", words="invitation_by_mail")


def _is_theirs(offer: InvitationOffer, way: Way, actor: Actor) -> bool:
    """Whether only the invited person can have accepted: with the token that our own mail server sent, or in their own list."""
    return offer.by_mail if way is Way.LINK else way is Way.OWN_LIST and actor.impersonator is None


def _came_by(offer: InvitationOffer, *, is_theirs: bool) -> MembershipOrigin:
    if offer.account is None:
        return MembershipOrigin.CREATED
    return MembershipOrigin.ACCEPTED if is_theirs else MembershipOrigin.ADDED


def _answering(presented: PresentedInvitation, actor: Actor) -> Actor:
    """The person who answers, as far as that is known. The link names nobody: the inviter has it too, and would learn
    whose address it is.
    """
    return replace(actor, user=presented.user, impersonator=presented.impersonator)


def _named(application: NamedApplication | None) -> dict[str, str]:
    """The mail goes to an address that nobody has proved, so not every name may stand in it."""
    if application is None or not application.may_be_mailed:
        return {"application": "", "application_logo": ""}
    return {"application": application.name, "application_logo": application.logo or ""}
