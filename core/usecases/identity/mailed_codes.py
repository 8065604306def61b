"""Mailed codes: checked, and exchanged for a token that a page goes on with."""

import hmac
from typing import Final

from core.domain.email import Email
from core.domain.errors import RateLimited
from core.domain.identity.flows import Flow
from core.domain.identity.mailed_tokens import (
    MAILED_CODES,
    CodeRefused,
    MailedToken,
    MailedTokenPurpose,
    code_digest,
    exchanged_token,
    link_used,
)
from core.domain.identity.sign_in import account_key
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.rate_limits import SharedBuckets
from ports.server_secrets import ServerSecrets
from ports.unit_of_work import UnitOfWorkFactory

# The name of the key under which the codes are kept.
CODES: Final = "mailed_codes"


class MailedCodes(Frozen):
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
