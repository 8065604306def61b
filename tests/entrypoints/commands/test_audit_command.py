"""`postern audit verify`: its output and its exit status. tests/adapters/postgres/record/test_audit_chains.py covers its findings."""

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
import trio

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.usecases import record as audit_usecase
from entrypoints.bootstrap import open_postern
from entrypoints.cli.audit import run
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed, sole
from entrypoints.settings import Settings, read

ACME = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))
GONE = OrganizationId(UUID("01900000-0000-7000-8000-00000000000b"))


@pytest.fixture
def settings(emptied_database_url: str, tmp_path: Path) -> Settings:
    """The settings of an installation with audit entries: in acme, in a deleted organization, and on the platform."""
    with psycopg.connect(emptied_database_url) as connection:
        connection.execute(
            "insert into organizations (id, slug, name, status, created_at, updated_at) select %s, 'acme', 'Acme', 'active', now(), now()",
            (ACME,),
        )
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )
    trio.run(_something_is_done, settings)
    return settings


async def _something_is_done(settings: Settings) -> None:
    async with open_postern(settings) as postern:
        for organization, count in ((ACME, 3), (GONE, 1), (None, 2)):
            async with postern.foundation.unit_of_work() as uow:
                event = Event("role.created", Actor(address="192.0.2.7"), Target("role", "1"), organization)
                await uow.record_all([event] * count)
                await uow.commit()
        await postern.record.audit.link()


Verify = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def verify(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Verify:
    def verified(*arguments: str) -> tuple[int, list[str]]:
        status = run(command_line().parse_args(["audit", "verify", *arguments]), settings)
        return status, capsys.readouterr().out.splitlines()

    return verified


HEAD = "[0-9]+:[0-9a-f]{64}"


def test_an_untouched_log_is_said_to_be_so_chain_by_chain(verify: Verify) -> None:
    status, lines = verify()
    assert status == OK
    assert re.fullmatch(f"ok    platform  2 entries, head {HEAD}", lines[0])
    assert re.fullmatch(f"ok    acme  3 entries, head {HEAD}", lines[1])
    assert re.fullmatch(f"ok    {GONE}  1 entry, head {HEAD}", lines[2])
    assert lines[3:] == ["3 chains, 6 entries: no entry is missing, altered or inserted."]


def test_several_workers_say_what_one_says(verify: Verify, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_usecase, "READ_AT_ONCE", 1)
    assert verify("--workers", "4") == verify()
    _alter(settings, "update audit_entries set action = 'role.deleted' where organization_id = %s")
    status, lines = verify("--workers", "4")
    assert (status, lines) == verify()
    assert status == FAILURE


@pytest.mark.parametrize("workers", ["0", "5", "-1", "many"])
def test_a_number_of_workers_has_bounds(workers: str) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["audit", "verify", "--workers", workers])
    assert ended.value.code == USAGE


@pytest.mark.parametrize(("name", "count"), [("acme", 3), (str(ACME), 3), (str(GONE), 1), ("platform", 2)])
def test_one_chain_is_named_by_slug_id_or_platform(verify: Verify, name: str, count: int) -> None:
    status, (line, last) = verify("--organization", name)
    assert status == OK
    assert line.startswith(f"ok    {name}  {count} entr")
    assert last.startswith("1 chain, ")


def test_an_altered_entry_ends_with_a_failure_that_names_it(verify: Verify, settings: Settings) -> None:
    _alter(settings, "update audit_entries set action = 'role.deleted' where organization_id = %s")
    status, lines = verify()
    assert status == FAILURE
    assert [re.sub("[0-9a-f-]{36}", "ID", line) for line in lines if line.startswith("FAIL")][:3] == [
        f"FAIL  acme  {number}, entry ID: the entry, or its place, was altered" for number in (1, 2, 3)
    ]
    assert re.fullmatch(f"FAIL  acme  3 entries, head {HEAD}", lines[4])
    assert lines[-1] == "3 chains, 6 entries: 3 faults found."
    assert verify("--organization", "acme")[0] == FAILURE
    assert verify("--organization", "platform")[0] == OK


def test_a_gap_and_entries_in_no_chain_are_named(verify: Verify, settings: Settings) -> None:
    _alter(settings, "delete from audit_links where chain_id = %s and sequence < 3")
    status, lines = verify("--organization", "acme")
    assert status == FAILURE
    assert lines[0] == "FAIL  acme  1 to 2: links are missing"
    assert [re.sub("[0-9a-f-]{36}", "ID", line) for line in lines[2:4]] == ["FAIL  acme  entry ID: the entry is in no chain"] * 2


