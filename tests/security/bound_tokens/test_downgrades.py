"""Ways around a binding."""

from tests.http.client import Received, refused
from tests.http.federation.bound.proving import Proving
from tests.http.signing_in import PASSWORD, Browser


async def test_a_sign_in_beside_oauth_gives_no_unbound_tokens(proving: Proving) -> None:
    """A token for the service itself: whoever checks its audience takes it for one of the application's."""
    browser, ada = Browser(proving.client), await proving.people.with_password(PASSWORD)
    before = (await browser.login(ada, org_slug="acme", service_slug="shop")).ok()
    proving.log.remember(before["refresh_token"], before["access_token"])
    proving.bind(proving.shop)
    assert refused(await browser.login(ada, org_slug="acme", service_slug="shop")) == (403, "FORBIDDEN")
    assert refused(await browser.refresh(before["refresh_token"])) == (401, "UNAUTHORIZED")
    (await browser.login(ada)).ok()


async def test_an_impersonation_gives_no_unbound_tokens_and_leaves_nothing(proving: Proving) -> None:
    """A platform owner looks at a person in the organization, as before, and in the service only while its tokens are bearers."""
    boss = proving.people.add("boss@platform.example", platform_owner=True)
    proving.tenants.uses(proving.tenants.join(proving.ada, proving.acme), proving.shop.service)

    async def begin(**where: str) -> Received:
        body = {"reason": "Ticket 4711", **where}
        return await proving.request("POST", f"/api/platform/impersonate/{proving.ada.user}", body, by=boss)

    proving.kept((await begin(org_slug="acme", service_slug="shop")).ok())
    proving.bind(proving.shop)
    started = len(proving.audited("security.impersonation.started"))
    answer = await begin(org_slug="acme", service_slug="shop")
    assert refused(answer) == (403, "FORBIDDEN")
    assert "bound to a key" in answer.json()["error"]
    assert len(proving.audited("security.impersonation.started")) == len(proving.people.rows("select from impersonations")) == started == 1
    proving.kept((await begin(org_slug="acme")).ok())
