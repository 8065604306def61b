"""Changes of settings that can be taken back, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.rows import CountRow
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable
from adapters.postgres.transaction import OnPool, Transaction
from core.domain.causes import causing_request
from core.domain.identifiers import AuditEntryId, ChangedSettingId, OrganizationId
from core.domain.record.changed_settings import MOST_LISTED, ChangedSetting, FormTexts, SettingChange, SettingsOvertaken, TakenBack
from core.frozen import Frozen


class _ChangedSetting(Frozen):
    id: UUID
    entry_id: UUID
    section: str
    before: dict[str, Any]
    after: dict[str, Any]
    changed_at: datetime
    others: int
    earlier: int

    def changed(self) -> ChangedSetting:
        return ChangedSetting(
            ChangedSettingId(self.id),
            AuditEntryId(self.entry_id),
            self.section,
            self.before,
            self.after,
            self.changed_at,
            self.others,
            self.earlier,
        )


class PostgresChangedSettings(OnPool):
    """Implements `ports.record.ChangedSettings`."""

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None, since: datetime) -> Sequence[ChangedSetting]:
        parameters = {
            "organization": organization,
            "place": place,
            "thing": thing,
            "since": since,
            "most": MOST_LISTED,
            "request": causing_request(),
        }
        return [row.changed() for row in await ask(self._pool, _ChangedSetting, _LIST, parameters)]


async def require_not_overtaken(transaction: Transaction, taken: TakenBack) -> None:
    """The thing is written in this transaction, so whoever else changes it has committed before, with an entry, or waits. Raises
    `SettingsOvertaken`.
    """
    rows = await transaction.ask(CountRow, _COUNT, {"entry": taken.entry, "request": causing_request()})
    if not rows or rows[0].count != taken.others:
        raise SettingsOvertaken
    await transaction.tell("delete from changed_settings where entry_id = %(entry)s", {"entry": taken.entry})


async def keep_change(transaction: Transaction, change: SettingChange, entry: AuditEntryId) -> None:
    """Keeps the change beside its audit entry. Of several entries of one change, the first counts."""
    await transaction.tell(
        _KEEP,
        {
            "id": change.id,
            "entry": entry,
            "place": change.place,
            "section": change.section,
            "before": _stored(change.before),
            "after": _stored(change.after),
            "request": causing_request(),
        },
    )


def _stored(texts: FormTexts) -> Jsonb:
    return Jsonb(storable({name: text if isinstance(text, str) else list(text) for name, text in texts.items()}))


# The other entries about the thing of the entry `changed`, from ten minutes before it on. The request that asks is left out, since it may
# write several entries.
_OTHERS: Final[LiteralString] = """(
               select count(*)
                 from audit_entries as others
                where (others.organization_id = changed.organization_id
                       or others.organization_id is null and changed.organization_id is null)
                  and others.target_type = changed.target_type and others.target_id = changed.target_id
                  and others.created_at >= changed.created_at - interval '10 minutes'
                  and others.id <> changed.id and others.request_id is distinct from %(request)s
           )"""

_COUNT: Final[LiteralString] = f"select {_OTHERS} as count from audit_entries as changed where changed.id = %(entry)s"

_KEEP: Final[LiteralString] = f"""
    insert into changed_settings (id, entry_id, organization_id, place, section, before, after, earlier, changed_at)
    select %(id)s, changed.id, changed.organization_id, %(place)s, %(section)s, %(before)s, %(after)s, {_OTHERS}, changed.created_at
      from audit_entries as changed
     where changed.id = %(entry)s
        on conflict (id) do nothing
"""

# The name of a thing that is gone may be given again. Whatever is made has an entry, so entries know the thing that is there now by this
# id. If they do not, entries of this type name something else, and the place alone says which thing it is.
_LIST: Final[LiteralString] = f"""
    select kept.id, kept.entry_id, kept.section, kept.before, kept.after, kept.changed_at, kept.earlier, {_OTHERS} as others
      from changed_settings as kept
      join audit_entries as changed on changed.id = kept.entry_id
     where kept.place = %(place)s and kept.changed_at > %(since)s
       and (%(organization)s::uuid is null or kept.organization_id = %(organization)s)
       and (%(thing)s::text is null or changed.target_id = %(thing)s or not exists (
               select from audit_entries as about
                where (about.organization_id = changed.organization_id
                       or about.organization_id is null and changed.organization_id is null)
                  and about.target_type = changed.target_type and about.target_id = %(thing)s))
     order by kept.changed_at desc, kept.id desc
     limit %(most)s
"""
