"""Tiers in PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from adapters.postgres.statements import ask, first
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import TierId
from core.domain.tenancy.tiers import Tier


class PostgresTiers(OnPool):
    """Implements `ports.tenancy.organizations.Tiers`."""

    async def list(self) -> Sequence[Tier]:
        return await ask(self._pool, Tier, _LIST)

    async def find(self, tier: TierId) -> Tier | None:
        return first(await ask(self._pool, Tier, _FIND, {"id": tier}))


_LIST: Final = """
    select id, name, display_name, default_max_services, default_max_users, price_cents from tiers order by price_cents, id
"""

_FIND: Final = """
    select id, name, display_name, default_max_services, default_max_users, price_cents from tiers where id = %(id)s
"""
