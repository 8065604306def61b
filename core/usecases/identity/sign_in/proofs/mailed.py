"""Authenticates users by email: by magic links, and by codes that verify the email address of a new user."""

from collections.abc import Awaitable, Callable
from typing import Final

from core.domain.errors import BadRequest, RateLimited, found
from core.domain.identity.account_mails import (
    CODE_DIGITS,
    CODE_LENGTH,
    MAILED_CODES,
    SIGNS_IN,
    CodeRefused,
    LinkRefused,
    Links,
    MailedToken,
    MailedTokenPurpose,
    mailed_token,
    refusal_of,
)
from core.domain.identity.accounts import ACCOUNT_MAILS, opened_by_proof
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import LINK_PROVIDER, Tries, account_key
from core.domain.identity.upstream.further_sign_ins import MOST_CODES, MOST_TRIES, WaitingNewcomer, code_digest
from core.domain.identity.upstream.sign_in import NO_TOKENS, ServicePlace
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.secrets import Secret, Token
from core.frozen import Frozen
from core.usecases.identity.account_mails import CODES, MailedCodes
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.registering import MailBudgets, Registrations, asked_from
from core.usecases.identity.sign_in.proofs.proof import Arrival, Proof
from core.usecases.identity.sign_in.proofs.upstream import UpstreamProofs
from core.usecases.identity.upstream.further_sign_ins import NewcomerWords
from core.usecases.identity.upstream.journeys import Vouched
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.crypto import ServerSecrets
from ports.identity.sign_in import Attempts
from ports.identity.upstream import UpstreamLookup
from ports.mail import MailTemplates
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class SignInLinks(Frozen):
    """Issues and redeems magic links. Each link signs in once, in place of a password; a user with MFA still completes it. Operators issue
    links for platform owners. Anyone may request a link by mail, unless one of the user's organizations has disabled magic links. The code
    in such a mail is another name of the same link.
    """

    unit_of_work: UnitOfWorkFactory
    attempts: Attempts
    devices: Devices
    codes: MailedCodes
    login_events: LoginEvents
    links: Links
    system: System

    async def issue(self, email: Email, operator: str = "", *, to: str = "") -> Secret:
        """Makes a link that the operator passes on, and ends an earlier link. `to` is the page of ours that it ends on, in place of the
        person's account. Raises `NotFound`, and `BadRequest` for an account that may not sign in or is not a platform owner's.
        """
        token = self.system.secrets.token()
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            account = found(await uow.accounts.find(email), f"There is no account with the address {email}")
            if not account.is_platform_owner:
                raise BadRequest(f"{email} is not a platform owner")
            if account.deactivated_at is not None:
                raise BadRequest("The account is deactivated; activate it first")
            await uow.accounts.hold(account.id)
            await uow.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.SIGN_IN, account.id, account.email, now))
            personal = {"operator": operator} if operator else {}
            await uow.record(Event("security.sign_in_link.created", SYSTEM, Target("user", str(account.id)), personal=personal))
            await uow.commit()
        return Secret(self.links.redeeming(MailedTokenPurpose.SIGN_IN, token, {"to": to} if to else {}))

    async def look(self, token: Token) -> MailedToken:
        """Returns what a link is for, without using the link. Raises `LinkRefused`."""
        return await self._find(token)

    async def make(self, token: Token, client: Client, application: Context = PLATFORM) -> Arrival:
        """Makes the proof. `application` is the one that the browser's flow leads to. The link is used up only when the proof is used.
        Raises `LinkRefused`.
        """
        return await self._arrival(await self._find(token), client, application)

    async def make_with_code(self, flow: Flow, email: Email, code: Secret, client: Client) -> Arrival:
        """Makes the proof by the code that was mailed beside a link, in the flow that asked for the mail. A wrong code counts as a try to
        sign in, and is logged as one, whether or not an account has the address. Raises `LinkRefused`, and the errors of
        `MailedCodes.check`.
        """
        try:
            link = await self.codes.check(flow, email, MailedTokenPurpose.MAGIC_LINK, code)
        except CodeRefused:
            approach = await self.devices.observe(client)
            attempt = await self.attempts.find(email, approach, application=flow.application)
            await self.login_events.log_failure(LoginFailure.WRONG_CODE, LINK_PROVIDER, attempt.named, approach, flow.application)
            raise
        if not link.is_usable(self.system.clock.now()):
            raise refusal_of(link)
        return await self._arrival(link, client, flow.application)

    async def _arrival(self, link: MailedToken, client: Client, application: Context) -> Arrival:
        approach = await self.devices.observe(client)
        attempt = await self.attempts.find(link.email, approach, application=application)
        if attempt.named is None or attempt.named.account.id != link.user:
            raise refusal_of(None)
        is_shut = attempt.named.account.deactivated_at is not None
        proof = Proof(
            method=ProofMethod.LINK,
            provider=LINK_PROVIDER,
            amr=_METHODS,
            at=self.system.clock.now(),
            use=self._use(link, attempt.tries, client),
            # A deactivation ends earlier links, so somebody has asked for this one since.
            opens=self._opening(link, client) if is_shut and link.purpose is MailedTokenPurpose.MAGIC_LINK else None,
            # A new password or the end of the account ends the link, so a link is void if one of these came after it.
            since=link.created_at,
            refusal=lambda: refusal_of(None),
        )
        return Arrival(attempt.named, proof, approach, PLATFORM, attempt.realm)

    def _use(self, link: MailedToken, tries: Tries, client: Client) -> Callable[[UnitOfWork], Awaitable[None]]:
        async def use(uow: UnitOfWork) -> None:
            if link.purpose is MailedTokenPurpose.MAGIC_LINK and not await uow.sign_in_links.are_permitted(link.user):
                raise LinkRefused("An organization that you belong to does not allow this", words="link_not_permitted")
            if await uow.mailed_tokens.redeem(link.digest, SIGNS_IN, self.system.clock.now()) is None:
                raise refusal_of(await uow.mailed_tokens.find(link.digest, SIGNS_IN))
            if tries.wait == 0:
                # A link is no guess, so it must not count as a try of the password.
                await uow.sign_ins.give_back(tries)
            await uow.record(Event("security.sign_in_link.used", client.actor(link.user), Target("user", str(link.user))))

        return use

    def _opening(self, link: MailedToken, client: Client) -> Callable[[UnitOfWork], Awaitable[None]]:
        async def open_account(uow: UnitOfWork) -> None:
            if await uow.accounts.open_by_proof(link.user, self.system.clock.now()):
                await uow.record(opened_by_proof(link.user, client.actor(link.user)))

        return open_account

    async def _find(self, token: Token) -> MailedToken:
        async with self.unit_of_work() as uow:
            found = await uow.mailed_tokens.find(token.digest(), SIGNS_IN)
        if found is None or not found.is_usable(self.system.clock.now()):
            raise refusal_of(found)
        return found


