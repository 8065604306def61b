"""A check names each kind of damage, and says of an undamaged backup that it is proved."""

import json
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio

from adapters.backup_folders import DUMP, MANIFEST, BackupFolder, opened_digest_key
from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.backups.restored import OutgoingWork, hold, missing_parts
from adapters.postgres.backups.snapshots import exported_snapshot
from adapters.postgres.migrate import migrate, shipped
from core.domain.backups import ColumnGroup, DamageKind, TableState
from core.frozen import replace
from entrypoints import checks
from entrypoints.bootstrap import open_postern
from entrypoints.checks import Finding, Verdict
from entrypoints.cli.backups import check, restore
from entrypoints.cli.backups.create import create
from entrypoints.cli.backups.proof import NOT_CHECKED, STATUS, CheckReport, prove
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import FAILURE, OK, StartFailed
from entrypoints.settings import Settings
from tests.conftest import CapturedLog
from tests.entrypoints.backups.installation import (
    KEY,
    OTHER_KEY,
    SAME_NAME,
    SECRET,
    BackedUp,
    database_beside,
    in_filling_place,
    name_of,
    settings_for,
)
from tests.places import MIGRATIONS
from tests.tools import needs

KEY_RING: Final = AesGcmKeyRing([KEY])
NOWHERE: Final = "postgresql://nobody@127.0.0.1:1/nothing"
Checked = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def checked(backup: BackedUp, capsys: pytest.CaptureFixture[str]) -> Checked:
    def run(*arguments: str, settings: Settings | None = None) -> tuple[int, list[str]]:
        given = command_line().parse_args(["backup", "check", *arguments])
        status = check.run(given, backup.settings if settings is None else settings)
        return status, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def copied(backup: BackedUp, tmp_path: Path) -> Path:
    return Path(shutil.copytree(backup.folder.path, tmp_path / backup.folder.path.name))


def scratch(backup: BackedUp) -> list[str]:
    return ["--scratch", backup.url]


