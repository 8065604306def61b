"""Exchanges during which something changes, and the refusals that only such a change causes."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from adapters.postgres.federation.saml import SamlRows
from adapters.postgres.identity.proofs.flows import FlowRows
from adapters.postgres.identity.proofs.sign_in import SignInRows
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.federation.saml.messages import RememberedRequest
from core.domain.identity.flows import FlowOver
from core.domain.identity.sign_in import Confirmed, LastLook
from core.frozen import replace
from core.usecases.federation.saml import sign_in as use_case
from entrypoints.checks import Finding, Verdict, saml_certificates
from ops.stand_ins.saml import pair
from ports.federation.saml import Entering
from tests.http.federation.arriving import is_page
from tests.http.federation.providing import (
    SLO,
    Providing,
    asking,
    authn_request,
    carried,
    in_form,
    in_query,
    logout_request,
    metadata,
    sent,
    slo,
    sso,
)
from tests.http.federation.saml.test_saml_logouts import _answer, _entered, _is_over, _second
from tests.http.people import BASE_URL
from tests.http.signing_in import PASSWORD

LOGIN = "/api/organizations/acme/services/app/saml/login"


def _as_if(**changes: Any) -> Any:
    """Records a sign-in as if something had changed by now."""
    enter = SamlRows.enter

    async def changed(rows: SamlRows, entering: Entering, request: RememberedRequest | None) -> Any:
        return await enter(rows, replace(entering, **changes), request)

    return changed


async def no(*_given: Any, **_named: Any) -> bool:
    return False


async def nothing(*_given: Any, **_named: Any) -> None:
    """Ends no session."""


@pytest.mark.parametrize("changed", ["session", "user", "service"])
async def test_whoever_is_gone_at_this_moment_enters_nothing(provider: Providing, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add())
    query = asking()
    with monkeypatch.context() as patched:
        patched.setattr(SamlRows, "enter", _as_if(**{changed: uuid4()}))
        is_page(await browser.request("GET", query), 400)
    for table in ("saml_sessions", "saml_requests", "saml_exchanges", "login_events", "service_users"):
        assert provider.people.rows(f"select from {table}") == [], table
    assert provider.people.rows("select from events where name = 'user.login.success'") == []
    # The request was refused, so it is not used up.
    assert sent(await browser.request("GET", query)).status == "Success"
    assert len(provider.people.rows("select from saml_sessions")) == 1


async def test_a_flow_whose_session_ends_at_this_moment_is_not_over(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    onward = (await provider.unlimited.post("/api/auth/login", login)).ok()["saml_redirect_url"].removeprefix(BASE_URL)
    with monkeypatch.context() as patched:
        patched.setattr(SamlRows, "enter", _as_if(session=uuid4()))
        is_page(await browser.request("GET", onward), 400)
    assert sent(await browser.request("GET", onward)).status == "Success"


async def test_a_flow_that_another_tab_has_finished_brings_no_second_assertion(
    provider: Providing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    onward = (await provider.unlimited.post("/api/auth/login", login)).ok()["saml_redirect_url"].removeprefix(BASE_URL)
    with monkeypatch.context() as patched:
        patched.setattr(FlowRows, "complete", no)
        is_page(await browser.request("GET", onward), 400)
    assert sent(await browser.request("GET", onward)).status == "Success"


async def test_of_two_sign_ins_for_one_request_the_second_is_refused(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    await provider.ready()
    person = await provider.with_password("ada@example.org")
    place = (await provider.browser().request("GET", asking())).header("location") or ""
    look = SignInRows.confirm

    async def after_another(store: SignInRows, asked: LastLook) -> Confirmed | None:
        if asked.flow is not None:
            provider.people.change("update flows set signed_in_at = now(), proof_digest = 'another'")
        return await look(store, asked)

    monkeypatch.setattr(SignInRows, "confirm", after_another)
    login = {"email": person.email, "password": PASSWORD, "saml_state": place.partition("state=")[2]}
    answer = await provider.unlimited.post("/api/auth/login", login)
    assert (answer.status, answer.json()["error"].partition(":")[0]) == (400, "saml_state")


@pytest.mark.parametrize("step", [AuthorizationStep.SET_UP_SECOND_FACTOR, AuthorizationStep.SIGN_IN], ids=str)
async def test_a_sign_in_from_here_asks_for_what_is_missing(
    provider: Providing, monkeypatch: pytest.MonkeyPatch, step: AuthorizationStep
) -> None:
    await provider.ready()
    token = await provider.people.token(provider.people.add())
    monkeypatch.setattr(use_case, "next_step", lambda *_given: step)
    answer = await provider.unlimited.get(LOGIN, token=token)
    wanted = {AuthorizationStep.SET_UP_SECOND_FACTOR: (403, "MFA_REQUIRED"), AuthorizationStep.SIGN_IN: (401, "REAUTHENTICATION_REQUIRED")}
    assert (answer.status, answer.error_code) == wanted[step]


async def test_a_signed_request_names_where_it_goes(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    browser = provider.signed_in(provider.people.add())
    is_page(await browser.request("GET", asking(authn_request(Destination=None), signer=pair())), 400)
    (failed,) = [one for one in await provider.exchanges() if not one["succeeded"]]
    assert failed["reason"] == "it is signed, but has no Destination"


async def test_an_answer_that_is_not_as_it_must_be_is_refused_and_recorded(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    await _entered(browser, "wiki")
    asked = carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), f"{SLO}/wiki", "SAMLRequest")
    for wrong in ("not XML", _answer(asked, "other")):
        is_page(await browser.request("POST", slo("wiki"), in_form(wrong, name="SAMLResponse")), 400)
    token = await provider.people.token(provider.owner)
    path = "/api/organizations/acme/services/wiki/saml/exchanges"
    exchanges = (await provider.unlimited.get(path, token=token)).ok()["exchanges"]
    assert len([one for one in exchanges if not one["succeeded"]]) == 2
    # The right request goes on.
    done = await browser.request("POST", slo("wiki"), in_form(_answer(asked, "wiki"), name="SAMLResponse"))
    assert carried(done, SLO).status == "Success"


@pytest.mark.parametrize(
    "change",
    [f"update saml_configurations set {one} where slo_url like '%%wiki'" for one in ("enabled = false", "slo_url = null")],
    ids=["disabled", "without an address"],
)
async def test_whoever_cannot_be_told_any_more_is_passed_by(provider: Providing, change: str) -> None:
    await provider.ready(slo_url=SLO)
    await _second(provider)
    for slug in ("notes",):
        provider.tenants.service(provider.acme, slug)
        await provider.configure(service=slug, slo_url=f"{SLO}/{slug}")
        await provider.certificate(service=slug)
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    name, index = await _entered(browser)
    for slug in ("notes", "wiki"):
        await _entered(browser, slug)
    first = await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}")
    place = "notes" if f"{SLO}/notes" in (first.header("location") or "") else "wiki"
    if place == "wiki":
        change = change.replace("wiki", "notes")
    asked = carried(first, f"{SLO}/{place}", "SAMLRequest")
    provider.people.change(change)
    done = await browser.request("POST", slo(place), in_form(_answer(asked, place), name="SAMLResponse"))
    assert carried(done, SLO).status == "PartialLogout"
    assert _is_over(provider, ada)


async def test_a_session_that_was_ended_meanwhile_is_not_ended_again(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    from adapters.postgres.identity.sessions.sessions import SessionRows  # noqa: PLC0415 - for this alone

    await provider.ready(slo_url=SLO)
    browser = provider.signed_in(provider.people.add())
    name, index = await _entered(browser)
    monkeypatch.setattr(SessionRows, "end", nothing)
    assert carried(await browser.request("GET", f"{slo()}?{in_query(logout_request(name, index))}"), SLO).status == "Success"
    assert provider.people.rows("select from audit_entries where action = 'user.logout'") == []


async def test_a_sign_out_goes_on_only_where_one_is_under_way(provider: Providing) -> None:
    await provider.ready()
    browser = provider.browser()
    place = (await browser.request("GET", asking())).header("location") or ""
    flow = await provider.postern.identity.flows.find(_flow_id(place), _secret(browser))
    with pytest.raises(FlowOver):
        await provider.postern.federation.saml_logouts.go_on(flow)


def _flow_id(place: str) -> Any:
    from uuid import UUID  # noqa: PLC0415

    return UUID(place.partition("state=")[2])


def _secret(browser: Any) -> Any:
    from core.domain.secrets import Token  # noqa: PLC0415

    return Token(browser.cookies["__Host-postern_flow"])


async def test_a_certificate_that_cannot_be_made_is_told(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    await provider.configure()

    async def fails(*_given: Any) -> Any:
        raise ValueError("no entropy")

    monkeypatch.setattr(provider.postern.federation.saml.maker, "make", fails)
    answer = await provider.call("POST", "/certificate")
    assert answer.status == 500
    assert "no entropy" not in answer.body.decode()


async def test_operators_see_all_services_and_owners_are_warned_once(provider: Providing) -> None:
    await provider.ready()
    saml = provider.postern.federation.saml
    assert [one.service_slug for one in await saml.all()] == ["app"]
    provider.people.change("update saml_certificates set valid_until = now() + interval '20 days'")
    (ending,) = await saml.ending(timedelta(days=60), 10)
    assert await saml.warn_of_ends(10) == 1
    page = provider.postern.foundation.metrics.render().decode()
    (end,) = re.findall(r"^sso_saml_certificate_end_timestamp_seconds (\S+)$", page, re.MULTILINE)
    assert float(end) == pytest.approx(ending.certificate.valid_until.timestamp())
    # Another process has read the row at the same moment.
    assert not await saml._warn(ending, 30)
    assert await saml.warn_of_ends(10) == 0


async def test_operators_are_told_of_a_certificate_that_has_ended_for_a_month(provider: Providing) -> None:
    """An alert that ended with the certificate would say that all is well when the sign-ins begin to fail."""
    await provider.ready()
    saml, people = provider.postern.federation.saml, provider.people

    async def told(days: int) -> tuple[bool, Finding]:
        people.change("update saml_certificates set valid_until = now() + %s * interval '1 day'", days)
        await saml.warn_of_ends(10)
        page = provider.postern.foundation.metrics.render().decode()
        (end,) = re.findall(r"^sso_saml_certificate_end_timestamp_seconds (\S+)$", page, re.MULTILINE)
        return float(end) > 0, await saml_certificates(provider.postern)

    for days, is_measured, verdict, word in (
        (61, False, Verdict.OK, "none that is in use expires within 21 days"),
        (30, True, Verdict.OK, "none that is in use expires within 21 days"),
        (10, True, Verdict.SOON, "app of acme expires 20"),
        (-1, True, Verdict.FAIL, "app of acme expired 20"),
        (-29, True, Verdict.FAIL, "app of acme expired 20"),
        (-31, False, Verdict.OK, "none"),
    ):
        measured, finding = await told(days)
        assert (measured, finding.verdict) == (is_measured, verdict), days
        assert finding.text.startswith(word), days
    # Those that hold come first: their owners are to be told, however many have ended.
    people.change("update saml_certificates set valid_until = now() - interval '1 day'")
    provider.tenants.service(provider.acme, "other")
    await provider.configure(service="other", entity_id="https://other.example.org")
    await provider.certificate(service="other")
    people.change("update saml_certificates set valid_until = now() + interval '6 days' where valid_until > now()")
    (first,) = await saml.ending(timedelta(days=14), 1)
    assert first.service_slug == "other"
    assert (await saml_certificates(provider.postern)).text.startswith("other of acme expires 20")
    assert await saml.warn_of_ends(10) == 1


_OVER = (
    ("update sessions set revoked_at = now()", "update sessions set revoked_at = null"),
    ("update sessions set expires_at = now()", "update sessions set expires_at = now() + interval '1 hour'"),
    ("update users set deactivated_at = now()", "update users set deactivated_at = null"),
)


async def test_a_session_that_is_over_is_nobodys(provider: Providing) -> None:
    """The request itself looks at the session; no caller rule has looked before."""
    await provider.ready()
    people, browser = provider.people, provider.signed_in(provider.people.add())
    for change, undo in _OVER:
        people.change(change)
        answer = await browser.request("GET", asking())
        assert (answer.status, people.rows("select from saml_sessions")) == (302, []), change
        assert "user" not in _last_request(provider)
        people.change(undo)
    assert sent(await browser.request("GET", asking())).status == "Success"
    assert "user" in _last_request(provider)


async def test_whoever_acts_in_another_persons_name_gets_no_assertion(provider: Providing) -> None:
    await provider.ready()
    owner, person = provider.people.add(platform_owner=True), provider.people.add()
    browser = provider.signed_in(person)
    provider.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", owner.user, uuid4(), person.session
    )
    assert (await browser.request("GET", asking())).status == 302
    assert provider.people.rows("select from saml_sessions") == []
    # The cookie of the person's own session opens nothing for an impersonator.
    assert "user" not in _last_request(provider)


@pytest.mark.parametrize(("service", "status"), [("acme/none", 404), ("none/app", 404), ("acme/app", 400)])
async def test_a_refusal_is_told_in_the_language_of_whoever_is_signed_in(provider: Providing, service: str, status: int) -> None:
    await provider.ready()
    person = provider.people.add()
    provider.people.change("update users set language = 'de' where id = %s", person.user)
    answer = await provider.signed_in(person).request("GET", f"/saml/{service}/sso?SAMLRequest=none")
    assert (answer.status, answer.header("content-language")) == (status, "de")
    assert _last_request(provider)["user"] == str(person.user)


async def test_another_organizations_service_of_the_same_name_is_another_one(provider: Providing) -> None:
    """A role there is another role, too."""
    await provider.ready(attribute_mapping={"role": "role", "organization": "organization"})
    other = provider.tenants.add("other")
    provider.tenants.service(other, "app")
    browser = provider.signed_in(provider.resident(other, "admin"))
    assert sent(await browser.request("GET", asking())).attributes == {"organization": ["acme"]}
    assert (await browser.request("GET", asking().replace("/acme/", "/other/"))).status == 404


@pytest.mark.parametrize("binding", ["redirect", "post"])
async def test_a_session_that_brings_a_request_has_been_seen(provider: Providing, monkeypatch: pytest.MonkeyPatch, binding: str) -> None:
    await provider.ready()
    person, seen = provider.people.add(), []
    browser = provider.signed_in(person)
    monkeypatch.setattr(provider.postern.identity.presence, "seen", lambda session, _at: seen.append(session))
    if binding == "redirect":
        sent(await browser.request("GET", asking()))
    else:
        sent(await browser.request("POST", sso(), in_form(authn_request())))
    assert seen == [person.session]


def _last_request(provider: Providing) -> Any:
    (*_, request) = provider.log.events("request")
    return request
