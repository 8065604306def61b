"""Every command prints one object with `--json`: a list is its items and their number, as in the API's answers."""

import io
import json
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.postgres.embedded import BINARIES
from core.domain.errors import Refusal
from core.domain.formats import Json
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.verbs.deriving import all_verbs
from entrypoints.cli.verbs.offering import subcommands
from entrypoints.settings import read
from tests.entrypoints.commands.test_json_of_commands import WITHOUT_JSON, commands_of

ENCRYPTION: Final = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
ADA: Final = ("--email", "ada@example.org")
BOB: Final = ("--email", "bob@example.org")
ACME: Final = ("--organization", "acme")
OF_ADA: Final = ("--name", "Name", "--owner", "ada@example.org")

# Each command with its words, in an order in which they can run. A word in capitals names a file of the test.
WALK: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("version", ()),
    ("size", ("--people", "1000")),
    ("files", ("alerts", "--to", "BACKUPS")),
    ("verbs", ()),
    ("migrate", ("--plan",)),
    ("migrate", ()),
    ("grants", ("--role", "pg_monitor")),
    ("owner create", ADA),
    ("owner link", ADA),
    ("owner create", BOB),
    ("user show", ADA),
    ("user stats", ()),
    ("user deactivate", BOB),
    ("user activate", BOB),
    ("user lock", BOB),
    ("user activate", BOB),
    ("user revoke-sessions", BOB),
    ("user disable-mfa", BOB),
    ("user reset-password", BOB),
    ("organization create", (*ACME, *OF_ADA)),
    ("organization list", ()),
    ("organization show", ACME),
    ("organization suspend", ACME),
    ("organization activate", ACME),
    ("organization tier", (*ACME, "--max-users", "9")),
    ("service create", (*ACME, "--slug", "shop", "--name", "Shop", "--service-type", "web")),
    ("service list", ()),
    ("service show", (*ACME, "--service", "shop")),
    ("service client-id", (*ACME, "--service", "shop", "--keep", "of-elsewhere")),
    ("hook list", ()),
    ("signals pause", ACME),
    ("signals resume", ACME),
    ("saml status", ()),
    ("invite", (*ACME, "--email", "eve@example.org")),
    ("access", (*ACME, "--user", "ada@example.org")),
    ("mail list", ()),
    ("keys list", ()),
    ("keys rotate", ("--encryption",)),
    ("keys reencrypt", ()),
    ("backup create", ("--to", "BACKUPS")),
    ("backup list", ("--in", "BACKUPS")),
    ("keys recovery", ("--to", "BACKUPS")),
    ("jobs list", ()),
    ("jobs hold", ()),
    ("jobs release", ()),
    ("held-back list", ()),
    ("held-back lift", ("--budget", "installation", "--hours", "1")),
    ("risk-rules shadow", ()),
    ("billing events", ()),
    ("billing retry", ()),
    ("audit verify", ()),
    ("storage", ()),
    ("config", ()),
    ("config export", ()),
    ("config plan", ("DOCUMENT",)),
    ("config apply", ("DOCUMENT",)),
    ("doctor", ()),
    ("import csv", ("PEOPLE",)),
    ("organization receive-key", ()),
    ("organization delete", (*ACME, "--yes")),
)
LISTS: Final = {
    "hook list",
    "organization list",
    "service list",
    "saml status",
    "mail list",
    "backup list",
    "jobs list",
    "jobs hold",
    "jobs release",
    "held-back list",
    "doctor",
}
# Commands that need another installation, another program's file, or a state that takes long to make. Their own tests read an object.
ELSEWHERE: Final = {
    "api-key revoke",
    "backup check",
    "backup restore",
    "billing reconcile",
    "explain",
    "held-back restore",
    "import auth0",
    "import authentik",
    "import cognito",
    "import firebase",
    "import keycloak",
    "import postern",
    "import zitadel",
    "mail show",
    "organization approve",
    "organization export",
    "organization import",
    "organization reject",
    "passwords build",
    "privacy forget",
    "story",
    "texts import",
    "upgrade rehearse",
}


