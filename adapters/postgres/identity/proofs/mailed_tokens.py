"""Mailed tokens, by the digests of the secrets in the links, and whom a mailed sign-in link is for and where it leads."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.columns import Columns, storable_text
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.sessions.parts import AUTHENTICATES
from adapters.postgres.statements import OnTransaction, first, first_made, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.identifiers import ClientId, FlowId, SessionId, UserId
from core.domain.identity.account_mails import MOST_CODE_TRIES, MailedToken, MailedTokenPurpose
from core.domain.identity.sign_in import ServiceName
from core.domain.requests import REPEAT_MOMENT
from core.frozen import Frozen

MAILED_TOKEN: Final = Columns(MailedToken, "mailed_tokens", named={"user": "user_id"}, apart=("flow", "code_digest"))


class MailedTokenRows(OnTransaction):
    """Implements `ports.identity.sign_in.MailedTokenStore` in one transaction."""

    async def issue(self, token: MailedToken, asked_at: datetime | None = None) -> None:
        await self.end(token.user, token.purpose, token.created_at)
        await self._transaction.tell(
            _ADD,
            {
                **MAILED_TOKEN.values(token),
                "flow": token.flow,
                "code_digest": token.code_digest,
                "asked_at": asked_at,
            },
        )

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        return first(await self._transaction.ask(MAILED_TOKEN.row, _FIND, {"digest": digest, "purposes": _texts(purposes)}))

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        return first(await self._transaction.ask(MAILED_TOKEN.row, _REDEEM, {"digest": digest, "purposes": _texts(purposes), "at": at}))

    async def try_codes(self, flow: FlowId, purpose: MailedTokenPurpose, at: datetime) -> Sequence[MailedToken]:
        values = {"flow": flow, "purpose": purpose.value, "at": at, "just_past": at - REPEAT_MOMENT, "most": MOST_CODE_TRIES}
        return await self._transaction.ask(MAILED_TOKEN.row, _TRY_CODES, values)

    async def try_proof(self, session: SessionId, user: UserId, at: datetime) -> MailedToken | None:
        values = {"session": session, "user": user, "purpose": MailedTokenPurpose.PROVE.value, "at": at, "most": MOST_CODE_TRIES}
        return first(await self._transaction.ask(MAILED_TOKEN.row, _TRY_PROOF, values))

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

_FIND: Final[LiteralString] = f"""
    select {MAILED_TOKEN.names}
      from mailed_tokens
     where digest = %(digest)s and purpose = any(%(purposes)s)
"""

# Of two requests that redeem the same token at once, the second waits for the first's commit, looks again, and finds the token used.
_REDEEM: Final[LiteralString] = f"""
    update mailed_tokens
       set used_at = %(at)s
     where digest = %(digest)s and purpose = any(%(purposes)s) and used_at is null and expires_at > %(at)s
 returning {MAILED_TOKEN.names}
"""

# The flow is written, although nothing in it changes: otherwise the commit would have nothing to write for an address without an account,
# and would be quicker. The flow's lock also comes before the link's, as in a sign-in. Of two tries at once, the second waits for the
# first's commit, and counts from there.
_TRY_CODES: Final[LiteralString] = f"""
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
 returning {MAILED_TOKEN.names}, mailed_tokens.flow_id as flow, mailed_tokens.code_digest
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
 returning {MAILED_TOKEN.names}, mailed_tokens.flow_id as flow, mailed_tokens.code_digest
"""

_END_ALL: Final = """
    update mailed_tokens
       set used_at = %(at)s
     where user_id = %(user)s and used_at is null
"""


class _Application(Frozen):
    client_id: str
    redirect_uri: str


class SignInLinkRows(OnTransaction):
    """Implements `ports.identity.sign_in.SignInLinkStore` in one transaction."""

    async def are_permitted(self, user: UserId) -> bool:
        return only(await self._transaction.ask_in_order(bool, _ARE_PERMITTED, {"user": user}))

    async def application(self, service: ServiceName, redirect_uri: str) -> tuple[ClientId, str] | None:
        parameters = {
            "organization": storable_text(service.organization),
            "service": storable_text(service.service),
            "redirect_uri": storable_text(redirect_uri),
        }
        return first_made(
            await self._transaction.ask(_Application, _APPLICATION, parameters), lambda row: (ClientId(row.client_id), row.redirect_uri)
        )


_ARE_PERMITTED: Final[LiteralString] = f"""
    select not exists (
               select from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP}
                  and organizations.status = 'active' and not organizations.sign_in_links
           ) as permitted
"""

_APPLICATION: Final[LiteralString] = f"""
    select services.oauth_client_id as client_id, named.redirect_uri
      from organizations
      join services on services.org_id = organizations.id
     cross join lateral (select coalesce(nullif(%(redirect_uri)s, ''), services.redirect_uris[1]) as redirect_uri) as named
     where organizations.slug = %(organization)s and organizations.status = 'active'
       and services.slug = %(service)s and services.service_type in ('web', 'api')
       and named.redirect_uri = any (services.redirect_uris)
       and {AUTHENTICATES}
"""
