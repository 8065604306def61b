"""Access: explained to any person who asks, by address and slug."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from core.domain.errors import NotFound
from core.domain.mail import Email
from core.domain.tenancy.roles import BuiltInRole
from core.usecases.tenancy.rights import AccessExplainer
from tests.http.conftest import postern_on

ADA: Final = Email("ada@example.org")


_FILL: Final = b"""
    insert into users (id, email, email_key) values (gen_random_uuid(), 'ada@example.org', 'ada@example.org');
    insert into organizations (id, slug, name, status, created_at, updated_at)
    values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now());
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), organizations.id, users.id, 'member', now() from organizations, users;
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, 'member', 'organization', org_id from memberships;
"""


@pytest.fixture
async def access(emptied_database_url: str, tmp_path: Path) -> AsyncIterator[AccessExplainer]:
    """With Ada, who is a member of acme."""
    with psycopg.connect(emptied_database_url, autocommit=True) as connection:
        connection.execute(_FILL)
    async with postern_on(emptied_database_url, tmp_path) as postern:
        yield postern.tenancy.access


async def test_a_member_is_explained(access: AccessExplainer) -> None:
    seen = await access.explain(ADA, "acme")
    assert (seen.email, seen.role, set(seen.capabilities), seen.gets_in) == (ADA, "member", set(BuiltInRole.MEMBER.capabilities), True)


async def test_who_or_what_there_is_not_cannot_be_explained(access: AccessExplainer) -> None:
    for email, slug in ((Email("bob@example.org"), "acme"), (ADA, "globex")):
        with pytest.raises(NotFound, match=slug):
            await access.explain(email, slug)
