"""Clients by document as applications of the organization: in lists, on pages, and what may be changed."""

from typing import Any, Final

import pytest

from core.domain.errors import BadRequest
from core.domain.federation.authorization_refusals import MOST_REFUSALS, DocumentRefusal
from core.domain.identifiers import AuthorizationRefusalId, OrganizationId, ResourceServerId
from core.domain.record.events import SYSTEM
from tests.http.client import refused
from tests.http.federation.arriving import told
from tests.http.federation.documents.publishing import BACK, CLIENT, HOST, PublishingClients
from tests.http.federation.relying import claims_of, oauth
from tests.http.federation.resources.asking import ORDERS

SERVICES: Final = "/api/organizations/acme/services"


async def _only(clients: PublishingClients) -> dict[str, Any]:
    listed = (await clients.request("GET", f"{SERVICES}?service_type=metadata", by=clients.owner)).ok()
    (service,) = listed["services"]
    return dict(service)


@pytest.fixture
async def listed(clients: PublishingClients) -> PublishingClients:
    clients.owner = clients.resident(clients.acme, "owner")
    clients.both_let_in()
    clients.publish(client_name=None)
    await clients.has_tokens()
    return clients


async def test_it_is_listed_by_its_address(listed: PublishingClients) -> None:
    service = await _only(listed)
    assert (service["client_id"], service["name"], service["redirect_uris"], service["trusted"]) == (CLIENT, HOST, [BACK], False)
    # It takes no place of those that the tier has.
    usage = (await listed.request("GET", SERVICES, by=listed.owner)).ok()["usage"]
    assert usage["current_services"] == len((await listed.request("GET", SERVICES, by=listed.owner)).ok()["services"]) - 1
    created = listed.audited("service.created")[-1]
    assert (created["details"]["client_id"], created["details"]["service_type"]) == (CLIENT, "metadata")


async def test_nobody_makes_one_by_hand(listed: PublishingClients) -> None:
    listed.people.change("update all_organizations set max_services = 100")
    body = {"slug": "mine", "name": "Mine", "service_type": "metadata"}
    assert refused(await listed.request("POST", SERVICES, body, by=listed.owner)) == (400, "BAD_REQUEST")
    change = {"service_type": "metadata"}
    assert refused(await listed.request("PATCH", f"{SERVICES}/other", change, by=listed.owner)) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Bank"},
        {"redirect_uris": ["https://evil.example/"]},
        {"trusted": True},
        {"service_type": "web"},
        {"jwks": {"keys": []}},
        {"backchannel_logout_uri": "https://evil.example/"},
        {"sign_in_policy": "members", "trusted": True},
    ],
)
async def test_its_document_decides(listed: PublishingClients, change: dict[str, Any]) -> None:
    service = await _only(listed)
    answer = await listed.request("PATCH", f"{SERVICES}/{service['slug']}", change, by=listed.owner)
    assert (answer.status, "the document of this application decides it" in answer.json()["error"]) == (400, True)
    assert await _only(listed) == service


async def test_the_organization_says_whom_it_signs_in(listed: PublishingClients) -> None:
    path = f"{SERVICES}/{(await _only(listed))['slug']}"
    for change in ({"sign_in_policy": "anyone"}, {"name": HOST, "metadata": {"seen": True}}, {"sign_in_policy": "members"}):
        assert (await listed.request("PATCH", path, change, by=listed.owner)).status == 200
    shown = (await listed.request("GET", path, by=listed.owner)).ok()
    assert (shown["sign_in_policy"], shown["metadata"]) == ("members", {"seen": True})
    tab = await listed.browser().tab().open(listed.asks())
    assert tab.status == 403
    # The next look at the document leaves it.
    listed.publish(client_name="Notes")
    listed.stale()
    await listed.browser().tab().open(listed.asks())
    shown = (await listed.request("GET", path, by=listed.owner)).ok()
    assert (shown["sign_in_policy"], shown["name"], shown["metadata"]) == ("members", "Notes", {"seen": True})


async def test_it_keeps_no_secret_and_stands_for_no_api(listed: PublishingClients) -> None:
    slug = (await _only(listed))["slug"]
    assert (await listed.request("POST", f"{SERVICES}/{slug}/client-secrets", {}, by=listed.owner)).status == 400
    api = await listed.only_api(listed.owner)
    for change in ({"service_slug": slug}, {"admits": "named", "admitted_services": [slug]}):
        answer = await listed.request("PATCH", api, change, by=listed.owner)
        assert answer.status == 400
    with pytest.raises(BadRequest, match="A metadata document describes"):
        await listed.postern.services.kept_client_ids.keep(OrganizationId(listed.acme.id), slug, "a-name-of-its-own", SYSTEM)


async def test_it_ends_with_all_that_it_may(listed: PublishingClients) -> None:
    tokens = await listed.has_tokens(prompt="consent")
    service = await _only(listed)
    assert (await listed.request("DELETE", f"{SERVICES}/{service['slug']}", by=listed.owner)).status in {200, 202, 204}
    assert await listed.introspect(listed.desk, tokens["access_token"]) == {"active": False}
    assert oauth(await listed.refresh(listed.client_of(), tokens["refresh_token"])) == (400, "invalid_grant")
    # It may ask anew, and the person is asked anew.
    await listed.code_of()
    assert (await _only(listed))["id"] != service["id"]


