"""Tokens that are bound to a key: each grant, the refresh, and where they are shown."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.federation.bound.proving import Proving
from tests.http.federation.relying import claims_of, oauth
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import People
from tests.http.signing_in import unlimited

OWN = {"grant_type": "client_credentials"}


@pytest.fixture
def proving(postern: Postern, people: People, log: CapturedLog) -> Proving:
    return Proving(postern, people, unlimited(postern), log)


async def test_a_code_is_redeemed_for_bound_tokens(proving: Proving) -> None:
    for application in (proving.shop, proving.page, proving.phone):
        key = proving.key()
        tokens = await proving.bound(key, application)
        assert tokens["token_type"] == "DPoP"
        assert claims_of(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint}
        said = (await proving.userinfo_with(key, tokens["access_token"])).ok()
        assert said["email"] == "ada@example.org"


async def test_a_bound_token_is_no_bearer_token(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.bound(key, proving.shop))["access_token"]
    answer = await proving.userinfo(token)
    assert refused(answer) == (401, "JWT_ERROR")
    assert answer.header("www-authenticate") == 'DPoP error="invalid_token", algs="ES256 ES384 EdDSA PS256 RS256"'


async def test_each_kind_of_key_binds(proving: Proving) -> None:
    for private, algorithm in (
        (generate_private_key(SECP384R1()), "ES384"),
        (Ed25519PrivateKey.generate(), "EdDSA"),
        (rsa_key(65537, 2048), "PS256"),
        (rsa_key(65537, 3072), "RS256"),
    ):
        key = proving.key(private, algorithm)
        token = (await proving.bound(key, proving.page))["access_token"]
        assert claims_of(token)["cnf"] == {"jkt": key.thumbprint}
        (await proving.userinfo_with(key, token)).ok()


async def test_an_application_has_bound_tokens_of_its_own(proving: Proving, log: CapturedLog) -> None:
    key = proving.key()
    for _ in range(2):
        (await proving.ask(fields=OWN, headers=proving.shop.basic)).ok()
    without = last_trips(log)
    tokens = (await proving.with_proof(key, OWN, proving.shop.basic)).ok()
    assert last_trips(log) == without + 1
    assert tokens["token_type"] == "DPoP"
    told = await proving.introspect(proving.shop, tokens["access_token"])
    assert (told["active"], told["token_type"], told["cnf"]) == (True, "DPoP", {"jkt": key.thumbprint})


async def test_introspection_tells_the_key(proving: Proving) -> None:
    key = proving.key()
    tokens = await proving.bound(key, proving.shop)
    told = await proving.introspect(proving.shop, tokens["access_token"])
    assert (told["token_type"], told["cnf"]) == ("DPoP", {"jkt": key.thumbprint})
    plain = await proving.signed_in(proving.shop)
    told = await proving.introspect(proving.shop, plain["access_token"])
    assert (told["token_type"], "cnf" in told) == ("Bearer", False)


async def test_a_public_application_refreshes_with_its_key(proving: Proving) -> None:
    key = proving.key()
    tokens = await proving.bound(key, proving.page)
    for other in (None, proving.key()):
        assert oauth(await proving.refresh_with(other, proving.page, tokens["refresh_token"])) == (400, "invalid_grant")
    again = (await proving.refresh_with(key, proving.page, tokens["refresh_token"])).ok()
    assert claims_of(again["access_token"])["cnf"] == {"jkt": key.thumbprint}
    (await proving.userinfo_with(key, again["access_token"])).ok()


async def test_an_application_that_authenticates_may_change_its_key_and_not_leave_it(proving: Proving) -> None:
    first, second = proving.key(), proving.key()
    tokens = await proving.bound(first, proving.shop)
    assert oauth(await proving.refresh_with(None, proving.shop, tokens["refresh_token"])) == (400, "invalid_grant")
    again = (await proving.refresh_with(second, proving.shop, tokens["refresh_token"])).ok()
    assert claims_of(again["access_token"])["cnf"] == {"jkt": second.thumbprint}
    assert oauth(await proving.refresh_with(None, proving.shop, again["refresh_token"])) == (400, "invalid_grant")


async def test_a_session_that_began_without_a_key_gets_none_by_a_refresh(proving: Proving) -> None:
    """Its access tokens are bound, each to the key of its request."""
    tokens = await proving.signed_in(proving.page)
    again = (await proving.refresh_with(proving.key(), proving.page, tokens["refresh_token"])).ok()
    assert again["token_type"] == "DPoP"
    plain = (await proving.refresh_with(None, proving.page, again["refresh_token"])).ok()
    assert plain["token_type"] == "Bearer"


async def test_a_bound_session_goes_on_by_proofs_alone(proving: Proving) -> None:
    key = proving.key()
    tokens = await proving.bound(key, proving.page)
    answer = await proving.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert refused(answer) == (401, "UNAUTHORIZED")
    (await proving.refresh_with(key, proving.page, tokens["refresh_token"])).ok()


async def test_a_service_that_wants_bound_tokens_gets_no_others(proving: Proving) -> None:
    for application in (proving.shop, proving.page):
        proving.bind(application)
        code = await proving.code(application)
        assert oauth(await proving.redeem_with(None, application, code)) == (400, "invalid_dpop_proof")
        # The refusal has not used the code up.
        (await proving.redeem_with(proving.key(), application, code)).ok()
    assert oauth(await proving.ask(fields=OWN, headers=proving.shop.basic)) == (400, "invalid_dpop_proof")
    (await proving.with_proof(proving.key(), OWN, proving.shop.basic)).ok()


async def test_a_proof_costs_one_statement(proving: Proving, log: CapturedLog) -> None:
    key = proving.key()
    await proving.bound(key, proving.shop)
    tokens = await proving.bound(key, proving.shop)
    redeemed = last_trips(log)
    plain = await proving.signed_in(proving.shop)
    assert redeemed == last_trips(log) + 1
    (await proving.userinfo(plain["access_token"])).ok()
    bearer = last_trips(log)
    (await proving.userinfo_with(key, tokens["access_token"])).ok()
    assert last_trips(log) == bearer + 1


async def test_a_proof_counts_once(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.bound(key, proving.shop))["access_token"]
    (await proving.userinfo_with(key, token, jti="one")).ok()
    answer = await proving.userinfo_with(key, token, jti="one")
    assert refused(answer) == (401, "JWT_ERROR")
    assert (answer.header("www-authenticate") or "").startswith('DPoP error="invalid_dpop_proof"')
