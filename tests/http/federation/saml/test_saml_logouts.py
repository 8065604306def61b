"""Single logout: requested by a service provider in both bindings, or by the person here, and told to all other service providers."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
import trio

from core.domain.identifiers import first_id
from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import DS, pair
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import is_page
from tests.http.federation.providing import (
    ACS,
    SLO,
    SP,
    Providing,
    Response,
    asking,
    authn_request,
    carried,
    in_form,
    in_query,
    led,
    logout_request,
    metadata,
    now,
    redirect_logout,
    redirected,
    sent,
    signed,
    slo,
)
from tests.http.people import BASE_URL, Person

_CROSS_SITE = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")]


_EMAIL = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
_PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
_TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"


async def _entered(browser: Tabs, service: str = "app", *, name_format: str | None = None) -> tuple[str, str]:
    """The service provider's names for the person and for the session."""
    policy = "" if name_format is None else f'<samlp:NameIDPolicy Format="{name_format}"/>'
    request = authn_request(Destination=None, inside=policy)
    got = sent(await browser.request("GET", asking(request).replace("/app/sso", f"/{service}/sso")))
    return got.text(".//a:NameID"), got.attribute(".//a:AuthnStatement", "SessionIndex") or ""


def _is_over(provider: Providing, person: Person) -> bool:
    (session,) = provider.people.rows("select revoked_at from sessions where id = %s", person.session)
    return session["revoked_at"] is not None


def _answer(asked: Response, service: str, status: str = "Success") -> str:
    code = f"urn:oasis:names:tc:SAML:2.0:status:{status}"
    return (
        '<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" '
        f'ID="_a{asked.root.get("ID")}" Version="2.0" IssueInstant="{now()}" Destination="{BASE_URL}/saml/acme/{service}/slo" '
        f'InResponseTo="{asked.root.get("ID")}"><saml:Issuer>https://crm.example.com/saml</saml:Issuer>'
        f'<samlp:Status><samlp:StatusCode Value="{code}"/></samlp:Status></samlp:LogoutResponse>'
    )


async def _second(provider: Providing, **changes: Any) -> None:
    provider.tenants.service(provider.acme, "wiki")
    await provider.configure(service="wiki", slo_url=f"{SLO}/wiki", **changes)
    await provider.certificate(service="wiki")


