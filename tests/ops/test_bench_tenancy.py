"""The rows that the benchmark writes for tenants fit together as the product's own rows do."""

from collections.abc import AsyncIterator
from typing import Any, cast

import psycopg
import pytest

from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.record.audit import PostgresAuditChains, PostgresAuditLog
from core.domain.identifiers import ServiceId, UserId
from core.domain.record.audit import ChainFinding
from core.usecases.record import Audit, CheckedChain
from ops.bench.filling.fill_furnished import FULL, SMALL, furnish
from ops.bench.filling.fill_tenancy import Size, grow_tenancy, invite_past
from ports.crypto import ServerSecrets

_STRUCTURE = "select indexdef from pg_indexes where schemaname = 'public' union select pg_get_constraintdef(oid) from pg_constraint"


def look(connection: psycopg.Connection[tuple[str]]) -> set[str]:
    return {definition.removesuffix(" NOT VALID") for (definition,) in connection.execute(_STRUCTURE)}


def test_tenants_are_grown_with_all_that_belongs_to_them(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = look(connection)
        tenants = grow_tenancy(database_url, Size(6, 12, 90, invitations=2))
        more = grow_tenancy(database_url, Size(1, 3, 5), "other")
        invite_past(database_url, tenants, 20)
        assert look(connection) == before

        def one(statement: str, *values: object) -> object:
            return (connection.execute(statement.encode(), values).fetchone() or ())[0]

        counts = {"users": 75, "memberships": 75, "service_users": 75, "all_organizations": 7, "roles": 7, "services": 7, "sessions": 7}
        counts |= {"audit_entries": 95, "audit_personal": 95, "audit_links": 95, "audit_pending": 0, "invitations": 12 + 10 + 20}
        counts |= {"relations": 75 + 7 * 3}
        assert {table: one(f"select count(*) from {table}") for table in counts} == counts
        assert one("select count(*) from invitations where expires_at < now()") == 20
        assert one("select array_agg(distinct member_count order by member_count)::text from organizations") == "{3,12}"
        # Members with a role of the organization's own have the relation `holder`, and no other member has it.
        assert (
            one(
                "select count(*) from memberships join relations using (user_id)"
                " where (memberships.role_id is null) = (relations.relation = 'holder')"
            )
            == 0
        )
        assert one("select count(*) from audit_links join audit_entries on id = entry_id where organization_id <> chain_id") == 0
        assert one("select count(*) from audit_links group by chain_id order by 1 desc") == 15
        assert [len(tenants), len(more)] == [6, 1]
        for tenant in (*tenants, *more):
            assert one("select slug from organizations where id = %s and owner_user_id = %s", tenant.id, tenant.owner.user) == tenant.slug
            assert one("select user_id from sessions where id = %s and expires_at > now()", tenant.owner.session) == tenant.owner.user
            assert one("select org_id from service_users where user_id = %s", tenant.end_user) == tenant.id


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = Pool(database_url, max_size=2)
    await pool.open()
    yield pool
    await pool.aclose()


class _Key:
    async def get(self, _name: str) -> bytes:
        return b"k" * 32


async def test_a_filled_log_can_be_verified_and_sign_ins_stand_in_their_months(database_url: str, pool: Pool) -> None:
    grow_tenancy(database_url, Size(3, 4, 30, sign_ins=600), chains_key=b"k" * 32)
    checked: list[CheckedChain] = []
    audit = Audit(PostgresAuditLog(pool), PostgresAuditChains(pool), cast("ServerSecrets", _Key()))
    await audit.verify(_nothing_is_found, checked.append)
    assert [one.links for one in checked] == [10, 10, 10]
    with psycopg.connect(database_url, autocommit=True) as connection:
        months: dict[str, int] = dict(
            connection.execute("select tableoid::regclass::text, count(*) from login_events group by 1").fetchall()
        )
        assert sum(months.values()) == 600
        assert len(months) in {6, 7}
        assert not [name for name in months if "past" in name or "rest" in name]
        connection.execute("insert into login_events (id, provider, success, created_at) values (uuidv7(), 'password', true, now())")
        assert connection.execute(_COUNTED).fetchone() == (480, 480, 1)


def _nothing_is_found(_name: str, finding: ChainFinding) -> None:
    raise AssertionError(finding)


_COUNTED = """
    select (select sum(logins)::int from login_counts), (select sum(logins)::int from platform_login_counts),
           (select count(*) from uncounted_logins)
"""


async def test_everybody_of_a_furnished_tenant_has_as_much_as_the_comparison_says(database_url: str, pool: Pool) -> None:
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
