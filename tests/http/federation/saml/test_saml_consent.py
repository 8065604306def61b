"""A person must consent before a service provider learns who they are: any site can lead a browser here, and any organization can list
anybody.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import pytest
import trio

from adapters.postgres.federation.saml import PostgresSaml
from core.domain.federation.oauth.consents import ApplicationAccess
from core.domain.federation.saml.sign_in import has_allowed
from core.domain.identifiers import FlowId, OrganizationId, ServiceId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.flows import FlowOver
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.usecases.federation.saml import sign_in as use_case
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import is_page
from tests.http.federation.providing import ACS, SESSION_COOKIE, SLO, SP, Providing, asking, authn_request, carried, in_form, sent, sso
from tests.http.locks import behind
from tests.http.people import BASE_URL, Person
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.meanwhile import meanwhile

OTHER: Final = "https://other.example/saml"
LOGIN: Final = "/api/organizations/acme/services/app/saml/login"
ANSWER: Final = "/ui/saml"
TITLE: Final = "Allow App to access your account?"
_CROSS_SITE: Final = [
    ("content-type", "application/x-www-form-urlencoded"),
    ("sec-fetch-site", "cross-site"),
    ("origin", "https://evil.example"),
]
_CONTEXT: Final = (
    "<samlp:RequestedAuthnContext><saml:AuthnContextClassRef>https://refeds.org/profile/mfa</saml:AuthnContextClassRef>"
    "</samlp:RequestedAuthnContext>"
)
# What an entry says of the application, beside its id.
NAMED = {"service_slug": "app", "service_name": "App"}


def visitor(provider: Providing, person: Person | None = None) -> Tabs:
    """A browser of a person who has consented to nothing."""
    return provider.signed_in(person or provider.people.add("ada@example.org"), allowed=False)


def has_learned_nothing(provider: Providing) -> None:
    """Checks that neither the service nor its organization nor its service provider has learned who the person is."""
    for table in ("saml_sessions", "service_users", "login_events", "consents"):
        assert provider.people.rows(f"select from {table}") == [], table
    about = ("user.login.success", "user.consent.given", "user.joined")
    assert [one for one in (*provider.told(), *provider.told("audit_log")) if one["name"] in about] == []


def is_asked(tab: Tab) -> Tab:
    assert (tab.status, TITLE in tab.page.text) == (200, True), tab.shown.body
    assert b"SAMLResponse" not in tab.shown.body
    return tab


async def asked(provider: Providing, browser: Tabs, target: str | None = None) -> Tab:
    return is_asked(await provider.opened(browser.tab(), target or asking()))


async def by_a_form(provider: Providing, browser: Tabs, **changes: Any) -> Tab:
    """Sends the form of another site; browsers send no cookies with such a form."""
    body = urlencode(in_form(authn_request(**changes), "s")).encode()
    answer = await provider.unlimited.request("POST", sso(), body=body, headers=_CROSS_SITE)
    return await provider.opened(browser.tab(), answer.header("location") or "")


async def revoke(provider: Providing, person: Person) -> ApplicationAccess:
    user = UserId(person.user)
    return await provider.postern.federation.consents.revoke(user, ServiceId(provider.app.id), Actor(user))


@pytest.mark.parametrize("listed", [False, True], ids=["stranger", "listed member"])
@pytest.mark.parametrize("trusted", [False, True])
async def test_one_visit_tells_no_tenant_who_somebody_is(provider: Providing, *, listed: bool, trusted: bool) -> None:
    """A page of another site leads the browser here: by an address, by a form, or by a form of one of our own clients."""
    await provider.ready()
    provider.people.change("update all_services set trusted = %s", trusted)
    ada = provider.people.add("ada@example.org")
    if listed:
        provider.tenants.join(ada, provider.acme, listed=True)
    browser = visitor(provider, ada)
    await asked(provider, browser)
    is_asked(await by_a_form(provider, browser))
    tab = browser.tab()
    tab.answer = await browser.request("POST", sso(), in_form(authn_request()))
    assert tab.shown.status == 302
    await asked(provider, browser, tab.shown.header("location"))
    has_learned_nothing(provider)
    exchanges = await provider.exchanges()
    assert {one["kind"] for one in exchanges} == {"authn_request"}
    assert "ada@example.org" not in str(exchanges)


_ASKS: Final[dict[str, dict[str, Any]]] = {
    "plainly": {},
    "for her": {"inside": "<saml:Subject><saml:NameID>ada@example.org</saml:NameID></saml:Subject>"},
    "for him": {"inside": "<saml:Subject><saml:NameID>bob@example.org</saml:NameID></saml:Subject>"},
    "for two factors": {"inside": _CONTEXT},
    "for a sign-in": {"ForceAuthn": "true"},
}


@pytest.mark.parametrize("how", _ASKS.values(), ids=list(_ASKS))
@pytest.mark.parametrize("policy", ["anyone", "members"])
async def test_where_nobody_may_be_asked_nothing_is_told_of_anybody(provider: Providing, how: dict[str, Any], policy: str) -> None:
    """The answer does not even tell whether somebody is signed in."""
    await provider.ready()
    provider.people.change("update all_services set sign_in_policy = %s", policy)
    ada, listed, elsewhere = provider.people.add("ada@example.org"), provider.people.add(), provider.people.add()
    provider.tenants.join(listed, provider.acme, listed=True)
    provider.allow(elsewhere, OTHER)
    said = set()
    for browser in (provider.browser(), *(visitor(provider, one) for one in (ada, listed, elsewhere))):
        answer = await browser.request("GET", asking(authn_request(IsPassive="true", **how), "s"))
        tab = await by_a_form(provider, browser, IsPassive="true", **how)
        for got in (sent(answer), sent(tab.shown)):
            assert (got.status, got.fields["RelayState"]) == ("NoPassive", "s")
            assert got.root.find("{*}Assertion") is None
            said.add((got.text(".//p:StatusMessage"), len(got.root.findall(".//p:StatusCode", {"p": got.root.nsmap["samlp"]}))))
    assert len(said) == 1
    assert provider.people.rows("select from saml_sessions") == provider.people.rows("select from service_users") == []
    reasons = {one["reason"] for one in await provider.exchanges() if one["kind"] == "response"}
    assert reasons == {message for message, _ in said}


async def test_what_was_allowed_is_remembered(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    browser = visitor(provider, ada)
    tab = await asked(provider, browser, asking(authn_request(ID="_one"), "a b&c"))
    for words in ("belongs to Acme", "ada@example.org", "You continue to", "crm.example.com", "View your email address"):
        assert words in tab.page.text, words
    assert "View your role" not in tab.page.text
    assert "on your device" not in tab.page.text
    got = sent((await tab.send(answer="allow")).shown)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_one", "a b&c")
    assert sent(await browser.request("GET", asking())).status == "Success"
    assert sent(await browser.request("GET", asking(authn_request(IsPassive="true")))).status == "Success"
    assert sent((await by_a_form(provider, browser)).shown).status == "Success"
    (kept,) = provider.people.rows("select * from consents")
    assert (kept["user_id"], kept["service_id"], kept["saml_entity_id"], kept["scopes"]) == (ada.user, provider.app.id, SP, None)
    (use,) = provider.people.rows("select user_id, service_id, own_since from service_users")
    assert (use["user_id"], use["service_id"], use["own_since"]) == (ada.user, provider.app.id, kept["granted_at"])
    (entry,) = provider.audited("user.consent.given")
    assert (entry["actor_id"], entry["organization_id"], entry["target_id"]) == (ada.user, provider.acme.id, str(provider.app.id))
    assert entry["details"] == {**NAMED, "service_id": str(provider.app.id), "scopes": [], "saml_entity_id": SP}
    assert [one["details"] for one in provider.told() if one["name"] == "user.consent.given"] == [entry["details"]]
    # The consent is for this person and this service alone.
    await asked(provider, visitor(provider, provider.people.add()))
    provider.tenants.service(provider.acme, "wiki")
    await provider.configure(service="wiki")
    await provider.certificate(service="wiki")
    tab = await provider.opened(browser.tab(), asking(authn_request(Destination=None)).replace("/app/", "/wiki/"))
    assert "Allow Wiki to access your account?" in tab.page.text


@pytest.mark.parametrize(
    ("mapping", "role", "told"),
    [({"role": "r"}, "member", True), ({"groups": "g"}, "member", True), ({"role": "r"}, "", False), ({"id": "i"}, "member", False)],
)
async def test_the_page_says_what_is_told(provider: Providing, mapping: dict[str, str], role: str, *, told: bool) -> None:
    await provider.ready(attribute_mapping=mapping)
    ada = provider.people.add("ada@example.org")
    if role:
        provider.tenants.join(ada, provider.acme, role, listed=True)
    tab = await asked(provider, visitor(provider, ada))
    assert ("View your role in Acme" in tab.page.text) == told


async def test_an_address_on_the_device_is_pointed_out(provider: Providing) -> None:
    await provider.ready(acs_url="http://localhost:8080/acs")
    tab = await asked(provider, visitor(provider), asking(authn_request(AssertionConsumerServiceURL="http://localhost:8080/acs")))
    assert "You continue to an application on your device" in tab.page.text
    assert "localhost:8080" in tab.page.text


@pytest.mark.parametrize("way", ["address", "form", "from here", "by API"])
async def test_who_belongs_there_by_an_act_of_their_own_is_not_asked(provider: Providing, way: str) -> None:
    await provider.ready()
    member = provider.resident(provider.acme, "member")
    browser = visitor(provider, member)
    match way:
        case "address":
            answer = await browser.request("GET", asking())
        case "form":
            answer = (await by_a_form(provider, browser)).shown
        case "from here":
            answer = (await (await browser.tab().open("/ui/open/acme/app")).send()).shown
        case _:
            answer = await provider.unlimited.get(LOGIN, token=await provider.people.token(member))
    assert sent(answer).text(".//a:NameID") == member.email
    assert provider.people.rows("select * from consents") == []
    (use,) = provider.people.rows("select own_since from service_users")
    assert use["own_since"] is None


async def test_asking_costs_who_need_not_be_asked_no_round_trip(provider: Providing) -> None:
    await provider.ready()
    for browser in (visitor(provider, provider.resident(provider.acme, "member")), provider.signed_in(provider.people.add())):
        sent(await browser.request("GET", asking()))
        sent(await browser.request("GET", asking()))
        (*_, request) = provider.log.events("request")
        assert request["db_round_trips"] == 3


async def test_a_sign_in_from_here_asks(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    browser = visitor(provider, ada)
    token = await provider.people.token(ada)
    refused = await provider.unlimited.get(LOGIN, token=token)
    assert (refused.status, refused.error_code) == (403, "FORBIDDEN")
    assert f"{BASE_URL}/ui/open/acme/app" in refused.json()["error"]
    has_learned_nothing(provider)
    tab = await (await browser.tab().open("/ui/open/acme/app?RelayState=r")).send()
    is_asked(tab)
    has_learned_nothing(provider)
    got = sent((await tab.send(answer="allow")).shown)
    assert (got.status, got.fields["RelayState"], got.root.get("InResponseTo")) == ("Success", "r", None)
    assert sent(await provider.unlimited.get(LOGIN, token=token)).status == "Success"
    assert sent((await (await browser.tab().open("/ui/open/acme/app")).send()).shown).status == "Success"


async def test_trying_the_next_certificate_asks_too(provider: Providing) -> None:
    await provider.ready()
    await provider.certificate("?activate=false")
    listed = provider.tenants.join(provider.people.add(), provider.acme, "admin", listed=True)
    token = await provider.people.token(listed)
    assert (await provider.unlimited.get(f"{LOGIN}?certificate=next", token=token)).status == 403
    has_learned_nothing(provider)
    provider.allow(listed)
    assert sent(await provider.unlimited.get(f"{LOGIN}?certificate=next", token=token)).status == "Success"


@pytest.mark.parametrize("second_factor", [False, True])
async def test_an_api_client_signs_in_and_the_browser_asks(provider: Providing, *, second_factor: bool) -> None:
    await provider.ready()
    person = await provider.people.with_password(PASSWORD, "ada@example.org")
    secret = await enable_mfa(provider.unlimited, provider.people, person) if second_factor else None
    browser = provider.browser()
    place = (await browser.request("GET", asking(authn_request(ID="_four")))).header("location") or ""
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    body = (await provider.unlimited.post("/api/auth/login", login)).ok()
    if secret is not None:
        verify = {"code": secret.now(), "preauth_token": body["access_token"]}
        body = (await provider.unlimited.post("/api/auth/mfa/verify", verify)).ok()
    onward = body["saml_redirect_url"].removeprefix(BASE_URL)
    tab = await asked(provider, browser, onward)
    assert person.email in tab.page.text
    assert provider.people.rows("select from saml_sessions") == []
    # Another browser cannot answer.
    is_page(await provider.browser().request("POST", ANSWER, {**tab.page.forms[0].fields, "answer": "allow"}), 403)
    got = sent((await tab.send(answer="allow")).shown)
    assert (got.status, got.root.get("InResponseTo"), got.text(".//a:NameID")) == ("Success", "_four", person.email)


async def test_signing_in_on_the_way_is_no_consent(provider: Providing) -> None:
    await provider.ready()
    person = await provider.people.with_password(PASSWORD, "ada@example.org")
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=person.email)
    is_asked(await tab.send(password=PASSWORD))
    assert provider.people.rows("select from saml_sessions") == provider.people.rows("select from service_users") == []
    assert sent((await tab.send(answer="allow")).shown).status == "Success"


async def test_who_has_put_off_a_second_factor_is_asked_next(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update all_organizations set mfa_required_since = now(), mfa_grace_days = 7")
    member = await provider.people.with_password(PASSWORD, "new@acme.example")
    provider.tenants.join(member, provider.acme, listed=True)
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=member.email)
    await tab.send(password=PASSWORD)
    await tab.send(answers="later")
    assert "requires two-step sign-in" in tab.page.text
    is_asked(await tab.send(1))
    assert sent((await tab.send(answer="allow")).shown).status == "Success"


async def test_who_does_not_allow_it_goes_back_with_that_word(provider: Providing) -> None:
    await provider.ready()
    browser = visitor(provider)
    tab = await asked(provider, browser, asking(authn_request(ID="_no"), "s"))
    await tab.send(answer="deny")
    assert "Returning to App" in tab.page.text
    got = sent(tab.shown)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("RequestDenied", "_no", "s")
    assert got.root.find("{*}Assertion") is None
    has_learned_nothing(provider)
    (answered,) = [one for one in await provider.exchanges() if one["kind"] == "response"]
    assert (answered["status"], bool(answered["reason"])) == ("RequestDenied", True)
    # The person is asked again.
    await asked(provider, browser)


async def test_another_account_may_be_used_instead(provider: Providing) -> None:
    await provider.ready()
    other = await provider.people.with_password(PASSWORD, "bob@example.org")
    tab = await asked(provider, visitor(provider), asking(authn_request(ID="_bob")))
    await tab.send(answer="another")
    assert tab.place.startswith("/ui/sign-in?flow=")
    await tab.send(email=other.email)
    is_asked(await tab.send(password=PASSWORD))
    assert other.email in tab.page.text
    got = sent((await tab.send(answer="allow")).shown)
    assert (got.text(".//a:NameID"), got.root.get("InResponseTo")) == (other.email, "_bob")
    assert [row["user_id"] for row in provider.people.rows("select user_id from service_users")] == [other.user]


async def test_a_form_of_another_site_or_session_allows_nothing(provider: Providing) -> None:
    await provider.ready()
    browser = visitor(provider)
    tab = await asked(provider, browser)
    fields = {**tab.page.forms[0].fields, "answer": "allow"}
    new = str(provider.postern.foundation.ids.new())
    for wrong in ({"form_token": ""}, {"form_token": "0" * 64}, {"flow": new}, {"answer": "yes"}, {"session": "x"}):
        answer = await browser.request("POST", ANSWER, {**fields, **wrong})
        assert answer.status in {400, 403}, wrong
    # Bob knows every field of Ada's page, and even her cookie for flows.
    bob = visitor(provider, provider.people.add("bob@example.org"))
    is_page(await bob.request("POST", ANSWER, fields), 409, "another account")
    bob.cookies = {**browser.cookies, **bob.cookies}
    is_page(await bob.request("POST", ANSWER, fields), 409, "another account")
    is_page(await provider.browser().request("POST", ANSWER, fields), 403, "out of date")
    headers = [*_CROSS_SITE, ("cookie", "; ".join(f"{name}={value}" for name, value in browser.cookies.items()))]
    answer = await provider.unlimited.request("POST", ANSWER, body=urlencode(fields).encode(), headers=headers)
    is_page(answer, 403, "not sent from a page of this site")
    has_learned_nothing(provider)
    assert sent((await tab.send(answer="allow")).shown).status == "Success"


async def test_what_one_person_was_shown_another_does_not_allow(provider: Providing) -> None:
    """A person signs in through the API for a request whose page shows another person's account."""
    await provider.ready()
    bob = await provider.people.with_password(PASSWORD, "bob@example.org")
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    state = place.partition("state=")[2]
    browser.cookies |= visitor(provider).cookies
    tab = await asked(provider, browser, f"{ANSWER}?flow={state}")
    assert "ada@example.org" in tab.page.text
    (await provider.unlimited.post("/api/auth/login", {"email": bob.email, "password": PASSWORD, "saml_state": state})).ok()
    is_asked(await tab.send(answer="allow"))
    assert bob.email in tab.page.text
    assert provider.people.rows("select from consents") == provider.people.rows("select from saml_sessions") == []


