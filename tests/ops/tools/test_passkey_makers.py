"""The names of those who make passkey providers, and the command that renews them."""

import json
import tomllib
from datetime import date
from pathlib import Path
from uuid import UUID

import pytest

from entrypoints.http.passkeys import maker_named
from ops.written import passkey_makers
from ops.written.passkey_makers import FILE, LONGEST_NAME, UnfitList, renewed

ONE, TWO, KEY = (str(UUID(int=number)) for number in (1, 2, 3))
KEPT = f"""
[source]
makers = "somewhere"
date = "2026-01-01"

[makers]
"{ONE}" = "Gone"

[security_keys]
"{KEY}" = "A key"
"""


def test_the_shipped_file_says_where_its_names_come_from() -> None:
    file = tomllib.loads(FILE.read_text("utf-8"))
    assert file["source"].keys() == {"makers", "security_keys", "license", "date"}
    assert date.fromisoformat(file["source"]["date"]) > date(2026, 1, 1)
    # The command would write it as it is.
    listed = json.dumps({aaguid: {"name": name} for aaguid, name in file["makers"].items()})
    assert renewed(FILE.read_text("utf-8"), listed, date.fromisoformat(file["source"]["date"])) == FILE.read_text("utf-8")
    assert maker_named(UUID("bada5566-a7aa-401f-bd96-45619a55120d")) == "1Password"
    assert maker_named(UUID("ee882879-721c-4913-9775-3dfcce97072a")) == "YubiKey"
    assert maker_named(UUID(int=0)) == ""


def test_the_makers_are_the_lists_and_the_rest_stays() -> None:
    given = json.dumps({TWO: {"name": "Müller “Vault” \\\\", "icon_light": "data:…"}, ONE: {"name": "a"}})
    file = tomllib.loads(renewed(KEPT, given, date(2026, 11, 30)))
    assert file == {
        "source": {"makers": "somewhere", "date": "2026-11-30"},
        "makers": {ONE: "a", TWO: "Müller “Vault” \\\\"},
        "security_keys": {KEY: "A key"},
    }


@pytest.mark.parametrize(
    "given",
    [
        *("{}", "[]", "", "null", json.dumps({ONE: "a"}), json.dumps({ONE: {}}), json.dumps({ONE: {"name": ""}})),
        *(json.dumps({ONE: {"name": "a" * (LONGEST_NAME + 1)}}), json.dumps({ONE: {"name": "a\nb"}}), json.dumps({ONE: {"name": 1}})),
        *(json.dumps({"x": {"name": "a"}}), json.dumps({ONE.upper() + "A": {"name": "a"}}), json.dumps({str(UUID(int=0)): {"name": "a"}})),
    ],
)
def test_a_list_that_is_none_or_retired_changes_nothing(given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UnfitList):
        renewed(KEPT, given, date(2026, 11, 30))
    file, listed = tmp_path / "makers.toml", tmp_path / "aaguid.json"
    file.write_text(KEPT)
    listed.write_text(given)
    monkeypatch.setattr(passkey_makers, "FILE", file)
    monkeypatch.setattr("sys.argv", ["passkey_makers", str(listed), "2026-11-30"])
    with pytest.raises(SystemExit, match="The list"):
        passkey_makers.main()
    assert file.read_text() == KEPT
    listed.write_text(json.dumps({TWO: {"name": "New"}}))
    passkey_makers.main()
    assert tomllib.loads(file.read_text())["makers"] == {TWO: "New"}
