"""A restore goes into an empty database alone, and holds the work that goes out of the house."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from psycopg.conninfo import make_conninfo

from adapters.backup_folders import DUMP, MANIFEST, SEALED_KEYS, kept_backups
from adapters.postgres.backups.restored import OutgoingWork, held_kinds, hold, outgoing, release
from adapters.postgres.backups.snapshots import exported_snapshot
from adapters.postgres.backups.tools import PostgresTools
from core.domain.backup_differences import differences
from core.domain.backups import DatabaseState
from core.domain.identifiers import HookId, OrganizationId, UserId
from core.domain.identity.guards.hook_verdicts import AskingDoor
from core.domain.jobs import NewJob
from core.domain.mail import MAIL_JOB
from core.domain.tenancy.hooks import hook_context
from entrypoints.bootstrap import open_postern
from entrypoints.cli.backups import check, create, listing, recovery_key, restore, work
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK, USAGE, StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings
from tests.conftest import CapturedLog
from tests.e2e.warm.processes import COMMAND, PosternProcess
from tests.entrypoints.backups.installation import KEY, OTHER_KEY, PASSWORD, SECRET, BackedUp, database_beside, name_of, settings_for
from tests.places import ROOT, open_directory


@pytest.fixture
def empty(backup: BackedUp) -> Iterator[str]:
    with database_beside(backup.restored) as url:
        yield url


def parsed(*arguments: str) -> Any:
    return command_line().parse_args(arguments)


def restored(backup: BackedUp, url: str, directory: Path, *more: str) -> int:
    return restore.run(parsed("backup", "restore", str(backup.folder.path), *more), settings_for(url, directory))


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


async def claimable(settings: Settings) -> dict[str, int]:
    """How much work the actors would take now and at any later time of this century."""
    async with open_postern(settings) as postern:
        jobs = await postern.foundation.jobs.claim([MAIL_JOB], 10, timedelta(0))
        webhooks = await postern.tenancy.deliveries.queue.claim(10, timedelta(0), failing=False)
        notices = await postern.federation.deliveries.queue.claim(10, timedelta(0), failing=False)
        exports = await postern.tenancy.siem_export.queue.claim(10, timedelta(0), failing=False)
        billing = await postern.services.billing_inbox.due(postern.foundation.clock.now() + timedelta(days=365), 10)
        checks = await postern.services.billing_inbox.claim_checks(10, postern.foundation.clock.now())
        cancellations = await postern.services.billing_inbox.claim_cancellations(10, postern.foundation.clock.now())
        sweep = await postern.services.billing_inbox.claim_sweep(timedelta(0))
        connections = await postern.federation.provisioning_keeping.claim_due(10)
    found = (len(jobs), len(webhooks), len(notices), len(exports), len(billing), len(checks), len(cancellations), sweep is not None)
    names = ("jobs", "webhooks", "notices", "exports", "billing", "checks", "cancellations", "sweeps", "connections")
    return dict(zip(names, map(int, (*found, len(connections))), strict=True))


async def asked_hooks(settings: Settings) -> int:
    """How many hooks hear of Ada's sign-in to Acme."""
    async with open_postern(settings) as postern:
        (ada,) = rows(conninfo(settings), "select user_id, org_id from memberships where own_since is not null limit 1")
        door = AskingDoor(
            person=UserId(ada[0]), organization=OrganizationId(ada[1]), consents=True, way="password", authenticated_by=("pwd",)
        )
        asked = await postern.foundation.stores.hooks.to_ask(door)
    return 0 if asked is None else len(asked.hooks)


async def ask_for_mail(settings: Settings) -> None:
    async with open_postern(settings) as postern, postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(NewJob(MAIL_JOB, {"to": "new@example.org"}, sealed=True))
        await uow.commit()


