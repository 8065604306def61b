"""Conditions for statements that show records: people who are being forgotten must not appear, even before the job has removed
every row.
"""

from typing import Final, LiteralString

from adapters.postgres.record.named_addresses import names

IS_BEING_FORGOTTEN: Final = "exists (select from privacy_requests where completed_at is null and privacy_requests.user_id = {user})"
"""Holds as long as rows about the person may be left."""


# For a moment, this also hides records of another person who has one of the former addresses by now.
_ADDRESSES_OF_THEIRS: Final = """
    select unnest(privacy_requests.email_keys)
     union all
    select email_key from former_addresses where former_addresses.user_id = privacy_requests.user_id"""


def names_somebody_being_forgotten(text: LiteralString) -> LiteralString:
    return f"""
        exists (
            select
              from privacy_requests
             cross join lateral ({_ADDRESSES_OF_THEIRS}) as theirs (key)
             where privacy_requests.completed_at is null and {names(text, "theirs.key")}
        )"""


def target_user(row: LiteralString) -> LiteralString:
    """The id of the person whom an event or an entry is about, if it is about one; null otherwise."""
    return target_of(row, "user")


def target_of(row: LiteralString, kind: LiteralString) -> LiteralString:
    """The id of what an event or an entry is about, if that is of this kind and has a UUID for an id; null otherwise."""
    is_id: LiteralString = f"{row}.target_id ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'"
    return f"case when {row}.target_type = '{kind}' and {is_id} then {row}.target_id::uuid end"


# A condition on the row `audit_personal` of the entry `entries`: whether readers may still see it. The entry that records the forgetting,
# and who did it, stays visible.
STAYS: Final[LiteralString] = f"""
                       not {IS_BEING_FORGOTTEN.format(user="audit_personal.actor_id")}
                   and (entries.action = 'user.anonymized' or not {IS_BEING_FORGOTTEN.format(user=target_user("entries"))})"""