def test_an_undamaged_backup_is_proved_and_the_audit_log_hears_of_it(
    backup: BackedUp, checked: Checked, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.remember(SECRET)
    # Other tests may be making scratch databases on the same server, by names that they draw.
    draw, drawn = secrets.token_hex, set[str]()

    def remembered(length: int | None = None) -> str:
        drawn.add(name := draw(length))
        return name

    monkeypatch.setattr(secrets, "token_hex", remembered)
    status, lines = checked(str(backup.folder.path), *scratch(backup))
    assert lines[-1].endswith("verified. It can be restored, is complete and can be decrypted, and sign-in works.")
    assert status == OK
    assert [line[:15].split()[1] for line in lines[:-1]] == ["manifest", "dump", "schema", "rows", "ties", "sealed", "audit", "sign-in"]
    assert lines[2].endswith(f" tables and views, {len(shipped())} migration{'s' * (len(shipped()) > 1)}")
    with backup.connect() as connection:
        assert connection.execute(
            "select target_id from audit_entries where action = 'platform.backup.checked' order by id desc limit 1"
        ).fetchone() == (backup.folder.path.name,)
        # The canary was never here, and no scratch database is left.
        assert connection.execute("select count(*) from users where email like 'backup-canary%'").fetchone() == (0,)
        databases = {name for (name,) in connection.execute("select datname from pg_database").fetchall()}
        assert drawn
        assert databases.isdisjoint(f"postern_check_{name}" for name in drawn)


def test_the_result_as_json(checked: Checked, copied: Path) -> None:
    (copied / DUMP).unlink()
    status, lines = checked(str(copied), "--json")
    told = json.loads("\n".join(lines))
    assert (told["ok"], told["status"], status) == (False, 11, 11)
    assert told["damages"] == [{"check": "dump", "sentence": "database.dump is missing"}]


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size * 2 // 3)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def lengthen(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"\0")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


FILES: Final[dict[str, tuple[Callable[[Path], None], DamageKind, str]]] = {
    "no manifest": (lambda at: (at / MANIFEST).unlink(), DamageKind.MANIFEST, "there is no manifest.json"),
    "cut manifest": (lambda at: cut(at / MANIFEST), DamageKind.MANIFEST, "it is cut, or not a manifest"),
    "edited manifest": (
        lambda at: edit(at / MANIFEST, '"rows": 3', '"rows": 2'),
        DamageKind.MANIFEST,
        "the manifest was edited",
    ),
    "no dump": (lambda at: (at / DUMP).unlink(), DamageKind.DUMP, "is missing"),
    "cut dump": (lambda at: cut(at / DUMP), DamageKind.DUMP, "is truncated"),
    "dump with more at its end": (lambda at: lengthen(at / DUMP), DamageKind.DUMP, "is too long"),
    "a bit of the dump flipped": (lambda at: flip(at / DUMP), DamageKind.DUMP, "was altered"),
}


@pytest.mark.parametrize("damage", FILES)
def test_damaged_files_are_named_before_anything_is_restored(checked: Checked, copied: Path, damage: str) -> None:
    do, kind, sentence = FILES[damage]
    do(copied)
    status, lines = checked(str(copied), "--scratch", "postgresql://nobody@127.0.0.1:1/nothing")
    (line,) = [line for line in lines if line.startswith("FAIL")]
    assert line.split()[1] == kind
    assert sentence in line
    assert status == STATUS[kind]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [(OTHER_KEY, "sealed under the key 'test', which the ring does not have"), (SAME_NAME, "made with the key test: altered")],
    ids=["another ring", "another key of the same name"],
)
def test_another_ring_is_named(backup: BackedUp, checked: Checked, tmp_path: Path, key: EncryptionKey, sentence: str) -> None:
    other = settings_for(backup.url, tmp_path, key)
    status, lines = checked(str(backup.folder.path), settings=other)
    assert status == STATUS[DamageKind.KEYS]
    assert lines[0].startswith("FAIL  keys")
    assert sentence in lines[0]


