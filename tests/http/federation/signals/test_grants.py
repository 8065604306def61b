"""Scopes of signals that a person grants: who is asked, what the page says, and what the session's token opens."""

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest

from core.domain.languages import Language
from core.domain.record.signals import OFFERED
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import answer_in, left, told
from tests.http.federation.relying import CALLBACK, CHALLENGE, FORM, claims_of
from tests.http.federation.signals.granting import SCOPES, Granting
from tests.http.federation.signals.scene import SETTINGS, STATUS, STREAMS, VERIFY, delivery
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.receiver import answering, receiving


@pytest.fixture
def granting(postern: Postern, people: People, log: CapturedLog) -> Granting:
    return Granting(postern, people, unlimited(postern), log)


def scopes_of(granting: Granting) -> Sequence[str]:
    """Those of the newest code."""
    return list(granting.people.rows("select scopes from authorization_codes order by id desc limit 1")[0]["scopes"])


async def test_a_manager_lets_the_application_make_a_stream(granting: Granting) -> None:
    await granting.turned_on(events=["session-revoked", "account-purged"], hosts=["127.0.0.1", "app.example.org"])
    async with receiving(answering(202)) as receiver, granting.dispatching():
        tab = await granting.asked()
        assert tab.place.startswith("/ui/consent")
        for words in ("sessions in the application are revoked", "An account is deleted", "app.example.org", "127.0.0.1"):
            assert words in tab.page.text
        assert "account was locked" not in tab.page.text
        tokens = await granting.redeemed(await tab.send(answer="allow"))
        assert tokens["scope"] == SCOPES
        stream = await granting.granted_stream(tokens, receiver)
        assert granting.streams()[0]["granted_by"] == granting.admin.user
        for path in (STREAMS, f"{STREAMS}?stream_id={stream}", f"{STATUS}?stream_id={stream}"):
            (await granting.by_token(tokens, "GET", path)).ok()
        assert (await granting.by_token(tokens, "POST", VERIFY, {"stream_id": stream})).status == 204
        await granting.heard(receiver)
        person = await granting.leaves()
        assert person in {claims["sub_id"].get("id", claims["sub_id"].get("sub")) for claims in await granting.heard(receiver, 2)}
    listed = (await granting.request("GET", SETTINGS.format("shop"), by=granting.owner)).ok()["streams"]
    assert [one["granted_by"] for one in listed] == [granting.admin.email]
    page = await granting.browser(granting.owner).tab().open("/ui/o/acme/applications/shop/signals/streams")
    assert granting.admin.email in page.page.text
    (entry,) = granting.audited("signal_stream.created")
    assert (entry["actor_id"], entry["details"]["granted_by"]) == (granting.admin.user, str(granting.admin.user))


async def test_a_stream_of_the_application_itself_is_granted_by_nobody(granting: Granting) -> None:
    async with receiving(answering(202)) as receiver:
        await granting.listening(receiver)
    listed = (await granting.request("GET", SETTINGS.format("shop"), by=granting.owner)).ok()["streams"]
    assert [one["granted_by"] for one in listed] == [None]


async def test_somebody_without_the_right_signs_in_without_the_scopes(granting: Granting) -> None:
    """A stranger, and a plain member."""
    await granting.turned_on()
    for person in (granting.people.add("eve@example.org"), granting.resident(granting.acme, "member")):
        tab = await granting.asked(person)
        assert "signals" not in tab.page.text.lower()
        tokens = await granting.redeemed(await tab.send(answer="allow"))
        assert tokens["scope"] == "openid offline_access"
        for method, path, body in (("GET", STREAMS, None), ("POST", STREAMS, {"delivery": delivery(8443)})):
            assert (await granting.by_token(tokens, method, path, body)).status == 401
        # The rest is remembered, and so nobody is asked again.
        silent = await granting.browser(person).request("GET", granting.asking(prompt="none"))
        assert "code" in told(silent, CALLBACK)
    assert granting.people.rows("select from consents where scopes && '{ssf.manage,ssf.read}'") == []


async def test_another_role_with_the_right_may_grant(granting: Granting) -> None:
    await granting.turned_on()
    role = granting.tenants.role(granting.acme, "wiring", [Capability.INTEGRATIONS_MANAGE])
    tokens = await granting.granted(granting.resident(granting.acme, role))
    (await granting.by_token(tokens, "GET", STREAMS)).ok()


async def test_nothing_spares_the_page(granting: Granting) -> None:
    """Not an earlier consent, and not the organization's trust in its own application."""
    await granting.turned_on()
    await granting.granted()
    granting.people.change("update all_services set trusted = true where id = %s", granting.shop.service.id)
    tab = await granting.asked()
    assert "Security events that Shop receives" in tab.page.text
    silent = await granting.browser(granting.admin).request("GET", granting.asking(prompt="none"))
    assert told(silent, CALLBACK)["error"] == "consent_required"
    without = await granting.browser(granting.admin).request("GET", granting.asking(scope="openid"))
    assert "code" in told(without, CALLBACK)


async def test_an_application_without_signals_gets_no_such_scope(granting: Granting) -> None:
    browser = granting.browser(granting.admin)
    answer = await browser.request("GET", granting.asking(scope="ssf.manage"))
    assert told(answer, CALLBACK)["error"] == "invalid_scope"
    tokens = await granting.granted()
    assert tokens["scope"] == "openid offline_access"
    await granting.turned_on()
    tab = await granting.asked(scope="ssf.read")
    assert (await granting.redeemed(await tab.send(answer="allow")))["scope"] == "ssf.read"


