"""What somebody sets up with a link: a domain, a directory's token, a receiver. It has no effect before an owner, or the link, says so."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from core.domain.secrets import Token
from core.domain.tenancy.domains import MOST_ROUTES, TOO_MANY
from core.domain.tenancy.setup import MOST_DOMAINS
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import LINKS, SetupScene
from tests.receiver import Receiver, answering, receiving

SECRET = "5f0c1a7e-secret-of-the-receiver"


class DraftScene(SetupScene):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.log.remember(SECRET)

    async def domain(self, tab: Tab, link: str, name: str = "example.org", *, published: bool = True) -> Tab:
        """Names a domain, publishes its record if so, and lets Postern look."""
        page = await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain?more")).send(domain=name)
        if published:
            self.published(name)
        return await page.send()

    def published(self, name: str) -> None:
        (row,) = self.people.rows("select settings ->> 'token' as token from setup_drafts where subject = %s", name)
        self.records[f"_postern-verification.{name}", "TXT"] = [f'"{row["token"]}"']

    async def drafts(self, link: str) -> list[dict[str, Any]]:
        drafts: list[dict[str, Any]] = (await self.shown(link))["drafts"]
        return drafts

    async def routes(self) -> list[tuple[str, bool]]:
        answer = await self.request("GET", "/api/organizations/acme/domain-routes")
        return [(one["domain"], one["verified"]) for one in answer.json()]

    async def token(self, tab: Tab, link: str) -> str:
        """The new token of a directory, which the page shows once."""
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")
        page = await page.send(next(at for at, form in enumerate(page.page.forms) if form.action.endswith("/scim")))
        token = page.shown.body.decode().partition('id="scim-token">')[2].partition("<")[0]
        self.log.remember(token)
        return token

    async def reads(self, token: str) -> int:
        return (await self.client.get("/scim/v2/Users", token=token)).status

    async def receiver(self, tab: Tab, link: str, receiver: Receiver, **more: str) -> Tab:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/siem")
        form = next(at for at, one in enumerate(page.page.forms) if "endpoint_url" in one.fields)
        return await page.send(form, **{"endpoint_url": f"http://127.0.0.1:{receiver.port}/in", "api_key": SECRET, **more})


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[DraftScene]:
    async with proving(DraftScene, postern, people, log, tmp_path, "example.org", "example.net", "globex.example") as scene:
        yield scene


async def test_a_domain_is_proved_and_waits_for_an_owner(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain", by=scene.admin)
    page = await scene.domain(tab, link, published=False)
    assert "The record was not found" in page.page.text
    assert [one["state"] for one in await scene.drafts(link)] == ["draft"]
    scene.published("example.org")
    page = await page.send()
    assert "Domain verified" in page.page.text
    (draft,) = await scene.drafts(link)
    assert (draft["state"], draft["subject"], await scene.routes()) == ("tested", "example.org", [])
    page = await page.send()
    assert "waiting for approval by an owner of Acme" in page.page.text
    (mail,) = await Postbox(scene.postern).empty()
    assert (mail.to, f"/ui/o/acme/directories/setup-links/{link}/drafts" in mail.text) == ("owner@acme.example", True)
    assert await scene.routes() == []
    # An owner decides, once, freshly proved; whoever repeats it learns the same.
    assert refused(await scene.activate(link, draft["id"], scene.admin)) == (403, "FORBIDDEN")
    done = await all_at_once(*(lambda: scene.activate(link, draft["id"]) for _ in range(3)))
    assert [one.ok()["state"] for one in done] == ["active"] * 3
    assert await scene.routes() == [("example.org", True)]
    shown = await scene.shown(link)
    assert (shown["state"], shown["drafts"][0]["state"]) == ("finished", "active")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain/{draft['id']}")
    assert "This setup is active" in page.page.text
    # The link has no hold on it, and nothing else to do.
    for act in ("look", "remove", "finish"):
        place = f"/ui/setup/of/{link}/{'domain' if act == 'look' else 'drafts'}/{draft['id']}/{act}"
        token = scene.token_of(page)
        assert (await tab.tabs.request("POST", place, {"form_token": token})).status in {303, 403, 409}
    assert await scene.routes() == [("example.org", True)]
    assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
    assert await scene.routes() == [("example.org", True)]
    names = [event for event in scene.events("%") if event.startswith(("setup_link", "domain_route"))]
    assert names == [
        *("setup_link.created", "setup_link.used", "setup_link.draft.waiting"),
        *("domain_route.created", "domain_route.verified", "setup_link.draft.activated", "setup_link.revoked"),
    ]
    (waiting,) = scene.people.rows("select actor_id, details -> 'acting_key' ->> 'kind' as kind from audit_log where action ~ 'waiting'")
    assert (str(waiting["actor_id"]), waiting["kind"]) == (link, "setup_link")


async def test_a_link_that_activates_does_so_in_its_own_name(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain", activates=True)
    page = await (await scene.domain(tab, link)).send()
    assert "This setup is active" in page.page.text
    assert await scene.routes() == [("example.org", True)]
    rows = scene.people.rows("select distinct actor_id::text as who from audit_log where action like 'domain_route%%'")
    assert [row["who"] for row in rows] == [link]
    assert await Postbox(scene.postern).empty() == []
    assert (await scene.shown(link))["state"] == "finished"


async def test_a_link_whose_maker_is_no_longer_an_owner_activates_nothing_by_itself(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain", activates=True, by=scene.owner)
    page = await scene.domain(tab, link)
    transfer = {"new_owner_user_id": str(scene.admin.user)}
    assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", transfer)).status == 200
    page = await page.send()
    assert "waiting for approval by an owner of Acme" in page.page.text
    assert await scene.routes() == []


async def test_a_proof_that_is_gone_stops_the_last_step(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain", activates=True)
    page = await scene.domain(tab, link)
    scene.records.clear()
    stopped = await page.send()
    assert (stopped.status, "The verification record of the domain was not found" in stopped.page.text) == (409, True)
    assert await scene.routes() == []
    waits, tab = await scene.begun("domain")
    scene.records["example.net", "A"] = ["93.184.215.14"]
    await (await scene.domain(tab, waits, "example.net")).send()
    (draft,) = await scene.drafts(waits)
    scene.records.clear()
    assert refused(await scene.activate(waits, draft["id"])) == (400, "BAD_REQUEST")


async def test_domains_that_cannot_be_set_up(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain", activates=True)
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    for name in ("", "gmail.com", "example", "ada@example.org", "xn--", "x" * 300):
        assert "not a company domain" in (await page.send(domain=name)).page.text, name
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    await scene.request("POST", "/api/organizations/acme/domain-routes", {"domain": "example.net"})
    assert "already has this domain" in (await page.send(domain="example.net")).page.text
    # Another organization has proved the domain meanwhile.
    await scene.domain(tab, link)
    scene.people.change(
        "insert into domain_routes (id, org_id, domain, token, verified_at, next_check_at, login_policy, join_policy, created_at,"
        " updated_at) values (gen_random_uuid(), %s, 'example.org', 't', now(), now(), 'password_allowed', 'off', now(), now())",
        scene.globex.id,
    )
    (draft,) = await scene.drafts(link)
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain/{draft['id']}")
    stopped = await page.send()
    assert (stopped.status, "Another organization has verified this domain" in stopped.page.text) == (409, True)
    assert [one["state"] for one in await scene.drafts(link)] == ["tested"]
    for number in range(MOST_DOMAINS - 1):
        await scene.domain(tab, link, f"d{number}.example.org", published=False)
    full = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    assert len(await scene.drafts(link)) == MOST_DOMAINS
    assert full.page.forms == []


async def test_a_directory_gets_a_token_once_and_its_first_request_is_seen(scene: DraftScene) -> None:
    link, tab = await scene.begun("scim")
    token = await scene.token(tab, link)
    assert token.startswith("scim_")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")
    assert token not in page.shown.body.decode()
    assert "No requests with this token yet" in page.page.text
    assert await scene.reads(token) == 401
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")
    assert "First SCIM request received" in page.page.text
    # Another token takes the place of the first.
    second = await scene.token(tab, link)
    (draft,) = await scene.drafts(link)
    assert draft["state"] == "draft"
    await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")).send()
    assert (await scene.activate(link, draft["id"])).ok()["state"] == "active"
    assert (await scene.reads(second), await scene.reads(token)) == (200, 401)
    assert token not in str(scene.people.rows("select setup_drafts::text as row from setup_drafts"))
    assert "is active" in (await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")).open(f"/ui/setup/of/{link}/scim")).page.text
    by_itself, tab = await scene.begun("scim", activates=True)
    token = await scene.token(tab, by_itself)
    page = await tab.tabs.tab().open(f"/ui/setup/of/{by_itself}/scim")
    await page.send()
    assert await scene.reads(token) == 200
    (row,) = scene.people.rows("select created_by from scim_tokens where id = %s", (await scene.drafts(by_itself))[0]["id"])
    assert row["created_by"] == scene.owner.user


async def test_a_receiver_is_tried_and_kept_sealed(scene: DraftScene) -> None:
    async with receiving(answering(403)) as receiver:
        link, tab = await scene.begun("siem")
        page = await scene.receiver(tab, link, receiver)
        assert "The receiver rejected the API key" in page.page.text
        assert (await scene.drafts(link))[0]["state"] == "draft"
        receiver.answer = answering(200)
        # The key stays while the host stays.
        page = await scene.receiver(tab, link, receiver, api_key="")
        assert "127.0.0.1 accepted the test event" in page.page.text
        assert receiver.calls[-1].headers["authorization"] == f"Bearer {SECRET}"
        assert SECRET.encode() not in str(scene.people.rows("select setup_drafts::text as row from setup_drafts")).encode()
        columns = PostgresSealedColumns(scene.postern.foundation.pool, scene.postern.foundation.keyring)
        assert len(await columns.all("setup_drafts.sealed_credentials", None, 10)) == 1
        page = await page.send()
        assert "waiting for approval by an owner" in page.page.text
        # A change takes it back, until it is tried and handed over again.
        page = await scene.receiver(tab, link, receiver, name="Another", api_key="")
        (draft,) = await scene.drafts(link)
        assert draft["state"] == "tested"
        assert "waiting for approval by an owner" in (await page.send()).page.text
        assert (await scene.activate(link, draft["id"])).ok()["state"] == "active"
        shown = (await scene.request("GET", "/api/organizations/acme/siem")).ok()
        assert (shown["id"], shown["has_credentials"]) == (draft["id"], True)
        calls = len(receiver.calls)
        assert (await scene.request("POST", "/api/organizations/acme/siem/test")).ok()["success"]
        assert receiver.calls[calls].headers["authorization"] == f"Bearer {SECRET}"
        (kept,) = scene.people.rows("select sealed_credentials, digest from setup_drafts")
        assert (kept["sealed_credentials"], kept["digest"]) == (None, None)
        # A second receiver does not take the place of the first by itself.
        other, tab = await scene.begun("siem", activates=True)
        stopped = await (await scene.receiver(tab, other, receiver)).send()
        assert (stopped.status, "already has a log stream" in stopped.page.text) == (409, True)


async def test_receivers_that_cannot_be_tried(scene: DraftScene) -> None:
    link, tab = await scene.begun("siem")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/siem")
    cases: tuple[tuple[dict[str, str], str], ...] = (
        ({"endpoint_url": "ftp://siem.example"}, "This URL cannot be used"),
        ({"endpoint_url": "http://10.0.0.1/"}, "is not public"),
        ({"endpoint_url": "https://169.254.169.254/"}, "is not public"),
        ({"endpoint_url": "https://siem.example/", "name": " "}, "Enter a name of at most 100 characters"),
        ({"endpoint_url": "https://siem.example/", "provider_type": "other"}, "Choose a receiver type"),
        ({"endpoint_url": "https://siem.example/", "api_key": "a\x07"}, "at most 2000 ASCII characters"),
        ({"endpoint_url": "https://siem.example/", "auth_header": "Host: x"}, "cannot carry credentials"),
    )
    for fields, said in cases:
        answer = await page.send(**fields)
        assert (answer.status, said in answer.page.text) == (400, True), (fields, answer.page.text)
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/siem")
    assert await scene.drafts(link) == []
    async with receiving(answering(200, b"<html>")) as receiver:
        port = receiver.port
    gone = Receiver(answering(200), port)
    assert "The connection to this URL failed" in (await scene.receiver(tab, link, gone)).page.text


async def test_nothing_is_handed_over_untested(scene: DraftScene) -> None:
    """The buttons are not there; whoever sends their forms all the same learns why not."""
    link, tab = await scene.begun("domain", "siem")
    page = await scene.domain(tab, link, published=False)
    (draft,) = await scene.drafts(link)
    form = {"form_token": scene.token_of(page)}
    said = (await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", form)).body.decode()
    assert "The last test failed" in said
    assert refused(await scene.activate(link, draft["id"])) == (400, "BAD_REQUEST")
    scene.people.change("update setup_drafts set tested_at = null, came = ''")
    said = (await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{draft['id']}/finish", form)).body.decode()
    assert "has not been tested yet" in said
    assert (await tab.tabs.request("POST", f"/ui/setup/of/{link}/drafts/{uuid4()}/finish", form)).status == 404
    # Another link's draft is none of this one's.
    other, theirs = await scene.begun("domain")
    token = scene.token_of(await theirs.tabs.tab().open(f"/ui/setup/of/{other}/domain"))
    for act in ("finish", "remove"):
        place = f"/ui/setup/of/{other}/drafts/{draft['id']}/{act}"
        assert (await theirs.tabs.request("POST", place, {"form_token": token})).status == 404
    assert (await theirs.tabs.request("POST", f"/ui/setup/of/{other}/domain/{draft['id']}/look", {"form_token": token})).status == 404
    assert (await scene.activate(other, draft["id"])).status == 404
    # A link opens what it is for, and no more.
    for part in ("scim", "connection", "siem"):
        assert (await theirs.tabs.tab().open(f"/ui/setup/of/{other}/{part}")).status == 404, part
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain/{draft['id']}")
    await page.send(len(page.page.forms) - 1)
    assert await scene.drafts(link) == []


async def test_a_link_that_is_revoked_while_it_looks_changes_nothing(scene: DraftScene) -> None:
    link, tab = await scene.begun("siem")

    async def answer(stream: Any, call: Any) -> bool:
        assert (await scene.request("DELETE", f"{LINKS}/{link}")).status == 204
        return await answering(200)(stream, call)

    async with receiving(answer) as receiver:
        page = await scene.receiver(tab, link, receiver)
    assert page.status in {403, 404}
    assert scene.people.rows("select from setup_drafts") == []


async def test_a_domain_that_is_named_twice_is_one(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain")
    first = await scene.domain(tab, link)
    (draft,) = await scene.drafts(link)
    page = await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain?more")).send(domain="Example.org")
    assert (page.place, first.place) == (first.place, f"/ui/setup/of/{link}/domain/{draft['id']}")
    # The record that is published already still proves it.
    assert await scene.drafts(link) == [draft]
    assert draft["state"] == "tested"


async def test_a_form_that_was_open_adds_no_domain_to_a_full_link(scene: DraftScene) -> None:
    link, tab = await scene.begun("domain")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/domain")
    scene.people.change(
        "insert into setup_drafts (id, link_id, org_id, purpose, subject, settings, created_at, updated_at)"
        " select gen_random_uuid(), %s, %s, 'domain', n || '.example', '{}', now(), now() from generate_series(1, %s) as n",
        *(link, scene.acme.id, MOST_DOMAINS),
    )
    full = await page.send(domain="example.org")
    assert (full.status, full.page.forms) == (400, [])
    assert "example.org" not in [one["subject"] for one in await scene.drafts(link)]


async def test_a_domain_for_which_there_is_no_room_any_more_stays_as_it_was(scene: DraftScene) -> None:
    """The organization has made its own route since, or as many routes as it may have."""
    routes = "/api/organizations/acme/domain-routes"
    link, tab = await scene.begun("domain", "scim")
    await (await scene.domain(tab, link)).send()
    (draft,) = await scene.drafts(link)
    own = (await scene.request("POST", routes, {"domain": "example.org"})).ok(201)
    assert refused(await scene.activate(link, draft["id"])) == (409, "CONFLICT")
    assert await scene.routes() == [("example.org", False)]
    assert (await scene.request("DELETE", f"{routes}/{own['id']}")).status == 204
    scene.people.change(
        "insert into domain_routes (id, org_id, domain, token, login_policy, join_policy, created_at, updated_at)"
        " select gen_random_uuid(), %s, n || '.example', 't', 'password_allowed', 'off', now(), now() from generate_series(1, %s) as n",
        *(scene.acme.id, MOST_ROUTES),
    )
    answer = await scene.activate(link, draft["id"])
    assert (refused(answer), TOO_MANY in answer.body.decode()) == ((400, "BAD_REQUEST"), True)
    assert (len(await scene.routes()), await scene.drafts(link)) == (MOST_ROUTES, [draft])
    scene.people.change("delete from domain_routes where domain = '1.example'")
    assert (await scene.activate(link, draft["id"])).ok()["state"] == "active"


async def test_a_token_with_the_prefix_of_another_does_not_become_active(scene: DraftScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is told apart by the prefix, so one of both would stop to be found."""
    made = (await scene.client.post("/api/organizations/acme/scim-tokens", {"name": "x"}, token=await scene.people.token(scene.owner))).ok()
    scene.log.remember(made["token"])
    link, tab = await scene.begun("scim", activates=True)
    secrets = scene.postern.foundation.secrets
    with monkeypatch.context() as patched:
        patched.setattr(type(secrets), "key", lambda _self, _kind: Token(f"{made['prefix']}_{'x' * 32}"))
        token = await scene.token(tab, link)
    stopped = await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")).send()
    assert (stopped.status, "Another token has the same prefix. Create another token." in stopped.page.text) == (409, True)
    assert [await scene.reads(one) for one in (made["token"], token)] == [200, 401]
    # Another token takes its place, and gets through.
    token = await scene.token(tab, link)
    await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")).send()
    assert [await scene.reads(one) for one in (made["token"], token)] == [200, 200]


async def test_a_token_that_nobody_can_present_does_not_become_active(scene: DraftScene) -> None:
    link, tab = await scene.begun("scim", activates=True)
    await scene.token(tab, link)
    scene.people.change("update setup_drafts set digest = null")
    stopped = await (await tab.tabs.tab().open(f"/ui/setup/of/{link}/scim")).send()
    assert (stopped.status, "has not been tested yet" in stopped.page.text) == (409, True)
    assert scene.people.rows("select from scim_tokens") == []


async def test_a_receiver_without_credentials_is_exported_to_without_any(scene: DraftScene) -> None:
    async with receiving(answering(200)) as receiver:
        link, tab = await scene.begun("siem", activates=True)
        await (await scene.receiver(tab, link, receiver, api_key="")).send()
        (draft,) = await scene.drafts(link)
        shown = (await scene.request("GET", "/api/organizations/acme/siem")).ok()
        assert (draft["state"], shown["id"], shown["has_credentials"]) == ("active", draft["id"], False)
        calls = len(receiver.calls)
        assert (await scene.request("POST", "/api/organizations/acme/siem/test")).ok()["success"]
        assert "authorization" not in receiver.calls[calls].headers