# Each statement damages a copy of the restored database, as a restore or a disk may.
ROWS: Final[dict[str, tuple[str, DamageKind, str]]] = {
    "people missing": (
        "delete from users where email like 'person%' and id in (select id from users order by id desc limit 1)",
        DamageKind.ROWS,
        "the table users has 2 rows, the manifest says 3: 1 missing",
    ),
    "a row too many": (
        "insert into used_usernames values ('x')",
        DamageKind.ROWS,
        "the table used_usernames has 1 rows, the manifest says 0: 1 too many",
    ),
    "sign-ins missing": ("delete from login_events", DamageKind.ROWS, "the table login_events has 0 rows, the manifest says"),
    "a month missing": ("drop table partitions.events_past", DamageKind.ROWS, "the table events has 0 rows, the manifest says"),
    "no relations": ("delete from relations", DamageKind.TIES, "relations: 2 members stand in no relation"),
    "no second factors": ("delete from mfa_secrets", DamageKind.TIES, "mfa_secrets: 1 people have backup codes and no second factor"),
    "no refresh tokens": ("delete from refresh_tokens", DamageKind.TIES, "refresh_tokens: 1 open sessions have neither"),
    "no members": ("delete from memberships", DamageKind.TIES, "memberships: 1 organizations count members"),
    "no tiers": ("delete from tiers", DamageKind.TIES, "no tier is there"),
    "no picture": ("delete from pictures", DamageKind.TIES, "1 people have a picture that is missing"),
    "no event of a delivery": ("delete from events", DamageKind.TIES, "deliveries wait whose event is missing"),
    "no signing keys": ("delete from signing_keys", DamageKind.SIGN_IN, "a new account cannot sign in"),
    "no server secrets": ("delete from server_secrets", DamageKind.TIES, "the secret of the audit chains is missing"),
    "a table missing": ("drop table backup_codes", DamageKind.SCHEMA, "the table backup_codes is missing"),
    "an index missing": ("drop index sessions_of_user", DamageKind.SCHEMA, "the table sessions lacks index sessions_of_user"),
    "a constraint missing": (
        "alter table memberships drop constraint memberships_user_id_fkey",
        DamageKind.SCHEMA,
        "the table memberships lacks constraint memberships_user_id_fkey",
    ),
    "a column missing": ("alter table webhooks drop column name", DamageKind.SCHEMA, "the table webhooks lacks column name text not null"),
    "a trigger off": ("alter table memberships disable trigger members_added", DamageKind.SCHEMA, "lacks trigger members_added"),
    "a function missing": ("drop function count_members cascade", DamageKind.SCHEMA, "function count_members"),
    "another schema": (
        "update schema_migrations set checksum = repeat('0', 64) where number = 1",
        DamageKind.SCHEMA,
        "the schema is another: the database has 0001_release_0_2",
    ),
    "an older schema": (
        "delete from schema_migrations where number = (select max(number) from schema_migrations)",
        DamageKind.SCHEMA,
        "the schema is older: it lacks 00",
    ),
    "a newer schema": (
        "insert into schema_migrations (number, name, checksum) select max(number) + 1, 'later', 'x' from schema_migrations",
        DamageKind.SCHEMA,
        "the schema is newer",
    ),
    "a bit of a sealed secret flipped": (
        "update mfa_secrets set sealed_secret = set_byte(sealed_secret, 30, get_byte(sealed_secret, 30) # 1)",
        DamageKind.SEALED,
        "1 of 1 values of mfa_secrets.sealed_secret cannot be decrypted",
    ),
    "a sealed secret cut": ("update webhooks set sealed_secret = substring(sealed_secret for 12)", DamageKind.SEALED, "cut short"),
    "a sealed secret of another row": (
        "update jobs set sealed_payload = (select sealed_payload from jobs order by id limit 1)",
        DamageKind.SEALED,
        "1 of 2 values of jobs.sealed_payload cannot be decrypted",
    ),
    "a sealed secret under a lost key": (
        "update signing_keys set sealed_private_key = '\\x01046c6f7374'::bytea || substring(sealed_private_key from 7)",
        DamageKind.SEALED,
        "sealed under the key 'lost', which the ring does not have",
    ),
    "an audit entry changed": (
        "update audit_entries set action = 'role.deleted' where action = 'role.created'",
        DamageKind.AUDIT,
        "acme: 1, entry",
    ),
    "an audit entry missing": (
        "delete from audit_entries where id = (select entry_id from audit_links order by chain_id desc, sequence limit 1)",
        DamageKind.AUDIT,
        "its entry is missing",
    ),
    "links missing": ("delete from audit_links where sequence = 2", DamageKind.AUDIT, "2: links are missing"),
    "a chain cut off": (
        "delete from audit_links where sequence = 3 and chain_id <> '00000000-0000-0000-0000-000000000000'",
        DamageKind.AUDIT,
        "the chain ends before the noted head",
    ),
    "a whole chain missing": (
        "delete from audit_links where chain_id = '00000000-0000-0000-0000-000000000007'",
        DamageKind.AUDIT,
        "00000000-0000-0000-0000-000000000007: 0 to 3: the chain ends before the noted head",
    ),
    "a personal part changed": (
        "update audit_personal set address = '198.51.100.1'",
        DamageKind.AUDIT,
        "the address, user agent or names were altered",
    ),
}


@pytest.fixture
def damaged(backup: BackedUp) -> Iterator[Callable[[str], str]]:
    with database_beside(backup.restored, template=name_of(backup.restored)) as url:

        def damage(statement: str) -> str:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("set session_replication_role = replica")
                connection.execute(statement.encode())
            return url

        yield damage


