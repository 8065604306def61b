"""Row 36: however a file is made, an import goes on behind each of its lines, and holds little of it at a time."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from adapters.imports.files import ImportFiles
from adapters.imports.sources import opened
from core.domain.errors import BadRequest
from entrypoints.bootstrap import Postern
from ports.jobs import ignored
from tests.adapters.imports.importing import imported, people_file
from tests.authenticator import Passkey, cbor
from tests.http import conftest as http
from tests.http.people import People

database_url, postern, people = http.database_url, http.postern, http.people


async def test_no_text_of_a_passkey_ends_an_import(postern: Postern, people: People, tmp_path: Path) -> None:
    passkey = {
        "credential_id": base64.b64encode(b"credential").decode(),
        "public_key": base64.b64encode(cbor(Passkey.made().cose())).decode(),
        "transports": ["usb", "\x00", "\ud800", "x" * 1000],
        "name": "\x00",
        "user_handle": "AAAA",
    }
    first = {"id": "1", "email": "first@example.org", "email_verified": True, "passkeys": [passkey]}
    file = people_file(tmp_path / "people.ndjson", [first, {"id": "2", "email": "second@example.org"}], relying_party="id.example.org")
    done = await imported(postern, "postern", file)
    assert done.outcomes == {"first@example.org": "taken", "second@example.org": "taken"}
    assert people.rows("select transports from passkeys") == [{"transports": ["usb"]}]


@pytest.mark.parametrize("kind", ["keycloak", "auth0", "csv", "postern"])
async def test_a_batch_of_large_records_is_a_small_one(kind: str, tmp_path: Path) -> None:
    """A record may have 8 MiB. Hundreds of them at a time would take the memory of the whole machine."""
    large, number = "x" * 900_000, 60
    path = tmp_path / "people"
    people: list[dict[str, Any]] = [{"id": str(one), "email": f"{one}@example.org"} for one in range(number)]
    match kind:
        case "keycloak":
            path.write_text(json.dumps({"realm": "r", "users": [{**one, "attributes": {"a": [large]}} for one in people]}))
        case "auth0":
            path.write_text("".join(json.dumps({**one, "user_id": one["id"], "user_metadata": {"a": large}}) + "\n" for one in people))
        case "csv":
            part = large[:130_000]
            names = [f"field.{letter}" for letter in "abcdef"]
            rows = [["id", "email", *names], *([one["id"], one["email"], *[part] * 6] for one in people)]
            path.write_text("".join(",".join(row) + "\n" for row in rows))
        case _:
            people_file(path, [{**one, "fields": {"a": large}} for one in people])
    sizes: list[int] = []
    async with opened(ImportFiles(kind=kind, files=[path]), ignored) as source:
        while batch := await source.next():
            sizes.append(len(batch))
    assert sum(sizes) == number
    assert max(sizes) <= 30


@pytest.mark.parametrize("name", ["x" * 300, "a\x1b[2Jb", "a\x00b", "\ud800"])
async def test_a_source_has_a_name_that_can_be_shown(name: str, tmp_path: Path) -> None:
    """It stands in the audit log once for each person, and on the operator's terminal."""
    realm, own = tmp_path / "realm.json", people_file(tmp_path / "own", [], source=name)
    realm.write_text(json.dumps({"realm": name, "users": []}))
    for kind, path in (("keycloak", realm), ("postern", own)):
        with pytest.raises(BadRequest):
            async with opened(ImportFiles(kind=kind, files=[path]), ignored):
                pass
