"""`/ui/keys/{organization}/{service}`: a person makes, sees and ends keys for the API of an application."""

import re
from typing import Any, Final

import pytest

from core.domain.secrets import Token
from tests.http.pages.account.conftest import AccountPagesScene, is_account_page
from tests.http.people import Person
from tests.http.tenants import UsedService

PAGE: Final = "/ui/keys/acme/shop"
SCOPES: Final = (
    '[{"name": "orders:read", "description": "See your orders"}, {"name": "orders:write", "description": "Order", "permission": "w"}]'
)


@pytest.fixture
def shop(home: AccountPagesScene) -> UsedService:
    shop = home.tenants.service(home.tenants.add("acme"), "shop")
    now = home.postern.foundation.clock.now()
    home.tenants.uses(home.ada, shop, first=now, last=now)
    home.people.change(
        "insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, token, scopes, approved_at, created_at,"
        " updated_at)"
        " values (gen_random_uuid(), %s, 'https://api.example', 'api.example', 'Orders', %s, 'named', 't', %s, now(), now(), now())",
        shop.tenant.id,
        shop.id,
        SCOPES,
    )
    return shop


def offered(home: AccountPagesScene, shop: UsedService, **more: Any) -> None:
    settings = {"enabled": True, "prefix": "acme", "most_keys": 3, "longest_days": None, **more}
    home.people.change(
        f"insert into user_key_settings (service_id, {', '.join(settings)}, resource_id, updated_at)"
        f" select service_id, {', '.join(['%s'] * len(settings))}, id, now() from resource_servers where service_id = %s",
        *settings.values(),
        shop.id,
    )


def keys(home: AccountPagesScene) -> list[dict[str, Any]]:
    return list(home.people.rows("select * from user_keys order by id"))


async def make(home: AccountPagesScene, **fields: str) -> str:
    await home.open(f"{PAGE}/new")
    await home.send(**{"name": "Laptop", **fields})
    assert home.tab.status == 200
    found = re.search(r"acme_[a-z0-9]{6}_[0-9A-Za-z]{43}", home.tab.page.text)
    assert found is not None
    home.log.remember(found[0])
    return found[0]


async def test_a_person_makes_a_key_sees_it_once_and_ends_it(home: AccountPagesScene, shop: UsedService) -> None:
    offered(home, shop)
    assert "No API keys" in (await home.open(PAGE)).page.text
    assert home.tab.answer is not None
    assert is_account_page(home.tab.answer)
    await home.open(f"{PAGE}/new")
    assert "See your orders" in home.tab.page.text
    assert "Order\n" not in home.tab.page.text
    text = await make(home, scopes="orders:read", expires_in_days="30")
    (kept,) = keys(home)
    assert (kept["digest"], kept["scopes"], kept["made_by_key"], kept["user_id"]) == (
        Token(text).digest(),
        ["orders:read"],
        None,
        home.ada.user,
    )
    shown = (await home.open(PAGE)).page.text
    assert "Laptop" in shown
    assert text not in shown
    assert kept["prefix"] in shown
    assert "Not used yet" in shown
    home.people.change("update user_keys set last_used_at = now()")
    assert "Last used just now" in (await home.open(PAGE)).page.text
    await home.open(f"{PAGE}/{kept['id']}/end")
    assert "Revoke the API key Laptop?" in home.tab.page.text
    form = home.form
    await home.send()
    assert home.tab.place == f"{PAGE}?done=ended"
    assert "API key revoked" in home.tab.page.text
    assert keys(home) == []
    assert (await home.tabs.request("POST", form.action, form.fields)).header("location") == f"{PAGE}?done=ended"
    assert [len(home.audited(name)) for name in ("user_key.created", "user_key.revoked")] == [1, 1]


async def test_a_key_is_made_and_shown_only_after_a_fresh_proof(home: AccountPagesScene, shop: UsedService) -> None:
    offered(home, shop)
    await home.has_password("correct horse battery staple")
    await home.open(f"{PAGE}/new")
    form = home.form
    home.grow_old()
    await home.open(f"{PAGE}/new")
    assert home.tab.place.startswith("/ui/prove?to=/ui/keys/acme/shop/new")
    answer = await home.tabs.request("POST", form.action, {**form.fields, "name": "Laptop"})
    assert (answer.status, keys(home)) == (303, [])
    assert (await home.open(PAGE)).place == PAGE


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "characters"),
        ({"scopes": "orders:write"}, "You cannot give this permission to a key"),
        ({"scopes": "nothing"}, "You cannot give this permission to a key"),
        ({"expires_in_days": "soon"}, "Enter 1 to"),
        ({"expires_in_days": "9" * 300}, "Enter 1 to"),
        ({"expires_in_days": "31"}, "Enter 1 to 30 days"),
        ({"expires_in_days": "0"}, "Enter 1 to"),
    ],
    ids=str,
)
async def test_a_form_with_a_mistake_comes_back_with_what_was_typed(
    home: AccountPagesScene, shop: UsedService, fields: dict[str, str], told: str
) -> None:
    offered(home, shop, longest_days=30)
    await home.open(f"{PAGE}/new")
    await home.send(**{"name": "My laptop", **fields})
    assert home.tab.status == 400
    assert told in home.tab.page.text
    assert keys(home) == []


