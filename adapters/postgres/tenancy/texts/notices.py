"""The times of own notices, in PostgreSQL: two parts of an organization's look."""

from typing import Final

from adapters.postgres.statements import first_made
from adapters.postgres.transaction import OnStatements
from core.domain.branding import look_of
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.notices import NoticeTimes
from core.frozen import Frozen


class _Look(Frozen):
    look: str | None


class NoticeRows(OnStatements):
    """Implements `ports.tenancy.notices.NoticeStore`."""

    async def find(self, organization: OrganizationId) -> NoticeTimes | None:
        rows = await self._statements.ask(_Look, "select look from organizations where id = %(id)s", {"id": organization})
        return first_made(rows, lambda row: NoticeTimes.of(look_of(row.look)))

    async def save(self, organization: OrganizationId, times: NoticeTimes) -> None:
        begins, ends = times.stored()
        await self._statements.tell(_SAVE, {"id": organization, "begins": begins, "ends": ends})


# What is not set is left out, so that a look without anything is null.
_SAVE: Final = """
    update organizations
       set look = nullif(
               jsonb_strip_nulls(
                   coalesce(look::jsonb, '{}') || jsonb_build_object('notice_from', %(begins)s::text, 'notice_until', %(ends)s::text)
               ),
               '{}'
           )::text
     where id = %(id)s
"""
