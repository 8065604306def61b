"""Signing in by SAML: requests in both bindings, the questions to the person, and the answers to the service provider."""

import subprocess
import textwrap
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import pytest
import trio
from lxml import etree

from adapters.postgres.federation.saml import PostgresSaml
from ops.stand_ins.saml import pair
from tests.http.cast import all_at_once
from tests.http.federation.arriving import is_page
from tests.http.federation.providing import ACS, SP, Providing, asking, authn_request, in_form, sent, signed, sso, verifier
from tests.http.federation.providing import metadata as sp_metadata
from tests.http.locks import behind
from tests.http.people import BASE_URL
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE
from tests.tools import place_of

IDP = f"{BASE_URL}/saml/acme/app"
_EMAIL = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
_CLASSES = "urn:oasis:names:tc:SAML:2.0:ac:classes:"
_CROSS_SITE = [
    ("content-type", "application/x-www-form-urlencoded"),
    ("sec-fetch-site", "cross-site"),
    ("origin", "https://crm.example.com"),
]


async def test_a_session_that_is_enough_gets_its_assertion_at_once(provider: Providing) -> None:
    certificate = await provider.ready()
    grace = provider.people.add("grace@example.org")
    browser = provider.signed_in(grace, age=120)
    request = authn_request(ID="_one")
    answer = await browser.request("GET", asking(request, "a b&c"))
    got = sent(answer)
    assert got.fields["RelayState"] == "a b&c"
    assert got.status == "Success"
    assert got.root.get("InResponseTo") == "_one"
    assert got.root.get("Destination") == ACS
    assert got.text("a:Issuer") == got.text("a:Assertion/a:Issuer") == IDP
    assert got.text(".//a:NameID") == "grace@example.org"
    assert got.attribute(".//a:NameID", "Format") == _EMAIL
    assert got.text(".//a:Audience") == SP
    data = got.root.find(".//{*}SubjectConfirmationData")
    assert (data.get("Recipient"), data.get("InResponseTo")) == (ACS, "_one")
    ends = datetime.fromisoformat(data.get("NotOnOrAfter"))
    assert timedelta(minutes=4) < ends - datetime.now(UTC) <= timedelta(minutes=5)
    assert got.text(".//a:AuthnContextClassRef") == f"{_CLASSES}PasswordProtectedTransport"
    assert got.attributes == {"email": ["grace@example.org"], "id": [str(grace.user)]}
    (kept,) = provider.people.rows("select * from saml_sessions")
    assert (str(kept["id"]), kept["session_id"]) == (got.attribute(".//a:AuthnStatement", "SessionIndex"), grace.session)
    (login,) = provider.people.rows("select * from login_events where provider = 'saml'")
    assert (login["user_id"], login["service_id"], login["success"]) == (grace.user, provider.app.id, True)
    (user,) = provider.people.rows("select * from service_users")
    assert (user["user_id"], user["service_id"]) == (grace.user, provider.app.id)
    assert verifier().verify(got.xml, x509_cert=certificate, id_attribute="ID").signed_xml.tag.endswith("Response")
    assert answer.header("cache-control") == "no-store"


@pytest.mark.parametrize("asked", [True, False])
async def test_an_organization_that_exports_its_sign_ins_gets_this_one_too(provider: Providing, asked: bool) -> None:
    await provider.ready()
    provider.tenants.export_sign_ins(provider.acme)
    grace = provider.people.add("grace@example.org")
    browser = provider.signed_in(grace)
    if asked:
        await browser.request("GET", asking())
    else:
        await (await browser.tab().open("/ui/open/acme/app?RelayState=r")).send()
    assert provider.tenants.exported() == [(provider.acme.id, grace.user, True)]


