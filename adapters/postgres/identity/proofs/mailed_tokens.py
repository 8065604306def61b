"""Mailed tokens in PostgreSQL, by the digests of the secrets in the links."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import FlowId, SessionId, UserId
from core.domain.identity.mailed_tokens import MOST_CODE_TRIES, MailedToken, MailedTokenPurpose
from core.domain.repeats import MOMENT
from core.frozen import Frozen, replace


class _Token(Frozen):
    digest: bytes
    purpose: str
    user_id: UUID
    email: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None

    def token(self) -> MailedToken:
        return MailedToken(
            self.digest,
            MailedTokenPurpose(self.purpose),
            UserId(self.user_id),
            Email(self.email),
            self.created_at,
            self.expires_at,
            self.used_at,
        )


class _TriedCode(_Token):
    flow_id: UUID
    code_digest: bytes

    def token(self) -> MailedToken:
        return replace(super().token(), flow=FlowId(self.flow_id), code_digest=self.code_digest)


class MailedTokenRows:
    """Implements `ports.identity.mailed_tokens.MailedTokenStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def issue(self, token: MailedToken, asked_at: datetime | None = None) -> None:
        await self.end(token.user, token.purpose, token.created_at)
        await self._transaction.tell(
            _ADD,
            {
                "digest": token.digest,
                "purpose": token.purpose.value,
                "user": token.user,
                "email": token.email.address,
                "created_at": token.created_at,
                "expires_at": token.expires_at,
                "flow": token.flow,
                "code_digest": token.code_digest,
                "asked_at": asked_at,
            },
        )

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        rows = await self._transaction.ask(_Token, _FIND, {"digest": digest, "purposes": _texts(purposes)})
        return rows[0].token() if rows else None

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        rows = await self._transaction.ask(_Token, _REDEEM, {"digest": digest, "purposes": _texts(purposes), "at": at})
        return rows[0].token() if rows else None

    async def try_codes(self, flow: FlowId, purpose: MailedTokenPurpose, at: datetime) -> Sequence[MailedToken]:
        values = {"flow": flow, "purpose": purpose.value, "at": at, "just_past": at - MOMENT, "most": MOST_CODE_TRIES}
        return [row.token() for row in await self._transaction.ask(_TriedCode, _TRY_CODES, values)]

    async def try_proof(self, session: SessionId, user: UserId, at: datetime) -> MailedToken | None:
        values = {"session": session, "user": user, "purpose": MailedTokenPurpose.PROVE.value, "at": at, "most": MOST_CODE_TRIES}
        rows = await self._transaction.ask(_TriedCode, _TRY_PROOF, values)
        return rows[0].token() if rows else None

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        await self._transaction.tell(_END, {"user": user, "purpose": purpose.value, "at": at})

    async def end_all(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_END_ALL, {"user": user, "at": at})


def _texts(purposes: Collection[MailedTokenPurpose]) -> list[str]:
    return sorted(purpose.value for purpose in purposes)


_END: Final = """
    update mailed_tokens
       set used_at = %(at)s
     where user_id = %(user)s and purpose = %(purpose)s and used_at is null
"""

_ADD: Final = """
    insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at, flow_id, code_digest)
    select %(digest)s, %(purpose)s, users.id, %(email)s, %(created_at)s, %(expires_at)s, %(flow)s, %(code_digest)s
      from users
     where users.id = %(user)s and (users.deactivated_at is null or users.deactivated_at < %(asked_at)s)
"""

_FIND: Final = """
    select digest, purpose, user_id, email, created_at, expires_at, used_at
      from mailed_tokens
     where digest = %(digest)s and purpose = any(%(purposes)s)
"""

# Of two requests that redeem the same token at once, the second waits for the first's commit, looks again, and finds the token used.
_REDEEM: Final = """
    update mailed_tokens
       set used_at = %(at)s
     where digest = %(digest)s and purpose = any(%(purposes)s) and used_at is null and expires_at > %(at)s
 returning digest, purpose, user_id, email, created_at, expires_at, used_at
"""

# The flow is written, although nothing in it changes: otherwise the commit would have nothing to write for an address without an account,
# and would be quicker. The flow's lock also comes before the link's, as in a sign-in. Of two tries at once, the second waits for the
# first's commit, and counts from there.
_TRY_CODES: Final = """
    with asking as (
        update flows
           set email = email
         where id = %(flow)s
     returning id
    )
    update mailed_tokens
       set code_tries = code_tries + 1
      from asking
     where mailed_tokens.flow_id = asking.id and mailed_tokens.purpose = %(purpose)s and mailed_tokens.code_digest is not null
       and mailed_tokens.code_tries < %(most)s and mailed_tokens.expires_at > %(at)s
       and (mailed_tokens.used_at is null or mailed_tokens.used_at > %(just_past)s)
 returning mailed_tokens.digest, mailed_tokens.purpose, mailed_tokens.user_id, mailed_tokens.email, mailed_tokens.created_at,
           mailed_tokens.expires_at, mailed_tokens.used_at, mailed_tokens.flow_id, mailed_tokens.code_digest
"""

# The account's address may have changed since the mail. Of two tries at once, the second waits for the first's commit, and counts from
# there.
_TRY_PROOF: Final[LiteralString] = f"""
    update mailed_tokens
       set code_tries = code_tries + 1
      from users
     where mailed_tokens.flow_id = %(session)s and mailed_tokens.user_id = %(user)s and mailed_tokens.purpose = %(purpose)s
       and mailed_tokens.used_at is null and mailed_tokens.code_tries < %(most)s and mailed_tokens.expires_at > %(at)s
       and users.id = mailed_tokens.user_id and users.email = mailed_tokens.email and {is_proved()}
       and users.deactivated_at is null
 returning mailed_tokens.digest, mailed_tokens.purpose, mailed_tokens.user_id, mailed_tokens.email, mailed_tokens.created_at,
           mailed_tokens.expires_at, mailed_tokens.used_at, mailed_tokens.flow_id, mailed_tokens.code_digest
"""

_END_ALL: Final = """
    update mailed_tokens
       set used_at = %(at)s
     where user_id = %(user)s and used_at is null
"""
