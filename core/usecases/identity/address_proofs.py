"""Verifies email addresses on the page that mailed links lead to."""

from collections.abc import Collection, Sequence
from typing import Final

from core.domain.errors import BadRequest, Unauthorized
from core.domain.identifiers import PrivacyRequestId, UserKeyId
from core.domain.identity.account_mails import (
    PROVES_ADDRESS,
    AskedOnPage,
    Doubt,
    LinkRefused,
    MailedToken,
    MailedTokenPurpose,
    Settled,
    asked_of,
    link_used,
    refusal_of,
)
from core.domain.identity.accounts import email_change_refused, registration_refused
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.privacy import forget_job
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.sign_in import Priority
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Password, Secret, Token
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import end_access, end_added_way, end_second_factor, end_user_keys, require_living
from core.usecases.identity.account_mails import MailedCodes
from core.usecases.identity.account_passwords import PasswordRules
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.sign_in.proofs.password import Checked, PasswordProofs
from core.usecases.identity.sign_in.proofs.proof import CHANGED, WRONG_PASSWORD
from ports.crypto import PasswordHasher
from ports.identity.upstream import VouchedAccountStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_WITHOUT_PASSWORD: Final = frozenset({AskedOnPage.NOTHING, AskedOnPage.WHAT_STAYS})


