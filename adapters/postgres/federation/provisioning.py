"""Connections outwards in PostgreSQL, as members draft them and owners make them active."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import IdRow, array_of_texts, storable, storable_text
from adapters.postgres.statements import OnStatements, first, first_made
from core.domain.federation.provisioning.connections import (
    MappedAttribute,
    ProvisioningConnection,
    ProvisioningPreset,
    ProvisioningSource,
    ProvisioningState,
)
from core.domain.federation.provisioning.runs import PROVISIONING_TOPIC
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, TeamId
from core.frozen import Frozen
from ports.federation.provisioning import ServiceProvisioning


class _Connection(Frozen, kw_only=True):
    service: UUID
    id: UUID | None
    org_id: UUID | None
    preset: str | None
    base_url: str | None
    token_set_at: datetime | None
    mapping: Sequence[Mapping[str, Any]] | None
    attributes_left_out: Sequence[str] | None
    team_ids: Sequence[UUID] | None
    state: str | None
    stopped_why: str | None
    active_digest: bytes | None
    people_url: str | None
    made_at: datetime | None
    changed_at: datetime | None
    failing_since: datetime | None
    active_there: int

    def connection(self) -> ProvisioningConnection | None:
        if self.id is None or self.preset is None or self.state is None:
            return None
        assert self.org_id is not None and self.made_at is not None and self.changed_at is not None  # noqa: S101, PT018 - the row is there
        return ProvisioningConnection(
            id=ProvisioningConnectionId(self.id),
            organization=OrganizationId(self.org_id),
            service=ServiceId(self.service),
            preset=ProvisioningPreset(self.preset),
            base_url=self.base_url or "",
            token_set_at=self.token_set_at,
            mapping=tuple(
                MappedAttribute(one["attribute"], ProvisioningSource(one["source"]), one.get("argument")) for one in self.mapping or ()
            ),
            attributes_left_out=tuple(self.attributes_left_out or ()),
            teams=None if self.team_ids is None else tuple(map(TeamId, self.team_ids)),
            state=ProvisioningState(self.state),
            stopped_why=self.stopped_why,
            active_digest=self.active_digest,
            people_url=self.people_url,
            made_at=self.made_at,
            changed_at=self.changed_at,
            failing_since=self.failing_since,
        )

    def kept(self) -> ServiceProvisioning:
        return ServiceProvisioning(ServiceId(self.service), self.connection(), self.active_there)


class _Host(Frozen):
    host: str


class ProvisioningConnectionRows(OnStatements):
    """Implements `ports.federation.provisioning.ProvisioningConnectionStore`."""

    async def find(self, organization: OrganizationId, service_slug: str) -> ServiceProvisioning | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first_made(await self._statements.ask(_Connection, _FIND, parameters), _Connection.kept)

    async def hold(self, service: ServiceId) -> ProvisioningConnection | None:
        found = first(await self._statements.ask(_Connection, _HOLD, {"service": service}))
        return None if found is None else found.connection()

    async def add(self, connection: ProvisioningConnection, sealed_token: bytes | None) -> None:
        await self._statements.tell(_ADD, {**_values(connection), "token": sealed_token})

    async def save(self, connection: ProvisioningConnection, *, keeps_token: bool, sealed_token: bytes | None) -> None:
        parameters = {**_values(connection), "keeps_token": keeps_token, "token": sealed_token}
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

    async def takes_from(self, digest: bytes) -> OrganizationId | None:
        statement = "select org_id as id from scim_tokens where digest = %(digest)s"
        return first_made(await self._statements.ask(IdRow, statement, {"digest": digest}), lambda row: OrganizationId(row.id))


def _values(connection: ProvisioningConnection) -> Mapping[str, Any]:
    return {
        "id": connection.id,
        "organization": connection.organization,
        "service": connection.service,
        "preset": connection.preset.value,
        "base_url": storable_text(connection.base_url),
        "token_set_at": connection.token_set_at,
        "mapping": Jsonb(
            [
                {
                    "attribute": one.attribute,
                    "source": one.source.value,
                    **({} if one.argument is None else {"argument": storable(one.argument)}),
                }
                for one in connection.mapping
            ]
        ),
        "left_out": array_of_texts(connection.attributes_left_out),
        "teams": None if connection.teams is None else list(connection.teams),
        "state": connection.state.value,
        "stopped_why": connection.stopped_why,
        "active_digest": connection.active_digest,
        "people_url": None if connection.people_url is None else storable_text(connection.people_url),
        "made_at": connection.made_at,
        "changed_at": connection.changed_at,
        "failing_since": connection.failing_since,
    }


_COLUMNS: Final[LiteralString] = """
    connections.id, connections.org_id, connections.preset, connections.base_url, connections.token_set_at, connections.mapping,
    connections.attributes_left_out, connections.team_ids, connections.state, connections.stopped_why, connections.active_digest,
    connections.people_url, connections.made_at, connections.changed_at, connections.failing_since
"""

_FIND: Final[LiteralString] = f"""
    select services.id as service, {_COLUMNS},
           (
               select count(*) from provisioned_people as people
                where people.connection_id = connections.id and people.active and people.far_id is not null
           )::int as active_there
      from services
      left join provisioning_connections as connections on connections.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_HOLD: Final[LiteralString] = f"""
    select connections.service_id as service, {_COLUMNS}, 0 as active_there
      from provisioning_connections as connections
     where connections.service_id = %(service)s
       for update
"""

_ADD: Final = """
    insert into provisioning_connections
           (id, org_id, service_id, preset, base_url, sealed_token, token_set_at, mapping, attributes_left_out, team_ids, state, made_at,
            changed_at)
    values (%(id)s, %(organization)s, %(service)s, %(preset)s, %(base_url)s, %(token)s, %(token_set_at)s, %(mapping)s, %(left_out)s::text[],
            %(teams)s::uuid[], %(state)s, %(made_at)s, %(changed_at)s)
"""

_SAVE: Final = """
    update provisioning_connections
       set preset = %(preset)s, base_url = %(base_url)s, sealed_token = case when %(keeps_token)s then sealed_token else %(token)s end,
           token_set_at = %(token_set_at)s, mapping = %(mapping)s, attributes_left_out = %(left_out)s::text[],
           team_ids = %(teams)s::uuid[], state = %(state)s, stopped_why = %(stopped_why)s, active_digest = %(active_digest)s,
           people_url = %(people_url)s, changed_at = %(changed_at)s,
           failing_since = %(failing_since)s, holder = null, leased_until = null, again_at = null, turn_over_at = null,
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
