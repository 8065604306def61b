"""Set-up links by the API, and the browser that owns them."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.postgres.upkeep import housekeeping
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.setup import MOST_LINKS, SETUP_LINK_LIFETIME
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import LINKS, SetupScene


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[SetupScene]:
    async with proving(SetupScene, postern, people, log, tmp_path, "example.org") as scene:
        yield scene


async def test_a_link_is_shown_once_and_kept_as_a_digest(scene: SetupScene) -> None:
    made = (await scene.make("scim", "domain", name=" Night ")).ok(201)
    assert (made["name"], made["purposes"], made["activates"], made["mailed_to"]) == ("Night", ["domain", "scim"], False, None)
    assert (
        datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"]) == SETUP_LINK_LIFETIME == timedelta(days=7)
    )
    token = made["url"].removeprefix(f"{BASE_URL}/ui/setup/")
    assert token.startswith("pts_")
    (listed,) = (await scene.request("GET", LINKS)).ok()["setup_links"]
    assert listed == await scene.shown(made["id"])
    assert (listed["prefix"], listed["state"], listed["created_by"]) == (token[:10], "unused", str(scene.owner.user))
    assert (listed["by_platform"], listed["used_by"], listed["drafts"]) == (False, None, [])
    assert token not in str(scene.people.rows("select setup_links::text as row from setup_links"))
    (event,) = scene.audited("setup_link%")
    assert (event["action"], event["target_id"], event["actor_id"]) == ("setup_link.created", made["id"], scene.owner.user)


async def test_what_is_no_link_is_refused(scene: SetupScene) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {"name": " "},
        {"name": "x" * 101},
        {"purposes": []},
        {"purposes": ["members"]},
        {"email": "nobody"},
        {"language": "xx"},
    )
    for body in bodies:
        assert refused(await scene.make(**{"name": "x", **body})) == (400, "BAD_REQUEST"), body
    scene.people.change(
        "insert into setup_links (id, org_id, name, prefix, digest, purposes, activates, by_platform, expires_at, created_by, created_at)"
        " select gen_random_uuid(), %s, 'x', n::text, sha256(n::text::bytea), '{domain}', false, false, now(), gen_random_uuid(), now()"
        " from generate_series(1, %s) as n",
        *(scene.acme.id, MOST_LINKS),
    )
    assert refused(await scene.make()) == (400, "BAD_REQUEST")


async def test_who_may_make_a_link(scene: SetupScene) -> None:
    """An admin makes links; one that activates by itself only an owner; nobody one for what they may not do themselves."""
    assert (await scene.make(by=scene.admin)).status == 201
    assert refused(await scene.make(by=scene.admin, activates=True)) == (403, "FORBIDDEN")
    assert (await scene.make(activates=True)).ok(201)["activates"] is True
    settings = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SETTINGS_MANAGE]))
    assert (await scene.make("domain", "connection", by=settings)).status == 201
    for purpose in ("scim", "siem"):
        assert refused(await scene.make("domain", purpose, by=settings)) == (403, "FORBIDDEN")
    assert refused(await scene.make(by=scene.resident(scene.acme, "member"))) == (403, "FORBIDDEN")
    assert refused(await scene.make(by=scene.stranger)) == (403, "FORBIDDEN")
    for person in (scene.owner, scene.governor):
        scene.people.change(
            "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s", person.session
        )
    assert refused(await scene.make()) == (401, "REAUTHENTICATION_REQUIRED")
    assert refused(await scene.make(by=scene.governor, place=scene.of_platform)) == (401, "REAUTHENTICATION_REQUIRED")


async def test_platform_owners_make_links_for_customers(scene: SetupScene) -> None:
    own, _ = await scene.link("domain")
    theirs, url = await scene.link("domain", by=scene.governor, place=scene.of_platform)
    listed = (await scene.request("GET", scene.of_platform, by=scene.governor)).ok()
    # What the organization's own members have made is none of their business.
    assert [one["id"] for one in listed["setup_links"]] == [theirs]
    for method, path in (("GET", f"/{own}"), ("DELETE", f"/{own}"), ("POST", f"/{own}/release")):
        assert (await scene.request(method, f"{scene.of_platform}{path}", by=scene.governor)).status == 404
    tab = await scene.press(url)
    assert tab.status == 200
    shown = (await scene.request("GET", f"{scene.of_platform}/{theirs}", by=scene.governor)).ok()
    assert (shown["by_platform"], shown["activates"], shown["used_by"]) == (True, False, "Grace Hopper")
    assert (await scene.request("POST", f"{scene.of_platform}/{theirs}/release", by=scene.governor)).status == 204
    # The link does nothing when its maker has left the office.
    scene.people.change("update users set is_platform_owner = false where id = %s", scene.governor.user)
    assert "no longer has permission to do this" in (await Tabs(scene.client).tab().open(url)).page.text
    scene.people.change("update users set is_platform_owner = true where id = %s", scene.governor.user)
    assert (await scene.request("DELETE", f"{scene.of_platform}/{theirs}", by=scene.governor)).status == 204
    nowhere = scene.of_platform.replace(str(scene.acme.id), str(scene.owner.user))
    assert (await scene.make(by=scene.governor, place=nowhere)).status == 404
    assert refused(await scene.make(by=scene.owner, place=scene.of_platform)) == (403, "FORBIDDEN")


async def test_a_mail_has_the_link_and_nothing_else_that_is_secret(scene: SetupScene) -> None:
    made = (await scene.make("domain", email="Grace@example.org", language="de")).ok(201)
    (mail,) = await Postbox(scene.postern).empty()
    assert (mail.to, made["mailed_to"]) == ("Grace@example.org", "Grace@example.org")
    assert made["url"] in mail.text
    assert "Acme" in mail.subject
    (event,) = scene.audited("setup_link.created")
    assert made["url"].rpartition("/")[2] not in str(event)
    await scene.make("domain")
    assert await Postbox(scene.postern).empty() == []


async def test_a_link_of_another_organization_is_none(scene: SetupScene) -> None:
    link, _ = await scene.link("domain")
    theirs = "/api/organizations/globex/setup-links"
    assert (await scene.request("GET", theirs, by=scene.stranger)).ok() == {"setup_links": [], "total": 0}
    draft = f"/{link}/drafts/{link}/activate"
    for method, path in (("GET", f"/{link}"), ("DELETE", f"/{link}"), ("POST", f"/{link}/release"), ("POST", draft)):
        body = {"digest": "0" * 64} if path == draft else None
        assert (await scene.request(method, f"{theirs}{path}", body, by=scene.stranger)).status == 404
    assert (await scene.shown(link))["state"] == "unused"


async def test_the_first_browser_that_presses_the_button_owns_the_link(scene: SetupScene) -> None:
    link, url = await scene.link("domain", "siem")
    scanner = Tabs(scene.client)
    for _ in range(3):
        page = await scanner.tab().open(url)
        assert (page.status, "Setup for Acme" in page.page.text) == (200, True)
    assert (await scene.shown(link))["state"] == "unused"
    nameless = await (await Tabs(scene.client).tab().open(url)).send(name=" ")
    assert (nameless.status, "Enter your name" in nameless.page.text) == (400, True)

    tab = await scene.press(url)
    assert (tab.status, tab.place) == (200, f"/ui/setup/of/{link}")
    shown = await scene.shown(link)
    assert (shown["state"], shown["used_by"], shown["used_from"]) == ("in_use", "Grace Hopper", "192.0.2.1")
    assert "Firefox" in shown["used_with"]
    (used,) = scene.people.rows("select actor_id, details from audit_log where action = 'setup_link.used'")
    assert str(used["actor_id"]) == link
    assert used["details"]["acting_key"]["kind"] == "setup_link"
    # The same browser comes back by the link; any other learns why it does not.
    again = await tab.tabs.tab().open(url)
    assert (again.status, again.place) == (200, f"/ui/setup/of/{link}")
    for other in (await scanner.tab().open(url), await Tabs(scene.client).tab().open(url)):
        assert (other.status, "is in use in another browser" in other.page.text) == (403, True)
        assert "Grace" not in other.page.text
    assert (await Tabs(scene.client).tab().open(f"/ui/setup/of/{link}")).status == 403
    assert (await scanner.tab().open(f"/ui/setup/of/{link}")).status == 403

    # The one who made the link releases it.
    assert (await scene.request("POST", f"{LINKS}/{link}/release")).status == 204
    assert "was released" in (await tab.tabs.tab().open(f"/ui/setup/of/{link}")).page.text
    assert (await scene.request("POST", f"{LINKS}/{link}/release")).status == 404
    assert (await scene.shown(link))["used_by"] is None
    assert (await scene.press(url, scanner)).status == 200
    assert scene.events() == ["setup_link.created", "setup_link.used", "setup_link.released", "setup_link.used"]


async def test_of_two_browsers_at_once_one_wins(scene: SetupScene) -> None:
    link, url = await scene.link("domain")
    tabs = [await Tabs(scene.client).tab().open(url) for _ in range(4)]
    done = await all_at_once(*(lambda tab=tab: tab.send(name="Grace") for tab in tabs))
    assert sorted(tab.status for tab in done) == [200, 403, 403, 403]
    assert scene.events() == ["setup_link.created", "setup_link.used"]
    # One browser that presses twice owns the link once.
    other, url = await scene.link("domain")
    browser = Tabs(scene.client)
    twice = [await browser.tab().open(url), await browser.tab().open(url)]
    done = await all_at_once(*(lambda tab=tab: tab.send(name="Grace") for tab in twice))
    assert [tab.status for tab in done] == [200, 200]
    assert (await scene.shown(other))["state"] == "in_use"
    assert (await scene.shown(link))["state"] == "in_use"


async def test_a_form_of_another_site_or_browser_does_nothing(scene: SetupScene) -> None:
    link, url = await scene.link("domain")
    tab = await Tabs(scene.client).tab().open(url)
    answer = await scene.client.post(
        url, b"name=x", headers=[("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")]
    )
    assert answer.status == 403
    tab.tabs.cookies.clear()
    assert (await tab.send(name="Grace")).status == 403
    assert (await scene.shown(link))["state"] == "unused"
    tab = await scene.press(url)
    shown = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    assert (await tab.tabs.request("POST", shown.page.forms[0].action, {"domain": "example.org"})).status == 403
    token = shown.page.forms[0].fields["form_token"]
    other, second = await scene.link("domain")
    await scene.press(second, tab.tabs)
    assert (await tab.tabs.request("POST", f"/ui/setup/of/{other}/domain", {"domain": "example.org", "form_token": token})).status == 303
    assert (await scene.shown(link))["drafts"] == []


async def test_an_ended_link_opens_nothing_and_says_why(scene: SetupScene) -> None:
    """Each in its own words, in the browser that owned the link and in any other."""
    cases: list[tuple[str, str, str]] = [
        ("update setup_links set expires_at = now() where id = %s", "setup link expired after seven days", "for a new link"),
        ("update setup_links set revoked_at = now() where id = %s", "Acme revoked this setup link", "whether a new link is available"),
        (
            "update all_organizations set status = 'suspended' where id = (select org_id from setup_links where id = %s)",
            "Acme is currently not active",
            "active again",
        ),
        (
            "update users set deactivated_at = now() where id = (select created_by from setup_links where id = %s)",
            "no longer has permission to do this",
            "from someone who has the permission",
        ),
    ]
    links = [(*await scene.link("domain", by=scene.admin), *case) for case in cases]
    opened = [(await scene.press(url), link, url, change, said, advised) for link, url, change, said, advised in links]
    for tab, link, url, change, said, advised in opened:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
        assert page.status == 200
        scene.people.change(change, link)
        for place in (url, f"/ui/setup/of/{link}", f"/ui/setup/of/{link}/domain"):
            shown = await tab.tabs.tab().open(place)
            assert (shown.status, said in shown.page.text, advised in shown.page.text) == (403, True, True), (place, shown.page.text)
        assert (await page.send(domain="example.org")).status == 403
        scene.people.change("update all_organizations set status = 'active'")
        scene.people.change("update users set deactivated_at = null")
    assert [(await scene.shown(link))["state"] for _, link, *_ in opened] == ["expired", "revoked", "in_use", "in_use"]
    assert "This setup link is not valid" in (await Tabs(scene.client).tab().open("/ui/setup/pts_unknown")).page.text
    assert scene.people.rows("select from setup_drafts") == []


async def test_the_maker_who_may_no_longer_leaves_the_link_nothing(scene: SetupScene) -> None:
    link, url = await scene.link("domain", "siem", by=scene.admin)
    tab = await scene.press(url)
    scene.people.change("delete from relations where user_id = %s", scene.admin.user)
    scene.people.change(
        "insert into relations (organization_id, user_id, relation, object_type, object_id) values (%s, %s, 'org.settings.manage',"
        " 'organization', %s)",
        *(scene.acme.id, scene.admin.user, scene.acme.id),
    )
    assert (await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")).status == 200
    assert (await tab.tabs.tab().open(f"/ui/setup/of/{link}/siem")).status == 403


async def test_revoking_drops_what_is_not_active(scene: SetupScene) -> None:
    link, tab = await scene.begun("domain", "scim")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    await page.send(domain="example.org")
    assert [one["subject"] for one in (await scene.shown(link))["drafts"]] == ["example.org"]
    form = await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")
    assert (await scene.request("DELETE", f"{LINKS}/{link}", by=scene.admin)).status == 204
    assert (await form.send()).status == 403
    shown = await scene.shown(link)
    assert (shown["state"], shown["drafts"]) == ("revoked", [])
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 404
    (event,) = scene.audited("setup_link.revoked")
    assert (event["details"]["dropped_drafts"], event["actor_id"]) == (1, scene.admin.user)


async def test_ended_links_go_after_thirty_days(scene: SetupScene) -> None:
    link, tab = await scene.begun("domain")
    await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")).send(domain="example.org")
    sweep = housekeeping.sweep(scene.postern.foundation.pool, "PastSetupLinks")
    scene.people.change("update setup_links set expires_at = now() - interval '29 days'")
    assert await sweep.delete_expired(10) == 0
    scene.people.change("update setup_links set expires_at = now() - interval '31 days'")
    assert await sweep.delete_expired(10) == 1
    assert scene.people.rows("select from setup_drafts") == []


async def test_impersonation_and_keys_make_none(scene: SetupScene) -> None:
    key = scene.tenants.management_key(scene.acme, scene.owner, [one.value for one in Capability])
    body: dict[str, Any] = {"name": "x", "purposes": ["domain"]}
    assert refused(await scene.client.post(LINKS, body, token=key)) == (403, "FORBIDDEN")
    assert refused(await scene.client.get(LINKS, token=key)) == (403, "FORBIDDEN")
    platform = scene.tenants.management_key(None, scene.governor, ["organizations.manage"])
    assert refused(await scene.client.post(scene.of_platform, body, token=platform)) == (403, "FORBIDDEN")
