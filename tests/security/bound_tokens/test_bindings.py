"""Attacks on what proofs bind: codes, sessions, devices and exchanged tokens."""

from typing import Any, Final
from urllib.parse import urlencode

import pytest

from core.domain.federation.oauth.exchanges import ACCESS_TOKEN_TYPE
from core.domain.federation.oauth.grants import TOKEN_EXCHANGE
from tests.http.client import Received, refused
from tests.http.federation.arriving import AUTHORIZE, told
from tests.http.federation.bound.proving import ClientKey, Proving
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.security.bound_tokens.conftest import Between, KeyedSets

PAR: Final = "/oauth/par"
GRANT: Final = (400, "invalid_grant")
PROOF: Final = (400, "invalid_dpop_proof")


# --- Codes.


async def pushed(between: Between, key: ClientKey | None, application: Application, **changed: str) -> Received:
    fields = {
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **application.posted,
        **changed,
    }
    return await between.ask(PAR, fields, [] if key is None else [key.dpop(path=PAR)])


async def code_of(between: Between, application: Application, answer: Received) -> str:
    """The code that answers a pushed request."""
    asked = {"client_id": application.client_id, "request_uri": answer.ok(201)["request_uri"]}
    between.log.remember(asked["request_uri"])
    between.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{openid}', now())"
        " on conflict do nothing",
        *(between.ada.user, application.service.id),
    )
    tab = await between.browser().tab().open(f"{AUTHORIZE}?{urlencode(asked)}")
    code = told(tab.shown, CALLBACK)["code"]
    between.log.remember(code)
    return code


async def test_a_code_that_is_bound_to_a_key_is_redeemed_with_this_key_alone(between: Between) -> None:
    for application in (between.shop, between.page):
        key = between.key()
        for answer in (
            await pushed(between, key, application),
            await pushed(between, None, application, dpop_jkt=key.thumbprint),
            await pushed(between, key, application, dpop_jkt=key.thumbprint),
        ):
            code = await code_of(between, application, answer)
            for other in (None, between.key()):
                assert oauth(await between.redeem_with(other, application, code)) == GRANT
            tokens = between.kept((await between.redeem_with(key, application, code)).ok())
            assert claims_of(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint}


async def test_a_code_is_bound_by_the_address_of_the_request(between: Between) -> None:
    key = between.key()
    code = await between.allowed(ORDERS, dpop_jkt=key.thumbprint)
    between.log.remember(code)
    assert oauth(await between.redeem(between.shop, code)) == GRANT
    assert oauth(await between.redeem_with(between.key(), between.shop, code)) == GRANT
    tokens = between.kept((await between.redeem_with(key, between.shop, code)).ok())
    assert claims_of(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint}


async def test_a_pushed_request_with_two_keys_or_none(between: Between) -> None:
    key = between.key()
    assert oauth(await pushed(between, key, between.shop, dpop_jkt=between.key().thumbprint)) == (400, "invalid_request")
    for text in ("x", key.thumbprint + "=", key.thumbprint[:-1] + "!", "x" * 1000):
        assert oauth(await pushed(between, None, between.shop, dpop_jkt=text)) == (400, "invalid_request"), text
    fields = {"redirect_uri": CALLBACK, "response_type": "code", **between.shop.posted}
    assert oauth(await between.ask(PAR, fields, [key.dpop()])) == PROOF
    proof = key.dpop(path=PAR)
    (await between.ask(PAR, fields, [proof])).ok(201)
    assert oauth(await between.ask(PAR, fields, [proof])) == PROOF


async def test_a_code_of_before_the_service_wanted_bound_tokens(proving: Proving) -> None:
    for application in (proving.shop, proving.page):
        code = await proving.code(application)
        proving.bind(application)
        assert oauth(await proving.redeem_with(None, application, code)) == PROOF
        (await proving.redeem_with(proving.key(), application, code)).ok()


# --- Sessions.


async def test_a_downgrade_by_a_refresh(proving: Proving) -> None:
    """A session of before ends where its service wants bound tokens, unless the application shows a key."""
    for application in (proving.shop, proving.page):
        tokens = await proving.signed_in(application)
        proving.bind(application)
        assert oauth(await proving.refresh_with(None, application, tokens["refresh_token"])) == PROOF
        answer = await proving.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
        assert refused(answer) == (401, "UNAUTHORIZED")
        again = (await proving.refresh_with(proving.key(), application, tokens["refresh_token"])).ok()
        assert again["token_type"] == "DPoP"
        # The service wants it no more, and each session is what it began as.
        bound = await proving.bound(proving.key(), application)
        proving.people.change("update services set dpop_bound_access_tokens = false")
        assert oauth(await proving.refresh_with(None, application, bound["refresh_token"])) == GRANT
        (await proving.refresh_with(None, application, again["refresh_token"])).ok()


