"""The audit log: the chain that a name stands for, and the entries that an organization's deletion leaves."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import PLATFORM_CHAIN, ChainHead
from core.domain.record.events import SYSTEM, Event, Target
from core.usecases.record import CheckedChain
from entrypoints.bootstrap import Postern
from tests.http.conftest import postern_on
from tests.http.people import People
from tests.http.tenants import Tenants


@pytest.fixture
async def postern(emptied_database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(emptied_database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def people(postern: Postern, emptied_database_url: str) -> Iterator[People]:
    with People(postern, emptied_database_url) as people:
        yield people


@pytest.fixture
def tenants(postern: Postern, people: People) -> Tenants:
    return Tenants(postern, people)


async def test_a_chain_is_named_by_slug_by_id_or_as_the_platforms(postern: Postern, tenants: Tenants) -> None:
    acme = tenants.add("acme")
    assert await postern.record.audit.chain_of("acme") == acme.id
    assert await postern.record.audit.chain_of(str(acme.id)) == acme.id
    assert await postern.record.audit.chain_of(str(acme.id).upper()) == acme.id
    assert await postern.record.audit.chain_of("platform") == PLATFORM_CHAIN


@pytest.mark.parametrize("name", ["nowhere", "", "\0", "\ud83d", "'; drop table users", "x" * 10_000, str(UUID(int=7)), UUID(int=7).hex])
async def test_a_name_that_nobody_has_is_not_found(postern: Postern, name: str) -> None:
    with pytest.raises(NotFound):
        await postern.record.audit.chain_of(name)


async def test_a_slug_that_looks_like_an_id_is_a_slug(postern: Postern, tenants: Tenants) -> None:
    other = uuid4()
    acme = tenants.add(str(other))
    assert await postern.record.audit.chain_of(str(other)) == acme.id


async def test_a_slug_that_is_the_id_of_another_does_not_hide_its_chain(postern: Postern, tenants: Tenants) -> None:
    acme = tenants.add("acme")
    mallory = tenants.add(str(acme.id))
    assert await postern.record.audit.chain_of(str(acme.id)) == acme.id
    assert await postern.record.audit.chain_of(str(mallory.id)) == mallory.id
    # Nobody is shown an id without its hyphens.
    plain = tenants.add(acme.id.hex)
    assert await postern.record.audit.chain_of(acme.id.hex) == plain.id


async def test_a_deleted_organization_is_known_by_what_is_left(postern: Postern, tenants: Tenants, emptied_database_url: str) -> None:
    gone = OrganizationId(uuid4())
    tenants.add(str(gone))
    async with postern.foundation.unit_of_work() as uow:
        await uow.record(Event("role.created", SYSTEM, Target("role", "1"), gone))
        await uow.commit()
    # An entry before its link, a linked entry, and an entry that somebody has taken out of the chain.
    assert await postern.record.audit.chain_of(str(gone)) == gone
    await postern.record.audit.link()
    assert await postern.record.audit.chain_of(str(gone)) == gone
    with psycopg.connect(emptied_database_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("delete from audit_links where chain_id = %s", (gone,))
    assert await postern.record.audit.chain_of(str(gone)) == gone


async def test_whoever_noted_the_head_of_a_chain_knows_that_there_was_one(postern: Postern, tenants: Tenants) -> None:
    gone, noted = OrganizationId(uuid4()), ChainHead(7, b"x" * 32)
    assert await postern.record.audit.chain_of(str(gone), noted) == gone
    acme = tenants.add(str(gone))
    assert await postern.record.audit.chain_of(str(gone), noted) == acme.id
    with pytest.raises(NotFound):
        await postern.record.audit.chain_of("nowhere", noted)


async def test_the_log_outlives_its_organization(postern: Postern, tenants: Tenants, people: People) -> None:
    acme = tenants.add("acme")
    async with postern.foundation.unit_of_work() as uow:
        await uow.record_all([Event("role.created", SYSTEM, Target("role", "1"), OrganizationId(acme.id))] * 3)
        await uow.commit()
    people.change("delete from all_organizations where id = %s", acme.id)
    while await postern.record.audit.link():
        pass
    checked: list[CheckedChain] = []
    await postern.record.audit.verify(lambda _name, _finding: pytest.fail("no fault was made"), checked.append)
    assert [(one.name, one.links) for one in checked] == [(str(acme.id), 3)]


async def test_the_platforms_chain_has_a_name(postern: Postern) -> None:
    async with postern.foundation.unit_of_work() as uow:
        await uow.record(Event("user.logout", SYSTEM, Target("user", str(UUID(int=1)))))
        await uow.commit()
    await postern.record.audit.link()
    checked: list[CheckedChain] = []
    await postern.record.audit.verify(lambda _name, _finding: pytest.fail("no fault was made"), checked.append)
    assert [one.name for one in checked] == ["platform"]
