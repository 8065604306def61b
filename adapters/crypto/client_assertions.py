"""Client assertions: JSON Web Tokens that clients sign with their own keys (RFC 7523)."""

import json
from collections.abc import Mapping
from typing import Any

import jwt
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from adapters.crypto.jwt_options import SIGNATURE_ALONE
from core.domain.federation.oauth.clients import LONGEST_ASSERTION
from core.domain.federation.oauth.oauth_errors import client_refused
from core.domain.json import Json
from core.domain.services.client_keys import KEY_ALGORITHMS


class JwtClientAssertions:
    """Implements `ports.federation.clients.ClientAssertions`. Keys inside the assertion are never used. The assertion's `kid` picks a
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

    def verify(self, assertion: str, keys: Mapping[str, Json]) -> Mapping[str, Json]:
        stored: Any = keys["keys"]
        try:
            name = jwt.get_unverified_header(assertion).get("kid")
            # A client with one key may leave out `kid`. A client with several keys has a name for each, and must send the name.
            key = next((one for one in stored if one.get("kid") == name or (name is None and len(stored) == 1)), None)
            if key is None:
                raise client_refused("the client has no such key")
            algorithm = RSAAlgorithm if key["kty"] == "RSA" else ECAlgorithm
            allowed = [key["alg"]] if "alg" in key else list(KEY_ALGORITHMS[key["kty"]])
            public: Any = algorithm.from_jwk(json.dumps(key))
            claims: Mapping[str, Json] = jwt.decode(assertion, public, algorithms=allowed, options=SIGNATURE_ALONE)
        # PyJWT raises ValueError for numbers that make no key.
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise client_refused(f"the assertion does not verify: {error}") from None
        return claims
