"""Attacks on proofs of keys: each part of a proof that does not fit the request, at the token endpoint and at userinfo."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP521R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key

from tests.http.conftest import postern_on
from tests.http.federation.bound.proving import ClientKey, Proving
from tests.http.federation.relying import TOKEN, USERINFO, oauth
from tests.http.people import BASE_URL
from tests.http.signing_in import unlimited

OWN: Final = {"grant_type": "client_credentials"}
REFUSED: Final = (400, "invalid_dpop_proof")
_HOST: Final = BASE_URL.removeprefix("https://")


async def shown(proving: Proving, *proofs: str) -> tuple[int, str]:
    """What comes of these proofs at the token endpoint."""
    answer = await proving.ask(fields=OWN, headers=[*proving.shop.basic, *(("dpop", proof) for proof in proofs)])
    return (200, answer.ok()["token_type"]) if answer.status == 200 else oauth(answer)


def parts(proof: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, claims, signature = proof.split(".")
    return json.loads(_decoded(header)), json.loads(_decoded(claims)), signature


def joined(header: Mapping[str, Any], claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{_encoded(sign(signed.encode()))}"


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(given: bytes) -> str:
    return urlsafe_b64encode(given).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "address",
    [
        f"{BASE_URL}{TOKEN}/",
        f"{BASE_URL}/{TOKEN}",
        f"{BASE_URL}:444{TOKEN}",
        f"http://{_HOST}{TOKEN}",
        f"{BASE_URL}/oauth/token",
        f"{BASE_URL}/AUTH/TOKEN",
        f"https://ada@{_HOST}{TOKEN}",
        f"https://{_HOST}@evil.example{TOKEN}",
        f"https://{_HOST}.evil.example{TOKEN}",
        f"https://evil.example{TOKEN}",
        f"https://[::1]{TOKEN}",
        f"https://[0:0::1]{TOKEN}",
        f"https://{_HOST}\\@evil.example{TOKEN}",
        f"{BASE_URL}/x/..{TOKEN}",
        f"{BASE_URL}/auth%2Ftoken",
        f"{BASE_URL}{TOKEN} ",
        f" {BASE_URL}{TOKEN}",
        f"{BASE_URL}{TOKEN}\n",
        BASE_URL,
        TOKEN,
        "",
        f"{BASE_URL}{TOKEN}?{'x' * 2000}",
        7,
        None,
        [f"{BASE_URL}{TOKEN}"],
    ],
)
async def test_another_address(proving: Proving, address: Any) -> None:
    assert await shown(proving, proving.key().proof(htu=address)) == REFUSED


@pytest.mark.parametrize(
    "address",
    [
        f"{BASE_URL.upper()}{TOKEN}",
        f"{BASE_URL}:443{TOKEN}",
        f"{BASE_URL}:{TOKEN}",
        f"{BASE_URL}{TOKEN}?a=b",
        f"{BASE_URL}{TOKEN}#part",
        f"{BASE_URL}{TOKEN}?a=b#part",
        f"{BASE_URL}/%61uth/%74oken",
    ],
)
async def test_the_same_address_in_another_form(proving: Proving, address: str) -> None:
    assert await shown(proving, proving.key().proof(htu=address)) == (200, "DPoP")


@pytest.mark.parametrize("method", ["GET", "post", "PUT", "", None, 1])
async def test_another_method(proving: Proving, method: Any) -> None:
    assert await shown(proving, proving.key().proof(htm=method)) == REFUSED


@pytest.mark.parametrize(("ahead", "counts"), [(-3600, False), (-62, False), (-50, True), (9, True), (13, False), (3600, False)])
async def test_another_minute(proving: Proving, ahead: int, counts: bool) -> None:
    made_at = proving.postern.foundation.clock.now().timestamp() + ahead
    assert await shown(proving, proving.key().proof(iat=made_at)) == ((200, "DPoP") if counts else REFUSED)


@pytest.mark.parametrize("made_at", [None, True, "now", "1", [], 1e400, 10**400, -(10**400)])
async def test_no_minute(proving: Proving, made_at: Any) -> None:
    assert await shown(proving, proving.key().proof(iat=made_at)) == REFUSED


@pytest.mark.parametrize("proof_id", [None, "", "x" * 129, 7, ["a"]])
async def test_no_id(proving: Proving, proof_id: Any) -> None:
    assert await shown(proving, proving.key().proof(jti=proof_id)) == REFUSED


async def test_an_id_of_any_letters_counts_once(proving: Proving) -> None:
    key = proving.key()
    for proof_id in ("x" * 128, "\x00", "\ud800", "ä"):
        assert await shown(proving, key.proof(jti=proof_id)) == (200, "DPoP")
        assert await shown(proving, key.proof(jti=proof_id)) == REFUSED
    # The ids of one key say nothing about those of another.
    assert await shown(proving, proving.key().proof(jti="ä")) == (200, "DPoP")


async def test_replayed_in_another_process(proving: Proving, database_url: str, tmp_path: Path) -> None:
    proof = proving.key().proof()
    assert await shown(proving, proof) == (200, "DPoP")
    async with postern_on(database_url, tmp_path) as second:
        answer = await unlimited(second).request(
            "POST",
            TOKEN,
            body=b"grant_type=client_credentials",
            headers=[("content-type", "application/x-www-form-urlencoded"), *proving.shop.basic, ("dpop", proof)],
        )
    assert oauth(answer) == REFUSED


async def test_two_heads(proving: Proving) -> None:
    key = proving.key()
    assert await shown(proving, key.proof(), key.proof()) == REFUSED
    assert await shown(proving, key.proof(), "") == REFUSED


async def test_too_long_and_no_token(proving: Proving) -> None:
    key = proving.key()
    assert await shown(proving, key.proof(more="x" * 9000)) == REFUSED
    header, claims, signature = key.proof().split(".")
    for text in (
        "",
        "a",
        "a.b.c",
        "..",
        f"{header}.{claims}",
        f"{header}.{claims}.",
        f"{header}.{claims}.{signature}.",
        "é.é.é",
        "a.b.c.d.e",
    ):
        assert await shown(proving, text) == REFUSED, text


@pytest.mark.parametrize(
    "changed",
    [
        {"typ": None},
        {"typ": "JWT"},
        {"typ": "DPOP+JWT"},
        {"typ": ["dpop+jwt"]},
        {"jwk": None},
        {"jwk": "key"},
        {"jwk": []},
        {"jwk": {}},
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/cert"},
        {"x5c": ["MII"]},
        {"crit": ["b64"], "b64": False},
    ],
)
async def test_a_header_that_misleads(proving: Proving, changed: dict[str, Any]) -> None:
    assert await shown(proving, proving.key().proof(header=changed)) == REFUSED


async def test_a_name_of_a_key_has_no_say(proving: Proving) -> None:
    assert await shown(proving, proving.key().proof(header={"kid": "https://evil.example/key", "tx_id": 7}, more=1)) == (200, "DPoP")


async def test_a_private_or_symmetric_key(proving: Proving) -> None:
    key = proving.key()
    secret = key.private.private_numbers().private_value.to_bytes(32)
    for member in ("d", "p", "q", "dp", "dq", "qi", "oth", "k"):
        assert await shown(proving, key.proof(header={"jwk": {**key.jwk, member: _encoded(secret)}})) == REFUSED
    assert await shown(proving, key.proof(header={"jwk": {"kty": "oct", "k": _encoded(secret)}})) == REFUSED


async def test_an_algorithm_that_is_none(proving: Proving) -> None:
    header, claims, _ = parts(proving.key().proof())
    for algorithm in ("none", "None", "", None, "HS256", ["ES256"], {"ES256": 1}):
        proof = joined({**header, "alg": algorithm}, claims, lambda _signed: b"")
        assert await shown(proving, proof) == REFUSED, algorithm
        assert await shown(proving, proof + "AA") == REFUSED, algorithm


async def test_the_public_key_as_a_secret(proving: Proving) -> None:
    """HS256 under what everybody knows."""
    header, claims, _ = parts(proving.key().proof())
    secrets = (json.dumps(header["jwk"]).encode(), _decoded(header["jwk"]["x"]), b"")
    for secret in secrets:
        proof = joined({**header, "alg": "HS256"}, claims, lambda signed, secret=secret: hmac.digest(secret, signed, sha256))  # type: ignore[misc]
        assert await shown(proving, proof) == REFUSED


async def test_a_key_that_is_too_small_or_none(proving: Proving) -> None:
    for size in (1024, 2040):
        assert await shown(proving, key_for(proving, "RS256", proving.key(rsa_key(65537, size), "RS256").jwk)) == REFUSED
    large = proving.key(rsa_key(65537, 2048), "RS256").jwk
    key = proving.key()
    wide = proving.key(generate_private_key(SECP521R1()), "ES512")
    assert await shown(proving, wide.proof()) == REFUSED
    for jwk in (
        {**large, "n": _encoded(b"\xff" * 513)},
        {**large, "n": _encoded(b"\0" + _decoded(large["n"]))},
        {**large, "e": _encoded(b"\xff" * 5)},
        {**large, "e": "AQ"},
        {**large, "e": "AA"},
        {**large, "n": large["n"] + "!"},
        {**large, "n": 7},
        {"kty": "RSA"},
        {**key.jwk, "kty": "RSA"},
    ):
        assert await shown(proving, key_for(proving, "RS256", jwk)) == REFUSED, jwk
    off = _encoded((int.from_bytes(_decoded(key.jwk["y"])) ^ 1).to_bytes(32))
    for jwk in (
        {**key.jwk, "y": off},
        {**key.jwk, "x": _encoded(b"\0" * 32), "y": _encoded(b"\0" * 32)},
        {**key.jwk, "crv": "P-384"},
        {**key.jwk, "crv": "secp256k1"},
        {**key.jwk, "x": key.jwk["x"] + "="},
        {**key.jwk, "x": key.jwk["x"][:-1]},
        {"kty": "EC", "crv": "P-256"},
        {"kty": "OKP", "crv": "Ed25519", "x": key.jwk["x"]},
    ):
        assert await shown(proving, key.proof(header={"jwk": jwk})) == REFUSED, jwk


def key_for(proving: Proving, algorithm: str, jwk: Mapping[str, Any]) -> str:
    header, claims, _ = parts(proving.key().proof())
    return joined({**header, "alg": algorithm, "jwk": jwk}, claims, lambda _signed: b"\1" * 256)


async def test_a_key_has_one_thumbprint(proving: Proving) -> None:
    """The last letter of a coordinate carries bits that say nothing: another letter would be the same key with another name."""
    key = proving.key()
    last = key.jwk["x"][-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = key.jwk["x"][:-1] + alphabet[alphabet.index(last) ^ 1]
    assert await shown(proving, key.proof(header={"jwk": {**key.jwk, "x": twin}})) == REFUSED


async def test_a_signature_of_another_key(proving: Proving) -> None:
    key, other = proving.key(), proving.key()
    assert await shown(proving, key.proof(header={"jwk": other.jwk})) == REFUSED
    header, claims, signature = key.proof().split(".")
    changed = _encoded(json.dumps({**json.loads(_decoded(claims)), "htu": BASE_URL}).encode())
    assert await shown(proving, f"{header}.{changed}.{signature}") == REFUSED


# --- With a token.


async def test_the_hash_of_another_token(proving: Proving) -> None:
    key = proving.key()
    first, second = [(await proving.bound(key, proving.shop))["access_token"] for _ in range(2)]
    for changed in (
        {"ath": None},
        {"ath": ""},
        {"ath": _encoded(sha256(second.encode()).digest())},
        {"ath": _encoded(sha256(b"").digest())},
    ):
        answer = await proving.userinfo_with(key, first, **changed)
        assert (answer.status, (answer.header("www-authenticate") or "")[:31]) == (401, 'DPoP error="invalid_dpop_proof"')
    (await proving.userinfo_with(key, first)).ok()


async def test_another_key(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.bound(key, proving.page))["access_token"]
    answer = await proving.userinfo_with(proving.key(), token)
    assert (answer.status, (answer.header("www-authenticate") or "")[:26]) == (401, 'DPoP error="invalid_token"')
    # Whoever has no such token has used nothing up.
    assert proving.people.rows("select count(*) as n from used_key_proofs")[0]["n"] == 1


async def test_a_bound_token_as_bearer_in_a_query_and_in_a_form(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.bound(key, proving.page))["access_token"]
    for answer in (
        await proving.userinfo(token),
        await proving.client.request("GET", USERINFO, headers=[("authorization", f"Bearer {token}"), key.dpop("GET", USERINFO, token)]),
        await proving.ask(USERINFO, {"access_token": token}),
        await proving.ask(USERINFO, {"access_token": token}, [key.dpop("POST", USERINFO, token)]),
    ):
        assert (answer.status, (answer.header("www-authenticate") or "")[:26]) == (401, 'DPoP error="invalid_token"')
    answer = await proving.client.request("GET", f"{USERINFO}?access_token={token}", headers=[key.dpop("GET", USERINFO, token)])
    assert answer.status == 401


async def test_no_proof_and_two(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.bound(key, proving.page))["access_token"]
    scheme = ("authorization", f"DPoP {token}")
    for proofs in ([], [key.dpop("GET", USERINFO, token), key.dpop("GET", USERINFO, token)], [key.dpop("POST", USERINFO, token)]):
        answer = await proving.client.request("GET", USERINFO, headers=[scheme, *proofs])
        assert (answer.status, (answer.header("www-authenticate") or "")[:31]) == (401, 'DPoP error="invalid_dpop_proof"')


async def test_an_unbound_token_with_a_proof(proving: Proving) -> None:
    key = proving.key()
    token = (await proving.signed_in(proving.page))["access_token"]
    assert (await proving.userinfo_with(key, token)).status == 401
    (await proving.userinfo(token)).ok()
    own: ClientKey = proving.key()
    for text in ("", "abc", "a.b.c", "x" * 9000):
        assert (await proving.userinfo_with(own, text)).status == 401
    # Whoever has no token has no proof looked at.
    answer = await proving.client.request("GET", USERINFO, headers=[("authorization", "DPoP a.b.c"), ("dpop", "no proof")])
    assert answer.header("www-authenticate") == 'Bearer error="invalid_token"'


async def test_elsewhere_with_a_session(proving: Proving) -> None:
    """Every endpoint that lets applications in asks for the proof, and those of the person's own account let none in."""
    key = proving.key()
    token = (await proving.bound(key, proving.page))["access_token"]

    async def asked(method: str, path: str, *, scheme: str = "DPoP") -> int:
        return (
            await proving.client.request(method, path, headers=[("authorization", f"{scheme} {token}"), key.dpop(method, path, token)])
        ).status

    assert await asked("GET", "/api/user") == 200
    assert await asked("GET", "/api/user", scheme="Bearer") == 401
    assert await asked("GET", "/api/user/devices") == 401
    assert await asked("GET", "/api/organizations/acme") == 401
    assert await asked("POST", "/api/auth/logout", scheme="Bearer") == 401
    assert await asked("POST", "/api/auth/logout") < 300
    assert await asked("GET", "/api/user") == 401
