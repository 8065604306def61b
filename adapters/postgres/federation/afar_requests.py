"""Requests from afar in PostgreSQL: the ask, the polls, the person's answer, and the single exchange."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from msgspec import convert

from adapters.postgres.identity.sessions.audiences import granted_audiences, kept_audiences
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first, first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import is_own_member
from adapters.postgres.transaction import OnStatements
from core.domain.federation.afar_requests import (
    INTERVAL,
    LENIENCY,
    MOST_WAITING,
    MOST_WAITING_OF_CLIENT,
    SLOWER,
    AfarDecision,
    AfarState,
    BlockedClient,
    NewAfarRequest,
    OwnRequests,
    PolledRequest,
    WaitingRequest,
)
from core.domain.identifiers import AfarRequestId, ServiceId, SessionId, UserId
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.tokens import TokenAudience
from core.frozen import Frozen


class _Added(Frozen):
    is_on: bool


class _Polled(Frozen):
    id: UUID
    state: str
    expires_at: datetime
    is_slowed: bool
    is_open: bool
    key_thumbprint: str | None
    user_id: UUID | None
    email: str | None
    session_id: UUID | None
    scopes: list[str]
    audiences: Sequence[Mapping[str, Any]] | None

    def polled(self) -> PolledRequest:
        state, decision = AfarState(self.state), None
        if state is AfarState.ALLOWED and self.user_id is not None and self.session_id is not None and self.email is not None:
            granted = granted_audiences(self.audiences)
            decision = AfarDecision(
                user=UserId(self.user_id),
                email=self.email,
                session=SessionId(self.session_id),
                scopes=tuple(self.scopes),
                granted=granted,
            )
        return PolledRequest(
            id=AfarRequestId(self.id),
            state=state,
            expires_at=self.expires_at,
            is_slowed=self.is_slowed,
            is_open=self.is_open,
            key=None if self.key_thumbprint is None else KeyThumbprint(self.key_thumbprint),
            allowed=decision,
        )


def _waiting(*, scopes: list[str], foreign_scopes: list[str], **columns: Any) -> WaitingRequest:
    return WaitingRequest(scopes=tuple(scopes), foreign_scopes=tuple(foreign_scopes), **columns)


def _own(*, waiting: Sequence[Mapping[str, Any]], blocked: Sequence[Mapping[str, Any]]) -> OwnRequests:
    return OwnRequests(waiting=convert(waiting, list[WaitingRequest]), blocked=convert(blocked, list[BlockedClient]))


class AfarRequestRows(OnStatements):
    """Implements `ports.federation.oauth.AfarRequestStore`."""

    async def add(self, new: NewAfarRequest) -> bool:
        asked, audience = new.asked, new.audience
        parameters = {
            "id": new.id,
            "digest": new.digest,
            "service": new.service,
            "email_key": storable_text(Email(asked.login_hint).key),
            "person": asked.person,
            "scopes": list(asked.scopes),
            "resource": None if audience is None else audience.id,
            "identifier": None if audience is None else audience.identifier,
            "foreign_scopes": [] if audience is None else list(audience.scopes),
            "message": None if asked.binding_message is None else storable_text(asked.binding_message),
            "key": asked.key,
            "interval": INTERVAL,
            "created_at": new.created_at,
            "expires_at": new.expires_at,
            "most": MOST_WAITING,
            "most_of_client": MOST_WAITING_OF_CLIENT,
        }
        return only(await self._statements.ask(_Added, _ADD, parameters)).is_on

    async def poll(self, digest: bytes, service: ServiceId, at: datetime) -> PolledRequest | None:
        parameters = {"digest": digest, "service": service, "at": at, "soonest": at + LENIENCY, "slower": SLOWER}
        return first_made(await self._statements.ask(_Polled, _POLL, parameters), _Polled.polled)

    async def list_own(self, user: UserId) -> OwnRequests:
        return only(await self._statements.ask(_own, _LIST_OWN, {"user": user}))

    async def find_waiting(self, user: UserId, request: AfarRequestId) -> WaitingRequest | None:
        return first(await self._statements.ask(_waiting, _FIND_WAITING, {"user": user, "id": request}))

    async def find_to_tell(self, request: AfarRequestId) -> WaitingRequest | None:
        return first(await self._statements.ask(_waiting, _FIND_TO_TELL, {"id": request}))

    async def allow(self, request: AfarRequestId, user: UserId, session: SessionId, granted: Sequence[TokenAudience], at: datetime) -> bool:
        parameters = {"id": request, "user": user, "session": session, "audiences": kept_audiences(granted), "at": at}
        return bool(await self._statements.ask(IdRow, _ALLOW, parameters))

    async def refuse(self, request: AfarRequestId, user: UserId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _REFUSE, {"id": request, "user": user, "at": at}))

    async def consume(self, request: AfarRequestId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _CONSUME, {"id": request, "at": at}))

    async def block(self, user: UserId, service: ServiceId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _BLOCK, {"user": user, "service": service, "at": at}))

    async def unblock(self, user: UserId, service: ServiceId) -> bool:
        return bool(await self._statements.ask(IdRow, _UNBLOCK, {"user": user, "service": service}))


# A condition on `afar_requests` and `organizations`. Who leaves the organization, or is deactivated or locked, answers nothing more.
_IS_OPEN: Final[LiteralString] = f"""
           coalesce(organizations.status = 'active' and organizations.afar_since <= afar_requests.created_at, false)
       and {is_own_member("organizations.id", "afar_requests.user_id")}
       and exists (select from users where users.id = afar_requests.user_id and users.deactivated_at is null)