async def test_the_person_ends_it(listed: PublishingClients) -> None:
    tokens = await listed.has_tokens(prompt="consent")
    browser = listed.browser()
    tab = await browser.tab().open("/ui/applications")
    assert f"Identified by its document at {HOST}" in tab.page.text
    (form,) = [place for place, form in enumerate(tab.page.forms) if form.action.endswith("/revoke")]
    await tab.send(form)
    assert await listed.introspect(listed.desk, tokens["access_token"]) == {"active": False}
    await listed.consents()


async def test_an_owner_says_that_it_is_no_agent(listed: PublishingClients) -> None:
    service = await _only(listed)
    assert service["is_agent"] is True
    path = f"/api/organizations/acme/services/{service['slug']}"
    assert (await listed.request("PATCH", path, {"is_agent": False}, by=listed.owner)).ok()["is_agent"] is False
    tokens = await listed.has_tokens(prompt="consent")
    assert claims_of(tokens["id_token"])["aud"] == CLIENT
    assert "act" not in claims_of(tokens["access_token"])
    assert (await listed.userinfo(tokens["access_token"])).ok()["sub"] == str(listed.ada.user)
    # And one again: what it had ends.
    assert (await listed.request("PATCH", path, {"is_agent": True}, by=listed.owner)).ok()["is_agent"] is True
    assert await listed.introspect(listed.desk, tokens["access_token"]) == {"active": False}


@pytest.mark.parametrize("by", ["organization", "api"])
async def test_userinfo_tells_it_nothing_after_the_rules_are_off(listed: PublishingClients, by: str) -> None:
    service = await _only(listed)
    path = f"{SERVICES}/{service['slug']}"
    (await listed.request("PATCH", path, {"is_agent": False}, by=listed.owner)).ok()
    tokens = await listed.has_tokens(prompt="consent")
    (await listed.userinfo(tokens["access_token"])).ok()
    place = "/api/organizations/acme/sign-in-rules" if by == "organization" else await listed.only_api(listed.owner)
    rule = (await listed.request("GET", place, by=listed.owner)).ok()["metadata_clients"]
    (await listed.request("PATCH", place, {"metadata_clients": "off"}, by=listed.owner)).ok()
    assert (await listed.userinfo(tokens["access_token"])).status == 401
    (await listed.request("PATCH", place, {"metadata_clients": rule}, by=listed.owner)).ok()
    (await listed.userinfo(tokens["access_token"])).ok()


async def test_pages_of_the_console_name_it(listed: PublishingClients) -> None:
    service = await _only(listed)
    browser = listed.browser(listed.owner)
    for path in ("/ui/o/acme/applications", f"/ui/o/acme/applications/{service['slug']}"):
        assert CLIENT in (await browser.tab().open(path)).page.text


@pytest.mark.parametrize(
    "hosts", [["https://claude.ai"], ["Claude.ai"], ["*.claude.ai"], ["claude.ai/"], ["claude.ai:443"], ["localhost"], ["127.0.0.1"], [""]]
)
async def test_hosts_have_one_form(listed: PublishingClients, hosts: list[str]) -> None:
    api = await listed.only_api(listed.owner)
    for path in ("/api/organizations/acme/sign-in-rules", api):
        answer = await listed.request("PATCH", path, {"metadata_hosts": hosts}, by=listed.owner)
        assert (answer.status, "metadata_hosts[0]" in answer.json()["error"]) == (400, True)
        many = [f"host{number}.example" for number in range(51)]
        assert (await listed.request("PATCH", path, {"metadata_hosts": many}, by=listed.owner)).status == 400


async def test_rules_are_changed_and_recorded(listed: PublishingClients) -> None:
    api = await listed.only_api(listed.owner)
    change = {"metadata_clients": "named", "metadata_hosts": ["vscode.dev", HOST, HOST, "dev.example:8443"]}
    for path, action in (
        ("/api/organizations/acme/sign-in-rules", "organization.sign_in_rules.updated"),
        (api, "resource_server.updated"),
    ):
        changed = (await listed.request("PATCH", path, change, by=listed.owner)).ok()
        assert (changed["metadata_clients"], changed["metadata_hosts"]) == ("named", [HOST, "dev.example:8443", "vscode.dev"])
        (entry,) = listed.audited(action)
        assert entry["details"]["old_metadata_clients"] == "any"
        assert entry["details"]["new_metadata_hosts"] == [HOST, "dev.example:8443", "vscode.dev"]
    assert "code" in told(await listed.browser().request("GET", listed.asks(ORDERS)), BACK)


async def test_fifty_refusals_of_an_api_are_kept(listed: PublishingClients) -> None:
    (api,) = listed.people.rows("select id from resource_servers where org_id = %s", listed.acme.id)
    now, new = listed.postern.foundation.clock.now(), listed.postern.foundation.ids.new
    refusals = [
        DocumentRefusal(
            id=AuthorizationRefusalId(new()),
            api=ResourceServerId(api["id"]),
            address=f"{CLIENT}/{number}",
            reason="document_busy",
            because="It was asked for too often",
            occurred_at=now,
        )
        for number in range(MOST_REFUSALS + 70)
    ]
    await listed.postern.federation.authorization_refusals.store.add(refusals)
    kept = (await listed.request("GET", f"{await listed.only_api(listed.owner)}/refusals", by=listed.owner)).ok()["refusals"]
    assert [one["address"] for one in kept] == [one.address for one in reversed(refusals[-MOST_REFUSALS:])]
    tab = await listed.browser(listed.owner).tab().open(f"/ui/o/acme/apis/{api['id']}")
    assert f"{CLIENT}/{MOST_REFUSALS + 69}" in tab.page.text
