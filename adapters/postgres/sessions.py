"""Sessions in PostgreSQL, the question that every authenticated request asks, and the exchange of refresh tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.accounts import AccountRow
from adapters.postgres.pool import Pool
from adapters.postgres.presence import mark
from adapters.postgres.relations import RELATIONS_OF_MEMBER
from adapters.postgres.revoking import revoking
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from adapters.postgres.subscriptions import SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.members import Standing
from core.domain.sessions import IDLE_LIFETIME, Caller, Context, Impersonated, Presented, Session
from ports.sessions import Opener


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


@dataclass(frozen=True, slots=True)
class _Opener(AccountRow):
    ends_at: datetime


class SessionRows:
    """Implements `ports.sessions.SessionStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        await self._transaction.tell(_HOLD_ACCOUNT, {"user": user})
        await self._transaction.tell(_HOLD_DEVICE, {"session": session})
        rows = await self._transaction.ask(_Opener, _HOLD_OPENER, {"session": session, "user": user})
        return Opener(rows[0].account(), rows[0].ends_at) if rows else None

    async def add(self, session: Session) -> None:
        impersonated = session.impersonated
        await self._transaction.tell(
            _ADD,
            {
                "id": session.id,
                "user": session.user,
                "device": session.device,
                "organization": session.context.organization,
                "service": session.context.service,
                "created_at": session.created_at,
                "last_seen_at": session.last_seen_at,
                "expires_at": session.expires_at,
                "ends_at": session.ends_at,
                "authenticated_by": list(session.authenticated_by),
                "impersonator": None if impersonated is None else impersonated.by,
                "impersonation": None if impersonated is None else impersonated.id,
            },
        )

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        await self._transaction.tell(_ISSUE, {"digest": token_digest, "session": session, "at": at})

    async def revoke(self, session: SessionId, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _REVOKE, {"id": session, "user": user, "at": at}))

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        return len(await self._transaction.ask(_Identity, _REVOKE_ALL, {"user": user, "but": but}))

    async def end_all(self, user: UserId) -> None:
        await self._transaction.tell(_REVOKE_ALL, {"user": user, "but": None})

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        return len(await self._transaction.ask(_Identity, _REVOKE_IMPERSONATIONS, {"impersonator": impersonator}))

    async def revoke_of_device(self, device: DeviceId) -> int:
        return len(await self._transaction.ask(_Identity, _REVOKE_OF_DEVICE, {"device": device}))


# A statement of its own: the next one sees what was committed while this one waited.
_HOLD_ACCOUNT: Final = "select from users where id = %(user)s for no key update"

# Whoever revokes it ends its sessions, and must find the one that is about to be opened on it.
_HOLD_DEVICE: Final = "select from devices where id = (select device_id from sessions where id = %(session)s) for share"

_HOLD_OPENER: Final = """
    select users.id, users.email, users.is_platform_owner, users.email_verified_at, users.deactivated_at, users.created_at, sessions.ends_at
      from sessions
      join users on users.id = sessions.user_id
     where sessions.id = %(session)s and users.id = %(user)s and users.deactivated_at is null
       and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
       for share of sessions
"""

_ADD: Final = """
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, impersonator_id, impersonation_id)
    values (%(id)s, %(user)s, %(device)s, %(organization)s, %(service)s, %(created_at)s, %(last_seen_at)s, %(expires_at)s, %(ends_at)s,
            %(authenticated_by)s, %(impersonator)s, %(impersonation)s)
"""

_ISSUE: Final = "insert into refresh_tokens (digest, session_id, created_at) values (%(digest)s, %(session)s, %(at)s)"

_REVOKE: Final = """
    update sessions
       set revoked_at = %(at)s
     where id = %(id)s and user_id = %(user)s and revoked_at is null
 returning id
"""

# Those too that the person opened in others' names: whoever got hold of a platform owner's account may have.
_REVOKE_ALL: Final[LiteralString] = f"""
{revoking("(user_id = %(user)s or impersonator_id = %(user)s) and id is distinct from %(but)s")}
returning sessions.id
"""

_REVOKE_IMPERSONATIONS: Final[LiteralString] = f"""
{revoking("impersonator_id = %(impersonator)s")}
returning sessions.id
"""

# Those too that its person opened in others' names: a session does not say which device it was opened from, and a thief's must not go on.
_REVOKE_OF_DEVICE: Final[LiteralString] = f"""
{revoking("(device_id = %(device)s or impersonator_id = (select user_id from devices where id = %(device)s))")}
returning sessions.id
"""

# A session counts while it has not ended, its user is active, and so is the platform owner who acts in the user's name, if one does; nobody
# acts in the name of a platform owner, not even of one who has become so since.
_IS_LIVE: Final = """
           sessions.revoked_at is null
       and sessions.expires_at > now()
       and sessions.ends_at > now()
       and users.deactivated_at is null
       and (sessions.organization_id is null or organizations.id is not null)      -- it is not being deleted, nor is its service
       and (sessions.service_id is null or services.id is not null)
       and (sessions.impersonator_id is null or not users.is_platform_owner and exists (
               select from users as impersonators
                where impersonators.id = sessions.impersonator_id
                  and impersonators.is_platform_owner
                  and impersonators.deactivated_at is null
           ))
"""


# A part of any statement that has a session's id at hand, as `session`.
SESSION_LIVES: Final[LiteralString] = f"""exists (
               select
                 from sessions
                 join users on users.id = sessions.user_id
                 left join organizations on organizations.id = sessions.organization_id
                 left join services on services.id = sessions.service_id
                where sessions.id = %(session)s
                  and {_IS_LIVE}
           )"""


@dataclass(frozen=True, slots=True)
class _Caller:
    user_id: UUID
    session_id: UUID
    email: str
    is_platform_owner: bool
    device_id: UUID | None
    impersonator_id: UUID | None
    organization_id: UUID | None
    organization_slug: str | None
    organization_is_active: bool | None
    service_slug: str | None
    role: str | None

    def caller(self) -> Caller:
        return Caller(
            user=UserId(self.user_id),
            email=Email(self.email),
            session=SessionId(self.session_id),
            is_platform_owner=self.is_platform_owner,
            organization=self.organization_slug or "",
            service=self.service_slug or "",
            impersonator=None if self.impersonator_id is None else UserId(self.impersonator_id),
            device=None if self.device_id is None else DeviceId(self.device_id),
            organization_id=None if self.organization_id is None else OrganizationId(self.organization_id),
            role=self.role or "",
            organization_is_active=self.organization_is_active or False,
        )


@dataclass(frozen=True, slots=True)
class _Member(_Caller):
    wanted_id: UUID | None
    wanted_is_active: bool | None
    wanted_role: str | None
    relations: list[str]

    def standing(self, slug: str) -> Standing | None:
        if self.wanted_id is None:
            return None
        return Standing(
            OrganizationId(self.wanted_id), slug, bool(self.wanted_is_active), self.wanted_role or "", frozenset(self.relations)
        )


class PostgresCallers:
    """Implements `ports.sessions.CallerLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        rows = await ask(self._pool, _Caller, _FIND, {"session": session, "user": user})
        return rows[0].caller() if rows else None

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, Standing | None] | None:
        rows = await ask(self._pool, _Member, _FIND_MEMBER, {"session": session, "user": user, "slug": storable_text(slug)})
        return (rows[0].caller(), rows[0].standing(slug)) if rows else None


