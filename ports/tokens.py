"""Signed tokens: JSON Web Tokens under the installation's own keys."""

from collections.abc import Mapping
from typing import Protocol

from core.domain.json import Json


class TokenSigner(Protocol):
    async def sign_access(self, claims: Mapping[str, Json]) -> str:
        """ES256, under the current access key; `kid` is in the header."""

    async def sign_id(self, claims: Mapping[str, Json]) -> str:
        """RS256, under the current ID-token key."""


class TokenVerifier(Protocol):
    async def verify_access(self, token: str) -> Mapping[str, Json]:
        """The claims of a token that we signed, that has not expired, and that names us as issuer. The caller checks the use (`token_use`)
        and the audience. Raises `TokenExpired` or `TokenInvalid`. Keys named by the token itself are never read.
        """
