"""The times of own notices, in PostgreSQL: two parts of an organization's look."""

from typing import Final

from adapters.postgres.statements import first_made
from adapters.postgres.transaction import OnStatements
from core.domain.branding import look_of
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.texts import NoticeTimes
from core.frozen import Frozen, replace


class _Look(Frozen):
    look: str | None


class NoticeRows(OnStatements):
    """Implements `ports.tenancy.organizations.NoticeStore`."""

    async def find(self, organization: OrganizationId) -> NoticeTimes | None:
        rows = await self._statements.ask(_Look, _FIND, {"id": organization})
        return first_made(rows, lambda row: NoticeTimes.of(look_of(row.look)))

    async def save(self, organization: OrganizationId, times: NoticeTimes) -> None:
        # Written by `Look`, as every change of the looks is: equal looks are equal texts, and a move takes no other form.
        rows = await self._statements.ask(_Look, _FIND, {"id": organization})
        begins, ends = times.stored()
        for row in rows:
            look = replace(look_of(row.look), notice_from=begins, notice_until=ends)
            await self._statements.tell(_SAVE, {"id": organization, "look": look.as_text()})


_FIND: Final = "select look from organizations where id = %(id)s"
_SAVE: Final = "update organizations set look = %(look)s where id = %(id)s"