_CALLER: Final = """
           users.id as user_id, sessions.id as session_id, users.email, users.is_platform_owner, sessions.device_id,
           sessions.impersonator_id, sessions.organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active, services.slug as service_slug, memberships.role
"""

_LIVE_SESSION: Final = """
      from sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id
"""

_FIND: Final[LiteralString] = f"""
    select {_CALLER}
           {_LIVE_SESSION}
     where sessions.id = %(session)s
       and sessions.user_id = %(user)s
       and {_IS_LIVE}
"""

_FIND_MEMBER: Final[LiteralString] = f"""
    select {_CALLER}, wanted.id as wanted_id, wanted.status = 'active' as wanted_is_active, belonging.role as wanted_role,
           {RELATIONS_OF_MEMBER} as relations
           {_LIVE_SESSION}
      left join organizations as wanted on wanted.slug = %(slug)s
      left join memberships as belonging on belonging.org_id = wanted.id and belonging.user_id = users.id
     where sessions.id = %(session)s
       and sessions.user_id = %(user)s
       and {_IS_LIVE}
"""


@dataclass(frozen=True, slots=True)
class _Presented:
    session_id: UUID
    user_id: UUID
    device_id: UUID | None
    organization_id: UUID | None
    organization_slug: str | None
    service_id: UUID | None
    service_slug: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    ends_at: datetime
    authenticated_by: list[str]
    impersonator_id: UUID | None
    impersonation_id: UUID | None
    email: str
    is_platform_owner: bool
    is_live: bool
    is_member: bool
    organization_is_active: bool
    rotated: bool
    rotated_at: datetime | None
    rotated_by: bytes | None
    subscription: Mapping[str, Any] | None

    def presented(self) -> Presented:
        impersonated = None
        if self.impersonator_id is not None and self.impersonation_id is not None:
            impersonated = Impersonated(ImpersonationId(self.impersonation_id), UserId(self.impersonator_id))
        organization = None if self.organization_id is None else OrganizationId(self.organization_id)
        service = None if self.service_id is None else ServiceId(self.service_id)
        session = Session(
            id=SessionId(self.session_id),
            user=UserId(self.user_id),
            created_at=self.created_at,
            last_seen_at=self.last_seen_at,
            expires_at=self.expires_at,
            ends_at=self.ends_at,
            device=None if self.device_id is None else DeviceId(self.device_id),
            context=Context(organization, self.organization_slug or "", service, self.service_slug or ""),
            authenticated_by=tuple(self.authenticated_by),
            impersonated=impersonated,
        )
        return Presented(
            session,
            Email(self.email),
            is_platform_owner=self.is_platform_owner,
            is_live=self.is_live,
            is_member=self.is_member,
            organization_is_active=self.organization_is_active,
            rotated=self.rotated,
            rotated_at=self.rotated_at,
            rotated_by=self.rotated_by,
            subscription=subscription_state(self.subscription),
        )


