"""Ways around a binding: a thief's own key, a sign-in beside OAuth, and requests of nobody."""

from tests.http.client import refused
from tests.http.federation.bound.proving import Proving
from tests.http.federation.relying import oauth
from tests.http.signing_in import PASSWORD, Browser

GRANT = (400, "invalid_grant")


async def test_a_thief_binds_a_stolen_session_to_his_own_key(proving: Proving) -> None:
    """The owner comes back with the token from before: two clients have it, so the session ends, as it would without keys."""
    for application in (proving.page, proving.phone):
        for owners_key in (None, proving.key()):
            stolen = (await proving.signed_in(application))["refresh_token"]
            thiefs_key = proving.key()
            taken = proving.kept((await proving.refresh_with(thiefs_key, application, stolen)).ok())
            assert oauth(await proving.refresh_with(owners_key, application, stolen)) == GRANT
            assert oauth(await proving.refresh_with(thiefs_key, application, taken["refresh_token"])) == GRANT


async def test_the_owner_comes_back_where_people_refresh_without_oauth(proving: Proving) -> None:
    stolen = (await proving.signed_in(proving.page))["refresh_token"]
    key = proving.key()
    taken = proving.kept((await proving.refresh_with(key, proving.page, stolen)).ok())
    assert refused(await proving.client.post("/api/auth/refresh", {"refresh_token": stolen})) == (401, "UNAUTHORIZED")
    assert oauth(await proving.refresh_with(key, proving.page, taken["refresh_token"])) == GRANT


async def test_a_sign_in_beside_oauth_gives_no_unbound_tokens(proving: Proving) -> None:
    """A token for the service itself: whoever checks its audience takes it for one of the application's."""
    browser, ada = Browser(proving.client), await proving.people.with_password(PASSWORD)
    before = (await browser.login(ada, org_slug="acme", service_slug="shop")).ok()
    proving.log.remember(before["refresh_token"], before["access_token"])
    proving.bind(proving.shop)
    assert refused(await browser.login(ada, org_slug="acme", service_slug="shop")) == (403, "FORBIDDEN")
    assert refused(await browser.refresh(before["refresh_token"])) == (401, "UNAUTHORIZED")
    (await browser.login(ada)).ok()
