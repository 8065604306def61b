"""The parameter `claims` on its whole way: the request, the person's consent, the ID token and userinfo."""

import json
from typing import Any
from urllib.parse import urlencode

from core.domain.identity.sessions import TWO_FACTORS
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, left, told
from tests.http.federation.relying import CALLBACK as RELYING
from tests.http.federation.relying import FORM, TOKEN, USERINFO, Relying, claims_of, oauth
from tests.http.people import Person

ANSWERED = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER}


def claims(**places: Any) -> str:
    return json.dumps(places)


async def test_a_claim_is_told_once_the_person_has_allowed_it(scene: Arriving, ada: Person) -> None:
    scene.allow(ada, scopes="openid")
    asking = scene.asking(scope="openid", claims=claims(userinfo={"email": {"essential": True}}))
    browser = scene.signed_in(ada)
    tab = await browser.tab().open(asking)
    # The person has not allowed the scope of this claim yet.
    assert tab.place.startswith("/ui/consent")
    assert "email address" in tab.page.text
    await tab.send(answer="allow")
    fields = {**ANSWERED, "code": left(tab)["code"], "client_id": scene.client_id(scene.app)}
    tokens = (await scene.unlimited.request("POST", TOKEN, body=urlencode(fields).encode(), headers=[FORM])).ok()
    assert tokens["scope"] == "openid email"
    assert claims_of(tokens["id_token"])["email"] == ada.email
    assert (await scene.unlimited.get(USERINFO, token=tokens["access_token"])).ok()["email"] == ada.email
    # From now on the person is not asked, and the value is told only if the claim is requested.
    told(await browser.request("GET", asking))
    code = told(await browser.request("GET", scene.asking(scope="openid")))["code"]
    assert scene.code(code)["scopes"] == ["openid"]


async def test_a_claim_that_accounts_do_not_have_is_left_out(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    asked = claims(userinfo={"birthdate": {"essential": True}}, id_token={"auth_time": {"essential": True}})
    code = told(await scene.signed_in(ada).request("GET", scene.asking(claims=asked)))["code"]
    assert scene.code(code)["scopes"] == ["openid", "email"]


async def test_what_is_malformed_is_told_to_the_application(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    for wrong in ("{", "[]", claims(userinfo=[]), claims(id_token={"sub": {"value": "ada"}})):
        assert told(await browser.request("GET", scene.asking(claims=wrong)))["error"] == "invalid_request"
    assert scene.codes() == []


async def test_an_essential_acr_and_a_sub_are_insisted_on(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser, bob = scene.signed_in(ada), scene.people.add("bob@example.org")

    async def error(asked: str, **changes: str) -> str | None:
        return told(await browser.request("GET", scene.asking(prompt="none", claims=asked, **changes))).get("error")

    for values in ("phr", TWO_FACTORS):
        essential = claims(id_token={"acr": {"essential": True, "values": [values]}})
        assert await error(essential) == "unmet_authentication_requirements"
    assert await error(claims(id_token={"acr": {"values": [TWO_FACTORS]}})) is None
    assert await error(claims(id_token={"sub": {"value": str(ada.user)}})) is None
    of_bob = claims(userinfo={"sub": {"value": str(bob.user)}})
    assert await error(of_bob) == "login_required"
    # Two expected subjects match nobody.
    assert await error(of_bob, id_token_hint=await scene.id_token(ada)) == "invalid_request"
    assert await error(claims(id_token={"sub": {"value": str(ada.user)}}), id_token_hint=await scene.id_token(ada)) is None


async def test_a_request_that_is_pushed_may_have_claims(relying: Relying) -> None:
    asked = {"response_type": "code", "redirect_uri": RELYING, "scope": "openid", "state": "s", **relying.shop.posted}
    pushed = await relying.ask("/oauth/par", {**asked, "claims": claims(id_token={"organization": None})})
    assert pushed.status == 201
    (kept,) = relying.people.rows("select request from pushed_requests")
    assert kept["request"]["scope"] == ["openid", "organization"]
    assert oauth(await relying.ask("/oauth/par", {**asked, "claims": "{"})) == (400, "invalid_request")
