"""`postern import`: its arguments, its report, the document of clients, and what it refuses."""

import csv
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import BadRequest
from entrypoints.cli.imports import people
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import FAILURE, StartFailed
from entrypoints.settings import Settings, read
from tests.adapters.imports.importing import SAMPLES, people_file
from tests.foreign_hashes import FIREBASE_HASH, FIREBASE_SALT, FIREBASE_SHOWN

Import = Callable[..., Awaitable[str]]
REALM = str(SAMPLES / "acme-realm.json")


@pytest.fixture
def settings(emptied_database_url: str, tmp_path: Path) -> Settings:
    return read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path / "data"),
            "POSTERN_BASE_URL": "https://id.example.org",
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
            "POSTERN_ARGON2_MEMORY": "8KiB",
            "POSTERN_ARGON2_PASSES": "1",
        }
    )


@pytest.fixture
def run(settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Import:
    """Runs `postern import` with these arguments. Returns the output."""
    monkeypatch.setenv("SUDO_USER", "grace")

    async def imported(*words: str) -> str:
        await people._run(command_line().parse_args(["import", *words]), settings)
        return capsys.readouterr().out

    return imported


async def test_the_totals_are_a_table(run: Import) -> None:
    planned = await run("keycloak", REALM, "--plan")
    assert "This was a plan: nothing was written." in planned
    told = (await run("keycloak", REALM, "--trust-verified")).splitlines()
    assert told[0].startswith("keycloak:acme, SHA-256 ")
    assert told[1:5] == [
        "           3  taken     with a new account",
        "           0  merged    an account has this email address: only links are added to it",
        "           0  known     imported earlier",
        "           2  left out",
    ]
    assert "           2  passwords" in told
    assert "           1  email: is missing" in told
    assert json.loads(await run("keycloak", REALM, "--json"))["outcomes"] == {"taken": 0, "merged": 0, "known": 3, "left out": 2}


async def test_the_report_has_a_line_for_each_record_and_no_formula(run: Import, tmp_path: Path) -> None:
    people: list[dict[str, Any]] = [
        {"id": "=1+1", "email": "=cmd|calc@example.org"},
        {"id": "@SUM(A1)", "email": "ada@example.org", "teams": ["-2+3"]},
        {"id": "+4", "email": "nobody"},
    ]
    file = people_file(tmp_path / "people.ndjson", people)
    report = tmp_path / "report.csv"
    await run("postern", str(file), "--report", str(report), "--plan")
    with report.open(newline="") as lines:
        rows = list(csv.reader(lines))
    assert rows[0] == ["place", "id", "email", "outcome", "account", "notes"]
    assert [row[1:4] for row in rows[1:]] == [
        ["'=1+1", "'=cmd|calc@example.org", "taken"],
        ["'@SUM(A1)", "ada@example.org", "taken"],
        ["'+4", "nobody", "left out"],
    ]
    assert all(not cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    objects = tmp_path / "report.ndjson"
    await run("postern", str(file), "--report", str(objects))
    taken, *_ = [json.loads(line) for line in objects.read_text().splitlines()]
    assert (taken["id"], taken["outcome"], len(taken["account"])) == ("=1+1", "taken", 36)


@pytest.mark.parametrize(
    ("name", "says"),
    [("report.txt", "must end in .csv or .ndjson"), ("there.csv", "already exists"), ("no/folder.csv", "cannot be written")],
)
async def test_a_report_that_cannot_be_written_stops_the_import(run: Import, tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "there.csv").write_text("mine")
    with pytest.raises(StartFailed, match=says):
        await run("keycloak", REALM, "--report", str(tmp_path / name))
    assert (tmp_path / "there.csv").read_text() == "mine"
    assert json.loads(await run("keycloak", REALM, "--json"))["outcomes"]["known"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("keycloak", "missing.json"), "is no file"),
        (("keycloak", str(SAMPLES.parent)), "holds no export of a realm"),
        (("keycloak", str(SAMPLES / "auth0-bulk-import.json")), "is no export of one realm"),
        (("keycloak", str(SAMPLES / "people.csv")), r"people.csv, line 1, byte 0: it is no JSON: .* \(the file is a table\)"),
        (("keycloak", REALM, "--only-organization", "x"), "The realm has no organization x"),
        (
            ("postern", str(SAMPLES / "auth0-users.ndjson")),
            r"The first line must say what the file is.*\(the file is an export of Auth0's users",
        ),
        (("csv", "/dev/null"), "is no file"),
    ],
)
async def test_files_of_another_kind_are_refused_with_a_sentence(run: Import, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        await run(*words)


@pytest.mark.parametrize(
    ("name", "content", "words", "says"),
    [
        ("word.json", '"people"', ("keycloak",), "word.json, line 1, byte 0: it is JSON, and neither an object nor a list"),
        ("number.json", "42\n", ("keycloak",), "it is JSON, and neither an object nor a list"),
        ("empty.csv", "", ("csv",), "empty.csv, line 1, byte 0: it is empty"),
        ("people.csv", "email;name\nada@example.org;Ada\n", ("csv",), "separated by ';': add --delimiter ';'"),
        ("people.csv", "email\tname\nada@example.org\tAda\n", ("csv",), "add --delimiter tab"),
        ("people.csv", "email,name\nada@example.org,Ada\n", ("csv", "--delimiter", ";"), "add --delimiter ','"),
        ("people.csv", "name\nAda\n", ("csv",), "email(?!.*delimiter)"),
    ],
)
async def test_a_file_in_another_form_says_which(
    run: Import, tmp_path: Path, name: str, content: str, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=says):
        await run(words[0], str(tmp_path / name), *words[1:])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--map-role", "a=b"), "--map-role needs --organization"),
        (("--organization", "acme", "--map-role", "ab"), "two names with = between them"),
        (("--organization", "acme", "--map-role", "=b"), "two names with = between them"),
    ],
)
async def test_options_that_do_not_fit_are_refused(run: Import, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(StartFailed, match=says):
        await run("keycloak", REALM, *words)


async def test_a_program_reads_that_a_cut_file_imported_nobody(run: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(await run("keycloak", REALM, "--plan", "--json"))["complete"] is True
    cut = tmp_path / "cut.json"
    cut.write_bytes(Path(REALM).read_bytes()[:3000])
    with pytest.raises(BadRequest, match=r"cut.json, line 1\d\d, byte 3000: it ends in the middle"):
        await run("keycloak", str(cut), "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["complete"], told["file"], told["byte"], "No people were imported" in told["message"]) == (False, "cut.json", 3000, True)
    with pytest.raises(BadRequest, match="No people were imported"):
        await run("keycloak", str(cut))
    assert capsys.readouterr().out == ""
    assert json.loads(await run("keycloak", REALM, "--json"))["outcomes"]["known"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--hash", "firebase"), "--hash firebase needs --hash-config"),
        (("--hash-config", "x"), "--hash-config needs --hash firebase"),
    ],
)
async def test_firebases_parameters_come_in_a_file(run: Import, tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    """So that the signer key stands on no command line."""
    file, parameters = tmp_path / "people.csv", tmp_path / "hash_config"
    file.write_text(f"email,password_hash,password_salt\nada@example.org,{FIREBASE_HASH},{FIREBASE_SALT}\n")
    parameters.write_text(FIREBASE_SHOWN)
    with pytest.raises(StartFailed, match=says):
        await run("csv", str(file), *words)
    with pytest.raises(BadRequest, match="must be one of better-auth"):
        await run("csv", str(file), "--hash", "md5")
    told = await run("csv", str(file), "--hash", "firebase", "--hash-config", str(parameters), "--json")
    assert json.loads(told)["brought"]["passwords"] == 1, told


async def test_the_parameters_of_a_firebase_project_are_enough(run: Import, tmp_path: Path) -> None:
    parameters = tmp_path / "hash_config"
    parameters.write_text(FIREBASE_SHOWN)
    users = str(SAMPLES / "firebase-users.json")
    for words in ((), ("--hash", "firebase")):
        told = json.loads(await run("firebase", users, "--hash-config", str(parameters), *words, "--plan", "--json"))
        assert told["brought"]["passwords"] == 2, told
    with pytest.raises(StartFailed, match="--hash-config needs --hash firebase"):
        await run("firebase", users, "--hash-config", str(parameters), "--hash", "node-scrypt")


async def test_zitadels_list_of_users_is_a_file_of_its_own(run: Import) -> None:
    states, words = str(SAMPLES / "zitadel-users.json"), ("zitadel", str(SAMPLES / "zitadel-export.json"), "--plan", "--json")
    told = json.loads(await run(*words, "--states", states, "--only-organization", "ACME"))
    assert (told["source"], told["outcomes"]["taken"], told["outcomes"]["left out"]) == ("zitadel", 2, 1)
    with pytest.raises(BadRequest, match="zitadel needs --states FILE"):
        await run(*words)


@pytest.mark.parametrize("people", [[], [{"id": "1", "username": "service-account-shop", "serviceAccountClientId": "shop"}]])
async def test_an_export_without_people_says_how_to_get_one_with_them(run: Import, tmp_path: Path, people: list[Any]) -> None:
    """The admin console exports clients and the accounts of clients, and no people."""
    file = tmp_path / "realm.json"
    file.write_text(json.dumps({"realm": "acme", "clients": [], "users": people}))
    with pytest.raises(BadRequest, match=r"realm.json: the realm has no people\. .* kc.sh export"):
        await run("keycloak", str(file), "--plan")


async def test_only_members_of_one_organization_of_the_realm(run: Import, tmp_path: Path) -> None:
    realm = json.loads(Path(REALM).read_text())
    members = [{"username": "grace", "membershipType": "MANAGED"}]
    realm["organizations"] = [{"id": "o1", "name": "Globex", "alias": "globex", "members": members}]
    file = tmp_path / "realm.json"
    file.write_text(json.dumps(realm))
    told = await run("keycloak", str(file), "--only-organization", "globex", "--json")
    assert json.loads(told)["outcomes"] == {"taken": 1, "merged": 0, "known": 0, "left out": 4}
    assert json.loads(told)["left_out"]["is no member of globex there"] == 3


def test_clients_and_groups_become_a_document_and_nobody_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    document = tmp_path / "acme.yaml"
    words = ["import", "keycloak", REALM, "--organization", "acme", "--clients", str(document)]
    assert people.run(command_line().parse_args(words), settings) == 0
    told = capsys.readouterr().out
    assert "No people were imported" in told
    assert "  billing: https://billing.example.org/* is left out: there are no wildcards" in told
    assert document.read_text() == (SAMPLES / "acme.yaml").read_text()
    with pytest.raises(StartFailed, match="already exists"):
        people.run(command_line().parse_args(words), settings)
    with pytest.raises(StartFailed, match="--clients needs --organization"):
        people.run(command_line().parse_args(["import", "keycloak", REALM, "--clients", "x"]), settings)


async def test_a_plan_lists_the_addresses_that_no_service_gets(run: Import, tmp_path: Path, settings: Settings) -> None:
    realm = json.loads(Path(REALM).read_text())
    realm["clients"].append({"clientId": "freva", "redirectUris": ["http://localhost:8002/*", "*"]})
    file = tmp_path / "realm.json"
    file.write_text(json.dumps(realm))
    lost = [
        "freva: http://localhost:8002/* is left out: there are no wildcards: write each address that the application uses",
        "freva: * is left out: there are no wildcards: write each address that the application uses",
        "freva: no address is left, so nobody can come back to it",
    ]
    assert json.loads(await run("keycloak", str(file), "--plan", "--json"))["lost_addresses"][1:] == lost
    told = await run("keycloak", str(file), "--plan")
    assert "URLs of clients that are not in the document:" in told
    assert all(f"  {line}" in told for line in lost)
    assert "lost_addresses" not in json.loads(await run("keycloak", str(file), "--json"))
    document = tmp_path / "acme.yaml"
    words = ["keycloak", str(file), "--organization", "acme", "--clients", str(document), "--plan"]
    assert people.run(command_line().parse_args(["import", *words, "--json"]), settings) == 0
    assert people.run(command_line().parse_args(["import", *words]), settings) == 0
    assert not document.exists()


TENANT = """\
clients:
  - name: Shop
    app_type: spa
    callbacks: ["https://shop.example.org/callback", "https://*.shop.example.org/callback"]
  - name: All Applications
roles:
  - name: Editor
    permissions:
      - permission_name: write:invoices
        resource_server_identifier: https://api.example.org
"""


def test_an_export_of_a0deploy_becomes_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Settings) -> None:
    tenant, document = tmp_path / "tenant.yaml", tmp_path / "acme.yaml"
    tenant.write_text(TENANT)
    words = ["import", "auth0", str(tenant), "--organization", "acme", "--clients", str(document)]
    assert people.run(command_line().parse_args(words), settings) == 0
    assert "Shop: https://*.shop.example.org/callback is left out" in capsys.readouterr().out
    written = document.read_text()
    assert '      "shop":\n        # Shop at Auth0\n        name: "Shop"\n        service_type: "web"' in written
    assert "# It has write:invoices of https://api.example.org: make permissions and a role of that service" in written
    folder = tmp_path / "tenant"
    for kind, name, content in (
        ("clients", "Shop", yaml.safe_load(TENANT)["clients"][0]),
        ("clients", "All", {"name": "All Applications"}),
        ("roles", "Editor", yaml.safe_load(TENANT)["roles"][0]),
    ):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / f"{name}.json").write_text(json.dumps(content))
    same = tmp_path / "same.yaml"
    words = ["import", "auth0", str(folder), "--organization", "acme", "--clients", str(same)]
    assert people.run(command_line().parse_args(words), settings) == 0
    assert same.read_text() == written


@pytest.mark.parametrize(
    ("content", "says"),
    [("email: x\n", "not an export of a0deploy"), ("clients: [", r"tenant.yaml:2:1: "), ("- 1\n", "a document is a map")],
)
def test_a_file_that_is_no_export_of_a0deploy_is_refused(tmp_path: Path, settings: Settings, content: str, says: str) -> None:
    tenant = tmp_path / "tenant.yaml"
    tenant.write_text(content)
    words = ["import", "auth0", str(tenant), "--organization", "acme", "--clients", str(tmp_path / "x")]
    with pytest.raises(StartFailed, match=says):
        people.run(command_line().parse_args(words), settings)
    with pytest.raises(StartFailed, match="reads one export of a0deploy"):
        people.run(command_line().parse_args([*words[:3], *words[2:]]), settings)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    def refuse(*_given: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "realm.json"))

    monkeypatch.setattr(people, "parts_of", refuse)
    with pytest.raises(StartFailed, match=r"realm.json cannot be read: Permission denied") as failed:
        people.run(command_line().parse_args(["import", "keycloak", REALM, "--organization", "acme", "--clients", "x"]), settings)
    assert failed.value.status == FAILURE
