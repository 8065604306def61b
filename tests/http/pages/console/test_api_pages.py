"""The pages of an organization's APIs."""

import pytest

from core.domain.identity.sessions import TWO_FACTORS
from core.domain.services.resource_documents import forbidden, metadata_address, unauthorized
from tests.http.pages.console.conftest import ConsoleScene

APIS = "/apis"
API = "https://api.acme.example/orders"
CANCEL = {"name": "orders:cancel", "description": "Cancel orders", "acr_values": [TWO_FACTORS], "max_age": 300}


async def made(console: ConsoleScene, identifier: str = API, **fields: str) -> str:
    """Registers an API by the form. Returns its address below the organization."""
    await console.at(f"{APIS}/~new")
    await console.submit(f"{APIS}/~new", **{"identifier": identifier, "name": "Orders", "admits": "all", **fields})
    (server,) = console.people.rows("select id from resource_servers where identifier = %s", identifier)
    return f"{APIS}/{server['id']}"


async def test_an_api_is_registered_and_its_page_says_what_to_do(console: ConsoleScene) -> None:
    shop = console.tenants.service(console.acme, "shop")
    console.people.change(
        "insert into permissions (id, service_id, key, created_at) values (gen_random_uuid(), %s, 'orders.read', now())", shop.id
    )
    scopes = "orders:read See your orders [orders.read]\n\n  orders:write   Order for you (at your cost) "
    at = await made(console, scopes=scopes, service_slug="shop", token_lifetime="300")
    (server,) = console.people.rows("select * from resource_servers")
    assert server["scopes"] == [
        {"name": "orders:read", "description": "See your orders", "permission": "orders.read"},
        {"name": "orders:write", "description": "Order for you (at your cost)", "permission": None},
    ]
    text = (await console.at(at)).page.text
    for told in (
        *("No tokens are made yet", "_postern-verification.api.acme.example", server["token"], "needs orders.read", "Order for you"),
        *("https://api.acme.example/.well-known/oauth-protected-resource/orders", '"authorization_servers"', "/.well-known/jwks.json"),
        *('error="insufficient_scope", scope="orders:read orders:write"', "at+jwt"),
    ):
        assert told in text, told
    # The form shows the scopes as they were written.
    assert console.fields(f"{at}/scopes").fields["scopes"] == (
        "orders:read See your orders [orders.read]\norders:write Order for you (at your cost)"
    )
    tab = await console.submit(f"{at}/scopes", scopes="openid Everything")
    assert "In line 1" in tab.page.text or "Line 1" in tab.page.text
    await console.at(at)
    await console.submit(f"{at}/scopes", scopes="")
    assert console.people.rows("select scopes from resource_servers") == [{"scopes": []}]
    await console.at(at)
    await console.submit(f"{at}/ask-approval")
    assert "You asked the operator for an approval" in (await console.at(at)).page.text


async def test_an_address_in_another_form_is_refused_at_its_field(console: ConsoleScene) -> None:
    await console.at(f"{APIS}/~new")
    tab = await console.submit(f"{APIS}/~new", identifier="https://API.acme.example/", name="Orders", admits="all")
    assert tab.status == 400
    assert "Write the host in small letters" in tab.page.text
    assert console.people.rows("select from resource_servers") == []


async def test_an_api_for_development_is_ready(console: ConsoleScene) -> None:
    at = await made(console, "http://localhost:8000/mcp")
    text = (await console.at(at)).page.text
    assert "No tokens are made yet" not in text
    assert "must also compare the id below" in text
    assert "Id of the API (resource_id)" in text


@pytest.mark.parametrize(
    ("identifier", "address"),
    [
        ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
        ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
        ("https://a.example:8443/mcp/", "https://a.example:8443/.well-known/oauth-protected-resource/mcp/"),
        ("https://a.example/mcp?a=1", "https://a.example/.well-known/oauth-protected-resource/mcp?a=1"),
    ],
)
def test_the_address_of_the_metadata_stands_between_host_and_path(identifier: str, address: str) -> None:
    assert metadata_address(identifier) == address
    assert address in unauthorized(identifier, ())


def test_challenges_name_scopes_if_there_are_any() -> None:
    assert unauthorized(API, ()).endswith('/orders"')
    assert unauthorized(API, ("a", "b")).endswith('scope="a b"')
    assert 'error="insufficient_scope", scope="a b", resource_metadata=' in forbidden(API, ("a", "b"))


async def test_a_line_asks_for_a_second_factor_and_a_fresh_sign_in(console: ConsoleScene) -> None:
    scopes = "orders:cancel Cancel orders [orders.cancel] +two-factors +max_age=300\norders:pay Pay +max_age=60 \norders:read See 2 + 3"
    shop = console.tenants.service(console.acme, "shop")
    console.people.change(
        "insert into permissions (id, service_id, key, created_at) values (gen_random_uuid(), %s, 'orders.cancel', now())", shop.id
    )
    at = await made(console, scopes=scopes, service_slug="shop")
    (server,) = console.people.rows("select scopes from resource_servers")
    assert server["scopes"] == [
        *({**CANCEL, "permission": "orders.cancel"},),
        {"name": "orders:pay", "description": "Pay", "permission": None, "max_age": 60},
        {"name": "orders:read", "description": "See 2 + 3", "permission": None},
    ]
    text = (await console.at(at)).page.text
    for told in (
        "needs orders.cancel, asks for a second factor, asks for a sign-in within 300 seconds",
        f'error="insufficient_user_authentication", acr_values="{TWO_FACTORS}", max_age="300", scope="orders:cancel", resource_metadata=',
        'error="insufficient_user_authentication", max_age="60", scope="orders:pay", resource_metadata=',
    ):
        assert told in text, told
    assert 'max_age="", ' not in text
    assert console.fields(f"{at}/scopes").fields["scopes"] == scopes.replace(" \n", "\n")
    for line in ("a B +urn:postern:acr:one-factor", "a B +max_age=soon", "a B +max_age=1"):
        tab = await console.submit(f"{at}/scopes", scopes=line)
        assert tab.status == 400, line
        await console.at(at)
