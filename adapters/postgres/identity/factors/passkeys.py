"""Passkeys in PostgreSQL, and the challenges that passkeys answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.factors.devices import FIRST_KNOWLEDGE, knowledge_of, knowledge_parameters
from adapters.postgres.identity.factors.mfa import has_second_factor
from adapters.postgres.identity.sessions.liveness import SESSION_LIVES
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.passkeys import MOST_PASSKEYS, Passkey
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.vouching import Voucher
from core.domain.languages import Language
from core.frozen import Frozen
from ports.identity.passkeys import HeldPasskey, TakenChallenge


class _Passkey(Frozen, kw_only=True):
    id: UUID
    user_id: UUID
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    aaguid: UUID
    transports: list[str]
    backup_eligible: bool
    backed_up: bool
    created_at: datetime
    last_used_at: datetime | None
    second_factor_since: datetime | None
    user_handle: bytes | None
    awaits_first_use: bool

    def passkey(self) -> Passkey:
        return Passkey(
            id=PasskeyId(self.id),
            user=UserId(self.user_id),
            credential_id=self.credential_id,
            public_key=self.public_key,
            sign_count=self.sign_count,
            name=self.name,
            aaguid=self.aaguid,
            transports=tuple(self.transports),
            backup_eligible=self.backup_eligible,
            backed_up=self.backed_up,
            created_at=self.created_at,
            last_used_at=self.last_used_at,
            second_factor_since=self.second_factor_since,
            user_handle=self.user_handle,
            awaits_first_use=self.awaits_first_use,
        )


class _Held(_Passkey, kw_only=True):
    ends_second_factor: bool


class _Taken:
    """The columns of a passkey and of its account; all of them are null if no such passkey exists."""

    def __init__(
        self,
        *,
        is_fresh: bool,
        account_id: UUID | None,
        email: str | None,
        password_hash: str | None,
        is_platform_owner: bool | None,
        email_verified_at: datetime | None,
        deactivated_at: datetime | None,
        registered_at: datetime | None,
        language: str | None,
        address_vouched_by: str | None,
        mfa_enabled: bool,
        knowledge: dict[str, Any],
        **columns: Any,
    ) -> None:
        if account_id is None or email is None or registered_at is None:
            self.taken = TakenChallenge(is_fresh, None, None)
            return
        account = Account(
            UserId(account_id),
            Email(email),
            is_platform_owner=is_platform_owner or False,
            email_verified_at=email_verified_at,
            deactivated_at=deactivated_at,
            created_at=registered_at,
            language=Language.of(language),
            address_vouched_by=Voucher.of(address_vouched_by),
        )
        named = NamedAccount(account, password_hash, mfa_enabled, knowledge_of(knowledge))
        self.taken = TakenChallenge(is_fresh, _Passkey(**columns).passkey(), named)


class PasskeyRows:
    """Implements `ports.identity.passkeys.PasskeyStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, user: UserId) -> Sequence[Passkey]:
        return [row.passkey() for row in await self._statements.ask(_Passkey, _LIST, {"user": user})]

    async def get(self, user: UserId, passkey: PasskeyId) -> Passkey | None:
        rows = await self._statements.ask(_Passkey, _GET, {"user": user, "id": passkey})
        return rows[0].passkey() if rows else None

    async def take(self, challenge_digest: bytes, credential_id: bytes, approach: Approach) -> TakenChallenge | None:
        parameters = {"challenge": challenge_digest, "credential": credential_id, **knowledge_parameters(approach)}
        rows = await self._statements.ask(_Taken, _TAKE[approach.client.device_token is not None], parameters)
        return rows[0].taken if rows else None

    async def add_challenge(self, digest: bytes, expires_at: datetime) -> None:
        await self._statements.tell(_ADD_CHALLENGE, {"digest": digest, "expires_at": expires_at})

    async def end_challenge(self, digest: bytes) -> None:
        await self._statements.tell(_END_CHALLENGE, {"digest": digest})

    async def add(self, passkey: Passkey, challenge_digest: bytes, session: SessionId) -> bool:
        parameters = {
            "challenge": challenge_digest,
            "session": session,
            "most": MOST_PASSKEYS,
            "id": passkey.id,
            "user": passkey.user,
            "credential_id": passkey.credential_id,
            "public_key": passkey.public_key,
            "sign_count": passkey.sign_count,
            "name": passkey.name,
            "aaguid": passkey.aaguid,
            "transports": list(passkey.transports),
            "backup_eligible": passkey.backup_eligible,
            "backed_up": passkey.backed_up,
            "created_at": passkey.created_at,
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def count(self, user: UserId) -> int:
        (row,) = await self._statements.ask(CountRow, _COUNT, {"user": user})
        return row.count

    async def rename(self, user: UserId, passkey: PasskeyId, name: str) -> Passkey | None:
        rows = await self._statements.ask(_Passkey, _RENAME, {"user": user, "id": passkey, "name": name})
        return rows[0].passkey() if rows else None

    async def find_held(self, user: UserId, passkey: PasskeyId) -> HeldPasskey | None:
        rows = await self._statements.ask(_Held, _FIND_HELD, {"user": user, "id": passkey})
        return HeldPasskey(rows[0].passkey(), rows[0].ends_second_factor) if rows else None

    async def remove(self, user: UserId, passkey: PasskeyId) -> None:
        await self._statements.tell(_REMOVE, {"user": user, "id": passkey})

    async def remove_all(self, user: UserId) -> None:
        await self._statements.tell(_REMOVE_ALL, {"user": user})

    async def use(self, passkey: Passkey, sign_count: int, *, backed_up: bool, at: datetime) -> bool:
        parameters = {
            "id": passkey.id,
            "user": passkey.user,
            "sign_count": sign_count,
            "backup_eligible": passkey.backup_eligible,
            "backed_up": backed_up,
            "at": at,
        }
        return bool(await self._statements.ask(IdRow, _USE, parameters))

    async def become_second_factor(self, user: UserId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _BECOME_SECOND_FACTOR, {"user": user, "at": at}))


_COLUMNS: Final = """
           passkeys.id, passkeys.user_id, passkeys.credential_id, passkeys.public_key, passkeys.sign_count, passkeys.name,
           passkeys.aaguid, passkeys.transports, passkeys.backup_eligible, passkeys.backed_up, passkeys.created_at,
           passkeys.last_used_at, passkeys.second_factor_since, passkeys.user_handle, passkeys.awaits_first_use"""

_LIST: Final[LiteralString] = f"select {_COLUMNS} from passkeys where user_id = %(user)s order by id"

_GET: Final[LiteralString] = f"select {_COLUMNS} from passkeys where id = %(id)s and user_id = %(user)s"


def _take(*, with_token: bool) -> LiteralString:
    """The statement for a request with, or without, a device token."""
    return f"""
    with taken as (
             delete from passkey_challenges where digest = %(challenge)s returning expires_at
         )
  select taken.expires_at > now() as is_fresh, {_COLUMNS},
         users.id as account_id, users.email, users.password_hash, users.is_platform_owner, users.email_verified_at,
         users.deactivated_at, users.created_at as registered_at, users.language, users.address_vouched_by,
         {has_second_factor("users.id")} as mfa_enabled,
         {FIRST_KNOWLEDGE[with_token]} as knowledge
    from taken
    left join passkeys on passkeys.credential_id = %(credential)s
    left join users on users.id = passkeys.user_id
"""


_TAKE: Final = {with_token: _take(with_token=with_token) for with_token in (False, True)}

_ADD_CHALLENGE: Final = "insert into passkey_challenges (digest, expires_at) values (%(digest)s, %(expires_at)s)"

_END_CHALLENGE: Final = "delete from passkey_challenges where digest = %(digest)s"

_ADD: Final[LiteralString] = f"""
    with taken as (
             delete from passkey_challenges where digest = %(challenge)s returning expires_at
         )
  insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,
                        created_at, second_factor_since, made_in)
  select %(id)s, %(user)s, %(credential_id)s, %(public_key)s, %(sign_count)s, %(name)s, %(aaguid)s, %(transports)s,
         %(backup_eligible)s, %(backed_up)s, %(created_at)s,
         (select min(second_factor_since) from passkeys where user_id = %(user)s), %(session)s
    from taken
   where taken.expires_at > now() and (select count(*) from passkeys where user_id = %(user)s) < %(most)s
     and {SESSION_LIVES}
      on conflict (credential_id) do nothing
returning id
"""

_COUNT: Final = "select count(*) as count from passkeys where user_id = %(user)s"

_RENAME: Final[LiteralString] = f"""
    with before as (
             select {_COLUMNS} from passkeys where id = %(id)s and user_id = %(user)s for no key update
         ),
         renamed as (
             update passkeys set name = %(name)s from before where passkeys.id = before.id
         )
  select * from before
"""

_FIND_HELD: Final[LiteralString] = f"""
    select {_COLUMNS},
           passkeys.second_factor_since is not null
       and not exists (select from mfa_secrets where mfa_secrets.user_id = %(user)s and mfa_secrets.enabled_at is not null)
       and not exists (
               select from passkeys as other
                where other.user_id = %(user)s and other.id <> passkeys.id and other.second_factor_since is not null
           ) as ends_second_factor
      from passkeys
     where id = %(id)s and user_id = %(user)s
"""

_REMOVE: Final = "delete from passkeys where id = %(id)s and user_id = %(user)s"

_REMOVE_ALL: Final = """
    with gone as (
             delete from passkeys where user_id = %(user)s returning second_factor_since
         )
  delete from backup_codes
   where user_id = %(user)s and exists (select from gone where second_factor_since is not null)
     and not exists (select from mfa_secrets where mfa_secrets.user_id = %(user)s and mfa_secrets.enabled_at is not null)
"""

# Many authenticators do not count signatures: their counter stays 0.
_USE: Final = """
    update passkeys
       set sign_count = %(sign_count)s, backup_eligible = %(backup_eligible)s, backed_up = %(backed_up)s, last_used_at = %(at)s,
           awaits_first_use = false
     where id = %(id)s and user_id = %(user)s and (awaits_first_use or backup_eligible = %(backup_eligible)s)
       and (sign_count < %(sign_count)s or (sign_count = 0 and %(sign_count)s = 0))
 returning id
"""

# The statement locks the secret of the authenticator app. A request that turns an app on locks the secret, too, and then looks for
# passkeys. So of two such requests at once, the second sees what the first has done.
_BECOME_SECOND_FACTOR: Final = """
    with secret as materialized (
             select enabled_at from mfa_secrets where user_id = %(user)s for update
         )
  update passkeys
     set second_factor_since = %(at)s
   where user_id = %(user)s and second_factor_since is null and not exists (select from secret where enabled_at is not null)
 returning id
"""
