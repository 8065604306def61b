"""What Postern does with connections by itself, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.identity.upstream.saml_settings import kept_settings
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.tenancy.upstream_providers import PROVIDER, provider_of
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.refreshes import ConnectionEnding, RefreshFault
from core.domain.tenancy.upstream_providers import UpstreamProvider
from ports.tenancy.connections import ConnectionsEnding, DueConnection
from ports.tenancy.receivers import Owner


def _due(*, organization_slug: str | None, is_active_organization: bool | None, **columns: Any) -> DueConnection:
    # An organization that was deleted meanwhile has neither a slug nor a state.
    return DueConnection(provider_of(**columns), organization_slug or "", bool(is_active_organization))


class ConnectionRefreshRows(OnStatements):
    """Implements `ports.tenancy.connections.ConnectionRefreshStore`."""

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[DueConnection]:
        return await self._statements.ask(_due, _CLAIM_DUE, {"at": at, "until": until, "limit": limit})

    async def counted(self, now: datetime, soon: datetime, failing_before: datetime, *, urgent: datetime) -> ConnectionsEnding:
        parameters = {"now": now, "soon": soon, "failing_before": failing_before, "urgent": urgent}
        return only(await self._statements.ask(ConnectionsEnding, _COUNTED, parameters))

    async def hold(self, provider: UpstreamProviderId) -> UpstreamProvider | None:
        return first(await self._statements.ask(provider_of, _HOLD, {"id": provider}))

    async def read(self, provider: UpstreamProvider, at: datetime, next_turn: datetime) -> None:
        await self._statements.tell(_READ, {**_kept(provider), "at": at, "next": next_turn})

    async def decided(self, provider: UpstreamProvider) -> None:
        await self._statements.tell(_DECIDED, _kept(provider))

    async def failed(self, provider: UpstreamProviderId, fault: RefreshFault, at: datetime, next_turn: datetime) -> None:
        await self._statements.tell(_FAILED, {"id": provider, "fault": fault.value, "at": at, "next": next_turn})

    async def put_off(self, provider: UpstreamProviderId, next_turn: datetime) -> None:
        await self._statements.tell(_PUT_OFF, {"id": provider, "next": next_turn})

    async def dated(self, provider: UpstreamProviderId, certificate: str, until: datetime) -> None:
        await self._statements.tell(_DATED, {"id": provider, "certificate": certificate, "until": until})

    async def warned(self, provider: UpstreamProviderId, ending: ConnectionEnding, ends_at: datetime, days: int) -> bool:
        parameters = {"id": provider, "ending": ending.value, "ends_at": ends_at, "days": days}
        return bool(await self._statements.ask(IdRow, _WARNED, parameters))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


def _kept(provider: UpstreamProvider) -> Mapping[str, Any]:
    return {
        "id": provider.id,
        "saml": None if provider.saml is None else Jsonb(storable(kept_settings(provider.saml))),
        "tested_digest": provider.tested_digest,
    }


_CLAIM_DUE: Final[LiteralString] = f"""
    with claimed as (
             update upstream_providers
                set refresh_at = %(until)s
              where id = any (array(
                        select id
                          from upstream_providers
                         where refresh_at <= %(at)s
                         order by refresh_at
                         limit %(limit)s
                           for no key update skip locked
                    ))
          returning *
         )
    select {PROVIDER},
           (select slug from organizations where organizations.id = upstream_providers.org_id) as organization_slug,
           (select status = 'active' from organizations where organizations.id = upstream_providers.org_id) as is_active_organization
      from claimed as upstream_providers
     order by id
"""

# An end within thirty days that has a successor is none: ours, when the next one is made.
ENDS_SOON: Final = """
    upstream_providers.kind = 'saml' and upstream_providers.enabled
    and (
        not exists (
            select
              from jsonb_array_elements(upstream_providers.saml -> 'certificates') as one
             where (one ->> 'valid_until')::timestamptz >= %(soon)s
        )
        or upstream_providers.certificate_until < %(soon)s and upstream_providers.next_certificate is null
    )
"""

WAITS: Final = "jsonb_array_length(upstream_providers.saml -> 'waiting') > 0 and upstream_providers.state <> 'draft'"

_COUNTED: Final[LiteralString] = f"""
    select count(*) filter (where {ENDS_SOON})::int as ending,
           count(*) filter (where {ENDS_SOON.replace("%(soon)s", "%(urgent)s")})::int as urgent,
           count(*) filter (where {WAITS})::int as waiting,
           count(*) filter (where upstream_providers.failing_since < %(failing_before)s)::int as failing
      from upstream_providers
      join organizations on organizations.id = upstream_providers.org_id and organizations.status = 'active'
     where upstream_providers.state <> 'draft'
"""

_HOLD: Final[LiteralString] = f"select {PROVIDER} from upstream_providers where id = %(id)s for no key update"

_READ: Final = """
    update upstream_providers
       set saml = %(saml)s, tested_digest = %(tested_digest)s, refreshed_at = %(at)s, refresh_fault = null, failing_since = null,
           refresh_at = %(next)s
     where id = %(id)s
"""

_DECIDED: Final = "update upstream_providers set saml = %(saml)s, tested_digest = %(tested_digest)s where id = %(id)s"

_FAILED: Final = """
    update upstream_providers
       set refresh_fault = %(fault)s, failing_since = coalesce(failing_since, %(at)s), refresh_at = %(next)s
     where id = %(id)s
"""

_PUT_OFF: Final = "update upstream_providers set refresh_at = %(next)s where id = %(id)s"

_DATED: Final = "update upstream_providers set certificate_until = %(until)s where id = %(id)s and certificate = %(certificate)s"

_WARNED: Final = """
    insert into connection_warnings as warnings (upstream_provider_id, ending, ends_at, days)
    values (%(id)s, %(ending)s, %(ends_at)s, %(days)s)
        on conflict (upstream_provider_id, ending) do update
       set ends_at = excluded.ends_at, days = excluded.days
     where warnings.ends_at <> excluded.ends_at or warnings.days > excluded.days
 returning upstream_provider_id as id
"""
