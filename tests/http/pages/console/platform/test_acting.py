"""Acting as somebody in the browser: what opens, what stays closed, and how it ends."""

from typing import Final

import pytest

from tests.http.browsing import Tabs
from tests.http.pages.account.conftest import ACTING, COOKIE
from tests.http.pages.console.platform.conftest import HOME, PlatformScene

REASON: Final = "Ticket 4711"


async def begin(platform: PlatformScene) -> None:
    tab = await platform.answer(f"/people/{platform.ada.user}/act-as", reason=REASON)
    assert (tab.status, tab.place) == (200, "/ui"), tab.page.text


async def test_a_platform_owner_acts_as_a_person_and_stops(platform: PlatformScene) -> None:
    own = platform.tabs.cookies[COOKIE]
    await begin(platform)
    assert "You are impersonating" in platform.tab.page.text
    assert platform.ada.email in platform.tab.page.text
    # Ada's console opens, and tells under whose name one acts.
    tab = await platform.tab.open("/ui/o/acme/events")
    assert tab.status == 200
    assert "You are impersonating" in tab.page.text
    tab = await platform.tab.open("/ui/organizations")
    assert "/ui/o/acme" in tab.page.links
    started = platform.audited("security.impersonation.started")
    assert [one["actor_id"] for one in started] == [platform.grace.user]
    assert {one["details"]["path"] for one in platform.audited("security.impersonation.%") if "path" in one["details"]} >= {
        "/ui",
        "/ui/organizations",
        "/ui/o/acme/events",
    }
    tab = await platform.send_to("/ui/stop-acting")
    assert tab.place == f"{HOME}/people/{platform.ada.user}"
    assert (platform.tabs.cookies.get(ACTING), platform.tabs.cookies[COOKIE]) == (None, own)
    assert platform.people.rows("select from sessions where impersonator_id is not null and revoked_at is null") == []


@pytest.mark.parametrize(
    "place",
    [
        "/ui/password",
        "/ui/second-factor",
        "/ui/devices",
        "/ui/sessions",
        "/ui/passkeys",
        "/ui/profile",
        "/ui/applications",
        "/ui/organizations/~new",
        "/ui/organizations/invitations",
        HOME,
        f"{HOME}/people",
        "/ui/o/acme/keys/~new",
    ],
)
async def test_what_is_the_persons_own_stays_closed(place: str, platform: PlatformScene) -> None:
    await begin(platform)
    tab = await platform.tab.open(place)
    assert tab.status == 403, tab.page.text


async def test_flows_know_the_platform_owners_own_session_alone(platform: PlatformScene) -> None:
    await begin(platform)
    # The cookie of the session in somebody's name is no cookie of a session of one's own.
    acting = platform.tabs.cookies[ACTING]
    thief = Tabs(platform.client)
    thief.cookies = {COOKIE: acting}
    assert (await thief.tab().open("/ui/password")).place.startswith("/ui/sign-in")
    assert (await thief.tab().open("/ui/o/acme/events")).place.startswith("/ui/sign-in")
    # Nor does it count without the platform owner's own, or beside another session of the same person.
    thief.cookies = {ACTING: acting}
    assert (await thief.tab().open("/ui")).place.startswith("/ui/sign-in")
    other = platform.browser(platform.people.add(platform_owner=True))
    other.cookies[ACTING] = acting
    assert "You are impersonating" not in (await other.tab().open("/ui")).page.text
    assert (await other.tab().open("/ui/o/acme/events")).status == 403


async def test_forms_belong_to_one_of_the_two_sessions(platform: PlatformScene) -> None:
    await platform.at(f"/people/{platform.ada.user}/deactivate")
    form = platform.tab.page.forms[-1]
    await begin(platform)
    # The form of the platform owner's own session is closed while acting.
    assert (await platform.tab._go("POST", form.action, form.fields)).status == 403
    await platform.tab.open("/ui")
    while_acting = platform.tab.page.forms[0].fields
    await platform.send_to("/ui/stop-acting")
    # A token that was shown while acting is good for nothing afterwards.
    assert (await platform.tab._go("POST", form.action, while_acting)).status == 403
    assert platform.people.rows("select from users where deactivated_at is not null") == []
    assert (await platform.tab._go("POST", form.action, form.fields)).status == 200


async def test_acting_ends_with_the_own_session_and_stopping_twice_is_harmless(platform: PlatformScene) -> None:
    await begin(platform)
    form = next(one for one in platform.tab.page.forms if one.action == "/ui/stop-acting")
    cookies = dict(platform.tabs.cookies)
    for _ in range(2):
        platform.tabs.cookies.update(cookies)
        assert (await platform.tab._go("POST", form.action, form.fields)).status == 200
    await begin(platform)
    acting = dict(platform.tabs.cookies)
    await platform.send_to("/ui/stop-acting")
    await platform.at()
    await platform.send_to("/ui/sign-out")
    platform.tabs.cookies.update(acting)
    assert (await platform.tab.open("/ui")).place.startswith("/ui/sign-in")


async def test_whom_nobody_acts_as(platform: PlatformScene) -> None:
    other = platform.people.add(platform_owner=True)
    tab = await platform.answer(f"/people/{other.user}/act-as", reason=REASON)
    assert tab.status == 400
    tab = await platform.answer(f"/people/{platform.ada.user}/act-as", reason=" ")
    assert tab.status == 400
    await platform.at(f"/people/{platform.ada.user}/act-as")
    platform.people.change("update users set deactivated_at = now() where id = %s", platform.ada.user)
    assert (await platform.send_to(f"{HOME}/people/{platform.ada.user}/act-as", reason=REASON)).status == 400
    assert platform.people.rows("select from sessions where impersonator_id is not null") == []


async def test_acting_ends_at_once_when_the_office_does(platform: PlatformScene) -> None:
    await begin(platform)
    platform.people.change("update users set is_platform_owner = false where id = %s", platform.grace.user)
    tab = await platform.tab.open("/ui")
    assert "You are impersonating" not in tab.page.text
