"""The pages of an organization's APIs."""

from collections.abc import Sequence

import pytest

from core.domain.identity.sessions import TWO_FACTORS
from core.domain.services.resource_identifiers import forbidden, metadata_address, unauthorized
from core.domain.tenancy.roles import Capability
from tests.http.browsing import Tab
from tests.http.pages.console.conftest import ConsoleScene

APIS = "/apis"
API = "https://api.acme.example/orders"
CANCEL = {"name": "orders:cancel", "description": "Cancel orders", "acr_values": [TWO_FACTORS], "max_age": 300}


WIDTH = 5
"""The fields of a row: name, text, permission, second factor and age of the sign-in."""


def row(name: str, text: str, permission: str = "", asks: str = "", max_age: str = "") -> list[str]:
    return [name, text, permission, asks, max_age]


async def made(console: ConsoleScene, identifier: str = API, **fields: str | Sequence[str]) -> str:
    """Registers an API by the form. Returns its address below the organization."""
    await console.at(f"{APIS}/~new")
    await console.submit(f"{APIS}/~new", **{"identifier": identifier, "name": "Orders", "admits": "all", **fields})
    (server,) = console.people.rows("select id from resource_servers where identifier = %s", identifier)
    return f"{APIS}/{server['id']}"


def names(console: ConsoleScene) -> list[str]:
    (server,) = console.people.rows("select scopes from resource_servers")
    return [one["name"] for one in server["scopes"]]


def permitted(console: ConsoleScene, key: str) -> None:
    shop = console.tenants.service(console.acme, "shop")
    console.people.change(
        "insert into permissions (id, service_id, key, created_at) values (gen_random_uuid(), %s, %s, now())", shop.id, key
    )


async def test_an_api_is_registered_and_its_page_says_what_to_do(console: ConsoleScene) -> None:
    permitted(console, "orders.read")
    scopes = [
        *row("orders:read", "See your orders", "orders.read"),
        *row("", " "),
        *row("  orders:write ", "  Order for you (at your cost) "),
    ]
    at = await made(console, scopes=scopes, service_slug="shop", token_lifetime="300")
    (server,) = console.people.rows("select * from resource_servers")
    assert server["scopes"] == [
        {"name": "orders:read", "description": "See your orders", "permission": "orders.read"},
        {"name": "orders:write", "description": "Order for you (at your cost)", "permission": None},
    ]
    text = (await console.at(at)).page.text
    assert '<details class="unfolds" open>' not in console.tab.shown.body.decode(), "nothing to check before tokens are made"
    for told in (
        *("Tokens are not issued yet", "_postern-verification.api.acme.example", server["token"], "requires orders.read", "Order for you"),
        *("https://api.acme.example/.well-known/oauth-protected-resource/orders", '"authorization_servers"', "/.well-known/jwks.json"),
        *('error="insufficient_scope", scope="orders:read orders:write"', "at+jwt"),
    ):
        assert told in text, told
    assert console.fields(f"{at}/scopes").fields["scopes"] == [
        *row("orders:read", "See your orders", "orders.read"),
        *row("orders:write", "Order for you (at your cost)"),
    ]
    await console.submit(f"{at}/scopes", scopes=[])
    assert names(console) == []
    await console.at(at)
    await console.submit(f"{at}/ask-approval")
    assert "You requested approval from the operator" in (await console.at(at)).page.text


async def test_a_refused_value_is_said_at_its_row_and_nothing_is_lost(console: ConsoleScene) -> None:
    at = await made(console, scopes=row("orders:read", "See your orders"))
    read = row("orders:read", "See your orders")
    for wrong, place, said in (
        (row("openid", "Everything"), "name", "openid is a reserved scope of Postern"),
        (row("two words", "Everything"), "name", "without spaces"),
        (row("", "Everything"), "name", "without spaces"),
        (row("orders:read", "Again"), "name", "only once"),
        (row("orders:write", ""), "description", "200"),
        (row("orders:write", "See www.example.org"), "description", ""),
        (row("orders:write", "Order", "orders.write"), "permission", "Choose that application first"),
        (row("orders:write", "Order", max_age="soon"), "max_age", "60"),
        (row("orders:write", "Order", max_age="1"), "max_age", "60"),
    ):
        await console.at(at)
        # A row without a word counts as none, so it moves no error to another row.
        tab = await console.submit(f"{at}/scopes", scopes=[*row("", ""), *read, *wrong])
        assert tab.status == 400, wrong
        assert f'<a href="#scopes-2-{place}">' in tab.shown.body.decode(), wrong
        assert f'id="scopes-2-{place}-error"' in tab.shown.body.decode(), wrong
        assert said in tab.page.text, wrong
        assert console.fields(f"{at}/scopes").fields["scopes"] == [*read, *wrong]
    assert names(console) == ["orders:read"]