async def test_a_signed_request_signs_out_in_both_bindings(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    for binding in ("redirect", "post"):
        ada = provider.people.add()
        name, index = await _entered(provider.signed_in(ada))
        document = logout_request(name, index, ID=f"_{binding}")
        # In any browser: the service provider's signature is enough.
        if binding == "redirect":
            answer = await provider.browser().request("GET", f"{slo()}?{in_query(document, 's', signer=pair())}")
        else:
            body = urlencode(in_form(signed(document, pair()), "s")).encode()
            answer = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
        got = sent(answer, SLO)
        assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", f"_{binding}", "s")
        assert got.root.find("{*}Signature") is not None
        assert _is_over(provider, ada)
        assert (await provider.unlimited.get("/api/user", token=await provider.people.token(ada))).status == 401
        # The same request again is refused. Another request finds no session, and succeeds.
        assert (await provider.browser().request("GET", f"{slo()}?{in_query(document, signer=pair())}")).status == 400
        again = in_query(logout_request(name, index), signer=pair())
        assert sent(await provider.browser().request("GET", f"{slo()}?{again}"), SLO).status == "Success"
    assert provider.people.rows("select * from saml_sessions") == []


@pytest.mark.parametrize("state", ["s", None])
@pytest.mark.parametrize("by", ["redirect", "own form", "form of another site"])
@pytest.mark.parametrize("said", ["nothing", "by hand after metadata", "post", "redirect"])
async def test_an_answer_comes_as_the_request_did_where_nothing_is_said(provider: Providing, said: str, by: str, state: str | None) -> None:
    await provider.ready(slo_url=SLO)
    if said != "nothing":
        (await provider.upload(metadata(slo=redirect_logout()) if said == "redirect" else metadata())).ok()
    if said == "by hand after metadata":
        await provider.configure(slo_url=f"{SLO}/other")
        await provider.configure(slo_url=SLO)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    request = logout_request(name, index, ID="_r")
    if by == "redirect":
        answer = await browser.request("GET", f"{slo()}?{in_query(request, state)}")
    elif by == "own form":
        answer = await browser.request("POST", slo(), in_form(request, state))
    else:
        body = urlencode(in_form(request, state)).encode()
        bounced = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
        answer = await browser.request("GET", bounced.header("location") or "")
    expected = said if said in {"post", "redirect"} else "redirect" if by == "redirect" else "post"
    got = carried(answer, SLO)
    assert ("Signature" in got.fields) == (expected == "redirect")
    assert (got.status, got.root.get("InResponseTo"), got.fields.get("RelayState")) == ("Success", "_r", state)
    (recorded,) = [one for one in await _exchanges(provider) if one["kind"] == "our_logout_response"]
    assert recorded["binding"] == expected


@pytest.mark.parametrize(("said", "expected"), [("nothing", "redirect"), ("post", "post"), ("redirect", "redirect")])
async def test_our_own_request_begins_by_redirect_where_nothing_is_said(provider: Providing, said: str, expected: str) -> None:
    await provider.ready(slo_url=SLO)
    if said != "nothing":
        (await provider.upload(metadata(slo=redirect_logout()) if said == "redirect" else metadata())).ok()
    browser = provider.signed_in(provider.people.add())
    await _entered(browser)
    tab = await browser.tab().open("/ui")
    await tab.send(next(at for at, one in enumerate(tab.page.forms) if one.action == "/ui/sign-out"))
    asked = carried(tab.shown, SLO, "SAMLRequest")
    assert ("Signature" in asked.fields) == (expected == "redirect")
    last = await browser.request("GET", f"{slo()}?{in_query(_answer(asked, 'app'), name='SAMLResponse')}")
    is_page(last, 200, "You are signed out")
    (recorded,) = [one for one in await _exchanges(provider) if one["kind"] == "our_logout_request"]
    assert recorded["binding"] == expected


async def test_a_sign_out_that_the_release_before_has_begun_is_answered_as_it_did(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), f"{SLO}/wiki", "SAMLRequest")
    provider.people.change("update flows set request = request #- '{origin,binding}' where purpose = 'saml_logout'")
    done = await browser.request("GET", f"{slo('wiki')}?{in_query(_answer(asked, 'wiki'), name='SAMLResponse')}")
    assert sent(done, SLO).status == "Success"


async def _exchanges(provider: Providing) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await provider.call("GET", "/exchanges")).ok()["exchanges"]
    return listed


async def test_a_request_that_never_expires_is_taken(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    request = logout_request(name, index, NotOnOrAfter="9999-12-31T23:59:59Z")
    assert carried(await browser.request("GET", f"{slo()}?{in_query(request)}"), SLO).status == "Success"


async def test_an_unsigned_request_counts_for_this_browser_alone(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    ada, grace = provider.people.add("ada@example.org"), provider.people.add("grace@example.org")
    hers, browser = provider.signed_in(grace), provider.signed_in(ada)
    await _entered(hers)
    name, index = await _entered(browser)
    for tabs, wrong in ((hers, (name, index)), (provider.browser(), (name, index)), (browser, (name, "other")), (browser, ("x", index))):
        got = carried(await tabs.request("GET", f"{slo()}?{in_query(logout_request(*wrong))}"), SLO)
        assert got.status == "UnknownPrincipal"
    assert not _is_over(provider, ada)
    assert not _is_over(provider, grace)
    # Browsers send no cookies with the form of another site, so the browser comes back with a GET.
    body = urlencode(in_form(logout_request(name, index, ID="_mine"), "s")).encode()
    bounced = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
    assert bounced.status == 303
    got = carried(await browser.request("GET", bounced.header("location") or ""), SLO)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_mine", "s")
    assert _is_over(provider, ada)
    assert not _is_over(provider, grace)


async def test_without_an_address_the_person_sees_that_it_is_done(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    answer = await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}")
    is_page(answer, 200, "You are signed out")
    assert _is_over(provider, ada)


async def test_everybody_else_of_the_session_is_told(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(
        await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index, ID='_first'), 'st')}"), f"{SLO}/wiki", "SAMLRequest"
    )
    assert _is_over(provider, ada)
    assert asked.text("a:Issuer") == f"{BASE_URL}/saml/acme/wiki"
    assert asked.text("a:NameID") == name
    done = await browser.request("POST", slo("wiki"), in_form(_answer(asked, "wiki"), name="SAMLResponse"))
    got = carried(done, SLO)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_first", "st")
    # In another browser, the sign-out is over.
    answer = in_form(_answer(asked, "wiki"), name="SAMLResponse")
    again = await provider.browser().request("POST", slo("wiki"), answer)
    is_page(await provider.browser().request("GET", again.header("location") or ""), 400, "out of date")
    # For a moment after a double click, the person gets the answer again, since the browser has dropped the first one.
    got = carried(await browser.request("POST", slo("wiki"), answer), SLO)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_first", "st")
    provider.people.change("update flows set completed_at = completed_at - interval '11 seconds'")
    for one in (browser, provider.browser()):
        assert (await one.request("POST", slo("wiki"), answer)).status == 400


