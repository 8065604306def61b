"""The public keys of a service: only the parameters for verification are kept, and never a private key."""

from typing import Any, Final

import pytest

from core.domain.errors import BadRequest
from core.domain.outbound import LONGEST_KEY_ID, MOST_KEYS, client_keys

X: Final = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
Y: Final = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
EC: Final = {"kty": "EC", "crv": "P-256", "x": X, "y": Y}
RSA: Final = {"kty": "RSA", "n": "v" * 342, "e": "AQAB"}


def test_of_each_key_only_what_verifying_needs_is_kept() -> None:
    given = {"keys": [{**EC, "kid": "a", "alg": "ES256", "x5c": ["..."], "key_ops": ["verify"]}, {**RSA, "kid": "b"}], "more": 1}
    assert client_keys(given) == {"keys": [{**EC, "use": "sig", "alg": "ES256", "kid": "a"}, {**RSA, "use": "sig", "kid": "b"}]}
    assert client_keys({"keys": [EC]}) == {"keys": [{**EC, "use": "sig"}]}
    edwards = {"kty": "OKP", "crv": "Ed25519", "x": X}
    assert client_keys({"keys": [{**edwards, "y": X, "alg": "EdDSA"}]}) == {"keys": [{**edwards, "use": "sig", "alg": "EdDSA"}]}


@pytest.mark.parametrize(
    "keys",
    [
        None,
        "keys",
        [],
        [EC] * (MOST_KEYS + 1),
        ["key"],
        [{**EC, "d": "secret"}],
        [{"kty": "oct", "k": "c2VjcmV0"}],
        [{**EC, "use": "enc"}],
        [{**EC, "crv": "P-384"}],
        [{"kty": "OKP", "crv": "X25519", "x": X}],
        [{"kty": "OKP", "crv": "Ed25519", "x": X[:-4]}],
        [{"kty": "OKP", "crv": "Ed25519", "x": X, "alg": "ES256"}],
        [{"kty": "OKP", "crv": "Ed25519", "x": X, "d": X}],
        [{**EC, "x": X[:-1]}],
        [{**EC, "x": f"{X}A"}],
        [{**EC, "x": f"{X[:-1]}="}],
        [{**EC, "y": 5}],
        [{**EC, "y": "A" * 1000}],
        [{**RSA, "n": "v" * 300}],
        [{**RSA, "n": "v" * 700}],
        [{**RSA, "n": "A" * 342}],
        [{**RSA, "e": ""}],
        [{**RSA, "e": "AAAA"}],
        [{**EC, "alg": "RS256"}],
        [{**RSA, "alg": "HS256"}],
        [{**EC, "kid": ""}],
        [{**EC, "kid": 5}],
        [{**EC, "kid": "x" * (LONGEST_KEY_ID + 1)}],
        [{**EC, "kid": "a\nb"}],
        [EC, RSA],
        [{**EC, "kid": "a"}, {**RSA, "kid": "a"}],
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_field(keys: Any) -> None:
    with pytest.raises(BadRequest, match=r"^jwks"):
        client_keys({"keys": keys})
