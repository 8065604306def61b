"""`postern organization`: its arguments, its output, its effects, and its audit entries."""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import OrganizationId, UserId
from core.domain.platform.governance import GovernedOrganization, GovernedOwner
from core.domain.requests import UNCHANGED
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import FREE, Tier
from core.frozen import replace
from entrypoints.cli import organization
from entrypoints.cli.organization import NothingToChange, lines, override, table
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.parsing.tenants import ORGANIZATION_COMMANDS
from entrypoints.failures import StartFailed
from entrypoints.settings import read

NOON: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
PENDING: Final = GovernedOrganization(
    Organization(
        id=OrganizationId(UUID(int=1)),
        slug="acme",
        name="Acme\u202e Ltd\x1b[2J",
        status=OrganizationStatus.PENDING,
        tier=FREE,
        owner=None,
        created_at=NOON,
        updated_at=NOON,
    ),
    None,
    Tier(FREE, "free", "Free", 3, 100, 0),
    1,
)
Postern = Callable[..., Awaitable[str]]


def test_a_new_organization_as_it_is_shown() -> None:
    assert [f"{name}: {text}" for name, text in lines(PENDING)] == [
        "id: 00000000-0000-0000-0000-000000000001",
        "slug: acme",
        "name: Acme? Ltd?[2J",
        "status: pending: waiting for approval",
        "tier: free (Free)",
        "members: 1 of 100 (tier)",
        "services: at most 3 (tier)",
        "owner: unknown",
        "created: 2026-05-04 12:00 UTC",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": OrganizationStatus.ACTIVE, "approved_at": NOON}, "active, approved 2026-05-04 12:00 UTC"),
        # Of before there were approvals.
        ({"status": OrganizationStatus.ACTIVE}, "active, approved"),
        ({"status": OrganizationStatus.SUSPENDED, "suspended_at": NOON}, "suspended 2026-05-04 12:00 UTC"),
        (
            {"status": OrganizationStatus.SUSPENDED, "suspended_at": NOON, "suspension_reason": "Un\x1bpaid"},
            "suspended 2026-05-04 12:00 UTC: Un?paid",
        ),
        (
            {"status": OrganizationStatus.REJECTED, "rejected_at": NOON, "rejection_reason": "Spam"},
            "rejected 2026-05-04 12:00 UTC: Spam",
        ),
    ],
)
def test_the_state_is_shown_with_its_time_and_reason(change: dict[str, Any], says: str) -> None:
    shown = dict(lines(replace(PENDING, organization=replace(PENDING.organization, **change))))
    assert shown["status"] == says


def test_limits_of_its_own_and_an_owner_are_shown() -> None:
    owner = GovernedOwner(UserId(UUID(int=3)), "ada@acme.example", False, NOON)
    shown = dict(lines(replace(PENDING, organization=replace(PENDING.organization, max_users=7, max_services=0), owner=owner)))
    assert shown["members"] == "1 of 7 (its own limit)"
    assert shown["services"] == "at most 0 (its own limit)"
    assert shown["owner"] == "ada@acme.example"


def test_the_list_is_a_table() -> None:
    owner = GovernedOwner(UserId(UUID(int=3)), "a\x1b@acme.example", False, NOON)
    longer = replace(PENDING, organization=replace(PENDING.organization, slug="long-one"), owner=owner, members=1234)
    assert table([PENDING, longer]) == [
        "slug      status   tier  members  created     owner",
        "acme      pending  free  1        2026-05-04  unknown",
        "long-one  pending  free  1234     2026-05-04  a?@acme.example",
    ]
    assert table([]) == []


def test_a_limit_is_a_number_or_none() -> None:
    assert [override(text) for text in (None, "none", "0", "12")] == [UNCHANGED, None, 0, 12]


