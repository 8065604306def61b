"""Sends the mails with links and codes that anyone may request for an email address, and verifies the codes."""

import hmac
from collections.abc import Mapping
from typing import Final

from core.domain.branding import POSTERN
from core.domain.errors import RateLimited
from core.domain.identifiers import UserId
from core.domain.identity.account_mails import (
    CODE_DIGITS,
    CODE_LENGTH,
    MAILED_CODES,
    AccountMail,
    AskedMail,
    CodeRefused,
    Links,
    MailedToken,
    MailedTokenPurpose,
    MailWaits,
    code_digest,
    exchanged_token,
    link_used,
    mailed_token,
)
from core.domain.identity.accounts import ACCOUNT_MAILS
from core.domain.identity.flows import Flow
from core.domain.identity.registering import AskedFrom, comes_from_reserve_alone
from core.domain.identity.sign_in import account_key, service_named
from core.domain.mail import Email
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.registering import MailBudgets
from ports.crypto import ServerSecrets
from ports.mail import MailTemplates
from ports.system import Clock, SharedBuckets, System
from ports.texts import Brandings
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key under which the codes are kept.
CODES: Final = "mailed_codes"


class MailedCodes(Frozen):
    """Verifies mailed codes, and exchanges each for a token with which the page continues."""

    unit_of_work: UnitOfWorkFactory
    buckets: SharedBuckets
    server_secrets: ServerSecrets
    clock: Clock

    async def check(self, flow: Flow, email: Email, purpose: MailedTokenPurpose, code: Secret) -> MailedToken:
        """Returns the link that was mailed with this code, which this flow asked for. The link may have been used a moment ago, perhaps by
        the same form. A wrong code causes the same work for every address. A try stays counted whatever follows. Raises `RateLimited`, and
        `CodeRefused`.
        """
        wait = await self.buckets.take(MAILED_CODES, account_key(email))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=MAILED_CODES.name)
        key = await self.server_secrets.get(CODES)
        async with self.unit_of_work() as uow:
            tried = await uow.mailed_tokens.try_codes(flow.id, purpose, self.clock.now())
            await uow.commit()
        for link in tried:
            if hmac.compare_digest(link.code_digest or b"", code_digest(code, link.digest, flow.id, email, key)):
                return link
        raise CodeRefused

    async def exchange(self, link: MailedToken, code: Secret, browser: Token) -> Token:
        """Uses up a link whose code was right. Returns another token in its place, for the same work and until the same time. The same
        form, sent twice, gets the same token twice. Raises `LinkRefused`.
        """
        token = exchanged_token(code, link.digest, browser, await self.server_secrets.get(CODES))
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(link.user)
            now = self.clock.now()
            if await uow.mailed_tokens.redeem(link.digest, {link.purpose}, now) is not None:
                await uow.mailed_tokens.issue(replace(link, digest=token.digest(), used_at=None, flow=None, code_digest=None))
                await uow.commit()
                return token
            found = await uow.mailed_tokens.find(token.digest(), {link.purpose})
        if found is None or not found.is_usable(now):
            raise link_used()
        return token


class AccountMails(Frozen):
    """Looks up the account with the requested email address, and sends the mail if the account may receive it.

    The work is the same for every address up to the commit: response times do not reveal which addresses have accounts.
    """

    unit_of_work: UnitOfWorkFactory
    brandings: Brandings
    templates: MailTemplates
    links: Links
    realms: HomeRealms
    buckets: SharedBuckets
    system: System
    server_secrets: ServerSecrets
    budgets: MailBudgets

    async def send(self, asked: AskedMail) -> bool:
        """Issues a link, with a code for the browser that asked, and queues their mail, in one transaction. Returns False when nobody gets
        a mail: there is no account, the account may not have this mail, people of its domain sign in at a provider, or the address has had
        too many mails of this kind. A second call mails again, and only the last link works. Raises `MailWaits` for a mail that a budget
        holds back, for known and unknown addresses alike: whoever measures how long the queue is learns nothing.
        """
        kind, email, organization = asked.kind, asked.email, asked.organization
        async with self.unit_of_work() as uow:
            account = await uow.accounts.find(email)
            # Without an account the id belongs to nobody, and the statements have no effect.
            user = UserId(self.system.ids.new()) if account is None else account.id
            onward = await self._onward(uow, asked)
            permitted = kind is not AccountMail.SIGN_IN_LINK or await uow.sign_in_links.are_permitted(user)
        # The answer depends on the domain alone, so the question is the same for every address of the domain.
        signs_in = kind is AccountMail.SIGN_IN_LINK
        if kind.opens_a_way_of_ours and await self.realms.closes_links(email, account, signs_in=signs_in):
            permitted = False
        is_due = account is not None and permitted and kind.is_due(account, asked.asked_at)
        if not await self._has_turn(asked, known=is_due) or await self.buckets.take(ACCOUNT_MAILS, f"{kind}:{account_key(email)}") > 0:
            return False
        lent = await self.brandings.find_for(organization, user) if organization else None
        address, language = email, asked.language
        if account is not None and is_due:
            address, language = account.email, account.language or language
        else:
            user = UserId(self.system.ids.new())
        token = self.system.secrets.mailed_token()
        # To the address on record, whose spelling may differ from the one in the request.
        link = self.links.redeeming(kind.purpose, token, onward)
        issued = mailed_token(token, kind.purpose, user, address, self.system.clock.now())
        issued, code = await self._with_code(issued, asked)
        mail = self.templates.mail(
            kind.value,
            address.address,
            account=user,
            language=language,
            branding=POSTERN if lent is None else lent.branding,
            # Whoever registers an address of somebody else may have ties to an organization, too.
            carries_own_texts=lent is not None and lent.is_own and account is not None and account.address_is_proved,
            link=link,
            code=code,
        )
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            await uow.mailed_tokens.issue(issued, asked.asked_at)
            await uow.jobs.add(replace(mail.as_job(), only_for=user, priority=asked.priority))
            await uow.commit()
        return is_due

    async def _has_turn(self, asked: AskedMail, *, known: bool) -> bool:
        """Whether the mail may go out, now or, with `MailWaits`, later. The answer is no when a stranger has used up a whole day of its
        domain, and the reserve is empty, too.
        """
        waits = asked.waits
        if waits is None or waits.until <= self.system.clock.now():
            return True
        if await self.budgets.take_from_reserve(AskedFrom(waits.network, asked.email, asked.organization), known=known):
            return True
        if asked.asked_at is not None and comes_from_reserve_alone(waits.until, asked.asked_at):
            return False
        raise MailWaits(waits.until)

    async def _with_code(self, link: MailedToken, asked: AskedMail) -> tuple[MailedToken, str]:
        """Returns the link with the code beside it, and the code's digits. Without a browser that asked there is no code."""
        flow = asked.onward.asking
        if flow is None:
            return link, ""
        code: Secret = self.system.secrets.letters(CODE_DIGITS, CODE_LENGTH)
        digest = code_digest(code, link.digest, flow, asked.email, await self.server_secrets.get(CODES))
        return replace(link, flow=flow, code_digest=digest), code.reveal()

    @staticmethod
    async def _onward(uow: UnitOfWork, asked: AskedMail) -> Mapping[str, str]:
        """Returns the parameters that the link carries besides its token."""
        onward = asked.onward
        if onward.flow:
            return {"flow": onward.flow}
        service = service_named(asked.organization, onward.service)
        found = None if service is None else await uow.sign_in_links.application(service, onward.redirect_uri)
        if found is None:
            return {}
        client, redirect_uri = found
        return {"client_id": client, "redirect_uri": redirect_uri, "state": onward.state}
