"""Writes `docs/personal-data.md`: `python -m entrypoints.personal_data_page > docs/personal-data.md`. A test keeps it current."""

import sys
from itertools import groupby
from typing import Final

from adapters.postgres.upkeep.personal_data import PERSONAL, Personal

_HEAD: Final = """\
# Personal data

<!-- Made by `python -m entrypoints.personal_data_page > docs/personal-data.md`; a test compares. Change
adapters/postgres/upkeep/personal_data.py instead. -->

What the database keeps about people, who erases it, and when. This page lists every column that can hold personal data.
A test reads PostgreSQL's catalogue and fails for a column of text, addresses, JSON or bytes that is neither here nor on
the list of columns that hold nothing personal.

The third column says who erases it:

- **with the account**: it is deleted together with the account.
- **when the account is deleted**: the same, by a statement of its own.
- **with the organization**: it is deleted together with the organization that it belongs to.
- **by the janitor alone**: it is deleted, or emptied, when its time is over.

The janitor also deletes, in small batches, what the last column keeps for a shorter time than the account.

**Forgetting a person** (`DELETE /api/privacy/forget/…`, `postern privacy forget`) keeps the account's row, without its
address, and what it can no longer be signed in with. It reaches every table on this page: rows of the person's own are
deleted; sign-ins and uses of second factors stay as `0.0.0.0` and `anonymized`; what events and the audit log say about
the person is erased, and so are mails to them that wait or were given up (those for the account even if its address was
never proved), the addresses of invitations that were sent to them, and what receivers of webhooks answered about them.
Rows that name nobody stay until their time is over: sign-ins that failed for an address without an account, device
codes that nobody has approved, and the buckets of rate limits. Backups, and mails that were written to files, are the
operator's.

**The audit log** is a chain that nobody may alter. What an entry says about a person is therefore kept apart from it
and can be deleted; the entry keeps a salted digest. `postern audit verify` counts such entries as forgotten, and the
chain stays valid.

**Sign-ins and uses of second factors** are kept as long as `POSTERN_LOGIN_EVENT_RETENTION` says. A person's habits are
read from them: when somebody returns after a longer absence, Postern judges the sign-in with little history. Devices,
and when a person first used a service, have rows of their own and do not depend on it.

**Events** are what webhooks are told. What an event says about a person is emptied after 90 days. That it happened, and
to which id, stays.

**A SIEM** that an organization names gets copies of its audit log and its sign-ins. What was forgotten before it left is
not sent, but Postern erases nothing there: that is the organization's to do.
"""


def render() -> str:
    parts = [_HEAD]
    for table, columns in groupby(PERSONAL.items(), key=lambda one: one[0].partition(".")[0]):
        parts.append(f"\n## `{table}`\n\n| column | what | erased | kept |\n|---|---|---|---|\n")
        parts += [_row(name.partition(".")[2], one) for name, one in columns]
    return "".join(parts)


def _row(column: str, one: Personal) -> str:
    return f"| `{column}` | {one.what} | {one.eraser.value} | {one.retention} |\n"


if __name__ == "__main__":
    sys.stdout.write(render())
