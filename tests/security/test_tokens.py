"""Token confusion: a token is believed only if we signed it as an access token, with exactly the key that it names."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from adapters.crypto.key_pairs import PrivateKey
from adapters.crypto.tokens import LARGEST_TOKEN, JwtSigner, JwtVerifier
from core.domain.errors import TokenExpired, TokenInvalid
from core.domain.tokens import KeyPurpose, TokenAlgorithm
from tests.signing import ISSUER, NOW, SettableClock, StoredKeys, access_claims, current_key, next_key

ACCESS, IDENTITY = current_key(KeyPurpose.ACCESS), current_key(KeyPurpose.ID)
SECONDS = int(NOW.timestamp())


class TokenScene:
    """Our own signer and verifier, and an attacker's tokens."""

    def __init__(self) -> None:
        self.stored = StoredKeys([ACCESS, IDENTITY, next_key(KeyPurpose.ACCESS, 1)])
        self.keys = self.stored.cache()
        self.signer = JwtSigner(self.keys)
        self.verifier = JwtVerifier(self.keys, ISSUER, SettableClock())

    async def private(self, purpose: KeyPurpose) -> PrivateKey:
        return (await self.keys.signing_key(purpose))[1]

    async def sign(self, claims: Mapping[str, Any]) -> str:
        """Signs with the true key, without the signer's library, since the library refuses some claims."""
        return signed(await self.private(KeyPurpose.ACCESS), header(), claims)

    async def refuses(self, token: str) -> None:
        # Twice: the second look must not find the first one's result in a cache.
        for _ in range(2):
            with pytest.raises(TokenInvalid):
                await self.verifier.verify_access(token)


@pytest.fixture
def scene() -> TokenScene:
    return TokenScene()


def encode(part: bytes | Mapping[str, Any]) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forge(header: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes = b"") -> str:
    return f"{encode(header)}.{encode(claims)}.{encode(signature)}"


def signed(private: PrivateKey, header: Mapping[str, Any], claims: Mapping[str, Any] | None = None) -> str:
    """Signs with the true private key under any header. A verifier that believes headers would accept the token."""
    signing_input = f"{encode(header)}.{encode(claims if claims is not None else access_claims())}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signing_input.encode(), private)  # type: ignore[arg-type]  # an EC key here
    return f"{signing_input}.{encode(signature)}"


def header(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in ({"alg": "ES256", "kid": ACCESS.id, "typ": "JWT"} | changes).items() if value is not None}


async def test_the_forging_tools_of_this_file_make_good_tokens_when_told_to(scene: TokenScene) -> None:
    await scene.verifier.verify_access(signed(await scene.private(KeyPurpose.ACCESS), header()))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", ""])
@pytest.mark.parametrize("signature", [b"", b"x" * 64])
async def test_an_unsigned_token_is_refused(scene: TokenScene, algorithm: str, signature: bytes) -> None:
    await scene.refuses(forge(header(alg=algorithm), access_claims(), signature))
    await scene.refuses(forge(header(alg=algorithm, kid=None), access_claims(), signature))


async def test_a_token_without_its_signature_is_refused(scene: TokenScene) -> None:
    token = await scene.signer.sign_access(access_claims())
    await scene.refuses(token.rpartition(".")[0] + ".")
    await scene.refuses(token.rpartition(".")[0])