# RFC 8176 has no name for sign-in links.
_METHODS: Final = ("link",)


_MOST_CODES: Final = f"at most {MOST_CODES} codes"


class KnownNewcomer(Frozen):
    """A newcomer, as the pages show them."""

    provider: str
    """The provider's display name."""
    stated: str
    """The address that the provider tells. Empty when it tells none."""
    sent_to: str
    """The address that the last code went to."""


class NewcomerProofs(Frozen):
    """Verifies the email address of a user who is new from an identity provider, and creates the account. An existing account is never
    linked by its email address: its owner signs in first and connects the provider there.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: UpstreamLookup
    words: NewcomerWords
    providers: UpstreamProviders
    proofs: UpstreamProofs
    registrations: Registrations
    budgets: MailBudgets
    buckets: SharedBuckets
    templates: MailTemplates
    server_secrets: ServerSecrets
    system: System

    async def get(self, flow: Flow) -> KnownNewcomer:
        """Raises `FlowOver` when nobody waits in the flow, `ProviderOff` and `UnknownProvider`."""
        newcomer = await self.words.get(flow.id)
        vouched = await self._vouched(newcomer, flow)
        return KnownNewcomer(vouched.upstream.name, vouched.asserted.email, newcomer.email)

    async def send_code(self, flow: Flow, email: Email, client: Client) -> None:
        """Mails a code to the address, whether or not an account has it. Raises `FlowOver`, `ProviderOff`, `BadRequest` and
        `RegistrationClosed` for an address that gets no account here, and `RateLimited` after too many mails.
        """
        newcomer = await self.words.get(flow.id)
        vouched = await self._vouched(newcomer, flow)
        await self.registrations.require(email, flow.wanted.organization)
        await self.budgets.count(asked_from(client.address, email, flow.wanted.organization), may_wait=False)
        # Of each mailbox, whether or not it has an account, as for the other mails that strangers may ask for.
        wait = await self.buckets.take(ACCOUNT_MAILS, f"newcomer_code:{account_key(email)}")
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ACCOUNT_MAILS.name)
        code: Secret = self.system.secrets.letters(CODE_DIGITS, CODE_LENGTH)
        key = await self.server_secrets.get(CODES)
        digest = code_digest(code, flow.id, newcomer.provider, email, key)
        mail = self.templates.mail(
            "newcomer_code",
            email.address,
            account=None,
            language=client.language,
            branding=flow.branding,
            code=code.reveal(),
            provider=vouched.upstream.name,
        )
        async with self.unit_of_work() as uow:
            if not await uow.newcomers.send(flow.id, email.address, digest, MOST_CODES, self.system.clock.now()):
                raise RateLimited(retry_after=60, detail=_MOST_CODES)
            await uow.jobs.add(mail.as_job())
            await uow.commit()

    async def make(self, flow: Flow, code: Secret, client: Client) -> Arrival:
        """Makes the account and its proof. Raises `CodeRefused`, `RateLimited`, `FlowOver`, `UpstreamRefused` also when an account has the
        address, `ProviderOff`, and `ProviderRequired`.
        """
        newcomer = await self.words.get(flow.id)
        if not newcomer.email or newcomer.tries >= MOST_TRIES:
            # Before the bucket of the address, which a stranger could use up with codes that count no more.
            raise CodeRefused
        wait = await self.buckets.take(MAILED_CODES, account_key(Email(newcomer.email)))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=MAILED_CODES.name)
        key = await self.server_secrets.get(CODES)
        async with self.unit_of_work() as uow:
            tried = await uow.newcomers.attempt(flow.id, self.system.clock.now())
            await uow.commit()
        if tried is None:
            raise FlowOver
        if not tried.may_try or not tried.is_code(code, key):
            raise CodeRefused
        return await self.proofs.make_of_newcomer(flow, await self._vouched(tried, flow), Email(tried.email), client)

    async def _vouched(self, newcomer: WaitingNewcomer, flow: Flow) -> Vouched:
        """The provider's word, as long as the provider is on."""
        way = await self.lookup.way(newcomer.provider, ServicePlace(organization=flow.wanted.organization, service=flow.service))
        return Vouched(self.providers.found(newcomer.provider, way), self.words.opened(newcomer), NO_TOKENS)
