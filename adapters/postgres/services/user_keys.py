"""User keys in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import msgspec

from adapters.postgres.columns import Columns, IdRow, array, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import IS_OPEN, asks_nothing, is_held
from adapters.postgres.identity.terms import terms_due, time_is_over
from adapters.postgres.services.api_keys import API_KEYS, ITS_SERVICE, KNOWN, KnownApiKeyRow
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import OnStatements, ask_in_order, first, first_made
from adapters.postgres.tenancy.management_keys import KeyTable, added, adding
from adapters.postgres.ties import counts_for, has_come
from core.domain.identifiers import ApiKeyId, OrganizationId, ResourceServerId, ServiceId, UserId, UserKeyId
from core.domain.services.api_keys import KeyHolder
from core.domain.services.resource_servers import ResourceScope
from core.domain.services.user_keys import (
    HeldUserKey,
    KnownUserKey,
    MadeUserKey,
    OwnedUserKey,
    PlacedUserKey,
    UserKey,
    UserKeyPage,
    UserKeyPlace,
    UserKeySettings,
    UserStanding,
)
from core.domain.tenancy.management_keys import MOST_LISTED, KnownKey

USER_KEY: Final = Columns(
    UserKey,
    "user_keys",
    named={"service": "service_id", "user": "user_id", "resource": "resource_id"},
    texts=("name",),
)
# Which API the keys are for is read with the API, since it may be gone.
USER_KEY_SETTINGS: Final = Columns(UserKeySettings, "user_key_settings", apart=("resource", "resource_id"))
USER_KEYS: Final = KeyTable("user_keys", "service_id", ("resource_id", "scopes", "made_by_key"), maker="user_id")

_Asked = tuple[bytes, bytes]
_Both = tuple[KnownKey[KeyHolder], KnownUserKey | None]
# A list begins below it.
_NEWEST: Final = UUID(int=2**128 - 1)
_OF_API_KEY: Final = len(KnownApiKeyRow._fields)


class _KnownUserKeyRow(NamedTuple):
    id: UUID | None
    user_id: UUID
    name: str
    digest: bytes
    scopes: list[str]
    expires_at: datetime | None
    is_offered: bool
    is_admitted: bool

    def known(self) -> KnownUserKey | None:
        if self.id is None:
            return None
        return KnownUserKey(
            UserKeyId(self.id),
            UserId(self.user_id),
            self.name,
            self.digest,
            tuple(self.scopes),
            self.expires_at,
            self.is_offered,
            self.is_admitted,
        )


def _columns(*columns: Any) -> tuple[Any, ...]:
    return columns


def _settings(columns: dict[str, Any]) -> UserKeySettings:
    """Takes the columns of the settings: nulls if there are none."""
    resource, resource_id = columns.pop("resource"), columns.pop("resource_id")
    return USER_KEY_SETTINGS.taken_or_none(columns, resource=resource, resource_id=resource_id) or UserKeySettings()


def _settings_row(**columns: Any) -> UserKeySettings:
    return _settings(columns)


def _place(*, standing: str, offered: Sequence[Mapping[str, Any]], **columns: Any) -> UserKeyPlace:
    settings = _settings(columns)
    scopes = msgspec.convert(offered, tuple[ResourceScope, ...])
    return UserKeyPlace(settings=settings, offered=scopes, standing=UserStanding(standing), **columns)


def _owned(*, email: str | None, **columns: Any) -> OwnedUserKey | None:
    """None for the row of a service without keys."""
    key = USER_KEY.found(**columns)
    return None if key is None else OwnedUserKey(key, email or "")


def _placed(*, service_slug: str, service_name: str, organization: OrganizationId, **columns: Any) -> PlacedUserKey:
    return PlacedUserKey(USER_KEY.row(**columns), service_slug, service_name, organization)


class PostgresUserKeys:
    """Implements `ports.services.services.UserKeyLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = SharedLookups(self._find)

    async def find(self, api_key: bytes, user_key: bytes) -> _Both | None:
        return await self._known.find((api_key, user_key))

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, _Both]:
        digests, shown = zip(*asked, strict=True)
        parameters = {"digests": array([digest.hex() for digest in digests]), "shown": array([digest.hex() for digest in shown])}
        rows = await ask_in_order(self._pool, _columns, FIND, parameters)
        return {
            asked[place - 1]: (KnownApiKeyRow(*columns[:_OF_API_KEY]).known(), _KnownUserKeyRow(*columns[_OF_API_KEY:]).known())
            for place, *columns in rows
        }


class UserKeyRows(OnStatements):
    """Implements `ports.services.services.UserKeyStore`."""

    async def settings(self, organization: OrganizationId, service_slug: str) -> UserKeySettings | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first(await self._statements.ask(_settings_row, _SETTINGS, parameters))

    async def standing_for(self, service: ServiceId, identifier: str) -> ResourceServerId | None:
        return first_made(
            await self._statements.ask(IdRow, _STANDS, {"service": service, "identifier": storable_text(identifier)}),
            lambda row: ResourceServerId(row.id),
        )

    async def save_settings(self, service: ServiceId, settings: UserKeySettings, at: datetime) -> None:
        parameters = {"service_id": service, "resource_id": settings.resource_id, "updated_at": at}
        await self._statements.tell(_SAVE_SETTINGS, {**USER_KEY_SETTINGS.values(settings), **parameters})

    async def place(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        return first(await self._statements.ask(_place, _PLACE, {"service": service, "user": user}))

    async def place_at(self, organization_slug: str, service_slug: str, user: UserId) -> UserKeyPlace | None:
        parameters = {"organization": storable_text(organization_slug), "slug": storable_text(service_slug), "user": user}
        return first(await self._statements.ask(_place, _PLACE_AT, parameters))

    async def find_target_for_update(self, service: ServiceId, user: UserId) -> UserKeyPlace | None:
        await self._statements.tell(_HOLD_PLACE, {"service": service, "user": user})
        return await self.place(service, user)

    async def lock_creating_key(self, key: ApiKeyId) -> bool:
        return bool(await self._statements.ask(IdRow, "select id from api_keys where id = %(key)s for key share", {"key": key}))

    async def add(self, key: UserKey, digest: bytes) -> int | None:
        values = USER_KEY.values(key)
        parameters = {**values, "service_id": key.service, "user_id": key.user, "resource_id": key.resource, "digest": digest}
        return await added(self._statements, _ADD, parameters)

    async def list(self, service: ServiceId, user: UserId | None, after: UserKeyId | None, limit: int) -> UserKeyPage:
        parameters = {"service": service, "user": user, "after": after or _NEWEST, "limit": limit + 1}
        return _page(await self._statements.ask(_owned, _LIST if user is None else _LIST_OF_USER, parameters), limit)

    async def list_of(self, organization: OrganizationId, service_slug: str, after: UserKeyId | None, limit: int) -> UserKeyPage | None:
        slug = storable_text(service_slug)
        parameters = {"organization": organization, "slug": slug, "after": after or _NEWEST, "limit": limit + 1}
        rows = await self._statements.ask(_owned, _LIST_OF_SERVICE, parameters)
        return _page(rows, limit) if rows else None

    async def find(self, service: ServiceId, key: UserKeyId) -> OwnedUserKey | None:
        return first(await self._statements.ask(_owned, _GET, {"service": service, "id": key}))

    async def delete(self, service: ServiceId, key: UserKeyId, user: UserId | None = None) -> UserKey | None:
        return first(await self._statements.ask(USER_KEY.row, _DELETE, {"service": service, "id": key, "user": user}))

    async def held_by(self, user: UserId, at: datetime) -> Sequence[HeldUserKey]:
        return await self._statements.ask(HeldUserKey, _HELD, {"user": user, "at": at})

    async def made_with(self, service: ServiceId, key: ApiKeyId) -> Sequence[MadeUserKey]:
        return await self._statements.ask(MadeUserKey, _MADE_WITH, {"service": service, "key": key, "limit": MOST_LISTED})

    async def end_made(self, service: ServiceId, key: ApiKeyId) -> Sequence[UserKey]:
        return await self._statements.ask(USER_KEY.row, _END_MADE, {"service": service, "key": key})

    async def delete_held(self, user: UserId, key: UserKeyId) -> PlacedUserKey | None:
        return first(await self._statements.ask(_placed, _DELETE_HELD, {"user": user, "id": key}))

    async def end_held(
        self, user: UserId, at: datetime, *, but: Collection[UserKeyId] | None, organization: OrganizationId | None = None
    ) -> Sequence[PlacedUserKey]:
        parameters = {
            "user": user,
            "at": at,
            "organization": organization,
            "but": None if but is None else array([str(key) for key in but]),
        }
        return await self._statements.ask(_placed, _END_HELD, parameters)

    async def remove_all(self, user: UserId) -> None:
        await self._statements.tell("delete from user_keys where user_id = %(user)s", {"user": user})

    async def service(self, organization: OrganizationId, service_slug: str) -> ServiceId | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first_made(
            await self._statements.ask(IdRow, "select id from services where org_id = %(organization)s and slug = %(slug)s", parameters),
            lambda row: ServiceId(row.id),
        )


def _page(rows: Sequence[OwnedUserKey | None], limit: int) -> UserKeyPage:
    keys = [key for key in rows if key is not None]
    return UserKeyPage(keys[:limit], keys[limit - 1].key.id if len(keys) > limit else None)


# A person may use an application now: as a sign-in decides. The statement reads `users`, `services`, `organizations` and `memberships`.
_MAY_ENTER: Final[LiteralString] = f"""
           users.deactivated_at is null
       and {admits("memberships.user_id is not null", "users.id")}
       and (organizations.mfa_required_since is null and organizations.admin_factor is null and organizations.all_factor is null
            or not {grace_is_over(second_factor_due("users.id"))})
       and not {time_is_over(terms_due("users.id"))}
"""


def _held_scopes(person: LiteralString, shown: LiteralString, among: LiteralString) -> LiteralString:
    """A subquery: the scopes of the API in `resource_servers` that the service stands for, and for which the person holds the permissions.
    `shown` is made of a scope, `scope.own`, and `among` is a further condition on it. Nobody signs in with a key, so it has no scope that
    asks for a proof.
    """
    return f"""
               select {shown}
                 from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                where {among} and {is_held("scope.own", person)} and {asks_nothing("scope.own")}
                order by scope.place
    """


_ITS_SCOPES: Final[LiteralString] = _held_scopes(
    "users.id", "scope.own ->> 'name' as name", "scope.own ->> 'name' = any (user_keys.scopes)"
)

# Both keys at once: each is looked up in its index once. A key of another application is not found, nor one of a person whom others listed
# and who never came: keys of a moved organization may be such.
FIND: Final[LiteralString] = f"""
    select asked.place, {KNOWN}, found.*
      from unnest((select %(digests)s::text[]), (select %(shown)s::text[])) with ordinality as asked (digest, shown, place)
     cross join lateral (
               select * from {API_KEYS.name} where {API_KEYS.name}.digest = decode(asked.digest, 'hex') limit 1
           ) as keys
           {ITS_SERVICE}
      left join lateral (
                select user_keys.id, user_keys.user_id, user_keys.name, user_keys.digest,
                       case
                           when user_keys.resource_id is null then '{{}}'::text[]
                           else array(
                               select held.name
                                 from resource_servers
                                cross join lateral (
                                          {_ITS_SCOPES}
                                      ) as held
                                where resource_servers.id = user_keys.resource_id and resource_servers.service_id = services.id
                                  and {IS_OPEN}
                           )
                       end as scopes,
                       user_keys.expires_at,
                       coalesce(
                           (select enabled from user_key_settings where user_key_settings.service_id = user_keys.service_id), false
                       ) as is_offered,
                       {_MAY_ENTER} as is_admitted
                  from (
                           select * from user_keys where user_keys.digest = decode(asked.shown, 'hex') limit 1
                       ) as user_keys
                 cross join lateral (select * from users where users.id = user_keys.user_id limit 1) as users
                  join service_users on service_users.service_id = user_keys.service_id and service_users.user_id = user_keys.user_id
                   and {has_come()}
                  left join memberships on memberships.org_id = organizations.id and memberships.user_id = users.id and {counts_for()}
                 where user_keys.service_id = services.id
                 limit 1
           ) as found on true
"""

_SETTING: Final[LiteralString] = f"""
           {USER_KEY_SETTINGS.names},
           resource_servers.identifier as resource, resource_servers.id as resource_id
"""
_WITH_SETTINGS: Final = """
      left join user_key_settings on user_key_settings.service_id = services.id
      left join resource_servers on resource_servers.id = user_key_settings.resource_id and resource_servers.service_id = services.id
"""

_SETTINGS: Final[LiteralString] = f"""
    select {_SETTING}
      from services
           {_WITH_SETTINGS}
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_STANDS: Final = """
    select resource_servers.id
      from resource_servers
     where resource_servers.service_id = %(service)s and resource_servers.identifier = %(identifier)s
       for key share
"""

_SAVE_SETTINGS: Final[LiteralString] = f"""
    insert into user_key_settings ({USER_KEY_SETTINGS.into("service_id", "resource_id", "updated_at")})
    values ({USER_KEY_SETTINGS.inserted("service_id", "resource_id", "updated_at")})
        on conflict (service_id) do update
       set {USER_KEY_SETTINGS.replaced()}, resource_id = excluded.resource_id, updated_at = excluded.updated_at
"""

_PLACES: Final[LiteralString] = f"""
    select services.id as service, services.slug as service_slug, services.name as service_name, services.logo_digest as service_logo,
           organizations.id as organization, organizations.slug as organization_slug, organizations.name as organization_name,
           {_SETTING},
           coalesce(
               (
                   select jsonb_agg(held.own) from ({_held_scopes("users.id", "scope.own", IS_OPEN)}) as held
               ),
               '[]'
           ) as offered,
           case
               when service_users.user_id is null then 'stranger'
               when not {has_come()} then 'listed'
               when {_MAY_ENTER} then 'admitted'
               else 'barred'
           end as standing
      from services
      join organizations on organizations.id = services.org_id and organizations.status = 'active'
           {_WITH_SETTINGS}
      left join service_users on service_users.service_id = services.id and service_users.user_id = %(user)s
      left join users on users.id = service_users.user_id
      left join memberships on memberships.org_id = organizations.id and memberships.user_id = users.id and {counts_for()}
"""

_PLACE: Final[LiteralString] = f"{_PLACES} where services.id = %(service)s"
_PLACE_AT: Final[LiteralString] = f"{_PLACES} where organizations.slug = %(organization)s and services.slug = %(slug)s"

_HOLD_PLACE: Final = "select from service_users where service_id = %(service)s and user_id = %(user)s for no key update"

_ADD: Final[LiteralString] = adding(
    USER_KEYS,
    "others.user_id = %(user_id)s and others.service_id = %(service_id)s"
    " and (others.expires_at is null or others.expires_at > %(created_at)s)",
)


_OWNED: Final[LiteralString] = f"""
                select {USER_KEY.names}, (select users.email from users where users.id = user_keys.user_id) as email
                  from user_keys
"""
_LISTED: Final[LiteralString] = f"""{_OWNED}
                 where user_keys.id < %(after)s and user_keys.service_id = {{service}} {{condition}}
                 order by user_keys.id desc
                 limit %(limit)s
"""
_LIST: Final[LiteralString] = _LISTED.format(service="%(service)s", condition="")
_LIST_OF_USER: Final[LiteralString] = _LISTED.format(service="%(service)s", condition="and user_keys.user_id = %(user)s")
_LIST_OF_SERVICE: Final[LiteralString] = f"""
    select listed.*
      from (select id from services where org_id = %(organization)s and slug = %(slug)s) as services
      left join lateral ({_LISTED.format(service="services.id", condition="")}) as listed on true
     order by listed.id desc
"""

_GET: Final[LiteralString] = f"{_OWNED} where user_keys.service_id = %(service)s and user_keys.id = %(id)s"

_DELETE: Final[LiteralString] = f"""
    delete from user_keys
     where user_keys.id = %(id)s and user_keys.service_id = %(service)s
       and (%(user)s::uuid is null or user_keys.user_id = %(user)s::uuid)
 returning {USER_KEY.names}
"""

_HELD: Final = """
    select user_keys.id, user_keys.name, user_keys.prefix, services.slug as service_slug, services.name as service_name,
           organizations.slug as organization_slug, organizations.name as organization_name,
           organizations.status = 'active' as is_open, user_keys.made_by_key is not null as made_by_service,
           user_keys.created_at, user_keys.last_used_at, user_keys.expires_at
      from user_keys
      join services on services.id = user_keys.service_id
      join organizations on organizations.id = services.org_id
     where user_keys.user_id = %(user)s and (user_keys.expires_at is null or user_keys.expires_at > %(at)s)
     order by user_keys.id desc
"""


def _ending(condition: LiteralString) -> LiteralString:
    """Deletes a person's keys, in the order of their ids, as their use is marked. Keys of services that are being deleted go, too, but
    nobody hears of them.
    """
    return f"""
    with user_keys as (
             delete from user_keys
              where user_keys.id in (
                        select user_keys.id
                          from user_keys
                         where user_keys.user_id = %(user)s and {condition}
                         order by user_keys.id
                           for update
                    )
          returning user_keys.*
         )
  select {USER_KEY.names}, services.slug as service_slug, services.name as service_name, services.org_id as organization
    from user_keys
    join services on services.id = user_keys.service_id
   order by user_keys.id desc
"""


_DELETE_HELD: Final[LiteralString] = _ending("user_keys.id = %(id)s")
_END_HELD: Final[LiteralString] = _ending("""
                            (user_keys.expires_at is null or user_keys.expires_at > %(at)s)
                        and case
                                when %(but)s::uuid[] is null then user_keys.made_by_key is null
                                else user_keys.id <> all (%(but)s::uuid[])
                            end
                        and (
                                %(organization)s::uuid is null
                             or user_keys.service_id in (select all_services.id from all_services where org_id = %(organization)s)
                            )
""")

_MADE_BY: Final = "user_keys.service_id = %(service)s and user_keys.made_by_key = %(key)s"

_MADE_WITH: Final[LiteralString] = f"""
    select user_keys.id, user_keys.user_id as user, user_keys.name, user_keys.prefix
      from user_keys
     where {_MADE_BY}
     order by user_keys.id desc
     limit %(limit)s
"""

# In the order of their ids, as their use is marked.
_END_MADE: Final[LiteralString] = f"""
    delete from user_keys
     where user_keys.id in (select user_keys.id from user_keys where {_MADE_BY} order by user_keys.id for update)
 returning {USER_KEY.names}
"""
