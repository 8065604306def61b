"""The verbs of the command line: which they are, their options, what they do, and who did it."""

import argparse
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import psycopg
import pytest
from msgspec import inspect
from psycopg.rows import dict_row

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.mail import Email
from core.domain.secrets import Password
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern as Opened
from entrypoints.bootstrap import open_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.parsing.command_line import WITH_VERBS, command_line
from entrypoints.cli.verbs import listing, running
from entrypoints.cli.verbs.deriving import all_verbs, option_of, singular, verbs_of
from entrypoints.cli.verbs.offering import TABLE, offer, subcommands
from entrypoints.cli.verbs.running import once_shown, shown_lines
from entrypoints.failures import NotAgreed
from entrypoints.http.description.field_texts import texts_of
from entrypoints.http.machinery.callers import MEMBER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, InvalidDeclaration, endpoint
from entrypoints.http.machinery.fields import SECRET
from entrypoints.http.routes import ROUTES
from entrypoints.http.routes.configuration.registry import KINDS
from entrypoints.settings import Settings, read
from ops.written.verbs import lines
from tests.e2e.postern import command

_Secret = Annotated[str, SECRET]
KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
# Commands written by hand that have the words of an endpoint: they show an operator more, or ask for more.
BY_HAND = {"organization show", "organization delete", "service list", "service show"}


class _Path(msgspec.Struct):
    org_slug: str
    door_id: str


class _Doors(msgspec.Struct):
    org_slug: str


_ROOT = Path(__file__).parents[3]
_COMMAND_IN_TEXT = re.compile(r"(?:`|\$ |^|bin/)postern ([a-z][a-z-]*)(?= |`|$)(?: ([a-z][a-z0-9-]*))?", re.MULTILINE)


def _every_verb() -> Iterator[tuple[str, Endpoint]]:
    for noun, verbs in all_verbs().items():
        for verb, one in verbs.items():
            yield f"{noun} {verb}", one


