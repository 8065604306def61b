"""The commands that found an organization, make a service and invite people, and the JSON that commands print."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from core.domain.errors import Conflict, NotFound
from core.domain.mail import Email
from core.domain.secrets import Password, Secret
from core.domain.tenancy.organizations import OrganizationStatus
from core.frozen import Frozen
from entrypoints.bootstrap import open_postern
from entrypoints.cli import organization, service
from entrypoints.cli.output.printing import plain
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.verbs import running
from entrypoints.settings import Settings, read

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class Console:
    """Runs commands on a database, and reads what they have left there."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.settings: Settings = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"})
        self._capsys = capsys

    async def run(self, *arguments: str) -> str:
        given = command_line(arguments).parse_args(arguments)
        module = {"organization": organization, "service": service, "verbs.running": running}[given.module]
        await module._run(given, self.settings)
        return self._capsys.readouterr().out

    def rows(self, statement: str) -> Sequence[Mapping[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture
async def console(database_url: str, capsys: pytest.CaptureFixture[str]) -> Console:
    made = Console(database_url, capsys)
    async with open_postern(made.settings) as postern:
        await postern.platform.platform_owners.create(Email("ada@example.org"), Password("correct horse battery"))
    return made


async def test_an_operator_founds_an_organization_for_somebody_who_confirms_it(console: Console) -> None:
    said = await console.run("organization", "create", "--organization", "acme", "--name", "Acme Ltd", "--owner", "ada@example.org")
    assert said == "acme is active, and ada@example.org owns it.\n"
    (row,) = console.rows("select status, role, came_by, own_since from organizations join memberships on org_id = organizations.id")
    assert row == {"status": "active", "role": "owner", "came_by": "added", "own_since": None}
    (entry,) = console.rows("select actor_id, details from audit_log where action = 'organization.created'")
    assert entry["actor_id"] is None
    assert entry["details"]["operator"]
    with pytest.raises(BaseException) as twice:  # noqa: PT011 - Trio wraps it
        await console.run("organization", "create", "--organization", "acme", "--name", "Acme", "--owner", "ada@example.org")
    assert twice.group_contains(Conflict) if isinstance(twice.value, BaseExceptionGroup) else isinstance(twice.value, Conflict)
    with pytest.raises(BaseException) as nobody:  # noqa: PT011
        await console.run("organization", "create", "--organization", "globex", "--name", "Globex", "--owner", "eve@example.org")
    assert nobody.group_contains(NotFound) if isinstance(nobody.value, BaseExceptionGroup) else isinstance(nobody.value, NotFound)


async def test_an_operator_makes_changes_and_equips_a_service(console: Console) -> None:
    await console.run("organization", "create", "--organization", "acme", "--name", "Acme Ltd", "--owner", "ada@example.org")
    of = ("--organization", "acme", "--service", "shop")
    uri = "https://shop.example.org/callback"
    made = json.loads(await console.run("service", "create", *of, "--name", "Shop", "--redirect-uri", uri, "--json"))["service"]
    assert (made["slug"], made["service_type"], made["redirect_uris"]) == ("shop", "web", [uri])
    await console.run("service", "set", *of, "--sign-in-policy", "members", "--trusted", "yes")
    (row,) = console.rows("select name, sign_in_policy, trusted, redirect_uris from services")
    assert row == {"name": "Shop", "sign_in_policy": "members", "trusted": True, "redirect_uris": [uri]}
    secret = (await console.run("service", "secret", *of)).strip()
    assert secret.startswith("cs_")
    shown = json.loads(await console.run("service", "secret", *of, "--json"))
    assert shown["client_secret"].startswith(shown["prefix"])
    assert secret not in await console.run("service", "show", *of, "--json")
    named = console.rows("select distinct action from audit_log where details ? 'operator'")
    assert {one["action"] for one in named} >= {"service.created", "service.updated", "client_secret.created"}


async def test_an_operator_invites_by_mail(console: Console) -> None:
    await console.run("organization", "create", "--organization", "acme", "--name", "Acme Ltd", "--owner", "ada@example.org")
    shown = json.loads(await console.run("invite", "--organization", "acme", "--email", "bob@example.org", "--role", "admin", "--json"))
    assert (shown["email"], shown["role"], "token" in str(shown)) == ("bob@example.org", "admin", False)
    assert len(console.rows("select from invitations")) == len(console.rows("select from jobs where kind = 'mail'")) == 1


async def test_lists_and_records_are_json(console: Console) -> None:
    await console.run("organization", "create", "--organization", "acme", "--name", "Acme Ltd", "--owner", "ada@example.org")
    listed = json.loads(await console.run("organization", "list", "--json"))
    assert (listed["total"], listed["items"][0]["organization"]["slug"]) == (1, "acme")
    suspended = json.loads(await console.run("organization", "suspend", "--organization", "acme", "--reason", "Late", "--json"))
    assert suspended["status"] == "suspended"


class _Record(Frozen):
    name: str
    at: datetime
    status: OrganizationStatus
    email: Email


def test_a_record_becomes_json_and_a_secret_never() -> None:
    record = _Record("Ada", datetime(2026, 1, 31, tzinfo=UTC), OrganizationStatus.ACTIVE, Email("ada@example.org"))
    assert plain([record]) == [{"name": "Ada", "at": "2026-01-31T00:00:00Z", "status": "active", "email": "ada@example.org"}]
    with pytest.raises(TypeError, match="secret"):
        plain({"key": Secret("hunter2")})