async def test_a_service_provider_learns_of_no_other_by_asking(provider: Providing) -> None:
    """Its request ends the sessions, but it does not learn which other service providers are told, and by which names."""
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    await _second(provider)
    for binding in ("redirect", "post"):
        ada, grace = provider.people.add(), provider.people.add()
        browser = provider.signed_in(ada)
        name, index = await _entered(browser)
        await _entered(browser, "wiki")
        document = logout_request(name, index, ID=f"_{binding}")
        # The service provider's own server, which at best has another person's browser session.
        server = provider.signed_in(grace)
        if binding == "redirect":
            answer = await server.request("GET", f"{slo()}?{in_query(document, signer=pair())}")
        else:
            body = urlencode(in_form(signed(document, pair()))).encode()
            bounced = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
            assert (bounced.status, bounced.body) == (303, b"")
            answer = await server.request("GET", bounced.header("location") or "")
            assert (await browser.request("GET", bounced.header("location") or "")).status == 400
        got = carried(answer, SLO)
        assert got.status == "PartialLogout"
        # Neither the page nor the message names it. Base64 may have any letters, that of digests and signatures too.
        page = answer.body.decode().replace(got.fields["SAMLResponse"], "")
        said = [(part.text, part.values()) for part in got.root.iter() if DS not in str(part.tag)]
        assert "wiki" not in f"{page} {said}"
        assert _is_over(provider, ada)
        assert not _is_over(provider, grace)


async def test_the_form_of_another_site_leads_the_persons_browser_to_the_others(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    await _second(provider)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    body = urlencode(in_form(signed(logout_request(name, index, ID="_first"), pair()), "st")).encode()
    bounced = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
    assert _is_over(provider, ada)
    asked = carried(await browser.request("GET", bounced.header("location") or ""), f"{SLO}/wiki", "SAMLRequest")
    assert asked.text("a:NameID") == ada.email
    got = carried(await browser.request("POST", slo("wiki"), in_form(_answer(asked, "wiki"), name="SAMLResponse")), SLO)
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_first", "st")


async def test_a_service_provider_learns_of_no_other_by_answering(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index), 'st')}"), f"{SLO}/wiki", "SAMLRequest")
    answer = urlencode(in_form(_answer(asked, "wiki"), name="SAMLResponse")).encode()
    bounced = [
        await provider.unlimited.request("POST", slo("wiki"), body=answer, headers=headers) for headers in (_CROSS_SITE, _CROSS_SITE[:1])
    ]
    for one in bounced:
        assert (one.status, one.body) == (303, b"")
        is_page(await provider.browser().request("GET", one.header("location") or ""), 400)
    # Browsers send no cookies with the form of another site, so the person's browser goes on with a GET.
    got = carried(await browser.request("GET", bounced[0].header("location") or ""), SLO)
    assert (got.status, got.fields["RelayState"]) == ("Success", "st")


async def test_a_service_provider_that_fails_makes_it_partial(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), f"{SLO}/wiki", "SAMLRequest")
    failed = in_form(_answer(asked, "wiki", "Responder"), name="SAMLResponse")
    got = carried(await browser.request("POST", slo("wiki"), failed), SLO)
    assert got.status == "PartialLogout"
    outer = got.root.find("{*}Status/{*}StatusCode")
    assert outer.get("Value").endswith(":Success")


