"""`postern storage`: its lines, its JSON, and until when the disk lasts."""

import json
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.tables.every import TABLES
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.record.storage import run
from entrypoints.failures import OK, USAGE, StartFailed, sole
from entrypoints.settings import Settings, read


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return read(
        {
            "POSTERN_DATABASE_URL": database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )


def told(settings: Settings, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    arguments: Namespace = command_line().parse_args(["storage", *words])
    assert run(arguments, settings) == OK
    return capsys.readouterr().out


def sample(url: str, days: int, bytes_of_events: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("delete from storage_samples")
        connection.execute(
            "insert into storage_samples (day, name, bytes)"
            " select (now() at time zone 'UTC')::date - %s::int, relname, pg_total_relation_size(oid) from pg_class"
            "  where relkind = 'r' and relnamespace = 'public'::regnamespace"
            " union all select (now() at time zone 'UTC')::date - %s::int, 'events', %s",
            [days, days, bytes_of_events],
        )


def test_the_tables_are_listed_with_what_ends_them(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(settings, capsys).splitlines()
    assert lines[0].startswith("table")
    assert any("POSTERN_EVENT_RETENTION" in line and line.startswith("events ") for line in lines)
    assert "known one day after the first sample" in lines[-1]
    content = json.loads(told(settings, capsys, "--json"))
    assert (content["free_bytes"], content["lasts_until"], content["sampled_since"]) == (None, None, None)
    names = {one["name"] for one in content["tables"]}
    (users,) = [one for one in content["tables"] if one["name"] == "users"]
    assert users["rows"] is None
    assert any("unknown" in line and line.startswith("users ") for line in lines)
    assert "with it how long the 1.5 TiB of free space last" in told(settings, capsys, "--free", "1.5TiB")
    assert TABLES.keys() <= names
    assert all(one["ends"] and one["bytes"] >= 0 and 0 <= one["dead_share"] <= 1 for one in content["tables"])


def test_the_end_of_the_disk_is_told_where_its_space_is_known(
    settings: Settings, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(database_url, 10, 0)
    assert "specify it with --free" in told(settings, capsys)
    assert "more than 100 years" in told(settings, capsys, "--free", "9999999GiB")
    today = datetime.now(UTC).date()
    said = told(settings, capsys, "--free", "0")
    assert any(f"last until {day}" in said for day in (today, datetime.now(UTC).date()))
    content = json.loads(told(settings, capsys, "--json", "--free", "1MiB"))
    assert content["free_bytes"] == 1 << 20
    assert content["bytes_a_day"] > 0
    assert datetime.fromisoformat(content["lasts_until"]).date() > datetime.now(UTC).date() - timedelta(days=1)


def test_a_size_that_is_none_is_a_wrong_question(settings: Settings) -> None:
    with pytest.raises((StartFailed, BaseExceptionGroup)) as refused:
        run(command_line().parse_args(["storage", "--free", "much"]), settings)
    error = sole(refused.value) if isinstance(refused.value, BaseExceptionGroup) else refused.value
    assert isinstance(error, StartFailed)
    assert error.status == USAGE
    assert "200GiB" in str(error)
