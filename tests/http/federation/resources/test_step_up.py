"""Scopes of APIs that ask for a second factor or a sign-in that is not too long ago (RFC 9470)."""

import re
import time
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import pytest
from pyotp import TOTP

from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from ops.middleware.postern_tokens import Refused, require
from tests.http.browsing import Tab, Tabs
from tests.http.federation.arriving import AUTHORIZE, left, told
from tests.http.federation.relying import CALLBACK, claims_of, oauth
from tests.http.federation.resources.asking import ORDERS, SCOPES, Asking
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, enable_mfa

CANCEL: Final = {"name": "orders:cancel", "description": "Cancel orders", "acr_values": [TWO_FACTORS]}
PAY: Final = {"name": "orders:pay", "description": "Pay orders", "max_age": 300}
BOTH: Final = {"name": "orders:refund", "description": "Refund orders", "acr_values": [TWO_FACTORS], "max_age": 60}
ALL: Final = "openid orders:read orders:cancel orders:pay orders:refund"


def api(asking: Asking) -> UUID:
    return asking.api(scopes=[*SCOPES, CANCEL, PAY, BOTH])


async def bob_of(asking: Asking) -> Person:
    return await asking.people.with_password(PASSWORD, "bob@example.org")


async def with_factor(asking: Asking, person: Person) -> TOTP:
    return await enable_mfa(asking.client, asking.people, person)


async def tokens(asking: Asking, tab: Tab) -> dict[str, Any]:
    return asking.kept((await asking.redeem(asking.shop, left(tab, CALLBACK)["code"])).ok())


async def consented(asking: Asking, tabs: Tabs, scope: str, **changed: Any) -> Tab:
    """What comes after the person has left everything ticked."""
    tab = await tabs.tab().open(asking.address(scope=scope, **changed))
    assert tab.place.startswith("/ui/consent"), tab.place
    return await tab.send(answer="allow")


async def test_a_scope_leads_to_the_second_factor_once_the_person_has_ticked_it(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    totp = await with_factor(asking, bob)
    tabs = asking.browser(asking.people.session_of(bob))
    tab = await tabs.tab().open(asking.address(scope="openid orders:read orders:cancel"))
    assert "You must complete two-step sign-in for this." in tab.page.text
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/sign-in")
    assert asking.people.rows("select from authorization_codes") == []
    # Nobody gets past this page by the address of the next one.
    flow = tab.place.partition("flow=")[2]
    assert (await tabs.tab().open(f"/ui/authorize?flow={flow}")).place.startswith("/ui/sign-in")
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now())
    given = await tokens(asking, tab)
    assert given["scope"] == "openid orders:read orders:cancel"
    assert claims_of(given["access_token"])["acr"] == TWO_FACTORS
    # What the person has allowed before the sign-in is what they are asked once.
    assert len(asking.audited("user.consent.given")) == 1
    assert "code" in told(await tabs.request("GET", asking.address(scope="openid orders:cancel", prompt="none")), CALLBACK)


async def test_an_unticked_scope_asks_for_no_proof(asking: Asking) -> None:
    of_api = api(asking)
    bob = await bob_of(asking)
    await with_factor(asking, bob)
    tabs = asking.browser(asking.people.session_of(bob), age=3600)
    tab = await tabs.tab().open(asking.address(scope=ALL))
    given = await tokens(asking, await tab.send(answer="allow", scopes=[f"{of_api} orders:read"]))
    assert given["scope"] == "openid orders:read"
    # Nor does it at the next request, also without anybody there.
    again = told(await tabs.request("GET", asking.address(scope=ALL, prompt="none")), CALLBACK)
    assert (await asking.redeem(asking.shop, again["code"])).ok()["scope"] == "openid orders:read"


