"""The round trips of a sign-in through a provider, and the checks that so few round trips must still make."""

from typing import Any

import pytest

from core.domain.rate_limits import RateLimit
from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.http.application import build_application
from entrypoints.http.pages.sign_in import upstream_pages
from tests.changed_fields import answer_by
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.federation.arriving import is_page
from tests.http.upstream.scene import UpstreamScene


def trips(scene: UpstreamScene, route: str) -> int:
    """The round trips of the last request."""
    line = scene.log.events("request")[-1]
    assert line["route"] == route
    return int(line["db_round_trips"])


def limited(scene: UpstreamScene) -> Tabs:
    return Tabs(Client(build_application(scene.postern, SETTINGS), "203.0.113.9"))


async def test_leaving_is_one_round_trip_and_coming_back_four(scene: UpstreamScene) -> None:
    fake = scene.sits()
    await scene.go(scene.browser())
    for tabs, of_the_limit in ((scene.browser(), 0), (limited(scene), 1)):
        place = fake.consent(await scene.leave(tabs))
        assert trips(scene, "/auth/{provider}") == 1 + of_the_limit
        assert (await tabs.request("GET", place)).status == 303
        assert trips(scene, "/auth/{provider}/callback") == 4 + of_the_limit


async def test_an_application_costs_the_look_at_it_and_the_code_besides(scene: UpstreamScene) -> None:
    fake = scene.sits()
    await scene.go(scene.browser(), scene.direct())
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    assert trips(scene, "/auth/{provider}") == 2
    assert (await tabs.request("GET", place)).status == 302
    assert trips(scene, "/auth/{provider}/callback") <= 9


async def test_what_is_gone_on_with_is_what_a_look_up_would_find(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.sits()
    await scene.go(scene.browser())
    scene.people.change("update users set language = 'de'")
    sessions: Any = scene.postern.identity.browser_sessions
    signed_in, entered = sessions.sign_in_with_proof, []

    async def listening(*given: Any, **more: Any) -> Any:
        entered.append(await signed_in(*given, **more))
        return entered[-1]

    answer_by(monkeypatch, sessions, "sign_in_with_proof", listening)
    tabs = scene.browser()
    await scene.go(tabs)
    (one,) = entered
    assert tabs.session == one.token.reveal()
    caller = await scene.postern.tenancy.callers.resolve_browser(one.token)
    assert caller is not None
    assert replace(one.caller, belongs_to_several=None) == caller
    browser = Token(tabs.cookies["__Host-postern_flow"])
    assert one.flow == await scene.postern.identity.flows.find(one.flow.id, browser)
    assert one.flow.session == caller.session


async def test_whoever_belongs_to_several_organizations_is_asked_which_one(scene: UpstreamScene) -> None:
    scene.sits()
    ada = scene.verified()
    await scene.go(scene.browser())
    others = [scene.tenants.add(slug) for slug in ("globex", "initech")]
    scene.tenants.join(ada, others[0])
    assert (await scene.go(scene.browser())).header("location") == "/ui"
    scene.tenants.join(ada, others[1])
    assert (await scene.go(scene.browser())).header("location") == "/ui/choose-organization"
    # One that is being deleted is none any more.
    scene.people.change("update all_organizations set deleted_at = now() where slug = 'initech'")
    assert (await scene.go(scene.browser())).header("location") == "/ui"


async def test_who_cannot_leave_leaves_no_state_behind(scene: UpstreamScene) -> None:
    provider = await scene.own_provider(domain="")
    tabs = scene.browser()
    tab = await tabs.tab().open(f"/auth/{provider}?org=acme")
    (button,) = [link for link in tab.page.links if link.startswith(f"/auth/{provider}")]
    scene.people.change("update upstream_providers set enabled = false")
    is_page(await tabs.request("GET", button), 400, "is not set up or was turned off")
    await scene.leave(tabs, "?org=acme")
    scene.people.change("delete from oauth_states")
    scene.people.change("update all_organizations set status = 'suspended'")
    is_page(await tabs.request("GET", "/auth/websuite?org=acme"), 404)
    assert scene.people.rows("select from oauth_states") == []


async def test_somebody_connects_an_identity_while_their_organization_is_suspended(scene: UpstreamScene) -> None:
    ada = scene.people.add("ada@home.example")
    scene.tenants.join(ada, scene.acme)
    fake = scene.sits()
    tabs = scene.signed_in(ada, age=1)
    scene.people.change("update browser_sessions set chosen_organization = %s", scene.acme.id)
    scene.people.change("update all_organizations set status = 'suspended'")
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(len(tab.page.forms) - 1)
    answer = await tabs.request("GET", fake.consent(tab.page.refresh))
    assert "status=success" in (answer.header("location") or "")


async def test_only_codes_of_devices_are_tried(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong device code counts as a try, and no other refusal of this page does."""
    # Fewer than the limit of all of `/auth/*` lets through.
    few = RateLimit("user_codes", burst=3, seconds_per_request=1000)
    monkeypatch.setattr(upstream_pages, "USER_CODES", few)
    tabs = limited(scene)
    for _ in range(few.burst + 1):
        is_page(await tabs.request("GET", "/auth/websuite?org=nothing"), 404)
    answers = [(await tabs.request("GET", "/auth/websuite?user_code=BCDF-GHJK")).status for _ in range(few.burst + 1)]
    assert answers == [404] * few.burst + [429]