def _documents() -> Iterator[tuple[str, str]]:
    for one in (_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")):
        yield str(one.relative_to(_ROOT)), one.read_text()


def _has_verbs(parser: argparse.ArgumentParser) -> bool:
    return any(isinstance(one, argparse._SubParsersAction) for one in parser._actions)


@pytest.fixture(scope="module")
def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command, by its words."""
    parser = command_line()
    commands = subcommands(parser)
    offer(commands)
    return {f"{noun} {verb}": subcommands(commands.choices[noun]).choices[verb] for noun, verbs in all_verbs().items() for verb in verbs}


class TestTheWordsOfAVerb:
    def test_each_endpoint_of_an_organization_is_a_command_or_says_that_it_is_none(self) -> None:
        words = dict(_every_verb())
        assert len(words) > 100
        assert words["service set"].path.endswith("/services/{service_slug}")
        assert words["service-plan create"].path.endswith("/plans")
        assert words["team-member add"].method == "PUT"
        assert words["webhook replay"].method == "POST"
        assert words["sign-in-rules set"].method == "PATCH"
        assert words["todos list"].method == "GET"
        # What an owner gives away with their own word, a page that only a browser opens, and what `postern config` does.
        closed = {one.path.removeprefix("/api/organizations/{org_slug}") for one in ROUTES if not one.verb and one.verb is not None}
        assert closed == {"/transfer-ownership", "/billing/portal", "/configuration", "/configuration/plan", "/configuration/apply"}

    def test_a_command_written_by_hand_keeps_its_name(self, parsers: Mapping[str, argparse.ArgumentParser]) -> None:
        assert {words for words, one in parsers.items() if one.get_default("module") != "verbs.running"} == BY_HAND
        by_hand = subcommands(command_line()).choices
        assert set(WITH_VERBS) == by_hand.keys() & all_verbs().keys()

    def test_each_command_that_the_documents_name_is_there(self) -> None:
        parser = command_line()
        commands = subcommands(parser)
        offer(commands)
        named = {(name, *found) for name, text in _documents() for found in _COMMAND_IN_TEXT.findall(text)}
        assert len(named) > 100
        assert [
            (document, noun, verb)
            for document, noun, verb in sorted(named)
            if noun not in commands.choices
            or (verb and _has_verbs(commands.choices[noun]) and verb not in subcommands(commands.choices[noun]).choices)
        ] == []

    def test_the_table_is_what_the_declarations_say(self) -> None:
        assert [*lines()] == TABLE.read_text(encoding="utf-8").splitlines(), "python -m ops.written.verbs writes it"

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            (["teem", "list"], "did you mean team or terms?"),
            (["organisation", "list"], "did you mean organization?"),
            (["servce", "list"], "; did you mean service"),
            (["team", "creat"], "'delete'); did you mean create?"),
            (["organization", "aprove"], "; did you mean approve?"),
            (["service", "set", "--organization", "acme", "--service", "shop", "--sign-in-policy", "membrs"], "; did you mean members?"),
            (["xyzzy"], "'explain', 'version')\n"),
        ],
    )
    def test_a_wrong_word_is_told_the_words_that_are_near(self, words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            command_line(words).parse_args(words)
        assert meant in capsys.readouterr().err

    def test_what_path_and_method_do_not_say_needs_a_word(self) -> None:
        async def knock(call: Call[None, None, _Path, Member], postern: Opened) -> dict[str, str]:
            """Knock"""
            raise NotImplementedError

        path = "/api/organizations/{org_slug}/doors/{door_id}"
        unnamed = endpoint.post(path, caller=MEMBER, tags=("doors",))(knock)
        with pytest.raises(InvalidDeclaration, match="needs a `verb`"):
            verbs_of([unnamed])
        assert [*verbs_of([endpoint.post(path, caller=MEMBER, tags=("doors",), verb="door knock")(knock)])["door"]] == ["knock"]
        assert verbs_of([endpoint.post(path, caller=MEMBER, tags=("doors",), verb="")(knock)]) == {}
        for wrong in ("knock", "door  knock", "Door knock", "a b c"):
            with pytest.raises(InvalidDeclaration, match="a noun and a word"):
                endpoint.post(path, caller=MEMBER, tags=("doors",), verb=wrong)(knock)

    def test_two_endpoints_never_have_the_same_words(self) -> None:
        async def doors(call: Call[None, None, _Doors, Member], postern: Opened) -> dict[str, str]:
            """List the doors"""
            raise NotImplementedError

        declared = [
            endpoint.get("/api/organizations/{org_slug}/doors", caller=MEMBER, tags=("doors",))(doors),
            endpoint.get("/api/organizations/{org_slug}/gates", caller=MEMBER, tags=("doors",), verb="doors list")(doors),
        ]
        with pytest.raises(InvalidDeclaration, match="both `doors list`"):
            verbs_of(declared)

    def test_all_of_them_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        listing.run(argparse.Namespace(json=False))
        assert ["team-member", "list,", "add,", "delete"] in [line.split() for line in capsys.readouterr().out.splitlines()]
        listing.run(argparse.Namespace(json=True))
        assert json.loads(capsys.readouterr().out)["service-client-secret"] == ["list", "delete"]

    def test_one_of_several_things_has_no_s(self) -> None:
        assert [singular(word) for word in ("services", "deliveries", "saml", "api-keys")] == ["service", "delivery", "saml", "api-key"]

    @pytest.mark.parametrize("words", [["service", "list"], ["doctor"], ["--help"], ["team", "list"]])
    def test_no_words_load_the_routes(self, words: list[str]) -> None:
        imports = "import sys; from entrypoints.cli.parsing.command_line import command_line"
        script = f"{imports}; command_line({words}); print('entrypoints.http.routes' in sys.modules)"
        asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert asked.stdout.strip() == "False"


class TestTheOptionsOfAVerb:
    def test_every_field_is_an_option_with_its_own_description(self, parsers: Mapping[str, argparse.ArgumentParser]) -> None:
        for words, one in _every_verb():
            if words in BY_HAND:
                continue
            actions = {action.dest: action for action in reversed(parsers[words]._actions)}
            for part, kind in (("path", one.path_type), ("query", one.query_type), ("body", one.body_type)):
                described = None if kind is None or kind is bytes else inspect.type_info(kind)
                if not isinstance(described, inspect.StructType) or (part == "query" and one.query_type is one.body_type):
                    continue
                for field in described.fields:
                    action = actions[f"{part}_{field.name}"]
                    assert action.help, f"{words} {field.name}"
                    text = texts_of(described.cls).get(field.name, "")
                    assert text.replace("%", "%%") in action.help or field.name == "org_slug"
            assert "json" in actions
            assert ("yes" in actions) == (one.method == "DELETE")
            parsers[words].format_help()

    def test_the_values_of_each_kind_of_field(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("hunter2\n")
        (tmp_path / "keys").write_text('{"keys": []}')

        def reads(kind: Any, text: str) -> Any:
            return option_of(inspect.type_info(kind)).read(text)

        assert reads(str, "Shop") == "Shop"
        assert reads(_Secret, "hunter2") == "hunter2"
        assert reads(_Secret, f"@{tmp_path}/secret") == "hunter2"
        assert reads(_Secret | msgspec.UnsetType | None, f"@{tmp_path}/secret") == "hunter2"
        assert reads(_Secret, "@@acme") == "@acme"
        assert (reads(bool, "yes"), reads(bool, "false")) == (True, False)
        assert reads(int, "7") == 7
        assert reads(Sequence[str], "one") == ["one"]
        assert reads(Sequence[str], '["a", "b"]') == ["a", "b"]
        assert reads(dict[str, Any] | None, f"@{tmp_path}/keys") == {"keys": []}
        assert option_of(inspect.type_info(str | None)).nullable
        for kind, text in ((bool, "perhaps"), (int, "x"), (dict[str, Any], "{"), (_Secret, f"@{tmp_path}/none"), (Sequence[str], "[")):
            with pytest.raises(argparse.ArgumentTypeError):
                reads(kind, text)

    def test_only_secrets_and_json_are_read_from_files_and_from_standard_input(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "keys").write_text("of the operator\n")

        def reads(kind: Any, text: str, standard_input: str = "") -> Any:
            monkeypatch.setattr("sys.stdin", io.StringIO(standard_input))
            return option_of(inspect.type_info(kind)).read(text)

        for text in (f"@{tmp_path}/keys", "@@acme", "-"):
            assert reads(str, text, "unread") == text
            assert reads(str | None, text, "unread") == text
            assert reads(Sequence[str], text, "unread") == [text]
        assert reads(_Secret, "-", "hunter2\n") == "hunter2"
        assert reads(dict[str, Any], "-", '{"keys": []}') == {"keys": []}
        for kind in (_Secret, dict[str, Any]):
            with pytest.raises(argparse.ArgumentTypeError, match="standard input is empty"):
                reads(kind, "-")

    def test_every_secret_of_a_document_is_a_secret_option_and_the_help_says_how_it_is_given(
        self, parsers: Mapping[str, argparse.ArgumentParser]
    ) -> None:
        secrets = {name for kind in KINDS for name in kind.secrets}
        assert secrets
        seen = set()
        for words, one in _every_verb():
            if words in BY_HAND or one.body_type is None or one.body_type is bytes:
                continue
            described = inspect.type_info(one.body_type)
            fields = described.fields if isinstance(described, inspect.StructType) else ()
            helps = {action.dest: action.help or "" for action in reversed(parsers[words]._actions)}
            for field in fields:
                is_read = "@FILE reads it from a file, - from standard input." in helps[f"body_{field.name}"]
                assert is_read == (field.name in secrets or option_of(field.type).metavar == "JSON"), f"{words} {field.name}"
                seen |= {field.name} & secrets
        assert seen == secrets

    def test_a_field_is_left_out_cleared_or_given(self) -> None:
        words = ("service", "set", "--organization", "acme", "--service", "shop")
        parse = command_line(words).parse_args
        assert not hasattr(parse([*words]), "body_jwks_uri")
        assert parse([*words, "--no-jwks-uri"]).body_jwks_uri is None
        assert parse([*words, "--redirect-uri", "a", "--redirect-uri", "b"]).body_redirect_uris == ["a", "b"]
        assert parse([*words, "--redirect-uris", "[]"]).body_redirect_uris == []
        assert (parse([*words, "--type", "web"]).body_service_type, parse([*words, "--service-type", "web"]).body_service_type) == (
            "web",
            "web",
        )

    @pytest.mark.parametrize(
        "more", [["--trusted", "perhaps"], ["--type", "toaster"], ["--metadata", "{"], ["--nam", "x"], ["--no-name"], ["--service"]]
    )
    def test_a_wrong_option_ends_with_2(self, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        words = ["service", "set", "--organization", "acme", "--service", "shop", *more]
        with pytest.raises(SystemExit) as ended:
            command_line(words).parse_args(words)
        assert ended.value.code == 2
        assert "usage: postern" in capsys.readouterr().err


class TestTheAnswerOfAVerb:
    def test_what_no_other_answer_shows_is_marked(self) -> None:
        """Otherwise a new key would stand among other lines, and a script could not keep it."""
        for words, one in _every_verb():
            described = inspect.type_info(one.answer_type) if isinstance(one.answer_type, type) and one.answer_type is not bytes else None
            if not isinstance(described, inspect.StructType) or not hasattr(one.answer_type, "__struct_fields__"):
                continue
            said = {name for name, text in texts_of(one.answer_type).items() if "No other answer shows" in text}
            assert said <= {once_shown(one.answer_type)}, words

    def test_a_record_is_lines_and_a_list_is_a_table(self) -> None:
        assert shown_lines({}) == ["Done."]
        assert shown_lines([]) == ["none"]
        assert shown_lines(["a", "b"]) == ["a", "b"]
        record = {"name": "Shop\x1b[2J", "trusted": True, "uris": ["a", "b"], "jwks": None, "usage": {"most": 3}}
        record["rows"] = [{"id": 1, "x": {}}]
        assert shown_lines(record) == [
            "name     Shop?[2J",
            "trusted  yes",
            "uris     a, b",
            "jwks     -",
            "usage:",
            "  most  3",
            "rows:",
            "  id",
            "  1",
        ]


class VerbConsole:
    """Runs verbs on a database with the organization `acme`, as Grace under sudo."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.settings: Settings = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"})
        self._capsys = capsys

    async def run(self, *words: str) -> tuple[str, str]:
        every = (*words[:2], "--organization", "acme", *words[2:])
        await running._run(command_line(every).parse_args(every), self.settings)
        return self._capsys.readouterr()

    async def asked(self, *words: str) -> Any:
        return json.loads((await self.run(*words, "--json"))[0])

    def rows(self, statement: str) -> Sequence[Mapping[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture
async def console(database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> VerbConsole:
    monkeypatch.setenv("SUDO_USER", "grace")
    made = VerbConsole(database_url, capsys)
    async with open_postern(made.settings) as postern:
        await postern.platform.platform_owners.create(Email("ada@example.org"), Password("correct horse battery"))
        await postern.tenancy.organizations.found_for(Email("ada@example.org"), "acme", "Acme Ltd", acting())
    return made


class TestWhatAVerbDoes:
    async def test_a_service_takes_every_field_and_the_log_names_the_operator(self, console: VerbConsole, tmp_path: Path) -> None:
        (tmp_path / "metadata").write_text('{"cost_center": "4711"}')
        await console.run("service", "create", "--service", "shop", "--name", "Shop", "--redirect-uri", "https://shop.example.org/a")
        changed = await console.asked(
            *("service", "set", "--service", "shop", "--id-token-alg", "ES256", "--trusted", "yes", "--metadata", f"@{tmp_path}/metadata"),
            *("--device-activation-uri", "https://shop.example.org/tv", "--codehost-scope", "read:user"),
        )
        assert (changed["id_token_alg"], changed["trusted"], changed["metadata"]) == ("ES256", True, {"cost_center": "4711"})
        assert (changed["codehost_scopes"], changed["redirect_uris"]) == (["read:user"], ["https://shop.example.org/a"])
        cleared = await console.asked("service", "set", "--service", "shop", "--no-device-activation-uri", "--no-codehost-scopes")
        assert (cleared["device_activation_uri"], cleared["codehost_scopes"], cleared["trusted"]) == (None, None, True)
        entries = console.rows("select actor_id, details from audit_log where action in ('service.created', 'service.updated')")
        assert [(one["actor_id"], one["details"]["operator"]) for one in entries] == [(None, "grace")] * 3

    async def test_what_is_shown_once_stands_alone(self, console: VerbConsole) -> None:
        await console.run("service", "create", "--service", "shop", "--name", "Shop")
        out, err = await console.run("service-api-key", "create", "--service", "shop", "--name", "Server", "--permission", "read:users")
        assert out.startswith("sk_")
        assert out.count("\n") == 1
        assert "Server" in err
        assert out.strip() not in err
        assert out.strip() not in str(await console.asked("service-api-key", "list", "--service", "shop"))

    @pytest.mark.parametrize(
        ("words", "begins"),
        [
            (
                ["webhook", "create", "--name", "Hooks", "--url", "https://hooks.example.org/", "--event", "organization.updated"],
                "whsec_",
            ),
            (["scim-token", "create", "--name", "Directory"], "scim_"),
            (["management-key", "create", "--name", "Sync", "--capability", "services.view"], "pto_"),
            (["setup-link", "create", "--name", "Directory", "--purpose", "domain"], "http"),
            (["invitation", "create", "--email", "bob@example.org", "--role", "member"], ""),
            (["role", "create", "--slug", "auditor", "--name", "Auditor", "--permission", "audit_logs.view"], ""),
            (["profile-field", "create", "--key", "badge", "--kind", "text", "--label", "Badge"], ""),
            (["sign-in-rules", "set", "--device-trust-days", "7"], ""),
            (["domain-route", "create", "--domain", "example.org"], ""),
        ],
    )
    async def test_an_operator_makes_what_the_owner_makes(self, words: list[str], begins: str, console: VerbConsole) -> None:
        out, _ = await console.run(*words)
        assert out.startswith(begins)
        assert console.rows("select from audit_log where details ->> 'operator' = 'grace' and action <> 'organization.created'")

    async def test_teams_are_made_listed_and_deleted(self, console: VerbConsole) -> None:
        made = await console.asked("team", "create", "--team", "ops", "--name", "Operators")
        assert made["slug"] == "ops"
        (ada,) = console.rows("select id from users")
        assert await console.run("team-member", "add", "--team", "ops", "--user", str(ada["id"])) == ("Done.\n", "")
        listed, _ = await console.run("team", "list")
        assert "Operators" in listed
        await console.run("team", "delete", "--team", "ops", "--yes")
        assert await console.asked("team", "list") == {"items": [], "total": 0}

    async def test_an_operator_may_ask_for_everything_that_needs_no_further_name(
        self, console: VerbConsole, parsers: Mapping[str, argparse.ArgumentParser]
    ) -> None:
        asked = 0
        for words, one in _every_verb():
            required = [action.dest for action in parsers[words]._actions if action.required]
            if one.method == "GET" and words not in BY_HAND and required == ["path_org_slug"]:
                with suppress(NotFound):  # what was never set up
                    await console.run(*words.split())
                    asked += 1
        assert asked > 25

    async def test_a_refusal_ends_the_command_with_1(self, console: VerbConsole, tmp_path: Path) -> None:
        settings = {"POSTERN_DATABASE_URL": console.url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"}
        of_acme = ("--organization", "acme", "--json")
        made = command(tmp_path, "team", "create", *of_acme, "--team", "ops", "--name", "Ops", **settings)
        assert (made.returncode, json.loads(made.stdout)["slug"]) == (0, "ops")
        again = command(tmp_path, "team", "create", *of_acme, "--team", "ops", "--name", "Ops", **settings)
        assert (again.returncode, again.stdout, json.loads(again.stderr)["exit_status"]) == (1, "", 1)
        wrong = command(tmp_path, "team", "create", *of_acme, "--nam", "Ops", **settings)
        assert (wrong.returncode, wrong.stdout, json.loads(wrong.stderr)["exit_status"]) == (2, "", 2)
        unknown = command(tmp_path, "teem", "create", **settings)
        assert (unknown.returncode, "invalid choice: 'teem'" in unknown.stderr) == (2, True)

    async def test_it_is_refused_as_the_endpoint_refuses(self, console: VerbConsole) -> None:
        with pytest.raises(NotFound):
            await console.run("team", "show", "--team", "nowhere")
        with pytest.raises(NotFound):
            await console.run("webhook", "show", "--webhook", "no-uuid")
        with pytest.raises(BadRequest, match="name"):
            await console.run("team", "create", "--team", "ops", "--name", "")
        with pytest.raises(Refusal, match="user_id"):
            await console.run("service-assignment", "list", "--service", "shop", "--user-id", "x")

    async def test_what_would_end_is_asked_about(self, console: VerbConsole, monkeypatch: pytest.MonkeyPatch) -> None:
        words = ("team", "delete", "--organization", "acme", "--team", "ops")
        given = command_line(words).parse_args(words)
        with pytest.raises(NotAgreed, match="Use --yes"):
            running.run(given, console.settings)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr("builtins.input", lambda _question: "no")
        with pytest.raises(NotAgreed, match="Nothing was changed"):
            running.run(given, console.settings)
