"""SIEM configurations in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, SiemId
from core.domain.tenancy.siem import SiemConfiguration, SiemHealth, SiemProvider
from core.frozen import Frozen
from ports.tenancy.receivers import ShownSiem, Stored


class _Configuration(Frozen):
    id: UUID
    org_id: UUID
    name: str
    provider_type: str
    endpoint_url: str
    sealed_credentials: bytes | None
    batch_size: int
    is_active: bool
    created_at: datetime
    updated_at: datetime

    def configuration(self) -> SiemConfiguration:
        return SiemConfiguration(
            id=SiemId(self.id),
            organization=OrganizationId(self.org_id),
            name=self.name,
            provider=SiemProvider(self.provider_type),
            endpoint_url=self.endpoint_url,
            batch_size=self.batch_size,
            is_active=self.is_active,
            has_credentials=self.sealed_credentials is not None,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def stored(self) -> Stored:
        return Stored(self.configuration(), self.sealed_credentials)


class _Health(Frozen):
    last_delivered_at: datetime | None
    last_error: str | None
    lag: int
    lag_seconds: int

    def health(self) -> SiemHealth:
        return SiemHealth(self.last_delivered_at, self.last_error, self.lag, self.lag_seconds)


class _Shown(_Configuration):
    last_delivered_at: datetime | None
    last_error: str | None
    lag: int
    lag_seconds: int

    def health(self) -> SiemHealth:
        return SiemHealth(self.last_delivered_at, self.last_error, self.lag, self.lag_seconds)


class SiemRows(OnStatements):
    """Implements `ports.tenancy.receivers.SiemStore`."""

    async def find(self, organization: OrganizationId) -> ShownSiem | None:
        return first_made(
            await self._statements.ask(_Shown, _SHOWN, {"organization": organization}),
            lambda row: ShownSiem(row.configuration(), row.health()),
        )

    async def stored(self, organization: OrganizationId) -> Stored | None:
        return first_made(await self._statements.ask(_Configuration, _GET, {"organization": organization}), _Configuration.stored)

    async def hold(self, organization: OrganizationId) -> Stored | None:
        return first_made(await self._statements.ask(_Configuration, _HOLD, {"organization": organization}), _Configuration.stored)

    async def save(self, configuration: SiemConfiguration, sealed_credentials: bytes | None) -> None:
        await self._statements.tell(
            _SAVE,
            {
                "id": configuration.id,
                "organization": configuration.organization,
                "name": storable_text(configuration.name),
                "provider_type": configuration.provider.value,
                "endpoint_url": configuration.endpoint_url,
                "sealed": sealed_credentials,
                "batch_size": configuration.batch_size,
                "is_active": configuration.is_active,
                "created_at": configuration.created_at,
                "updated_at": configuration.updated_at,
            },
        )

    async def delete(self, configuration: SiemId) -> None:
        await self._statements.tell("delete from siem_configurations where id = %(id)s", {"id": configuration})

    async def health(self, configuration: SiemId) -> SiemHealth:
        return only(await self._statements.ask(_Health, _OF_ONE, {"id": configuration})).health()


_COLUMNS: Final = "id, org_id, name, provider_type, endpoint_url, sealed_credentials, batch_size, is_active, created_at, updated_at"

_GET: Final[LiteralString] = f"select {_COLUMNS} from siem_configurations where org_id = %(organization)s"

_HOLD: Final[LiteralString] = f"{_GET} for no key update"

# A change ends the lease. So a batch that a forwarder is sending under the previous configuration does not count as received.
_SAVE: Final = """
    insert into siem_configurations as existing (id, org_id, name, provider_type, endpoint_url, sealed_credentials, batch_size, is_active,
                                                 created_at, updated_at)
    values (%(id)s, %(organization)s, %(name)s, %(provider_type)s, %(endpoint_url)s, %(sealed)s, %(batch_size)s, %(is_active)s,
            %(created_at)s, %(updated_at)s)
        on conflict (id) do update
       set name = excluded.name, provider_type = excluded.provider_type, endpoint_url = excluded.endpoint_url,
           sealed_credentials = excluded.sealed_credentials, batch_size = excluded.batch_size, is_active = excluded.is_active,
           updated_at = excluded.updated_at, failures = 0, last_error = null, next_at = now(), lease = null, leased_until = null
"""

# Each subquery reads one row through an index.
_HEALTH: Final[LiteralString] = """
           last_delivered_at, last_error,
           (greatest(coalesce(ends.sequence, 0) - audit_sequence, 0) + greatest(sign_ins - sign_in_sequence, 0))::bigint as lag,
           greatest(extract(epoch from now() - least(next_entry.created_at, next_sign_in.created_at)), 0)::bigint as lag_seconds
      from siem_configurations as configurations
      left join lateral (
               select sequence from audit_links where chain_id = configurations.org_id order by sequence desc limit 1
           ) as ends on true
      left join lateral (
               select audit_entries.created_at
                 from audit_links
                 join audit_entries on audit_entries.id = audit_links.entry_id
                where audit_links.chain_id = configurations.org_id and audit_links.sequence = configurations.audit_sequence + 1
           ) as next_entry on true
      left join lateral (
               select created_at
                 from sign_in_links
                where export_id = configurations.id and sequence = configurations.sign_in_sequence + 1
           ) as next_sign_in on true
"""

_OF_ONE: Final[LiteralString] = f"select {_HEALTH} where configurations.id = %(id)s"

_SHOWN: Final[LiteralString] = f"""
    select configurations.id, configurations.org_id, name, provider_type, endpoint_url, sealed_credentials, batch_size, is_active,
           configurations.created_at, updated_at, {_HEALTH}
     where configurations.org_id = %(organization)s
"""
