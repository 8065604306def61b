"""End users in PostgreSQL. Each question is one statement whose cost grows with the organization and never with the installation."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.identity.sessions.revoking import ending_codes, noticing
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import has_come, shown_name
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.mail import Email
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.services.service_users import EndUser, EndUserDetail, UsedIdentity, UsedService
from core.frozen import Frozen


class _Listed(Frozen):
    """A row of the page. An empty page is one row without a user."""

    total: int
    service_exists: bool
    id: UUID | None
    email: str | None
    created_at: datetime | None
    mfa_enabled: bool | None
    last_login_at: datetime | None
    services: list[str] | None
    name: str | None

    def end_user(self) -> EndUser | None:
        if self.id is None or self.email is None or self.created_at is None:
            return None
        return EndUser(
            UserId(self.id),
            Email(self.email),
            self.created_at,
            self.last_login_at,
            bool(self.mfa_enabled),
            tuple(self.services or ()),
            self.name,
        )


class _Used(Frozen):
    """A person with one of the services."""

    id: UUID
    email: str
    person_name: str | None
    email_verified: bool
    created_at: datetime
    updated_at: datetime
    mfa_enabled: bool
    active_sessions: int
    last_session_at: datetime | None
    service_id: UUID
    slug: str
    name: str
    first_login_at: datetime | None
    last_login_at: datetime | None
    metadata: dict[str, Any]
    identities: list[dict[str, Any]]

    def service(self) -> UsedService:
        return UsedService(ServiceId(self.service_id), self.slug, self.name, self.first_login_at, self.last_login_at, self.metadata)


class _Ended(Frozen):
    is_known: bool
    sessions: int


class EndUserRows(OnStatements):
    """Implements `ports.services.services.EndUserStore`."""

    async def list(self, organization: OrganizationId, page: Page, *, search: str, service: ServiceId | None) -> Listed[EndUser] | None:
        rows = await self._statements.ask(
            _Listed,
            LISTS[bool(search), service is not None],
            {
                "organization": organization,
                "service": service,
                "search": storable_text(search),
                "offset": page.offset,
                "limit": page.limit,
                "most": MOST_ROWS_COUNTED,
            },
        )
        if not rows[0].service_exists:
            return None
        return Listed([one for row in rows if (one := row.end_user()) is not None], rows[0].total)

    async def find(self, organization: OrganizationId, user: UserId) -> EndUserDetail | None:
        rows = await self._statements.ask(_Used, GET, {"organization": organization, "user": user})
        if not rows:
            return None
        first = rows[0]
        return EndUserDetail(
            id=UserId(first.id),
            email=Email(first.email),
            email_verified=first.email_verified,
            created_at=first.created_at,
            updated_at=first.updated_at,
            mfa_enabled=first.mfa_enabled,
            services=[row.service() for row in rows],
            identities=[
                UsedIdentity(one["provider"], one["subject"], one["email"], datetime.fromisoformat(one["linked_at"]))
                for one in first.identities
            ],
            active_sessions=first.active_sessions,
            last_session_at=first.last_session_at,
            name=first.person_name,
        )

    async def end_sessions(self, organization: OrganizationId, user: UserId, *, of_member: bool = False) -> int | None:
        parameters = {"organization": organization, "user": user}
        await self._statements.tell(_END_CODES, parameters)
        (row,) = await self._statements.ask(_Ended, _END_SESSIONS[of_member], parameters)
        return row.sessions if row.is_known else None


_MFA_ENABLED: Final[LiteralString] = f"""
           {second_factor_since("users.id")} is not null as mfa_enabled
"""

# One index alone answers this, in the index's order. The index does not say which service a person uses. So while a service of the
# organization is being removed, the second part gathers the users of the remaining services instead. PostgreSQL decides between the two
# parts once, before it reads any user.
_OF_ALL_SERVICES: Final = """
             select everybody.user_id
               from (
                        (
                            select distinct service_users.user_id
                              from service_users
                             where service_users.org_id = %(organization)s
                               and not exists (select from all_services where org_id = %(organization)s and deleted_at is not null)
                             order by service_users.user_id desc
                        )
                         union all
                        (
                            select distinct service_users.user_id
                              from services
                              join service_users on service_users.service_id = services.id
                             where services.org_id = %(organization)s
                               and exists (select from all_services where org_id = %(organization)s and deleted_at is not null)
                             order by service_users.user_id desc
                        )
                    ) as everybody
              order by everybody.user_id desc
"""

_OF_ONE_SERVICE: Final = """
             select service_users.user_id
               from service_users
               join services on services.id = service_users.service_id
              where services.id = %(service)s and services.org_id = %(organization)s
              order by service_users.user_id desc
"""

# The search text is a plain substring, never a pattern. A search reads the addresses of all end users of the organization. `offset 0`, here
# and below, keeps the planner from reading the addresses of the whole installation to find the few of one organization.
_MATCHING: Final[LiteralString] = """
             select candidates.user_id
               from ({candidates}) as candidates
              cross join lateral (
                        select from users where users.id = candidates.user_id and strpos(users.email_key, %(search)s) > 0 offset 0
                    ) as matching
              order by candidates.user_id desc
