"""The rule of whose account it is stands in the domain and in SQL. Both decide the same."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.privacy.forgetting import is_the_makers
from core.domain.identifiers import OrganizationId
from core.domain.identity.made_accounts import MadeAccount
from tests.adapters.postgres.conftest import Store

MAKER, OTHER = (OrganizationId(UUID(int=number)) for number in (1, 2))
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)

STATEMENT: Final[LiteralString] = f"""
    with users (id, origin_org_id, is_platform_owner, deactivated_at, deactivated_by, locked_at) as (
             values (1, %(made_by)s::uuid, %(is_platform_owner)s::boolean, %(deactivated_at)s::timestamptz, %(deactivated_by)s::uuid,
                     %(locked_at)s::timestamptz)
         ),
         held_accounts as (
             select 1 as user_id, %(held_since)s::timestamptz as held_since where %(held_since)s::timestamptz is not null
         )
  select coalesce({is_the_makers("%(organization)s::uuid")}, false) as yes
    from users
"""


async def test_both_decide_the_same(store: Store) -> None:
    decided = set()
    for made_by, held, owner, deactivated_at, deactivated_by, locked_at in product(
        (None, MAKER, OTHER), (None, NOW), (False, True), (None, NOW), (None, MAKER, OTHER), (None, NOW, NOW - timedelta(days=1))
    ):
        values: dict[str, Any] = {
            "made_by": made_by,
            "held_since": held,
            "is_platform_owner": owner,
            "deactivated_at": deactivated_at,
            "deactivated_by": deactivated_by,
            "locked_at": locked_at,
        }
        (answer,) = await store.query(STATEMENT, {**values, "organization": MAKER})
        assert answer["yes"] is MadeAccount(**values).is_the_makers(MAKER), values
        decided.add(answer["yes"])
    assert decided == {True, False}
