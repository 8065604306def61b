"""Files of Firebase, Cognito, Zitadel and authentik as their tools write them, and files that are none."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.imports.documents import BrokenFile
from adapters.imports.files import ImportFiles
from adapters.imports.sources import opened
from core.domain.errors import BadRequest
from core.domain.platform.imports.records import Found, ImportedPerson, UnreadableRecord
from ports.jobs import ignored
from tests.adapters.imports.importing import SAMPLES

STATES = SAMPLES / "zitadel-users.json"
USER = {"Username": "ada", "Attributes": [{"Name": "email", "Value": "ada@example.org"}], "Enabled": True}


async def found(kind: str, *files: Path, **more: Any) -> Sequence[Found]:
    people: list[Found] = []
    async with opened(ImportFiles(kind=kind, files=files, **more), ignored) as source:
        while batch := await source.next():
            people += batch
        assert source.count == len(people)
    return people


async def taken(kind: str, *files: Path, **more: Any) -> Sequence[ImportedPerson]:
    return [one for one in await found(kind, *files, **more) if isinstance(one, ImportedPerson)]


async def test_users_of_firebase_come_in_both_forms() -> None:
    ada, grace, nobody = await taken("firebase", SAMPLES / "firebase-users.json")
    assert (ada.id, ada.profile.name, ada.roles, ada.is_disabled) == ("AbCdEf0123456789abcdefGHIJ01", "Ada Lovelace", ("auditor",), False)
    assert (grace.email_verified, grace.is_disabled, nobody.email) == (False, True, "")
    by_table = await taken("firebase", SAMPLES / "firebase-users.csv")
    assert [one.id for one in by_table] == [ada.id, grace.id, nobody.id]
    assert [(one.issuer, one.subject) for one in by_table[0].identities] == [
        ("https://accounts.google.com", "108204268033311374519"),
        ("https://github.com/login/oauth", "583231"),
    ]
    # The third is of a version that wrote fewer columns.
    assert [(one.email_verified, one.is_disabled, one.profile.name) for one in by_table] == [
        (True, False, "Lovelace, Ada"),
        (False, True, None),
        (True, False, "Joan"),
    ]


async def test_users_of_cognito_come_in_all_forms(tmp_path: Path) -> None:
    ada, grace, joan = await taken("cognito", SAMPLES / "cognito-users.json")
    assert (ada.id, ada.email_verified, ada.fields, grace.username) == ("ada", True, {"department": "Analysis"}, "")
    assert (joan.email_verified, joan.is_disabled, joan.place) == (False, True, "cognito-users.json, user 3")
    by_table = await taken("cognito", SAMPLES / "cognito-users.csv")
    assert [(one.id, one.username, one.profile.zoneinfo) for one in by_table] == [
        ("ada", "countess", "Europe/Vienna"),
        ("grace", "grace", None),
    ]
    for content in ([USER], [{"Users": [USER], "NextToken": "x"}, {"Users": []}], {"Users": [USER], "NextToken": None}):
        file = tmp_path / "users.json"
        file.write_text(json.dumps(content))
        assert [one.id for one in await taken("cognito", file)] == ["ada"], content


@pytest.mark.parametrize(
    "content", ['{"Users": [%s], "PaginationToken": "x"}', '[{"Users": [%s], "NextToken": "x"}]', '{"Users": [%s], "NextToken": "x"}\n' * 2]
)
async def test_a_list_whose_last_page_is_missing_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text(content.replace("%s", json.dumps(USER)))
    with pytest.raises(BadRequest, match=r"users.json: each of its pages says that another one follows: the last one is missing"):
        await found("cognito", file)
    if content.startswith("{"):
        file.write_text(f'{file.read_text()}{{"Users": []}}')
        assert await taken("cognito", file)


async def test_people_of_zitadel_come_with_what_stands_beside_them() -> None:
    ada, grace, joan = await taken("zitadel", SAMPLES / "zitadel-export.json", states=STATES)
    assert ada.password is not None
    assert ada.totp is not None
    assert ada.totp.reveal() == "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
    assert [(one.issuer, one.subject, one.client_id) for one in ada.identities] == [("https://login.corp.example", "u-1", "zitadel")]
    assert (ada.roles, ada.service_roles, ada.fields) == (("ORG_OWNER",), (("billing", "editor"),), {"department": "Analysis"})
    assert (ada.email_verified, ada.is_disabled) == (True, False)
    assert (grace.email_verified, grace.is_disabled, grace.profile.language) == (False, True, None)
    assert joan.is_disabled


async def test_people_of_one_organization_of_zitadel() -> None:
    for name in ("Globex", "104133391254874633"):
        ada, grace, joan = await found("zitadel", SAMPLES / "zitadel-export.json", states=STATES, only_organization=name)
        assert isinstance(joan, ImportedPerson)
        assert [isinstance(one, UnreadableRecord) and one.reason for one in (ada, grace)] == [
            f"is of another organization than {name} there"
        ] * 2
    with pytest.raises(BadRequest, match="has no organization Initech"):
        await found("zitadel", SAMPLES / "zitadel-export.json", states=STATES, only_organization="Initech")


async def test_a_file_for_zitadels_import_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "import.json"
    export = json.loads((SAMPLES / "zitadel-export.json").read_text())
    export["orgs"][0]["humanUsers"].append(5)
    export["orgs"][0]["userMetadata"] += [{"id": "104133391271651848", "key": str(one), "value": "eA=="} for one in range(200)]
    file.write_text(json.dumps({"timeout": "10m", "data_orgs": export}))
    ada, *_ = await taken("zitadel", file, states=STATES)
    # Of anything that somebody has more than a hundred of, the others stay behind.
    assert (len(ada.fields), len(ada.identities)) == (100, 1)


async def test_people_of_authentik_come_without_passwords(tmp_path: Path) -> None:
    ada, grace, outpost = await found("authentik", SAMPLES / "authentik.yaml")
    assert isinstance(ada, ImportedPerson)
    assert isinstance(grace, ImportedPerson)
    assert isinstance(outpost, UnreadableRecord)
    assert (ada.id, ada.teams, ada.fields) == ("5", ("engineering",), {"department": "Analysis", "since": "2024-11-25"})
    assert (ada.is_disabled, grace.is_disabled, ada.email_verified) == (False, True, False)
    assert "second factor: the export of authentik does not have its secret; it stays behind" in ada.notes
    tagged = tmp_path / "tagged.yaml"
    user = "- model: authentik_core.user\n"
    tagged.write_text(f"entries:\n{user}  attrs: {{name: !Find [x]}}\n{user}  identifiers: {{pk: 1}}\nversion: 1\n")
    async with opened(ImportFiles(kind="authentik", files=[tagged]), ignored) as source:
        first, second = await source.next()
    assert isinstance(first, UnreadableRecord)
    assert (first.place, first.reason) == ("tagged.yaml, line 2", "it has tags or values that only authentik reads")
    assert isinstance(second, ImportedPerson)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("firebase", '{"realm": "acme", "users": [{"id": "1"}]}', r"no users of Firebase.*\(the file is a realm export of Keycloak\)"),
        ("firebase", '{"users": []}', "it has no users of Firebase"),
        ("firebase", "email,name\na@example.org,Ada\n", r"no users of Firebase.*\(the file is a table\)"),
        ("firebase", "", "it is empty"),
        ("cognito", '{"users": [{"localId": "1"}]}', r"no users of Cognito.*\(the file is an export of Firebase's users\)"),
        ("cognito", "email,name\na@example.org,Ada\n", r"does not name the column cognito:username.*\(the file is a table\)"),
        ("cognito", "email,email\na@example.org,Ada\n", "Two columns have the same name"),
        ("cognito", "", "it is empty"),
        (
            "zitadel",
            '{"Users": [{"Username": "x", "Attributes": []}]}',
            r"no people of Zitadel.*\(the file is a list of Amazon Cognito's users\)",
        ),
        ("authentik", '{"orgs": [{"orgId": "1"}]}\n', r"it does not end with its version.*\(the file is an export of Zitadel\)"),
        ("authentik", "- 5\n", "it is no blueprint with people"),
        ("authentik", "", "it is no blueprint with people"),
    ],
)
async def test_a_file_of_another_system_is_named(kind: str, text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(BadRequest, match=says):
        await found(kind, file, states=STATES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\nentries:\n- model: authentik_core.user\n", "line 4, byte 49: it does not end with its version"),
        ("entries:\n- model: authentik_core.user\nversion: 1", "it does not end with its version"),
        ("entries:\n- model: authentik_core.user\n  a: [\nversion: 1\n", "line 5, byte 56: it ends in the middle"),
        ("entries:\n- model: ]\nversion: 1\n", "line 2, byte 18: it is no YAML"),
        ("entries:\n- model: 'authentik", "line 2, byte 28: it ends in the middle"),
        ("a: \0", "it is no YAML"),
    ],
)
async def test_a_blueprint_that_is_not_whole_is_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(BrokenFile, match=says):
        await found("authentik", file)


async def test_zitadel_needs_to_say_who_is_active() -> None:
    with pytest.raises(BadRequest, match="zitadel needs --states FILE"):
        await found("zitadel", SAMPLES / "zitadel-export.json")
    with pytest.raises(BadRequest, match=r"no list of Zitadel's users.*\(the file is an export of Zitadel\)"):
        await found("zitadel", SAMPLES / "zitadel-export.json", states=SAMPLES / "zitadel-export.json")


async def test_a_page_in_a_list_is_not_lost_because_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.imports.documents.LARGEST", 8 << 20)
    file = tmp_path / "users.json"
    large = {"Users": [USER], "x": "x" * (20 << 20)}
    file.write_text(json.dumps([{"Users": [USER]}, large]))
    with pytest.raises(BadRequest, match=r"users.json, page 2: it has more than .* characters. Name it as a file of its own"):
        await found("cognito", file)
    file.write_text(json.dumps([USER, {**USER, "x": "x" * (20 << 20)}]))
    first, second = await found("cognito", file)
    assert isinstance(first, ImportedPerson)
    assert isinstance(second, UnreadableRecord)


async def test_objects_in_objects_are_walked_through_only_so_far(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"orgs":' * 5000 + "1" + "}" * 5000)
    with pytest.raises(BadRequest, match="no people of Zitadel"):
        await found("zitadel", file, states=STATES)