def test_a_schema_of_the_parts_that_the_operator_has_made_is_used(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    """The role that restores may not be allowed to make one."""
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("create schema partitions")
    assert restored(backup, empty, tmp_path) == OK
    assert rows(empty, "select count(*) from events") == rows(backup.restored, "select count(*) from events")


def test_all_that_goes_out_is_held_until_it_is_released_and_what_is_new_goes(
    backup: BackedUp, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_for(empty, tmp_path)
    assert restored(backup, empty, tmp_path) == OK
    said = capsys.readouterr().out
    assert "Held: emails, webhook deliveries and sign-out notifications, billing updates, SIEM exports" in said
    assert "provisioning connections, hooks in report-only mode" in said
    assert "Hooks in report-only mode: 1, not called while work is held. Enforced hooks: 1, called.\n" in said
    assert trio.run(asked_hooks, settings) == 1
    assert rows(empty, "select count(*) from users") == rows(backup.restored, "select count(*) from users")
    assert rows(empty, "select count(*) from audit_entries where action = 'platform.backup.restored'") == [(1,)]
    assert not any(trio.run(claimable, settings).values())
    # The same again changes nothing, and a mail for somebody who asks now goes out.
    trio.run(hold, empty, list(OutgoingWork))
    trio.run(ask_for_mail, settings)
    nothing = dict.fromkeys(trio.run(claimable, settings), 0)
    assert trio.run(claimable, settings) == {**nothing, "jobs": 1}
    assert trio.run(held_kinds, empty) == list(OutgoingWork)
    before = trio.run(outgoing, empty)
    assert {kind: count.held for kind, count in before.items()} == {
        "mail": 2,
        "deliveries": 4,
        "billing": 3,
        "siem": 1,
        "provisioning": 1,
        "hooks": 1,
    }
    assert before[OutgoingWork.MAIL].waiting == 3

    assert trio.run(release, empty, [OutgoingWork.MAIL]) == {OutgoingWork.MAIL: 2}
    assert trio.run(claimable, settings) == {**nothing, "jobs": 3}
    assert trio.run(held_kinds, empty) == ["deliveries", "billing", "siem", "provisioning", "hooks"]
    assert work.run(parsed("jobs", "release"), settings) == OK
    assert "siem        1 SIEM exports are released." in capsys.readouterr().out
    assert trio.run(asked_hooks, settings) == 2
    goes = {
        "jobs": 3,
        "webhooks": 1,
        "notices": 1,
        "exports": 1,
        "billing": 1,
        "checks": 1,
        "cancellations": 1,
        "sweeps": 1,
        "connections": 1,
    }
    assert trio.run(claimable, settings) == goes
    assert not any(trio.run(release, empty, list(OutgoingWork)).values())
    capsys.readouterr()
    assert work.run(parsed("jobs", "list"), settings) == OK
    assert capsys.readouterr().out.splitlines()[0] == "mail               3 waiting, 0 held  (emails)"


def test_a_copy_that_our_restore_made_passes_its_check_and_a_second_one(
    backup: BackedUp, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a restore, a release and a check themselves write there is no damage."""
    settings = settings_for(empty, tmp_path)

    def checked() -> list[str]:
        capsys.readouterr()
        check.run(parsed("backup", "check", str(backup.folder.path), "--database", empty), backup.settings)
        return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("ok ")]

    assert restored(backup, empty, tmp_path) == OK
    proved = [f"{backup.folder.path.name}: verified. It can be restored, is complete and can be decrypted, and sign-in works."]
    assert checked() == proved
    assert checked() == proved
    assert work.run(parsed("jobs", "release", "--kind", "mail"), settings) == OK
    assert checked() == proved
    # Damage is found beside what the restore wrote.
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("update webhooks set url = 'https://evil.example/'")
        connection.execute(
            "insert into audit_entries (id, action, target_type, target_id, success, details, created_at)"
            " values (gen_random_uuid(), 'user.deleted', 'user', 'x', true, '{}', now())"
        )
    faults = checked()
    assert "FAIL  rows      the table webhooks has as many rows as the manifest says, and other contents" in faults
    assert [line for line in faults if "the table audit_entries has" in line and line.endswith("1 too many")]
    assert faults[-1].endswith(": 3 faults found. Do not rely on this backup.")


def test_what_is_named_goes_at_once(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    assert restored(backup, empty, tmp_path, "--let-go", "mail") == OK
    held = {kind: count.held for kind, count in trio.run(outgoing, empty).items()}
    assert held == {"mail": 0, "deliveries": 4, "billing": 3, "siem": 1, "provisioning": 1, "hooks": 1}


def test_a_person_at_a_terminal_is_asked(backup: BackedUp, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "go" if "exports" in question else ""

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert restored(backup, empty, tmp_path) == OK
    assert [question.split()[0] for question in asked] == ["2", "4", "2", "1", "1", "1"]
    held = {kind: count.held for kind, count in trio.run(outgoing, empty).items()}
    assert held == {"mail": 2, "deliveries": 4, "billing": 3, "siem": 0, "provisioning": 1, "hooks": 1}


def refusal(do: Callable[[], object]) -> str:
    with pytest.raises(StartFailed) as refused:
        do()
    return str(refused.value)


def test_a_database_with_anything_in_it_is_left_alone(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute("create table mine (id integer)")
    assert "The database is not empty" in refusal(lambda: restored(backup, empty, tmp_path))
    assert rows(empty, "select relname from pg_class where relnamespace = 'public'::regnamespace") == [("mine",)]


def test_a_served_database_is_left_alone(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty, application_name="postern listener"):
        assert "A running Postern uses this database" in refusal(lambda: restored(backup, empty, tmp_path))


def test_a_damaged_backup_and_another_ring_are_refused_before_anything_is_written(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    other = settings_for(empty, tmp_path, OTHER_KEY)
    arguments = parsed("backup", "restore", str(backup.folder.path))
    assert "the encryption keys in force are not those" in refusal(lambda: restore.run(arguments, other))
    folder = tmp_path / backup.folder.path.name
    folder.mkdir()
    (folder / MANIFEST).write_bytes((backup.folder.path / MANIFEST).read_bytes())
    (folder / DUMP).write_bytes((backup.folder.path / DUMP).read_bytes()[:-5])
    assert "The backup cannot be used: database.dump" in refusal(
        lambda: restore.run(parsed("backup", "restore", str(folder)), settings_for(empty, tmp_path))
    )
    assert rows(empty, "select count(*) from pg_class where relnamespace = 'public'::regnamespace") == [(0,)]


def test_a_restore_that_fails_leaves_nothing(backup: BackedUp, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its two transactions, no Postern starts there: the schema's history is restored last."""

    async def fails(*_: object) -> None:
        raise psycopg.OperationalError("gone")

    monkeypatch.setattr(restore, "hold", fails)
    assert "could not be restored: gone" in refusal(lambda: restored(backup, empty, tmp_path))
    assert rows(empty, "select count(*) from schema_migrations") == [(0,)]
    assert rows(empty, "select count(*) > 0 from users") == [(True,)]


def recovery_keys(directory: Path) -> tuple[Path, Path]:
    key = X25519PrivateKey.generate()
    private, public = directory / "recovery.pem", directory / "recovery.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_the_keys_are_sealed_for_a_recovery_key_or_not_there(
    backup: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str], log: CapturedLog
) -> None:
    ring = KEY.line().partition(":")[2]
    log.remember(ring, SECRET, PASSWORD)
    private, public = recovery_keys(tmp_path)
    places = tmp_path / "backups"
    assert create.run(parsed("backup", "create", "--to", str(places), "--seal-keys-for", str(public)), backup.settings) == OK
    (folder,) = kept_backups(places)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.path.iterdir()} == dict.fromkeys(
        (DUMP, MANIFEST, SEALED_KEYS), 0o600
    )
    for file in (*folder.path.iterdir(), *backup.folder.path.iterdir()):
        content = file.read_bytes()
        assert ring.encode() not in content
        assert SECRET.encode() not in content
        assert PASSWORD.encode() not in content
    capsys.readouterr()
    assert listing.run(parsed("backup", "keys", "--in", str(places), "--recovery-key", str(private)), backup.settings) == OK
    assert capsys.readouterr().out == f"{KEY.line()}\n"
    strange, _ = recovery_keys(tmp_path)
    keys = parsed("backup", "keys", "--in", str(places), "--recovery-key", str(strange))
    assert "sealed for another recovery key" in refusal(lambda: listing.run(keys, backup.settings))
    folder.sealed_keys.write_bytes(b"x" + folder.sealed_keys.read_bytes()[1:])
    checked = parsed("backup", "check", "--in", str(places), "--scratch", "postgresql://nobody@127.0.0.1:1/nothing")
    assert check.run(checked, backup.settings) == 12
    assert "encryption.keys.sealed was altered" in capsys.readouterr().out
    assert "not a sealed key ring" in refusal(lambda: listing.run(keys, backup.settings))
    assert "cannot be read" in refusal(
        lambda: listing.run(parsed("backup", "keys", str(backup.folder.path), "--recovery-key", str(strange)), backup.settings)
    )


