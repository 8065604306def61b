"""Commands that do something say in JSON what they have done."""

import json
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from tests.e2e.postern import command

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class ActingConsole:
    def __init__(self, url: str, folder: Path) -> None:
        self._settings = {"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"}
        self._folder = folder

    def __call__(self, *words: str, given: str = "") -> Any:
        done = command(self._folder, *words, "--json", given=given, **self._settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


RULES: Final = [
    {"id": str(UUID(int=1)), "name": "Not from here", "when": {"countries": ["DE"]}, "action": "refuse", "counts": True},
    {"id": str(UUID(int=2)), "name": "New devices", "when": {"new_device": True}, "action": "passkey", "counts": True},
]


@pytest.fixture
def postern(database_url: str, tmp_path: Path) -> ActingConsole:
    return ActingConsole(database_url, tmp_path)


def test_each_act_upon_an_account_is_told(postern: ActingConsole, database_url: str) -> None:
    ada = ("--email", "ada@example.org")
    assert postern("owner", "create", *ada, given="correct horse battery\n") == {"email": "ada@example.org", "created": True}
    assert postern("owner", "create", *ada) == {"email": "ada@example.org", "created": False}
    assert "/ui/" in postern("owner", "link", *ada)["link"]
    bob = ("--email", "bob@example.org")
    postern("owner", "create", *bob, given="correct horse battery\n")
    assert postern("user", "revoke-sessions", *bob) == {"email": "bob@example.org", "sessions": 0}
    assert postern("user", "disable-mfa", *bob) == {"email": "bob@example.org", "changed": False}
    assert postern("user", "reset-password", *bob)["link"] is None
    reset = postern("user", "reset-password", *bob, "--print")
    assert reset["email"] == "bob@example.org"
    assert reset["link"].startswith("http")
    locked = {"email": "bob@example.org", "sessions": 0, "devices": 0, "consents": 0, "keys": [], "recent": []}
    assert postern("user", "lock", *bob) == {**locked, "changed": True}
    assert postern("user", "lock", *bob) == {**locked, "changed": False}
    assert postern("user", "activate", *bob) == {"email": "bob@example.org", "changed": True}
    assert postern("user", "deactivate", *bob) == {"email": "bob@example.org", "changed": True, "sessions": 0}
    assert postern("user", "activate", *bob) == {"email": "bob@example.org", "changed": True}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("insert into installation_risk_policies (policies, counts_since) values (%s, now())", [json.dumps(RULES)])
    assert postern("risk-rules", "shadow") == {"in_shadow": ["Not from here"]}
    assert postern("risk-rules", "shadow", "--factors") == {"in_shadow": ["New devices"]}
    assert postern("risk-rules", "shadow", "--factors") == {"in_shadow": []}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update users set is_platform_owner = false where email = 'bob@example.org'")
    forgotten = postern("privacy", "forget", *bob)
    assert forgotten["receipt"].startswith("/api/privacy/requests/")


def test_acts_upon_keys_jobs_and_organizations_are_told(postern: ActingConsole) -> None:
    postern("owner", "create", "--email", "ada@example.org", given="correct horse battery\n")
    postern("organization", "create", "--organization", "acme", "--name", "Acme", "--owner", "ada@example.org")
    deleted = postern("organization", "delete", "--organization", "acme", "--yes")
    assert (deleted["slug"], deleted["deleted"]) == ("acme", True)
    assert [one["kind"] for one in postern("jobs", "hold")["items"]] == ["mail", "deliveries", "billing", "siem", "provisioning", "hooks"]
    assert [one["kind"] for one in postern("jobs", "release", "--kind", "mail")["items"]] == ["mail"]
    assert postern("keys", "reencrypt") == {"key": "2026-01-31.abc", "replaced": 0, "unreadable": {}}
    assert postern("billing", "retry") == {"due": 0, "waiting": 0}
    rotated = postern("keys", "rotate", "--encryption")
    assert (rotated["signing"], rotated["encryption"]["in_force"]) == ([], False)
    assert ":" in rotated["encryption"]["line"]
