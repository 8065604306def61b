"""Wrong passwords that a directory got from us, in PostgreSQL."""

from datetime import datetime
from typing import Final
from uuid import UUID

import trio

from adapters.postgres.driver.pipeline import LAST_WORD
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask, tell
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import UpstreamProviderId


class PostgresDirectoryFailures(OnPool):
    """Implements `ports.identity.upstream.DirectoryFailureStore`."""

    async def begin(self, person: UUID, provider: UpstreamProviderId, *, most: int, now: datetime, until: datetime) -> bool:
        parameters = {"id": person, "provider": provider, "most": most, "now": now, "until": until}
        return bool(await ask(self._pool, IdRow, _BEGIN, parameters))

    async def end(self, person: UUID, *, was_wrong: bool, was_right: bool, until: datetime) -> None:
        with trio.CancelScope(shield=True, relative_deadline=LAST_WORD):
            await tell(self._pool, _END, {"id": person, "wrong": was_wrong, "right": was_right, "until": until})


# The directory counts anew when nobody has failed for a whole window, and so do we: from the last password on.
_BEGIN: Final = """
    insert into directory_failures as counted (id, upstream_provider_id, failures, under_way, expires_at)
    select %(id)s, upstream_providers.id, 0, 1, %(until)s from upstream_providers where upstream_providers.id = %(provider)s
        on conflict (id) do update
       set failures = case when counted.expires_at <= %(now)s then 0 else counted.failures end,
           under_way = case when counted.expires_at <= %(now)s then 1 else counted.under_way + 1 end,
           expires_at = excluded.expires_at
     where counted.expires_at <= %(now)s or counted.failures + counted.under_way < %(most)s
 returning id
"""

_END: Final = """
    update directory_failures
       set failures = case when %(right)s then 0 when %(wrong)s then failures + 1 else failures end,
           under_way = greatest(under_way - 1, 0),
           expires_at = %(until)s
     where id = %(id)s
"""