async def test_no_page_may_be_framed_or_kept(provider: Providing) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    policy = tab.shown.header("content-security-policy") or ""
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert tab.shown.header("cache-control") == "no-store"
    assert tab.shown.header("referrer-policy") == "no-referrer"


async def test_a_double_click_on_allow_leads_to_the_service_provider(provider: Providing) -> None:
    """After a double click, a browser drops the first answer."""
    await provider.ready()
    tab = await asked(provider, visitor(provider), asking(authn_request(ID="_twice")))
    form = {**tab.page.forms[0].fields, "answer": "allow"}
    answers = [sent(one) for one in await all_at_once(*[lambda: tab.tabs.request("POST", ANSWER, form)] * 5)]
    assert {(one.status, one.root.get("InResponseTo")) for one in answers} == {("Success", "_twice")}
    assert len({one.root.get("ID") for one in answers}) == 5
    assert len(provider.audited("user.consent.given")) == len(provider.people.rows("select from saml_sessions")) == 1
    # The second click neither restores a consent that was taken back meanwhile, nor works in another browser.
    provider.people.change("delete from consents")
    is_page(await tab.tabs.request("POST", ANSWER, form), 400, "out of date")
    is_page(await visitor(provider, provider.people.add()).request("POST", ANSWER, form), 409, "another account")
    assert provider.people.rows("select from consents") == []