async def test_a_service_provider_that_signs_out_in_part_makes_it_partial(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), f"{SLO}/wiki", "SAMLRequest")
    success = 'Value="urn:oasis:names:tc:SAML:2.0:status:Success"'
    nested = f"<samlp:StatusCode {success.replace('Success', 'PartialLogout')}/>"
    in_part = _answer(asked, "wiki").replace(f"{success}/>", f"{success}>{nested}</samlp:StatusCode>")
    got = carried(await browser.request("POST", slo("wiki"), in_form(in_part, name="SAMLResponse")), SLO)
    assert got.status == "PartialLogout"
    told = (await provider.call("GET", "/exchanges", service="wiki")).ok()["exchanges"]
    assert told[0]["reason"] == "the service provider signed the person out only in part"


async def test_one_that_cannot_be_told_makes_it_partial_too(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    await provider.configure(service="wiki", slo_url=None)
    got = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), SLO)
    assert got.status == "PartialLogout"


async def test_a_person_with_more_sessions_than_end_at_a_time_is_signed_out_in_part_and_then_for_good(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    ada = provider.people.add()
    name, _ = await _entered(provider.signed_in(ada))
    provider.people.rows(
        """
        with opened as (
                 insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
                 select gen_random_uuid(), user_id, created_at, last_seen_at, expires_at from sessions, generate_series(1, 110)
                  where id = %s
              returning id
             )
        insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, audience, created_at)
        select gen_random_uuid(), opened.id, service_id, name_id, name_id_format, audience, created_at from saml_sessions, opened
        returning id
        """,
        ada.session,
    )
    told = []
    for number in range(3):
        asked = in_query(logout_request(name, ID=f"_{number}"), signer=pair())
        told.append(carried(await provider.browser().request("GET", f"{slo()}?{asked}"), SLO).status)
    assert told == ["PartialLogout", "Success", "Success"]
    assert provider.people.rows("select from sessions where user_id = %s and revoked_at is null", ada.user) == []


@pytest.mark.parametrize("here", [False, True])
async def test_a_session_at_more_service_providers_than_are_told_ends_in_part(
    provider: Providing, monkeypatch: pytest.MonkeyPatch, *, here: bool
) -> None:
    for module in ("adapters.postgres.federation.saml", "core.usecases.federation.saml.logouts"):
        monkeypatch.setattr(f"{module}.MOST_PARTICIPANTS", 2)
    await provider.ready(slo_url=SLO)
    await _second(provider)
    provider.tenants.service(provider.acme, "desk")
    await provider.configure(service="desk", slo_url=f"{SLO}/desk")
    await provider.certificate(service="desk")
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    for service in ("wiki", "desk"):
        await _entered(browser, service)
    if here:
        tab = await browser.tab().open("/ui")
        (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-out"]
        place = (await browser.request("POST", "/ui/sign-out", form.fields)).header("location") or ""
        asked = carried(await browser.request("GET", place), SLO, "SAMLRequest")
        asked = carried(
            await browser.request("POST", slo(), in_form(_answer(asked, "app"), name="SAMLResponse")), f"{SLO}/wiki", "SAMLRequest"
        )
    else:
        asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), f"{SLO}/wiki", "SAMLRequest")
    last = await browser.request("POST", slo("wiki"), in_form(_answer(asked, "wiki"), name="SAMLResponse"))
    if here:
        assert (last.status, last.header("location")) == (303, "/ui/signed-out?partly=yes")
    else:
        assert carried(last, SLO).status == "PartialLogout"


