"""Personal data: every column that can hold it is listed, and it ends as the list says."""

import re
from datetime import UTC, datetime, timedelta
from runpy import run_path
from typing import Any, Final, LiteralString, cast

import pytest

from adapters.postgres.identity.privacy import parts
from adapters.postgres.identity.privacy.forgetting import CREDENTIALS, PARTS
from adapters.postgres.identity.privacy.privacy import EXPORT
from adapters.postgres.tables.declaring import A_PERSONS, BY_STATEMENT, NO_CREDENTIAL, PERSON, Eraser, ExportPart, Table, of_account
from adapters.postgres.tables.every import TABLES
from adapters.postgres.upkeep import housekeeping
from core.domain.identifiers import LoginEventId
from core.domain.identity.devices import Client, DeviceType, Location, UserAgent
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.privacy import Export
from core.domain.identity.risk import NOTHING_KNOWN, Approach, is_known_location, is_usual_hour
from core.frozen import names_of, replace
from entrypoints import personal_data_page
from tests.adapters.postgres.conftest import Store
from tests.places import ROOT

PERSONAL: Final = {f"{name}.{column}": one for name, table in TABLES.items() for column, one in table.personal.items()}
NOT_PERSONAL: Final = {f"{name}.{column}" for name, table in TABLES.items() for column in table.plain}

ALL_COLUMNS: Final = """
    select pg_class.relname || '.' || attname as name
      from pg_attribute
      join pg_class on pg_class.oid = attrelid
      join pg_type as declared on declared.oid = atttypid
      join pg_type as of_array on of_array.oid = coalesce(nullif(declared.typelem, 0), declared.oid)
      join pg_type as held on held.oid = coalesce(nullif(of_array.typbasetype, 0), of_array.oid)
     where pg_class.relnamespace = 'public'::regnamespace
       and pg_class.relkind in ('r', 'p')
       and attnum > 0
       and not attisdropped
"""
# Arrays and domains of these too.
COLUMNS: Final = f"""{ALL_COLUMNS}
       and held.typname in ('text', 'varchar', 'bpchar', 'name', 'citext', 'inet', 'cidr', 'json', 'jsonb', 'bytea', 'xml', 'hstore')
"""

# Which columns refer to a table, and their rows go with its rows: directly, or over one table between.
CASCADES: Final = """
    with cascades as (
             select conrelid as child, confrelid as parent, pg_attribute.attname as by_column
               from pg_constraint
               join pg_attribute on pg_attribute.attrelid = conrelid and pg_attribute.attnum = conkey[1]
              where contype = 'f' and confdeltype = 'c'
         )
  select child::regclass::text as child, parent::regclass::text as parent, by_column from cascades
"""


async def columns(store: Store, statement: str = COLUMNS) -> set[str]:
    return {row["name"] for row in await store.query(statement)}


async def test_every_column_that_can_hold_personal_data_is_listed(store: Store) -> None:
    found, listed = await columns(store), PERSONAL.keys() | NOT_PERSONAL
    assert found - listed == set(), "say in adapters/postgres/tables what these hold, and who erases it"
    # Numbers and ids can be personal, too, as coordinates are: whoever adds some lists them unasked.
    assert listed - await columns(store, ALL_COLUMNS) == set(), "these are gone"


async def test_a_column_that_nobody_listed_is_found_in_any_table_and_form(fresh_store: Store) -> None:
    await fresh_store.query("alter table tiers add column notes text[]")
    await fresh_store.query("create table diaries (id uuid primary key, said jsonb, at inet, seal bytea)")
    await fresh_store.query("create domain short_text as text")
    await fresh_store.query("create table notes (id uuid, line short_text)")
    new = await columns(fresh_store) - PERSONAL.keys() - NOT_PERSONAL
    assert new == {"tiers.notes", "diaries.said", "diaries.at", "diaries.seal", "notes.line"}


async def test_what_goes_with_the_account_or_the_organization_hangs_on_it(store: Store) -> None:
    hangs: dict[str, set[str]] = {}
    for row in await store.query(CASCADES):
        hangs.setdefault(row["child"], set()).add(row["parent"])
    by_column = {(row["child"], row["by_column"]) for row in await store.query(CASCADES) if row["parent"] == "users"}
    for name, one in PERSONAL.items():
        table = name.partition(".")[0]
        if one.eraser is Eraser.ACCOUNT and table != "users":
            over = {parent for between in hangs[table] for parent in hangs.get(between, ())}
            assert "users" in hangs[table] | over, name
            assert one.person is None or (table, one.person) in by_column, name
        if one.eraser is Eraser.ORGANIZATION:
            assert "all_organizations" in hangs[table], name


