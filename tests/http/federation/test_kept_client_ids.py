"""A service that keeps the client id that it had elsewhere: OAuth says and hears that id, and the service's own one is nobody's."""

from dataclasses import replace
from urllib.parse import urlencode

import jwt
import pytest

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor
from core.domain.services.services import Service
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, Arriving, told
from tests.http.federation.devices import Sets
from tests.http.federation.relying import JWT_BEARER, Application, Relying, claims_of
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant

KEPT = "shop-frontend.v2"
BY_OPERATOR = Actor(operator="root")


async def keep(postern: Postern, tenant: Tenant, slug: str, kept: str | None) -> Service:
    return await postern.services.kept_client_ids.keep(OrganizationId(tenant.id), slug, kept, BY_OPERATOR)


async def kept_by(relying: Relying, application: Application, kept: str = KEPT) -> Application:
    service = await keep(relying.postern, relying.acme, application.service.slug, kept)
    assert service.client_id == kept
    return replace(application, client_id=kept)


async def test_tokens_name_the_kept_id(relying: Relying) -> None:
    shop = await kept_by(relying, relying.shop)
    tokens = await relying.signed_in(shop, scopes="openid email offline_access")
    assert claims_of(tokens["id_token"])["aud"] == KEPT
    assert claims_of(tokens["access_token"])["client_id"] == KEPT
    refreshed = relying.kept((await relying.refresh(shop, tokens["refresh_token"])).ok())
    assert (claims_of(refreshed["id_token"])["aud"], claims_of(refreshed["access_token"])["client_id"]) == (KEPT, KEPT)
    read = await relying.introspect(shop, refreshed["access_token"])
    assert (read["active"], read["client_id"]) == (True, KEPT)
    own = (await relying.ask(fields={"grant_type": "client_credentials", **shop.posted})).ok()["access_token"]
    assert (claims_of(own)["sub"], claims_of(own)["client_id"]) == (KEPT, KEPT)
    assert (await relying.introspect(shop, own))["client_id"] == KEPT