async def test_a_second_click_gives_no_consent_back_that_was_taken_back(provider: Providing) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    form = {**tab.page.forms[0].fields, "answer": "allow"}
    assert sent((await tab.send(answer="allow")).shown).status == "Success"
    provider.people.change("delete from consents")
    # However slow the machine is, this click comes a moment after the first.
    provider.people.change("update flows set completed_at = now()")
    is_page(await tab.tabs.request("POST", ANSWER, form), 400, "out of date")
    assert provider.people.rows("select from consents") == []
    assert [one["succeeded"] for one in await provider.exchanges()].count(True) == 2


async def test_a_double_click_on_deny_says_so_twice(provider: Providing) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    form = {**tab.page.forms[0].fields, "answer": "deny"}
    answers = await all_at_once(*[lambda: tab.tabs.request("POST", ANSWER, form)] * 3)
    assert {sent(one).status for one in answers} == {"RequestDenied"}
    has_learned_nothing(provider)


@pytest.mark.parametrize(("first", "second"), [("allow", "deny"), ("deny", "allow")])
async def test_another_answer_right_after_the_first_is_no_double_click(provider: Providing, first: str, second: str) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    form = tab.page.forms[0].fields
    status = sent((await tab.send(answer=first)).shown).status
    is_page(await tab.tabs.request("POST", ANSWER, {**form, "answer": second}), 400, "out of date")
    assert sent(await tab.tabs.request("POST", ANSWER, {**form, "answer": first})).status == status
    assert len(provider.people.rows("select from consents")) == (first == "allow")


