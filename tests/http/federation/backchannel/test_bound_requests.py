"""Requests from afar of applications that bind their tokens to keys, or sign assertions in place of a secret."""

from typing import Any

from tests.http.federation.backchannel.asking import ASK, CIBA, ORDERS, Afar
from tests.http.federation.bound.proving import ClientKey
from tests.http.federation.relying import JWT_BEARER, TOKEN, Application, claims_of, oauth
from tests.http.people import BASE_URL


def signed(afar: Afar, application: Application, **changed: Any) -> dict[str, str]:
    return {"client_assertion_type": JWT_BEARER, "client_assertion": afar.assertion(application, **changed)}


async def asked_with(afar: Afar, key: ClientKey | None) -> Any:
    fields = {"login_hint": afar.ada.email, "scope": "orders:read", "resource": ORDERS, **afar.helper.posted}
    return await afar.ask(ASK, fields, [] if key is None else [key.dpop(path=ASK)])


async def polled_with(afar: Afar, request: str, key: ClientKey | None) -> Any:
    fields = {"grant_type": CIBA, "auth_req_id": request, **afar.helper.posted}
    return await afar.ask(TOKEN, fields, [] if key is None else [key.dpop(path=TOKEN)])


async def test_a_request_with_a_proof_is_fetched_with_the_same_key(afar: Afar) -> None:
    now = afar.postern.foundation.clock.now
    key, other = ClientKey(now), ClientKey(now)
    request = (await asked_with(afar, key)).ok()["auth_req_id"]
    afar.log.remember(request)
    assert (await afar.allow()).status == 204
    assert oauth(await polled_with(afar, request, None)) == (400, "invalid_grant")
    assert oauth(await polled_with(afar, request, other)) == (400, "invalid_grant")
    tokens = afar.kept((await polled_with(afar, request, key)).ok())
    assert (tokens["token_type"], claims_of(tokens["access_token"])["cnf"]) == ("DPoP", {"jkt": key.thumbprint})


async def test_a_proof_at_the_poll_alone_binds_the_tokens(afar: Afar) -> None:
    key = ClientKey(afar.postern.foundation.clock.now)
    request = (await asked_with(afar, None)).ok()["auth_req_id"]
    afar.log.remember(request)
    assert (await afar.allow()).status == 204
    assert afar.kept((await polled_with(afar, request, key)).ok())["token_type"] == "DPoP"


async def test_an_application_whose_tokens_are_bound_shows_a_proof_from_the_beginning(afar: Afar) -> None:
    afar.people.change("update all_services set dpop_bound_access_tokens = true where id = %s", afar.helper.service.id)
    assert oauth(await asked_with(afar, None)) == (400, "invalid_dpop_proof")
    request = (await asked_with(afar, ClientKey(afar.postern.foundation.clock.now))).ok()["auth_req_id"]
    afar.log.remember(request)
    assert (await afar.allow()).status == 204
    assert oauth(await polled_with(afar, request, None)) == (400, "invalid_dpop_proof")


async def test_an_assertion_stands_in_place_of_a_secret(afar: Afar) -> None:
    keyed = afar.keyed(afar.application(afar.acme, "signer"))
    fields = {"login_hint": afar.ada.email, "scope": "openid"}
    request = ""
    for audience in (BASE_URL, BASE_URL + ASK):
        request = (await afar.ask(ASK, {**fields, **signed(afar, keyed, aud=audience)})).ok()["auth_req_id"]
        afar.log.remember(request)
    assert (await afar.allow()).status == 204
    tokens = (await afar.ask(TOKEN, {"grant_type": CIBA, "auth_req_id": request, **signed(afar, keyed)})).ok()
    assert claims_of(afar.kept(tokens)["id_token"])["sub"] == str(afar.ada.user)
    assert oauth(await afar.ask(ASK, {**fields, "client_id": keyed.client_id})) in {(401, "invalid_client"), (400, "unauthorized_client")}