def test_where_everything_is_wrong_not_all_of_it_is_printed(verify: Verify, settings: Settings) -> None:
    async def much() -> None:
        async with open_postern(settings) as postern:
            async with postern.foundation.unit_of_work() as uow:
                await uow.record_all([Event("role.created", Actor(), Target("role", "1"), ACME)] * 50)
                await uow.commit()
            await postern.record.audit.link()

    trio.run(much)
    _alter(settings, "update audit_entries set success = false where organization_id = %s")
    status, lines = verify()
    assert status == FAILURE
    assert len([line for line in lines if "was altered" in line]) == 20
    assert "FAIL  acme  … and more faults" in lines
    assert lines[-1] == "3 chains, 56 entries: 53 faults found."


def test_a_cut_off_chain_is_found_by_the_head_that_was_printed(verify: Verify, settings: Settings) -> None:
    head = verify("--organization", "acme")[1][0].rpartition(" ")[2]
    assert verify("--organization", "acme", "--head", head)[0] == OK
    _alter(settings, "delete from audit_links where chain_id = %s and sequence = 3")
    _alter(settings, "delete from audit_entries where organization_id = %s and not exists (select from audit_links where entry_id = id)")
    assert verify()[0] == OK
    status, lines = verify("--organization", "acme", "--head", head)
    assert status == FAILURE
    assert lines[0] == "FAIL  acme  2 to 3: the chain ends before the noted head"


def test_what_was_forgotten_and_what_waits_is_told_and_no_fault(verify: Verify, settings: Settings) -> None:
    async def more() -> None:
        async with open_postern(settings) as postern, postern.foundation.unit_of_work() as uow:
            await uow.record(Event("role.created", Actor(), Target("role", "1"), ACME))
            await uow.commit()

    trio.run(more)
    _alter(settings, "delete from audit_personal using audit_entries where id = entry_id and organization_id = %s")
    status, lines = verify()
    assert status == OK
    assert "3 entries, 3 with their personal part forgotten, head" in lines[1]
    assert lines[-1].endswith("no entry is missing, altered or inserted. 1 entry not linked yet.")


def _alter(settings: Settings, statement: str) -> None:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url.reveal()) as connection:
        connection.execute("set session_replication_role = replica")
        assert connection.execute(statement.encode(), (ACME,)).rowcount > 0


def test_an_organization_that_nobody_knows_is_said_to_be_so(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a nursery may have wrapped it
        run(argparse.Namespace(organization="nowhere", head=None, workers=1, resume=None, json=False), settings)
    assert "nowhere" in repr(failed.value)
    assert capsys.readouterr().out == ""


def test_an_id_that_was_never_one_is_no_untouched_chain(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a nursery may have wrapped it
        run(argparse.Namespace(organization=str(UUID(int=7)), head=None, workers=1, resume=None, json=False), settings)
    assert isinstance(sole(failed.value), NotFound)
    assert capsys.readouterr().out == ""


def test_a_chain_of_which_nothing_is_left_ends_before_the_head_that_was_noted(verify: Verify, settings: Settings) -> None:
    head = verify("--organization", str(GONE))[1][0].rpartition(" ")[2]
    _alter(settings, "delete from audit_links where chain_id <> %s")
    _alter(settings, "delete from audit_entries where organization_id <> %s")
    status, lines = verify("--organization", str(GONE), "--head", head)
    assert status == FAILURE
    assert "the chain ends before the noted head" in lines[0]


def test_a_wrong_ring_is_said_in_one_sentence(settings: Settings) -> None:
    other = replace(settings, encryption_keys=Secret(EncryptionKey("other", b"o" * 32).line()))
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a nursery may have wrapped it
        run(command_line().parse_args(["audit", "verify"]), other)
    refused = sole(failed.value)
    assert isinstance(refused, StartFailed)
    assert str(refused).startswith(
        "The encryption keys (other) do not belong to this database: they cannot decrypt the secret of its audit"
    )


def test_a_head_wants_the_chain_that_it_is_of(settings: Settings) -> None:
    arguments = command_line().parse_args(["audit", "verify", "--head", f"1:{'0' * 64}"])
    with pytest.raises(StartFailed, match="--organization") as refused:
        run(arguments, settings)
    assert refused.value.status == USAGE


@pytest.mark.parametrize("text", ["7", "7:", "x:y", f"7:{'0' * 63}"])
def test_what_is_no_head_is_a_wrong_command_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["audit", "verify", "--organization", "acme", "--head", text])
    assert ended.value.code == USAGE
    assert "64 hexadecimal digits" in capsys.readouterr().err