class PostgresRefreshTokens:
    """Implements `ports.sessions.RefreshTokens`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def rotate(self, digest: bytes, successor: bytes, by: bytes, at: datetime) -> Presented | None:
        rows = await ask(
            self._pool, _Presented, _ROTATE, {"digest": digest, "successor": successor, "by": by, "at": at, "idle": IDLE_LIFETIME}
        )
        return rows[0].presented() if rows else None


# All of it or nothing, in one statement. Of two that rotate the same token, the second waits for the first's commit, finds it rotated and
# leaves everything as it is; what it selects is from before that, so `rotated` is false and `rotated_at` null: it has to look again.
# A session that is revoked at this very moment is not extended, and then `is_live` is false.
_ROTATE: Final[LiteralString] = f"""
    with found as (
             select tokens.rotated_at, tokens.rotated_by, sessions.id as session_id, sessions.user_id, sessions.device_id,
                    sessions.organization_id, organizations.slug as organization_slug, sessions.service_id, services.slug as service_slug,
                    sessions.created_at,
                    sessions.last_seen_at, sessions.expires_at, sessions.ends_at, sessions.authenticated_by, sessions.impersonator_id,
                    sessions.impersonation_id, users.email, users.is_platform_owner,
                    {_IS_LIVE} as is_live,
                    coalesce(memberships.role is not null or sessions.service_id is not null, false) as is_member,
                    coalesce(organizations.status = 'active', false) as organization_is_active,
                    {SUBSCRIPTION_STATE} as subscription
               from refresh_tokens as tokens
               join sessions on sessions.id = tokens.session_id
               join users on users.id = sessions.user_id
               left join organizations on organizations.id = sessions.organization_id
               left join services on services.id = sessions.service_id
               left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id
              where tokens.digest = %(digest)s
         ),
         rotated as (
             update refresh_tokens
                set rotated_at = %(at)s, rotated_by = %(by)s
               from found
              where refresh_tokens.digest = %(digest)s
                and refresh_tokens.rotated_at is null
                and found.is_live
                and (found.organization_id is null or (found.is_member and found.organization_is_active))
          returning refresh_tokens.session_id
         ),
         added as (
             insert into refresh_tokens (digest, session_id, created_at) select %(successor)s, session_id, %(at)s from rotated
         ),
         extended as (
             update sessions
                set expires_at = least(%(at)s + %(idle)s, sessions.ends_at), last_seen_at = greatest(sessions.last_seen_at, %(at)s)
               from rotated
              where sessions.id = rotated.session_id and sessions.revoked_at is null
          returning sessions.id
         )
  select found.session_id, found.user_id, found.device_id, found.organization_id, found.organization_slug, found.service_id,
         found.service_slug, found.created_at, found.last_seen_at, found.expires_at, found.ends_at, found.authenticated_by,
         found.impersonator_id,
         found.impersonation_id, found.email, found.is_platform_owner, found.is_member, found.organization_is_active, found.rotated_at,
         found.rotated_by, found.subscription,
         rotated.session_id is not null as rotated,
         found.is_live and (rotated.session_id is null or extended.id is not null) as is_live
    from found
    left join rotated on true
    left join extended on true
"""


class PostgresPresence:
    """Implements `ports.presence.PresenceStore` for sessions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def mark_seen(self, times: Mapping[SessionId, datetime]) -> None:
        await mark(self._pool, _MARK_SEEN, times)


_MARK_SEEN: Final = """
    with due as (
             select sessions.id, seen.at
               from sessions
               join unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as seen (id, at) on seen.id = sessions.id
              where sessions.last_seen_at < seen.at
              order by sessions.id
                for no key update of sessions      -- in one order everywhere: two processes that mark the same sessions cannot deadlock
         )
  update sessions
     set last_seen_at = due.at
    from due
   where sessions.id = due.id
"""
