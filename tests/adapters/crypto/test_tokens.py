"""Tokens: signed, verified, and kept at hand for a while once verified. Tokens that must not pass are in tests/security/test_tokens.py."""

from datetime import timedelta
from hashlib import sha256

import jwt
import pytest

from adapters.crypto.tokens import JwtSigner, JwtVerifier
from core.domain.errors import TokenExpired, TokenInvalid
from core.domain.tokens import KeyPurpose
from tests.signing import ISSUER, NOW, SettableClock, StoredKeys, access_claims, current_key, next_key, outgoing_key


class Tokens:
    """A signer and a verifier over the same stored keys."""

    def __init__(self, cache_generation: int = 5000) -> None:
        self.stored = StoredKeys([current_key(KeyPurpose.ACCESS), current_key(KeyPurpose.ID)])
        self.keys = self.stored.cache()
        self.clock = SettableClock()
        self.signer = JwtSigner(self.keys)
        self.verifier = JwtVerifier(self.keys, ISSUER, self.clock, cache_generation)


async def test_a_signed_token_is_believed_and_its_claims_come_back() -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims())
    for _ in range(2):
        claims = await tokens.verifier.verify_access(token)
        assert {**claims, "amr": ["pwd"]} == access_claims()
        assert claims["amr"] == ("pwd",)


async def test_the_header_names_key_and_algorithm_and_nothing_else() -> None:
    tokens = Tokens()
    access, identity = await tokens.signer.sign_access(access_claims()), await tokens.signer.sign_id(access_claims())
    assert jwt.get_unverified_header(access) == {"alg": "ES256", "typ": "JWT", "kid": current_key(KeyPurpose.ACCESS).id}
    assert jwt.get_unverified_header(identity) == {"alg": "RS256", "typ": "JWT", "kid": current_key(KeyPurpose.ID).id}


async def test_an_id_token_verifies_with_the_published_key() -> None:
    token = await Tokens().signer.sign_id({"sub": "ada"})
    assert jwt.decode(token, jwt.PyJWK(dict(current_key(KeyPurpose.ID).public_jwk)), algorithms=["RS256"]) == {"sub": "ada"}


async def test_a_token_verified_lately_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims())
    await tokens.verifier.verify_access(token)
    monkeypatch.delattr(JwtVerifier, "_verify")
    for _ in range(100):
        await tokens.verifier.verify_access(token)


async def test_the_token_itself_is_not_kept() -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims())
    await tokens.verifier.verify_access(token)
    assert list(tokens.verifier._recent._new) == [sha256(token.encode()).digest()]
    assert token.rpartition(".")[2] not in repr(tokens.verifier._recent._new)


async def test_a_remembered_token_dies_at_its_expiry() -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims())
    tokens.clock.advance(timedelta(seconds=899))
    await tokens.verifier.verify_access(token)
    tokens.clock.advance(timedelta(seconds=1))
    with pytest.raises(TokenExpired):
        await tokens.verifier.verify_access(token)


async def test_a_remembered_token_dies_with_its_key() -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims(exp=int(NOW.timestamp()) + 86_400))
    await tokens.verifier.verify_access(token)
    tokens.stored.keys = [outgoing_key(KeyPurpose.ACCESS, NOW + timedelta(hours=1)), current_key(KeyPurpose.ACCESS, 1)]
    tokens.stored.pass_time(31)
    await tokens.verifier.verify_access(token)
    tokens.clock.advance(timedelta(hours=1))
    with pytest.raises(TokenInvalid) as caught:
        await tokens.verifier.verify_access(token)
    assert caught.value.detail == "the key is retired"
    tokens.stored.keys = [current_key(KeyPurpose.ACCESS, 1)]
    tokens.stored.pass_time(31)
    with pytest.raises(TokenInvalid):
        await tokens.verifier.verify_access(token)


async def test_across_a_rotation_no_token_fails() -> None:
    """The other process still signs with the old key, then both with the new one; every verifier knew it as the next one."""
    tokens = Tokens()
    tokens.stored.keys.append(next_key(KeyPurpose.ACCESS, 1))
    before = await tokens.signer.sign_access(access_claims())
    await tokens.verifier.verify_access(before)
    tokens.stored.keys = [outgoing_key(KeyPurpose.ACCESS, NOW + timedelta(days=2)), current_key(KeyPurpose.ACCESS, 1)]
    other_process = JwtSigner(tokens.stored.cache())
    after = await other_process.sign_access(access_claims())
    assert jwt.get_unverified_header(after)["kid"] == next_key(KeyPurpose.ACCESS, 1).id
    await tokens.verifier.verify_access(after)
    await tokens.verifier.verify_access(before)
    assert tokens.stored.reads == 2


async def test_a_refusal_is_never_remembered() -> None:
    tokens = Tokens()
    early = await tokens.signer.sign_access(access_claims(nbf=int(NOW.timestamp()) + 600))
    for _ in range(3):
        with pytest.raises(TokenInvalid):
            await tokens.verifier.verify_access(early)
    assert len(tokens.verifier._recent) == 0
    tokens.clock.advance(timedelta(minutes=10))
    await tokens.verifier.verify_access(early)


async def test_the_memory_of_tokens_is_bounded_and_keeps_those_in_use() -> None:
    tokens = Tokens(cache_generation=10)
    used = await tokens.signer.sign_access(access_claims())
    await tokens.verifier.verify_access(used)
    kept = tokens.verifier._recent.get(next(iter(tokens.verifier._recent._new)))
    for number in range(60):
        await tokens.verifier.verify_access(await tokens.signer.sign_access(access_claims(jti=str(number))))
        await tokens.verifier.verify_access(used)
        assert len(tokens.verifier._recent) <= 20
    assert any(verified is kept for verified in (tokens.verifier._recent._new | tokens.verifier._recent._old).values())


async def test_claims_are_shared_and_cannot_be_changed() -> None:
    tokens = Tokens()
    token = await tokens.signer.sign_access(access_claims(act={"sub": "root", "also": ["x"]}))
    claims = await tokens.verifier.verify_access(token)
    assert claims is await tokens.verifier.verify_access(token)
    with pytest.raises(TypeError):
        claims["is_platform_owner"] = True  # type: ignore[index]  # that is what must not work
    with pytest.raises(TypeError):
        claims["act"]["sub"] = "somebody"  # type: ignore[index]  # nor this
