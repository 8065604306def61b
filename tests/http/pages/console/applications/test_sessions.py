"""The sessions of an application on its page: what a change would end stands there before it is saved."""

from typing import Any

from tests.http.pages.console.conftest import ConsoleScene

SESSIONS, CHANGE = "/applications/shop/sessions", "/applications/shop/sessions/change"


def said(console: ConsoleScene) -> dict[str, Any]:
    (row,) = console.people.rows("select session_lifetime_hours, session_idle_minutes, most_sessions from services where slug = 'shop'")
    return row


async def test_a_change_says_whose_sessions_it_ends_and_is_made_by_the_second_form(console: ConsoleScene) -> None:
    shop = console.tenants.service(console.acme, "shop")
    for person, sessions in ((console.people.add(), 1), (console.ada, 2)):
        for _ in range(sessions):
            opened = console.tenants.session(person, shop)
            console.people.change("update sessions set last_seen_at = now() - interval '20 minutes' where id = %s", opened.session)
    tab = await console.at(SESSIONS)
    assert f"/ui/o/acme{CHANGE}" in tab.page.links
    assert "Session lifetime, idle timeout and concurrent sessions: the organization\u2019s limits" in tab.page.text
    await console.at(CHANGE)
    tab = await console.submit(CHANGE, session_idle_minutes="10")
    assert "3 active sessions exceed the new limit" in tab.page.text
    assert "This includes you." in tab.page.text
    assert said(console)["session_idle_minutes"] is None
    tab = await console.submit(CHANGE)
    assert tab.place == f"/ui/o/acme{SESSIONS}?done=saved"
    assert "Session lifetime, idle timeout and concurrent sessions: the organization\u2019s limits" not in tab.page.text
    assert said(console) == {"session_lifetime_hours": None, "session_idle_minutes": 10, "most_sessions": None}


async def test_people_with_more_sign_ins_are_counted_and_keep_them_for_now(console: ConsoleScene) -> None:
    shop = console.tenants.service(console.acme, "shop")
    for _ in range(2):
        console.tenants.session(console.people.add(), shop)
    crowded = console.people.add()
    for _ in range(2):
        console.tenants.session(crowded, shop)
    await console.at(CHANGE)
    tab = await console.submit(CHANGE, most_sessions="1", session_lifetime_hours="8")
    assert "One person has more sessions than the new limit." in tab.page.text
    assert "This includes you" not in tab.page.text
    await console.submit(CHANGE)
    assert len(console.people.rows("select from sessions where service_id = %s and revoked_at is null", shop.id)) == 4
    await console.at(CHANGE)
    tab = await console.submit(CHANGE, most_sessions="")
    assert "No open sessions are affected." in tab.page.text


async def test_a_number_out_of_bounds_is_said_at_its_field_and_nothing_new_asks_nothing(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    await console.at(CHANGE)
    tab = await console.submit(CHANGE, session_idle_minutes="4")
    assert tab.status == 400
    assert "5" in tab.page.text
    await console.at(CHANGE)
    tab = await console.submit(CHANGE)
    assert tab.place == f"/ui/o/acme{SESSIONS}?done=unchanged"


async def test_a_change_by_somebody_else_meanwhile_is_shown(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    await console.at(CHANGE)
    console.people.change("update all_services set most_sessions = 4 where slug = 'shop'")
    tab = await console.submit(CHANGE, most_sessions="2")
    assert tab.status == 409
    assert "4" in tab.page.text


async def test_the_organization_counts_own_sign_ins_of_its_own_people(console: ConsoleScene) -> None:
    for listed in (False, True):
        person = console.people.add()
        console.tenants.join(person, console.acme, listed=listed)
        console.people.session_of(person)
    await console.at("/sign-in/change/sessions")
    tab = await console.submit("/sign-in/change/sessions", most_sessions="1")
    assert "One person has more sessions than the new limit." in tab.page.text