async def test_rows_are_added_and_taken_away_without_scripts(console: ConsoleScene) -> None:
    at = await made(console, scopes=[*row("orders:read", "See"), *row("orders:write", "Order")])
    await console.at(at)
    tab = await console.submit(f"{at}/scopes", scopes=[*row("orders:see", "Look"), *row("orders:write", "Order")], pressed="scopes add")
    assert tab.status == 200
    kept = [*row("orders:see", "Look"), *row("orders:write", "Order")]
    assert console.fields(f"{at}/scopes").fields["scopes"] == [*kept, *row("", "")]
    assert tab.shown.body.decode().count(" autofocus") == 1
    # Pressed again, it adds no second empty row.
    await console.submit(f"{at}/scopes", pressed="scopes add")
    assert console.fields(f"{at}/scopes").fields["scopes"] == [*kept, *row("", "")]
    await console.submit(f"{at}/scopes", pressed="scopes 2")
    assert console.fields(f"{at}/scopes").fields["scopes"] == row("orders:see", "Look")
    assert names(console) == ["orders:read", "orders:write"], "nothing was saved yet"
    await console.submit(f"{at}/scopes")
    assert names(console) == ["orders:see"]


async def test_rows_are_added_to_the_form_that_makes_an_api(console: ConsoleScene) -> None:
    await console.at(f"{APIS}/~new")
    tab = await console.submit(f"{APIS}/~new", identifier=API, name="Orders", pressed="scopes add")
    assert tab.status == 200
    assert console.people.rows("select from resource_servers") == []
    sent = console.fields(f"{APIS}/~new").fields
    assert (sent["identifier"], sent["name"], sent["scopes"]) == (API, "Orders", row("", ""))
    await console.submit(f"{APIS}/~new", scopes=row("orders:read", "See", asks="two-factors"))
    assert names(console) == ["orders:read"]


async def test_a_form_with_a_further_row_still_sees_what_somebody_else_has_changed(console: ConsoleScene) -> None:
    at = await made(console, scopes=row("orders:read", "See"))
    await console.at(at)
    theirs = console.colleague("admin")
    await theirs.open(f"/ui/o/acme{at}")
    number = next(number for number, one in enumerate(theirs.page.forms) if one.action.endswith("/scopes"))
    await theirs.send(number, scopes=row("orders:write", "Order", max_age="300"))
    await console.submit(f"{at}/scopes", pressed="scopes add")
    tab = await console.submit(f"{at}/scopes", scopes=[*row("orders:read", "See"), *row("orders:pay", "Pay")])
    assert tab.status == 409
    assert "orders:write: Order, requires authentication within the last 300 seconds" in tab.page.text
    assert names(console) == ["orders:write"]


async def test_scopes_are_put_back_in_their_order(console: ConsoleScene) -> None:
    before = [*row("b", "Second letter"), *row("a", "First letter")]
    at = await made(console, scopes=before)
    await console.at(at)
    await console.submit(f"{at}/scopes", scopes=[*row("a", "First letter"), *row("b", "Second letter")])
    assert names(console) == ["a", "b"]
    assert "b: Second letter; a: First letter" in (await console.at(at)).page.text
    await console.submit(f"{at}/scopes/undo")
    assert names(console) == ["b", "a"]