async def test_a_thief_who_binds_a_session_to_their_own_key_is_noticed(proving: Proving) -> None:
    """A refresh token that is bound to nothing was stolen. When the application comes with it, the session ends, also the thief's."""
    for application in (proving.shop, proving.page):
        tokens, key = await proving.signed_in(application), proving.key()
        stolen = (await proving.refresh_with(key, application, tokens["refresh_token"])).ok()
        answer = await proving.ask(
            fields={"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **application.posted},
            headers=[("user-agent", "another")],
        )
        assert oauth(answer) == GRANT
        assert oauth(await proving.refresh_with(key, application, stolen["refresh_token"])) == GRANT
        assert (await proving.userinfo_with(key, stolen["access_token"])).status == 401


async def test_a_refresh_token_that_is_shown_in_vain_still_works(proving: Proving) -> None:
    """Whoever has a refresh token and no key ends nobody's session by it."""
    key = proving.key()
    tokens = await proving.bound(key, proving.page)
    again = (await proving.refresh_with(key, proving.page, tokens["refresh_token"])).ok()
    for old in (tokens["refresh_token"], again["refresh_token"]):
        assert oauth(await proving.refresh_with(proving.key(), proving.page, old)) == GRANT
        assert oauth(await proving.refresh_with(None, proving.page, old)) == GRANT
    (await proving.refresh_with(key, proving.page, again["refresh_token"])).ok()


async def test_a_replayed_proof_refreshes_nothing(proving: Proving) -> None:
    key = proving.key()
    tokens = await proving.bound(key, proving.page)
    proof = key.dpop()
    fields = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **proving.page.posted}
    again = (await proving.ask(fields=fields, headers=[proof])).ok()
    assert oauth(await proving.ask(fields={**fields, "refresh_token": again["refresh_token"]}, headers=[proof])) == PROOF


# --- Devices.


async def test_a_device_is_bound_by_the_poll_that_lets_it_in(sets: KeyedSets) -> None:
    for application in (sets.tv, sets.box):
        sets.bind(application)
        codes, key = await sets.ask_for_codes(application), sets.key()
        await sets.approve(codes)
        assert oauth(await sets.poll(codes)) == PROOF
        secret = {} if application.secret is None else application.posted
        fields = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": codes.device_code, **secret}
        tokens = sets.kept((await sets.with_proof(key, {**fields, "client_id": application.client_id})).ok())
        assert claims_of(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint}
        assert oauth(await sets.refresh_with(None, application, tokens["refresh_token"])) == PROOF
        other = await sets.refresh_with(sets.key(), application, tokens["refresh_token"])
        assert other.status == (200 if application.secret else 400)


# --- Exchanges.


async def exchange(between: Between, key: ClientKey | None, application: Application, token: str, resource: str) -> Received:
    fields = {"grant_type": TOKEN_EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN_TYPE, "resource": resource}
    return await between.with_proof(key, {**fields, **application.posted})


async def bound_subject(between: Between, key: ClientKey) -> str:
    code = await between.allowed(ORDERS)
    tokens: dict[str, Any] = between.kept((await between.redeem_with(key, between.shop, code)).ok())
    return str(tokens["access_token"])


async def test_an_api_exchanges_a_bound_token_that_it_received(between: Between) -> None:
    """It has checked the proof, and cannot make another one. Its own token is bound to its own key."""
    subject = await bound_subject(between, between.key())
    plain = (await exchange(between, None, between.desk, subject, BILLS)).ok()
    assert (plain["token_type"], "cnf" in claims_of(plain["access_token"])) == ("Bearer", False)
    own = between.key()
    bound = (await exchange(between, own, between.desk, subject, BILLS)).ok()
    assert (bound["token_type"], claims_of(bound["access_token"])["cnf"]) == ("DPoP", {"jkt": own.thumbprint})
    told_of = await between.introspect(between.other, bound["access_token"])
    assert told_of["cnf"] == {"jkt": own.thumbprint}


async def test_the_application_itself_exchanges_its_bound_token_with_its_key(between: Between) -> None:
    key = between.key()
    between.exchangers(between.bills, between.shop)
    tokens = await between.bound(key, between.shop, "openid")
    for other in (None, between.key()):
        assert oauth(await exchange(between, other, between.shop, tokens["access_token"], BILLS)) == (400, "invalid_request")
    # With the key, the exchange goes on to the next question, which this application has not settled.
    assert oauth(await exchange(between, key, between.shop, tokens["access_token"], BILLS)) == (400, "invalid_target")


async def test_a_bound_token_for_an_api_opens_userinfo_with_its_key(between: Between) -> None:
    key = between.key()
    token = await bound_subject(between, key)
    assert (await between.userinfo(token)).status == 401
    (await between.userinfo_with(key, token)).ok()


@pytest.mark.parametrize("wants", [True, False])
async def test_a_service_that_wants_bound_tokens_exchanges_with_a_proof(between: Between, wants: bool) -> None:
    subject = await bound_subject(between, between.key())
    if wants:
        between.bind(between.desk)
    answer = await exchange(between, None, between.desk, subject, BILLS)
    assert (oauth(answer) if answer.status != 200 else answer.status) == (PROOF if wants else 200)