class TalkingPrograms:
    """Runs commands with `--json` in this process, as a program would."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._settings = read(
            {
                "POSTERN_DATABASE_URL": url,
                "POSTERN_ENCRYPTION_KEYS": ENCRYPTION,
                "POSTERN_MAIL": f"file:{folder / 'mails'}",
                "POSTERN_DATA_DIR": str(folder),
            }
        )
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def asked(self, *words: str) -> Any:
        """The answer, also that there is no such thing."""
        try:
            return self.answer(*words)
        except Refusal as refusal:
            return {"refused": refusal.code}

    def answer(self, *words: str) -> Any:
        given = command_line(words).parse_args([*words, "--json"])
        self._monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
        # `import` gives way to all others, and this process has further tests to run.
        self._monkeypatch.setattr("os.nice", lambda by: by)
        command = import_module(f"entrypoints.cli.{given.module}")
        self._capsys.readouterr()
        if given.without_settings:
            command.run(given)
        else:
            command.run(given, self._settings)
        return json.loads(self._capsys.readouterr().out)


def test_every_command_answers_an_object(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"BACKUPS": tmp_path / "backups", "DOCUMENT": tmp_path / "document.json", "PEOPLE": tmp_path / "people.csv"}
    monkeypatch.setenv("PATH", f"{BINARIES}:{os.environ['PATH']}")
    files["PEOPLE"].write_text("email,name\nfay@example.org,Fay\n")
    programs = TalkingPrograms(database_url, tmp_path, capsys, monkeypatch)
    for command, words in WALK:
        answer = programs.answer(*command.split(), *(str(files.get(word, word)) for word in words))
        assert isinstance(answer, dict), command
        if command == "config export":
            files["DOCUMENT"].write_text(json.dumps(answer))
        if command in LISTS:
            assert isinstance(answer["items"], list), command
            assert isinstance(answer["total"], int), command


def test_the_walk_leaves_out_no_command() -> None:
    walked = {command for command, _ in WALK} - {"service create"}
    assert {name for name, _ in commands_of(command_line())} == walked | ELSEWHERE | set(WITHOUT_JSON)
    assert not walked & ELSEWHERE


def _questions() -> Iterator[tuple[str, Sequence[str]]]:
    """The verbs of endpoints that ask for nothing but an organization and a service of it, with their words."""
    named = {"--organization": "acme", "--service": "shop"}
    for noun, verbs in all_verbs().items():
        parser = command_line((noun,))
        for verb, endpoint in verbs.items():
            one = subcommands(subcommands(parser).choices[noun]).choices[verb]
            required = [action.option_strings[0] if action.option_strings else action.dest for action in one._actions if action.required]
            if endpoint.method == "GET" and one.get_default("module") == "verbs.running" and named.keys() >= set(required):
                yield f"{noun} {verb}", [word for option in required for word in (option, named[option])]


def test_every_verb_that_asks_answers_an_object(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = TalkingPrograms(database_url, tmp_path, capsys, monkeypatch)
    founding = ("owner create", "organization create", "service create")
    for command, words in WALK:
        if command in founding:
            programs.answer(*command.split(), *words)
    walked = [(verb, programs.asked(*verb.split(), *words)) for verb, words in _questions()]
    assert len(walked) > 30
    assert [verb for verb, answer in walked if not isinstance(answer, dict)] == []
    assert isinstance(programs.answer("service", "delete", *ACME, "--service", "shop", "--yes"), dict)


@pytest.mark.parametrize("listed", [[], ({"a": 1}, {"a": 2})])
def test_a_list_is_printed_with_its_number(listed: Sequence[Json], capsys: pytest.CaptureFixture[str]) -> None:
    print_json(listed)
    assert json.loads(capsys.readouterr().out) == {"items": list(listed), "total": len(listed)}
