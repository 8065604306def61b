"""The public halves of the signing keys. Applications verify our tokens with them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.cors import Origins
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED

_KEY: Final = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "9f2c1a7e",
    "use": "sig",
    "alg": "ES256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}


class KeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Annotated[Sequence[dict[str, Any]], example([_KEY])]
    """The public keys: the one that signs now, the next one, and outgoing ones whose tokens are still valid."""


# A rotation publishes the next key long before it signs: verifiers that look every few minutes never meet an unknown one.
@endpoint.get("/.well-known/jwks.json", caller=ANYONE, limit=UNLIMITED, tags=("keys",), cache="public, max-age=300", origins=Origins.ALL)
async def get_jwks(_call: Call, postern: Postern) -> KeySet:
    """Get the keys that verify access tokens and ID tokens

    The set includes the next key and outgoing ones. `kid` in a token's header names the key that signed it.
    """
    return msgspec.convert(await postern.foundation.signing_keys.published(), KeySet)