"""

# Whoever the hint names, this adds one row. The looks at the person end in a part of it, and in nothing that the application sees.
_ADD: Final[LiteralString] = f"""
    with place as (
             select services.id, services.org_id
               from services
               join organizations on organizations.id = services.org_id
              where services.id = %(service)s and organizations.status = 'active' and organizations.afar_since is not null
         ),
         person as (
             select users.id
               from users
              cross join place
              where (users.email_key = %(email_key)s or users.id = %(person)s::uuid) and users.deactivated_at is null
                and {is_own_member("place.org_id", "users.id")}
                and not exists (
                        select from afar_blocks where afar_blocks.user_id = users.id and afar_blocks.service_id = %(service)s
                    )
                and (
                        select count(*) < %(most)s
                               and count(*) filter (where waiting.service_id = %(service)s) < %(most_of_client)s
                          from afar_requests as waiting
                          join services as asking on asking.id = waiting.service_id and asking.org_id = place.org_id
                         where waiting.user_id = users.id and waiting.state = 'pending' and waiting.expires_at > %(created_at)s
                    )
              limit 1
         ),
         added as (
             insert into afar_requests (id, digest, service_id, user_id, scopes, resource_id, identifier, foreign_scopes, binding_message,
                                        key_thumbprint, created_at, expires_at, poll_interval)
             select %(id)s, %(digest)s, place.id, person.id, %(scopes)s::text[], %(resource)s::uuid, %(identifier)s,
                    %(foreign_scopes)s::text[], %(message)s, %(key)s, %(created_at)s, %(expires_at)s, %(interval)s
               from place
               left join person on true
          returning id
         )
  select exists (select from added) as is_on
"""

# A poll that comes too soon makes the interval longer. The statement writes only to pending requests.
_POLL: Final[LiteralString] = f"""
    with polled as (
             update afar_requests
                set (polled_at, is_slowed, poll_interval) = (
                        select %(at)s::timestamptz, pace.too_soon,
                               afar_requests.poll_interval + case when pace.too_soon then %(slower)s else 0 end
                          from (
                                   values (
                                       coalesce(
                                           afar_requests.polled_at + afar_requests.poll_interval * interval '1 second' > %(soonest)s, false
                                       )
                                   )
                               ) as pace (too_soon)
                    )
              where digest = %(digest)s and service_id = %(service)s and state = 'pending' and expires_at > %(at)s
          returning is_slowed
         )
  select afar_requests.id, afar_requests.state, afar_requests.expires_at, coalesce(polled.is_slowed, false) as is_slowed,
         {_IS_OPEN} as is_open, afar_requests.key_thumbprint, afar_requests.user_id, users.email, afar_requests.session_id,
         afar_requests.scopes, afar_requests.audiences
    from afar_requests
    join services on services.id = afar_requests.service_id
    join organizations on organizations.id = services.org_id
    left join users on users.id = afar_requests.user_id
    left join polled on true
   where afar_requests.digest = %(digest)s and afar_requests.service_id = %(service)s
