"""What every schema has to keep."""

from typing import Final

from adapters.postgres.driver.connection import Connection

# Foreign keys without an index that begins with their columns. Deleting the rows that they refer to reads the whole table each time.
_UNINDEXED: Final = """
    select keys.conname, keys.conrelid::regclass::text || ' (' || pg_get_constraintdef(keys.oid) || ')'
      from pg_constraint as keys
     where keys.connamespace = 'public'::regnamespace
       and keys.contype = 'f'
       and not exists (
               select
                 from pg_index
                where pg_index.indrelid = keys.conrelid
                  and pg_index.indisvalid
                  and (pg_index.indkey::smallint[])[0:cardinality(keys.conkey) - 1] @> keys.conkey
                  -- Of a part of the rows, it must be the part that points somewhere.
                  and (pg_index.indpred is null or pg_get_expr(pg_index.indpred, pg_index.indrelid) = (
                          select format('(%I IS NOT NULL)', attname)
                            from pg_attribute
                           where attrelid = keys.conrelid and attnum = keys.conkey[1] and cardinality(keys.conkey) = 1
                      ))
           )
"""

_NEED_NO_INDEX: Final = {
    "all_organizations_tier_id_fkey": "Tiers come with migrations. None is ever deleted, and their ids do not change.",
}


async def _unindexed(connection: Connection) -> dict[str, str]:
    return dict[str, str](await (await connection.execute(_UNINDEXED.encode())).fetchall())


async def test_every_reference_to_a_deleted_row_is_found_by_an_index(database_url: str) -> None:
    async with await Connection.connect(database_url) as connection:
        found = await _unindexed(connection)
        assert found.keys() == _NEED_NO_INDEX.keys(), found
        # An index that begins with something else, or holds other rows, is of no use.
        await connection.execute(b"drop index preauthentications_of_device, devices_of_person")
        await connection.execute(b"create index on preauthentications (device_id) where consumed_at is null")
        await connection.execute(b"create index on devices (last_used_at, user_id)")
        found = await _unindexed(connection)
        assert found.keys() - _NEED_NO_INDEX.keys() == {"preauthentications_device_id_fkey", "devices_user_id_fkey"}
