"""The look-up behind each request to an application behind a proxy: the application, its rules, and who comes, in one statement."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import array_of_texts, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import IS_LIVE, hooks_against
from adapters.postgres.identity.terms import terms_due, time_is_over
from adapters.postgres.services.service_roles import roles_held
from adapters.postgres.services.services import ClientIdRow, is_open, nearest_owner
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask, ask_in_order
from adapters.postgres.tenancy.roles import teams_of
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, counts_for, has_come, shown_name
from core.domain.federation.proxy_checks import FoundProxy, ProxiedPerson, ProxiedRequest, asked_scopes
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ServiceId, SessionId, UserId, UserKeyId
from core.domain.services.clients import shown
from core.domain.services.proxies import USUAL_HEADERS, ProxySettings, domains_above
from core.domain.services.user_keys import KnownUserKey

# The different sets of roles that people of busy applications hold, and the different settings of busy applications.
_HELD: Final = 1024
_SET: Final = 256

_Asked = tuple[bytes, str, bytes, bytes]


class _Row(NamedTuple):
    """The columns of `FIND`, in their order."""

    place: int
    secret: UUID
    service: UUID
    organization: UUID
    organization_slug: str
    service_slug: str
    service_name: str
    client: str
    rules: list[str] | None
    headers: list[str] | None
    idle_minutes: int | None
    is_active: bool
    has_host: bool
    session: UUID | None
    parent: UUID | None
    last_seen_at: datetime | None
    session_scopes: list[str] | None
    key: UUID | None
    key_name: str | None
    key_digest: bytes | None
    key_expires_at: datetime | None
    keys_are_on: bool | None
    user: UUID | None
    email: str | None
    email_is_verified: bool | None
    name: str | None
    username: str | None
    consented: list[str] | None
    is_trusted: bool | None
    roles: str | None
    groups: list[str] | None
    is_admitted: bool | None
    owes_second_factor: bool | None

    def found(self) -> FoundProxy:
        settings = _settings(tuple(self.rules or ()), None if self.headers is None else tuple(self.headers), self.idle_minutes)
        return FoundProxy(
            secret=ClientSecretId(self.secret),
            service=ServiceId(self.service),
            organization=OrganizationId(self.organization),
            organization_slug=self.organization_slug,
            service_slug=self.service_slug,
            service_name=self.service_name,
            client=shown(ClientId(self.client)),
            settings=settings,
            is_active=self.is_active,
            has_host=self.has_host,
            person=None if self.user is None else self._person(UserId(self.user), settings),
        )

    def _person(self, user: UserId, settings: ProxySettings) -> ProxiedPerson:
        key = None
        if self.session is None and self.key is not None:
            key = KnownUserKey(
                UserKeyId(self.key),
                user,
                self.key_name or "",
                self.key_digest or b"",
                (),
                self.key_expires_at,
                bool(self.keys_are_on),
                bool(self.is_admitted) and not self.owes_second_factor,
            )
        roles, permissions = _rights(self.roles)
        # The organization answers for its trusted applications, as a sign-in does.
        consented = self.consented or (asked_scopes(settings) if self.is_trusted else ())
        return ProxiedPerson(
            user=user,
            session=None if self.session is None else SessionId(self.session),
            parent=None if self.parent is None else SessionId(self.parent),
            last_seen_at=self.last_seen_at,
            key=key,
            email=self.email or "",
            email_is_verified=bool(self.email_is_verified),
            name=self.name or "",
            username=self.username or "",
            scopes=(self.session_scopes or ()) if key is None else consented,
            roles=roles,
            permissions=permissions,
            groups=self.groups or (),
            is_admitted=bool(self.is_admitted),
            owes_second_factor=bool(self.owes_second_factor),
        )


@lru_cache(maxsize=_SET)
def _settings(rules: tuple[str, ...], headers: tuple[str, ...] | None, idle_minutes: int | None) -> ProxySettings:
    return ProxySettings(rules=rules, headers=USUAL_HEADERS if headers is None else headers, idle_minutes=idle_minutes)


@lru_cache(maxsize=_HELD)
def _rights(found: str | None) -> tuple[Sequence[str], Sequence[str]]:
    held = () if found is None else json.loads(found)
    return tuple(sorted(slug for slug, _ in held)), tuple(sorted({one for _, permissions in held for one in permissions}))


class PostgresProxies:
    """Implements `ports.federation.oauth.ProxyLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = SharedLookups(self._find)

    async def find(self, request: ProxiedRequest) -> FoundProxy | None:
        return await self._known.find((request.secret, request.host, request.cookie, request.key))

    async def client_at(self, host: str) -> ClientId | None:
        rows = await ask(self._pool, ClientIdRow, _CLIENT_AT, {"host": storable_text(host)})
        return ClientId(rows[0].client_id) if rows else None

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, FoundProxy]:
        hosts = [storable_text(host) for _, host, _, _ in asked]
        parameters = {
            "secrets": array_of_texts([secret.hex() for secret, _, _, _ in asked]),
            "hosts": array_of_texts(hosts),
            "above": array_of_texts([" ".join(domains_above(host)) for host in hosts]),
            "cookies": array_of_texts([cookie.hex() for _, _, cookie, _ in asked]),
            "keys": array_of_texts([key.hex() for _, _, _, key in asked]),
        }
        return {asked[row.place - 1]: row.found() for row in await ask_in_order(self._pool, _Row, FIND, parameters)}


_CLIENT_AT: Final = """
    select services.oauth_client_id as client_id
      from proxy_hosts
      join services on services.id = proxy_hosts.service_id
     where proxy_hosts.host = %(host)s
"""

# The statement looks into each index once for each question, as those of `adapters/postgres/tenancy/callers.py` do.
FIND: Final[LiteralString] = f"""
    select asked.place, secrets.id, services.id, services.org_id, organizations.slug, services.slug, services.name,
           services.oauth_client_id,
           proxies.rules, proxies.headers, proxies.idle_minutes,
           organizations.status = 'active', coalesce(hosts.is_open, false),
           sessions.id, sessions.parent_id, sessions.last_seen_at, sessions.scopes,
           user_keys.id, user_keys.name, user_keys.digest, user_keys.expires_at,
           user_keys.id is not null and coalesce(
               (select enabled from user_key_settings where user_key_settings.service_id = user_keys.service_id), false
           ),
           users.id, users.email, {is_verified_for("services.org_id")}, {shown_name("users")}, users.username,
           case when user_keys.id is not null then (
               select consents.scopes from consents where consents.user_id = users.id and consents.service_id = services.id
           ) end,
           services.trusted and {IS_OWN_MEMBERSHIP},
           case when users.id is not null then (
               select json_agg(json_build_array(held.slug, held.permissions))::text
                 from ({roles_held("users.id", "services.org_id", "services.id")}) as held
           ) end,
           case when users.id is not null then array(
               select teams.slug
                 from ({teams_of("users.id", "services.org_id")}) as joined
                 join teams on teams.id = joined.team_id
                order by teams.slug
           ) end,
           users.id is not null and {admits("memberships.role is not null", "users.id")}
           and (sessions.id is null or {hooks_against("services.org_id", "users.id", "services.id", looks_at_age=False)} is null),
           {grace_is_over(second_factor_due("users.id", "sessions"))} or {time_is_over(terms_due("users.id"))}
      from unnest(
               (select %(secrets)s::text[]), (select %(hosts)s::text[]), (select %(above)s::text[]), (select %(cookies)s::text[]),
               (select %(keys)s::text[])
           ) with ordinality as asked (secret, host, above, cookie, key, place)
     cross join lateral (
               select id, service_id from client_secrets where client_secrets.digest = decode(asked.secret, 'hex') limit 1
           ) as secrets
     cross join lateral (
               select * from services where services.id = secrets.service_id and services.service_type = 'proxy' limit 1
           ) as services
     cross join lateral (select * from organizations where organizations.id = services.org_id limit 1) as organizations
      left join lateral (select * from proxies where proxies.service_id = services.id limit 1) as proxies on true
      left join lateral (
                select {is_open(nearest_owner("asked.above"), "services.org_id")} as is_open
                  from proxy_hosts
                 where proxy_hosts.host = asked.host and proxy_hosts.service_id = services.id
                 limit 1
           ) as hosts on true
      left join lateral (
                select sessions.*
                  from (
                           select session_id from refresh_tokens where refresh_tokens.digest = decode(asked.cookie, 'hex') limit 1
                       ) as cookies
                 cross join lateral (select * from sessions where sessions.id = cookies.session_id limit 1) as sessions
                 cross join lateral (select * from users where users.id = sessions.user_id limit 1) as users
                 where asked.cookie <> '' and hosts.is_open and sessions.service_id = services.id and sessions.impersonator_id is null
                   and not services.is_agent and coalesce(sessions.created_at >= services.agent_since, true)
                   and {IS_LIVE}
           ) as sessions on true
      left join lateral (
                select user_keys.*
                  from (select * from user_keys where user_keys.digest = decode(asked.key, 'hex') limit 1) as user_keys
                  join service_users on service_users.service_id = user_keys.service_id and service_users.user_id = user_keys.user_id
                   and {has_come()}
                 where asked.key <> '' and hosts.is_open and user_keys.service_id = services.id and user_keys.scopes = '{{}}'
                   and sessions.id is null
           ) as user_keys on true
      left join lateral (
                select *
                  from users
                 where users.id = coalesce(sessions.user_id, user_keys.user_id) and users.deactivated_at is null
                 limit 1
           ) as users on true
      left join lateral (
                select * from memberships where memberships.org_id = services.org_id and memberships.user_id = users.id and {counts_for()}
                 limit 1
           ) as memberships on true
"""
