"""The users of one application, and the end users of all applications of an organization, in PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from adapters.postgres.columns import IdRow, storable, storable_text
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.identity.privacy.forgetting import ELSEWHERE, HOLD_ORGANIZATIONS, HOLDS, held_by, is_the_makers
from adapters.postgres.identity.privacy.privacy import REMEMBER
from adapters.postgres.identity.sessions.parts import ending_codes, noticing
from adapters.postgres.record.events import PURGED
from adapters.postgres.statements import OnStatements, first, first_made, only
from adapters.postgres.tenancy.profile_fields import values_in_organization
from adapters.postgres.ties import IS_UNCONFIRMED_OWNER, has_come, shown_name
from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.identity.made_accounts import Elsewhere
from core.domain.mail import Email
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.services.service_users import (
    EndUser,
    EndUserDetail,
    HeldServiceUser,
    ServiceUser,
    ServiceUserDetail,
    UsedIdentity,
    UsedService,
)
from core.domain.tenancy.organizations import Metadata
from core.frozen import Frozen


class _Listed(Frozen):
    """A row of the page. An empty page is one row without a user."""

    total: int
    id: UUID | None
    email: str | None
    created_at: datetime | None
    name: str | None

    def user(self) -> ServiceUser | None:
        if self.id is None or self.email is None or self.created_at is None:
            return None
        return ServiceUser(UserId(self.id), Email(self.email), self.created_at, self.name)


class _Joined(Frozen):
    """`created_at` is None when another request made the person a user of the service at this moment."""

    id: UUID
    email: str
    created_at: datetime | None
    has_joined: bool
    name: str | None


def _held(
    *,
    came_through_service: bool,
    is_the_makers: bool,
    owns_an_organization: bool,
    is_used_here: bool,
    is_used_elsewhere: bool,
    **account: Any,
) -> HeldServiceUser:
    return HeldServiceUser(
        ACCOUNT.row(**account),
        is_made_here=came_through_service and is_the_makers,
        owns_an_organization=owns_an_organization,
        is_used_here=is_used_here,
        is_used_elsewhere=is_used_elsewhere,
    )


class _Elsewhere(Frozen):
    members_of: list[UUID]
    known_to: list[UUID]
    is_subscribed: bool

    def elsewhere(self) -> Elsewhere:
        return Elsewhere(frozenset(map(OrganizationId, self.members_of)), tuple(map(OrganizationId, self.known_to)), self.is_subscribed)


class _Detail(Frozen):
    id: UUID
    email: str
    created_at: datetime
    name: str | None
    metadata: Mapping[str, Json]
    profile: Mapping[str, Json] | None

    def detail(self) -> ServiceUserDetail:
        user = ServiceUser(UserId(self.id), Email(self.email), self.created_at, self.name)
        return ServiceUserDetail(user, self.metadata, self.profile or {})


# The first look may wait for another request. The second look then sees the other request's commit.
_LOOKS: Final = 2


class ServiceUserRows(OnStatements):
    """Implements `ports.services.services.ServiceUserStore`."""

    async def list(self, service: ServiceId, limit: int, offset: int) -> Listed[ServiceUser]:
        rows = await self._statements.ask(_Listed, LIST, {"service": service, "limit": limit, "offset": offset})
        # No row means that the service was deleted since the request came in.
        return Listed([user for row in rows if (user := row.user()) is not None], rows[0].total if rows else 0)

    async def detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None:
        return first_made(await self._statements.ask(_Detail, DETAIL, {"service": service, "user": user}), _Detail.detail)

    async def hold_detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None:
        await self._statements.tell(_HOLD_PLACE, {"service": service, "user": user})
        return await self.detail(service, user)

    async def save_metadata(self, service: ServiceId, user: UserId, metadata: Metadata) -> None:
        await self._statements.tell(_SAVE_METADATA, {"service": service, "user": user, "metadata": Jsonb(storable(metadata))})

    async def join(self, service: ServiceId, email: Email, at: datetime) -> tuple[ServiceUser, bool] | None:
        for _ in range(_LOOKS):
            rows = await self._statements.ask(_Joined, JOIN, {"service": service, "email_key": email.key, "at": at})
            if not rows:
                break
            one = rows[0]
            if one.created_at is not None:
                return ServiceUser(UserId(one.id), Email(one.email), one.created_at, one.name), one.has_joined
        return None

    async def hold(self, service: ServiceId, user: UserId) -> HeldServiceUser | None:
        parameters = {"service": service, "user": user}
        await self._statements.tell(_HOLD, parameters)
        return first(await self._statements.ask(_held, FIND_HELD, parameters))

    async def change_email(self, user: UserId, email: Email, at: datetime) -> None:
        parameters = {"user": user, "email": email.address, "email_key": email.key, "at": at}
        try:
            await self._statements.ask(IdRow, _CHANGE_EMAIL, parameters)
        except UniqueViolation:
            raise BadRequest("email: this e-mail address is taken") from None

    async def hold_organizations(self, user: UserId, maker: OrganizationId, *, also: OrganizationId | None) -> frozenset[OrganizationId]:
        rows = await self._statements.ask(IdRow, HOLD_ORGANIZATIONS, {"user": user, "organization": maker, "also": also})
        return frozenset(OrganizationId(row.id) for row in rows)

    async def elsewhere(self, user: UserId, maker: OrganizationId) -> Elsewhere:
        return only(await self._statements.ask(_Elsewhere, ELSEWHERE, {"user": user, "organization": maker})).elsewhere()

    async def delete_account(self, user: UserId, request: PrivacyRequestId, at: datetime) -> None:
        parameters = {"user": user, "target": str(user), "request": request, "by": None, "until": at}
        for statement in DELETE_ACCOUNT:
            await self._statements.tell(statement, parameters)

    async def leave(self, service: ServiceId, organization: OrganizationId, user: UserId) -> None:
        parameters = {"service": service, "organization": organization, "user": user, "target": str(user)}
        for statement in LEAVE:
            await self._statements.tell(statement, parameters)


# A service may make a person its user who never signed in there. Such a person has told the service nothing, so the service sees when the
# relation began, and not when the account did.
_SINCE: Final[LiteralString] = f"case when {has_come()} then users.created_at else service_users.created_at end"
_NAME: Final[LiteralString] = f"case when {has_come()} then {shown_name('users')} end"

DETAIL: Final[LiteralString] = f"""
    select users.id, users.email, {_SINCE} as created_at, {_NAME} as name, service_users.metadata,
           {values_in_organization("service_users.org_id", "users.id")} as profile
      from service_users
      join users on users.id = service_users.user_id
     where service_users.service_id = %(service)s and service_users.user_id = %(user)s
