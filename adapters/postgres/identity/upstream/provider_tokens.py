"""The grants of services at providers, in PostgreSQL. The caller has already sealed (encrypted) the tokens."""

from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.upstream.ways import Parts, WayRow, of_each_kind, provider_parameters
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import IdentityGrantId, IdentityId, ServiceId, UserId
from core.domain.identity.upstream.identities import IdentityGrant
from core.domain.identity.upstream.providers import origin_of
from ports.identity.upstream import GrantFound


class _Found(WayRow, kw_only=True):
    grant_id: UUID | None
    identity_id: UUID | None
    granted_to: str | None
    scopes: list[str] | None
    sealed_access_token: bytes | None
    sealed_refresh_token: bytes | None
    expires_at: datetime | None
    refreshing_until: datetime | None
    updated_at: datetime | None

    def found(self) -> GrantFound:
        return GrantFound(way=self.way(), grant=self._grant())

    def _grant(self) -> IdentityGrant | None:
        if self.grant_id is None or self.identity_id is None or self.service_id is None:
            return None
        return IdentityGrant(
            id=IdentityGrantId(self.grant_id),
            identity=IdentityId(self.identity_id),
            service=ServiceId(self.service_id),
            client_id=self.granted_to or "",
            scopes=tuple(self.scopes or ()),
            sealed_access_token=self.sealed_access_token,
            sealed_refresh_token=self.sealed_refresh_token,
            expires_at=self.expires_at,
            refreshing_until=self.refreshing_until,
            updated_at=self.updated_at,
        )


class IdentityGrantRows(OnStatements):
    """Implements `ports.identity.upstream.IdentityGrantStore`."""

    async def find(self, user: UserId, provider: str, organization: str, service: str) -> GrantFound:
        parameters = {
            **provider_parameters(provider),
            "user": user,
            "organization": storable_text(organization),
            "service_slug": storable_text(service),
        }
        return only(await self._statements.ask(_Found, _FIND[origin_of(provider)], parameters)).found()

    async def is_renewable(self, grant: IdentityGrantId, client: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_RENEWABLE, {"id": grant, "client": client})).yes

    async def keep(self, grant: IdentityGrant, at: datetime, *, replaces: bool = True) -> None:
        await self._statements.tell_along(
            _KEEP,
            {
                "id": grant.id,
                "identity": grant.identity,
                "service": grant.service,
                "client": grant.client_id,
                "scopes": list(grant.scopes),
                "access": grant.sealed_access_token,
                "refresh": grant.sealed_refresh_token,
                "expires_at": grant.expires_at,
                "at": at,
                "replaces": replaces,
            },
        )

    async def remove(self, identity: IdentityId, service: ServiceId) -> None:
        await self._statements.tell(_REMOVE, {"identity": identity, "service": service})

    async def lease(self, grant: IdentityGrant, now: datetime, until: datetime) -> bool:
        parameters = {"id": grant.id, "updated_at": grant.updated_at, "now": now, "until": until}
        return bool(await self._statements.ask(IdRow, _LEASE, parameters))

    async def renew(self, grant: IdentityGrant, leased_until: datetime, at: datetime) -> bool:
        parameters = {
            "id": grant.id,
            "access": grant.sealed_access_token,
            "refresh": grant.sealed_refresh_token,
            "scopes": list(grant.scopes),
            "expires_at": grant.expires_at,
            "leased_until": leased_until,
            "at": at,
        }
        return bool(await self._statements.ask(IdRow, _RENEW, parameters))

    async def give_up(self, grant: IdentityGrantId, leased_until: datetime, *, ended: bool) -> None:
        await self._statements.tell(_GIVE_UP, {"id": grant, "leased_until": leased_until, "ended": ended})


_IS_RENEWABLE: Final = """
    select exists (
               select from identity_grants where id = %(id)s and client_id = %(client)s and sealed_refresh_token is not null
           ) as yes
"""

_KEEP: Final = """
    insert into identity_grants (id, identity_id, service_id, client_id, scopes, sealed_access_token, sealed_refresh_token, expires_at,
                                 updated_at)
    select %(id)s, %(identity)s, services.id, %(client)s, %(scopes)s, %(access)s, %(refresh)s, %(expires_at)s, %(at)s
      from services
     where services.id = %(service)s
       for key share
        on conflict (id) do update
       set client_id = excluded.client_id, scopes = excluded.scopes, sealed_access_token = excluded.sealed_access_token,
           sealed_refresh_token = case
               when identity_grants.client_id = excluded.client_id and excluded.sealed_access_token is not null
               then coalesce(excluded.sealed_refresh_token, identity_grants.sealed_refresh_token)
               else excluded.sealed_refresh_token
           end,
           expires_at = excluded.expires_at, refreshing_until = null, updated_at = excluded.updated_at
     where %(replaces)s
"""

_REMOVE: Final = "delete from identity_grants where identity_id = %(identity)s and service_id = %(service)s"

_LEASE: Final = """
    update identity_grants
       set refreshing_until = %(until)s
     where id = %(id)s
       and updated_at = %(updated_at)s
       and sealed_refresh_token is not null
       and (refreshing_until is null or refreshing_until <= %(now)s)
 returning id
"""

_RENEW: Final = """
    update identity_grants
       set sealed_access_token = %(access)s, sealed_refresh_token = coalesce(%(refresh)s, sealed_refresh_token),
           scopes = %(scopes)s, expires_at = %(expires_at)s, refreshing_until = null, updated_at = %(at)s
     where id = %(id)s and refreshing_until = %(leased_until)s
 returning id
"""

_GIVE_UP: Final = """
    update identity_grants
       set refreshing_until = null,
           sealed_refresh_token = case when %(ended)s then null else sealed_refresh_token end
     where id = %(id)s and refreshing_until = %(leased_until)s
"""


def _find(parts: Parts) -> LiteralString:
    return f"""
    select {parts.way},
           grants.id as grant_id, identities.id as identity_id, grants.client_id as granted_to, grants.scopes, grants.sealed_access_token,
           grants.sealed_refresh_token, grants.expires_at, grants.refreshing_until, grants.updated_at
      from (values (true)) as this (way)
           {parts.places("homes.slug = %(organization)s", "services.org_id = homes.id and services.slug = %(service_slug)s", "false")}
      left join identities on identities.user_id = %(user)s and identities.provider = %(provider)s
      left join identity_grants as grants on grants.identity_id = identities.id and grants.service_id = services.id
"""


_FIND: Final = of_each_kind(_find)