async def test_a_session_of_before_goes_on(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop, scopes="openid email offline_access")
    shop = await kept_by(relying, relying.shop)
    assert (await relying.introspect(shop, tokens["access_token"]))["active"] is True
    refreshed = relying.kept((await relying.refresh(shop, tokens["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["client_id"] == KEPT


async def test_the_own_id_is_nobodys_meanwhile(relying: Relying) -> None:
    shop = await kept_by(relying, relying.shop)
    code = await relying.code(shop)
    assert (await relying.redeem(relying.shop, code)).status == 401
    assert (await relying.redeem(shop, code)).status == 200
    assert (await keep(relying.postern, relying.acme, "shop", None)).client_id == relying.shop.client_id
    assert (await relying.redeem(shop, await relying.code(shop))).status == 401
    assert claims_of((await relying.signed_in(relying.shop))["id_token"])["aud"] == relying.shop.client_id


async def test_the_longest_id_and_its_secret_fit_in_the_header(relying: Relying) -> None:
    shop = await kept_by(relying, relying.shop, "~" * 80)
    code = await relying.code(shop)
    answer = await relying.ask(
        fields={
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": "https://app.example/callback",
            "code_verifier": "x" * 43,
        },
        headers=shop.basic,
    )
    assert answer.json()["error"] == "invalid_grant"
    assert (await relying.introspect(shop, "x"))["active"] is False


async def test_assertions_name_the_kept_id(relying: Relying) -> None:
    back = await kept_by(relying, relying.keyed(relying.application(relying.acme, "back")))
    fields = {"grant_type": "client_credentials", "client_assertion_type": JWT_BEARER}
    answer = await relying.ask(fields={**fields, "client_assertion": relying.assertion(back, aud=BASE_URL)})
    assert claims_of(answer.ok()["access_token"])["client_id"] == KEPT
    stolen = relying.assertion(back, aud=BASE_URL, iss="shop-frontend.v3", sub="shop-frontend.v3")
    assert (await relying.ask(fields={**fields, "client_assertion": stolen})).status == 401


async def test_a_browser_and_a_pushed_request_and_a_sign_out_know_it(scene: Arriving, ada: Person) -> None:
    after = "https://app.example.com/signed-out"
    scene.set(scene.app, post_logout_redirect_uris=[after])
    own = scene.client_id(scene.app)
    await keep(scene.postern, scene.acme, "app", KEPT)
    scene.allow(ada)
    browser = scene.signed_in(ada)
    assert "code" in told(await browser.request("GET", scene.asking(scene.app)))
    answer = await browser.request("GET", scene.asking(scene.app, client_id=own))
    assert (answer.status, answer.header("location")) == (400, None)
    asked = {"client_id": KEPT, "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid"}
    challenge = {"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256"}
    form = [("content-type", "application/x-www-form-urlencoded")]
    pushed = (await scene.unlimited.request("POST", "/oauth/par", body=urlencode({**asked, **challenge}).encode(), headers=form)).ok(201)
    place = f"{AUTHORIZE}?{urlencode({'client_id': KEPT, 'request_uri': pushed['request_uri']})}"
    assert "code" in told(await browser.request("GET", place))
    hint = await scene.id_token(ada)
    assert jwt.decode(hint, options={"verify_signature": False})["aud"] == KEPT
    leaving = {"id_token_hint": hint, "client_id": KEPT, "post_logout_redirect_uri": after}
    answer = await browser.request("GET", f"/oauth/logout?{urlencode(leaving)}")
    assert (answer.status, answer.header("location")) == (303, after)


async def test_a_device_knows_it(postern: Postern, people: People, log: CapturedLog) -> None:
    sets = Sets(postern, people, unlimited(postern), log)
    tv = await kept_by(sets, sets.tv, "acme-television")
    tokens = await sets.let_in(await sets.ask_for_codes(tv))
    assert claims_of(tokens["access_token"])["client_id"] == "acme-television"
    assert (await sets.client.post("/auth/device/code", {"client_id": sets.tv.client_id})).status in {401, 404}


async def test_those_who_look_after_the_service_see_it(relying: Relying) -> None:
    await kept_by(relying, relying.shop)
    registered = await relying.postern.services.registered_services.show("acme", "shop")
    assert registered.service.client_id == KEPT
    (event,) = relying.people.rows("select details from audit_log where action = 'service.updated'")
    assert (event["details"]["changed"], event["details"]["client_id"]) == (["client_id"], KEPT)
    assert event["details"]["old_client_id"] == relying.shop.client_id
    relying.tenants.join(relying.ada, relying.acme, "owner")
    place, token = "/api/organizations/acme/services/shop", await relying.people.token(relying.ada)
    assert (await relying.client.get(place, token=token)).ok()["client_id"] == KEPT
    # Nobody but the operator decides about it.
    answer = await relying.client.request("PATCH", place, body={"client_id": "another-client"}, token=token)
    assert (answer.status, "client_id: no such field" in str(answer.json())) == (400, True)


@pytest.mark.parametrize(
    "kept",
    [
        "short-1",
        "x" * 81,
        "shop:frontend",
        "shop/frontend",
        "shop frontend",
        "shöp-frontend",
        "0199d3a0-0000-7000-8000-000000000001",
        "0199D3A0000070008000000000000001",
        "-0199d3a0000070008000000000000001-",
        "shop-frontend\n",
    ],
)
async def test_an_id_that_could_be_anothers_is_refused(relying: Relying, kept: str) -> None:
    with pytest.raises(BadRequest, match="client_id: must have 8 to 80 letters"):
        await keep(relying.postern, relying.acme, "shop", kept)


async def test_an_id_belongs_to_one_service_of_the_installation(relying: Relying) -> None:
    await kept_by(relying, relying.shop)
    for tenant, slug in ((relying.globex, "shop"), (relying.acme, "page")):
        with pytest.raises(Conflict, match="another service of this installation has it"):
            await keep(relying.postern, tenant, slug, KEPT)
    assert (await keep(relying.postern, relying.acme, "shop", KEPT)).client_id == KEPT
    with pytest.raises(NotFound):
        await keep(relying.postern, relying.acme, "none", "another-client")
    assert len(relying.people.rows("select from audit_log where action = 'service.updated'")) == 1
    await keep(relying.postern, relying.acme, "shop", None)
    assert (await keep(relying.postern, relying.globex, "shop", KEPT)).client_id == KEPT