"""

_HOLD_PLACE: Final = "select from service_users where service_id = %(service)s and user_id = %(user)s for no key update"
_SAVE_METADATA: Final = "update service_users set metadata = %(metadata)s where service_id = %(service)s and user_id = %(user)s"

# The statement jumps to the last mark before the page, and skips at most two thousand users from there. `offset 0` is needed because the
# planner assumes that an unknown limit takes a tenth of the table, and would read everybody's address.
LIST: Final[LiteralString] = f"""
    with counted as materialized (
             select user_count::bigint as total from services where id = %(service)s
         ),
         marks as (
             select created_at, user_id, sum(users) over (order by created_at, user_id) - users as before
               from service_user_marks
              where service_id = %(service)s
         ),
         place as materialized (
             select created_at, user_id, %(offset)s::bigint - before as further
               from marks
              where before <= %(offset)s::bigint
              order by created_at desc, user_id desc
              limit 1
         ),
         page as materialized (
             select created_at, user_id, org_id, first_login_at, own_since
               from service_users
              where service_id = %(service)s
                and (created_at, user_id) >= ((select created_at from place), (select user_id from place))
              order by created_at, user_id
             offset (select further from place)
              limit %(limit)s::bigint
         )
    select counted.total, listed.id, listed.email,
           case when {has_come("page")} then listed.created_at else page.created_at end as created_at,
           case when {has_come("page")} then listed.name end as name
      from counted
      left join page on true
      left join lateral (
                select users.id, users.email, users.created_at, {shown_name("users")} as name
                  from users
                 where users.id = page.user_id
                offset 0
           ) as listed on true
     order by page.created_at, page.user_id
