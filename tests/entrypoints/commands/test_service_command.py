"""`postern service`: its arguments and its output."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import NotFound
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.services.services import RegisteredService, Service, ServiceType
from core.frozen import replace
from entrypoints.cli import service
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.service import lines, table
from entrypoints.settings import read

NOON: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
SHOP: Final = RegisteredService(
    service=Service(
        id=ServiceId(UUID(int=1)),
        organization=OrganizationId(UUID(int=2)),
        slug="shop",
        name="Shop\u202e\x1b[2J",
        service_type=ServiceType.WEB,
        client_id=ClientId(str(UUID(int=3))),
        redirect_uris=("https://shop.example/callback", "http://localhost:3000/"),
        created_at=NOON,
        updated_at=NOON,
    ),
    organization_slug="acme",
    organization_is_active=True,
    users=1234,
    plans=2,
    subscriptions=7,
    api_keys=3,
    client_secrets=1,
)
Postern = Callable[..., Awaitable[str]]
Change = Callable[..., None]


def test_a_service_as_it_is_shown() -> None:
    assert [f"{name}: {text}" for name, text in lines(SHOP)] == [
        "id: 00000000-0000-0000-0000-000000000001",
        "organization: acme",
        "slug: shop",
        "name: Shop??[2J",
        "type: web (can keep a secret)",
        "client id: 00000000-0000-0000-0000-000000000003",
        "users: 1234",
        "plans: 2, with 7 subscribed",
        "API keys: 3",
        "client secrets: 1",
        "redirect URIs: https://shop.example/callback",
        ": http://localhost:3000/",
        "activation: none",
        "starts sign-in: none",
        "created: 2026-05-04 12:00 UTC",
    ]


def test_what_it_does_not_have_is_said_too() -> None:
    bare = replace(SHOP.service, service_type=ServiceType.MOBILE, redirect_uris=(), device_activation_uri="https://shop.example/tv")
    shown = dict(lines(replace(SHOP, service=bare, organization_is_active=False)))
    assert shown["type"] == "mobile (cannot keep a secret: uses PKCE)"
    assert shown["organization"] == "acme (not active)"
    assert shown["redirect URIs"] == "none"
    assert shown["activation"] == "https://shop.example/tv"


def test_the_list_is_a_table() -> None:
    longer = replace(SHOP, service=replace(SHOP.service, slug="long-one", name="N"), organization_slug="o", users=0)
    assert table([SHOP, longer]) == [
        "organization  slug      type  users  created     name",
        "acme          shop      web   1234   2026-05-04  Shop??[2J",
        "o             long-one  web   0      2026-05-04  N",
    ]
    assert table([]) == []


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--service", "shop"],
        ["show", "--organization", "acme"],
        ["list", "--limit", "1001"],
        ["list", "--offset", "-1"],
        ["delete"],
        ["client-id", "--organization", "acme", "--service", "shop"],
        ["client-id", "--organization", "acme", "--service", "shop", "--keep", "shop-frontend", "--own"],
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["service", *words])
    assert ended.value.code == 2
    assert "usage: postern" in capsys.readouterr().err


@pytest.fixture
def change(emptied_database_url: str) -> Change:
    def run(statement: str, *values: Any) -> None:
        with psycopg.connect(emptied_database_url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    return run


@pytest.fixture
def postern(emptied_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Postern:
    """Runs `postern service` with these arguments. Returns the output."""
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )

    async def run(*words: str) -> str:
        await service._run(command_line().parse_args(["service", *words]), settings)
        return capsys.readouterr().out

    return run


def add(change: Change, organization: str, *slugs: str) -> UUID:
    identifier = uuid4()
    change(
        "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, 'X', 'active', now(), now())",
        identifier,
        organization,
    )
    for number, slug in enumerate(slugs):
        change(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " values (%s, %s, %s, 'Shop', 'web', %s, now(), now())",
            UUID(int=identifier.int - identifier.int % 1000 + number),
            identifier,
            slug,
            uuid4(),
        )
    return identifier


async def test_a_service_keeps_the_id_that_it_had_elsewhere(postern: Postern, change: Change) -> None:
    add(change, "acme", "shop")
    words = ("client-id", "--organization", "acme", "--service", "shop")
    own = json.loads(await postern(*words, "--own", "--json"))["client_id"]
    assert str(UUID(own)) == own
    assert await postern(*words, "--keep", "shop-frontend") == "acme/shop is the client shop-frontend\n"
    assert "client id      shop-frontend\n" in await postern("show", *words[1:])
    told = json.loads(await postern(*words, "--own", "--json"))
    assert told == {"organization": "acme", "service": "shop", "client_id": own}
    with pytest.raises(NotFound):
        await postern("client-id", "--organization", "globex", "--service", "shop", "--keep", "shop-frontend")


async def test_the_list_says_how_many_there_are(postern: Postern, change: Change) -> None:
    add(change, "acme", "one", "two", "three")
    add(change, "globex", "one")
    change("update all_services set deleted_at = now() where slug = 'two'")
    printed = (await postern("list", "--organization", "acme")).splitlines()
    assert [line.split()[:2] for line in printed] == [["organization", "slug"], ["acme", "three"], ["acme", "one"], ["1-2", "of"]]
    printed = (await postern("list", "--limit", "1", "--offset", "1")).splitlines()
    assert (len(printed), printed[-1]) == (3, "2-2 of 3")
    assert (await postern("list")).splitlines()[-1] == "1-3 of 3"
    assert await postern("list", "--organization", "initech") == "none of 0\n"
    assert await postern("list", "--offset", "3") == "none of 3\n"
    # Those of an organization that is being deleted are gone with it.
    change("update all_organizations set deleted_at = now() where slug = 'acme'")
    assert (await postern("list")).splitlines()[-1] == "1-1 of 1"


async def test_one_is_shown_with_what_it_has(postern: Postern, change: Change) -> None:
    add(change, "acme", "shop")
    change(
        "insert into plans (id, service_id, name, price_cents, currency, active_count, past_due_count, created_at, updated_at)"
        " select gen_random_uuid(), id, 'Pro', 0, 'usd', 2, 1, now(), now() from services"
    )
    change(
        "insert into client_secrets (id, service_id, prefix, digest, created_at)"
        " select gen_random_uuid(), id, 'cs_abcdef', 'x', now() from services"
    )
    shown = await postern("show", "--organization", "acme", "--service", "shop")
    assert "users          0\nplans          1, with 3 subscribed\nAPI keys       0\nclient secrets 1\n" in shown
    for organization, slug in (("acme", "app"), ("globex", "shop"), ("\0", "\ud800")):
        with pytest.raises(NotFound):
            await postern("show", "--organization", organization, "--service", slug)
