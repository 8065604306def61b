"""Ways around a binding."""

from tests.http.client import refused
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
