"""What moves is declared of columns that are there, and every column of ids that moves has a meaning."""

from collections.abc import Sequence

from adapters.postgres.moving import arriving_columns
from adapters.postgres.moving.people import COLUMNS, OWN_COLUMNS
from adapters.postgres.moving.what_moves import MovedTable, decoders_of, moved_tables
from adapters.postgres.tables.declaring import ALWAYS_LEFT
from adapters.postgres.tables.every import MOVED, TABLES
from adapters.postgres.unit_of_work import PostgresUnitOfWork
from tests.adapters.postgres.conftest import Store

IDS = """
    select pg_class.relname || '.' || attname as name
      from pg_attribute
      join pg_class on pg_class.oid = attrelid
     where pg_class.relnamespace = 'public'::regnamespace and attnum > 0 and not attisdropped
       and atttypid in ('uuid'::regtype, 'uuid[]'::regtype)
"""


async def tables(store: Store) -> Sequence[MovedTable]:
    async with store.unit_of_work() as uow:
        assert isinstance(uow, PostgresUnitOfWork)
        return await moved_tables(uow.statements)


async def names(store: Store, statement: str) -> set[str]:
    return {row["name"] for row in await store.query(statement)}


async def test_the_rows_of_each_table_are_found(store: Store) -> None:
    for table in await tables(store):
        assert table.owner or table.service or table.declared.rows != "true" or table.declared.of_people, table.name
        assert not table.declared.of_people or table.person is not None, table.name


async def test_every_column_of_ids_has_a_meaning(store: Store) -> None:
    known: set[str] = set()
    for table in await tables(store):
        meant = {"id", table.owner, table.service, *table.declared.ids, *table.declared.kept_by}
        known |= {f"{table.name}.{column}" for column in meant}
        known |= {f"{table.name}.{reference.column}" for reference in table.references}
        known |= {f"{table.name}.{column}" for column in (*table.declared.leaves, *ALWAYS_LEFT)}
        for column, parent in table.declared.kept_by.items():
            assert parent in MOVED, column
        checked = {one for one, meaning in table.declared.ids.items() if meaning == "checked" and table.name != "team_members"}
        assert not checked or table.declared.checks
    found = {name for name in await names(store, IDS) if name.partition(".")[0] in MOVED}
    assert found - known == set(), "say in adapters/postgres/tables whose id it is"


async def test_every_column_of_texts_numbers_and_documents_has_a_rule(store: Store) -> None:
    """A new column of a table that moves stops here until somebody says what it may be."""
    for table in await tables(store):
        checked = {column for column, kind in table.types.items() if kind in {"text", "_text", "int2", "int4", "int8", "jsonb", "inet"}}
        of_bytes = {"passkeys": {"credential_id", "public_key"}}.get(table.name, set())
        assert arriving_columns.COLUMNS[table.name].keys() == checked | of_bytes, table.name
        decoders_of(table)


async def test_what_is_declared_of_a_column_is_of_one_that_is_there(store: Store) -> None:
    rows = await store.query(
        "select table_name || '.' || column_name as name from information_schema.columns where table_schema = 'public'"
    )
    there = {row["name"] for row in rows}
    for name, declared in MOVED.items():
        said = {*declared.leaves, *declared.sets, *declared.ids, *declared.kept_by}
        assert {f"{name}.{column}" for column in said} - there == set()
    assert {name for name in ALWAYS_LEFT if not any(one.endswith(f".{name}") for one in there)} == set()
    of_people = {"is_own", "made_by_directory", "deactivated_by", "is_locked", "has_passkey_as_second_factor"}
    assert {f"users.{column}" for column in {*COLUMNS, *OWN_COLUMNS} - of_people} - there == set()


async def test_no_sealed_value_leaves_as_it_is(store: Store) -> None:
    for table in await tables(store):
        sealed = {column for column in table.columns if "sealed" in column}
        assert sealed == TABLES[table.name].sealed.keys() - {*table.declared.leaves}, table.name


async def test_an_account_says_nothing_of_the_platform(store: Store) -> None:
    """Every column of an account is either a person's own, computed for the file, or stays. A new column stays until somebody decides."""
    rows = await store.query(
        "select column_name as name from information_schema.columns where table_schema = 'public' and table_name = 'users'"
    )
    stays = {
        *("is_platform_owner", "deactivated_at", "registered_in", "pending_email", "pending_email_key", "updated_at", "username"),
        *("anonymized_at", "origin_org_id", "deactivated_by_org_id", "email_key", "address_vouched_by", "locked_at"),
        # The next installation offers its own passkeys.
        *("passkey_offered_at", "passkey_offers_ended_at"),
    }
    assert {row["name"] for row in rows} - set(COLUMNS) == stays


async def test_rows_arrive_after_those_that_they_need(store: Store) -> None:
    order = [table.name for table in await tables(store)]
    assert sorted(order) == sorted(MOVED)
    for table in await tables(store):
        for reference in table.references:
            if reference.parent in order and reference.parent != table.name:
                assert order.index(reference.parent) < order.index(table.name)
    assert order.index("all_organizations") < order.index("all_services")