async def test_signals_that_go_off_while_the_page_is_open_are_not_granted(granting: Granting) -> None:
    await granting.turned_on()
    tab = await granting.asked()
    await granting.turned_off()
    await tab.send(answer="allow")
    tokens = await granting.redeemed(tab)
    assert tokens["scope"] == "openid offline_access"


async def test_a_pushed_request_asks_for_them_too(granting: Granting) -> None:
    await granting.turned_on()
    asked = {
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": SCOPES,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **granting.shop.posted,
    }
    pushed = (await granting.client.request("POST", "/oauth/par", body=urlencode(asked).encode(), headers=[FORM])).ok(201)
    granting.log.remember(pushed["request_uri"].rpartition(":")[2])
    query = urlencode({"client_id": granting.shop.client_id, "request_uri": pushed["request_uri"]})
    tab = await granting.browser(granting.admin).tab().open(f"/oauth/authorize?{query}")
    assert "Security events that Shop receives" in tab.page.text
    assert (await granting.redeemed(await tab.send(answer="allow")))["scope"] == SCOPES


async def test_a_refresh_keeps_the_scopes_while_the_right_lives(granting: Granting) -> None:
    await granting.turned_on()
    tokens = await granting.granted()
    again = granting.kept((await granting.refresh(granting.shop, tokens["refresh_token"])).ok())
    assert again["scope"] == SCOPES
    (await granting.by_token(again, "GET", STREAMS)).ok()
    fewer = granting.kept((await granting.refresh(granting.shop, again["refresh_token"], scope="openid ssf.read")).ok())
    assert fewer["scope"] == "openid ssf.read"
    assert (await granting.by_token(fewer, "POST", STREAMS, {"delivery": delivery(8443)})).status == 403
    granting.people.change("update memberships set role = 'member' where user_id = %s", granting.admin.user)
    granting.people.change("update relations set relation = 'member' where user_id = %s", granting.admin.user)
    over = granting.kept((await granting.refresh(granting.shop, fewer["refresh_token"])).ok())
    assert over["scope"] == "openid offline_access"


@pytest.mark.parametrize("scope", ["ssf.manage", "ssf.read", "openid ssf.manage"])
async def test_no_other_door_gives_them(granting: Granting, scope: str) -> None:
    """A device's code, and a request by another device."""
    await granting.turned_on()
    for path in ("/auth/device/code", "/oauth/bc-authorize"):
        answer = await granting.ask(path, {"scope": scope, **granting.shop.posted})
        if answer.status < 300:
            granting.kept(answer.json())
    kept = [row["scopes"] for row in granting.people.rows("select scopes from device_codes")]
    assert not any("ssf" in one for scopes in kept for one in scopes)
    assert (await granting.ask("/auth/device/code", {"scope": "ssf.manage", **granting.shop.posted})).status == 400


@pytest.mark.parametrize("language", list(Language))
async def test_the_page_says_it_in_each_language(granting: Granting, language: Language) -> None:
    await granting.turned_on(hosts=["app.example.org"])
    tab = await granting.asked(ui_locales=language.value)
    text = tab.page.text
    assert "app.example.org" in text
    assert ("Security events that" in text) == (language.value == "en")
    assert "consent." not in text
    assert len(granting.people.rows("select from signal_settings where cardinality(events) = %s", len(OFFERED))) == 1


async def test_the_page_for_own_applications_names_what_was_allowed(granting: Granting) -> None:
    await granting.turned_on()
    await granting.granted()
    tab = await granting.browser(granting.admin).tab().open("/ui/applications")
    assert tab.status == 200, tab.place
    assert "Receive Shared Signals (SSF)" in tab.page.text


async def test_whoever_says_no_grants_nothing(granting: Granting) -> None:
    await granting.turned_on()
    tab = await (await granting.asked()).send(answer="deny")
    assert left(tab, CALLBACK)["error"] == "access_denied"
    assert granting.people.rows("select from consents") == []


async def test_the_token_says_whose_it_is(granting: Granting) -> None:
    await granting.turned_on()
    claims = claims_of((await granting.granted())["access_token"])
    assert (claims["sub"], claims["scope"]) == (str(granting.admin.user), SCOPES)


async def test_the_answer_names_the_application_alone(granting: Granting) -> None:
    """A session of another application of the organization opens nothing of this one."""
    till = granting.application(granting.acme, "till", secret=True)
    await granting.turned_on()
    await granting.turned_on(till)
    async with receiving(answering(202)) as receiver:
        stream = await granting.granted_stream(await granting.granted(), receiver)
        tab = await granting.browser(granting.admin).tab().open(granting.asking(till))
        code = answer_in((await tab.send(answer="allow")).page.refresh, CALLBACK)["code"]
        granting.log.remember(code)
        tokens = granting.kept((await granting.redeem(till, code)).ok())
        assert (await granting.by_token(tokens, "GET", f"{STREAMS}?stream_id={stream}")).status == 404
        assert (await granting.by_token(tokens, "GET", STREAMS)).body == b"[]"


async def test_an_agent_gets_no_scope_of_signals(granting: Granting) -> None:
    await granting.turned_on()
    assert (await granting.asked(scope="ssf.read")).status == 200
    granting.people.change("update services set is_agent = true where id = %s", granting.shop.service.id)
    answer = await granting.browser(granting.admin).request("GET", granting.asking(scope="ssf.read"))
    assert told(answer, CALLBACK)["error"] == "invalid_scope"