"""

# An organization may make a person its end user who never signed in there. Such a person has told the organization nothing, so the
# organization sees when the relation began, and nothing of the account. The total stops at `most`.
_LIST: Final[LiteralString] = """
      with found as materialized (
             {ids}
              limit greatest(%(most)s::bigint, %(offset)s::bigint + %(limit)s::bigint)
           ),
           page as materialized (
             select user_id from found order by user_id desc offset %(offset)s limit %(limit)s
           )
    select counted.total, {service_exists} as service_exists, shown.id, shown.email,
           case when used.came then shown.created_at else used.since end as created_at,
           used.came and shown.mfa_enabled as mfa_enabled,
           used.last_login_at, used.services, case when used.came then shown.name end as name
      from (select least(count(*), %(most)s) as total from found) as counted
      left join page on true
      left join lateral (
                select users.id, users.email, users.created_at, {name} as name, {mfa_enabled}
                  from users
                 where users.id = page.user_id
                offset 0
           ) as shown on true
      left join lateral (
                select max(service_users.last_login_at) as last_login_at, array_agg(services.slug order by services.slug) as services,
                       bool_or({has_come}) as came, min(service_users.created_at) as since
                  from service_users
                  join services on services.id = service_users.service_id
                 where service_users.user_id = page.user_id and service_users.org_id = %(organization)s
           ) as used on true
     order by page.user_id desc
"""

_SERVICE_EXISTS: Final = "exists (select from services where services.id = %(service)s and services.org_id = %(organization)s)"


def _list(candidates: LiteralString, service_exists: LiteralString, *, search: bool) -> LiteralString:
    ids = _MATCHING.format(candidates=candidates) if search else candidates
    return _LIST.format(ids=ids, service_exists=service_exists, mfa_enabled=_MFA_ENABLED, has_come=has_come(), name=shown_name("users"))


# One statement for each combination: with or without a search, for all services or one.
LISTS: Final[dict[tuple[bool, bool], LiteralString]] = {
    (search, in_service): (
        _list(_OF_ONE_SERVICE, _SERVICE_EXISTS, search=search) if in_service else _list(_OF_ALL_SERVICES, "true", search=search)
    )
    for search in (False, True)
    for in_service in (False, True)
}

_IN_SERVICES: Final = """
                       sessions.user_id = %(user)s
                   and sessions.organization_id = %(organization)s
                   and exists (select from services where services.id = sessions.service_id)
                   and sessions.revoked_at is null
"""

GET: Final[LiteralString] = f"""
    select users.id, users.email, case when used.came then {shown_name("users")} end as person_name,
           used.came and {is_verified_for("%(organization)s")} as email_verified,
           case when used.came then users.created_at else used.since end as created_at,
           case when used.came then users.updated_at else used.since end as updated_at,
           used.came and mfa.mfa_enabled as mfa_enabled,
           living.active_sessions, living.last_session_at, services.id as service_id, services.slug, services.name,
           service_users.first_login_at, service_users.last_login_at, service_users.metadata,
           (
               select coalesce(
                          jsonb_agg(
                              jsonb_build_object(
                                  'provider', provider, 'subject', subject, 'email', identities.email, 'linked_at', linked_at
                              )
                              order by linked_at, identities.id
                          ),
                          '[]'
                      )
                 from identities
                where identities.user_id = users.id
                  and exists (
                          select
                            from identity_grants
                            join services as theirs on theirs.id = identity_grants.service_id
                           where identity_grants.identity_id = identities.id and theirs.org_id = %(organization)s
                      )
           ) as identities
      from users
      join service_users on service_users.user_id = users.id and service_users.org_id = %(organization)s
      join services on services.id = service_users.service_id
     cross join lateral (
                select count(*) as active_sessions, max(sessions.created_at) as last_session_at
                  from sessions
                 where {_IN_SERVICES}
                   and sessions.expires_at > now()
                   and sessions.ends_at > now()
                   and sessions.exchanged_from is null
           ) as living
     cross join lateral (
                select bool_or({has_come()}) as came, min(created_at) as since
                  from service_users
                 where user_id = %(user)s and org_id = %(organization)s and service_id in (select id from services)
           ) as used
     cross join lateral (select {_MFA_ENABLED}) as mfa
     where users.id = %(user)s
     order by services.slug
"""

_END_CODES: Final[LiteralString] = ending_codes(
    "user_id = %(user)s and service_id in (select id from services where org_id = %(organization)s)"
)

_USES_A_SERVICE: Final = """
                        select
                          from service_users
                          join services on services.id = service_users.service_id
                         where service_users.user_id = %(user)s and service_users.org_id = %(organization)s
"""
_IS_MEMBER: Final = "select from memberships where memberships.user_id = %(user)s and memberships.org_id = %(organization)s"
_IN_ORGANIZATION: Final = "sessions.user_id = %(user)s and sessions.organization_id = %(organization)s and sessions.revoked_at is null"


# Locks sessions in the order of their ids, as the marking of presence does. So two transactions that revoke or mark the same sessions
# cannot deadlock.
def _end_sessions(tie: LiteralString, sessions: LiteralString) -> LiteralString:
    """Ends these sessions of a person who has this tie to the organization, and those that came of them."""
    return f"""
    with recursive known as (select exists ({tie}) as is_known),
         ending as (
             select sessions.id
               from sessions, known
              where known.is_known and {sessions}
          union
             select sessions.id
               from ending
               join sessions on sessions.parent_id = ending.id
              where sessions.revoked_at is null
         ),
         living as (
             select sessions.id, sessions.user_id, sessions.service_id
               from sessions
              where sessions.id = any (array(select id from ending)) and sessions.revoked_at is null
              order by sessions.id
                for no key update
         ),
         noticed as ({noticing("living")}),
         ended as (
             update sessions set revoked_at = now() from living where sessions.id = living.id returning sessions.id
         )
  select known.is_known, (select count(*) from ended) as sessions from known
"""


_END_SESSIONS: Final[Mapping[bool, LiteralString]] = {
    False: _end_sessions(_USES_A_SERVICE, _IN_SERVICES),
    True: _end_sessions(_IS_MEMBER, _IN_ORGANIZATION),
}
