"""The page of changed settings shows for ten minutes what they were. One button puts them back, unless that would lose another change."""

from functools import partial
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres.record.events import PostgresChangedSettings
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.test_resources import made
from tests.meanwhile import meanwhile

RULES: Final = "/sign-in/change/sessions"
ANOTHER_ENTRY: Final = """
    insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), organization_id, action, target_type, target_id, success, '{}', now()
      from audit_entries
     where action = 'webhook.updated'
"""


async def renamed(console: ConsoleScene, name: str = "Sales") -> str:
    """A webhook that was called CRM. Returns its address below the organization."""
    webhook = await made(console)
    await rename(console, webhook, name)
    return webhook


async def rename(console: ConsoleScene, webhook: str, name: str) -> None:
    await console.at(webhook)
    tab = await console.submit(f"{webhook}/change", name=name)
    assert tab.place.endswith("?done=saved&fields=name")


def name(console: ConsoleScene) -> str:
    (row,) = console.people.rows("select name from webhooks")
    return str(row["name"])


def offers(tab: Tab) -> int:
    return sum(form.action.endswith("/undo") for form in tab.page.forms)


async def ask_by_api(console: ConsoleScene, webhook: str, body: dict[str, Any]) -> None:
    path = f"/api/organizations/acme/webhooks/{webhook.rsplit('/', 1)[1]}"
    answer = await console.client.request("PATCH", path, body=body, token=await console.tenants.token(console.ada))
    assert answer.status == 200, answer.body