async def test_a_session_ends_there_when_the_organization_lets_it_end(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add()
    browser = provider.signed_in(ada, age=600)
    (session,) = provider.people.rows("select proved_at, ends_at from sessions where id = %s", ada.session)

    async def ends() -> datetime:
        got = sent(await browser.request("GET", asking()))
        return datetime.fromisoformat(got.attribute(".//a:AuthnStatement", "SessionNotOnOrAfter") or "")

    assert await ends() == session["ends_at"].replace(microsecond=0)
    provider.people.change("update all_organizations set session_hours = 1 where id = %s", provider.acme.id)
    assert await ends() == (session["proved_at"] + timedelta(hours=1)).replace(microsecond=0)
    # A session that expires earlier is not extended.
    provider.people.change("update sessions set ends_at = proved_at + interval '40 minutes' where id = %s", ada.session)
    assert await ends() == (session["proved_at"] + timedelta(minutes=40)).replace(microsecond=0)


async def test_a_stranger_signs_in_with_a_password(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    browser = provider.browser()
    answer = await browser.request("GET", asking(authn_request(ID="_two"), "x" * 300))
    assert answer.status == 302
    place = answer.header("location") or ""
    assert place.startswith("/saml/acme/app/authenticate?state=")
    tab = await browser.tab().open(place)
    assert tab.status == 200
    # The address comes first, as it does at every sign-in.
    assert 'type="password"' not in tab.shown.body.decode()
    assert "App" in tab.page.text
    assert "form-action 'self'" in (tab.shown.header("content-security-policy") or "")
    await tab.send(email=person.email)
    await tab.send(password="wrong")
    assert tab.status == 400
    await tab.send(password=PASSWORD)
    got = sent(tab.shown)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_two", "x" * 300)
    # The second time the person is not asked.
    assert sent(await browser.request("GET", asking())).status == "Success"
    assert len(provider.people.rows("select * from saml_sessions")) == 1


async def test_a_second_factor_is_asked_for_and_told(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    secret = await enable_mfa(provider.unlimited, provider.people, person)
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=person.email)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=secret.now())
    got = sent(tab.shown)
    assert got.text(".//a:AuthnContextClassRef") == "https://refeds.org/profile/mfa"


async def test_the_form_of_another_site_goes_on_with_a_get(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    body = urlencode(in_form(authn_request(ID="_three"), "s")).encode()
    answer = await provider.unlimited.request("POST", sso(), body=body, headers=_CROSS_SITE)
    assert answer.status == 302
    place = answer.header("location") or ""
    assert place.startswith("/saml/acme/app/authenticate?state=")
    state = place.partition("state=")[2]
    # A sign-in through the API cannot finish a request that no browser has.
    refused = await provider.unlimited.post("/api/auth/login", {"email": "a@example.org", "password": "x" * 10, "saml_state": state})
    assert refused.status == 400
    tab = await provider.opened(browser.tab(), place)
    assert sent(tab.shown).root.get("InResponseTo") == "_three"
    # The request belongs to this browser now.
    is_page(await provider.browser().request("GET", place), 400)


async def test_a_form_of_a_client_without_fetch_metadata_is_its_own(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    answer = await browser.request("POST", sso(), in_form(authn_request()))
    assert sent(answer).status == "Success"


async def test_an_api_client_signs_in_for_a_request(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    browser = provider.browser()
    place = (await browser.request("GET", asking(authn_request(ID="_four")))).header("location") or ""
    state = place.partition("state=")[2]
    answer = await provider.unlimited.post("/api/auth/login", {"email": person.email, "password": PASSWORD, "saml_state": state})
    body = answer.ok()
    assert body["access_token"]
    onward = body["saml_redirect_url"]
    assert onward.startswith(f"{BASE_URL}/ui/saml?flow=")
    is_page(await provider.browser().request("GET", onward.removeprefix(BASE_URL)), 400)
    got = sent(await browser.request("GET", onward.removeprefix(BASE_URL)))
    assert (got.status, got.root.get("InResponseTo")) == ("Success", "_four")
    is_page(await browser.request("GET", onward.removeprefix(BASE_URL)), 400)
    again = await provider.unlimited.post("/api/auth/login", {"email": person.email, "password": PASSWORD, "saml_state": state})
    assert again.status == 400
    plain = await provider.unlimited.post("/api/auth/login", {"email": person.email, "password": PASSWORD, "saml_state": "no"})
    assert plain.status == 400


async def test_an_api_client_whose_account_is_deleted_at_its_end_does_not(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    place = (await provider.browser().request("GET", asking())).header("location") or ""
    gone = "delete from users where id = %s"
    meanwhile(monkeypatch, provider.postern.identity.sign_in, "with_password", lambda: provider.people.change(gone, person.user))
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    assert (await provider.unlimited.post("/api/auth/login", login)).status == 400


@pytest.mark.parametrize("again", [False, True])
async def test_an_api_client_with_a_second_factor_does_too(provider: Providing, *, again: bool) -> None:
    """The client may repeat the request that it signs in for."""
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    secret = await enable_mfa(provider.unlimited, provider.people, person)
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    state = place.partition("state=")[2]
    login = {"email": person.email, "password": PASSWORD, "saml_state": state}
    owed = (await provider.unlimited.post("/api/auth/login", login)).ok()
    assert owed["mfa_required"]
    assert "saml_redirect_url" not in owed
    verify = {"code": secret.now(), "preauth_token": owed["access_token"], **({"saml_state": state} if again else {})}
    body = (await provider.unlimited.post("/api/auth/mfa/verify", verify)).ok()
    got = sent(await browser.request("GET", body["saml_redirect_url"].removeprefix(BASE_URL)))
    assert got.text(".//a:AuthnContextClassRef") == "https://refeds.org/profile/mfa"


async def test_a_request_that_is_over_by_then_does_not_use_the_code_up(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    secret = await enable_mfa(provider.unlimited, provider.people, person)
    place = (await provider.browser().request("GET", asking())).header("location") or ""
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    owed = (await provider.unlimited.post("/api/auth/login", login)).ok()
    verify = {"code": secret.now(), "preauth_token": owed["access_token"]}
    provider.people.change("update flows set expires_at = now() - interval '1 s'")
    answer = await provider.unlimited.post("/api/auth/mfa/verify", verify)
    assert (answer.status, answer.json()["error"].partition(":")[0]) == (400, "saml_state")
    provider.people.change("update flows set expires_at = now() + interval '1 minute'")
    assert "saml_redirect_url" in (await provider.unlimited.post("/api/auth/mfa/verify", verify)).ok()


@pytest.mark.parametrize("binding", ["redirect", "post"])
async def test_a_request_counts_once(provider: Providing, binding: str) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    request = authn_request()

    async def send() -> int:
        if binding == "redirect":
            return (await browser.request("GET", asking(request))).status
        return (await browser.request("POST", sso(), in_form(request))).status

    assert sorted(await all_at_once(*[send] * 10)) == [200] + [400] * 9
    assert len(provider.people.rows("select * from login_events where provider = 'saml'")) == 1
    assert await send() == 400
    exchanges = await provider.exchanges()
    assert {"its ID was used before"} == {one["reason"] for one in exchanges if not one["succeeded"]}


async def test_passive_requests_get_a_status_and_no_page(provider: Providing) -> None:
    await provider.ready()
    got = sent(await provider.browser().request("GET", asking(authn_request(IsPassive="true"), "s")))
    assert (got.status, got.fields["RelayState"]) == ("NoPassive", "s")
    assert got.root.find("{*}Assertion") is None
    assert got.root.find("{*}Signature") is not None
    got = sent(await provider.signed_in(provider.people.add()).request("GET", asking(authn_request(IsPassive="1"))))
    assert got.status == "Success"
    body = urlencode(in_form(authn_request(IsPassive="true"))).encode()
    place = (await provider.unlimited.request("POST", sso(), body=body, headers=_CROSS_SITE)).header("location") or ""
    tab = await provider.opened(provider.browser().tab(), place)
    assert sent(tab.shown).status == "NoPassive"


async def test_a_passive_request_that_is_refused_counts_once_as_well(provider: Providing) -> None:
    await provider.ready()
    place, browser = asking(authn_request(IsPassive="true")), provider.browser()
    assert sorted([(await browser.request("GET", place)).status for _ in range(2)]) == [200, 400]


async def test_force_authn_asks_again(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=person.email)
    await tab.send(password=PASSWORD)
    sent(tab.shown)
    tab = await provider.opened(tab, asking(authn_request(ForceAuthn="true")))
    # The address is known, so the page with the password comes at once.
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    await tab.send(password=PASSWORD)
    assert sent(tab.shown).status == "Success"
    got = sent(await tab.tabs.request("GET", asking(authn_request(ForceAuthn="true", IsPassive="true"))))
    assert got.status == "NoPassive"


def _context(*classes: str, comparison: str = "") -> str:
    named = "".join(f"<saml:AuthnContextClassRef>{one}</saml:AuthnContextClassRef>" for one in classes)
    how = f' Comparison="{comparison}"' if comparison else ""
    return f"<samlp:RequestedAuthnContext{how}>{named}</samlp:RequestedAuthnContext>"


_PASSWORD = f"{_CLASSES}PasswordProtectedTransport"
_MFA = "https://refeds.org/profile/mfa"


@pytest.mark.parametrize(
    ("context", "amr", "expected"),
    [
        (_context(_PASSWORD), "{pwd}", _PASSWORD),
        (_context(f"{_CLASSES}Password", _MFA), "{pwd}", f"{_CLASSES}Password"),
        (_context(_MFA), "{pwd}", "NoAuthnContext"),
        (_context(_MFA), "{pwd,otp,mfa}", _MFA),
        (_context(_PASSWORD), "{pwd,otp,mfa}", _PASSWORD),
        (_context(_PASSWORD, comparison="minimum"), "{pwd,otp,mfa}", _MFA),
        (_context(_PASSWORD, comparison="better"), "{pwd,otp,mfa}", _MFA),
        (_context(_PASSWORD, comparison="better"), "{pwd}", "NoAuthnContext"),
        (_context(_MFA, comparison="better"), "{pwd,otp,mfa}", "NoAuthnContext"),
        (_context(_MFA, comparison="maximum"), "{pwd}", _PASSWORD),
        (_context(_PASSWORD, comparison="maximum"), "{pwd,otp,mfa}", _PASSWORD),
        (_context(_PASSWORD, _MFA, comparison="maximum"), "{pwd,otp,mfa}", _MFA),
        (_context(_PASSWORD, comparison="worse"), "{pwd}", "NoAuthnContext"),
        (_context(f"{_CLASSES}Kerberos"), "{pwd}", "NoAuthnContext"),
        (_context(), "{pwd}", "NoAuthnContext"),
        ("", "{link}", f"{_CLASSES}unspecified"),
    ],
)
async def test_the_kind_of_sign_in(provider: Providing, context: str, amr: str, expected: str) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add(), amr=amr)
    got = sent(await browser.request("GET", asking(authn_request(inside=context))))
    assert (got.text(".//a:AuthnContextClassRef") if got.status == "Success" else got.status) == expected


async def test_names_by_their_formats(provider: Providing) -> None:
    await provider.ready(name_id_format="persistent")
    ada, grace = provider.people.add("ada@example.org"), provider.people.add("grace@example.org")
    browser = provider.signed_in(ada)

    async def name(policy: str = "", browser_: object = None) -> tuple[str, str]:
        inside = f"<samlp:NameIDPolicy {policy}/>" if policy else ""
        got = sent(await (browser_ or browser).request("GET", asking(authn_request(inside=inside))))  # type: ignore[attr-defined]
        if got.status != "Success":
            return got.status, ""
        return (got.attribute(".//a:NameID", "Format") or "").rpartition(":")[2], got.text(".//a:NameID")

    kind, persistent = await name()
    assert kind == "persistent"
    assert (kind, persistent) == await name()
    assert len(persistent) == 64
    assert str(ada.user) not in persistent
    assert (await name("", provider.signed_in(grace)))[1] != persistent
    prefix = "urn:oasis:names:tc:SAML:"
    kind, transient = await name(f'Format="{prefix}2.0:nameid-format:transient"')
    assert kind == "transient"
    assert transient != (await name(f'Format="{prefix}2.0:nameid-format:transient"'))[1]
    assert await name(f'Format="{prefix}1.1:nameid-format:emailAddress"') == ("emailAddress", "ada@example.org")
    assert await name(f'Format="{prefix}1.1:nameid-format:unspecified"') == ("persistent", persistent)
    assert (await name(f'Format="{prefix}2.0:nameid-format:kerberos"'))[0] == "InvalidNameIDPolicy"
    assert (await name('SPNameQualifier="https://other.example.com"'))[0] == "InvalidNameIDPolicy"
    assert (await name(f'SPNameQualifier="{SP}"'))[0] == "persistent"


async def test_attributes_by_the_mapping(provider: Providing) -> None:
    mapping = {
        "email": "mail",
        "id": "uid",
        "role": "roles",
        "organization": "org",
        "organization_name": "company",
        "groups": "roles",
        "name": "cn",
    }
    await provider.ready(attribute_mapping=mapping)
    owner = provider.signed_in(provider.owner)
    got = sent(await owner.request("GET", asking()))
    assert got.attributes == {
        "mail": [provider.owner.email],
        "uid": [str(provider.owner.user)],
        "roles": ["owner", "acme/owner"],
        "org": ["acme"],
        "company": ["Acme"],
    }
    stranger = sent(await provider.signed_in(provider.people.add()).request("GET", asking()))
    assert set(stranger.attributes) == {"mail", "uid", "org", "company"}
    await provider.configure(attribute_mapping={})
    assert sent(await owner.request("GET", asking())).attributes == {}


async def test_somebody_else_than_the_request_names_is_not_told_of(provider: Providing) -> None:
    await provider.ready()
    inside = "<saml:Subject><saml:NameID>Grace@example.org</saml:NameID></saml:Subject>"
    got = sent(await provider.signed_in(provider.people.add("ada@example.org")).request("GET", asking(authn_request(inside=inside))))
    assert got.status == "UnknownPrincipal"
    got = sent(await provider.signed_in(provider.people.add("grace@example.org")).request("GET", asking(authn_request(inside=inside))))
    assert got.status == "Success"


async def test_somebody_else_by_persistent_name_is_not_told_of_either(provider: Providing) -> None:
    await provider.ready(name_id_format="persistent")
    ada, grace = provider.signed_in(provider.people.add()), provider.signed_in(provider.people.add())
    name = sent(await ada.request("GET", asking())).text(".//a:NameID")
    for browser, wanted, status in (
        (ada, name, "Success"),
        (ada, f" {name}\n", "Success"),
        (grace, name, "UnknownPrincipal"),
        (ada, "ada", "UnknownPrincipal"),
        (ada, "\u00e4", "UnknownPrincipal"),
    ):
        inside = f"<saml:Subject><saml:NameID>{wanted}</saml:NameID></saml:Subject>"
        assert sent(await browser.request("GET", asking(authn_request(inside=inside)))).status == status


async def test_the_form_is_not_filled_in_with_another_address_than_the_request_may_mean(provider: Providing) -> None:
    await provider.ready(name_id_format="persistent")
    grace = provider.signed_in(provider.people.add("grace@example.org"))
    name = sent(await grace.request("GET", asking())).text(".//a:NameID")
    ada = provider.signed_in(provider.people.add("ada@example.org"))
    for subject, filled in ((name, ""), ("grace@example.org", "grace@example.org"), ("", "ada@example.org")):
        inside = f"<saml:Subject><saml:NameID>{subject}</saml:NameID></saml:Subject>" if subject else ""
        tab = await provider.opened(ada.tab(), asking(authn_request(inside=inside, ForceAuthn="true")))
        assert tab.page.inputs["email"].get("value", "") == filled, subject


@pytest.mark.parametrize(
    "identifier",
    [
        "<saml:EncryptedID/>",
        '<saml:BaseID NameQualifier="a"/>',
        '<saml:NameID SPNameQualifier="https://other.example.com">ada@example.org</saml:NameID>',
        "<saml:NameID/>",
    ],
)
async def test_somebody_whom_nobody_here_knows_by_that_name_is_not_told_of(provider: Providing, identifier: str) -> None:
    await provider.ready()
    asked = authn_request(inside=f"<saml:Subject>{identifier}</saml:Subject>", ID="_r")
    got = sent(await provider.signed_in(provider.people.add("ada@example.org")).request("GET", asking(asked)))
    assert (got.status, got.root.get("InResponseTo")) == ("UnknownPrincipal", "_r")
    assert got.root.find("{*}Assertion") is None


@pytest.mark.parametrize("qualifier", ["", SP])
async def test_a_name_at_the_service_provider_itself_is_a_name_here(provider: Providing, qualifier: str) -> None:
    await provider.ready()
    inside = f'<saml:Subject><saml:NameID SPNameQualifier="{qualifier}">ada@example.org</saml:NameID></saml:Subject>'
    got = sent(await provider.signed_in(provider.people.add("ada@example.org")).request("GET", asking(authn_request(inside=inside))))
    assert got.status == "Success"


async def test_an_address_that_is_taken_back_while_the_person_signs_in_gets_nothing(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(sp_metadata())).ok()
    browser = provider.browser()
    answer = await browser.request("GET", asking(authn_request(AssertionConsumerServiceURL=f"{ACS}/7")))
    state = (answer.header("location") or "").rpartition("=")[2]
    browser.cookies |= provider.signed_in(provider.people.add()).cookies
    provider.people.change("update saml_configurations set acs_endpoints = '[]'")
    is_page(await browser.request("GET", f"/ui/saml?flow={state}"), 400)
    provider.people.change("update services set sign_in_policy = 'members'")
    is_page(await browser.request("GET", f"/ui/saml?flow={state}"), 400)


async def test_answers_go_by_post_alone(provider: Providing) -> None:
    await provider.ready()
    artifact = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Artifact"
    browser = provider.signed_in(provider.people.add())
    assert sent(await browser.request("GET", asking(authn_request(ProtocolBinding=artifact)))).status == "UnsupportedBinding"


async def test_a_person_who_is_not_admitted_leaves_the_reason(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update all_services set sign_in_policy = 'assigned'")
    browser = provider.signed_in(provider.people.add("stranger@example.org"))
    assert (await provider.opened(browser.tab(), asking())).status == 403
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: provider.postern.federation.refusal_recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while not (rows := provider.people.rows("select place, reason, received from authorization_refusals")):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert rows == [{"place": "saml", "reason": "no_role", "received": ""}]


async def test_only_members_where_the_service_says_so(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update all_services set sign_in_policy = 'members'")
    browser = provider.signed_in(provider.people.add("stranger@example.org"))
    tab = await provider.opened(browser.tab(), asking(authn_request(ID="_away"), "s"))
    assert tab.status == 403
    assert "Only members of Acme" in tab.page.text
    await tab.send(answer="deny")
    got = sent(tab.shown)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("RequestDenied", "_away", "s")
    assert provider.people.rows("select * from saml_sessions") == []
    tab = await provider.opened(browser.tab(), asking())
    await tab.send(answer="another")
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert sent(await provider.signed_in(provider.owner).request("GET", asking())).status == "Success"
    got = sent(await browser.request("GET", asking(authn_request(IsPassive="true"))))
    assert got.status == "RequestDenied"


async def test_members_under_a_rule_set_up_a_second_factor_first(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update all_organizations set mfa_required_since = now() - interval '30 days', mfa_grace_days = 7")
    provider.people.change("update memberships set created_at = now() - interval '30 days'")
    tab = await provider.opened(provider.signed_in(provider.owner).tab(), asking())
    assert "requires two-step sign-in" in tab.page.text
    provider.people.change("update all_organizations set mfa_required_since = now()")
    member = await provider.with_password("new@acme.example")
    provider.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at, own_since) values (%s, %s, %s, 'member', now(), now())",
        provider.postern.foundation.ids.new(),
        provider.acme.id,
        member.user,
    )
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=member.email)
    await tab.send(password=PASSWORD)
    assert "requires two-step sign-in" in tab.page.text
    await tab.send(1)
    assert sent(tab.shown).status == "Success"


@pytest.mark.parametrize("answer", ["yes", "leave", "later"])
async def test_whom_the_organization_merely_lists_is_asked_at_a_sign_in(provider: Providing, answer: str) -> None:
    await provider.ready()
    ada = await provider.people.with_password(PASSWORD, "ada@lovelace.example")
    provider.tenants.join(ada, provider.acme, listed=True)
    tab = await provider.opened(provider.browser().tab(), asking())
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/confirm-membership?flow=")
    # If the request forbids questions, the person is not asked.
    passive = await tab.tabs.request("GET", asking(authn_request(IsPassive="true")))
    assert sent(passive).root is not None
    await tab.send(answers="later" if answer == "later" else f"{answer}:{provider.acme.id}")
    if answer != "yes":
        await tab.send(answer="allow")
    assert sent(tab.shown).status == "Success"
    rows = provider.people.rows("select own_since is not null as own from memberships where user_id = %s", ada.user)
    assert rows == {"yes": [{"own": True}], "leave": [], "later": [{"own": False}]}[answer]


async def test_who_signs_in_through_the_api_has_no_page_that_could_ask(provider: Providing) -> None:
    await provider.ready()
    ada = await provider.people.with_password(PASSWORD, "ada@lovelace.example")
    provider.tenants.join(ada, provider.acme, listed=True)
    browser = provider.browser()
    location = (await browser.request("GET", asking())).header("location") or ""
    state = location.partition("state=")[2]
    body = {"email": ada.email, "password": PASSWORD, "saml_state": state}
    led_to = (await provider.client.post("/api/auth/login", body)).ok()["saml_redirect_url"]
    tab = await browser.tab().open(led_to.removeprefix(BASE_URL))
    assert "Confirm your membership" not in tab.page.text
    # The consent is another question; its page needs no session.
    await tab.send(answer="allow")
    assert sent(tab.shown).status == "Success"


async def test_signed_requests_in_both_bindings(provider: Providing) -> None:
    await provider.ready()
    sp = pair()
    uploaded = await provider.upload(sp_metadata(signing=(pair("old"), sp), AuthnRequestsSigned="true"))
    assert uploaded.ok()["require_signed_requests"] is True
    browser = provider.signed_in(provider.people.add())
    assert sent(await browser.request("GET", asking(signer=sp, state="a b"))).status == "Success"
    assert sent(await browser.request("POST", sso(), in_form(signed(authn_request(), pair("old"))))).status == "Success"
    query, _, signature = asking(signer=sp).partition("&Signature=")
    # Some clients break the value into lines. No escape sequence of the address is torn apart.
    lines = "\r\n".join(textwrap.wrap(unquote(signature), 76))
    assert sent(await browser.request("GET", f"{query}&Signature={quote(lines, safe='')}")).status == "Success"
    for wrong in (asking(), asking(signer=pair("stranger")), asking(signer=sp) + "x", asking(signer=sp).replace("sha256", "sha1")):
        is_page(await browser.request("GET", wrong), 400)
    for wrong in (
        authn_request(),
        signed(authn_request(), pair("stranger")),
        signed(authn_request(), sp).replace("acme/app/sso", "acme/app/SSO"),
    ):
        is_page(await browser.request("POST", sso(), in_form(wrong)), 400)
    failed = [one for one in await provider.exchanges() if not one["succeeded"]]
    assert len(failed) == 7
    assert all(one["advice"] for one in failed if "not signed" in one["reason"])


async def test_further_addresses_of_the_metadata(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(sp_metadata())).ok()
    browser = provider.signed_in(provider.people.add())
    answer = await browser.request("GET", asking(authn_request(AssertionConsumerServiceURL=f"{ACS}/7")))
    assert sent(answer, f"{ACS}/7").text(".//a:Audience") == SP
    plain = {"AssertionConsumerServiceURL": None}
    sent(await browser.request("GET", asking(authn_request(AssertionConsumerServiceIndex="7", **plain))), f"{ACS}/7")
    sent(await browser.request("GET", asking(authn_request(**plain))))
    for index in ("8", "-1", "x", "999999"):
        is_page(await browser.request("GET", asking(authn_request(AssertionConsumerServiceIndex=index, **plain))), 400)


async def test_everything_stops_with_what_it_stands_on(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add()
    browser = provider.signed_in(ada)

    async def entries() -> list[int]:
        token = await provider.people.token(ada)
        return [
            (await browser.request("GET", asking())).status,
            (await browser.request("POST", sso(), in_form(authn_request()))).status,
            (await provider.unlimited.get("/saml/acme/app/metadata")).status,
            (await provider.unlimited.get("/api/organizations/acme/services/app/saml/login", token=token)).status,
        ]

    assert await entries() == [200] * 4
    provider.people.change("update all_organizations set status = 'suspended'")
    assert await entries() == [403] * 4
    provider.people.change("update all_organizations set status = 'active'")
    provider.people.change("update saml_configurations set enabled = false")
    assert await entries() == [404] * 4
    provider.people.change("update saml_configurations set enabled = true")
    provider.people.change("update all_services set deleted_at = now()")
    assert await entries() == [404] * 4
    provider.people.change("update all_services set deleted_at = null")
    assert await entries() == [200] * 4
    provider.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    assert await entries() == [302, 302, 200, 401]
    provider.people.change("update users set deactivated_at = null")
    (await provider.call("DELETE")).ok()
    assert await entries() == [404] * 4


_TAKEN_BACK: Final = {
    "its address": "update saml_configurations set acs_url = 'https://crm.example.com/new', acs_endpoints = '[]'",
    "its name": "update saml_configurations set entity_id = 'https://crm.example.com/other'",
    "its certificate": "update saml_configurations set encryption_certificate = 'another'",
    "ours": "delete from saml_certificates",
}


@pytest.mark.parametrize("change", _TAKEN_BACK.values(), ids=list(_TAKEN_BACK))
async def test_what_is_taken_back_while_an_assertion_is_made_gets_none(
    provider: Providing, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add())
    meanwhile(monkeypatch, PostgresSaml, "meet_in_browser", lambda: provider.people.change(change))
    is_page(await browser.request("GET", asking()), 400)
    assert provider.people.rows("select from saml_sessions") == provider.people.rows("select from login_events") == []


async def test_finishing_takes_the_account_before_the_flow(provider: Providing, database_url: str) -> None:
    """Deleting or forgetting an account takes the locks in this order, too."""
    await provider.ready()
    browser, person = provider.browser(), provider.people.add()
    flow = ((await browser.request("GET", asking())).header("location") or "").rpartition("=")[2]
    browser.cookies |= provider.signed_in(person).cookies
    first = ("select from users where id = %s for update", person.user)
    then = ("select from flows where id = %s for update", flow)
    answer = await behind(provider.people, database_url, first, then, lambda: browser.request("GET", f"/ui/saml?flow={flow}"))
    assert sent(answer).status == "Success"


@pytest.mark.parametrize("step", ["made", "activated", "disabled"])
async def test_certificates_are_replaced_before_the_service_is_held(provider: Providing, database_url: str, step: str) -> None:
    """A sign-in has used a certificate, and then locks the service, to count a new user."""
    await provider.ready()
    if step == "activated":
        await provider.certificate("?activate=false")
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "made": partial(provider.call, "POST", "/certificate"),
        "activated": partial(provider.call, "POST", "/certificate/activate"),
        "disabled": partial(provider.call, "DELETE"),
    }
    service = provider.app.id
    first = ("select from saml_certificates where service_id = %s for no key update", service)
    then = ("select from all_services where id = %s for no key update", service)
    assert (await behind(provider.people, database_url, first, then, calls[step])).status in {200, 201, 204}


async def test_a_person_who_is_deactivated_while_signing_in_gets_nothing(provider: Providing) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    onward = (await provider.unlimited.post("/api/auth/login", login)).ok()["saml_redirect_url"].removeprefix(BASE_URL)
    provider.people.change("update users set deactivated_at = now()")
    is_page(await browser.request("GET", onward), 400)


async def test_idp_initiated(provider: Providing) -> None:
    await provider.ready()
    ada = provider.allow(provider.people.add())
    path = "/api/organizations/acme/services/app/saml/login"
    answer = await provider.unlimited.get(f"{path}?RelayState=/reports", token=await provider.people.token(ada))
    got = sent(answer)
    assert got.status == "Success"
    assert got.fields["RelayState"] == "/reports"
    assert got.root.get("InResponseTo") is None
    assert "InResponseTo" not in got.root.find(".//{*}SubjectConfirmationData").attrib
    assert (await provider.unlimited.get(path)).status == 401
    assert (await provider.unlimited.get(path.replace("/app/", "/none/"), token=await provider.people.token(ada))).status == 404
    long = await provider.unlimited.get(f"{path}?RelayState={'x' * 5000}", token=await provider.people.token(ada))
    assert long.status == 400
    provider.people.change("update all_services set sign_in_policy = 'members'")
    assert (await provider.unlimited.get(path, token=await provider.people.token(ada))).status == 403


async def test_idp_initiated_from_a_page(provider: Providing) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    tab = await browser.tab().open("/ui/open/acme/app?RelayState=r")
    assert "ada@example.org" in tab.page.text
    token = tab.page.forms[0].fields["form_token"]
    await tab.send()
    got = sent(tab.shown)
    assert (got.status, got.fields["RelayState"]) == ("Success", "r")
    path = "/api/organizations/acme/services/app/saml/login"
    assert (await browser.request("POST", path, {"form_token": token[::-1]})).status == 403
    assert (await provider.browser().request("GET", "/ui/open/acme/app")).status == 303


async def test_round_trips(provider: Providing) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add())
    for _ in range(2):
        sent(await browser.request("GET", asking()))
    (*_, request) = provider.log.events("request")
    assert request["route"] == "/saml/{org_slug}/{service_slug}/sso"
    assert request["db_round_trips"] == 3
    for suffix in ("", "/certificate", "/exchanges"):
        (await provider.call("GET", suffix)).ok()
        (*_, request) = provider.log.events("request")
        assert request["db_round_trips"] <= 2


@pytest.mark.parametrize(("assertion", "response"), [(True, True), (True, False), (False, True)])
async def test_every_combination_of_signatures_verifies(provider: Providing, assertion: bool, response: bool, tmp_path: object) -> None:
    certificate = await provider.ready(sign_assertions=assertion, sign_response=response)
    got = sent(await provider.signed_in(provider.people.add()).request("GET", asking()))
    found = {one.getparent().tag.rpartition("}")[2] for one in got.root.iter("{*}Signature")}
    assert found == {name for name, yes in (("Assertion", assertion), ("Response", response)) if yes}
    directory = Path(str(tmp_path))
    (directory / "c.pem").write_text(certificate)
    (directory / "r.xml").write_bytes(got.xml)
    if response:
        verifier().verify(got.xml, x509_cert=certificate, id_attribute="ID")
    if assertion:
        inner = etree.tostring(got.root.find("{*}Assertion"))
        verifier().verify(inner, x509_cert=certificate, id_attribute="ID")
    for name in found:
        node = f"//*[local-name()='{name}']/*[local-name()='Signature']"
        told = subprocess.run(
            [place_of("xmlsec1"), "--verify", "--enabled-key-data", "rsa", "--pubkey-cert-pem", "c.pem", "--id-attr:ID", "Response",
             "--id-attr:ID", "Assertion", "--node-xpath", node, "r.xml"],
            cwd=directory, capture_output=True, check=False,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr


async def test_the_organization_sees_how_a_member_signed_in_and_that_they_failed(provider: Providing) -> None:
    await provider.ready()
    ada = await provider.with_password("ada@example.org")
    provider.tenants.join(ada, provider.acme)
    browser = provider.browser()
    tab = await browser.tab().open((await browser.request("GET", asking(authn_request(ID="_seen")))).header("location") or "")
    tab = await (await tab.send(email="ada@example.org")).send(password="a wrong password")
    await tab.send(password=PASSWORD)
    rows = provider.people.rows("select provider, reason, service_id, organization_id from login_events order by id")
    place = {"service_id": provider.app.id, "organization_id": provider.acme.id}
    assert rows == [{"provider": "password", "reason": "wrong_password", **place}, {"provider": "password", "reason": None, **place}]
    # A sign-in that rests on the session is another, and a visit that is refused is none.
    await browser.request("GET", asking(authn_request(ID="_again")))
    provider.people.change("update services set sign_in_policy = 'assigned' where id = %s", provider.app.id)
    await browser.tab().open((await browser.request("GET", asking(authn_request(ID="_refused")))).header("location") or "")
    rows = provider.people.rows("select provider, reason, service_id, organization_id from login_events order by id offset 2")
    assert rows == [{"provider": "saml", "reason": None, **place}, {"provider": "session", "reason": "no_role", **place}]