async def test_a_person_signs_out_here(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    (await provider.upload(metadata(slo=redirect_logout(f"{SLO}/wiki")), service="wiki")).ok()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    await _entered(browser)
    await _entered(browser, "wiki")
    tab = await browser.tab().open("/ui")
    form = next(at for at, one in enumerate(tab.page.forms) if one.action == "/ui/sign-out")
    await tab.send(form)
    assert tab.place.startswith("/ui/saml/sign-out?flow=")
    assert _is_over(provider, ada)
    assert browser.session is None
    asked = carried(tab.shown, SLO, "SAMLRequest")
    answer = await browser.request("POST", slo(), in_form(_answer(asked, "app"), name="SAMLResponse"))
    told = led(answer, f"{SLO}/wiki", "SAMLRequest")
    assert told.fields["SigAlg"].endswith("rsa-sha256")
    assert told.fields["Signature"]
    last = await browser.request("GET", f"{slo('wiki')}?{in_query(_answer(told, 'wiki'), name='SAMLResponse')}")
    is_page(last, 200, "You are signed out")
    is_page(await provider.browser().request("GET", tab.place), 400)


@pytest.mark.parametrize("here", [False, True])
async def test_a_service_provider_that_is_entered_at_this_moment_is_told_as_well(
    provider: Providing, database_url: str, *, here: bool
) -> None:
    """A sign-in and a sign-out both lock the account."""
    await provider.ready(slo_url=SLO)
    await _second(provider)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    tab = await browser.tab().open("/ui")
    (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-out"]
    answers: list[Received] = []

    async def sign_out() -> None:
        asked = f"{slo()}?{in_query(logout_request(name, index))}"
        answers.append(await (browser.request("POST", "/ui/sign-out", form.fields) if here else browser.request("GET", asked)))

    with psycopg.connect(database_url) as entering:
        entering.execute("select from users where id = %s for no key update", [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_out)
            await provider.people.somebody_waits()
            entering.execute(
                """
                insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, audience, created_at)
                select %s, session_id, services.id, name_id, name_id_format, audience, saml_sessions.created_at
                  from saml_sessions, services
                 where services.slug = 'wiki'
                """,
                # The first is told first. Of random ids, some stand before all ids of now.
                [provider.postern.foundation.ids.new()],
            )
            entering.commit()
    (answer,) = answers
    if here:
        told = carried(await browser.request("GET", answer.header("location") or ""), SLO, "SAMLRequest")
        answer = await browser.request("POST", slo(), in_form(_answer(told, "app"), name="SAMLResponse"))
    carried(answer, f"{SLO}/wiki", "SAMLRequest")


async def test_two_clicks_sign_out_and_tell_the_service_providers(provider: Providing) -> None:
    """After a double click, a browser drops the first answer. The second answer leads on to the service providers that must be told."""
    await provider.ready(slo_url=SLO)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    await _entered(browser)
    tab = await browser.tab().open("/ui")
    (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-out"]
    cookies = {**browser.cookies, "__Host-postern_flow": provider.postern.foundation.secrets.token().reveal()}

    async def send() -> str | None:
        browser.cookies = dict(cookies)
        return (await browser.request("POST", "/ui/sign-out", form.fields)).header("location")

    for place in (await send(), await send()):
        assert (place or "").startswith("/ui/saml/sign-out?flow=")
        carried(await browser.request("GET", place or ""), SLO, "SAMLRequest")
    begun = provider.postern.foundation.clock.now() - timedelta(seconds=11)
    provider.people.change("update flows set id = %s where purpose = 'saml_logout'", first_id(begun))
    assert await send() == "/ui/signed-out"


@pytest.mark.parametrize("in_between", [False, True])
@pytest.mark.parametrize("by_metadata", [False, True])
async def test_another_service_provider_is_not_told_of_people_whom_the_one_before_knew(
    provider: Providing, *, in_between: bool, by_metadata: bool
) -> None:
    """Not even if it replaces the other service provider while the sign-out is under way."""
    other = "https://other.example/saml"

    async def replace() -> None:
        if by_metadata:
            (await provider.upload(metadata(entity=other, slo=redirect_logout(f"{other}/slo")))).ok()
        else:
            await provider.configure(entity_id=other, acs_url=ACS, slo_url=f"{other}/slo")

    await provider.ready(slo_url=SLO)
    browser = provider.signed_in(provider.people.add())
    await _entered(browser)
    tab = await browser.tab().open("/ui")
    (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-out"]
    if not in_between:
        await replace()
    place = (await browser.request("POST", "/ui/sign-out", form.fields)).header("location") or ""
    if in_between:
        await replace()
    is_page(await browser.request("GET", place), 200, "some applications could not be notified")
    # It is told about people whom it knows itself, also in a session that the earlier service provider knew.
    knows_both = provider.people.add()
    grace = provider.signed_in(knows_both)
    await provider.configure(entity_id=SP, acs_url=ACS, slo_url=SLO)
    await _entered(grace)
    await replace()
    provider.allow(knows_both, other)
    request = authn_request(Destination=None, issuer=other)
    sent(await grace.request("GET", asking(request)))
    tab = await grace.tab().open("/ui")
    (form,) = [one for one in tab.page.forms if one.action == "/ui/sign-out"]
    place = (await grace.request("POST", "/ui/sign-out", form.fields)).header("location") or ""
    told = await grace.request("GET", place)
    found = led(told, f"{other}/slo", "SAMLRequest") if by_metadata else carried(told, f"{other}/slo", "SAMLRequest")
    assert found.root.find("{*}NameID") is not None


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("goes_back", [False, True])
async def test_an_application_that_signs_the_person_out_leads_past_the_service_providers(
    provider: Providing, *, asks: bool, goes_back: bool
) -> None:
    """Afterwards the browser gets to the application's own address, after a double click, too."""
    after = "https://app.example.com/signed-out"
    await provider.ready(slo_url=SLO)
    await _second(provider)
    (await provider.upload(metadata(slo=redirect_logout(f"{SLO}/wiki")), service="wiki")).ok()
    shop = provider.tenants.service(provider.acme, "shop")
    provider.people.change("update all_services set post_logout_redirect_uris = %s where id = %s", [after], shop.id)
    (row,) = provider.people.rows("select client_id from services where id = %s", shop.id)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    await _entered(browser)
    await _entered(browser, "wiki")
    claims: dict[str, Any] = {"iss": BASE_URL, "sub": str(ada.user), "aud": str(row["client_id"]), "exp": 1000, "iat": 1}
    hint = {} if asks else {"id_token_hint": await provider.postern.foundation.token_signer.sign_id(claims)}
    back = {"post_logout_redirect_uri": after, "state": "s"} if goes_back else {}
    asked = f"/oauth/logout?{urlencode({'client_id': row['client_id'], **back, **hint})}"
    browser.cookies["__Host-postern_flow"] = provider.postern.foundation.secrets.token().reveal()
    cookies = dict(browser.cookies)
    form = PageReader((await browser.request("GET", asked)).body).forms[0].fields if asks else {}

    async def clicked() -> str:
        browser.cookies = dict(cookies)
        answer = await (
            browser.request("POST", "/oauth/logout/confirm", {**form, "answer": "yes"}) if asks else browser.request("GET", asked)
        )
        assert _is_over(provider, ada)
        assert browser.session is None
        return answer.header("location") or ""

    (place,) = {await clicked(), await clicked()}
    assert place.startswith("/ui/saml/sign-out?flow=")
    told = carried(await browser.request("GET", place), SLO, "SAMLRequest")
    told = led(await browser.request("POST", slo(), in_form(_answer(told, "app"), name="SAMLResponse")), f"{SLO}/wiki", "SAMLRequest")
    # The same for a browser that comes back twice, and drops the first answer.
    for _ in range(2):
        last = await browser.request("GET", f"{slo('wiki')}?{in_query(_answer(told, 'wiki'), name='SAMLResponse')}")
        if goes_back:
            assert (last.status, last.header("location")) == (303, f"{after}?state=s")
        else:
            is_page(last, 200, "You are signed out")
    reloaded = await browser.request("GET", place)
    if goes_back:
        assert PageReader(reloaded.body).refresh == f"{after}?state=s"
    else:
        is_page(reloaded, 200, "You are signed out")


async def test_an_application_gets_its_person_back_at_once_where_no_service_provider_can_be_told(provider: Providing) -> None:
    after = "https://app.example.com/signed-out"
    await provider.ready()
    provider.people.change("update all_services set post_logout_redirect_uris = %s", [after])
    (row,) = provider.people.rows("select client_id from services")
    asked = f"/oauth/logout?{urlencode({'client_id': row['client_id'], 'post_logout_redirect_uri': after})}"
    browser = provider.signed_in(provider.people.add())
    await _entered(browser)
    tab = await (await browser.tab().open(asked)).send(answer="yes")
    assert tab.page.refresh == after
    # If the person stays here, a page says so.
    browser = provider.signed_in(provider.people.add())
    await _entered(browser)
    tab = await (await browser.tab().open("/oauth/logout")).send(answer="yes")
    is_page(tab.shown, 200, "some applications could not be notified")


async def test_answers_go_where_the_metadata_say(provider: Providing) -> None:
    await provider.ready()
    place = redirect_logout().replace("/>", f' ResponseLocation="{SLO}/done"/>')
    (await provider.upload(metadata(slo=place))).ok()
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    answer = await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index, ID='_r'), 'st')}")
    got = redirected(answer, f"{SLO}/done", "SAMLResponse")
    assert (got.status, got.root.get("InResponseTo"), got.fields["RelayState"]) == ("Success", "_r", "st")


async def test_the_sessions_of_the_service_end_with_it(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    session = provider.people.session_of(ada)
    provider.people.change(
        "update sessions set organization_id = %s, service_id = %s where id = %s", provider.acme.id, provider.app.id, session.session
    )
    other = provider.people.session_of(ada)
    carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), SLO)
    assert _is_over(provider, session)
    assert not _is_over(provider, other)


async def test_an_earlier_name_of_the_session_signs_out_as_well(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    grace = provider.people.add("grace@example.org")
    await _entered(provider.signed_in(grace), name_format=_TRANSIENT)
    for first, second, indexed in (
        (_TRANSIENT, _TRANSIENT, True),
        (_EMAIL, _TRANSIENT, True),
        (_EMAIL, _PERSISTENT, False),
        (_PERSISTENT, _EMAIL, False),
        (_PERSISTENT, _TRANSIENT, False),
        (_TRANSIENT, _PERSISTENT, True),
    ):
        ada = provider.people.add()
        browser = provider.signed_in(ada)
        name, index = await _entered(browser, name_format=first)
        later, same = await _entered(browser, name_format=second)
        assert (name != later, index == same) == (True, True)
        request = logout_request(name, index if indexed else None)
        got = carried(await provider.browser().request("GET", f"{slo()}?{in_query(request, signer=pair())}"), SLO)
        assert (got.status, _is_over(provider, ada)) == ("Success", True), (first, second)
        (newest, *_) = [one for one in await provider.exchanges() if one["kind"] == "logout_request"]
        assert (newest["succeeded"], newest["reason"]) == (True, "")
    assert not _is_over(provider, grace)


async def test_an_earlier_name_counts_without_a_signature_in_the_persons_browser_alone(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    for first, second, indexed in ((_TRANSIENT, _TRANSIENT, True), (_EMAIL, _PERSISTENT, False), (_PERSISTENT, _EMAIL, False)):
        ada, grace = provider.people.add(), provider.people.add()
        browser, hers = provider.signed_in(ada), provider.signed_in(grace)
        name, index = await _entered(browser, name_format=first)
        await _entered(browser, name_format=second)
        await _entered(hers, name_format=second)
        for tabs, status in ((provider.browser(), "UnknownPrincipal"), (hers, "UnknownPrincipal"), (browser, "Success")):
            assert not _is_over(provider, ada)
            request = logout_request(name, index if indexed else None)
            assert carried(await tabs.request("GET", f"{slo()}?{in_query(request)}"), SLO).status == status
        assert _is_over(provider, ada)
        assert not _is_over(provider, grace)


async def test_names_and_indexes_count_for_the_service_that_was_told_them(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    await _second(provider)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    persistent, _ = await _entered(browser, "wiki", name_format=_PERSISTENT)
    transient, index = await _entered(browser, "wiki", name_format=_TRANSIENT)
    requests = (
        logout_request(ada.email),
        logout_request(persistent),
        logout_request(transient),
        logout_request(transient, index),
        logout_request(persistent, index),
    )
    for request in requests:
        got = carried(await provider.browser().request("GET", f"{slo()}?{in_query(request, signer=pair())}"), SLO)
        assert got.status == "Success"
    assert not _is_over(provider, ada)


async def test_the_flight_recorder_tells_that_nobody_was_signed_out(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser, name_format=_TRANSIENT)
    await _entered(browser, name_format=_TRANSIENT)
    for request, reason in (
        (logout_request(name), "no session with this NameID was found"),
        (logout_request(name, "other"), "no session with this SessionIndex was found"),
        (logout_request(name, "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"), "no session with this SessionIndex was found"),
    ):
        got = carried(await provider.browser().request("GET", f"{slo()}?{in_query(request, signer=pair())}"), SLO)
        assert got.status == "Success"
        (newest, *_) = [one for one in await provider.exchanges() if one["kind"] == "logout_request"]
        assert (newest["succeeded"], newest["reason"]) == (True, reason)
        assert "SessionIndex" in newest["advice"]
    assert not _is_over(provider, ada)
    answer = await provider.browser().request("GET", f"{slo()}?{in_query(logout_request(name, index), signer=pair())}")
    assert carried(answer, SLO).status == "Success"
    assert _is_over(provider, ada)


async def test_hostile_sign_outs_are_refused(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),), AuthnRequestsSigned="true"))).ok()
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    got = sent(await browser.request("GET", asking(signer=pair())))
    name, index = got.text(".//a:NameID"), got.attribute(".//a:AuthnStatement", "SessionIndex")
    good = logout_request(name, index)
    for query in (
        "",
        in_query(good),
        in_query(good, signer=pair("stranger")),
        in_query(good, "a", signer=pair()).replace("RelayState=a", "RelayState=b"),
        in_query(logout_request(name, index, NotOnOrAfter=now(minutes=-6)), signer=pair()),
        in_query(logout_request(name, index, IssueInstant=now(minutes=-16)), signer=pair()),
        in_query(logout_request(name, index, Destination="https://other.example.com"), signer=pair()),
        in_query(good.replace("saml:NameID", "saml:EncryptedID"), signer=pair()),
        in_query(authn_request(), signer=pair()),
        in_query(good.replace("LogoutRequest", "LogoutResponse"), signer=pair(), name="SAMLResponse"),
    ):
        is_page(await browser.request("GET", f"{slo()}?{query}"), 400)
    assert not _is_over(provider, ada)
    for index_ in ("other", "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"):
        answer = await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index_), signer=pair())}")
        assert carried(answer, SLO).status == "Success"
    assert not _is_over(provider, ada)
    assert (await browser.request("GET", f"{slo('none')}?{in_query(good)}")).status == 404


