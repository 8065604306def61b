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

This page lists every database column that can contain personal data: its contents, how it is erased, and when. A test
reads PostgreSQL's catalog. The test fails for a column of text, IP addresses, JSON or bytes that is neither here nor on
the list of columns without personal data. If you are responsible for the GDPR, this page is the part of your records
that Postern knows: which data are stored, and when they are deleted.

The third column says how the data are erased:

- **with the account**: Postern deletes the column's row together with the account.
- **when the account is deleted**: the same, by a separate statement.
- **with the organization**: Postern deletes the row together with the organization.
- **by the janitor only**: the janitor, a background job, deletes the row or clears the column when its retention period
  is over.

The line below each table says where a person's export contains its data, and which columns it omits. It also says how
an erasure request changes the data.

The janitor also deletes, in small batches, all data that the last column keeps for a shorter time than the account.

**Erasing a person** (`DELETE /api/privacy/forget/…`, `postern privacy forget`) keeps the account's row, but without its
email address. The account can no longer be used to sign in. The erasure covers every table on this page:

- Postern deletes the person's own rows.
- Sign-ins and uses of MFA remain, with `0.0.0.0` and `anonymized` in place of the person's data.
- Postern erases the parts of events and of the audit log about the person, the email addresses of invitations to the
  person, and the responses of webhook endpoints about the person.
- Postern erases queued and failed emails to the person. Emails for the account are erased even if the person has never
  verified its email address.
- Rows that identify no person remain until their retention period is over: sign-ins that failed for an email address
  without an account, unapproved device codes, and rate limit buckets.
- Postern erases neither backups nor emails that were written to files. The operator must erase these.

**The audit log** is a tamper-evident chain. Postern therefore stores the part about a person separately from the entry,
and can delete this part; the entry keeps a salted digest. `postern audit verify` counts such entries as erased, and the
chain remains valid.

**Sign-ins and uses of MFA** are kept as long as `POSTERN_LOGIN_EVENT_RETENTION` says. Sign-ins are kept up to a month
longer, because they are deleted by whole months ([0096](decisions/0096-months.md)). Postern derives a person's habits
from them. After a long absence, Postern therefore evaluates a sign-in with little history. Devices, and the time of a
person's first use of a service, have their own rows and do not depend on this setting.

**Unverified accounts** are deleted after `POSTERN_UNVERIFIED_ACCOUNT_RETENTION`, if they were never used and nothing
else depends on them ([0097](decisions/0097-unverified-accounts-end.md)).

**Events** are sent to webhooks. Postern erases the part of an event about a person after 90 days. The fact that the
event happened, and the ID of its target, are deleted with the event after `POSTERN_EVENT_RETENTION`.

**A SIEM** of an organization receives copies of the organization's audit log and sign-ins. Postern does not send data
that were erased before the export. Postern erases nothing at the SIEM: the organization must do this.

**Provisioning targets** of an application store the attributes of its mapping, and a person's export lists these
systems. If a person is erased or deleted in Postern, the person is deleted there; a system that does not support
deletion gets `active: false` and empty names. The organization must erase what else the system stores
([0238](decisions/0238-people-arrive-in-other-systems.md)).

**The CAPTCHA provider** (`POSTERN_WIDGET`, off unless the operator sets it) communicates with people's browsers
directly when there are many requests. It receives their IP address, the contents of its own cookies, and the time.
Postern stores none of this, and sends the provider no data about a person. The operator lists the provider as a
processor ([0205](decisions/0205-widgets-of-others.md)).

**The request ID** (`request_id`) is in audit entries, events, deliveries, sign-ins and jobs. It is a time and a random
number, or a time and a digest of the text that the client sent. It contains no information about a person. It remains
when a person is erased, and shows which rows belong together, as their times do.
"""


def render() -> str:
    parts = [_HEAD]
    for name, table in sorted(TABLES.items()):
        if table.personal:
            parts.append(f"\n## `{name}`\n\n| column | contents | how erased | retention |\n|---|---|---|---|\n")
            parts += [_row(column, one) for column, one in table.personal.items()]
            parts.append(f"\n{_said(table)}\n")
    return "".join(parts)


def _said(table: Table) -> str:
    shown = f"as {_listed(part.part for part in table.parts)}" if table.parts else f"no, because {table.exported}"
    unshown: dict[str, list[str]] = {}
    for column, one in table.personal.items():
        if one.unshown:
            unshown.setdefault(one.unshown, []).append(column)
    exported = "; ".join((shown, *(f"without {_listed(columns)}, because {reason}" for reason, columns in unshown.items())))
    how = table.forgotten or ""
    erased = f"erased {how}" if how.startswith("by ") else f"not erased separately, because {how}"
    return f"Exported: {exported}. Erasure request: {erased}."


def _listed(names: Iterable[str]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _row(column: str, one: Personal) -> str:
    return f"| `{column}` | {one.what} | {one.eraser.value} | {one.retention} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