"""

# Locks the account as a foreign key does: a deletion of the account waits, or has already happened. An existing user of the service causes
# no write.
JOIN: Final[LiteralString] = f"""
    with known as (
             select id, email, created_at, {shown_name("users")} as name from users where email_key = %(email_key)s for key share
         ),
         joined as (
             insert into service_users (service_id, user_id, org_id, created_at)
             select services.id, known.id, services.org_id, %(at)s
               from known
               join services on services.id = %(service)s
                 on conflict (service_id, user_id) do nothing
          returning created_at
         )
  select known.id, known.email,
         case when {has_come()}
              then known.created_at
              else coalesce(service_users.created_at, joined.created_at)
         end as created_at,
         joined.created_at is not null as has_joined,
         case when {has_come()} then known.name end as name
    from known
    left join service_users on service_users.service_id = %(service)s and service_users.user_id = known.id
    left join joined on true
   where exists (select from services where services.id = %(service)s)
"""

# The lock is as strong as a deletion's from the start: upgrading a weaker lock would wait for other holders of the weaker lock. Meanwhile
# nobody can sign in, become a member or become a platform owner with this account, because the new rows would refer to the account. The
# statement does not lock people who use only other services.
_HOLD: Final = """
    select
      from users
     where id = %(user)s and exists (select from service_users where service_id = %(service)s and user_id = %(user)s)
       for update
"""

# A statement of its own, so that it sees what others committed while `_HOLD` waited. A service or organization that is being deleted still
# holds the account.
FIND_HELD: Final[LiteralString] = f"""
    select {ACCOUNT.names},
           coalesce(users.origin_service_id = %(service)s, false) as came_through_service,
           coalesce({is_the_makers("service_users.org_id")}, false) as is_the_makers,
           (
               exists (
                   select
                     from organizations
                    where organizations.owner_user_id = users.id
                      and not exists (
                              select
                                from memberships
                               where memberships.org_id = organizations.id and memberships.user_id = users.id and {IS_UNCONFIRMED_OWNER}
                          )
               )
            or exists (
                   select
                     from memberships
                    where memberships.user_id = users.id and memberships.role = 'owner' and not {IS_UNCONFIRMED_OWNER}
               )
           ) as owns_an_organization,
           {held_by("ties.service_id is distinct from %(service)s and ties.org_id = service_users.org_id")} as is_used_here,
           {held_by("ties.org_id <> service_users.org_id")} as is_used_elsewhere
      from service_users
      join users on users.id = service_users.user_id
     where service_users.service_id = %(service)s and service_users.user_id = %(user)s
"""

# Another person than the one who chose the password may prove the new address. So the statement removes the password, unless the new
# address is only another spelling.
_CHANGE_EMAIL: Final = """
    update users
       set email = %(email)s, email_key = %(email_key)s, email_verified_at = null, pending_email = null, pending_email_key = null,
           password_hash = case when email_key = %(email_key)s then password_hash end,
           password_changed_at = case when email_key = %(email_key)s then password_changed_at end,
           language = case when email_key = %(email_key)s then language end, updated_at = %(at)s
     where id = %(user)s
 returning id