@pytest.mark.parametrize("damage", ROWS)
async def test_damage_inside_the_database_is_named(
    backup: BackedUp, tmp_path: Path, damaged: Callable[[str], str], log: CapturedLog, damage: str
) -> None:
    log.allow("signing_key_unreadable")
    statement, kind, sentence = ROWS[damage]
    url = damaged(statement)
    report = CheckReport("a copy")
    await prove(settings_for(url, tmp_path), backup.folder.verified_manifest(KEY_RING), report, may_migrate=True)
    assert [one for one in report.damages if one.kind is kind and sentence in one.sentence], report.damages
    assert report.status != OK


def test_a_copy_that_was_restored_by_other_means_is_proved_and_left_without_the_canary(
    backup: BackedUp, checked: Checked, damaged: Callable[[str], str]
) -> None:
    copy = damaged("select 1")
    status, lines = checked(str(backup.folder.path), "--database", copy)
    assert (status, lines[-1]) == (
        OK,
        f"{backup.folder.path.name}: verified. It can be restored, is complete and can be decrypted, and sign-in works.",
    )
    with psycopg.connect(copy) as connection:
        assert connection.execute("select count(*) from users where email like 'backup-canary%'").fetchone() == (0,)
        assert connection.execute("select count(*) from audit_entries where action = 'platform.owner.created'").fetchone() == (2,)


def test_a_copy_without_a_backup_is_judged_by_itself(checked: Checked, damaged: Callable[[str], str]) -> None:
    copy = damaged("delete from mfa_secrets")
    status, lines = checked("--database", copy, "--no-sign-in")
    assert status == STATUS[DamageKind.TIES]
    assert [line for line in lines if "sign-in" in line] == []
    assert lines[-1] == "the restored database: 1 fault found. Do not rely on this backup."
    with psycopg.connect(copy, autocommit=True) as connection:
        connection.execute("drop table relations cascade")
    status, lines = checked("--database", copy, "--no-sign-in")
    assert status == STATUS[DamageKind.SCHEMA]
    assert "FAIL  schema    the database lacks table relations, index relations_of_user" in lines[0]


def test_a_database_that_is_served_or_the_own_one_is_no_copy(backup: BackedUp, checked: Checked, damaged: Callable[[str], str]) -> None:
    with pytest.raises(StartFailed, match="not a copy"):
        checked("--database", backup.url)
    copy = damaged("select 1")
    with psycopg.connect(copy, application_name="postern listener"), pytest.raises(StartFailed, match="A running Postern uses"):
        checked("--database", copy)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (1, "The backup was created by a newer version of Postern, with 9999_later: check it with that version."),
        (0, "another Postern: its 0001_release_0_2 is not that of this version. Check it with the version that created it."),
    ],
    ids=["newer", "another"],
)
def test_a_backup_of_a_schema_that_nobody_here_knows_is_not_restored(
    backup: BackedUp, checked: Checked, copied: Path, change: int, sentence: str
) -> None:
    manifest = backup.folder.read_manifest()
    migrations = list(manifest.database.migrations)
    if change:
        migrations.append("9999_later x")
    else:
        migrations[0] = "0001_release_0_2 x"
    (copied / MANIFEST).unlink()
    BackupFolder(copied).write_manifest(replace(manifest, database=replace(manifest.database, migrations=migrations)), KEY_RING)
    status, lines = checked(str(copied), "--scratch", "postgresql://nobody@127.0.0.1:1/nothing")
    assert status == NOT_CHECKED
    assert lines[-1].startswith(f"{copied.name}: not checked. The backup was created by ")
    assert lines[-1].endswith(sentence)
    assert [line for line in lines if line.startswith("FAIL")] == []