async def test_going_back_to_the_page_after_a_while_brings_nothing(provider: Providing) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    form = {**tab.page.forms[0].fields, "answer": "allow"}
    place = tab.place
    sent((await tab.send(answer="allow")).shown)
    is_page(await tab.tabs.request("GET", place), 400, "out of date")
    provider.people.change("update flows set completed_at = completed_at - interval '1 hour'")
    is_page(await tab.tabs.request("POST", ANSWER, form), 400, "out of date")


async def test_another_service_provider_has_to_ask_itself(provider: Providing) -> None:
    """The new service provider may have replaced the one that the person allowed, at the same address."""
    await provider.ready()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    sent(await browser.request("GET", asking()))
    await provider.configure(entity_id=OTHER)
    tab = await asked(provider, browser, asking(authn_request(issuer=OTHER)))
    assert sent((await tab.send(answer="allow")).shown).text(".//a:Audience") == OTHER
    (kept,) = provider.people.rows("select saml_entity_id, scopes from consents")
    assert kept == {"saml_entity_id": OTHER, "scopes": None}
    # The earlier service provider has to ask again, too.
    await provider.configure(entity_id=SP)
    await asked(provider, browser)


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_page_that_names_another_service_provider_allows_nothing(provider: Providing, answer: str) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    await provider.configure(entity_id=OTHER, acs_url=ACS)
    is_page((await tab.send(answer=answer)).shown, 400, "out of date")
    has_learned_nothing(provider)