def made_recovery_key(folder: Path, *more: str) -> Path:
    """By the command, as a program that only knows the command line would."""
    folder.mkdir(exist_ok=True)
    assert recovery_key.run(parsed("keys", "recovery", "--to", str(folder), *more)) == OK
    return folder / ("recovery.pem" if more else "recovery.key")


@pytest.mark.parametrize("more", [(), ("--x25519",)], ids=["hybrid", "x25519"])
def test_a_backup_with_sealed_keys_is_restored_elsewhere(
    more: Sequence[str], backup: BackedUp, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = made_recovery_key(tmp_path / "safe", *more)
    mark = capsys.readouterr().out.splitlines()[-1].removeprefix("Fingerprint ").partition(".")[0]
    places = tmp_path / "backups"
    public = str(tmp_path / "safe" / "recovery.pub")
    assert create.run(parsed("backup", "create", "--to", str(places), "--seal-keys-for", public), backup.settings) == OK
    assert f"encrypted for the recovery key with the fingerprint {mark}." in capsys.readouterr().out
    # Another machine, which has the backup, the paper, and no encryption keys.
    elsewhere = replace(settings_for(empty, tmp_path / "elsewhere"), encryption_keys=None)
    arguments = parsed("backup", "restore", "--in", str(places), "--recovery-key", str(private), "--hold")
    assert restore.run(arguments, elsewhere) == OK
    kept = tmp_path / "elsewhere" / "encryption.keys"
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == (f"{KEY.line()}\n", 0o600)
    assert rows(empty, "select count(*) from users") == rows(backup.restored, "select count(*) from users")
    at_home = replace(elsewhere, database_url=backup.settings.database_url)
    assert check.run(parsed("backup", "check", "--in", str(places), "--database", empty), at_home) == OK
    assert capsys.readouterr().out.endswith("verified. It can be restored, is complete and can be decrypted, and sign-in works.\n")


def test_a_wrong_recovery_key_is_told_in_words_and_writes_nothing(
    backup: BackedUp, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong, older = (
        made_recovery_key(tmp_path / "right"),
        made_recovery_key(tmp_path / "wrong"),
        made_recovery_key(tmp_path / "older", "--x25519"),
    )
    right_mark, wrong_mark, _ = [line.split()[1].rstrip(".") for line in capsys.readouterr().out.splitlines() if "Fingerprint" in line]
    places = tmp_path / "backups"
    public = right.with_name("recovery.pub")
    assert create.run(parsed("backup", "create", "--to", str(places), "--seal-keys-for", str(public)), backup.settings) == OK
    elsewhere = replace(settings_for(empty, tmp_path / "elsewhere"), encryption_keys=None)

    def refused(key: Path) -> str:
        arguments = parsed("backup", "restore", "--in", str(places), "--recovery-key", str(key), "--hold")
        return refusal(lambda: restore.run(arguments, elsewhere))

    assert refused(wrong) == (
        "This recovery key cannot decrypt the sealed encryption keys: they were sealed for a key with the fingerprint "
        f"{right_mark}, and this key has the fingerprint {wrong_mark}"
    )
    assert f"sealed for a hybrid key with the fingerprint {right_mark}, and this is an X25519 key" in refused(older)
    assert "only the private half decrypts" in refused(public)
    assert not (tmp_path / "elsewhere" / "encryption.keys").exists()
    assert rows(empty, "select count(*) from pg_tables where schemaname = 'public'") == [(0,)]


def test_a_recovery_key_that_cannot_be_used_is_told_before_anything_is_dumped(
    backup: BackedUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = made_recovery_key(tmp_path / "safe")
    places = tmp_path / "backups"

    def refused(key: Path) -> str:
        return refusal(lambda: create.run(parsed("backup", "create", "--to", str(places), "--seal-keys-for", str(key)), backup.settings))

    assert refused(private) == (
        "No backup was created: This is the private half of a recovery key: keep it offline, and specify the public half"
    )
    assert "cannot be read: No such file" in refused(tmp_path / "none")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.hpke", None)
    assert "has no ML-KEM" in refused(private.with_name("recovery.pub"))
    assert "has no ML-KEM" in refusal(lambda: recovery_key.run(parsed("keys", "recovery", "--to", str(tmp_path))))
    assert not places.exists()


def test_a_recovery_key_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private = made_recovery_key(tmp_path / "safe")
    public = private.with_name("recovery.pub")
    before = private.read_bytes(), public.read_bytes()
    assert (stat.S_IMODE(private.stat().st_mode), stat.S_IMODE(public.stat().st_mode)) == (0o600, 0o644)
    assert before[0].decode() not in capsys.readouterr().out
    for more in ((), ("--x25519",)):
        assert "exists: specify another folder" in refusal(partial(made_recovery_key, tmp_path / "safe", *more))
    assert (private.read_bytes(), public.read_bytes()) == before
    assert {one.name for one in private.parent.iterdir()} == {"recovery.key", "recovery.pub"}
    missing = parsed("keys", "recovery", "--to", str(tmp_path / "missing"))
    assert "cannot be written: No such file" in refusal(lambda: recovery_key.run(missing))
    assert recovery_key.run(parsed("keys", "recovery", "--json", "--to", str(open_folder(tmp_path / "json")))) == OK
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"private", "public", "fingerprint"}
    assert Path(said["private"]).read_text().startswith("postern-recovery-secret-2-")


def open_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_backups_are_listed_newest_first_without_unfinished_ones(
    backup: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = str(backup.folder.path.parent)
    (backup.folder.path.parent / "20260101T000000Z-abcdef.unfinished").mkdir(exist_ok=True)
    assert listing.run(parsed("backup", "list", "--in", places), backup.settings) == OK
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(backup.folder.path.name)
    assert "key test, without keys" in line
    assert listing.run(parsed("backup", "list", "--json", "--in", places), backup.settings) == OK
    assert f'"id": "{backup.folder.path.name}"' in capsys.readouterr().out
    assert listing.run(parsed("backup", "list"), settings_for("postgresql://nobody@127.0.0.1:1/x", tmp_path)) == OK
    assert "No backup found in" in capsys.readouterr().out
    with pytest.raises(StartFailed) as refused:
        restore.run(parsed("backup", "restore"), settings_for("postgresql://nobody@127.0.0.1:1/x", tmp_path))
    assert refused.value.status == USAGE


def test_a_backup_is_told_in_json_and_a_folder_that_is_not_there_is_no_empty_one(
    backup: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = tmp_path / "backups"
    with pytest.raises(StartFailed, match="Folder not found") as missing:
        listing.run(parsed("backup", "list", "--in", str(places)), backup.settings)
    assert missing.value.status == USAGE
    assert create.run(parsed("backup", "create", "--to", str(places), "--json"), backup.settings) == OK
    made = json.loads(capsys.readouterr().out)
    assert listing.run(parsed("backup", "list", "--in", str(places), "--json"), backup.settings) == OK
    assert json.loads(capsys.readouterr().out) == {"items": [made], "total": 1}
    assert made["rows"] > 0


def test_a_backup_that_fails_leaves_no_folder_and_no_passwords_are_arguments(
    backup: BackedUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, seen = tmp_path / "programs" / "pg_dump", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
        [ "$1" = --version ] && echo 'pg_dump (PostgreSQL) 99.1' && exit
        echo "$@" > {seen}.arguments
        env > {seen}.environment
        printf 'pg_dump: error: it broke\\nDETAIL: Key (email)=(ada@example.org)\\n' >&2
        exit 1
        """
    )
    program.chmod(0o755)
    (program.parent / "pg_restore").touch()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("POSTERN_ENCRYPTION_KEYS", "secret")
    url = backup.url
    settings = settings_for(f"{url}{'&' if '?' in url else '?'}password=hunter2", tmp_path)
    arguments = parsed("backup", "create", "--to", str(tmp_path / "backups"))
    assert refusal(lambda: create.run(arguments, settings)) == "No backup was created: pg_dump: it broke"
    assert list((tmp_path / "backups").iterdir()) == []
    assert "hunter2" not in Path(f"{seen}.arguments").read_text()
    environment = Path(f"{seen}.environment").read_text().splitlines()
    assert "PGPASSWORD=hunter2" in environment
    assert not [name for name in environment if name.startswith("POSTERN_ENCRYPTION")]


def test_programs_that_are_missing_or_too_old_are_said_to_be_so(backup: BackedUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.24'\n")
    old.chmod(0o755)
    (tmp_path / "pg_restore").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    arguments = parsed("backup", "create", "--to", str(tmp_path / "backups"))
    assert "is of version 9, and the server of version" in refusal(lambda: create.run(arguments, backup.settings))
    (tmp_path / "pg_restore").unlink()
    assert "pg_dump and pg_restore are missing" in refusal(lambda: create.run(arguments, backup.settings))


def test_what_is_written_after_the_snapshot_is_neither_in_the_dump_nor_in_the_manifest(backup: BackedUp, tmp_path: Path) -> None:
    """A role that may only read makes the backup, while others write."""
    role = f"postern_backup_of_{name_of(backup.restored)}"
    with database_beside(backup.restored, template=name_of(backup.restored)) as url, psycopg.connect(url, autocommit=True) as others:
        others.execute(f"create role {role} login".encode())
        try:
            others.execute(f"grant pg_read_all_data to {role}".encode())
            reader = make_conninfo(url, user=role)

            async def dumped() -> DatabaseState:
                async with exported_snapshot(reader) as snapshot:
                    others.execute("insert into used_usernames values ('late')")
                    others.execute("delete from relations")
                    tools = await PostgresTools.find(embedded=False, server_version=snapshot.server_version)
                    await tools.dump(reader, snapshot.name, tmp_path / DUMP)
                    return await snapshot.state()

            expected = trio.run(dumped)
            # The whole command, by this role.
            arguments = parsed("backup", "create", "--to", str(tmp_path / "backups"), "--database", reader)
            assert create.run(arguments, backup.settings) == OK
        finally:
            others.execute(f"drop owned by {role}".encode())
            others.execute(f"drop role {role}".encode())
    with database_beside(backup.restored) as empty:
        tools = trio.run(partial(PostgresTools.find, embedded=False, server_version=0))
        trio.run(tools.restore, empty, tmp_path / DUMP)

        async def there() -> DatabaseState:
            async with exported_snapshot(empty) as snapshot:
                return await snapshot.state()

        found = trio.run(there)
        assert list(differences(expected, found)) == []
        assert (found.tables["used_usernames"].rows, found.tables["relations"].rows) == (0, 2)


def test_a_check_that_is_told_to_stop_leaves_no_server_and_no_files(backup: BackedUp) -> None:
    with open_directory() as place:
        place.chmod(0o711)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")},
            "POSTERN_DATABASE_URL": backup.url,
            "POSTERN_ENCRYPTION_KEYS": KEY.line(),
        }
        words = [*COMMAND, "backup", "check", str(backup.folder.path), "--work", str(place)]
        with PosternProcess(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            while not list(place.glob("postern-check-*/postgres/data/postmaster.pid")):
                assert running.poll() is None, running.communicate()
                time.sleep(0.02)
            running.send_signal(signal.SIGTERM)
            running.communicate()
        assert running.returncode == 130
        assert list(place.iterdir()) == []


def test_with_another_ring_no_backup_is_made(backup: BackedUp, tmp_path: Path, log: CapturedLog) -> None:
    log.allow("signing_key_unreadable")
    other = settings_for(backup.url, tmp_path, OTHER_KEY)
    arguments = parsed("backup", "create", "--to", str(tmp_path / "backups"))
    assert "do not belong to this database" in refusal(lambda: create.run(arguments, other))
    assert not (tmp_path / "backups").exists()


def test_a_hook_that_counts_counts_after_a_restore(backup: BackedUp, empty: str, tmp_path: Path) -> None:
    """It is no outgoing work that a restore holds: a hook that counts no more would let in whom its owner keeps out. Verdicts are those of
    the dump, under the same name.
    """
    name = "select id, counts_as, silence, sealed_secret from hooks where org_id is not null"
    with backup.connect() as source:
        before = source.execute(name.encode()).fetchall()
    assert restored(backup, empty, tmp_path) == OK
    assert rows(empty, name) == before
    ((hook, counts_as, _, _),) = before
    assert isinstance(hook, UUID)
    assert counts_as is not None

    async def signing_secret() -> str:
        async with open_postern(settings_for(empty, tmp_path)) as postern:
            ((organization,),) = rows(empty, "select org_id from hooks where org_id is not null")
            sealed = await postern.foundation.stores.hooks.sealed(OrganizationId(organization))
            assert sealed is not None
            return postern.foundation.keyring.open(sealed.sealed_secret, hook_context(HookId(hook))).decode()

    assert trio.run(signing_secret) == SECRET