async def test_there_is_no_key_where_there_may_be_none(home: AccountPagesScene, shop: UsedService) -> None:
    change = home.people.change
    assert "API keys are off for this application" in (await home.open(PAGE)).page.text
    assert "API keys are off for this application" in (await home.open(f"{PAGE}/new")).page.text
    offered(home, shop)
    change("update services set sign_in_policy = 'members'")
    assert "You currently have no access to this application" in (await home.open(f"{PAGE}/new")).page.text
    change("update services set sign_in_policy = 'anyone'")
    await home.open(f"{PAGE}/new")
    form = home.form
    change("update user_key_settings set enabled = false")
    answer = await home.tabs.request("POST", form.action, {**form.fields, "name": "Laptop"})
    assert answer.status == 403
    change("update user_key_settings set enabled = true")
    change("delete from service_users")
    assert "Sign in to this application before you create a key" in (await home.open(PAGE)).page.text
    assert (await home.tabs.request("POST", form.action, {**form.fields, "name": "Laptop"})).status == 404
    change("update user_key_settings set enabled = false")
    for gone in (PAGE, "/ui/keys/acme/none", "/ui/keys/none/shop"):
        assert (await home.open(gone)).status == 404
    assert keys(home) == []


async def test_nobody_sees_or_ends_anothers_key(home: AccountPagesScene, shop: UsedService) -> None:
    offered(home, shop)
    now = home.postern.foundation.clock.now()
    eve: Person = home.tenants.uses(home.people.add("eve@example.org"), shop, first=now, last=now)
    home.people.change(
        "insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)"
        " values (gen_random_uuid(), %s, %s, 'Of Eve', 'acme_eve', 'd', '{}', now())",
        shop.id,
        eve.user,
    )
    (key,) = keys(home)
    assert "Of Eve" not in (await home.open(PAGE)).page.text
    token = home.tab.page.forms[0].fields["form_token"]
    assert (await home.open(f"{PAGE}/{key['id']}/end")).status == 404
    assert (await home.open(f"{PAGE}/x/end")).status == 404
    await home.tabs.request("POST", f"{PAGE}/{key['id']}/end", {"form_token": token})
    assert len(keys(home)) == 1


async def test_a_key_that_was_made_for_a_session_that_ended_meanwhile_is_none(home: AccountPagesScene, shop: UsedService) -> None:
    offered(home, shop)
    await home.open(f"{PAGE}/new")
    form = home.form
    home.people.change("update sessions set revoked_at = now()")
    answer = await home.tabs.request("POST", form.action, {**form.fields, "name": "Laptop"})
    assert (answer.status, keys(home)) == (303, [])


async def test_expired_keys_are_told_apart_and_the_limit_counts_the_others(home: AccountPagesScene, shop: UsedService) -> None:
    offered(home, shop, most_keys=1)
    await make(home, expires_in_days="1")
    await home.open(f"{PAGE}/new")
    await home.send(name="Another")
    assert "The limit of 1 is reached" in home.tab.page.text
    assert "Expires " in (await home.open(PAGE)).page.text
    home.people.change("update user_keys set expires_at = now() - interval '1 hour'")
    assert "Expired" in (await home.open(PAGE)).page.text
    await make(home)
    assert "Does not expire" in (await home.open(PAGE)).page.text


@pytest.mark.parametrize(
    ("language", "told"), [("de", "API-Schlüssel für Shop"), ("fr", "clés d\u2019API pour Shop"), ("es", "claves de API para Shop")]
)
async def test_the_pages_speak_the_languages_of_people(home: AccountPagesScene, shop: UsedService, language: str, told: str) -> None:
    offered(home, shop)
    home.people.change("update users set language = %s where id = %s", language, home.ada.user)
    assert told in (await home.open(PAGE)).page.text
    text = (await home.open(f"{PAGE}/new")).page.text
    assert "See your orders" in text
    assert "The API key lets" not in text