async def test_a_hundred_scopes_fit_into_a_form(console: ConsoleScene) -> None:
    at = await made(
        console, scopes=[text for number in range(100) for text in row(f"orders:{number}", "Löst eine Bestellung aus", max_age="60")]
    )
    assert len(names(console)) == 100
    page = (await console.at(at)).page
    assert "+88" in page.text
    tab = await console.submit(f"{at}/scopes", scopes=[*page.forms[console.number(f"{at}/scopes")].fields["scopes"], *row("one", "More")])
    assert 'id="scopes-error"' in tab.shown.body.decode()
    await console.at(at)
    await console.submit(f"{at}/scopes", scopes=page.forms[console.number(f"{at}/scopes")].fields["scopes"][WIDTH:])
    assert len(names(console)) == 99


async def test_who_may_not_change_an_api_reads_its_scopes(console: ConsoleScene) -> None:
    at = await made(console, scopes=row("orders:read", "See your orders", max_age="300"))
    person, auditor = console.people.add(), console.tenants.role(console.acme, "auditor", [Capability.SERVICES_VIEW])
    console.tenants.join(person, console.acme, auditor)
    tab = await console.browser(person).tab().open(f"/ui/o/acme{at}")
    assert "orders:read See your orders requires authentication within the last 300 seconds" in tab.page.text
    assert not any(one.action.endswith("/scopes") for one in tab.page.forms)


async def test_a_stranger_changes_no_scopes(console: ConsoleScene) -> None:
    at = await made(console, scopes=row("orders:read", "See"))
    await console.at(at)
    form = console.fields(f"{at}/scopes")
    _, stranger = console.stranger()
    await stranger.open("/ui/o/globex/apis/~new")
    token = stranger.page.forms[stranger_form(stranger)].fields["form_token"]
    for home in ("acme", "globex"):
        answer = await stranger.tabs.request(
            "POST", f"/ui/o/{home}{at}/scopes", {**form.fields, "form_token": token, "pressed": "scopes add"}
        )
        assert answer.status in {403, 404}, home
    assert names(console) == ["orders:read"]


def stranger_form(tab: Tab) -> int:
    return next(number for number, one in enumerate(tab.page.forms) if one.action.endswith("/apis/~new"))


async def test_an_address_in_another_form_is_refused_at_its_field(console: ConsoleScene) -> None:
    await console.at(f"{APIS}/~new")
    tab = await console.submit(f"{APIS}/~new", identifier="https://API.acme.example/", name="Orders", admits="all")
    assert tab.status == 400
    assert "Enter the host in lowercase" in tab.page.text
    assert console.people.rows("select from resource_servers") == []


async def test_an_api_for_development_is_ready(console: ConsoleScene) -> None:
    at = await made(console, "http://localhost:8000/mcp")
    text = (await console.at(at)).page.text
    # There is something to check, so it is in sight.
    assert '<details class="unfolds" open>' in console.tab.shown.body.decode()
    assert "Tokens are not issued yet" not in text
    assert "must also validate the API ID" in text
    assert "API ID (resource_id)" in text


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


async def test_a_scope_asks_for_a_second_factor_and_a_fresh_sign_in(console: ConsoleScene) -> None:
    scopes = [
        *row("orders:cancel", "Cancel orders", "orders.cancel", "two-factors", "300"),
        *row("orders:pay", "Pay", max_age="60"),
        *row("orders:read", "See 2 + 3"),
    ]
    permitted(console, "orders.cancel")
    at = await made(console, scopes=scopes, service_slug="shop")
    (server,) = console.people.rows("select scopes from resource_servers")
    assert server["scopes"] == [
        *({**CANCEL, "permission": "orders.cancel"},),
        {"name": "orders:pay", "description": "Pay", "permission": None, "max_age": 60},
        {"name": "orders:read", "description": "See 2 + 3", "permission": None},
    ]
    text = (await console.at(at)).page.text
    for told in (
        "requires orders.cancel, requires MFA, requires authentication within the last 300 seconds",
        f'error="insufficient_user_authentication", acr_values="{TWO_FACTORS}", max_age="300", scope="orders:cancel", resource_metadata=',
        'error="insufficient_user_authentication", max_age="60", scope="orders:pay", resource_metadata=',
    ):
        assert told in text, told
    assert 'max_age="", ' not in text
    assert console.fields(f"{at}/scopes").fields["scopes"] == scopes
