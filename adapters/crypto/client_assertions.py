"""Client assertions: JSON Web Tokens that clients sign with their own keys (RFC 7523)."""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from adapters.crypto.jwk_signatures import NotSigned, chosen_key, signed_claims
from core.domain.federation.oauth.clients import LONGEST_ASSERTION
from core.domain.federation.oauth.refusals import client_refused
from core.domain.formats import Json


class JwtClientAssertions:
    """Implements `ports.federation.oauth.ClientAssertions`. Keys inside the assertion are never used. The assertion's `kid` picks a
    stored key, and the stored key decides which algorithms are accepted.
    """

    def claimed_client(self, assertion: str) -> str:
        if len(assertion) > LONGEST_ASSERTION:
            raise client_refused("the assertion is too long")
        try:
            claims = jwt.decode(assertion, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError, UnicodeError) as error:
            raise client_refused(f"the assertion cannot be read: {error}") from None
        return str(claims.get("sub"))

    def verify(self, assertion: str, keys: Mapping[str, Json], algorithms: Mapping[str, Sequence[str]]) -> Mapping[str, Json]:
        stored: Any = keys["keys"]
        try:
            # A client with one key may leave out `kid`. A client with several keys has a name for each, and must send the name.
            key = chosen_key(stored, jwt.get_unverified_header(assertion).get("kid"))
            if key is None:
                raise client_refused("the client has no such key")
            return signed_claims(assertion, key, algorithms)
        except (jwt.PyJWTError, NotSigned, ValueError, RecursionError) as error:
            raise client_refused(f"the assertion does not verify: {error}") from None