@pytest.mark.parametrize(("algorithm", "digest"), [("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")])
async def test_a_public_key_is_no_shared_secret(scene: TokenScene, algorithm: str, digest: str) -> None:
    for key in (ACCESS, IDENTITY):
        public = jwt.PyJWK(dict(key.public_jwk)).key.public_bytes
        materials = [
            public(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            public(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip(),
            public(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            json.dumps(key.public_jwk).encode(),
            b"",
        ]
        for material in materials:
            signing_input = f"{encode(header(alg=algorithm, kid=key.id))}.{encode(access_claims())}"
            signature = hmac.new(material, signing_input.encode(), getattr(hashlib, digest)).digest()
            await scene.refuses(f"{signing_input}.{encode(signature)}")


@pytest.mark.parametrize(
    "algorithm",
    [
        "ES256K",
        "ES384",
        "ES512",
        "ES521",
        "RS256",
        "RS384",
        "RS512",
        "PS256",
        "PS384",
        "PS512",
        "EdDSA",
        "HS256",
        "es256",
        "ES256 ",
        "dir",
        "A128KW",
    ],
)
async def test_every_algorithm_but_the_keys_own_is_refused(scene: TokenScene, algorithm: str) -> None:
    """The signature is made with the true key."""
    await scene.refuses(signed(await scene.private(KeyPurpose.ACCESS), header(alg=algorithm)))


async def test_an_id_token_is_no_access_token(scene: TokenScene) -> None:
    token = await scene.signer.sign_id(access_claims())
    await scene.refuses(token)
    # Nor under the access key's identifier.
    pair = await scene.private(KeyPurpose.ID)
    await scene.refuses(jwt.encode(access_claims(), pair, algorithm="RS256", headers={"kid": ACCESS.id}))


async def test_a_key_of_the_callers_own_is_never_read(scene: TokenScene) -> None:
    """Neither a key in the header nor a key at an address in the header is read. The signature is valid under the offered key."""
    pair = generate_private_key(SECP256R1())
    jwk = json.loads(ECAlgorithm.to_jwk(pair.public_key()))
    offers: list[dict[str, Any]] = [
        {"jwk": jwk},
        {"jwk": {**jwk, "kid": ACCESS.id}},
        {"jku": "https://attacker.example/jwks.json"},
        {"jku": f"{ISSUER}/.well-known/jwks.json"},
        {"x5u": "https://attacker.example/chain.pem"},
        {"x5c": [base64.b64encode(pair.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()]},
        {"x5t": "x", "x5t#S256": "x"},
        {},
    ]
    for offer in offers:
        for name in (ACCESS.id, "mine", None):
            await scene.refuses(signed(pair, header(kid=name, **offer)))


@pytest.mark.parametrize(
    "extra",
    [
        {"jwk": dict(ACCESS.public_jwk)},
        {"jku": "https://id.example.org/jwks.json"},
        {"x5u": "https://id.example.org/"},
        {"x5c": []},
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": True},
        {"b64": False},
        {"zip": "DEF"},
        {"enc": "A128GCM"},
        {"cty": "JWT"},
    ],
)
async def test_a_header_that_says_more_than_ours_is_refused_even_when_well_signed(scene: TokenScene, extra: dict[str, Any]) -> None:
    await scene.refuses(signed(await scene.private(KeyPurpose.ACCESS), header(**extra)))


@pytest.mark.parametrize(
    "kid",
    [
        None,
        "",
        "unknown",
        7,
        True,
        ["x"],
        {"x": 1},
        "../../dev/null",
        "/dev/null",
        "' or 1=1 --",
        "key\x00",
        # Each process of a run makes its own key, but the test must have the same name in all processes.
        pytest.param(ACCESS.id + " ", id="with a space"),
        pytest.param(ACCESS.id.swapcase(), id="in other case"),
        pytest.param(ACCESS.id[:-1], id="cut short"),
        "x" * 5000,
        "http://attacker.example/key",
    ],
)
async def test_an_odd_key_id_is_refused(scene: TokenScene, kid: Any) -> None:
    await scene.refuses(signed(await scene.private(KeyPurpose.ACCESS), header(kid=kid)))
    assert scene.stored.reads <= 2


@pytest.mark.parametrize("kind", ["secevent+jwt", "AT+JWT", "application/at+jwt", "logout+jwt", "JOSE", "jwt", "", 7, None])
async def test_a_token_of_another_type_is_refused(scene: TokenScene, kind: Any) -> None:
    await scene.refuses(signed(await scene.private(KeyPurpose.ACCESS), header(typ=kind)))


async def test_a_token_under_somebody_elses_key_is_refused(scene: TokenScene) -> None:
    await scene.refuses(signed(generate_private_key(SECP256R1()), header()))
    await scene.refuses(jwt.encode(access_claims(), generate_rsa_private_key(65537, 2048), algorithm="RS256", headers={"kid": ACCESS.id}))
    # Another key of ours than the key that the token names.
    await scene.refuses(signed(await scene.private(KeyPurpose.ACCESS), header(kid=next_key(KeyPurpose.ACCESS, 1).id)))


async def test_no_part_of_a_token_can_be_exchanged(scene: TokenScene) -> None:
    mine = await scene.signer.sign_access(access_claims())
    other = await scene.signer.sign_access(access_claims(sub="somebody else", is_platform_owner=True))
    (head, body, signature), (_, other_body, other_signature) = mine.split("."), other.split(".")
    await scene.refuses(f"{head}.{other_body}.{signature}")
    await scene.refuses(f"{head}.{body}.{other_signature}")
    await scene.refuses(f"{head}.{body}.{encode(bytes(64))}")
    altered = bytearray(base64.urlsafe_b64decode(signature + "=="))
    altered[10] ^= 1
    await scene.refuses(f"{head}.{body}.{encode(bytes(altered))}")


@pytest.mark.parametrize(
    "issuer",
    [
        None,
        "",
        "https://other.example.org",
        ISSUER + "/",
        ISSUER.upper(),
        f" {ISSUER}",
        [ISSUER],
        {"iss": ISSUER},
        ISSUER[:-1],
        7,
    ],
)
async def test_a_token_of_another_issuer_is_refused(scene: TokenScene, issuer: Any) -> None:
    await scene.refuses(await scene.sign(access_claims(iss=issuer)))


@pytest.mark.parametrize("name", ["exp", "iat", "sid", "sub", "iss"])
async def test_a_token_that_lacks_a_claim_is_refused(scene: TokenScene, name: str) -> None:
    await scene.refuses(await scene.sign(access_claims(**{name: None})))


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", ["soon", str(SECONDS + 60), SECONDS + 60.5, True, [], {}, 10**30, -(10**30), 1e308])
async def test_a_time_that_is_no_whole_number_of_seconds_is_refused(scene: TokenScene, name: str, value: Any) -> None:
    await scene.refuses(await scene.sign(access_claims(**{name: value})))


@pytest.mark.parametrize("exp", [SECONDS, SECONDS - 1, SECONDS - 86_400, 0, 1])
async def test_an_expired_token_says_that_it_has_expired(scene: TokenScene, exp: int) -> None:
    token = await scene.signer.sign_access(access_claims(exp=exp))
    for _ in range(2):
        with pytest.raises(TokenExpired):
            await scene.verifier.verify_access(token)


async def test_an_expired_token_with_a_bad_signature_is_only_invalid(scene: TokenScene) -> None:
    await scene.refuses(signed(generate_private_key(SECP256R1()), header(), access_claims(exp=SECONDS - 60)))


@pytest.mark.parametrize("name", ["iat", "nbf"])
async def test_a_token_from_the_future_is_refused_beyond_a_small_leeway(scene: TokenScene, name: str) -> None:
    await scene.verifier.verify_access(await scene.signer.sign_access(access_claims(**{name: SECONDS + 30})))
    await scene.refuses(await scene.signer.sign_access(access_claims(**{name: SECONDS + 31})))


async def test_a_token_has_one_text(scene: TokenScene) -> None:
    """With padding, with a space, or with another last letter that stands for the same bytes, a signature is no less good; the text of ours
    has none of them. Whoever counts or ends tokens by their text must not meet a second one.
    """
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    access, identity = await scene.signer.sign_access(access_claims()), await scene.signer.sign_id(access_claims())
    for good, verify in ((access, scene.verifier.verify_access), (identity, scene.verifier.verify_id)):
        await verify(good)
        twin = good[:-1] + letters[letters.index(good[-1]) ^ 1]
        for text in (f"{good}=", f"{good}==", f"{good}===", f"{good[:-5]}={good[-5:]}", f"{good[:-5]} {good[-5:]}", twin, f"{good}\n"):
            with pytest.raises(TokenInvalid):
                await verify(text)


async def test_an_oversized_token_is_refused_before_it_is_read(scene: TokenScene) -> None:
    token = await scene.signer.sign_access(access_claims(pad="x" * LARGEST_TOKEN))
    await scene.refuses(token)
    assert scene.stored.reads == 1, "the reading was the signer's"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "....",
        "a.b.c",
        "Bearer x.y.z",
        "null",
        "\x00",
        "ключ.ключ.ключ",
        "\ud800.x.y",
        "e30.e30.",
        "e30.e30.e30",
        "W10.e30.x",
        "IiI.e30.x",
        "eyJhbGciOiJFUzI1NiJ9",
        "[" * 8000,
        encode(b"[" * 6000) + ".e30.",
        encode(b'{"alg":' * 800) + ".e30.",
        encode(b"\xff\xfe") + ".e30.",
    ],
)
async def test_what_is_no_token_is_refused(scene: TokenScene, token: str) -> None:
    await scene.refuses(token)


async def test_foreign_characters_and_spaces_in_a_token_are_refused(scene: TokenScene) -> None:
    token = await scene.signer.sign_access(access_claims())
    head, body, signature = token.split(".")
    for altered in (
        f" {token}",
        f"{token} ",
        f"{token}\n",
        f"{head[:4]}!{head[4:]}.{body}.{signature}",
        f"{head}.{body[:4]}\n{body[4:]}.{signature}",
    ):
        await scene.refuses(altered)


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"7", b"null", b"{", b"", b"\xff"])
async def test_claims_that_are_no_object_are_refused_although_signed(scene: TokenScene, body: bytes) -> None:
    signing_input = f"{encode(header())}.{encode(body)}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signing_input.encode(), await scene.private(KeyPurpose.ACCESS))  # type: ignore[arg-type]  # an EC key
    await scene.refuses(f"{signing_input}.{encode(signature)}")