@pytest.mark.parametrize(
    "words",
    [
        ["reject", "--organization", "acme"],
        ["approve"],
        ["list", "--status", "deleted"],
        ["list", "--limit", "1001"],
        ["list", "--offset", "-1"],
        ["tier", "--organization", "acme", "--max-users", "-1"],
        ["tier", "--organization", "acme", "--max-users", "2147483648"],
        ["tier", "--organization", "acme", "--max-services", "some"],
        ["tier", "--organization", "acme", "--max-services", "9" * 10_000],
        ["delete", "--organization", "acme", "--ye"],
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["organization", *words])
    assert ended.value.code == 2
    assert "usage: postern" in capsys.readouterr().err


def test_the_states_on_the_command_line_are_all_that_there_are() -> None:
    for status in OrganizationStatus:
        assert command_line().parse_args(["organization", "list", "--status", status]).status == status
    assert {*ORGANIZATION_COMMANDS, "invite"} == {*organization._ACTIONS, *organization._MAKING}


class Rows:
    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def add(self, slug: str, status: str = "pending") -> UUID:
        found = uuid4()
        self(
            "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, 'Acme', %s, now(), now())",
            found,
            slug,
            status,
        )
        return found


@pytest.fixture
def rows(emptied_database_url: str) -> Rows:
    return Rows(emptied_database_url)


@pytest.fixture
def postern(emptied_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Postern:
    """Runs `postern organization` with these arguments. Returns the output."""
    monkeypatch.setenv("SUDO_USER", "grace")
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )

    async def run(*words: str) -> str:
        await organization._run(command_line().parse_args(["organization", *words]), settings)
        return capsys.readouterr().out

    return run


async def test_an_organization_is_led_through_its_states(postern: Postern, rows: Rows) -> None:
    acme, spam = rows.add("acme"), rows.add("spam")
    assert await postern("approve", "--organization", "acme", "--tier", "professional") == "acme is active.\n"
    assert (await postern("suspend", "--organization", "acme", "--reason", "Unpaid")).startswith("acme is suspended")
    assert "status    suspended" in (shown := await postern("show", "--organization", "acme"))
    assert shown.count("Unpaid") == 1
    assert await postern("activate", "--organization", "acme") == "acme is active again.\n"
    assert await postern("reject", "--organization", "spam", "--reason", "Spam") == "spam is rejected permanently.\n"
    entries = rows("select action, actor_id, organization_id, details from audit_log order by id")
    assert [(entry["action"], entry["organization_id"], entry["details"]) for entry in entries] == [
        ("organization.approved", acme, {"tier": "professional", "operator": "grace"}),
        ("organization.suspended", acme, {"reason": "Unpaid", "operator": "grace"}),
        ("organization.activated", acme, {"operator": "grace"}),
        ("organization.rejected", spam, {"reason": "Spam", "operator": "grace"}),
    ]
    assert {entry["actor_id"] for entry in entries} == {None}
    assert rows("select id from audit_entries where details ? 'operator'") == []  # where it could never be forgotten
    assert rows("select approved_by from organizations where slug = 'acme'") == [{"approved_by": None}]


async def test_tier_and_limits_are_changed_alone_or_together(postern: Postern, rows: Rows) -> None:
    rows.add("acme", "active")
    shown = await postern("tier", "--organization", "acme", "--tier", "professional", "--max-users", "7")
    assert "tier      professional (Professional)\nmembers   0 of 7 (its own limit)\nservices  at most 10 (tier)\n" in shown
    shown = await postern("tier", "--organization", "acme", "--max-services", "0")
    assert "tier      professional (Professional)\nmembers   0 of 7 (its own limit)\nservices  at most 0 (its own limit)\n" in shown
    shown = await postern("tier", "--organization", "acme", "--max-services", "none", "--max-users", "none")
    assert "members   0 of 1000 (tier)\nservices  at most 10 (tier)\n" in shown
    with pytest.raises(NothingToChange):
        await postern("tier", "--organization", "acme")
    with pytest.raises(NotFound, match="the tiers are free, professional"):
        await postern("tier", "--organization", "acme", "--tier", "gold")
    assert len(rows("select id from audit_log where action = 'organization.tier.changed'")) == 3


async def test_the_list_says_how_many_there_are(postern: Postern, rows: Rows) -> None:
    for slug in ("one", "two", "three"):
        rows.add(slug)
    rows.add("four", "active")
    printed = (await postern("list")).splitlines()
    assert [line.split()[0] for line in printed] == ["slug", "four", "three", "two", "one", "1-4"]
    assert printed[-1] == "1-4 of 4"
    printed = (await postern("list", "--status", "pending", "--tier", "free", "--limit", "2", "--offset", "1")).splitlines()
    assert [line.split()[0] for line in printed] == ["slug", "two", "one", "2-3"]
    assert await postern("list", "--tier", "professional") == "none of 0\n"
    assert await postern("list", "--offset", "4") == "none of 4\n"
    rows(
        "insert into all_organizations (id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), 'n-' || n, 'X', now(), now() from generate_series(1, 10000) as n"
    )
    assert (await postern("list", "--limit", "1")).splitlines()[-1] == "1-1 of at least 10000"


async def test_what_is_deleted_was_asked_about(postern: Postern, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    acme, other = rows.add("acme", "active"), rows.add("other")
    for answer in ("", "\n", "ACME\n", "yes\n"):
        monkeypatch.setattr(sys, "stdin", StringIO(answer))
        with pytest.raises(StartFailed, match="Nothing was deleted: the answer is not the organization's slug"):
            await postern("delete", "--organization", "acme")
    assert len(rows("select id from organizations")) == 2
    monkeypatch.setattr(sys, "stdin", StringIO("acme\n"))
    assert "acme is deleted" in await postern("delete", "--organization", "acme")
    assert "other is deleted" in await postern("delete", "--organization", "other", "--yes")
    assert rows("select id from organizations") == []
    entries = rows("select organization_id, target_id, details from audit_log where action = 'organization.deleted' order by id")
    assert [(entry["organization_id"], entry["target_id"]) for entry in entries] == [
        (acme, str(acme)),
        (None, str(acme)),
        (other, str(other)),
        (None, str(other)),
    ]
    assert all(entry["details"]["operator"] == "grace" for entry in entries)
    assert rows("select id from audit_entries where details ? 'operator'") == []
    assert len(rows("select id from jobs")) == 2


async def test_what_it_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    asked = []

    def answer(question: str) -> str:
        asked.append(question)
        return " acme "

    monkeypatch.setattr("builtins.input", answer)
    assert organization._ask("Sure? ") == "acme"
    assert asked == ["Sure? "]


async def test_refusals_are_those_of_the_interface(postern: Postern, rows: Rows) -> None:
    rows.add("acme", "active")
    with pytest.raises(BadRequest, match="Only a pending organization can be approved"):
        await postern("approve", "--organization", "acme")
    with pytest.raises(BadRequest, match="reason: must not be empty"):
        await postern("reject", "--organization", "acme", "--reason", " ")
    for action in ("show", "approve", "suspend", "activate", "tier", "delete"):
        more = {"tier": ["--tier", "free"], "delete": ["--yes"]}.get(action, [])
        with pytest.raises(NotFound, match="no such organization"):
            await postern(action, "--organization", "nowhere", *more)
    assert rows("select id from audit_log") == []
