"""The form that trusts an issuer: what is asked, what has a value already, and what its tokens stand for."""

import json

from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import BASE_URL

NEW = "/trusted-issuers/~new"
KEY = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "a",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
ASKED = {
    "name": "Deploy",
    "issuer": "https://ci.example",
    "subject_pattern": "repo:acme/shop:ref:refs/heads/main",
    "jwks": json.dumps({"keys": [KEY]}),
}


async def test_only_what_nobody_can_guess_is_asked_in_sight(console: ConsoleScene) -> None:
    body = (await console.at(NEW)).shown.body.decode()
    seen, _, folded = body.partition('<details class="curl chosen">')
    names = ("name", "service_slug", "issuer", "subject_pattern", "jwks_uri")
    assert [name for name in names if f'name="{name}"' not in seen] == []
    assert [name for name in ("audience", "claims", "jwks") if f'name="{name}"' not in folded] == []
    assert console.fields(NEW).fields["audience"] == BASE_URL


async def test_its_tokens_stand_for_an_application(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    await console.at(NEW)
    await console.submit(NEW, service_slug="shop", **ASKED)
    (rule,) = console.people.rows("select service_id is not null as is_service, key_id, audience from trusted_issuers")
    assert rule == {"is_service": True, "key_id": None, "audience": BASE_URL}


async def test_its_tokens_stand_for_a_key(console: ConsoleScene) -> None:
    console.tenants.management_key(console.acme, console.ada, ["services.view"])
    (key,) = console.people.rows("select id from management_keys")
    tab = await console.at(NEW)
    assert f'value="key:{key["id"]}"' in tab.shown.body.decode()
    await console.submit(NEW, service_slug=f"key:{key['id']}", **ASKED)
    (rule,) = console.people.rows("select service_id, key_id from trusted_issuers")
    assert rule == {"service_id": None, "key_id": key["id"]}


async def test_what_is_missing_is_said_at_its_question(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    await console.at(NEW)
    tab = await console.submit(NEW, **ASKED)
    assert tab.status == 400
    assert '<a href="#service_slug">' in tab.shown.body.decode()
    tab = await console.submit(NEW, **{**ASKED, "service_slug": "shop", "jwks": ""})
    assert tab.status == 400
    assert '<a href="#jwks_uri">' in tab.shown.body.decode()
    # What is folded opens if it is wrong.
    tab = await console.submit(NEW, **{**ASKED, "service_slug": "shop", "audience": ""})
    assert tab.status == 400
    assert '<details class="curl chosen" open>' in tab.shown.body.decode()
    assert console.people.rows("select from trusted_issuers") == []
