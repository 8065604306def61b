"""The rows that the benchmark writes for people with teams, roles and fields are those that tokens tell."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.facts import PostgresFacts
from core.domain.identifiers import ServiceId, UserId
from ops.bench.fill_furnished import FULL, SMALL, furnish
from ops.bench.fill_tenancy import Size, grow_tenancy


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = Pool(database_url, max_size=2)
    await pool.open()
    yield pool
    await pool.aclose()


async def test_everybody_of_an_organization_has_as_much_as_the_comparison_says(database_url: str, pool: Pool) -> None:
    grow_tenancy(database_url, Size(3, 12, 3), "full")
    grow_tenancy(database_url, Size(2, 2, 2), "small")
    with psycopg.connect(database_url, autocommit=True) as connection:
        furnish(connection, "full-%", FULL)
        furnish(connection, "small-%", SMALL)

        def people(slugs: str) -> list[tuple[Any, ...]]:
            return connection.execute(
                "select service_users.service_id, service_users.user_id from service_users join organizations on organizations.id = org_id"
                " where organizations.slug like %s",
                [slugs],
            ).fetchall()

        full, small = people("full-%"), people("small-%")
    assert (len(full), len(small)) == (36, 4)
    facts = PostgresFacts(pool)
    for service, user in full:
        told = await facts.find(ServiceId(service), UserId(user))
        # Four of the roles are given to owners and members, and some people here administer, or have the organization's own role.
        held = 10 if told.role in {"owner", "member"} else 6
        assert (len(told.teams), len(told.roles), len(told.permissions), len(told.claims)) == (5, held, held * 5, 10)
        fields = {**told.person_fields, **told.organization_fields}
        assert sorted(fields) == ["badge", "field_1", "field_2", "field_3", "floor"]
        assert all(field.value for field in fields.values())
    for service, user in small:
        told = await facts.find(ServiceId(service), UserId(user))
        assert (len(told.teams), told.roles, told.claims) == (1, (), ())
