"""The signatures of assertions, with keys that are published at an address, and with pasted keys."""

import hmac
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

from adapters.crypto.signed_by_others import signed_claims
from adapters.outbound.client import GuardedClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, SystemNames
from adapters.upstream import keys as upstream_keys
from adapters.upstream.keys import JwtAssertionSignatures
from adapters.upstream.oauth import Calls
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused, TrustedKeys
from core.domain.outbound import client_keys
from tests.receiver import Receiver, answering, hanging_up, receiving

EC: Final = ec.generate_private_key(ec.SECP256R1())
RSA: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER: Final = ec.generate_private_key(ec.SECP256R1())
CLAIMS: Final = {"sub": "repo:acme/shop", "n": 1}


def public(key: Any, kid: str | None = "a") -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        (ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm).to_jwk(key.public_key())
    )
    made.pop("key_ops", None)
    return made | ({} if kid is None else {"kid": kid})


def signed(key: Any = EC, algorithm: str = "ES256", claims: Mapping[str, Any] = CLAIMS, **header: Any) -> str:
    return jwt.encode(dict(claims), key, algorithm, {"kid": "a"} | header)


def pasted(*keys: Mapping[str, Any]) -> TrustedKeys:
    return TrustedKeys(pasted=client_keys({"keys": list(keys)}))


async def fault(signatures: JwtAssertionSignatures, assertion: str, keys: TrustedKeys) -> AssertionFault | None:
    try:
        await signatures.signed(assertion, keys)
    except AssertionRefused as refused:
        return refused.fault
    return None


def unsigned(algorithm: str, signature: bytes = b"") -> str:
    """A token that PyJWT itself would not make."""
    parts = [json.dumps(one).encode() for one in ({"alg": algorithm, "kid": "a"}, CLAIMS)]
    return ".".join(base64url_encode(one).decode() for one in (*parts, signature))


def keyed_with(key: bytes) -> str:
    """HS256, with a public key as the secret."""
    head = unsigned("HS256").rpartition(".")[0]
    return f"{head}.{base64url_encode(hmac.digest(key, head.encode(), 'sha256')).decode()}"


@asynccontextmanager
async def publishing(*keys: Mapping[str, Any]) -> AsyncIterator[tuple[JwtAssertionSignatures, Receiver, TrustedKeys]]:
    client = GuardedClient(Dialer(SystemNames(), EVERYWHERE))
    async with receiving(published(*keys)) as receiver:
        yield JwtAssertionSignatures(Calls(client, client)), receiver, TrustedKeys(f"http://127.0.0.1:{receiver.port}/keys")
    await client.aclose()


def published(*keys: Mapping[str, Any]) -> Any:
    return answering(200, json.dumps({"keys": keys}).encode())


@pytest.fixture
def signatures() -> JwtAssertionSignatures:
    """Pasted keys need no calls."""
    calls: Any = None
    return JwtAssertionSignatures(calls)


async def test_pasted_keys(signatures: JwtAssertionSignatures) -> None:
    both = pasted(public(EC), public(RSA, "b"))
    read = await signatures.signed(signed(typ="JWT"), both)
    assert (read.type, read.claims) == ("JWT", CLAIMS)
    for good in (signed(RSA, "RS256", kid="b"), signed(RSA, "PS256", kid="b")):
        assert (await signatures.signed(good, both)).claims == CLAIMS
    nameless = jwt.encode(CLAIMS, EC, "ES256")
    assert await fault(signatures, nameless, pasted(public(EC, None))) is None
    assert await fault(signatures, nameless, both) is AssertionFault.KEY


async def test_only_the_trusted_key_counts(signatures: JwtAssertionSignatures) -> None:
    keys = pasted(public(EC))
    own: Any = {"jwk": public(OTHER), "jku": "http://127.0.0.1/keys", "x5u": "http://127.0.0.1/keys", "x5c": ["AAAA"]}
    # Keys in the header are never looked at, also if the signature is good.
    assert await fault(signatures, signed(**own), keys) is None
    assert await fault(signatures, signed(OTHER, **own), keys) is AssertionFault.SIGNATURE
    assert await fault(signatures, signed(OTHER, **own, kid="b"), keys) is AssertionFault.KEY
    assert await fault(signatures, signed(crit=["exp"]), keys) is AssertionFault.MALFORMED
    for kid in ("A", "a ", ""):
        assert await fault(signatures, signed(kid=kid), keys) is AssertionFault.KEY


@pytest.mark.parametrize("key", [EC, RSA], ids=["EC", "RSA"])
async def test_the_key_decides_the_algorithm(signatures: JwtAssertionSignatures, key: Any) -> None:
    keys = pasted(public(key))
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for hostile in (unsigned("none"), unsigned("None"), unsigned("nOnE", b"x"), unsigned("HS256"), keyed_with(pem)):
        assert await fault(signatures, hostile, keys) is AssertionFault.SIGNATURE
    other, algorithm = (RSA, "RS256") if key is EC else (EC, "ES256")
    assert await fault(signatures, signed(other, algorithm), keys) is AssertionFault.SIGNATURE
    named = {**public(key), "alg": "ES256" if key is EC else "PS256"}
    assert await fault(signatures, signed(RSA, "RS256"), pasted(named)) is AssertionFault.SIGNATURE


@pytest.mark.parametrize("text", ["", "..", "e30.e30.", "bnVsbA.e30.x", "W10.e30.x", "ey.e30.x", "\u00e9.e30.x", "a." * 9000 + "x"])
async def test_what_cannot_be_read_is_refused(signatures: JwtAssertionSignatures, text: str) -> None:
    assert await fault(signatures, text, pasted(public(EC))) in {AssertionFault.MALFORMED, AssertionFault.KEY, AssertionFault.SIGNATURE}


async def test_published_keys_are_fetched_once_and_again_for_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing(public(EC)) as (signatures, receiver, keys):
        for _ in range(3):
            assert (await signatures.signed(signed(), keys)).claims == CLAIMS
        assert len(receiver.calls) == 1
        # Made-up names do not have it asked all the time.
        for _ in range(3):
            assert await fault(signatures, signed(kid="b"), keys) is AssertionFault.KEY
            assert await fault(signatures, signed(OTHER), keys) is AssertionFault.SIGNATURE
        assert len(receiver.calls) == 1
        receiver.answer = published(public(EC), public(OTHER, "b"))
        monkeypatch.setattr(upstream_keys, "LOOKED_AGAIN_AFTER", 0.0)
        assert await fault(signatures, signed(OTHER, kid="b"), keys) is None
        assert len(receiver.calls) == 2


@pytest.mark.parametrize("answer", [hanging_up, answering(500), answering(200, b"[]"), answering(200, b"x"), answering(200, b" " * 70_000)])
async def test_an_address_that_fails_is_not_asked_by_each_assertion(answer: Any) -> None:
    async with publishing() as (signatures, receiver, keys):
        receiver.answer = answer
        for _ in range(3):
            assert await fault(signatures, signed(), keys) is AssertionFault.KEYS_AWAY
        assert len(receiver.calls) == 1


async def test_signatures_are_checked_in_threads(signatures: JwtAssertionSignatures, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noting(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return signed_claims(*arguments)

    monkeypatch.setattr(upstream_keys, "signed_claims", noting)
    await signatures.signed(signed(), pasted(public(EC)))
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
