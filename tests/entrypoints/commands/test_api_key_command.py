"""`postern api-key`: its arguments, its effects, and its output."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import NotFound
from entrypoints.cli import api_key
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.settings import read

Postern = Callable[..., Awaitable[str]]
Ask = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize("words", [["revoke"], ["revoke", "sk_abc123"], ["revoke", "--prefix"], ["list"], []])
def test_a_command_line_that_makes_no_sense_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["api-key", *words])
    assert ended.value.code == 2
    assert "usage: postern" in capsys.readouterr().err


@pytest.fixture
def ask(emptied_database_url: str) -> Ask:
    def run(statement: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(emptied_database_url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def postern(emptied_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Postern:
    """Runs `postern api-key` with these arguments, as Ada under sudo. Returns the output."""
    monkeypatch.setenv("SUDO_USER", "ada")
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )

    async def run(*words: str) -> str:
        await api_key._run(command_line().parse_args(["api-key", *words]), settings)
        return capsys.readouterr().out

    return run


@pytest.fixture
def street(ask: Ask) -> None:
    """Acme with a shop that has two keys, globex with one that has another."""
    for slug, prefixes in (("acme", ("sk_aaaaaa", "sk_bbbbbb")), ("globex", ("sk_cccccc",))):
        identifier = uuid4()
        ask(
            "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, 'X', 'active', now(), now())",
            identifier,
            slug,
        )
        ask(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (%s, %s, 'shop', 'Shop', 'web', %s, now(), now())",
            identifier,
            identifier,
            uuid4(),
        )
        for prefix in prefixes:
            ask(
                "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
                " values (%s, %s, %s, %s, %s, '{read:users}', %s, now())",
                uuid4(),
                identifier,
                "Back\u202e\x1b[2Jend",
                prefix,
                prefix.encode(),
                uuid4(),
            )


@pytest.mark.usefixtures("street")
async def test_a_key_is_revoked_by_how_it_begins_whosever_it_is(postern: Postern, ask: Ask) -> None:
    printed = await postern("revoke", "--prefix", "sk_bbbbbb")
    assert printed == "sk_bbbbbb (Back??[2Jend), a key of shop of acme, is deleted and refused from now on.\n"
    assert [row["prefix"] for row in ask("select prefix from api_keys order by 1")] == ["sk_aaaaaa", "sk_cccccc"]
    # The organization's log has the entry, with the operator's name.
    (entry,) = ask("select organization_id, actor_id, action, target_type, details from audit_log")
    (acme,) = ask("select id from organizations where slug = 'acme'")
    assert (entry["organization_id"], entry["actor_id"], entry["action"], entry["target_type"]) == (
        acme["id"],
        None,
        "api_key.deleted",
        "api_key",
    )
    assert (entry["details"]["operator"], entry["details"]["prefix"], entry["details"]["service_slug"]) == ("ada", "sk_bbbbbb", "shop")
    with pytest.raises(NotFound, match="There is no API key with this prefix"):
        await postern("revoke", "--prefix", "sk_bbbbbb")


@pytest.mark.usefixtures("street")
async def test_of_an_organization_that_is_suspended_it_is_revoked_as_well(postern: Postern, ask: Ask) -> None:
    ask("update organizations set status = 'suspended'")
    assert await postern("revoke", "--prefix", "sk_cccccc")
    assert [row["prefix"] for row in ask("select prefix from api_keys order by 1")] == ["sk_aaaaaa", "sk_bbbbbb"]


@pytest.mark.usefixtures("street")
async def test_what_is_no_prefix_revokes_nothing(postern: Postern, ask: Ask) -> None:
    for prefix in (
        "",
        "sk_",
        "sk_aaaaa",
        "sk_aaaaaa_",
        "sk_aaaaaa%",
        "SK_AAAAAA",
        "%",
        "sk_______",
        "\0",
        "\ud800",
        "sk_aaaaaa\0",
        "' or true --",
    ):
        with pytest.raises(NotFound):
            await postern("revoke", f"--prefix={prefix}")
    # One of a service that is being deleted is gone already.
    ask("update all_services set deleted_at = now() where org_id = (select id from organizations where slug = 'globex')")
    with pytest.raises(NotFound):
        await postern("revoke", "--prefix", "sk_cccccc")
    assert len(ask("select id from api_keys")) == 3
    assert ask("select id from audit_log") == []
