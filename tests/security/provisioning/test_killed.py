"""A process is killed with -9 within a first run, and another one goes on: nobody is there twice, and nobody is missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
import trio
from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.connections import token_context
from entrypoints.bootstrap import open_postern
from entrypoints.settings import read
from ops.bench.harness import embedded_url
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.e2e import conftest as e2e
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy, environment
from tests.http.federation.provisioning.scene import MAPPING

e2e_directory, installation = e2e.e2e_directory, e2e.installation
PEOPLE: Final = 120
SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
_MADE: Final = """
with people as (
    insert into users (id, email, email_key, email_verified_at, given_name)
    select gen_random_uuid(), address, address, now(), 'P' || number
      from generate_series(1, %(people)s) as number, lateral (select 'p' || number || '@acme.example' as address) as addresses
    returning id
), organization as (
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now()) returning id
), service as (
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), id, 'shop', 'Shop', 'web', gen_random_uuid(), now(), now() from organization returning id, org_id
), members as (
    insert into memberships (id, org_id, user_id, role, created_at, own_since)
    select gen_random_uuid(), organization.id, people.id, 'member', now(), now() from people, organization
), rights as (
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select organization.id, people.id, 'member', 'organization', organization.id from people, organization
)
insert into provisioning_connections
       (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest, agreed_digest, whole_due_at)
select %(id)s, org_id, id, 'generic', %(url)s, %(token)s, %(mapping)s, 'active', 'x', 'x', now() from service
"""


@pytest.fixture
def far() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as made:
        yield made


@pytest.fixture
def server(e2e_directory: Path, installation: Installation) -> Iterator[Postern]:
    made = Postern(copy(installation.data_dir, e2e_directory / "provisioning"), settings=SETTINGS)
    yield made
    made.close()


def asked(server: Postern, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
    with psycopg.connect(embedded_url(server.data_dir), autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


async def _sealed(server: Postern, token: str, made: str) -> bytes:
    async with open_postern(read({**environment(server.data_dir, server.settings), "PATH": ""})) as postern:
        return postern.foundation.keyring.seal(token.encode(), token_context(UUID(made)))


def test_a_killed_run_goes_on_in_another_process(server: Postern, far: FakeRemoteSystem) -> None:
    server.start()
    made = "01900000-0000-7000-8000-000000000001"
    token = trio.run(_sealed, server, far.token, made)
    values = {"people": PEOPLE, "id": made, "url": far.url, "token": token, "mapping": Jsonb(MAPPING)}
    far.holds_behind = {17}
    asked(server, _MADE, values)
    asked(server, "notify postern, 'provisioning'")
    for write in (17, 61, None):
        if write is not None:
            far.holds_behind = {write}
            far.until(lambda one, at=write: len(one.writes()) >= at)  # type: ignore[misc]
            server.kill()
            far.release()
        else:
            far.until(lambda one: len(one.active()) >= PEOPLE)
            break
        server.start()
        # The killed process held a lease. Without this line, another one would wait for its end.
        asked(server, "update provisioning_connections set leased_until = null, again_at = null")
        asked(server, "notify postern, 'provisioning'")
    far.until(lambda _: asked(server, "select 1 from provisioning_runs where state = 'done'") != [])
    assert far.doubles() == []
    assert len(far.everybody()) == PEOPLE
    assert asked(server, "select count(distinct far_id), count(*) from provisioned_people where state = 'sent'") == [(PEOPLE, PEOPLE)]
    assert server.stop() == 0