async def test_a_flow_of_the_release_before_goes_on(provider: Providing) -> None:
    """Such a flow does not name its service provider."""
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    provider.people.change("update flows set request = request - 'audience'")
    assert sent((await tab.send(answer="allow")).shown).status == "Success"


async def test_what_is_allowed_by_openid_connect_is_not_by_saml(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    provider.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, %s, now())",
        ada.user,
        provider.app.id,
        ["openid", "email"],
    )
    tab = await asked(provider, visitor(provider, ada))
    sent((await tab.send(answer="allow")).shown)
    (kept,) = provider.people.rows("select scopes, saml_entity_id from consents")
    assert kept == {"scopes": ["openid", "email"], "saml_entity_id": SP}


async def test_nor_the_other_way_round(provider: Providing) -> None:
    await provider.ready()
    callback = "https://app.example.com/callback"
    provider.people.change("update all_services set redirect_uris = %s", [callback])
    (row,) = provider.people.rows("select client_id from all_services where id = %s", provider.app.id)
    query = {
        "client_id": str(row["client_id"]),
        "redirect_uri": callback,
        "response_type": "code",
        "scope": "openid",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    tab = await browser.tab().open(f"/oauth/authorize?{urlencode(query)}")
    assert tab.place.startswith("/ui/consent?flow=")
    await tab.send(answer="allow")
    (kept,) = provider.people.rows("select scopes, saml_entity_id from consents")
    assert kept == {"scopes": ["openid"], "saml_entity_id": SP}


async def test_a_consent_at_another_tenant_is_none_here(provider: Providing) -> None:
    """The service provider of the other tenant has the same name."""
    await provider.ready()
    globex = provider.tenants.add("globex")
    theirs = provider.tenants.service(globex, "app")
    ada = provider.people.add("ada@example.org")
    provider.tenants.join(ada, globex, "owner")
    provider.allow(ada, service=theirs)
    provider.allow(provider.people.add())
    await asked(provider, visitor(provider, ada))
    assert provider.people.rows("select from saml_sessions") == []


async def test_a_person_sees_who_may_learn_who_they_are_and_takes_it_back(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    ada = provider.people.add("ada@example.org")
    browser = visitor(provider, ada)
    await (await asked(provider, browser)).send(answer="allow")
    shown = await browser.tab().open("/ui/applications")
    assert f"It can identify you when you sign in to it (SAML): {SP}" in shown.page.text.replace("\u200b", "")
    (access,) = await provider.postern.federation.consents.list(UserId(ada.user))
    assert (access.name, access.saml_entity_id, list(access.scopes), access.sessions) == ("App", SP, [], 0)
    tab = await browser.tab().open(f"/ui/applications/{provider.app.id}/revoke")
    (at,) = [number for number, form in enumerate(tab.page.forms) if form.action.endswith("/revoke")]
    await tab.send(at)
    assert "Access of the application revoked" in tab.page.text
    (entry,) = provider.audited("user.consent.revoked")
    assert entry["details"] == {**NAMED, "service_id": str(provider.app.id), "scopes": [], "saml_entity_id": SP}
    assert await provider.postern.federation.consents.list(UserId(ada.user)) == []
    await asked(provider, browser)
    assert sent(await browser.request("GET", asking(authn_request(IsPassive="true")))).status == "NoPassive"
    assert (await provider.unlimited.get(LOGIN, token=await provider.people.token(ada))).status == 403
    # We cannot end the service provider's own session before the person signs out; then it is told.
    tab = await browser.tab().open("/ui")
    await tab.send(next(at for at, one in enumerate(tab.page.forms) if one.action == "/ui/sign-out"))
    assert carried(tab.shown, SLO, "SAMLRequest").root.tag.endswith("LogoutRequest")


async def test_an_account_that_goes_to_somebody_else_has_allowed_nothing(provider: Providing) -> None:
    ada = provider.allow(provider.people.add())
    async with provider.postern.foundation.unit_of_work() as uow:
        await uow.consents.remove_all(UserId(ada.user))
        await uow.commit()
    assert provider.people.rows("select from consents") == []


async def test_what_is_taken_back_on_the_way_gets_no_assertion(provider: Providing) -> None:
    """The request has read the consent, and waits for the account's lock when the consent is taken back."""
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    answers: list[Received] = []

    async def go() -> None:
        answers.append(await browser.request("GET", asking()))

    async with trio.open_nursery() as nursery, provider.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(UserId(ada.user))
        assert await uow.consents.revoke(UserId(ada.user), ServiceId(provider.app.id)) is not None
        nursery.start_soon(go)
        await provider.people.somebody_waits()
        await uow.commit()
    is_page(answers[0], 400)
    has_learned_nothing(provider)


@pytest.mark.parametrize(("policy", "allowed", "status"), [("anyone", False, 400), ("anyone", True, 200), ("members", True, 400)])
async def test_whose_membership_ends_on_the_way_needs_a_consent(provider: Providing, policy: str, status: int, *, allowed: bool) -> None:
    """The request has read the membership, and waits for the account's lock when the membership ends."""
    await provider.ready()
    provider.people.change("update all_services set sign_in_policy = %s", policy)
    member = provider.resident(provider.acme, "member")
    browser = provider.signed_in(member, allowed=allowed)
    answers: list[Received] = []

    async def go() -> None:
        answers.append(await browser.request("GET", asking()))

    async with trio.open_nursery() as nursery, provider.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(UserId(member.user))
        assert await uow.members.remove(OrganizationId(provider.acme.id), UserId(member.user))
        nursery.start_soon(go)
        await provider.people.somebody_waits()
        await uow.commit()
    assert answers[0].status == status
    assert len(provider.people.rows("select from saml_sessions")) == (status == 200)


_TIES: Final[dict[str, Callable[[Providing, Person], object]]] = {
    "stranger": lambda _provider, _person: None,
    "listed": lambda provider, person: provider.tenants.join(person, provider.acme, listed=True),
    "own": lambda provider, person: provider.tenants.join(person, provider.acme),
    "consent": lambda provider, person: provider.allow(person),
    "consent to another": lambda provider, person: provider.allow(person, OTHER),
    "listed and consent": lambda provider, person: provider.allow(provider.tenants.join(person, provider.acme, listed=True)),
    "own elsewhere": lambda provider, person: provider.tenants.join(person, provider.tenants.add("globex")),
}


@pytest.mark.parametrize("tie", _TIES)
async def test_the_last_statement_says_what_the_domain_says(provider: Providing, monkeypatch: pytest.MonkeyPatch, tie: str) -> None:
    """The domain's rule is made to say yes always. The last SQL statement still decides, and decides as the rule would have."""
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    _TIES[tie](provider, ada)
    browser, said = visitor(provider, ada), []

    def yes(meeting: Any) -> bool:
        said.append(has_allowed(meeting))
        return True

    monkeypatch.setattr(use_case, "has_allowed", yes)
    answer = await browser.request("GET", asking())
    assert said == [tie in {"own", "consent", "listed and consent"}]
    assert answer.status == (200 if said[0] else 400)
    assert len(provider.people.rows("select from saml_sessions")) == len(provider.people.rows("select from service_users")) == said[0]


async def test_allowing_takes_the_account_before_the_flow(provider: Providing, database_url: str) -> None:
    """Deleting or forgetting an account takes the locks in this order, too."""
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    tab = await asked(provider, visitor(provider, ada))
    flow = tab.place.partition("flow=")[2]

    async def allow() -> Received:
        return (await tab.send(answer="allow")).shown

    first = ("select from users where id = %s for update", ada.user)
    answer = await behind(provider.people, database_url, first, ("select from flows where id = %s for update", flow), allow)
    assert sent(answer).status == "Success"


@pytest.mark.parametrize(
    "change", ["delete from users where id = %s", "update users set deactivated_at = now() where id = %s"], ids=["deleted", "deactivated"]
)
async def test_whoever_is_gone_on_the_way_allows_nothing(provider: Providing, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    tab = await asked(provider, visitor(provider, ada))
    meanwhile(monkeypatch, PostgresSaml, "meet", lambda: provider.people.change(change, ada.user))
    assert (await tab.send(answer="allow")).status == 400
    has_learned_nothing(provider)


async def test_a_service_that_goes_on_the_way_is_allowed_nothing(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    meanwhile(monkeypatch, PostgresSaml, "meet", lambda: provider.people.change("update all_services set deleted_at = now()"))
    is_page((await tab.send(answer="allow")).shown, 404)
    has_learned_nothing(provider)


async def test_what_another_tab_has_finished_is_finished(provider: Providing) -> None:
    """Both tabs have read the flow before either finished it."""
    await provider.ready()
    tab = await asked(provider, visitor(provider))
    saml, secret = provider.postern.federation.saml_sign_in, Token(tab.tabs.cookies["__Host-postern_flow"])
    flow = await provider.postern.identity.flows.find(FlowId(UUID(tab.place.partition("flow=")[2])), secret)
    caller = await provider.postern.tenancy.callers.resolve_browser(Token(tab.tabs.cookies[SESSION_COOKIE]))
    assert caller is not None
    sent((await tab.send(answer="allow")).shown)
    again: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: saml.allow(flow, caller, Client(None, ""), caller.session, ("openid", "email")),
        lambda: saml.deny(flow),
    )
    for once_more in again:
        with pytest.raises(FlowOver):
            await once_more()
    assert len(provider.audited("user.consent.given")) == 1


async def test_nobody_signs_in_to_an_agent(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update all_services set is_agent = true")
    answer = await visitor(provider).request("GET", asking(authn_request(), "s"))
    assert sent(answer).status == "RequestDenied"
    has_learned_nothing(provider)