"""

# The account is locked, so no request about the person's subscriptions is under way. But the service may be under deletion, which removes
# subscriptions as well.
_HOLD_SUBSCRIPTIONS: Final = "select from subscriptions where user_id = %(user)s order by id for update"

# The entries stay, without the data that identifies the person.
_FORGET: Final = """
    with held as (
             select entry_id
               from audit_personal
              where actor_id = %(user)s
                 or entry_id = any (array(select id from audit_entries where target_type = 'user' and target_id = %(target)s))
              order by entry_id
                for update
         )
  delete from audit_personal using held where audit_personal.entry_id = held.entry_id
"""

# These statements clean the tables that have no foreign key to the account. All other rows go with the account.
DELETE_ACCOUNT: Final[tuple[LiteralString, ...]] = (
    PURGED,
    *HOLDS,
    _HOLD_SUBSCRIPTIONS,
    # Queues a job that removes the person from mails, invitations and the answers of webhook receivers.
    REMEMBER,
    "delete from login_events where user_id = %(user)s",
    "delete from mfa_events where user_id = %(user)s",
    _FORGET,
    "delete from users where id = %(user)s",
)

# The statements lock in the same order as the deletion of an account and the change of a subscription. The organization's audit log keeps
# its data about members: an API key for end users does not reach the people who run the organization.
LEAVE: Final[tuple[LiteralString, ...]] = (
    ending_codes("user_id = %(user)s and service_id = %(service)s"),
    """
    select
      from refresh_tokens
     where session_id = any (array(select id from sessions where user_id = %(user)s and service_id = %(service)s))
     order by digest
       for update
    """,
    f"""
    with ending as (
             select id, user_id, service_id, revoked_at
               from sessions
              where user_id = %(user)s and service_id = %(service)s
              order by id
                for update
         ),
         noticed as ({noticing("(select id, user_id, service_id from ending where revoked_at is null)")})
  delete from sessions using ending where sessions.id = ending.id
    """,
    "delete from preauthentications where user_id = %(user)s and service_id = %(service)s",
    "delete from login_events where user_id = %(user)s and service_id = %(service)s",
    # The service's tokens at providers go with the grants. The connected accounts stay, because the person signs in with them elsewhere.
    """
    delete from identity_grants
     using identities
     where identities.id = identity_grants.identity_id and identities.user_id = %(user)s and identity_grants.service_id = %(service)s
    """,
    "update users set origin_service_id = null where id = %(user)s and origin_service_id = %(service)s",
    "delete from relations where user_id = %(user)s and organization_id = %(organization)s and service_id = %(service)s",
    "delete from service_users where service_id = %(service)s and user_id = %(user)s",
    "select from subscriptions where service_id = %(service)s and user_id = %(user)s order by id for update",
    "delete from subscriptions where service_id = %(service)s and user_id = %(user)s",
    """
    with held as (
             select entry_id
               from audit_personal
              where not exists (select from memberships where org_id = %(organization)s and user_id = %(user)s)
                and entry_id = any (
                        array(
                            select id
                              from audit_entries
                             where organization_id = %(organization)s and target_type = 'user' and target_id = %(target)s
                        )
                    )
              order by entry_id
                for update
         )
  delete from audit_personal using held where audit_personal.entry_id = held.entry_id
    """,
)


class _EndUserListed(Frozen):
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
    """Implements `ports.services.services.EndUserStore`.

    Each question is one statement whose cost grows with the organization and never with the installation.
    """

    async def list(self, organization: OrganizationId, page: Page, *, search: str, service: ServiceId | None) -> Listed[EndUser] | None:
        rows = await self._statements.ask(
            _EndUserListed,
            END_USER_LISTS[bool(search), service is not None],
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
        rows = await self._statements.ask(_Used, GET_END_USER, {"organization": organization, "user": user})
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
END_USER_LISTS: Final[dict[tuple[bool, bool], LiteralString]] = {
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

GET_END_USER: Final[LiteralString] = f"""
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
