"""Links the entries of an audit log that was filled, as the product would have linked them one after the other."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg

from adapters.postgres.record.audit import CONTENT
from core.domain.identifiers import AuditEntryId, OrganizationId
from core.domain.record.audit import ChainHead, Unlinked, linked

_AT_ONCE: Final = 10_000
# In the order of the rows, which is that of the entries.
_ENTRIES: Final = f"select organization_id, id, {CONTENT} from audit_entries as entries where organization_id is not null"
_LINKS: Final = "copy audit_links (chain_id, sequence, entry_id, digest) from stdin (format binary)"


def link_all(database_url: str, key: bytes) -> None:
    """Links every entry of an organization. There may be no links of organizations yet."""
    heads: dict[OrganizationId, ChainHead] = {}
    with psycopg.connect(database_url) as reading, psycopg.connect(database_url) as writing:
        # Otherwise a long table is read from where another reader happens to be.
        reading.execute("set synchronize_seqscans = off")
        with reading.cursor("entries", binary=True) as entries, writing.cursor().copy(_LINKS) as copied:
            entries.execute(_ENTRIES)
            copied.set_types(["uuid", "int8", "uuid", "bytea"])
            while part := entries.fetchmany(_AT_ONCE):
                for link in linked(key, heads, _unlinked(part)):
                    copied.write_row((link.chain, link.sequence, link.entry, link.digest))
                    heads[link.chain] = ChainHead(link.sequence, link.digest)


def _unlinked(rows: Sequence[tuple[UUID, UUID, str]]) -> Sequence[Unlinked]:
    return [Unlinked(OrganizationId(chain), AuditEntryId(entry), content) for chain, entry, content in rows]