async def test_a_scope_leads_to_a_fresh_sign_in(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    tabs = asking.browser(asking.people.session_of(bob), age=3600)
    tab = await consented(asking, tabs, "openid orders:pay")
    assert tab.place.startswith("/ui/sign-in")
    given = await tokens(asking, await tab.send(password=PASSWORD))
    assert time.time() - claims_of(given["access_token"])["auth_time"] < 300
    # A sign-in that is young enough is not asked for again, and one that has become too old is.
    told(await tabs.request("GET", asking.address(scope="openid orders:pay")), CALLBACK)
    asking.people.change("update sessions set proved_at = proved_at - interval '301 seconds'")
    assert (await tabs.tab().open(asking.address(scope="openid orders:pay"))).place.startswith("/ui/sign-in")
    # A scope of the same API that asks for nothing needs none of this.
    tab = await consented(asking, tabs, "openid orders:read")
    assert "orders:read" in (await tokens(asking, tab))["scope"]


async def test_the_strongest_of_all_scopes_and_of_the_request_counts(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    await with_factor(asking, bob)
    cases: tuple[tuple[str, dict[str, Any], float, str], ...] = (
        (ALL, {}, 61, "{pwd,mfa}"),
        (ALL, {}, 0, "{pwd}"),
        (ALL, {"max_age": "10000", "acr_values": ONE_FACTOR}, 61, "{pwd,mfa}"),
        (ALL, {"max_age": "10000", "acr_values": f"{ONE_FACTOR} {TWO_FACTORS}"}, 0, "{pwd}"),
        ("openid orders:pay", {"acr_values": TWO_FACTORS}, 0, "{pwd}"),
        ("openid orders:cancel", {"max_age": "10"}, 60, "{pwd,mfa}"),
    )
    for scope, changed, age, amr in cases:
        asking.people.change("delete from consents")
        tabs = asking.browser(asking.people.session_of(bob), age=age, amr=amr)
        tab = await tabs.tab().open(asking.address(scope=scope, **changed))
        if tab.place.startswith("/ui/consent"):
            await tab.send(answer="allow")
        assert tab.place.startswith("/ui/sign-in"), (scope, changed, age, amr)
    tabs = asking.browser(asking.people.session_of(bob), amr="{pwd,mfa}")
    assert (await tokens(asking, await consented(asking, tabs, ALL)))["scope"] == ALL


async def test_without_anybody_there_the_application_hears_what_is_missing(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)

    async def error(scope: str, age: float = 0, amr: str = "{pwd}") -> str | None:
        tabs = asking.browser(asking.people.session_of(bob), age=age, amr=amr)
        return told(await tabs.request("GET", asking.address(scope=scope, prompt="none")), CALLBACK).get("error")

    # What the person has not allowed tells nothing about their sign-in.
    assert await error("openid orders:pay", age=3600) == "consent_required"
    await consented(asking, asking.browser(asking.people.session_of(bob)), "openid orders:pay")
    assert await error("openid orders:pay") is None
    assert await error("openid orders:pay", age=301) == "login_required"
    await with_factor(asking, bob)
    await consented(asking, asking.browser(asking.people.session_of(bob), amr="{pwd,mfa}"), "openid orders:cancel")
    assert await error("openid orders:cancel", amr="{pwd,mfa}") is None
    assert await error("openid orders:cancel") == "interaction_required"
    assert await error("openid orders:cancel orders:pay", age=301) == "login_required"
    asking.people.change("delete from mfa_secrets")
    assert await error("openid orders:cancel") == "unmet_authentication_requirements"


async def test_without_a_second_factor_the_scope_is_not_ticked(asking: Asking) -> None:
    of_api = api(asking)
    tab = await asking.asked(scope="openid orders:read orders:cancel")
    assert "which you have not set up yet" in tab.page.text
    given = await tokens(asking, await tab.send(answer="allow"))
    assert given["scope"] == "openid orders:read"
    asking.people.change("delete from consents")
    tab = await asking.asked(scope="openid orders:read orders:cancel")
    answer = left(await tab.send(answer="allow", scopes=[f"{of_api} orders:cancel"]), CALLBACK)
    assert answer["error"] == "unmet_authentication_requirements"
    assert answer["error_description"] == "The person has no second factor"


@pytest.mark.parametrize("prompt", ["consent", "login consent", "select_account consent"])
async def test_a_request_that_always_asks_is_asked_once(asking: Asking, prompt: str) -> None:
    """MCP clients send `prompt=consent` where they ask for `offline_access`."""
    api(asking)
    bob = await bob_of(asking)
    totp = await with_factor(asking, bob)
    tabs = asking.browser(asking.people.session_of(bob), amr="{pwd}")
    tab = await tabs.tab().open(asking.address(scope="openid offline_access orders:cancel", prompt=prompt))
    if "login" in prompt:
        await tab.send(password=PASSWORD)
        await tab.send(code=totp.at(time.time() + 30))
    if "choose-account" in tab.place:
        await tab.send(answer="current")
    assert tab.place.startswith("/ui/consent")
    await tab.send(answer="allow")
    if "login" not in prompt:
        await tab.send(password=PASSWORD)
        await tab.send(code=totp.now())
    assert (await tokens(asking, tab))["scope"] == "openid offline_access orders:cancel"


async def test_another_person_who_signs_in_then_is_asked_anew(asking: Asking) -> None:
    of_api = api(asking)
    bob = await bob_of(asking)
    carol = await asking.people.with_password(PASSWORD, "carol@example.org")
    # Her own consent from before is no answer to a request that asks anew.
    await consented(asking, asking.browser(asking.people.session_of(carol)), "openid orders:pay")
    tabs = asking.browser(asking.people.session_of(bob), age=3600)
    tab = await consented(asking, tabs, "openid orders:pay", prompt="consent")
    flow = tab.place.partition("flow=")[2]
    tab = await tabs.tab().open(f"/ui/sign-in?flow={flow}")
    await tab.send(email="carol@example.org")
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/consent")
    assert "carol@example.org" in tab.page.text
    assert asking.people.rows("select from authorization_codes where user_id <> %s", carol.user) == []
    given = await tokens(asking, await tab.send(answer="allow", scopes=[f"{of_api} orders:pay"]))
    assert claims_of(given["access_token"])["sub"] == str(carol.user)


async def test_no_request_says_that_its_person_has_agreed(asking: Asking) -> None:
    """Our pages keep this beside the request, under a name that an application may send as well."""
    api(asking)
    said: dict[str, Any] = {"agreed": str(asking.ada.user), "scope": "openid orders:pay", "prompt": "consent"}
    tab = await asking.browser(age=3600).tab().open(asking.address(**said))
    assert tab.place.startswith("/ui/consent")
    flows = asking.people.rows("select request from flows")
    assert [flow["request"].get("agreed") for flow in flows] == [None]


async def test_a_consent_that_ends_during_the_sign_in_is_asked_for_again(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    tab = await consented(asking, asking.browser(asking.people.session_of(bob), age=3600), "openid orders:pay")
    asking.people.change("delete from consents")
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/consent")
    assert (await tokens(asking, await tab.send(answer="allow")))["scope"] == "openid orders:pay"


async def test_a_trusted_application_leads_its_members_to_the_proof_all_the_same(asking: Asking) -> None:
    api(asking)
    asking.people.change("update services set trusted = true where id = %s", asking.shop.service.id)
    bob = asking.tenants.join(await bob_of(asking), asking.acme, "member")
    totp = await with_factor(asking, bob)
    tab = await asking.browser(asking.people.session_of(bob)).tab().open(asking.address(scope="openid orders:cancel"))
    assert tab.place.startswith("/ui/sign-in")
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now())
    assert (await tokens(asking, tab))["scope"] == "openid orders:cancel"


async def test_a_scope_that_asks_for_more_since_is_left_out(asking: Asking) -> None:
    """At the code, at the refresh and for whoever asks about the token; the session of a person with two factors keeps it."""
    asking.api()
    code = await asking.allowed()
    given = asking.kept((await asking.redeem(asking.shop, await asking.allowed())).ok())
    strong = asking.kept((await asking.redeem(asking.shop, await asking.allowed())).ok())
    sid = claims_of(strong["access_token"])["sid"]
    asking.people.change("update sessions set authenticated_by = '{pwd,mfa}' where id = %s", sid)
    asking.people.change(
        "update resource_servers set scopes = jsonb_set(scopes, '{1}', scopes -> 1 || %s::jsonb)", f'{{"acr_values": ["{TWO_FACTORS}"]}}'
    )
    assert (await asking.redeem(asking.shop, code)).ok()["scope"] == "openid orders:read"
    assert (await asking.introspect(asking.desk, given["access_token"]))["scope"] == "orders:read"
    assert (await asking.introspect(asking.desk, strong["access_token"]))["scope"] == "orders:read orders:write"
    assert oauth(await asking.refresh(asking.shop, given["refresh_token"], scope="openid orders:write")) == (400, "invalid_scope")
    refreshed = asking.kept((await asking.refresh(asking.shop, given["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["scope"] == "orders:read"
    kept = asking.kept((await asking.refresh(asking.shop, strong["refresh_token"])).ok())
    assert claims_of(kept["access_token"])["scope"] == "orders:read orders:write"


async def test_a_refresh_is_no_new_sign_in(asking: Asking) -> None:
    """The token keeps the scope and the time of the sign-in, and the API compares that."""
    api(asking)
    given = await asking.tokens(scope="openid orders:pay")
    asking.people.change("update sessions set proved_at = proved_at - interval '1 hour'")
    claims = claims_of(asking.kept((await asking.refresh(asking.shop, given["refresh_token"])).ok())["access_token"])
    assert (claims["scope"], time.time() - claims["auth_time"] > 300) == ("orders:pay", True)
    with pytest.raises(Refused, match="sign in again"):
        require(claims, "orders:pay", max_age=300)


async def test_a_client_that_follows_the_challenge_gets_a_token_that_passes(asking: Asking) -> None:
    """With scopes that ask for nothing: the API alone wants more, and the client puts what it reads into its next request."""
    asking.api()
    bob = await bob_of(asking)
    totp = await with_factor(asking, bob)
    tabs = asking.browser(asking.people.session_of(bob), age=3600)
    weak = claims_of((await tokens(asking, await consented(asking, tabs, "openid orders:write")))["access_token"])
    with pytest.raises(Refused) as refusal:
        require(weak, "orders:write", max_age=300, two_factors=True)
    said = dict(re.findall(r'(\w+)="([^"]*)"', refusal.value.challenge))
    assert (refusal.value.status, said["error"]) == (401, "insufficient_user_authentication")
    followed = {name: said[name] for name in ("acr_values", "max_age")}
    tab = await tabs.tab().open(asking.address(scope="openid orders:write", **followed))
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now())
    require(claims_of((await tokens(asking, tab))["access_token"]), "orders:write", max_age=300, two_factors=True)


async def test_no_application_gets_for_itself_what_a_person_has_to_prove(asking: Asking) -> None:
    api(asking)
    for scope in ("orders:cancel", "orders:pay", "orders:read orders:refund"):
        assert oauth(await asking.own(resource=ORDERS, scope=scope)) == (400, "invalid_scope")
    assert (await asking.own(resource=ORDERS, scope="orders:read")).ok()["scope"] == "orders:read"


async def on_device(asking: Asking, person: Person, scope: str, **browser: Any) -> tuple[Tab, dict[str, str]]:
    """The page that follows the user code, and the poll of the device."""
    tv = asking.application(asking.acme, "tv", "desktop")
    codes = (await asking.ask("/auth/device/code", {**tv.posted, "resource": ORDERS, "scope": scope})).ok()
    asking.log.remember(codes["device_code"], codes["user_code"])
    tab = await asking.browser(asking.people.session_of(person), **browser).tab().open(f"/ui/device?user_code={codes['user_code']}")
    await tab.send()
    return tab, {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": codes["device_code"], **tv.posted}


async def test_a_device_leads_to_the_proof(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    totp = await with_factor(asking, bob)
    tab, poll = await on_device(asking, bob, "openid orders:refund", age=3600)
    assert tab.place.startswith("/ui/sign-in")
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now())
    assert "Refund orders" in tab.page.text
    await tab.send(answer="approve")
    given = asking.kept((await asking.ask(fields=poll)).ok())
    assert given["scope"] == "openid orders:refund"
    require(claims_of(given["access_token"]), "orders:refund", max_age=60, two_factors=True)


async def test_a_device_gets_no_scope_that_its_person_cannot_prove(asking: Asking) -> None:
    """The person is led to one sign-in, and not in a circle."""
    api(asking)
    bob = await bob_of(asking)
    tab, poll = await on_device(asking, bob, "openid orders:read orders:cancel")
    await tab.send(password=PASSWORD)
    await tab.send(answer="approve")
    assert asking.kept((await asking.ask(fields=poll)).ok())["scope"] == "openid orders:read"


async def test_a_device_needs_no_further_sign_in_if_the_present_one_is_enough(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    await with_factor(asking, bob)
    tab, _ = await on_device(asking, bob, ALL, amr="{pwd,mfa}")
    assert tab.place.startswith("/ui/device/decision")


async def test_a_provider_that_states_no_time_does_not_end_the_way(asking: Asking) -> None:
    """The person has come from a provider that vouches for somebody who may have signed in there yesterday."""
    api(asking)
    bob = await bob_of(asking)
    tabs = asking.browser(asking.people.session_of(bob))
    tab = await tabs.tab().open(asking.address(scope="openid orders:pay", prompt="consent"))
    came = "update sessions set proved_at = now(), stated_at = 'epoch' where user_id = %s"
    asking.people.change(came, bob.user)
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/sign-in")
    flow = tab.place.partition("flow=")[2]
    # They come from the same provider again, and prove themselves here. Nobody asks them once more what they have allowed.
    asking.people.change(came, bob.user)
    await tab.open(f"/ui/authorize?flow={flow}")
    assert tab.place.startswith("/ui/prove")
    (form,) = [number for number, form in enumerate(tab.page.forms) if "password" in form.fields]
    await tab.send(form, password=PASSWORD)
    given = await tokens(asking, tab)
    assert given["scope"] == "openid orders:pay"


async def test_a_pushed_request_leads_to_the_proof(asking: Asking) -> None:
    api(asking)
    bob = await bob_of(asking)
    fields = dict(parse_qsl(asking.address(scope="openid orders:pay", prompt="consent").partition("?")[2]))
    pushed = (await asking.ask("/oauth/par", {**fields, **asking.shop.posted})).ok(201)
    asking.log.remember(pushed["request_uri"].rpartition(":")[2])
    named = urlencode({"client_id": asking.shop.client_id, "request_uri": pushed["request_uri"]})
    tab = await asking.browser(asking.people.session_of(bob), age=3600).tab().open(f"{AUTHORIZE}?{named}")
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/sign-in")
    assert (await tokens(asking, await tab.send(password=PASSWORD)))["scope"] == "openid orders:pay"
