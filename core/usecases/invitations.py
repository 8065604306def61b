"""Invitations: made, answered by whom they are for or by a manager in their place, withdrawn, and closed when their time has passed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from core.domain.account_mails import AccountMail, account_mail_job
from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.errors import BadRequest, InvitationExpired, NotFound, RateLimited
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import InvitationId, MembershipId, OrganizationId, UserId
from core.domain.invitations import (
    LIFETIME,
    LISTED_TOKEN_LIFETIME,
    UNKNOWN,
    Invitation,
    InvitationStatus,
    Inviter,
    ListedToken,
    Offer,
    OwnInvitation,
    Way,
    accepted,
    declined,
    expired,
    invited,
    joined,
    read_listed_token,
    require_may_offer,
    require_pending,
    revoked,
)
from core.domain.links import Links
from core.domain.members import Member, Membership
from core.domain.pages import Page
from core.domain.roles import BuiltInRole
from core.domain.secrets import Token
from core.domain.sessions import Caller
from core.usecases.accounts import Accounts
from ports.clock import Clock
from ports.ids import Ids
from ports.invitations import ById, ByToken, InvitationLookup, ListedInvitation
from ports.mail_templates import MailTemplates
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of the key that the tokens in people's own lists are signed with.
LISTED_TOKENS: Final = "invitation_tokens"


@dataclass(frozen=True, slots=True)
class Issued:
    """A new invitation. The token is in its link, and nowhere else."""

    invitation: Invitation
    inviter: Inviter
    token: Token


@dataclass(frozen=True, slots=True)
class Presented:
    """What a token leads to, and who presents it as far as it says."""

    which: ByToken | ById
    way: Way
    user: UserId | None = None
    """Whom it was given to, who must still have the invited address."""
    impersonator: UserId | None = None


class Invitations:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: InvitationLookup,
        *,
        accounts: Accounts,
        templates: MailTemplates,
        links: Links,
        server_secrets: ServerSecrets,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._accounts = accounts
        self._templates = templates
        self._links = links
        self._server_secrets = server_secrets
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def create(self, member: Member, email: Email, role: str, actor: Actor) -> Issued:
        """Mailed with its link. Whether there is an account with this address shows nowhere, unless its owner is a member already."""
        if role == BuiltInRole.OWNER:
            raise BadRequest("role: an organization gets another owner by transfer only")
        now = self._clock.now()
        token = self._secrets.mailed_token()
        async with self._unit_of_work() as uow:
            prospect = await uow.invitations.prospect(member.organization, member.user, email, now)
            if prospect is None:
                raise NotFound("There is no such organization")
            offered = await uow.roles.assignable(member.organization, role)
            if offered is None:
                raise BadRequest("role: the organization has no such role")
            require_may_offer(offered, prospect.capabilities)
            if prospect.is_member:
                raise BadRequest("email: this person is a member already")
            wait = prospect.seconds_to_wait(now)
            if wait > 0:
                raise RateLimited("Too many invitations within the hour, to this address or in all", retry_after=wait)
            if prospect.lapsed is not None:
                await uow.record(expired(prospect.lapsed))
            invitation = Invitation(
                id=InvitationId(self._ids.new()),
                organization=member.organization,
                email=email,
                role=offered.slug,
                role_id=offered.id,
                invited_by=member.user,
                token_digest=token.digest(),
                status=InvitationStatus.PENDING,
                expires_at=now + LIFETIME,
                created_at=now,
            )
            if not await uow.invitations.add(invitation):
                raise BadRequest("email: this address is invited already")
            mail = self._templates.mail(
                "invitation",
                email.address,
                branding=prospect.branding,
                link=self._links.invitation(token),
                inviter=prospect.inviter.email.address,
                until=invitation.expires_at,
            )
            await uow.jobs.add(mail.as_job())
            await uow.record(invited(invitation, actor))
            await uow.commit()
        return Issued(invitation, prospect.inviter, token)

    async def list(self, organization: OrganizationId, status: InvitationStatus | None, page: Page) -> Sequence[ListedInvitation]:
        """The newest first, each with the status that it has now, whether that was written down yet or not."""
        now = self._clock.now()
        return [
            ListedInvitation(replace(one.invitation, status=one.invitation.status_at(now)), one.inviter)
            for one in await self._lookup.list(organization, status, now, page)
        ]

    async def cancel(self, member: Member, invitation: InvitationId, actor: Actor) -> None:
        async with self._unit_of_work() as uow:
            cancelled = await uow.invitations.cancel(member.organization, invitation, self._clock.now())
            if cancelled is None:
                raise NotFound("There is no such invitation that is pending")
            await uow.record(revoked(cancelled, actor))
            await uow.commit()

    async def list_own(self, caller: Caller) -> Sequence[tuple[OwnInvitation, Token]]:
        """Those to the caller's own address that can be answered, each with a token for that: once, within a quarter of an hour, and while
        the caller's session lives.
        """
        now = self._clock.now()
        own = await self._lookup.list_own(caller.user, now)
        key = await self._server_secrets.get(LISTED_TOKENS)
        until = now + LISTED_TOKEN_LIFETIME
        return [
            (one, ListedToken(one.id, caller.user, caller.session, caller.impersonator, min(until, one.expires_at)).signed(key))
            for one in own
        ]

    async def look(self, token: Token) -> Offer:
        """What a link leads to, which it does as often as it is opened. Raises `BadRequest` when nobody can answer it any more."""
        presented = await self._presented(token)
        offer = _require_meant(await self._lookup.find(presented.which), presented)
        require_pending(offer.invitation)
        if offer.invitation.is_overdue(self._clock.now()):
            raise InvitationExpired
        offer.require_backed()
        return offer

    async def accept(self, token: Token, actor: Actor) -> None:
        """By whoever holds the link or a token of their own list: without an account for the address, there is one afterwards."""
        presented = await self._presented(token)
        done = False
        while not done:
            async with self._unit_of_work() as uow:
                offer = _require_meant(await uow.invitations.hold(presented.which), presented)
                done = await self._accept(uow, offer, presented.way, _answering(presented, actor))

    async def accept_on_behalf(self, member: Member, invitation: InvitationId, actor: Actor) -> None:
        """By a manager, who could have given the role to the person directly."""
        done = False
        while not done:
            async with self._unit_of_work() as uow:
                offer = await uow.invitations.hold(ById(invitation, member.organization), manager=member.user)
                if offer is None:
                    raise NotFound("There is no such invitation")
                require_may_offer(offer.offered, offer.backing)
                done = await self._accept(uow, offer, Way.ON_BEHALF, actor)

    async def decline(self, token: Token, actor: Actor) -> None:
        """Also one whose time has passed, as long as nobody has written that down."""
        presented = await self._presented(token)
        async with self._unit_of_work() as uow:
            offer = _require_meant(await uow.invitations.hold_alone(presented.which), presented)
            require_pending(offer.invitation)
            await uow.invitations.close(offer.invitation.id, InvitationStatus.REJECTED, self._clock.now())
            await uow.record(declined(offer.invitation, presented.way, _answering(presented, actor)))
            await uow.commit()

    async def expire_due(self, since: datetime | None, limit: int) -> tuple[int, datetime | None]:
        """Close one batch of those whose time has passed, the oldest first. Returns how many they were, and where the next begins."""
        async with self._unit_of_work() as uow:
            lapsed = await uow.invitations.expire_due(self._clock.now(), since, limit)
            if lapsed:
                await uow.record_all([expired(one) for one in lapsed])
                await uow.commit()
        return len(lapsed), max((one.expires_at for one in lapsed), default=since)

    async def _presented(self, token: Token) -> Presented:
        listed = read_listed_token(token, await self._server_secrets.get(LISTED_TOKENS))
        if listed is None:
            return Presented(ByToken(token.digest()), Way.LINK)
        if listed.expires_at <= self._clock.now():
            raise InvitationExpired("This token has expired; list your invitations again")
        return Presented(ById(listed.invitation, session=listed.session), Way.OWN_LIST, listed.user, listed.impersonator)

    async def _accept(self, uow: UnitOfWork, offer: Offer, way: Way, actor: Actor) -> bool:
        """False when the account, or the membership, appeared at this very moment: then everything is to be looked at again."""
        invitation = offer.invitation
        now = self._clock.now()
        require_pending(invitation)
        if invitation.is_overdue(now):
            # What was noticed stays noticed, although the answer is no.
            await uow.invitations.close(invitation.id, InvitationStatus.EXPIRED, now)
            await uow.record(expired(invitation.lapsed()))
            await uow.commit()
            raise InvitationExpired
        offer.require_backed()
        offer.require_acceptable()
        account = offer.account or _new_account(UserId(self._ids.new()), invitation.email, now)
        if offer.account is None:
            if not await uow.accounts.add(account, None):
                return False
            target = Target("user", str(account.id))
            await uow.record(Event("user.signup.success", actor, target, details={"provider": "invitation"}))
        elif account.email_verified_at is None:
            await self._accounts.disown_unverified(uow, account.id, actor)
        if account.email_verified_at is None:
            await uow.jobs.add(account_mail_job(AccountMail.SET_PASSWORD, account.email, offer.organization_slug))
        await uow.invitations.close(invitation.id, InvitationStatus.ACCEPTED, now)
        membership = Membership(
            MembershipId(self._ids.new()), invitation.organization, account.id, invitation.role, now, invitation.role_id
        )
        added = await uow.members.add(membership)
        if added:
            await uow.record_all([joined(invitation, account.id, actor), accepted(invitation, account.id, way, actor)])
            await uow.commit()
        return added


def _new_account(user: UserId, email: Email, now: datetime) -> Account:
    """Without a password, and with an address that nobody has proved: the link that is mailed there leads to both."""
    return Account(user, email, is_platform_owner=False, email_verified_at=None, deactivated_at=None, created_at=now)


def _require_meant(offer: Offer | None, presented: Presented) -> Offer:
    """The invitation is there, and who was given a token for it has the address still."""
    if offer is None:
        raise BadRequest(UNKNOWN)
    if presented.user is not None and (offer.account is None or offer.account.id != presented.user):
        raise BadRequest(UNKNOWN, detail="the token was given to somebody who has another address by now")
    return offer


def _answering(presented: Presented, actor: Actor) -> Actor:
    """Who answers, as far as anybody can tell: by the link, nobody can. The inviter has it too, and would learn whose address it is."""
    return replace(actor, user=presented.user, impersonator=presented.impersonator)
