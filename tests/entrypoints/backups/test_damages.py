"""Damages of a copy, each of which a check names with its table. No row is missing, and nothing that PostgreSQL itself would refuse."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.backup_folders import DUMP, MANIFEST, BackupFolder, opened_digest_key
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.postgres.backups.restored import OutgoingWork, hold
from adapters.postgres.backups.snapshots import exported_snapshot
from core.domain.backups import DamageKind, DatabaseState
from core.frozen import replace
from entrypoints.cli.backups import check
from entrypoints.cli.backups.create import create
from entrypoints.cli.backups.proof import STATUS, CheckReport, prove
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK
from tests.entrypoints.backups.installation import KEY, OWNER, BackedUp, database_beside, name_of, settings_for

KEY_RING: Final = AesGcmKeyRing([KEY])
OTHER_CONTENTS: Final = "the table {} has as many rows as the manifest says, and other contents"
OTHER: Final = "the table {} has another {} than the manifest says"

# What somebody who may write to the copy could change without a trace in the number of rows.
CONTENTS: Final = {
    "the owner's password is a stranger's": (
        f"""
        update users
           set password_hash = (select password_hash from users as stranger where stranger.email <> '{OWNER}' order by id limit 1)
         where email = '{OWNER}'
        """,
        "users",
    ),
    "two people swap their passwords": (
        f"""
        update users
           set password_hash = others.password_hash
          from users as others
         where users.id <> others.id and '{OWNER}' in (users.email, others.email)
           and (users.email like 'person%' or others.email like 'person%')
        """,
        "users",
    ),
    "a stranger owns the platform": ("update users set is_platform_owner = true where not is_platform_owner", "users"),
    "an address is another": ("update users set email = 'x' || email, email_key = 'x' || email_key where email like 'person%'", "users"),
    "a person is the owner of an organization": (
        "update relations set relation = 'owner' where object_type = 'organization' and relation <> 'owner'",
        "relations",
    ),
    "redirect addresses lead elsewhere": ("update all_services set redirect_uris = '{https://evil.example/}'", "all_services"),
    "an address of a sign-out leads elsewhere": (
        "update all_services set backchannel_logout_uri = 'https://evil.example/'",
        "all_services",
    ),
    "a webhook leads elsewhere": ("update webhooks set url = 'https://evil.example/'", "webhooks"),
    "a webhook rests": ("update webhooks set rests_until = now()", "webhooks"),
    "two jobs swap their times": (
        "update jobs set run_at = others.run_at from jobs as others where jobs.id <> others.id",
        "jobs",
    ),
    "a picture is another": ("update pictures set content = 'y'", "pictures"),
    "a session lasts": ("update sessions set ends_at = ends_at + interval '10 years'", "sessions"),
    "a session is somebody else's": (f"update sessions set user_id = (select id from users where email <> '{OWNER}' limit 1)", "sessions"),
    "a second factor is off": ("update mfa_secrets set enabled_at = null", "mfa_secrets"),
    "a member counts elsewhere": (
        "update memberships set id = gen_random_uuid() where id = (select max(id::text)::uuid from memberships)",
        "memberships",
    ),
    "a limit is raised": ("update tiers set default_max_users = 1000000 where name = 'free'", "tiers"),
    "an event is another": ("update events set target_id = '2' where name = 'role.created'", "events"),
    "a sign-in was elsewhere": ("update login_events set address = '198.51.100.1'", "login_events"),
    "a service's user is of another day": ("update service_users set created_at = created_at - interval '1 day'", "service_users"),
    "a backup code is another": ("update backup_codes set digest = 'another'", "backup_codes"),
}

SCHEMA: Final = {
    "a constraint is dropped": (
        "alter table jobs drop constraint jobs_one_payload",
        "the table jobs lacks constraint jobs_one_payload",
    ),
    "a constraint is looser": (
        "alter table jobs drop constraint jobs_one_payload, add constraint jobs_one_payload check (true)",
        OTHER.format("jobs", "constraint jobs_one_payload"),
    ),
    "a column may be empty": (
        "alter table jobs alter kind drop not null",
        "the table jobs lacks column kind text not null",
    ),
    "an index is gone": ("drop index sessions_of_user", "the table sessions lacks index sessions_of_user"),
    "a trigger is off": (
        "alter table memberships disable trigger members_added",
        "the table memberships lacks trigger members_added",
    ),
    "a trigger works for replicas alone": (
        "alter table memberships enable replica trigger members_added",
        OTHER.format("memberships", "trigger members_added"),
    ),
    "a trigger was added": (
        "create trigger mine after insert on sessions for each statement execute function count_members()",
        "the table sessions has trigger mine, of which the manifest says nothing",
    ),
    "a function does nothing": (
        "create or replace function count_members() returns trigger language plpgsql as $$ begin return null; end $$",
        "the function count_members() has another body",
    ),
    "a function acts for its owner": ("alter function count_members() security definer", "the function count_members() has another body"),
    "a default is another": (
        "alter table users alter is_platform_owner set default true",
        OTHER.format("users", "default of is_platform_owner"),
    ),
    "a default is gone": ("alter table sessions alter ends_at drop default", OTHER.format("sessions", "default of ends_at")),
    "a view shows more": (
        """
        do $$ begin
            execute 'create or replace view services as ' || regexp_replace(pg_get_viewdef('services'::regclass), 'WHERE.*', '');
        end $$
        """,
        OTHER.format("services", "query"),
    ),
    "an index is another": (
        "drop index sessions_of_user; create index sessions_of_user on sessions (id)",
        OTHER.format("sessions", "index sessions_of_user"),
    ),
    "rows are hidden": ("alter table users enable row level security", OTHER.format("users", "row security")),
    "a rule swallows rows": (
        "create rule mine as on insert to sessions do instead nothing",
        "the table sessions has rule mine, of which the manifest says nothing",
    ),
    "a role may read": (
        "grant select on users to pg_monitor",
        "the table users lets pg_monitor select, of which the manifest says nothing",
    ),
    "everybody may read a column": (
        "grant select (password_hash) on users to public",
        "the table users lets public select of password_hash, of which the manifest says nothing",
    ),
    "a table belongs to somebody else": (
        "alter table users owner to pg_monitor",
        "the table users belongs to pg_monitor, and the schema to",
    ),
    "everybody may make tables": (
        "grant create on schema public to public",
        "the schema public lets public create, of which the manifest says nothing",
    ),
    "a role may make tables, and pass that on": (
        "grant create on schema public to pg_monitor with grant option",
        "the schema public lets pg_monitor create with grant option, of which the manifest says nothing",
    ),
    "a role may look into the schema": (
        "grant usage on schema public to pg_monitor",
        "the schema public lets pg_monitor use, of which the manifest says nothing",
    ),
    "the schema belongs to somebody else": (
        "alter schema public owner to pg_monitor",
        "the schema public belongs to pg_monitor, and its tables to",
    ),
    "a role may read what is made later": (
        "alter default privileges in schema public grant select on tables to pg_monitor",
        "the schema public lets pg_monitor select of later tables, of which the manifest says nothing",
    ),
    "everybody may read what is made later": (
        "alter default privileges grant select on tables to public",
        "the schema public lets public select of later tables, of which the manifest says nothing",
    ),
    "a function belongs to somebody else": (
        "alter function count_members() owner to pg_monitor",
        "the function count_members() belongs to pg_monitor",
    ),
}

# What was added to a copy acts, shows or hides something. Each has one sentence, which ends with `NOT_KNOWN`.
NOT_KNOWN: Final = ", of which the manifest says nothing"
ADDED: Final = {
    "a view for everybody": (
        "create view mine as select email, password_hash from users; grant select on mine to public",
        "the database has view mine",
    ),
    "a materialized view": ("create materialized view mine as select email from users", "the database has materialized view mine"),
    "a function that acts for its owner": (
        "create function mine(text) returns text language sql security definer as 'select $1'",
        "the database has function mine(text)",
    ),
    "a function of the same name": (
        "create function count_members(text) returns text language sql as 'select $1'",
        "the database has function count_members(text)",
    ),
    "a table": ("create table mine (id bigserial)", "the database has table mine"),
    "a sequence": ("create sequence mine", "the database has sequence mine"),
    "a type": ("create type mine as enum ('a')", "the database has type mine"),
    "a domain": ("create domain mine as text", "the database has type mine"),
    "a policy": ("create policy mine on users using (true)", "the table users has policy mine"),
    "a trigger": (
        "create trigger mine after insert on sessions for each statement execute function count_members()",
        "the table sessions has trigger mine",
    ),
    "a rule": ("create rule mine as on insert to sessions do also notify mine", "the table sessions has rule mine"),
    "a column": ("alter table users add mine text default 'x'", "the table users has column mine text"),
    "a schema": ("create schema mine", "the database has schema mine"),
    "a publication": ("create publication mine for table users", "the database has publication mine"),
    "an operator": ("create operator ^^ (leftarg = text, rightarg = text, function = textcat)", "the database has operator ^^"),
    "a right of a role": ("grant select on users to pg_monitor", "the table users lets pg_monitor select"),
    "a right to a month of events": (
        "grant select on partitions.events_rest to pg_monitor",
        "the database has the right of pg_monitor to select on table partitions.events_rest",
    ),
    "a right to the schema of months": (
        "grant usage on schema partitions to public",
        "the database has the right of public to usage on schema partitions",
    ),
    "a right to what is made later": (
        "alter default privileges in schema public grant select on tables to pg_monitor",
        "the schema public lets pg_monitor select of later tables",
    ),
    "a right to later months": (
        "alter default privileges in schema partitions grant select on tables to pg_monitor",
        "the database has the right of pg_monitor to select on what is made later in partitions",
    ),
}

# These have several sentences each.
SEVERAL: Final = {
    "a column has another type": (
        "alter table jobs alter attempts type bigint",
        "the table jobs lacks column attempts integer not null",
    ),
    "a constraint is not proved": (
        "alter table jobs drop constraint jobs_one_payload, add constraint jobs_one_payload check (true) not valid",
        "the table jobs lacks constraint jobs_one_payload",
    ),
    "a view is gone": ("drop view services cascade", "the table services is missing"),
    "a function is gone": ("drop function count_members() cascade", "the schema lacks function count_members"),
}


@pytest.fixture
def damaged(backup: BackedUp) -> Iterator[Callable[[str], str]]:
    with database_beside(backup.restored, template=name_of(backup.restored)) as url:

        def damage(statement: str) -> str:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("set session_replication_role = replica")
                changed = connection.execute(statement.encode())
                assert changed.rowcount != 0, "nothing was damaged"
            return url

        yield damage


async def found(backup: BackedUp, url: str, directory: Path) -> CheckReport:
    report = CheckReport("a copy", as_json=True)
    manifest = backup.folder.verified_manifest(KEY_RING)
    await prove(settings_for(url, directory), manifest, report, may_migrate=False, signs_in=False)
    return report


@pytest.mark.parametrize("damage", CONTENTS)
async def test_changed_values_are_named_with_their_table(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, damage: str
) -> None:
    statement, table = CONTENTS[damage]
    report = await found(backup, damaged(statement), tmp_path)
    assert (DamageKind.ROWS, OTHER_CONTENTS.format(table)) in [(one.kind, one.sentence) for one in report.damages]
    # No other table is blamed.
    assert [one.sentence for one in report.damages if one.kind is DamageKind.ROWS] == [OTHER_CONTENTS.format(table)]


@pytest.mark.parametrize("damage", SCHEMA)
async def test_a_changed_schema_is_named_with_its_table(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, damage: str
) -> None:
    statement, sentence = SCHEMA[damage]
    (one,) = (await found(backup, damaged(statement), tmp_path)).damages
    assert one.kind is DamageKind.SCHEMA
    assert sentence in one.sentence


@pytest.mark.parametrize("held", [False, True], ids=["as it is", "restored by others, and held"])
@pytest.mark.parametrize("addition", ADDED)
async def test_what_was_added_to_a_copy_is_named_and_nothing_else(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, addition: str, held: bool
) -> None:
    statement, sentence = ADDED[addition]
    url = damaged(statement)
    if held:
        await hold(url, list(OutgoingWork))
    (one,) = (await found(backup, url, tmp_path)).damages
    assert (one.kind, one.sentence) == (DamageKind.SCHEMA, sentence + NOT_KNOWN)


async def test_things_in_a_schema_of_their_own_are_named(backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path) -> None:
    url = damaged(
        """
        create schema mine;
        create table mine.people as select email from users;
        create function mine.spy() returns event_trigger language plpgsql as 'begin end';
        create event trigger mine on ddl_command_end execute function mine.spy()
        """
    )
    expected = ["event trigger mine", "function mine.spy()", "schema mine", "table mine.people"]
    assert [one.sentence for one in (await found(backup, url, tmp_path)).damages] == [
        f"the database has {thing}{NOT_KNOWN}" for thing in expected
    ]


async def test_an_extension_that_the_backup_does_not_know_is_named(backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path) -> None:
    """The embedded PostgreSQL has only this one, which every database has. So the backup is one that does not know it."""
    state = backup.folder.read_manifest().database
    assert state.objects is not None
    folder = rewritten(backup, tmp_path, replace(state, objects=[one for one in state.objects if one != "extension plpgsql"]))
    report = CheckReport("a copy", as_json=True)
    await prove(settings_for(damaged("select 1"), tmp_path), folder.verified_manifest(KEY_RING), report, may_migrate=False, signs_in=False)
    assert [one.sentence for one in report.damages] == [f"the database has extension plpgsql{NOT_KNOWN}"]


async def test_held_work_is_no_damage_beside_a_schema_that_lacks_tables(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path
) -> None:
    url = damaged("drop index sessions_of_user")
    await hold(url, list(OutgoingWork))
    damaged("drop table siem_configurations")
    assert [one.sentence for one in (await found(backup, url, tmp_path)).damages] == [
        "the table siem_configurations is missing",
        "the table sessions lacks index sessions_of_user",
    ]


def test_an_added_table_that_the_role_may_not_read_is_named_as_added(
    backup: BackedUp, damaged: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    copy = damaged("select 1")
    role = f"reader_of_{name_of(copy)}"
    with psycopg.connect(copy, autocommit=True) as connection:
        connection.execute(f"drop role if exists {role}".encode())
        connection.execute(f"create role {role} login in role pg_read_all_data".encode())
        connection.execute(b"create table mine (id int); alter table mine enable row level security; create policy mine on mine")
        try:
            places = str(backup.folder.path.parent)
            url = make_conninfo(copy, user=role)
            status, lines = checked(["--database", url, "--in", places, "--no-sign-in"], backup, capsys)
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())
    assert status == STATUS[DamageKind.SCHEMA]
    assert [line for line in lines if line.startswith("FAIL")] == [f"FAIL  schema    the database has table mine{NOT_KNOWN}"]


@pytest.mark.parametrize("damage", SEVERAL)
async def test_damage_that_shows_in_several_ways_is_named_with_its_table(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, damage: str
) -> None:
    statement, sentence = SEVERAL[damage]
    assert [one for one in (await found(backup, damaged(statement), tmp_path)).damages if sentence in one.sentence]


def checked(arguments: list[str], backup: BackedUp, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = check.run(command_line().parse_args(["backup", "check", *arguments]), backup.settings)
    return status, capsys.readouterr().out.splitlines()


def test_files_of_another_backup_are_named(backup: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = BackupFolder(tmp_path / trio.run(create, backup.settings, tmp_path).id)
    copied = Path(shutil.copytree(backup.folder.path, tmp_path / backup.folder.path.name))
    shutil.copy(other.dump, copied / DUMP)
    status, lines = checked([str(copied)], backup, capsys)
    assert (status, lines[-2].startswith("FAIL  dump      database.dump ")) == (STATUS[DamageKind.DUMP], True), lines
    # The whole of an older backup under the name of a newer one.
    shutil.copy(other.path / MANIFEST, copied / MANIFEST)
    status, lines = checked([str(copied)], backup, capsys)
    assert status == STATUS[DamageKind.MANIFEST]
    assert f"the manifest is that of {other.path.name}: the files of two backups were swapped" in lines[-2]


def test_a_folder_alone_means_its_newest_backup(
    backup: BackedUp, damaged: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    places = str(backup.folder.path.parent)
    copy = damaged("update all_services set redirect_uris = '{https://evil.example/}'")
    status, lines = checked(["--database", copy, "--in", places, "--no-sign-in"], backup, capsys)
    assert status == STATUS[DamageKind.ROWS]
    assert f"FAIL  rows      {OTHER_CONTENTS.format('all_services')}" in lines
    assert lines[-1] == f"{backup.folder.path.name}: 1 fault found. Do not rely on this backup."
    # Without a backup, nothing is said to be proved that was not.
    status, lines = checked(["--database", copy, "--no-sign-in"], backup, capsys)
    assert status == OK
    assert lines[-1] == (
        "the restored database: no faults found. Not verified: its contents, which were not compared with a backup "
        "(--in uses the newest one); "
        "that people sign in (--no-sign-in)."
    )


def rewritten(backup: BackedUp, directory: Path, state: DatabaseState) -> BackupFolder:
    """The backup with this state in its manifest, sealed as ours are."""
    folder = BackupFolder(Path(shutil.copytree(backup.folder.path, directory / backup.folder.path.name)))
    (folder.path / MANIFEST).unlink()
    folder.write_manifest(replace(backup.folder.read_manifest(), database=state), KEY_RING)
    return folder


def test_a_backup_without_digests_says_that_contents_were_not_compared(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = backup.folder.read_manifest().database
    old = {name: replace(table, digests={}, definitions={}, ownership=None) for name, table in state.tables.items()}
    folder = rewritten(backup, tmp_path, replace(state, tables=old, routines={}, owner=""))
    copy = damaged(CONTENTS["a stranger owns the platform"][0])
    damaged(SCHEMA["a function does nothing"][0])
    status, lines = checked([str(folder.path), "--database", copy, "--no-sign-in"], backup, capsys)
    assert status == OK
    assert lines[-1] == (
        f"{folder.path.name}: no faults found. Not verified: its contents, because the backup has no digests that this version "
        "supports: only rows were counted; that people sign in (--no-sign-in)."
    )
    # What such a manifest does say is still compared.
    damaged(SCHEMA["a trigger was added"][0])
    assert checked([str(folder.path), "--database", copy, "--no-sign-in"], backup, capsys)[0] == STATUS[DamageKind.SCHEMA]


def test_definitions_of_another_version_of_postgresql_are_not_compared(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rewritten(backup, tmp_path, replace(backup.folder.read_manifest().database, server="11.4"))
    copy = damaged(SCHEMA["a default is another"][0])
    status, lines = checked([str(folder.path), "--database", copy], backup, capsys)
    assert status == OK
    assert "Not verified: schema definitions, which PostgreSQL " in lines[-1]
    # Bodies of functions are kept as they were written.
    damaged(SCHEMA["a function does nothing"][0])
    assert checked([str(folder.path), "--database", copy], backup, capsys)[0] == STATUS[DamageKind.SCHEMA]


def test_grants_that_the_manifest_knows_are_those_of_the_copy_once_it_has_any(
    backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = backup.folder.read_manifest().database
    granted = {
        name: replace(table, ownership=replace(table.ownership, grants={"pg_monitor": ["insert", "select"]}))
        for name, table in state.tables.items()
        if table.ownership is not None
    }
    folder = rewritten(backup, tmp_path, replace(state, tables=granted))
    copy = damaged("select 1")
    arguments = [str(folder.path), "--database", copy, "--no-sign-in"]
    assert checked(arguments, backup, capsys)[0] == OK
    damaged("grant select, insert on all tables in schema public to pg_monitor")
    assert checked(arguments, backup, capsys)[0] == OK
    damaged("revoke insert on users from pg_monitor")
    assert "FAIL  schema    the table users does not let pg_monitor insert" in checked(arguments, backup, capsys)[1]


async def test_digests_of_two_keys_are_not_the_same(backup: BackedUp) -> None:
    manifest = backup.folder.verified_manifest(KEY_RING)
    key = opened_digest_key(manifest, KEY_RING)
    assert key is not None
    assert key.hex() not in (backup.folder.path / MANIFEST).read_text()
    async with exported_snapshot(backup.restored) as snapshot:
        with_it, with_another = await snapshot.state(key), await snapshot.state(b"x" * 32)
    assert with_it.tables["users"].digests == manifest.database.tables["users"].digests
    assert with_it.tables["users"].digests != with_another.tables["users"].digests


async def test_an_undamaged_copy_says_nothing(backup: BackedUp, damaged: Callable[[str], str], tmp_path: Path) -> None:
    assert (await found(backup, damaged("select 1"), tmp_path)).damages == []
    # Other settings of the database, and an index of the operator's, are no damage.
    url = damaged("create index mine on users (created_at)")
    damaged(f"alter database {name_of(url)} set timezone = 'Asia/Tokyo'")
    damaged(f"alter database {name_of(url)} set bytea_output = 'escape'")
    damaged(f"alter database {name_of(url)} set search_path = 'public'")
    assert (await found(backup, url, tmp_path)).damages == []
