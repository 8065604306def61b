"""An attacker who leads people to the attacker's own provider in a known flow could make them work in the attacker's account."""

from urllib.parse import urlencode

import pytest

from adapters.saml import signing
from ops.stand_ins.saml import pair
from tests.http.client import refused
from tests.http.federation.arriving import is_page
from tests.http.federation.providing import (
    ACS,
    SLO,
    SP,
    asking,
    authn_request,
    in_form,
    kept_pairs,
    logout_request,
    metadata,
    sent,
    signed,
    slo,
)
from tests.http.signing_in import PASSWORD
from tests.http.upstream.scene import UpstreamScene


@pytest.fixture(autouse=True)
def _primes_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())


async def begun_elsewhere(scene: UpstreamScene) -> str:
    """Sends a SAML request by the form of another site, as anybody can. Returns the address that the answer leads to."""
    boss = scene.resident(scene.acme, "owner", "boss")
    path = "/api/organizations/acme/services/app/saml"
    (await scene.request("POST", path, {"enabled": True, "entity_id": SP, "acs_url": ACS}, by=boss)).ok()
    (await scene.request("POST", f"{path}/certificate", {}, by=boss)).ok()
    fields = in_form(authn_request())
    tabs = scene.browser()
    answer = await tabs.client.request(
        "POST",
        "/saml/acme/app/sso",
        body="&".join(f"{name}={value.replace('+', '%2B')}" for name, value in fields.items()).encode(),
        headers=[("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")],
    )
    assert answer.status == 302, answer.body
    return answer.header("location") or ""


@pytest.mark.parametrize("link", ["/auth/{provider}?flow={flow}", "/auth/{provider}?saml_state={flow}", "/ui/sign-in/password?flow={flow}"])
async def test_the_id_by_which_a_flow_was_begun_leads_nobody_on(scene: UpstreamScene, link: str) -> None:
    provider = await scene.own_provider()
    place = await begun_elsewhere(scene)
    ada = scene.verified()
    tabs = scene.signed_in(scene.people.session_of(ada))
    # Another site can have the browser open one address after the other.
    answer = await tabs.request("GET", place)
    assert answer.status == 303
    onward = answer.header("location") or ""
    flow = place.rpartition("=")[2]
    assert flow not in onward
    is_page(await tabs.request("GET", link.format(provider=provider, flow=flow)), 400, "out of date")
    assert await scene.who(tabs) == ada.user
    login = {"email": "eve@example.org", "password": PASSWORD, "saml_state": flow}
    await scene.people.with_password(PASSWORD, "eve@example.org")
    assert refused(await scene.unlimited.post("/api/auth/login", login)) == (400, "BAD_REQUEST")
    # The flow goes on in its browser, also for a browser that comes twice.
    again = await tabs.request("GET", place)
    assert (again.status, again.header("location")) == (303, onward)
    assert ((await tabs.request("GET", onward)).header("location") or "").startswith("/ui/saml?flow=")
    # Another browser does not get it.
    is_page(await scene.browser().request("GET", place), 400, "out of date")


async def signed_out_elsewhere(scene: UpstreamScene) -> str:
    """Requests a sign-out at two service providers by the form of another site. Returns the address that the answer leads to."""
    boss = scene.resident(scene.acme, "owner", "boss")
    token = await scene.people.token(boss)
    scene.tenants.service(scene.acme, "wiki")
    for service in ("app", "wiki"):
        path = f"/api/organizations/acme/services/{service}/saml"
        (await scene.request("POST", path, {"enabled": True, "entity_id": SP, "acs_url": ACS, "slo_url": SLO}, by=boss)).ok()
        (await scene.request("POST", f"{path}/certificate", {}, by=boss)).ok()
        told = metadata(signing=(pair(),))
        as_metadata = [("content-type", "application/samlmetadata+xml")]
        (await scene.unlimited.request("POST", f"{path}/metadata", body=told, token=token, headers=as_metadata)).ok()
    # Nobody asks her: she belongs to the organization.
    eve = scene.signed_in(scene.people.session_of(scene.tenants.join(scene.verified("eve@example.org"), scene.acme)))
    got = sent(await eve.request("GET", asking(authn_request(Destination=None))))
    sent(await eve.request("GET", asking(authn_request(Destination=None)).replace("/app/sso", "/wiki/sso")))
    name, index = got.text(".//a:NameID"), got.attribute(".//a:AuthnStatement", "SessionIndex")
    body = urlencode(in_form(signed(logout_request(name, index), pair()))).encode()
    form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")]
    answer = await scene.unlimited.request("POST", slo(), body=body, headers=form)
    assert answer.status == 303, answer.body
    return answer.header("location") or ""


async def test_nobody_is_led_to_sign_in_by_a_sign_out_of_somebody_else(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.word = provider
    place = await signed_out_elsewhere(scene)
    ada = scene.verified()
    tabs = scene.signed_in(scene.people.session_of(ada))
    # Her browser continues the sign-out, and the person who began it knows its id.
    assert (await tabs.request("GET", place)).status == 200
    flow = place.rpartition("=")[2]
    links = ("/auth/{provider}?flow={flow}", "/ui/sign-in?flow={flow}", "/ui/sign-in/password?flow={flow}", "/ui/register?flow={flow}")
    for link in links:
        is_page(await tabs.request("GET", link.format(provider=provider, flow=flow)), 400, "out of date")
    assert await scene.who(tabs) == ada.user