async def test_whose_it_is_stands_in_a_column_of_the_table(store: Store) -> None:
    ids = await store.query("select table_name || '.' || column_name as name from information_schema.columns where data_type = 'uuid'")
    known = {row["name"] for row in ids}
    for name, one in PERSONAL.items():
        assert one.person is None or f"{name.partition('.')[0]}.{one.person}" in known, name


def test_forgetting_a_person_reaches_every_table_on_the_list() -> None:
    statements = [*CREDENTIALS, *PARTS.values()]
    for name, table in TABLES.items():
        changed = any(re.search(rf"(update|delete from) {name}\b", statement) for statement in statements)
        assert not table.personal or changed is (table.forgotten == BY_STATEMENT), name


def test_what_an_export_shows_stands_in_it() -> None:
    for name, table in TABLES.items():
        if isinstance(table.exported, ExportPart):
            assert table.exported.part in names_of(Export), name
            assert re.search(rf"\b{name}\b", EXPORT), name


def declared(name: LiteralString, exported: ExportPart) -> Table:
    holds = tuple(of_account(column, "What the person wrote.") for column in exported.values.values())
    ways: dict[str, Any] = {"whose": PERSON, "moves": A_PERSONS, "ends": A_PERSONS, "opens": NO_CREDENTIAL, "forgotten": BY_STATEMENT}
    return Table(name, holds=holds, exported=exported, **ways)