"""

_WAITS: Final[LiteralString] = f"""
           afar_requests.state = 'pending' and afar_requests.expires_at > now() and {_IS_OPEN}
       and not exists (
               select
                 from afar_blocks
                where afar_blocks.user_id = afar_requests.user_id and afar_blocks.service_id = afar_requests.service_id
           )
"""

_WAITING: Final[LiteralString] = f"""
    select afar_requests.id, afar_requests.user_id as user, organizations.id as organization, services.id as service,
           services.oauth_client_id as client, services.name as service_name, services.logo_digest as service_logo,
           organizations.name as organization_name, services.is_agent,
           afar_requests.scopes, afar_requests.identifier, coalesce(resource_servers.name, '') as api, afar_requests.foreign_scopes,
           array(
               select scope.own ->> 'description'
                 from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                where scope.own ->> 'name' = any (afar_requests.foreign_scopes)
                order by scope.place
           ) as says,
           afar_requests.binding_message, afar_requests.created_at, afar_requests.expires_at
      from afar_requests
      join services on services.id = afar_requests.service_id
      join organizations on organizations.id = services.org_id
      left join resource_servers on resource_servers.id = afar_requests.resource_id
     where {_WAITS}
"""

_FIND_WAITING: Final[LiteralString] = f"{_WAITING} and afar_requests.user_id = %(user)s and afar_requests.id = %(id)s"

_FIND_TO_TELL: Final[LiteralString] = f"{_WAITING} and afar_requests.id = %(id)s"

_ALLOW: Final[LiteralString] = f"""
    update afar_requests
       set state = 'allowed', session_id = sessions.id, audiences = %(audiences)s, answered_at = %(at)s
      from sessions, services, organizations
     where afar_requests.id = %(id)s and afar_requests.user_id = %(user)s and afar_requests.expires_at > %(at)s
       and sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.impersonator_id is null
       and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
       and services.id = afar_requests.service_id and organizations.id = services.org_id
       and {_WAITS}
 returning afar_requests.id
"""

_REFUSE: Final = """
    update afar_requests
       set state = 'refused', answered_at = %(at)s
     where id = %(id)s and user_id = %(user)s and state = 'pending' and expires_at > %(at)s
 returning id
"""

_CONSUME: Final[LiteralString] = f"""
    update afar_requests
       set state = 'consumed'
      from services, organizations
     where afar_requests.id = %(id)s and afar_requests.state = 'allowed' and afar_requests.expires_at > %(at)s
       and services.id = afar_requests.service_id and organizations.id = services.org_id and {_IS_OPEN}
 returning afar_requests.id
"""

_BLOCKED: Final = """
    select services.id as service, services.name as service_name, organizations.name as organization_name, afar_blocks.blocked_at
      from afar_blocks
      join services on services.id = afar_blocks.service_id
      join organizations on organizations.id = services.org_id
     where afar_blocks.user_id = %(user)s
"""

# One statement for the whole page.
_LIST_OWN: Final[LiteralString] = f"""
    select (
               select coalesce(jsonb_agg(one order by one.id), '[]')
                 from ({_WAITING} and afar_requests.user_id = %(user)s) as one
           ) as waiting,
           (
               select coalesce(jsonb_agg(one order by one.organization_name, one.service_name, one.service), '[]')
                 from ({_BLOCKED}) as one
           ) as blocked
"""

_BLOCK: Final = """
    with refused as (
             update afar_requests
                set state = 'refused', session_id = null, answered_at = coalesce(answered_at, %(at)s)
              where user_id = %(user)s and service_id = %(service)s and state in ('pending', 'allowed')
         )
    insert into afar_blocks (user_id, service_id, blocked_at)
    select %(user)s, services.id, %(at)s
      from services
     where services.id = %(service)s
        on conflict do nothing
 returning service_id as id
"""

_UNBLOCK: Final = "delete from afar_blocks where user_id = %(user)s and service_id = %(service)s returning service_id as id"
