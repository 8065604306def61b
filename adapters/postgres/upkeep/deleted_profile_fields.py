"""Removes the values of deleted fields from PostgreSQL."""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.upkeep.deleted_rows import SWEPT, PostgresDeletedRows
from core.domain.tenancy.profile_fields import PURGE_JOB


class PostgresDeletedProfileFields(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, PARTS, table="all_profile_fields", job=PURGE_JOB, named="field")


def _values(keeper: LiteralString) -> LiteralString:
    """A batch of the rows of one keeper, by an index of its own, whether or not they have a value of the field."""
    return f"""
        with batch as (
                 select profile_values.user_id as id
                   from all_profile_fields as fields
                   join profile_values on {keeper}
                  where fields.id = %(owner)s and fields.deleted_at is not null and profile_values.user_id > %(after)s
                  order by profile_values.user_id
                  limit %(limit)s
                    for update of profile_values
             ),
             gone as (
                 update profile_values
                    set values = values - %(owner)s::text, asked = array_remove(asked, %(owner)s::uuid)
                   from batch, all_profile_fields as fields
                  where profile_values.user_id = batch.id and fields.id = %(owner)s and {keeper}
                    and (values ? %(owner)s::text or %(owner)s::uuid = any (asked))
              returning 1
             )
        {SWEPT}"""


PARTS: Final[Mapping[str, LiteralString]] = {
    "values_in_organization": _values("profile_values.org_id = fields.org_id"),
    "values_in_installation": _values("profile_values.org_id is null and fields.org_id is null"),
}
