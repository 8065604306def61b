"""The tables of what platform owners govern."""

from typing import Final

from adapters.postgres.tables.declaring import FACT, LEADS_THERE, NO_CREDENTIAL, OPAQUE, ORGANIZATION, WORD, Age, Ends, Table, plain, sealed

TABLES: Final = (
    Table(
        "managed_objects",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "kind", "named"), plain(FACT, "service", "name", "object_id"), plain(OPAQUE, "document", "fields_digest")),
        moves=LEADS_THERE,
        ends=Ends.OWN,
    ),
    Table(
        "proposals",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(OPAQUE, "document_digest", "plan_digest"), sealed("sealed_document")),
        moves="They are of one day, and an owner applies them at this installation",
        ends=Ends.ROWS,
        until="a day after they were made",
        ages=(Age("PastProposals", "expires_at < now()", oldest_first="expires_at"),),
    ),
)