IDENTITY_ES256 = current_key(KeyPurpose.ID_ES256)
ACCESS_RS256 = current_key(KeyPurpose.ACCESS_RS256)


@pytest.mark.parametrize("algorithm", TokenAlgorithm)
async def test_an_id_token_is_no_access_token_and_an_access_token_no_id_token(scene: TokenScene, algorithm: TokenAlgorithm) -> None:
    scene.stored.keys += [IDENTITY_ES256, ACCESS_RS256]
    # Even a token that claims to be an access token.
    token = await scene.signer.sign_id(access_claims(), algorithm)
    await scene.refuses(token)
    assert (await scene.verifier.verify_id(token))["sub"] == access_claims()["sub"]
    # The ID token names its person also after it has expired.
    expired = await scene.signer.sign_id(access_claims(exp=SECONDS - 1), algorithm)
    assert (await scene.verifier.verify_id(expired))["exp"] == SECONDS - 1
    head, payload, _ = token.split(".")
    for wrong in (
        await scene.signer.sign_access(access_claims()),
        await scene.signer.sign_for_application(access_claims(), algorithm),
        f"{head}.{payload}.{encode(b'x' * 64)}",
        f"{head}.{payload}.",
        await scene.signer.sign_id(access_claims(iss="https://other.example"), algorithm),
        "nothing",
        "é",
        "x" * (LARGEST_TOKEN + 1),
    ):
        with pytest.raises(TokenInvalid):
            await scene.verifier.verify_id(wrong)


@pytest.mark.parametrize("algorithm", TokenAlgorithm)
async def test_a_token_for_an_application_is_one_of_ours_by_its_session_alone(scene: TokenScene, algorithm: TokenAlgorithm) -> None:
    scene.stored.keys.append(ACCESS_RS256)
    token = await scene.signer.sign_for_application(access_claims(), algorithm)
    header = jwt.get_unverified_header(token)
    assert (header["typ"], header["alg"]) == ("at+jwt", algorithm)
    await scene.verifier.verify_access(token)
    without_session = await scene.signer.sign_for_application(access_claims(sid=None), algorithm)
    await scene.refuses(without_session)
    assert (await scene.verifier.verify_issued(without_session))["sub"] == access_claims()["sub"]
