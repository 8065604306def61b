"""The cost of queries about end users in a large database: the rows that they read, and the indexes that they use."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import pytest

from adapters.postgres.services.service_users import END_USER_LISTS, GET_END_USER, EndUserRows
from adapters.postgres.statements import Statements
from core.domain.identifiers import OrganizationId
from core.domain.requests import MOST_ROWS_COUNTED, Page
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.questions import generic_plan

ACME: Final = UUID("01900000-0000-7000-8000-00000000000a")
SHOP: Final = UUID("01900000-0000-7000-8000-00000000000b")
OTHERS: Final = 20
USERS: Final = 12_000

_FILL: Final = """
    insert into users (id, email, email_key)
    select ('01910000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'u' || n || '@example.org', 'u' || n || '@example.org'
      from generate_series(1, 12000) as n;
    insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) select id, '', now(), now() from users;
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,
                          created_at, second_factor_since)
    select gen_random_uuid(), id, id::text::bytea, '', 0, 'Key', gen_random_uuid(), '{}', false, false, now(), now() from users;
    insert into organizations (id, slug, name, status, created_at, updated_at)
    select case n when 0 then '01900000-0000-7000-8000-00000000000a' else gen_random_uuid() end, 'o-' || n, 'O', 'active', now(), now()
      from generate_series(0, 20) as n;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select case slug when 'o-0' then '01900000-0000-7000-8000-00000000000b' else gen_random_uuid() end, id, 'shop', 'Shop', 'web',
           gen_random_uuid(), now(), now()
      from organizations;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, now()
      from services
      join organizations on organizations.id = services.org_id
      join lateral (select id from users order by id limit case organizations.slug when 'o-0' then 12000 else 500 end) as users on true;
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), user_id, org_id, service_id, now(), now(), now() + interval '1 day' from service_users;
"""


@pytest.fixture
async def grown(fresh_store: Store) -> Store:
    for statement in _FILL.split(";"):
        if statement.strip():
            await fresh_store.query(statement)
    await fresh_store.settle("users", "mfa_secrets", "passkeys", "all_organizations", "all_services", "service_users", "sessions")
    return fresh_store


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def plan(store: Store, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    values = {"organization": ACME, "service": SHOP, "search": "u7", "offset": 0, "limit": 50, "most": MOST_ROWS_COUNTED, **parameters}
    (row,) = await store.query(f"explain (analyze, format json) {statement}", values)
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


def read_whole(steps: list[dict[str, Any]]) -> set[str]:
    """The tables that a plan reads from one end to the other. Of some there is next to nothing here, which is read sooner than an index."""
    read = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    return read - {"all_services", "all_profile_fields", "profile_values"}


def index_only(steps: list[dict[str, Any]]) -> set[str]:
    return {step["Index Name"] for step in steps if step["Node Type"] == "Index Only Scan" and step["Actual Loops"]}


def most_rows(steps: list[dict[str, Any]]) -> int:
    return int(max(step["Actual Rows"] * step["Actual Loops"] + step.get("Rows Removed by Filter", 0) for step in steps))


# One filled database for all: filling takes longer than asking.
async def test_no_question_reads_a_table_from_end_to_end_or_more_than_is_counted(grown: Store) -> None:
    for (search, in_service), statement in END_USER_LISTS.items():
        steps = await plan(grown, statement)
        assert read_whole(steps) == set(), (search, in_service)
        assert read_whole(await generic_plan(grown.url, statement)) == set(), (search, in_service)
        # A search by address looks among all of the organization's people, and nobody else's.
        assert most_rows(steps) <= (USERS if search else MOST_ROWS_COUNTED), (search, in_service)
    of_all = await plan(grown, END_USER_LISTS[False, False])
    assert "service_users_of_organization" in index_only(of_all)
    # Whether a service is being removed is asked once, and the users of those that stay are gathered only if one is.
    assert not any(step["Actual Loops"] for step in of_all if step.get("Index Name") == "service_users_pkey")
    steps = await plan(grown, GET_END_USER, user=UUID("01910000-0000-7000-8000-000000000001"))
    assert read_whole(steps) == set()
    assert read_whole(await generic_plan(grown.url, GET_END_USER)) == set()
    assert most_rows(steps) <= OTHERS + 1

    await grown.query(
        "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at, deleted_at)"
        " values (gen_random_uuid(), %(organization)s, 'gone', 'Gone', 'web', gen_random_uuid(), now(), now(), now())",
        {"organization": ACME},
    )
    for search in (False, True):
        steps = await plan(grown, END_USER_LISTS[search, False])
        assert read_whole(steps) == set(), search
        assert "service_users_of_organization" not in index_only(steps)
        assert most_rows(steps) <= USERS, search

    lookup = EndUserRows(Statements(grown.pool))
    organization = OrganizationId(ACME)
    for typed in ("", "u"):
        first = await lookup.list(organization, Page(1, 100), search=typed, service=None)
        beyond = await lookup.list(organization, Page(120, 100), search=typed, service=None)
        assert first is not None
        assert beyond is not None
        assert (first.total, len(first.items)) == (MOST_ROWS_COUNTED, 100)
        # More than are counted are there to be read all the same.
        assert (beyond.total, [str(one.email) for one in beyond.items][-1]) == (MOST_ROWS_COUNTED, "u1@example.org")
    found = await lookup.list(organization, Page(1, 100), search="u11999@", service=None)
    assert found is not None
    assert (found.total, [str(one.email) for one in found.items]) == (1, ["u11999@example.org"])
