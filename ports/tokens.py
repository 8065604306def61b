"""Signed tokens: JSON Web Tokens under the installation's own keys."""

from collections.abc import Mapping
from typing import Protocol

from core.domain.json import Json
from core.domain.signing_keys import TokenAlgorithm


class TokenSigner(Protocol):
    """A hardware security module could implement it as well as our own keys do."""

    async def sign_access(self, claims: Mapping[str, Json]) -> str:
        """ES256, under the current access key; `kid` is in the header."""

    async def sign_for_application(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm) -> str:
        """For an access token that an application holds, under the current access key of that algorithm: the token's type is `at+jwt`
        (RFC 9068).
        """

    async def sign_logout(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        """Under the same key as ID tokens; its type is `logout+jwt` (OpenID Connect Back-Channel Logout section 2.4)."""

    async def sign_proxy(self, claims: Mapping[str, Json]) -> str:
        """ES256, under the current access key; its type is `proxy+jwt`."""

    async def sign_id(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        """Under the current key for ID tokens of that algorithm."""


class AccessTokenVerifier(Protocol):
    async def verify_access(self, token: str) -> Mapping[str, Json]:
        """The claims of a token that we signed, that has not expired, and that names us as issuer. The caller checks the use (`token_use`)
        and the audience. Keys that the token itself names are never read. Raises `TokenExpired` or `TokenInvalid`.
        """


class TokenVerifier(AccessTokenVerifier, Protocol):
    async def verify_issued(self, token: str) -> Mapping[str, Json]:
        """As `verify_access`, also for a token without a session: one that an application has in its own name."""

    async def verify_id(self, token: str) -> Mapping[str, Json]:
        """The claims of an ID token that we signed, expired or not: the token says who somebody was, and opens nothing. Raises
        `TokenInvalid`.
        """