def test_a_manifest_of_a_later_form_is_not_checked_and_no_damage(checked: Checked, copied: Path) -> None:
    edit(copied / MANIFEST, '"format": 1', '"format": 2')
    status, lines = checked(str(copied), "--json")
    told = json.loads("\n".join(lines))
    assert (status, told["status"], told["ok"], told["proved"], told["damages"]) == (NOT_CHECKED, NOT_CHECKED, False, False, [])
    assert told["not_checked"].startswith("The backup was created by a newer version of Postern: the manifest has the form 2")
    with pytest.raises(StartFailed, match="created by a newer version of Postern"):
        restore.run(command_line().parse_args(["backup", "restore", str(copied), "--hold"]), settings_for(NOWHERE, copied))


def test_a_table_that_an_earlier_version_did_not_hold_has_one_digest_and_is_no_damage(
    backup: BackedUp, checked: Checked, copied: Path, tmp_path: Path
) -> None:
    """As hooks before 0.2.0: held since, so the columns that a hold changes have a digest of their own now."""
    manifest = backup.folder.read_manifest()

    async def undivided() -> TableState:
        async with exported_snapshot(backup.restored) as snapshot:
            state = await snapshot.state(opened_digest_key(manifest, KEY_RING), manifest.made_at, undivided={"hooks"})
        return state.tables["hooks"]

    hooks = trio.run(undivided)
    assert set(hooks.digests) == {ColumnGroup.CONTENTS}
    tables = {**manifest.database.tables, "hooks": replace(manifest.database.tables["hooks"], digests=hooks.digests)}
    (copied / MANIFEST).unlink()
    BackupFolder(copied).write_manifest(replace(manifest, database=replace(manifest.database, tables=tables)), KEY_RING)
    status, lines = checked(str(copied), *scratch(backup))
    assert (status, [line for line in lines if line.startswith("FAIL")]) == (OK, []), lines
    with database_beside(backup.restored) as target:
        given = command_line().parse_args(["backup", "restore", str(copied), "--hold"])
        assert restore.run(given, settings_for(target, tmp_path)) == OK
        status, lines = checked(str(copied), "--database", target)
    assert (status, [line for line in lines if line.startswith("FAIL")]) == (OK, []), lines


def test_a_dump_that_does_not_restore_is_named_though_its_bytes_are_right(backup: BackedUp, checked: Checked, copied: Path) -> None:
    cut(copied / DUMP)
    folder = BackupFolder(copied)
    (copied / MANIFEST).unlink()
    folder.write_manifest(replace(backup.folder.read_manifest(), dump=folder.weigh(DUMP)), KEY_RING)
    status, lines = checked(str(copied), *scratch(backup))
    assert status == STATUS[DamageKind.DUMP]
    assert "the dump cannot be restored: pg_restore: " in lines[-2]


@needs("bwrap")
@pytest.mark.parametrize(
    ("mebibytes", "said"),
    [(40, "MiB free, and the check needs"), (160, "so the backup could not be verified")],
    ids=["before", "in the middle"],
)
def test_a_full_place_says_nothing_of_the_backup(backup: BackedUp, tmp_path: Path, mebibytes: int, said: str) -> None:
    (work := tmp_path / "work").mkdir()
    done = in_filling_place(work, mebibytes, backup, tmp_path, "backup", "check")
    sentence = done.stderr.splitlines()[-1]
    assert (done.returncode, str(work) in sentence, sentence.endswith(": name a larger place with --work")) == (FAILURE, True, True), done
    assert said in sentence
    assert "FAIL" not in done.stdout