class AddressProofs(Frozen):
    """Opening the link alone verifies nothing: programs open links, too, and would verify the address of an account that a stranger
    registered.
    """

    unit_of_work: UnitOfWorkFactory
    accounts: Accounts
    codes: MailedCodes
    proofs: PasswordProofs
    rules: PasswordRules
    passwords: PasswordHasher
    vouched_accounts: VouchedAccountStore
    realms: HomeRealms
    system: System

    async def look(self, token: Token, browser: Token | None, caller: Caller | None = None, *, refusing: bool = False) -> Doubt:
        """Returns what a link is about, and what the page asks for in this browser before it proves the address. `refusing` asks for
        nothing, for a holder who disowns the address. `caller` is signed in in this browser. The link stays usable. Raises `LinkRefused`,
        and `ProviderRequired` when people of the domain sign in at a provider and a password would be of no use.
        """
        link, asked, is_vouched = await self._find(token, browser, caller)
        if asked not in _WITHOUT_PASSWORD and not refusing:
            await self._require_passwords(link)
        added: Sequence[AddedWay] = ()
        if asked is AskedOnPage.WHAT_STAYS and caller is not None:
            added = await self.vouched_accounts.added(link.user, caller.session)
        return Doubt(link.purpose, link.email, asked, is_vouched, tuple(added))

    async def prove(self, token: Token, browser: Token | None, password: Password, client: Client) -> MailedTokenPurpose:
        """Proves the address. The link works only once. `prove` needs the password of the registration, unless the account was registered
        in this browser. Raises `LinkRefused`, and the errors of `PasswordProofs.of_registration`.
        """
        link, asked, is_vouched = await self._find(token, browser, None)
        if is_vouched:
            # Nobody knows whose the password of such an account is.
            raise BadRequest(words="password_missing")
        checked = None if asked is AskedOnPage.NOTHING else await self.proofs.of_registration(link.email, password, client)
        async with self.unit_of_work() as uow:
            await self.accounts.redeem(uow, link)
            if checked is not None:
                await _require_still(uow, link, checked)
            await self.accounts.settle(uow, link, client.actor(link.user))
            await uow.commit()
        return link.purpose

    async def prove_with_code(self, flow: Flow, email: Email, browser: Token, code: Secret, actor: Actor) -> Token | None:
        """Proves the address by the code that was mailed beside the link, if the account was registered in this browser. In another
        browser, uses the mailed link up and returns a token in its place, because the page of a link asks for a password there. Raises
        `LinkRefused`, and the errors of `MailedCodes.check`.
        """
        link = await self.codes.check(flow, email, MailedTokenPurpose.VERIFY_EMAIL, code)
        try:
            async with self.unit_of_work() as uow:
                registration = await uow.account_passwords.registration(link.user)
            if asked_of(link, registration, browser) is not AskedOnPage.NOTHING:
                return await self.codes.exchange(link, code, browser)
            async with self.unit_of_work() as uow:
                await self.accounts.redeem(uow, link)
                await self.accounts.settle(uow, link, actor)
                await uow.commit()
        except LinkRefused:
            settled = await self._just_settled(link.digest)
            if settled is None or settled[1] is not Settled.PROVED:
                raise
        return None

    async def prove_with_new_password(self, token: Token, new: Password, actor: Actor) -> bool:
        """Proves the address of a registration and sets a new password. Removes everything that was set up in the account before. The link
        works only once. Returns whether an organization's own provider had vouched for the address. Raises `LinkRefused`; `BadRequest` when
        the rules do not permit the password; and `ProviderRequired` when people of the domain sign in at a provider.
        """
        link, _, was_vouched = await self._find(token, None, None)
        if link.purpose is not MailedTokenPurpose.VERIFY_EMAIL:
            raise refusal_of(None)
        await self._require_passwords(link)
        await self.rules.require(new, link.email)
        encoded = await self.passwords.hash(new, Priority.PROVEN)
        actor = replace(actor, user=link.user)
        async with self.unit_of_work() as uow:
            await self.accounts.redeem(uow, link)
            if not await self.accounts.disown_unverified(uow, link.user, actor):
                # The address was proved meanwhile, so this link must not change the account.
                raise link_used()
            if await uow.account_passwords.reset(link.user, link.email, encoded, self.system.clock.now()) is None:
                raise refusal_of(None)
            event = Event("security.password.changed", actor, Target("user", str(link.user)), details={"how": "set"})
            await uow.record_in_every_log(event, link.user)
            await self.accounts.settle(uow, link, actor)
            await uow.commit()
        return was_vouched

    async def prove_signed_in(self, token: Token, caller: Caller, stays: Collection[str], actor: Actor) -> None:
        """Proves the address in a browser session of the account, if so far only an organization's own provider has vouched for it. Whoever
        is signed in reads the mailbox, so the account keeps what it has. But somebody else may have signed in, too: of what was made
        elsewhere, only what `stays` names stays, and all other sessions end. So do all consents, because the person would never be asked
        for them. Raises `LinkRefused`, and `BadRequest` for a link to another account.
        """
        now = self.system.clock.now()
        link, asked, _ = await self._find(token, None, caller)
        if asked is not AskedOnPage.WHAT_STAYS:
            raise refusal_of(None)
        async with self.unit_of_work() as uow:
            await self.accounts.redeem(uow, link)
            await require_living(uow, caller.session)
            if await uow.account_passwords.registration(link.user) is None:
                raise link_used()
            added = await uow.vouched_accounts.added(link.user, caller.session)
            for one in added:
                if one.key not in stays:
                    await self._end(uow, one, link, actor)
            if not await uow.mfa.is_enabled(link.user):
                # The codes of a second factor that has just ended.
                await end_second_factor(uow, link.user, actor)
            await uow.accounts.withdraw_email(link.user, now)
            await end_access(uow, link.user, now, but=caller.session, forgets_devices=True)
            await uow.consents.revoke_all(link.user)
            kept = [UserKeyId(one.id) for one in added if one.kind is AddedKind.USER_KEY and one.key in stays]
            await end_user_keys(uow, link.user, now, actor, but=kept)
            await self.accounts.settle(uow, link, actor)
            await uow.commit()

    async def refuse(self, token: Token, actor: Actor) -> MailedTokenPurpose:
        """Records that the holder of the address has not asked for this link. A change of address is dropped. An account that has never
        been used is deleted; any other account loses what its registration left there. Raises `LinkRefused`.
        """
        async with self.unit_of_work() as uow:
            link = await uow.mailed_tokens.find(token.digest(), PROVES_ADDRESS)
            if link is None:
                raise refusal_of(None)
            # The account may be deleted below, so it is locked as for a deletion.
            await uow.accounts.hold_to_move(link.user)
            await self.accounts.redeem(uow, link)
            if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
                await uow.accounts.withdraw_email(link.user, self.system.clock.now())
                await uow.record(email_change_refused(link.user, actor))
            elif await uow.accounts.is_nobodys(link.user):
                request = PrivacyRequestId(self.system.ids.new())
                await uow.service_users.delete_account(link.user, request, self.system.clock.now())
                await uow.jobs.add(forget_job(request))
                await uow.record(registration_refused(link.user, actor, removed=True))
            elif await self.accounts.disown_unverified(uow, link.user, actor):
                await uow.record(registration_refused(link.user, actor, removed=False))
            else:
                raise link_used()
            await uow.commit()
        return link.purpose

    async def just_settled(self, token: Token) -> tuple[MailedToken, Settled] | None:
        """Returns what a link has done a moment ago, so that a form that is sent twice is no error. None when the link has done nothing."""
        return await self._just_settled(token.digest())

    async def _just_settled(self, digest: bytes) -> tuple[MailedToken, Settled] | None:
        async with self.unit_of_work() as uow:
            link = await uow.mailed_tokens.find(digest, PROVES_ADDRESS)
            account = None if link is None else (await uow.accounts.find_all([link.user])).get(link.user)
        if link is None or account is None or not link.was_just_used(self.system.clock.now()):
            return None
        proved = account.address_is_proved and account.email.key == link.email.key
        return link, Settled.PROVED if proved else Settled.REFUSED

    async def _find(self, token: Token, browser: Token | None, caller: Caller | None) -> tuple[MailedToken, AskedOnPage, bool]:
        async with self.unit_of_work() as uow:
            link = await uow.mailed_tokens.find(token.digest(), PROVES_ADDRESS)
            registration = None if link is None else await uow.account_passwords.registration(link.user)
        if link is None or not link.is_usable(self.system.clock.now()):
            raise refusal_of(link)
        signed_in = None if caller is None or caller.impersonator is not None else caller.user
        return link, asked_of(link, registration, browser, signed_in), registration is not None and registration.is_vouched

    async def _end(self, uow: UnitOfWork, one: AddedWay, link: MailedToken, actor: Actor) -> None:
        match one.kind:
            case AddedKind.PASSWORD:
                await uow.account_passwords.forget(link.user, self.system.clock.now())
                event = Event("security.password.changed", actor, Target("user", str(link.user)), details={"how": "removed_unverified"})
                await uow.record_in_every_log(event, link.user)
            case AddedKind.SECOND_FACTOR:
                await end_second_factor(uow, link.user, actor)
            case AddedKind.USER_KEY:
                pass  # All keys end together, after the sessions.
            case _:
                await end_added_way(uow, one, link.user, actor)

    async def _require_passwords(self, link: MailedToken) -> None:
        if await self.realms.requires_provider(link.email):
            raise ProviderRequired


async def _require_still(uow: UnitOfWork, link: MailedToken, checked: Checked) -> None:
    """Checks that the account still has the password that was checked. Raises `Unauthorized`. A right password does not count as a try."""
    registration = await uow.account_passwords.registration(link.user)
    if registration is None or registration.encoded != checked.encoded:
        raise Unauthorized(WRONG_PASSWORD, words="wrong_password", detail=CHANGED)
    await uow.sign_ins.give_back(checked.tries)