@pytest.mark.parametrize(
    ("name", "exported", "told"),
    [
        # No part has the rows.
        ("diaries", ExportPart("diaries", shows=("line",)), "diaries: .* must both name the part `diaries`"),
        ("diaries", ExportPart("devices", shows=("line",)), "diaries: .* must both name the part `devices`"),
        # The part's class has no field for the column.
        ("passkeys", ExportPart("passkeys", shows=("line",)), "line.*: the part `passkeys` .* and ExportedPasskey must both name it"),
        # The part stands as it is, and does not name the column.
        ("users", ExportPart("account", shows=("line",), beside=ExportPart("own_profile")), "does not show users.line"),
        # The part stands, and no table names it.
        ("users", ExportPart("account", shows=("email",)), "users: .* must both name the part `own_profile`"),
    ],
)
def test_a_personal_column_that_no_part_reads_stops_the_import(
    name: LiteralString, exported: ExportPart, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parts.__file__ is not None
    assert run_path(parts.__file__)["SELECTED"] == parts.SELECTED
    monkeypatch.setitem(cast("dict[str, Table]", TABLES), name, declared(name, exported))
    with pytest.raises(TypeError, match=told):
        run_path(parts.__file__)


def test_a_column_that_a_table_newly_shows_stands_in_the_statement() -> None:
    """Nothing but the declaration changes."""
    exported = ExportPart("metadata", shows=("metadata", "line"), named={"service": "service_id"})
    statement = parts.joined(parts.PARTS, {**TABLES, "service_users": declared("service_users", exported)})
    assert "'line', service_users.line" in statement
    assert "'line', service_users.line" not in EXPORT


def test_the_words_are_sentences() -> None:
    for name, one in PERSONAL.items():
        for words in (one.what, one.retention):
            assert words.endswith("."), name


def test_the_documented_list_is_the_one_in_the_code() -> None:
    written = (ROOT / "docs" / "personal-data.md").read_text()
    assert written == personal_data_page.render(), "run: .venv/bin/python -m entrypoints.personal_data_page > docs/personal-data.md"


YEAR: Final = timedelta(days=365)


async def add_login_event(store: Store, user: object, days: int, **values: object) -> None:
    given: dict[str, Any] = {"user": user, "days": days, "id": store.ids.new(), "country": None, **values}
    await store.query(
        """
        insert into login_events (id, user_id, provider, success, address, user_agent, country, city, created_at)
        values (%(id)s, %(user)s, 'password', true, '192.0.2.7', 'Mozilla', %(country)s, 'Vienna', now() - %(days)s * interval '1 day')
        """,
        given,
    )


async def test_sign_ins_go_when_the_setting_says_so(store: Store) -> None:
    account, _ = await store.sign_up()
    for days in (0, 364, 366, 500, 1000):
        await add_login_event(store, account.id, days)
    await add_login_event(store, None, 500)
    sweep = housekeeping.sweep(store.pool, "PastLoginEvents", YEAR)
    assert [await sweep.delete_expired(3) for _ in range(3)] == [3, 1, 0]
    assert await store.count("login_events") == 2
    assert await housekeeping.sweep(store.pool, "PastLoginEvents", timedelta(days=1)).delete_expired(3) == 1


async def test_uses_of_second_factors_go_with_them(store: Store) -> None:
    for days in (0, 364, 366):
        await store.query(
            "insert into mfa_events (id, user_id, name, success, created_at)"
            " values (%(id)s, %(id)s, 'mfa_enabled', true, now() - %(days)s * interval '1 day')",
            {"id": store.ids.new(), "days": days},
        )
    sweep = housekeeping.sweep(store.pool, "PastMfaEvents", YEAR)
    assert [await sweep.delete_expired(3) for _ in range(2)] == [1, 0]
    assert await store.count("mfa_events") == 2


async def test_what_an_event_says_of_a_person_is_emptied_and_the_event_stays(store: Store) -> None:
    for days in (0, 89, 91, 400):
        await store.query(
            "insert into events (id, name, target_type, target_id, details, personal, occurred_at) values"
            """ (%(id)s, 'user.invited', 'user', '1', '{"role": "member"}', '{"invited_email": "ada@example.org"}',"""
            " now() - %(days)s * interval '1 day')",
            {"id": store.ids.new(), "days": days},
        )
    sweep = housekeeping.sweep(store.pool, "PastEventDetails")
    assert [await sweep.delete_expired(1) for _ in range(3)] == [1, 1, 0]
    rows = await store.query("select details, personal from events order by occurred_at")
    assert [row["personal"] is None for row in rows] == [True, True, False, False]
    assert all(row["details"] == {"role": "member"} for row in rows)


def test_no_sweep_touches_the_audit_log() -> None:
    assert len(housekeeping.STATEMENTS) > 10
    assert not [statement for statement in housekeeping.STATEMENTS.values() if "audit_" in statement]


async def test_what_is_known_of_a_person_after_the_sweep_is_of_what_was_kept(store: Store) -> None:
    account, _ = await store.sign_up()
    now = datetime.now(UTC)
    for at, country in ((now - timedelta(days=500), "NZ"), (now - timedelta(days=10), "AT"), (now, "AT")):
        event = LoginEvent(LoginEventId(store.ids.new()), account.id, "password", None, "192.0.2.7", None, at)
        async with store.unit_of_work() as uow:
            await uow.login_events.add(replace(event, country=country))
            await uow.commit()

    async def countries() -> tuple[int, frozenset[str]]:
        approach = Approach(Client(None, ""), UserAgent(DeviceType.BROWSER, None, None, None, None))
        async with store.unit_of_work() as uow:
            known = await uow.devices.knowledge(account.id, approach)
        return known.sign_ins, known.countries

    assert await countries() == (3, frozenset({"NZ", "AT"}))
    assert await housekeeping.sweep(store.pool, "PastLoginEvents", YEAR).delete_expired(10) == 1
    assert await countries() == (2, frozenset({"AT"}))
    # Of somebody whose whole history is gone nothing is held against them.
    await store.query("delete from login_events")
    assert await countries() == (0, frozenset())
    assert is_known_location(Location("AT", None), NOTHING_KNOWN) is is_usual_hour(now, NOTHING_KNOWN) is None


async def test_every_sweep_has_a_name_of_its_own_and_a_statement(store: Store) -> None:
    made = [
        sweep.name
        for sweep in housekeeping.sweeps(
            store.pool, login_event_retention=YEAR, delivery_retention=timedelta(days=30), event_retention=timedelta(days=90)
        )
    ]
    assert sorted(made) == sorted(housekeeping.STATEMENTS)
    assert set(housekeeping._OWN) < set(made)


async def test_what_is_due_is_found_in_an_index(fresh_store: Store) -> None:
    account, _ = await fresh_store.sign_up()
    await fresh_store.query(
        """
        insert into mfa_events (id, user_id, name, success, created_at)
        select gen_random_uuid(), %(user)s, 'mfa_enabled', true, now() - n * interval '10 minutes' from generate_series(1, 50000) as n
        """,
        {"user": account.id},
    )
    await fresh_store.query(
        """
        insert into events (id, name, target_type, target_id, details, personal, occurred_at)
        select gen_random_uuid(), 'user.invited', 'user', '1', '{}', '{"email": "x"}', now() - n * interval '10 minutes'
          from generate_series(1, 50000) as n
        """
    )
    await fresh_store.query("analyze")
    for sweep, index in (
        ("PastMfaEvents", "mfa_events_newest"),
        ("PastEventDetails", "events_personal"),
    ):
        plan = await fresh_store.query("explain " + housekeeping.STATEMENTS[sweep], {"limit": 500, "retention": YEAR})
        lines = "\n".join(row["QUERY PLAN"] for row in plan)
        assert re.search(rf"using {index}|using \w+_personal|using \w+_occurred_at_idx", lines), lines
        assert not re.search(r"Seq Scan on (mfa_events|events_rest)\b", lines), lines
