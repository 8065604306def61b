"""The tables of what happened."""

from typing import Final, LiteralString

from adapters.postgres.tables.declaring import (
    BY_STATEMENT,
    COMMITMENT,
    DETAILS,
    ENTRY,
    ID,
    NO_CREDENTIAL,
    OF_CALLS,
    OPAQUE,
    ORGANIZATIONS_OWN,
    OWN_ORGANIZATION,
    WEBHOOK,
    WHOLE_MONTHS,
    WORD,
    Age,
    Ends,
    Eraser,
    IdMeaning,
    Moved,
    Setting,
    Table,
    personal,
    plain,
)

_SAME_PERSON: Final[LiteralString] = "exists (select from arriving_people as people where people.{} and people.new = people.old)"
# The log shows the address of whoever has the id now, so nobody else's id may stand there.
_NO_STRANGER: Final[LiteralString] = f"""
    case when not exists (select from users where users.id = row.{{}}) or {_SAME_PERSON.format("old = row.{}")} then row.{{}}
         else '00000000-0000-0000-0000-000000000000'::uuid
    end
"""
_WHILE_LOG: Final = "As long as the audit log, which Postern never deletes. The entry keeps a salted digest."
_OUTLIVES: Final = "The record outlives the organization that it is about"

TABLES: Final = (
    Table(
        "audit_entries",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(
            plain(WORD, "action", "target_type"),
            plain(ID, "target_id"),
            plain(DETAILS, "details"),
            plain(COMMITMENT, "personal_digest"),
        ),
        moves=Moved(
            sets={column: _NO_STRANGER.format(column, column, column) for column in ("actor_id", "impersonator_id")},
            ids={"actor_id": IdMeaning.KEPT, "impersonator_id": IdMeaning.KEPT, "request_id": IdMeaning.KEPT},
        ),
        ends=_OUTLIVES,
        until="nothing; personal parts when a person is forgotten",
    ),
    Table(
        "audit_personal",
        opens=NO_CREDENTIAL,
        whose=ENTRY,
        holds=(
            personal("address", "The IP address from which a person acted.", Eraser.DELETION, _WHILE_LOG, "actor_id"),
            personal("user_agent", "The client's `User-Agent`.", Eraser.DELETION, _WHILE_LOG, "actor_id"),
            personal(
                "details",
                "The part of the entry about a person: an email address, a name, a reason.",
                Eraser.DELETION,
                _WHILE_LOG,
                "actor_id",
            ),
            plain(OPAQUE, "salt"),
        ),
        # What identifies people comes along only where those who are forgotten here later can be found by it.
        moves=Moved(
            rows="row.entry_id in (select id from audit_entries where organization_id = %(organization)s::uuid)",
            arrives=f"""
            (row.actor_id is null or {_SAME_PERSON.format("old = row.actor_id")})
            and not exists (
                select
                  from arriving_audit_entries as entry
                 where entry.id = row.entry_id and entry.target_type = 'user' and not {_SAME_PERSON.format("old::text = entry.target_id")}
            )
        """,
            ids={"actor_id": IdMeaning.PERSON},
        ),
        ends=Ends.OWN,
        until="nothing; personal parts when a person is forgotten",
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "changed_settings",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(
            plain(WORD, "section"),
            plain("The address of a page of the console, for ten minutes", "place"),
            plain("Settings as a form shows them, without secrets, for ten minutes", "before", "after"),
        ),
        moves="They are of the last ten minutes, and of pages of this installation",
        ends=Ends.ROWS,
        until="10 minutes after the change",
        ages=(Age("PastChangedSettings", "changed_at < now() - interval '10 minutes'", oldest_first="changed_at"),),
    ),
    Table(
        "audit_links",
        opens=NO_CREDENTIAL,
        whose=ENTRY,
        holds=(plain(COMMITMENT, "digest"),),
        moves="The chain is made anew, in the same order",
        ends=_OUTLIVES,
        until="nothing; personal parts when a person is forgotten",
    ),
    Table(
        "audit_pending",
        opens=NO_CREDENTIAL,
        whose=ENTRY,
        holds=(),
        moves="The chain is made anew, in the same order",
        ends=_OUTLIVES,
        until="when a worker has taken them, within seconds",
    ),
    Table(
        "events",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(
            personal(
                "personal",
                "The part of an event about a person: an email address, a name, a reason.",
                Eraser.JANITOR,
                "90 days.",
                "actor_id",
            ),
            plain(WORD, "name", "target_type"),
            plain(ID, "target_id"),
            plain(DETAILS, "details"),
        ),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="POSTERN_EVENT_RETENTION",
        ages=(
            # The personal part of events. Webhooks have got their deliveries, or Postern has given these up, long before.
            Age("PastEventDetails"),
            # Events that no webhook needs any more.
            Age("PastEvents", kept=Setting.EVENTS),
        ),
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "webhook_deliveries",
        opens=NO_CREDENTIAL,
        whose=WEBHOOK,
        holds=(
            personal(
                "response_body",
                "The response of an organization's webhook endpoint.",
                Eraser.JANITOR,
                f"`POSTERN_DELIVERY_RETENTION`, 30 days by default. {WHOLE_MONTHS}",
            ),
            plain(WORD, "event_name", "error", "kind"),
        ),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="POSTERN_DELIVERY_RETENTION",
        ages=(
            # Deliveries to webhooks that are disabled, or of organizations that are not active. Postern gives these up, and deletes
            # none.
            Age("ForsakenDeliveries"),
            # Signals that no stream has received within 7 days, and those behind the newest 10 000 of a stream.
            Age("ForsakenSignals"),
            # Deliveries to webhooks that have been deleted. Nobody sees these any more, and nothing is sent.
            Age("DeliveriesOfNobody"),
            # Outcomes of deliveries to webhooks.
            Age("PastDeliveries", kept=Setting.DELIVERIES),
        ),
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
)
