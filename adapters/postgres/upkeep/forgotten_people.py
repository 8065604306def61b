"""Removes what is still kept in PostgreSQL about people who were forgotten."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

import trio

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.privacy.forgetting import CREDENTIALS, PARTS
from adapters.postgres.jobs import SealedJobs
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask, only, tell
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.identity.privacy import FORGET_JOB
from core.domain.mail import MAIL_JOB, Email, named_account
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.database import Swept

_BEFORE_ALL: Final = UUID(int=0)
_CREDENTIALS: Final = "credentials"
_MAILS: Final = "mails"
_KINDS: Final = (MAIL_JOB, ORGANIZATION_MAIL_JOB, ACCOUNT_MAIL_JOB)


class _BeingForgotten(Frozen):
    user_id: UUID
    email_keys: list[str]
    requested_at: datetime
    former_keys: list[str]
    held_until: list[datetime]

    def addresses(self) -> Mapping[str | None, datetime]:
        """Each address with the moment until which it was the person's. Since that moment somebody else may have the address."""
        return {**dict(zip(self.former_keys, self.held_until, strict=True)), **dict.fromkeys(self.email_keys, self.requested_at)}


class PostgresForgottenPeople:
    """Implements `ports.database.DeletedRows`. The owner is the request. Each batch is done again if it is undone by a crash."""

    parts: Sequence[str] = (_CREDENTIALS, *PARTS, _MAILS)

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._mails = SealedJobs(pool, keyring)

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        found = await ask(self._pool, _BeingForgotten, _OPEN, {"request": owner})
        if not found:
            return Swept(None, 0)
        (going,) = found
        parameters = {
            "user": going.user_id,
            "target": str(going.user_id),
            "keys": going.email_keys,
            "until": going.requested_at,
            "after": after or _BEFORE_ALL,
            "limit": limit,
        }
        if part == _CREDENTIALS:
            # This repeats what the request did, for other requests that were under way then. There are few rows, so one batch is enough.
            for statement in CREDENTIALS:
                await tell(self._pool, statement, parameters)
            return Swept(None, 0)
        if part == _MAILS:
            return await self._sweep_mails(going, after or _BEFORE_ALL, limit)
        return only(await ask(self._pool, Swept, PARTS[part], parameters))

    async def finish(self, owner: UUID) -> bool:
        return bool(await ask(self._pool, IdRow, _FINISH, {"request": owner}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        return [row.id for row in await ask(self._pool, IdRow, _STRANDED, {"kind": FORGET_JOB, "patience": patience, "limit": limit})]

    async def _sweep_mails(self, going: _BeingForgotten, after: UUID, limit: int) -> Swept:
        """Deletes mails that wait or were given up: mails to the person, and mails for the account whose address nobody may have proved.
        Only the key ring can tell which mails these are.
        """
        jobs = await self._mails.next(_KINDS, after, limit)
        queued_at, theirs = {job.id: job.created_at for job in jobs}, going.addresses()

        def is_theirs(job: UUID, payload: Mapping[str, Any]) -> bool:
            until = theirs.get(_addressee(payload))
            return named_account(payload) == going.user_id or (until is not None and queued_at[job] <= until)

        def to_person() -> list[UUID]:
            return [job for job, payload in self._mails.opened(jobs) if is_theirs(job, payload)]

        # Opening hundreds of payloads takes longer than other tasks should have to wait, so a thread opens them.
        mails = await trio.to_thread.run_sync(to_person)
        gone = await self._mails.delete(mails) if mails else 0
        return Swept(jobs[-1].id if jobs else None, gone)


def _addressee(payload: Mapping[str, Any]) -> str | None:
    """The recipient of a mail, or of a job that makes a mail."""
    address = payload.get("to", payload.get("email"))
    return Email(address).key if isinstance(address, str) else None


_OPEN: Final = """
    select user_id, email_keys, requested_at,
           array(select email_key from former_addresses where user_id = privacy_requests.user_id order by email_key) as former_keys,
           array(select held_until from former_addresses where user_id = privacy_requests.user_id order by email_key) as held_until
      from privacy_requests
     where id = %(request)s and completed_at is null
"""

_FINISH: Final = """
    with done as (
             update privacy_requests
                set completed_at = now(), email_keys = '{}'
              where id = %(request)s and completed_at is null
          returning id, user_id
         ),
         former as (
             delete from former_addresses using done where former_addresses.user_id = done.user_id
         )
    select id from done
"""

_STRANDED: Final[LiteralString] = """
    select id
      from privacy_requests
     where completed_at is null and requested_at < now() - %(patience)s::interval
       and not exists (
               select from jobs
                where jobs.kind = %(kind)s and jobs.state = 'waiting' and jobs.payload ->> 'privacy' = privacy_requests.id::text
           )
     order by requested_at
     limit %(limit)s
"""
