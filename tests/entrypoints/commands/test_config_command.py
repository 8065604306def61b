"""`postern config export`, `plan` and `apply` at the command line, and an application that is killed in the middle."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import trio
import yaml
from psycopg.rows import dict_row

from adapters.crypto.key_ring import EncryptionKey
from entrypoints.cli import main
from tests.http.configuration.documents import SECRETS, WHOLE
from tests.places import ROOT

OWNER: Final = "ada@example.org"
SOURCES: Final = [f"--secrets-from={name}" for name in SECRETS]
RUNS: Final = int(os.environ.get("DOCUMENT_KILLS", "3"))
Command = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def database(emptied_database_url: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    with psycopg.connect(emptied_database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(
            "insert into users (id, email, email_key, email_verified_at, is_platform_owner, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, now(), false, now(), now())",
            [OWNER, OWNER],
        )
        yield connection


@pytest.fixture
def environment(emptied_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = {
        "POSTERN_DATABASE_URL": emptied_database_url,
        "POSTERN_DATA_DIR": str(tmp_path / "data"),
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "POSTERN_OUTBOUND_NETWORKS": "127.0.0.1",
        **SECRETS,
    }
    for name in [one for one in os.environ if one.startswith("POSTERN_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def postern(database: object, environment: object, capsys: pytest.CaptureFixture[str]) -> Command:
    del database, environment

    async def run(*words: str) -> tuple[int, str, str]:
        # Most tests are about something else than where secrets may come from.
        if words[:1] in {("plan",), ("apply",)} and not any(one.startswith("--secrets-from") for one in words):
            words = (*words, *SOURCES)
        status = await trio.to_thread.run_sync(main.main, ["config", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def written(place: Path, document: Any, name: str = "all.yaml") -> str:
    (place / name).write_text(yaml.safe_dump(document, sort_keys=False))
    return str(place / name)


async def test_a_document_is_planned_applied_and_exported(postern: Command, tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    status, out, err = await postern("plan", file)
    assert (status, out) == (1, ""), err
    assert f"{file}:" in err
    assert "specify its owner: --owner acme=EMAIL" in err
    owner = f"--owner=acme={OWNER}"
    status, out, _ = await postern("plan", file, owner)
    assert status == 2
    assert out.startswith("the installation\n  + profile_fields/employee_number\n")
    assert "\n  + services/billing\n" in out
    assert "      password: a new secret, from env:MAIL_PASSWORD\n" in out
    assert out.endswith(" to create, 2 to change, 0 to delete.\n") or " to create, " in out
    assert not any(value in out for value in SECRETS.values())
    status, out, _ = await postern("apply", file, owner, "--json")
    assert (status, json.loads(out)["refused"]) == (0, [])
    status, out, _ = await postern("plan", file)
    assert (status, out.splitlines()[-1]) == (0, "No changes, except that secrets are set again.")
    assert "      password: a secret, set again, from env:MAIL_PASSWORD\n" in out
    status, exported, _ = await postern("export")
    assert status == 0
    assert exported.startswith("# Made by `postern config export`.")
    again = tmp_path / "again.yaml"
    again.write_text(exported)
    assert (await postern("plan", str(again), "--json"))[0] == 0
    for words in (["--organization", "acme"], ["--organization", "acme", "--json", "--whole"]):
        again.write_text((await postern("export", *words))[1])
        assert (await postern("plan", str(again)))[:2] == (0, "No changes.\n")
    assert (await postern("export", "--organization", "none"))[0] == 1
    # The settings of the process are another thing, and stay where they were.
    assert "POSTERN_DATABASE_URL" in (await postern())[1]


async def test_an_organization_is_made_for_an_account_alone_and_nobody_is_invited(
    postern: Command, database: psycopg.Connection[dict[str, Any]], tmp_path: Path
) -> None:
    document = {"postern": 1, "organizations": {"acme": {"name": "Acme"}, "beta": {"name": "Beta"}}}
    file = written(tmp_path, document)
    status, _, err = await postern("apply", file, "--owner=acme=nobody@example.org", f"--owner=beta={OWNER}")
    assert (status, err) == (1, "organizations/acme: There is no active account with this e-mail\n")
    assert database.execute("select slug from organizations").fetchall() == [{"slug": "beta"}]
    assert database.execute("select from invitations").fetchall() == []
    # What lacks is made by the next application, once the account is there.
    assert (await postern("apply", file, f"--owner=acme={OWNER}"))[0] == 0
    assert (await postern("plan", file))[:2] == (0, "No changes.\n")


async def test_what_would_end_is_asked_about(postern: Command, tmp_path: Path) -> None:
    await postern("apply", written(tmp_path, WHOLE), f"--owner=acme={OWNER}")
    ends = written(tmp_path, {"postern": 1, "organizations": {"acme": {"webhooks": {"whole": True, "entries": {}}}}}, "ends.yaml")
    status, out, err = await postern("apply", ends)
    assert status == 1
    assert "- webhooks/CRM" in out
    assert "Use --yes" in err
    assert (await postern("apply", ends, "--yes"))[1].endswith("0 created, 0 changed, 1 deleted.\n")


async def test_faults_are_lines_with_places_and_references_never_show_values(
    postern: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CODEHOST")
    (tmp_path / "secret").write_text("from a file\n")
    server = {"host": "127.0.0.1", "port": 587, "username": "a", "from_email": "it@acme.example", "password": f"file:{tmp_path}/secret"}
    good = written(tmp_path, {"postern": 1, "organizations": {"acme": {"name": "Acme", "mail_server": server}}})
    within = f"--secrets-from={tmp_path}/"
    assert (await postern("apply", good, f"--owner=acme={OWNER}", within))[0] == 0
    assert (await postern("plan", good, within))[0] == 0
    (tmp_path / "secret").write_text("from a file")
    assert (await postern("plan", good, within))[0] == 0
    file = tmp_path / "bad.yaml"
    file.write_text(
        "postern: 1\norganizations:\n  acme:\n    rolls: {}\n    oauth_credentials:\n      codehost:\n        client_id: a\n"
        "        client_secret: env:CODEHOST\n    mail_server:\n      password: plain\n"
        f"    siem: {{api_key: 'file:{tmp_path}/nowhere'}}\n"
    )
    status, _, err = await postern("plan", str(file), *SOURCES, within)
    assert status == 1
    assert f"{file}:4:5: organizations / acme / rolls: unknown name" in err
    assert f"{file}:8:9: organizations / acme / oauth_credentials / codehost / client_secret: env:CODEHOST: this environment" in err
    assert f"{file}:10:7: organizations / acme / mail_server / password: a file cannot contain secrets" in err
    assert f"file:{tmp_path}/nowhere: No such file or directory" in err
    assert "4 problems: nothing was changed" in err
    assert "plain" not in err.replace("plain text", "")
    assert (await postern("plan", good, "--owner", "acme"))[0] == 2


MAIL: Final = {"host": "127.0.0.1", "port": 587, "username": "a", "from_email": "it@acme.example"}


def naming(reference: str) -> Any:
    """A document whose mail server gets the secret of that reference."""
    return {"postern": 1, "organizations": {"acme": {"name": "Acme", "mail_server": {**MAIL, "password": reference}}}}


async def test_a_document_gets_no_secret_that_the_operator_does_not_allow(
    postern: Command, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(environment["POSTERN_DATA_DIR"])
    data.mkdir(exist_ok=True)
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    ring = tmp_path / "ring"
    for file in (data / "encryption.keys", ring, allowed / "good", tmp_path / "beside"):
        file.write_text("a secret of the operator's")
    (allowed / "link").symlink_to(data / "encryption.keys")
    (allowed / "out").symlink_to(tmp_path / "beside")
    (allowed / "folder").symlink_to(data)
    (allowed / "loop").symlink_to(allowed / "loop")
    monkeypatch.setenv("OTHER_PASSWORD", "of somebody else")
    monkeypatch.setenv("POSTERN_ENCRYPTION_KEYS_FILE", str(ring))
    monkeypatch.delenv("POSTERN_ENCRYPTION_KEYS")
    ring.write_text(environment["POSTERN_ENCRYPTION_KEYS"])
    # Even an operator who allows everything.
    sources = [f"--secrets-from={allowed}/", f"--secrets-from={tmp_path}", "--secrets-from=P", "--secrets-from=MAIL_"]
    own, never = "own settings cannot be used as secrets", "own files cannot be used as secrets"
    refused = {
        "env:POSTERN_DATABASE_URL": own,
        "env:POSTERN_ENCRYPTION_KEYS": own,
        f"file:{data}/encryption.keys": never,
        f"file:{allowed}/../data/encryption.keys": never,
        f"file:{allowed}/link": never,
        f"file:{allowed}/folder/encryption.keys": never,
        f"file:{ring}": never,
        f"file:{allowed}/loop": "",
        "env:OTHER_PASSWORD": "not allowed; to allow it, use --secrets-from OTHER_PASSWORD",
        "file:/proc/self/environ": "not allowed",
    }
    for reference, why in refused.items():
        for command in ("plan", "apply"):
            status, out, err = await postern(command, written(tmp_path, naming(reference)), f"--owner=acme={OWNER}", *sources)
            assert (status, out) == (1, ""), reference
            assert f"{reference}: " in err
            assert why in err
            assert "nothing was changed" in err
            assert "No changes" not in err
    for reference, one in ((f"file:{allowed}/out", f"{allowed}/"), (f"file:{allowed}/good", f"{data}/"), ("env:MAIL_PASSWORD", "MAILS_")):
        status, _, err = await postern("plan", written(tmp_path, naming(reference)), f"--owner=acme={OWNER}", f"--secrets-from={one}")
        assert (status, "not allowed" in err) == (1, True), reference
    # Nothing is allowed by itself.
    for reference in (f"file:{allowed}/good", "env:MAIL_PASSWORD"):
        wanted = written(tmp_path, naming(reference))
        status, _, err = await postern("plan", wanted, f"--owner=acme={OWNER}", "--secrets-from=NOTHING_OF_THIS")
        assert (status, "not allowed" in err) == (1, True)
        assert (await postern("plan", wanted, f"--owner=acme={OWNER}", *sources))[0] == 2
    assert (await postern("plan", written(tmp_path, naming("env:MAIL_PASSWORD")), "--secrets-from="))[0] == 2


async def test_a_plan_names_the_reference_of_each_secret_and_is_applied_as_it_was_read(postern: Command, tmp_path: Path) -> None:
    file, owner = written(tmp_path, naming("env:MAIL_PASSWORD")), f"--owner=acme={OWNER}"
    _, out, _ = await postern("plan", file, owner)
    assert "password: a new secret, from env:MAIL_PASSWORD\n" in out
    _, told, _ = await postern("plan", file, owner, "--json")
    digest = json.loads(told)["plan_digest"]
    assert f"To apply this plan and no other: --digest {digest}\n" in out
    (field,) = (field for change in json.loads(told)["changes"] for field in change["fields"] if field["is_secret"])
    assert (field["name"], field["reference"], field["after"]) == ("password", "env:MAIL_PASSWORD", None)
    # The author asks for another secret after the plan was read.
    written(tmp_path, naming("env:SIEM_KEY"))
    status, _, err = await postern("apply", file, owner, "--yes", f"--digest={digest}")
    assert (status, "the plan does not have this digest" in err) == (1, True)
    assert (await postern("export", "--organization", "acme"))[0] == 1
    written(tmp_path, naming("env:MAIL_PASSWORD"))
    status, out, _ = await postern("apply", file, owner, "--yes", f"--digest={digest}", "--json")
    assert (status, [one["place"] for one in json.loads(out)["done"]][-1:]) == (0, ["/organizations/acme/mail_server"])
    # It is done, so it is another plan by now.
    assert (await postern("apply", file, owner, "--yes", f"--digest={digest}"))[0] == 1


async def test_a_plan_is_stale_when_somebody_changed_something_since(postern: Command, tmp_path: Path) -> None:
    named = {"postern": 1, "organizations": {"acme": {"name": "Acme"}}}
    assert (await postern("apply", written(tmp_path, named), f"--owner=acme={OWNER}"))[0] == 0
    wanted = {"postern": 1, "organizations": {"acme": {"name": "Acme Ltd"}}}
    file = written(tmp_path, wanted)
    digest = json.loads((await postern("plan", file, "--json"))[1])["plan_digest"]
    other = written(tmp_path, {"postern": 1, "organizations": {"acme": {"name": "Beta"}}}, "other.yaml")
    assert (await postern("apply", other))[0] == 0
    assert (await postern("apply", file, f"--digest={digest}"))[0] == 1
    digest = json.loads((await postern("plan", file, "--json"))[1])["plan_digest"]
    assert (await postern("apply", file, f"--digest={digest}"))[0] == 0


async def test_what_was_refused_is_not_nothing_to_do(postern: Command, tmp_path: Path) -> None:
    file = written(tmp_path, {"postern": 1, "organizations": {"acme": {"name": "Acme"}}})
    status, out, _ = await postern("apply", file, "--owner=acme=nobody@example.org")
    assert (status, out.splitlines()[-1]) == (1, "Nothing was changed: 1 rejected.")
    both = written(tmp_path, {"postern": 1, "organizations": {"acme": {"name": "Acme"}, "beta": {"name": "Beta"}}})
    status, out, _ = await postern("apply", both, "--owner=acme=nobody@example.org", f"--owner=beta={OWNER}")
    assert (status, out.splitlines()[-1]) == (1, "1 created, 0 changed, 0 deleted, 1 rejected.")


async def test_a_plan_says_which_limit_it_reaches(postern: Command, database: psycopg.Connection[dict[str, Any]], tmp_path: Path) -> None:
    """Otherwise the plan promises what the limit of the tier refuses."""

    def document(*numbers: int, **limits: int) -> str:
        common = {"service_type": "web", "redirect_uris": ["https://app.example/c"]}
        services = {f"app-{number}": {"name": f"App {number}", **common} for number in numbers}
        acme: dict[str, Any] = {"name": "Acme", "services": services}
        return written(tmp_path, {"postern": 1, "organizations": {"acme": {**acme, **({"limits": limits} if limits else {})}}})

    owner = f"--owner=acme={OWNER}"
    said = "  acme: 4 services, and the limit on the tier Free is 3. Raise it first: "
    said += "postern organization tier --organization acme --max-services 4"
    # Of an organization that the plan makes, too.
    _, out, _ = await postern("plan", document(1, 2, 3, 4), owner)
    assert out.splitlines()[-2:] == ["This reaches a limit, so a part of it would be refused:", said]
    fits: list[tuple[tuple[int, ...], dict[str, int]]] = [((1, 2, 3), {}), ((1, 2, 3, 4), {"max_services": 4})]
    for numbers, limits in fits:
        fitting = document(*numbers, **limits)
        _, out, _ = await postern("plan", fitting, owner)
        assert "limit, so" not in out
        assert json.loads((await postern("plan", fitting, owner, "--json"))[1])["reached_limits"] == []
    assert (await postern("apply", document(1, 2), owner))[0] == 0
    told = json.loads((await postern("plan", document(3, 4), "--json"))[1])
    assert told["reached_limits"] == [{"organization": "acme", "services": 4, "max_services": 3}]
    # The command of the line raises it, and the same plan, by its digest, is applied.
    database.execute("update all_organizations set max_services = 4")
    assert json.loads((await postern("plan", document(3, 4), "--json"))[1])["reached_limits"] == []
    assert (await postern("apply", document(3, 4), f"--digest={told['plan_digest']}"))[0] == 0
    # What is there already takes no place twice.
    _, out, _ = await postern("plan", document(1, 2, 3, 4))
    assert out.splitlines()[-1] == "No changes."


def _killed(words: Sequence[str], environment: dict[str, str], after: float) -> bool:
    """Whether the command was killed before it ended."""
    command = [sys.executable, "-m", "entrypoints.cli.main", "config", *words]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


async def test_an_application_that_is_killed_leaves_whole_objects_and_is_finished_by_the_next(
    postern: Command, environment: dict[str, str], database: psycopg.Connection[dict[str, Any]], tmp_path: Path
) -> None:
    """`DOCUMENT_KILLS=100` kills a hundred applications, each at another moment."""
    file, owner = written(tmp_path, WHOLE), f"--owner=acme={OWNER}"
    began = time.monotonic()
    assert not await trio.to_thread.run_sync(_killed, ["apply", file, owner, *SOURCES], environment, 60.0)
    took = time.monotonic() - began
    expected = json.loads((await postern("export", "--json"))[1])
    killed = 0
    for number in range(RUNS):
        database.execute("delete from all_organizations")
        database.execute("delete from all_profile_fields")
        moment = took * random.uniform(0.3, 1.0)  # noqa: S311 - any moment will do
        killed += await trio.to_thread.run_sync(_killed, ["apply", file, owner, *SOURCES], environment, moment)
        # A service is never without the plan that it begins with, nor a role without what it permits.
        halves = database.execute(
            "select count(*) as count from services where not exists (select from plans where plans.service_id = services.id)"
        ).fetchone()
        assert halves == {"count": 0}, number
        found = await postern("apply", file, owner, "--json", "--yes")
        assert (found[0], json.loads(found[1])["refused"]) == (0, []), found[2]
        assert json.loads((await postern("export", "--json"))[1]) == expected, number
        assert (await postern("plan", file))[0] == 0
    assert killed or RUNS < 20
