"""The keys that browsers have registered for their sessions, and the challenges that they have to sign."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, IdRow
from adapters.postgres.statements import OnStatements, first, only
from core.domain.identifiers import BoundKeyId, SessionId, UserId
from core.domain.identity.browser_sessions import MOST_ACCOUNTS
from core.domain.identity.guards.bound_sessions import (
    GIVEN_AGAIN,
    REFUSALS_LOGGED,
    BindingChallenge,
    BindingChallenges,
    BoundKey,
    NewBoundKey,
)
from core.frozen import Frozen

NEW: Final = Columns(NewBoundKey, "bound_keys")


class _Person(Frozen):
    user_id: UUID


class _Session(Frozen):
    user_id: UUID
    session_id: UUID


class _Given(Frozen):
    challenge: str


def _key(
    *,
    id: UUID,  # noqa: A002 - the name of the column
    challenge: str | None,
    challenged_at: datetime | None,
    former_challenge: str | None,
    former_challenged_at: datetime | None,
    **columns: Any,
) -> BoundKey:
    challenges = BindingChallenges(_challenge(challenge, challenged_at), _challenge(former_challenge, former_challenged_at))
    return BoundKey(id=BoundKeyId(id), challenges=challenges, **columns)


def _challenge(text: str | None, at: datetime | None) -> BindingChallenge | None:
    return None if text is None or at is None else BindingChallenge(text, at)


class BoundKeyRows(OnStatements):
    """Implements `ports.identity.sessions.BoundKeyStore`."""

    async def add(self, key: NewBoundKey, session: SessionId) -> UserId | None:
        found = first(await self._statements.ask(_Person, _ADD, {**NEW.values(key), "of": session}))
        return None if found is None else UserId(found.user_id)

    async def find(self, id_: BoundKeyId, in_use: bytes | None) -> BoundKey | None:
        return first(await self._statements.ask(_key, _FIND, {"id": id_, "in_use": in_use}))

    async def use(self, id_: BoundKeyId, challenge: str) -> bool:
        return bool(await self._statements.ask(IdRow, _USE, {"id": id_, "challenge": challenge}))

    async def challenge(self, id_: BoundKeyId, text: str, at: datetime) -> str:
        parameters = {"id": id_, "text": text, "at": at, "again": at - GIVEN_AGAIN}
        return only(await self._statements.ask(_Given, _CHALLENGE, parameters)).challenge

    async def refuse(self, id_: BoundKeyId, at: datetime) -> Sequence[tuple[UserId, SessionId]]:
        parameters = {"id": id_, "at": at, "before": at - REFUSALS_LOGGED, "limit": MOST_ACCOUNTS}
        rows = await self._statements.ask(_Session, _REFUSE, parameters)
        return [(UserId(one.user_id), SessionId(one.session_id)) for one in rows]


# Limits of organizations and of idle time end a session a little later here than they do for its pages: a renewal opens nothing.
_LIVES: Final = "sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()"

# Of two registrations for one session, the second finds it bound; its key is not committed.
_ADD: Final[LiteralString] = f"""
    with living as (
             select sessions.id, sessions.user_id
               from browser_sessions
               join sessions on sessions.id = browser_sessions.session_id
              where browser_sessions.session_id = %(of)s and browser_sessions.bound_to is null and {_LIVES}
         ),
         added as (
             insert into bound_keys ({NEW.into()})
             select %(id)s, %(algorithm)s, %(public_key)s, %(created_at)s from living
                 on conflict (id) do nothing
          returning id
         )
  update browser_sessions
     set bound_to = added.id
    from added, living
   where browser_sessions.session_id = living.id and browser_sessions.bound_to is null
returning living.user_id
"""

_FIND: Final[LiteralString] = f"""
    select id, algorithm, public_key, challenge, challenged_at, former_challenge, former_challenged_at,
           exists (
               select
                 from browser_sessions
                 join sessions on sessions.id = browser_sessions.session_id
                where browser_sessions.bound_to = bound_keys.id and {_LIVES}
           ) as has_sessions,
           exists (
               select
                 from browser_sessions
                 join sessions on sessions.id = browser_sessions.session_id
                where browser_sessions.digest = %(in_use)s and browser_sessions.bound_to <> bound_keys.id and {_LIVES}
           ) as is_replaced
      from bound_keys
     where id = %(id)s
"""

_USE: Final = """
    update bound_keys
       set challenged_at = case when challenge = %(challenge)s then null else challenged_at end,
           challenge = nullif(challenge, %(challenge)s),
           former_challenge = null, former_challenged_at = null
     where id = %(id)s and (challenge = %(challenge)s or former_challenge = %(challenge)s)
 returning id
"""

_CHALLENGE: Final = """
    update bound_keys
       set former_challenge = case when challenged_at > %(again)s then former_challenge else challenge end,
           former_challenged_at = case when challenged_at > %(again)s then former_challenged_at else challenged_at end,
           challenge = case when challenged_at > %(again)s then challenge else %(text)s end,
           challenged_at = case when challenged_at > %(again)s then challenged_at else %(at)s end
     where id = %(id)s
 returning challenge
"""

_REFUSE: Final[LiteralString] = f"""
    with refused as (
             update bound_keys
                set refused_at = %(at)s
              where id = %(id)s and coalesce(refused_at <= %(before)s, true)
          returning id
         )
    select sessions.user_id, sessions.id as session_id
      from refused
      join browser_sessions on browser_sessions.bound_to = refused.id
      join sessions on sessions.id = browser_sessions.session_id
     where {_LIVES}
     order by sessions.id desc
     limit %(limit)s
"""