async def test_a_changed_setting_shows_what_it_was_and_goes_back(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    # It stays on the page, however often the page is loaded, and for everybody who may change it.
    for tab in (await console.at(webhook), await console.at(webhook), await console.colleague("admin").open(f"/ui/o/acme{webhook}")):
        assert "Changed just now. Previous values: Name CRM Undo change" in tab.page.text, tab.page.text
    tab = await console.submit(f"{webhook}/change/undo")
    assert tab.place == f"/ui/o/acme{webhook}?done=put_back"
    assert "Change undone. The previous values apply again." in tab.page.text
    assert name(console) == "CRM"
    changed, back = console.people.rows("select id, actor_id, details from audit_log where action = 'webhook.updated' order by id")
    assert (back["actor_id"], back["details"]["undoes"]) == (console.ada.user, str(changed["id"]))
    assert (back["details"]["old_name"], back["details"]["new_name"]) == ("Sales", "CRM")
    entry = (await console.at(f"/audit-log/{back['id']}")).page
    assert f"/ui/o/acme/audit-log/{changed['id']}" in entry.links
    tab = await console.at(webhook)
    # To put it back was a change, too.
    assert "Previous values: Name Sales Undo change" in tab.page.text
    assert offers(tab) == 1


async def test_a_change_of_another_field_is_not_lost(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    await console.at(webhook)
    await ask_by_api(console, webhook, {"is_active": False})
    await console.submit(f"{webhook}/change/undo")
    assert console.people.rows("select name, is_active from webhooks") == [{"name": "CRM", "is_active": False}]


async def test_a_later_change_of_the_same_field_is_not_lost(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    await console.at(webhook)
    await ask_by_api(console, webhook, {"name": "Marketing"})
    tab = await console.submit(f"{webhook}/change/undo")
    assert tab.status == 409
    assert "Undoing would discard that change" in tab.page.text
    assert "Name Marketing (before: CRM)" in tab.page.text
    assert name(console) == "Marketing"


async def test_a_change_that_comes_at_the_same_moment_is_not_lost(console: ConsoleScene, database_url: str) -> None:
    """It is not there when the page compares, and there when the page writes."""
    webhook = await renamed(console)
    tab = await console.at(webhook)
    with psycopg.connect(database_url) as other:
        other.execute("update webhooks set name = 'Marketing'")
        other.execute(ANOTHER_ENTRY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(console.submit, f"{webhook}/change/undo"))
            await console.people.somebody_waits()
            other.commit()
    assert tab.status == 409
    assert "Undoing would discard that change" in tab.page.text
    assert name(console) == "Marketing"


async def test_a_change_that_comes_after_the_page_has_compared_is_not_lost(console: ConsoleScene, monkeypatch: pytest.MonkeyPatch) -> None:
    webhook = await renamed(console)
    await console.at(webhook)
    with monkeypatch.context() as patched:
        meanwhile(patched, PostgresChangedSettings, "list", lambda: console.people.change(ANOTHER_ENTRY))
        tab = await console.submit(f"{webhook}/change/undo")
    assert tab.status == 409
    assert "Undoing would discard that change" in tab.page.text
    assert name(console) == "Sales"


async def test_two_who_press_at_once_put_it_back_once(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    tabs = [await tab.open(f"/ui/o/acme{webhook}") for tab in (console.tab, console.colleague("admin"))]
    number = console.number(f"{webhook}/change/undo")

    await all_at_once(*(partial(tab.send, number) for tab in tabs))
    assert name(console) == "CRM"
    assert {tab.status for tab in tabs} <= {200, 409}
    undone = [row["details"] for row in console.people.rows("select details from audit_log where action = 'webhook.updated' order by id")]
    assert [("undoes" in details) for details in undone] == [False, True]


async def test_after_ten_minutes_it_stays(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    await console.at(webhook)
    console.people.change("update changed_settings set changed_at = changed_at - interval '10 minutes'")
    tab = await console.submit(f"{webhook}/change/undo")
    assert tab.status == 409
    assert "A change can be undone once, within ten minutes" in tab.page.text
    assert name(console) == "Sales"
    assert offers(await console.at(webhook)) == 0


async def test_only_those_who_may_change_it_put_it_back(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    form = (await console.at(webhook)).page.forms[console.number(f"{webhook}/change/undo")]
    # Who may see the page, and change nothing there.
    console.people.change("delete from relations where user_id = %s and relation = 'owner'", console.ada.user)
    console.people.change("update memberships set role = 'member' where user_id = %s", console.ada.user)
    for tab in (await console.tab._go("POST", form.action, form.fields), await console.colleague().open(f"/ui/o/acme{webhook}")):
        assert tab.status == 403
    assert name(console) == "Sales"


async def test_another_organization_puts_nothing_back(console: ConsoleScene) -> None:
    webhook = await renamed(console)
    change = console.people.rows("select id from changed_settings")[0]["id"]
    _, tab = console.stranger()
    own = (await tab.open("/ui/o/globex/settings")).page.forms
    (form,) = [one for one in own if one.action == "/ui/o/globex/settings/change"]
    fields = {"form_token": form.fields["form_token"], "change": str(change)}
    for place in ("/ui/o/globex/settings/change/undo", f"/ui/o/globex{webhook}/change/undo"):
        assert (await tab._go("POST", place, fields)).status in {404, 409}
    assert (await tab._go("POST", f"/ui/o/acme{webhook}/change/undo", fields)).status in {403, 404}
    assert name(console) == "Sales"


@pytest.mark.parametrize("change", ["", "x", "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"])
async def test_a_change_that_is_none_is_over(change: str, console: ConsoleScene) -> None:
    webhook = await renamed(console)
    await console.at(webhook)
    tab = await console.submit(f"{webhook}/change/undo", change=change)
    assert tab.status == 409
    assert name(console) == "Sales"


async def test_secrets_are_neither_kept_nor_put_back(console: ConsoleScene) -> None:
    place = "/settings/mail-server"
    fields = {"host": "smtp.acme.example", "port": "587", "username": "acme", "password": "correct horse", "from_email": "it@acme.example"}
    await console.at(place)
    await console.submit(f"{place}/change", **fields)
    await console.at(place)
    await console.submit(f"{place}/change", **{**fields, "host": "mail.acme.example"})
    assert offers(await console.at(place)) == 0
    assert console.people.rows("select from changed_settings") == []


async def test_what_is_not_allowed_any_more_says_so(console: ConsoleScene) -> None:
    """The earlier name belongs to another webhook by now."""
    webhook = await renamed(console)
    await made(console, "CRM")
    await console.at(webhook)
    tab = await console.submit(f"{webhook}/change/undo")
    assert tab.status == 400
    assert "The previous values are no longer allowed" in tab.page.text
    assert len(console.people.rows("select from webhooks where name = 'CRM'")) == 1


async def test_the_rules_go_back_with_a_fresh_proof(console: ConsoleScene) -> None:
    await console.at(RULES)
    await console.submit(RULES, session_lifetime_hours="8", most_sessions="3")
    await console.submit(RULES)
    tab = await console.at("/sign-in")
    assert "Previous values: " in tab.page.text
    console.grow_old()
    form = tab.page.forms[console.number(f"{RULES}/undo")]
    tab = await console.tab._go("POST", form.action, form.fields)
    assert tab.place.startswith("/ui/sign-in/")
    assert console.people.rows("select session_hours from organizations where slug = 'acme'") == [{"session_hours": 8}]
    console.people.change("update sessions set proved_at = now(), second_factor_at = now()")
    tab = await console.tab.open("/ui/o/acme/sign-in/change/sessions/undo")
    assert offers(tab) == 1
    await console.submit(f"{RULES}/undo")
    (row,) = console.people.rows("select session_hours, most_sessions from organizations where slug = 'acme'")
    assert row == {"session_hours": None, "most_sessions": None}


async def test_looks_and_names_go_back(console: ConsoleScene) -> None:
    await console.at("/settings/looks")
    form = next(form for form in console.tab.page.forms if "primary_color" in form.fields)
    await console.tab._go("POST", form.action.partition("#")[0], {**form.fields, "primary_color": "#a01040", "step": "save"})
    tab = await console.at("/settings/looks")
    assert offers(tab) == 1
    await console.submit("/settings/looks/undo")
    await console.at("/settings")
    await console.submit("/settings/change", name="Acme Works", metadata='{"a": 1}')
    tab = await console.at("/settings")
    assert "Name Acme" in tab.page.text
    await console.submit("/settings/change/undo")
    (row,) = console.people.rows("select name, metadata, primary_color from organizations where slug = 'acme'")
    assert row == {"name": "Acme", "metadata": {}, "primary_color": None}


async def test_another_application_of_the_same_name_puts_nothing_back(console: ConsoleScene) -> None:
    shop = {"slug": "shop", "name": "Shop", "service_type": "web"}
    token, services = await console.tenants.token(console.ada), "/api/organizations/acme/services"
    assert (await console.client.request("POST", services, body=shop, token=token)).status == 200
    settings = "/applications/shop/settings"
    await console.at(settings)
    await console.submit(f"{settings}/basics", name="Store")
    assert offers(await console.at(settings)) == 1
    undo = console.fields(f"{settings}/basics/undo")
    ended = await console.client.request("DELETE", f"{services}/shop", token=await console.tenants.token(console.ada))
    assert ended.status == 204, ended.body
    assert (await console.client.request("POST", services, body={**shop, "name": "Store"}, token=token)).status == 200
    assert offers(await console.at(settings)) == 0
    # Nor does the form that somebody still has open. By the address alone, it would be put back.
    tab = await console.tab._go("POST", undo.action, undo.fields)
    assert tab.status == 409
    assert "ten minutes" in tab.page.text
    assert console.people.rows("select name from services") == [{"name": "Store"}]
