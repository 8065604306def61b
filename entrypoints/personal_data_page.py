"""Writes `docs/personal-data.md`: `python -m entrypoints.personal_data_page > docs/personal-data.md`. A test keeps it current."""

import sys
from collections.abc import Iterable
from typing import Final

from adapters.postgres.tables.declaring import Personal, Table
from adapters.postgres.tables.every import TABLES

_HEAD: Final = """\
# Personal data

<!-- Made by `python -m entrypoints.personal_data_page > docs/personal-data.md`; a test compares. Change
the tables in adapters/postgres/tables instead. -->

This page lists every database column that can hold personal data: its content, its eraser, and the time of erasure. A
test reads PostgreSQL's catalogue. The test fails for a column of text, addresses, JSON or bytes that is neither here
nor on the list of columns without personal data. If you answer for the GDPR, the page is the part of your records that
Postern knows: which data are stored, and when they are deleted.

The third column names the eraser:

- **with the account**: Postern deletes the column's row together with the account.
- **when the account is deleted**: the same, by a statement of its own.
- **with the organization**: Postern deletes the row together with the organization.
- **by the janitor alone**: the janitor deletes the row, or empties the column, when its time is over.

The line below each table says where a person's export shows its data, which columns it does not show, and who changes
them when a person is forgotten.

The janitor also deletes, in small batches, all data that the last column keeps for a shorter time than the account.

**Forgetting a person** (`DELETE /api/privacy/forget/…`, `postern privacy forget`) keeps the account's row, but without
its address, and nobody can sign in with the account any more. The erasure reaches every table on this page:

- Postern deletes the person's own rows.
- Sign-ins and uses of second factors stay, with `0.0.0.0` and `anonymized` in place of the person's data.
- Postern erases the parts of events and of the audit log about the person, the addresses of invitations to the person,
  and the answers of webhook receivers about the person.
- Postern erases mails to the person that wait or were given up. Mails for the account go even if the person has never
  proved its address.
- Rows that name nobody stay until their time is over: sign-ins that failed for an address without an account, device
  codes that nobody has approved, and the buckets of rate limits.
- Postern erases neither backups nor mails that were written to files. The operator must erase these.

**The audit log** is a chain that nobody may alter. So Postern keeps the part about a person apart from the entry, and
can delete this part; the entry keeps a salted digest. `postern audit verify` counts such entries as forgotten, and the
chain stays valid.

**Sign-ins and uses of second factors** stay as long as `POSTERN_LOGIN_EVENT_RETENTION` says, and sign-ins up to a month
longer, because they go by whole months ([0096](decisions/0096-months.md)). Postern derives a person's habits from them.
So Postern judges a sign-in after a long absence with little history. Devices, and the time of a person's first use of a
service, have rows of their own and do not depend on this setting.

**Accounts that nobody verified** end after `POSTERN_UNVERIFIED_ACCOUNT_RETENTION`, if nobody ever used or holds them
([0097](decisions/0097-unverified-accounts-end.md)).

**Events** go to webhooks. Postern erases the part of an event about a person after 90 days. The fact that the event
happened, and the id of its target, go with the event after `POSTERN_EVENT_RETENTION`.

**A SIEM** of an organization gets copies of the organization's audit log and sign-ins. Postern does not send data that
were forgotten before the export. Postern erases nothing at the SIEM: the organization must do this.

**Systems to which an application sends its people** have what its mapping names of them, and a person's export lists
these systems. Whoever is forgotten or deleted here is deleted there; a system that deletes nobody gets `active: false`
and empty names. What it keeps besides is the organization's to erase
([0238](decisions/0238-people-arrive-in-other-systems.md)).

**The maker of a widget** (`POSTERN_WIDGET`, off unless the operator sets it) meets people's browsers itself, where many
requests come in: it learns their network address, what its own cookies tell, and when they were here. Postern stores
nothing of it, and tells the maker nothing of a person. The operator names the maker as a processor
([0205](decisions/0205-widgets-of-others.md)).

**The id of a request** (`request_id`) stands in audit entries, events, deliveries, sign-ins and jobs. It is a time and a
random number, or a time and a digest of the text that the client gave, and says nothing about a person. It stays when
a person is forgotten, and tells which rows belong together, as their times do.
"""


def render() -> str:
    parts = [_HEAD]
    for name, table in sorted(TABLES.items()):
        if table.personal:
            parts.append(f"\n## `{name}`\n\n| column | what | erased | kept |\n|---|---|---|---|\n")
            parts += [_row(column, one) for column, one in table.personal.items()]
            parts.append(f"\n{_said(table)}\n")
    return "".join(parts)


def _said(table: Table) -> str:
    shown = f"as {_listed(part.part for part in table.parts)}" if table.parts else f"not, because {table.exported}"
    unshown: dict[str, list[str]] = {}
    for column, one in table.personal.items():
        if one.unshown:
            unshown.setdefault(one.unshown, []).append(column)
    exported = "; ".join((shown, *(f"{_listed(columns)} not, because {reason}" for reason, columns in unshown.items())))
    return f"Exported: {exported}. Forgotten: {table.forgotten}."


def _listed(names: Iterable[str]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _row(column: str, one: Personal) -> str:
    return f"| `{column}` | {one.what} | {one.eraser.value} | {one.retention} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
