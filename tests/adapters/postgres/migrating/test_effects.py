"""What migrations do to tables that are there: seen on PostgreSQL, kept in a file, and small enough for a large installation."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import shipped
from adapters.postgres.migrating.forecast import Effect, LockMode, forecast, read_effects, written_effects
from adapters.postgres.migrating.observation import observed
from ops.written.migration_effects import FILE, effects_of

# The rows of an installation with a hundred million sign-ins. A table that is not listed may be as large as these.
EVERY_OTHER_TABLE: Final = 100_000_000
ROWS: Final[Mapping[str, int]] = {
    # As many as there are organizations, or a few for each.
    **dict.fromkeys(("all_organizations", "roles", "teams", "mail_servers", "logos", "domains", "domain_routes"), 20_000),
    "look_pictures": 20_000,
    **dict.fromkeys(("upstream_providers", "siem_configurations", "oauth_credentials", "scim_tokens", "scim_groups"), 20_000),
    **dict.fromkeys(("management_keys", "webhooks", "all_profile_fields"), 100_000),
    # As many as there are services, or a few for each.
    **dict.fromkeys(("all_services", "former_services", "plans", "client_secrets", "saml_configurations", "saml_certificates"), 50_000),
    "service_logos": 50_000,
    # At most a hundred an organization, and a few in most that have any.
    "signal_streams": 100_000,
    **dict.fromkeys(("service_roles", "permissions", "service_claims", "api_keys", "resource_servers"), 100_000),
    # The installation's own.
    **dict.fromkeys(("tiers", "signing_keys", "server_secrets", "billing_sweeps", "logout_expiry", "schema_migrations"), 100),
    "further_providers": 100,
}


async def test_the_file_says_what_postgresql_does(empty_database_url: str) -> None:
    async with await Connection.connect(empty_database_url) as connection:
        if connection.info.server_version // 10_000 != 18:
            pytest.skip("another PostgreSQL may take other locks; the file is about the embedded one")
    found = await effects_of(empty_database_url, shipped())
    assert written_effects(found) == FILE.read_text(encoding="utf-8"), "run: .venv/bin/python -m ops.written.migration_effects"
    assert read_effects(written_effects(found)) == {name: tuple(effects) for name, effects in found.items()}


def too_long(effects: Sequence[Effect]) -> list[str]:
    """What takes more than a second. All rows that one transaction changes are held until its end, too, without any lock on the table."""
    expected = forecast(effects, (), {effect.table: ROWS.get(effect.table, EVERY_OTHER_TABLE) for effect in effects})
    return [f"{part.table}: {part.what}, {part.seconds:.0f} s" for part in expected.parts] if expected.seconds > 1 else []


def test_no_new_migration_holds_a_table_for_more_than_a_second() -> None:
    """What takes longer at a hundred million sign-ins belongs into a migration in steps (docs/decisions/0085)."""
    assert {str(migration): found for migration in shipped() if (found := too_long(migration.effects))} == {}


@pytest.mark.parametrize(
    ("sql", "is_short"),
    [
        ("alter table login_events add column region text", True),
        ("create table regions (id uuid primary key, user_id uuid not null references users on delete cascade)", True),
        ("alter table login_events add constraint c check (risk_score >= 0) not valid", True),
        ("alter table sessions add column friend_id uuid references users", True),
        ("create index on all_organizations (name)", True),
        ("insert into tiers select * from tiers where false", True),
        ("create index on login_events (country)", False),
        ("alter table login_events add constraint c check (risk_score >= 0)", False),
        ("alter table sessions add constraint c foreign key (id) references users", False),
        ("update login_events set country = upper(country)", False),
        ("alter table login_events add column salted uuid default gen_random_uuid()", False),
        ("create table countries as select distinct country from login_events", False),
        ("do $$ begin update users set email = lower(email); end $$", False),
    ],
)
async def test_the_rule_tells_short_migrations_from_long_ones(database_url: str, sql: str, is_short: bool) -> None:
    async with await Connection.connect(database_url) as connection:
        assert (too_long(await observed(connection, sql)) == []) is is_short


TABLES: Final = """
    create table planets (id bigint primary key, name text, moons integer);
    create table moons (id bigint primary key, planet bigint, name text);
    create function watch() returns trigger language plpgsql as $$ begin return null; end $$;
"""


@pytest.mark.parametrize(
    ("sql", "effects"),
    [
        ("create table rings (id bigint primary key)", ()),
        ("create table rings (id bigint references planets)", (Effect("planets", LockMode.SHARE_ROW_EXCLUSIVE),)),
        ("alter table planets add column rings integer not null default 3", (Effect("planets", LockMode.ACCESS_EXCLUSIVE),)),
        (
            "alter table planets add column salt uuid default gen_random_uuid()",
            (Effect("planets", LockMode.ACCESS_EXCLUSIVE, reads=True, rewrites=True),),
        ),
        ("alter table planets alter moons type bigint", (Effect("planets", LockMode.ACCESS_EXCLUSIVE, reads=True, rewrites=True),)),
        ("alter table planets alter name set not null", (Effect("planets", LockMode.ACCESS_EXCLUSIVE, reads=True),)),
        ("alter table planets add check (moons >= 0)", (Effect("planets", LockMode.ACCESS_EXCLUSIVE, reads=True),)),
        ("alter table planets add check (moons >= 0) not valid", (Effect("planets", LockMode.ACCESS_EXCLUSIVE),)),
        (
            "alter table moons add foreign key (planet) references planets not valid",
            (Effect("moons", LockMode.SHARE_ROW_EXCLUSIVE), Effect("planets", LockMode.SHARE_ROW_EXCLUSIVE)),
        ),
        ("create index on planets (name)", (Effect("planets", LockMode.SHARE, reads=True, indexes=1),)),
        ("create trigger watched after insert on planets execute function watch()", (Effect("planets", LockMode.SHARE_ROW_EXCLUSIVE),)),
        ("update planets set moons = 0", (Effect("planets", LockMode.ROW_EXCLUSIVE, reads=True, changes=True),)),
        (
            "do $$ begin if not exists (select from moons) then update planets set moons = 0; end if; end $$",
            (Effect("moons", LockMode.ACCESS_SHARE, reads=True), Effect("planets", LockMode.ROW_EXCLUSIVE, reads=True, changes=True)),
        ),
        ("create table all_moons as select * from moons", (Effect("moons", LockMode.ACCESS_SHARE, reads=True),)),
        ("drop table moons", (Effect("moons", LockMode.ACCESS_EXCLUSIVE),)),
        ("truncate moons", (Effect("moons", LockMode.ACCESS_EXCLUSIVE, reads=True, rewrites=True),)),
    ],
)
async def test_postgresql_tells_what_a_statement_does(empty_database_url: str, sql: str, effects: tuple[Effect, ...]) -> None:
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute(TABLES)
    async with await Connection.connect(empty_database_url) as connection:
        found = await observed(connection, sql)
    unchecked = tuple(effect for effect in found if effect.lock is not LockMode.ROW_SHARE)
    assert unchecked == effects


def test_locks_conflict_as_postgresql_says() -> None:
    """The table of its documentation, 13.3.1."""
    conflicts = {mode: "".join("x" if mode.conflicts_with(other) else "." for other in LockMode) for mode in LockMode}
    assert list(conflicts.values()) == ["." * 7 + "x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx", "x" * 8]
    assert LockMode.of_catalogue("ShareUpdateExclusiveLock") is LockMode.SHARE_UPDATE_EXCLUSIVE
