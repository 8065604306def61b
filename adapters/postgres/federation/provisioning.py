"""Connections outwards in PostgreSQL, as members draft them and owners make them active."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, IdRow, storable, storable_text
from adapters.postgres.statements import OnStatements, first, first_made
from core.domain.federation.provisioning.connections import (
    MappedAttribute,
    ProvisioningConnection,
    ProvisioningSource,
)
from core.domain.federation.provisioning.runs import PROVISIONING_TOPIC
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, TeamId
from core.frozen import Frozen
from ports.federation.provisioning import ServiceProvisioning


def mapping_of(kept: Sequence[Mapping[str, Any]]) -> tuple[MappedAttribute, ...]:
    return tuple(MappedAttribute(one["attribute"], ProvisioningSource(one["source"]), one.get("argument")) for one in kept)


def _kept_mapping(mapping: Sequence[MappedAttribute]) -> Jsonb:
    return Jsonb(
        [
            {
                "attribute": one.attribute,
                "source": one.source.value,
                **({} if one.argument is None else {"argument": storable(one.argument)}),
            }
            for one in mapping
        ]
    )


CONNECTION: Final = Columns(
    ProvisioningConnection,
    "provisioning_connections",
    named={"organization": "org_id", "service": "service_id", "teams": "team_ids"},
    texts=("base_url", "attributes_left_out", "people_url"),
    turned={"mapping": (mapping_of, _kept_mapping)},
    prefix="connection_",
)


def _of_service(*, service: UUID, active_there: int, **columns: Any) -> ServiceProvisioning:
    return ServiceProvisioning(ServiceId(service), CONNECTION.found(**columns), active_there)


class _Host(Frozen):
    host: str


class ProvisioningConnectionRows(OnStatements):
    """Implements `ports.federation.provisioning.ProvisioningConnectionStore`."""

    async def find(self, organization: OrganizationId, service_slug: str) -> ServiceProvisioning | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first(await self._statements.ask(_of_service, _FIND, parameters))

    async def find_for_update(self, service: ServiceId) -> ProvisioningConnection | None:
        return first(await self._statements.ask(CONNECTION.row, _HOLD, {"service": service}))

    async def add(self, connection: ProvisioningConnection, sealed_token: bytes | None) -> None:
        await self._statements.tell(_ADD, {**CONNECTION.values(connection), "sealed_token": sealed_token})

    async def save(self, connection: ProvisioningConnection, *, keeps_token: bool, sealed_token: bytes | None) -> None:
        parameters = {**CONNECTION.values(connection), "keeps_token": keeps_token, "sealed_token": sealed_token}
        await self._statements.tell(_SAVE, parameters)
        await self._statements.tell(_INTERRUPTED, {"connection": connection.id, "at": connection.changed_at})
        self._statements.ring(PROVISIONING_TOPIC)

    async def forget_people(self, connection: ProvisioningConnectionId) -> None:
        await self._statements.tell("delete from provisioned_people where connection_id = %(id)s", {"id": connection})

    async def delete(self, connection: ProvisioningConnectionId) -> None:
        await self._statements.tell("delete from provisioning_connections where id = %(id)s", {"id": connection})

    async def teams(self, organization: OrganizationId, teams: Collection[TeamId]) -> Collection[TeamId]:
        statement = "select id from teams where org_id = %(organization)s and id = any(%(teams)s::uuid[])"
        found = await self._statements.ask(IdRow, statement, {"organization": organization, "teams": list(teams)})
        return {TeamId(one.id) for one in found}

    async def directories(self, organization: OrganizationId) -> Sequence[str]:
        return [one.host for one in await self._statements.ask(_Host, _DIRECTORIES, {"organization": organization})]

    async def find_organization_by_scim_token(self, digest: bytes) -> OrganizationId | None:
        statement = "select org_id as id from scim_tokens where digest = %(digest)s"
        return first_made(await self._statements.ask(IdRow, statement, {"digest": digest}), lambda row: OrganizationId(row.id))


_FIND: Final[LiteralString] = f"""
    select services.id as service, {CONNECTION.names_in("connections")},
           (
               select count(*) from provisioned_people as people
                where people.connection_id = connections.id and people.active and people.far_id is not null
           )::int as active_there
      from services
      left join provisioning_connections as connections on connections.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_HOLD: Final[LiteralString] = f"""
    select {CONNECTION.names} from provisioning_connections where service_id = %(service)s for update
"""

_ADD: Final[LiteralString] = f"""
    insert into provisioning_connections ({CONNECTION.into("sealed_token")}) values ({CONNECTION.inserted("sealed_token")})
"""

_SAVE: Final[LiteralString] = f"""
    update provisioning_connections
       set {CONNECTION.changes("id", "organization", "service", "made_at")},
           sealed_token = case when %(keeps_token)s then sealed_token else %(sealed_token)s end,
           holder = null, leased_until = null, again_at = null, turn_over_at = null,
           whole_due_at = case when %(state)s = 'active' then %(changed_at)s else whole_due_at end
     where id = %(id)s
"""

# Nobody goes on with it, and the list of runs says so.
_INTERRUPTED: Final = """
    with interrupted as (
             update provisioning_runs
                set state = 'failed', why = 'interrupted', ended_at = %(at)s
              where connection_id = %(connection)s and state = 'running'
         )
    delete from provisioning_progress where connection_id = %(connection)s
"""

# `ldaps://dc1.example.org:636`, as it was typed.
_DIRECTORIES: Final = """
    select hosts.host
      from upstream_providers
      join lateral jsonb_array_elements_text(upstream_providers.ldap -> 'hosts') as hosts (host) on true
     where upstream_providers.org_id = %(organization)s and upstream_providers.kind = 'ldap'
"""
