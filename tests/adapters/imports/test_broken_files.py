"""A file that is not whole imports nobody: each reader looks through all of its files before the first person is handed on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.imports.documents import BrokenFile
from adapters.imports.files import ImportFiles
from adapters.imports.sources import opened
from core.domain.errors import BadRequest
from ports.jobs import ignored
from tests.adapters.imports.importing import SAMPLES, people_file

CROWD = 200
STEP = 1000


def realm(folder: Path) -> Path:
    content = json.loads((SAMPLES / "acme-realm.json").read_text())
    content["users"] = [{**content["users"][0], "id": str(number), "username": f"ada{number}"} for number in range(CROWD)]
    path = folder / "acme-realm.json"
    path.write_text(json.dumps(content, indent=2))
    return path


def auth0_lines(folder: Path) -> Path:
    path = folder / "users.ndjson"
    path.write_text("".join(f"{json.dumps(auth0_user(number))}\n" for number in range(CROWD)))
    return path


def auth0_list(folder: Path) -> Path:
    path = folder / "users.json"
    path.write_text(json.dumps([auth0_user(number) for number in range(CROWD)]))
    return path


def auth0_user(number: int) -> Mapping[str, Any]:
    return {"user_id": f"auth0|{number}", "email": f"ada{number}@example.org", "email_verified": True, "name": "Ada Lovelace"}


def table(folder: Path) -> Path:
    path = folder / "people.csv"
    path.write_text("id,email,name\n" + "".join(f'{number},ada{number}@example.org,"Lovelace, Ada"\n' for number in range(CROWD)))
    return path


def own(folder: Path) -> Path:
    return people_file(folder / "people.ndjson", [{"id": str(one), "email": f"ada{one}@example.org"} for one in range(CROWD)])


def firebase_list(folder: Path) -> Path:
    path = folder / "users.json"
    users = [{"localId": str(number), "email": f"ada{number}@example.org", "disabled": False} for number in range(CROWD)]
    path.write_text('{"users": [\n' + ",\n".join(json.dumps(one, indent=2) for one in users) + "]}")
    return path


def firebase_table(folder: Path) -> Path:
    path = folder / "users.csv"
    path.write_text(
        "".join(f'{number},ada{number}@example.org,true,,,"Lovelace, Ada"{"," * 19}170,173,,false,,\n' for number in range(CROWD))
    )
    return path


def cognito_user(number: int) -> Mapping[str, Any]:
    return {"Username": f"ada{number}", "Attributes": [{"Name": "email", "Value": f"ada{number}@example.org"}], "Enabled": True}


def cognito_pages(folder: Path) -> Path:
    """Pages one behind the other, as a loop over `list-users` writes them."""
    path = folder / "users.json"
    pages = [
        {
            "Users": [cognito_user(number) for number in range(first, first + 50)],
            **({} if first == CROWD - 50 else {"PaginationToken": "x"}),
        }
        for first in range(0, CROWD, 50)
    ]
    path.write_text("".join(f"{json.dumps(one, indent=4)}\n" for one in pages))
    return path


def cognito_list(folder: Path) -> Path:
    path = folder / "users.json"
    path.write_text(json.dumps([{"Users": [cognito_user(number) for number in range(CROWD)]}]))
    return path


def cognito_table(folder: Path) -> Path:
    path = folder / "users.csv"
    path.write_text("email,name,cognito:username\n" + "".join(f'ada{one}@example.org,"Lovelace, Ada",ada{one}\n' for one in range(CROWD)))
    return path


def zitadel_export(folder: Path) -> Path:
    path = folder / "export.json"
    people = [{"userId": str(one), "user": {"userName": f"ada{one}", "email": {"email": f"ada{one}@example.org"}}} for one in range(CROWD)]
    path.write_text(json.dumps({"orgs": [{"orgId": "1", "humanUsers": people[:100]}, {"orgId": "2", "humanUsers": people[100:]}]}))
    return path


def authentik_blueprint(folder: Path) -> Path:
    path = folder / "authentik.yaml"
    entries = [
        {"model": "authentik_core.user", "identifiers": {"pk": one}, "attrs": {"email": f"ada{one}@example.org", "name": "Ada: «Gräfin»"}}
        for one in range(CROWD)
    ]
    path.write_text(yaml.safe_dump({"entries": entries, "metadata": {"name": "x"}, "version": 1}, allow_unicode=True))
    return path


FORMS: Mapping[str, tuple[str, Callable[[Path], Path]]] = {
    "a realm": ("keycloak", realm),
    "lines of Auth0": ("auth0", auth0_lines),
    "a list for Auth0": ("auth0", auth0_list),
    "a table": ("csv", table),
    "our own form": ("postern", own),
    "Firebase": ("firebase", firebase_list),
    "a table of Firebase": ("firebase", firebase_table),
    "pages of Cognito": ("cognito", cognito_pages),
    "a list of Cognito": ("cognito", cognito_list),
    "a table of Cognito": ("cognito", cognito_table),
    "Zitadel": ("zitadel", zitadel_export),
    "authentik": ("authentik", authentik_blueprint),
}


async def read(kind: str, *files: Path, **more: Any) -> int:
    """The number of people."""
    number = 0
    if kind == "zitadel":
        more = {"states": SAMPLES / "zitadel-users.json", **more}
    async with opened(ImportFiles(kind=kind, files=files, **more), ignored) as source:
        while batch := await source.next():
            number += len(batch)
    return number


@pytest.mark.parametrize("form", FORMS)
async def test_a_file_that_is_cut_anywhere_is_refused_with_its_place(form: str, tmp_path: Path) -> None:
    kind, write = FORMS[form]
    file = write(tmp_path)
    whole = file.read_bytes()
    assert await read(kind, file) == CROWD
    cuts = [at for at in range(STEP, len(whole) - 1, STEP) if not whole[:at].endswith(b"\n")]
    assert len(cuts) > 5
    for at in cuts:
        file.write_bytes(whole[:at])
        with pytest.raises(BrokenFile) as refused:
            await read(kind, file)
        fault = refused.value
        assert fault.file == file.name
        assert fault.message.startswith(f"{file.name}, line {fault.line}, byte {fault.byte}: ")
        assert fault.message.endswith("No people were imported"), fault.message
        assert at - 200 < fault.byte <= at
        assert fault.line == whole[: fault.byte].count(b"\n") + 1 or file.suffix == ".csv"


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("keycloak", '{"realm": "r",\n"users": [{"id": "1",,}]}', "line 2, byte 36: it is no JSON"),
        ("keycloak", '{"realm": "r", "users": []} {"realm": "s"}', "line 1, byte 28: something stands behind the end"),
        ("keycloak", '{"realm": "r", "users" []}', "line 1, byte 23: it is no JSON: a colon is missing"),
        ("keycloak", '{"realm": "r", "users": [NaN]}', "NaN is no number"),
        ("keycloak", '{"realm": "r", "users": [1 2]}', "a comma is missing"),
        ("keycloak", '{"realm": "r", 1: []}', "a name is missing"),
        ("keycloak", "", "line 1, byte 0: it is empty"),
        ("auth0", "", "line 1, byte 0: it is empty"),
        ("auth0", '{"user_id": "1"}\n{"user_id"\n{"user_id": "2"}\n', "line 2, byte 28: it is no JSON"),
        ("auth0", '[{"user_id": "1"}, {"user', "line 1, byte 25: it ends in the middle"),
        ("csv", 'id,email\n1,"a@example.org\n', "line 2, byte 26: it ends in the middle of a cell"),
        ("csv", "id,email\n1,a@example.org", "the last line has no end. If the file is whole, add a line break"),
    ],
)
async def test_the_place_of_a_fault_is_told(kind: str, text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(BrokenFile) as refused:
        await read(kind, file)
    assert says in refused.value.message, refused.value.message


async def test_the_second_of_two_files_is_looked_at_before_the_first_person(tmp_path: Path) -> None:
    good, cut = auth0_lines(tmp_path), tmp_path / "cut.ndjson"
    cut.write_bytes(good.read_bytes()[:-30])
    with pytest.raises(BrokenFile, match=r"cut.ndjson, line 200"):
        await read("auth0", good, cut)


async def test_the_file_of_hashes_is_whole_too(tmp_path: Path) -> None:
    hashes = tmp_path / "hashes.ndjson"
    hashes.write_bytes((SAMPLES / "auth0-hashes.ndjson").read_bytes()[:-20])
    with pytest.raises(BrokenFile, match=r"hashes.ndjson, line \d+, byte \d+: it ends in the middle"):
        await read("auth0", SAMPLES / "auth0-users.ndjson", hashes=hashes)


async def test_a_file_that_is_missing_between_those_of_a_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "acme-realm.json").write_text('{"realm": "acme"}')
    for number in (0, 1, 3):
        (folder / f"acme-users-{number}.json").write_text(json.dumps({"realm": "acme", "users": [{"id": str(number)}]}))
    with pytest.raises(BadRequest, match=r"acme-users-2.json is missing"):
        await read("keycloak", folder)
    (folder / "acme-users-3.json").unlink()
    assert await read("keycloak", folder) == 2
    (folder / "acme-users-0.json").unlink()
    with pytest.raises(BadRequest, match=r"acme-users-0.json is missing"):
        await read("keycloak", folder)


async def test_a_record_that_is_too_large_is_left_out_alone(tmp_path: Path) -> None:
    file = tmp_path / "realm.json"
    with file.open("w") as out:
        out.write('{"realm": "r", "users": [{"id": "1"}, {"id": "')
        for _ in range(10):
            out.write("x" * (1 << 20))
        out.write('"}, {"id": "2"}]}')
    assert await read("keycloak", file) == 3