def test_a_scratch_server_without_room_says_nothing_of_the_backup(
    backup: BackedUp, checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the operator's. The test has none that is full, so the program fails as it does there."""
    said = 'pg_restore: error: COPY failed for table "users": ERROR:  could not extend file "base/5/1": No space left on device'
    fails = f"""case "$*" in *--list*) exec {shutil.which("pg_restore")} "$@";; esac; echo '{said}' >&2; exit 1"""
    for name, script in (("pg_dump", f'exec {shutil.which("pg_dump")} "$@"'), ("pg_restore", fails)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(StartFailed, match=r"^No space is left in the server of --scratch, so the backup could not be verified: name"):
        checked(str(backup.folder.path), *scratch(backup))


def test_a_backup_of_an_older_schema_is_brought_up_to_date_in_the_scratch_database(
    backup: BackedUp, checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_beside(backup.restored) as older:
        trio.run(migrate, older, lambda _line: None)
        settings = settings_for(older, tmp_path)
        trio.run(make_signing_keys, settings)
        manifest = trio.run(create, settings, tmp_path)
        folder = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, folder)
        (folder / f"{len(shipped()) + 1:04}_later.sql").write_text("-- additive\nalter table users add column later text;\n")
        monkeypatch.setattr("adapters.postgres.migrate._FOLDER", folder)
        status, lines = checked(str(tmp_path / manifest.id), *scratch(backup))
    # The database that would be told is of the older schema, too.
    assert (status, lines[-2].endswith("sign-in works.")) == (OK, True), lines


async def make_signing_keys(settings: Settings) -> None:
    async with open_postern(settings) as postern:
        await postern.foundation.signing_keys.ensure()


def test_a_check_that_cannot_be_made_says_why(backup: BackedUp, checked: Checked, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="The scratch database could not be created"):
        checked(str(backup.folder.path), "--scratch", "postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(StartFailed, match="cannot be used for the check"):
        checked(str(backup.folder.path), "--work", str(tmp_path / "nowhere"))
    with pytest.raises(StartFailed, match="Backup nothing not found"):
        checked("nothing")


@pytest.mark.parametrize(
    ("statement", "check", "said"),
    [
        ("delete from relations", checks.rows, "relations: 2 members stand in no relation"),
        ("delete from mfa_secrets", checks.rows, "mfa_secrets: 1 people have backup codes and no second factor"),
        ("delete from refresh_tokens", checks.rows, "refresh_tokens: 1 open sessions have neither a refresh token nor a cookie"),
    ],
)
async def test_the_doctor_names_what_a_partial_restore_left_out(
    damaged: Callable[[str], str], tmp_path: Path, statement: str, check: Callable[[Settings], Awaitable[Finding]], said: str
) -> None:
    assert (await check(settings_for(damaged("select 1"), tmp_path))).verdict is Verdict.OK
    found = await check(settings_for(damaged(statement), tmp_path))
    assert found.verdict is Verdict.FAIL
    assert said in found.text


async def test_the_doctor_names_missing_tables_held_work_and_the_last_proof(damaged: Callable[[str], str], tmp_path: Path) -> None:
    url = damaged("select 1")
    settings = settings_for(url, tmp_path)
    assert await missing_parts(url) == []
    async with open_postern(settings) as postern:
        assert (await checks.jobs(settings, postern)).verdict is Verdict.OK
        await hold(url, [OutgoingWork.SIEM])
        held = await checks.jobs(settings, postern)
        assert (held.verdict, "paused since a restore: siem" in held.text) == (Verdict.WARN, True)
        assert (await checks.backups(postern)).text.startswith("none was ever verified")
        for age, verdict in ((8, Verdict.WARN), (1, Verdict.OK)):
            with psycopg.connect(url) as connection:
                connection.execute(
                    "insert into audit_entries (id, action, target_type, target_id, success, details, created_at)"
                    " values (gen_random_uuid(), 'platform.backup.checked', 'backup', 'b', true, '{}', now() - make_interval(days => %s))",
                    (age,),
                )
            assert (await checks.backups(postern)).verdict is verdict
    damaged("alter table events detach partition partitions.events_rest; drop table partitions.login_events_rest")
    assert await missing_parts(url) == ["table login_events_rest", "table events_rest"]
    damaged("drop table team_members; drop index sessions_of_user; drop function count_members cascade")
    found = checks.tables(await missing_parts(url))
    assert found.verdict is Verdict.FAIL
    assert "function count_members, trigger members_added, trigger members_removed, table team_members and " in found.text
