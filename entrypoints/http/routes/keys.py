"""The public halves of the signing keys, for whoever verifies our tokens."""

from collections.abc import Sequence
from typing import Any

import msgspec

from entrypoints.bootstrap import Services
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint


class KeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Sequence[dict[str, Any]]


# A rotation publishes the next key long before it signs: verifiers that look every few minutes never meet an unknown one.
@endpoint.get("/.well-known/jwks.json", caller=ANYONE, tags=("keys",), cache="public, max-age=300")
async def published(_call: Call, services: Services) -> KeySet:
    """The keys that verify our tokens

    The outgoing and the next key are among them. `kid` in a token's header says which one signed it.
    """
    return msgspec.convert(await services.signing_keys.published(), KeySet)
