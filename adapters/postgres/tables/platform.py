"""The tables of what platform owners govern."""

from typing import Final

from adapters.postgres.tables.declaring import FACT, NO_CREDENTIAL, OPAQUE, ORGANIZATION, WORD, Ends, Table, plain
from adapters.postgres.tables.moving import LEADS_THERE

TABLES: Final = (
    Table(
        "managed_objects",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "kind", "named"), plain(FACT, "service", "name", "object_id"), plain(OPAQUE, "document", "fields_digest")),
        moves=LEADS_THERE,
        ends=Ends.OWN,
    ),
)