def _framed(provider: Providing, person: Person, address: str = "https://shop.example/bye") -> None:
    """The person has signed in to an application from this browser that hears of sign-outs in a frame."""
    shop = provider.tenants.service(provider.acme, "shop")
    provider.people.change("update all_services set frontchannel_logout_uri = %s where id = %s", address, shop.id)
    child = provider.tenants.session(person, shop)
    provider.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", person.session, child.session)


async def test_applications_in_frames_come_before_the_service_providers(provider: Providing) -> None:
    """A service provider that does not answer stops the sign-out, and a frame does not."""
    await provider.ready(slo_url=SLO)
    browser = provider.signed_in(ada := provider.people.add())
    await _entered(browser)
    _framed(provider, ada)
    tab = await (await browser.tab().open("/ui")).send()
    assert '<iframe src="https://shop.example/bye"' in tab.shown.body.decode()
    assert tab.page.refresh == tab.place
    told = carried(await browser.request("GET", tab.place), SLO, "SAMLRequest")
    answer = await browser.request("POST", slo(), in_form(_answer(told, "app"), name="SAMLResponse"))
    assert (answer.status, answer.header("location")) == (303, "/ui/signed-out")


async def test_where_no_service_provider_can_be_told_the_last_page_says_so(provider: Providing) -> None:
    await provider.ready()
    browser = provider.signed_in(ada := provider.people.add())
    await _entered(browser)
    _framed(provider, ada)
    tab = await (await browser.tab().open("/ui")).send()
    assert "<iframe" in tab.shown.body.decode()
    is_page((await tab.open(tab.page.refresh or "")).shown, 200, "some applications could not be notified")


@pytest.mark.parametrize("by_form", [False, True])
async def test_a_service_providers_sign_out_frames_the_applications_for_this_person_alone(provider: Providing, *, by_form: bool) -> None:
    await provider.ready(slo_url=SLO)
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    for is_theirs in (True, False):
        browser = provider.signed_in(ada := provider.people.add())
        name, index = await _entered(browser)
        provider.people.change("delete from all_services where slug = 'shop'")
        _framed(provider, ada)
        bobs = browser if is_theirs else provider.signed_in(provider.people.add())
        request = logout_request(name, index)
        if by_form:
            body = urlencode(in_form(signed(request, pair()))).encode()
            onward = await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)
            shown = await bobs.request("GET", onward.header("location") or "")
        else:
            shown = await bobs.request("GET", f"{slo()}?{in_query(request, signer=pair())}")
        assert ("<iframe" in shown.body.decode()) is is_theirs, shown.body
        if is_theirs:
            shown = await bobs.request("GET", PageReader(shown.body).refresh or "")
        carried(shown, SLO, "SAMLResponse")
