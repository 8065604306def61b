"""Passkeys in PostgreSQL, and the challenges that passkeys answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns, CountRow, IdRow
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.factors.mfa import FIRST_KNOWLEDGE, has_second_factor, knowledge_of, knowledge_parameters
from adapters.postgres.identity.proofs.sign_in import KNOWN_TO_APPLICATION, application_parameters
from adapters.postgres.identity.sessions.parts import SESSION_LIVES
from adapters.postgres.statements import OnStatements, first, only
from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.passkeys import MOST_PASSKEYS, Passkey
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount
from ports.identity.sign_in import HeldPasskey, TakenChallenge

PASSKEY: Final = Columns(Passkey, "passkeys", named={"user": "user_id"}, prefix="passkey_")


def _held(*, ends_second_factor: bool, **passkey: Any) -> HeldPasskey:
    return HeldPasskey(PASSKEY.row(**passkey), ends_second_factor)


def _taken(
    *,
    is_fresh: bool,
    password_hash: str | None,
    mfa_enabled: bool,
    knowledge: dict[str, Any],
    may_know_of_failures: bool = False,
    **columns: Any,
) -> TakenChallenge:
    passkey = PASSKEY.taken_or_none(columns)
    if passkey is None:
        return TakenChallenge(is_fresh, None, None)
    named = NamedAccount(ACCOUNT.row(**columns), password_hash, mfa_enabled, knowledge_of(knowledge), may_know_of_failures)
    return TakenChallenge(is_fresh, passkey, named)


class PasskeyRows(OnStatements):
    """Implements `ports.identity.sign_in.PasskeyStore`."""

    async def list(self, user: UserId) -> Sequence[Passkey]:
        return await self._statements.ask(PASSKEY.row, _LIST, {"user": user})

    async def find(self, user: UserId, passkey: PasskeyId) -> Passkey | None:
        return first(await self._statements.ask(PASSKEY.row, _GET, {"user": user, "id": passkey}))

    async def take(
        self, challenge_digest: bytes, credential_id: bytes, approach: Approach, *, application: Context = PLATFORM
    ) -> TakenChallenge | None:
        parameters = {
            "challenge": challenge_digest,
            "credential": credential_id,
            **knowledge_parameters(approach),
            **application_parameters(application),
        }
        statement = _TAKE[approach.client.device_token is not None, application.service is not None]
        return first(await self._statements.ask(_taken, statement, parameters))

    async def add_challenge(self, digest: bytes, expires_at: datetime) -> None:
        await self._statements.tell(_ADD_CHALLENGE, {"digest": digest, "expires_at": expires_at})

    async def end_challenge(self, digest: bytes) -> None:
        await self._statements.tell(_END_CHALLENGE, {"digest": digest})

    async def add(self, passkey: Passkey, challenge_digest: bytes, session: SessionId) -> bool:
        parameters = {
            "challenge": challenge_digest,
            "session": session,
            "most": MOST_PASSKEYS,
            **PASSKEY.values(passkey),
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def count(self, user: UserId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"user": user})).count

    async def rename(self, user: UserId, passkey: PasskeyId, name: str) -> Passkey | None:
        return first(await self._statements.ask(PASSKEY.row, _RENAME, {"user": user, "id": passkey, "name": name}))

    async def find_for_update(self, user: UserId, passkey: PasskeyId) -> HeldPasskey | None:
        return first(await self._statements.ask(_held, _FIND_HELD, {"user": user, "id": passkey}))

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


_LIST: Final[LiteralString] = f"select {PASSKEY.names} from passkeys where user_id = %(user)s order by id"

_GET: Final[LiteralString] = f"select {PASSKEY.names} from passkeys where id = %(id)s and user_id = %(user)s"


def _take(*, with_token: bool, for_application: bool) -> LiteralString:
    """The statement for a request with, or without, a device token, in a flow that leads to an application, or in none."""
    return f"""
    with taken as (
             delete from passkey_challenges where digest = %(challenge)s returning expires_at
         )
  select taken.expires_at > now() as is_fresh, {PASSKEY.names},
         {ACCOUNT.names}, users.password_hash,
         {has_second_factor("users.id")} as mfa_enabled,
         {FIRST_KNOWLEDGE[with_token]} as knowledge
         {KNOWN_TO_APPLICATION if for_application else ""}
    from taken
    left join passkeys on passkeys.credential_id = %(credential)s
    left join users on users.id = passkeys.user_id
"""


_TAKE: Final = {
    (with_token, for_application): _take(with_token=with_token, for_application=for_application)
    for with_token in (False, True)
    for for_application in (False, True)
}

_ADD_CHALLENGE: Final = "insert into passkey_challenges (digest, expires_at) values (%(digest)s, %(expires_at)s)"

_END_CHALLENGE: Final = "delete from passkey_challenges where digest = %(digest)s"

_ADD: Final[LiteralString] = f"""
    with taken as (
             delete from passkey_challenges where digest = %(challenge)s returning expires_at
         )
  insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,
                        created_at, second_factor_since, made_in, made_on)
  select %(id)s, %(user)s, %(credential_id)s, %(public_key)s, %(sign_count)s, %(name)s, %(aaguid)s, %(transports)s,
         %(backup_eligible)s, %(backed_up)s, %(created_at)s,
         (select min(second_factor_since) from passkeys where user_id = %(user)s), %(session)s, %(made_on)s
    from taken
   where taken.expires_at > now() and (select count(*) from passkeys where user_id = %(user)s) < %(most)s
     and {SESSION_LIVES}
      on conflict (credential_id) do nothing
returning id
"""

_COUNT: Final = "select count(*) as count from passkeys where user_id = %(user)s"

_RENAME: Final[LiteralString] = f"""
    with before as (
             select {PASSKEY.names} from passkeys where id = %(id)s and user_id = %(user)s for no key update
         ),
         renamed as (
             update passkeys set name = %(name)s from before where passkeys.id = before.passkey_id
         )
  select * from before
"""

_FIND_HELD: Final[LiteralString] = f"""
    select {PASSKEY.names},
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
