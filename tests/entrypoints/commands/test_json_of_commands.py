"""Every command that shows something shows it as JSON, too, and a server whose log is JSON says nothing else."""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.domain.secrets import Password, Secret
from entrypoints.checks import Finding, Verdict
from entrypoints.cli import doctor
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.first_start import FirstOwner, announce
from entrypoints.settings import read
from tests.e2e.postern import command

# Commands whose output is a document by itself, and those that run.
WITHOUT_JSON = {
    "serve": "runs, and logs",
    "demo": "runs, and speaks to a person",
    "keys generate": "prints one key",
    "backup keys": "prints one line of settings",
    "config schema": "prints a JSON document",
    "privacy export": "prints a JSON document",
    "completion": "prints a script for a shell",
    "mcp": "speaks to a program, in JSON-RPC",
    "texts export": "prints a file for translators",
}
AWAY = {
    "POSTERN_DATABASE_URL": "postgresql://me@127.0.0.1:1/postern",
    "POSTERN_ENCRYPTION_KEYS": "a.b:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
}


def commands_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups or parser.get_default("module") is not None:
        yield " ".join(path), any("--json" in action.option_strings for action in parser._actions)
    for group in groups:
        for name, one in group.choices.items():
            yield from commands_of(one, (*path, name))


def test_every_command_takes_json_or_says_why_not() -> None:
    assert {name for name, has_json in commands_of(command_line()) if not has_json} == set(WITHOUT_JSON)


def test_what_waits_is_listed_as_json(database_url: str, tmp_path: Path) -> None:
    settings = {**AWAY, "POSTERN_DATABASE_URL": database_url}
    listed = command(tmp_path, "jobs", "list", "--json", **settings)
    assert listed.returncode == 0, listed.stderr
    kinds = json.loads(listed.stdout)["items"]
    assert [one["kind"] for one in kinds] == ["mail", "deliveries", "billing", "siem", "provisioning", "hooks"]
    assert all((one["waiting"], one["held"]) == (0, 0) for one in kinds)


def test_a_migration_says_in_json_where_the_database_is_now(empty_database_url: str, tmp_path: Path) -> None:
    settings = {**AWAY, "POSTERN_DATABASE_URL": empty_database_url}
    planned = json.loads(command(tmp_path, "migrate", "--plan", "--json", **settings).stdout)
    first = command(tmp_path, "migrate", "--json", **settings)
    assert first.returncode == 0, first.stderr
    now = json.loads(first.stdout)
    *migrations, edition = planned["pending"]
    assert [one["migration"] for one in now["applied"]] == migrations != []
    assert (planned["edition"], f"edition {now['edition']} of the views and functions") == (None, edition)
    assert (now["pending"], now["ahead"]) == ([], [])
    assert "Applying" in first.stderr
    again = command(tmp_path, "migrate", "--json", "--grant", "nobody_at_all", **settings)
    assert again.returncode == 1
    assert again.stdout in {"", first.stdout}
    assert "nobody_at_all" in json.loads(again.stderr)["message"]


def test_with_json_an_error_is_json_too(tmp_path: Path) -> None:
    failed = command(tmp_path, "jobs", "list", "--json", POSTERN_LOG_LEVEL="loud")
    told = json.loads(failed.stderr)
    assert (failed.returncode, failed.stdout, told["event"], told["exit_status"]) == (2, "", "failed", 2)
    assert "POSTERN_LOG_LEVEL" in told["message"]


@pytest.mark.parametrize(("words", "says"), [(("user", "show", "--json"), "--email"), (("doctor", "--json", "--of"), "--of")])
def test_with_json_wrong_words_are_told_in_json_too(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    failed = command(tmp_path, *words)
    told = json.loads(failed.stderr)
    assert (failed.returncode, failed.stdout, told["event"], told["exit_status"]) == (2, "", "failed", 2)
    assert says in told["message"]


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ((), {"POSTERN_LOG_LEVEL": "loud"}),
        ((), {"POSTERN_TLS_CERTIFICATE": "/none", "POSTERN_TLS_KEY": "/none"}),
        (("--processes", "none"), {}),
    ],
)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_start_that_fails_says_nothing_but_json(words: tuple[str, ...], settings: dict[str, str], by_file: bool, tmp_path: Path) -> None:
    if by_file:
        config = tmp_path / "postern.conf"
        config.write_text("".join(f"{name} = '{value}'\n" for name, value in {"POSTERN_LOG_FORMAT": "json", **settings}.items()))
        settings = {"POSTERN_CONFIG": str(config)}
    else:
        settings = {"POSTERN_LOG_FORMAT": "json", **settings}
    failed = command(tmp_path, "serve", *words, **settings)
    assert failed.returncode == 2
    lines = [json.loads(line) for line in (failed.stdout + failed.stderr).splitlines()]
    assert lines[-1]["event"] == "failed"


def test_what_is_ready_is_said_in_json_where_the_log_is_json() -> None:
    settings = read({"POSTERN_LOG_FORMAT": "json"})
    out = io.StringIO()
    announce(settings, None, out)
    assert not out.getvalue()
    announce(settings, FirstOwner("owner@example.com", Password("made-by-us"), Secret("https://x/link")), out)
    told = json.loads(out.getvalue())
    assert (told["event"], told["email"], told["password"], told["sign_in_url"]) == (
        "first_owner",
        "owner@example.com",
        "made-by-us",
        "https://x/link",
    )


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({"POSTERN_ENCRYPTION_KEYS": "bad"}, ["encryption_keys", "start"]),
        ({"POSTERN_MAIL": "smtp://user@127.0.0.1:1"}, ["mail", "start"]),
        ({"POSTERN_CODEHOST_CLIENT_ID": "half-a-provider"}, ["start"]),
        ({"POSTERN_OUTBOUND_CA_FILE": "/none"}, ["start"]),
        ({"POSTERN_GEOIP_DATABASE": "/none"}, ["start"]),
    ],
)
def test_the_doctor_tells_all_it_has_found_when_postern_cannot_open(
    settings: dict[str, str], codes: list[str], database_url: str, tmp_path: Path
) -> None:
    examined = command(tmp_path, "doctor", "--json", **{**AWAY, "POSTERN_DATABASE_URL": database_url, **settings})
    assert (examined.returncode, examined.stderr) == (1, "")
    findings = json.loads(examined.stdout)["items"]
    assert [one["code"] for one in findings if one["verdict"] == "fail"] == codes
    assert "schema" in {one["code"] for one in findings}


@pytest.mark.parametrize(("verdict", "status"), [(Verdict.OK, 0), (Verdict.WARN, 0), (Verdict.SOON, 1), (Verdict.FAIL, 1)])
async def test_the_doctor_fails_where_something_will_break(
    verdict: Verdict, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def said(*_: object) -> None:
        report = _[-1]
        assert callable(report)
        report("data directory", Finding(verdict, "text"))

    monkeypatch.setattr(doctor, "_report_all", said)
    assert await doctor._examine(read({"POSTERN_DATA_DIR": str(tmp_path)}), None, None, True) == status
    told = {"code": "data_directory", "subject": "data directory", "verdict": verdict.lower(), "text": "text"}
    assert json.loads(capsys.readouterr().out) == {"items": [told], "total": 1}
