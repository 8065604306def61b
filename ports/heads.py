"""Signatures of the heads of exported audit chains, under a key of the installation that signs nothing else."""

from collections.abc import Mapping
from typing import Protocol

from core.domain.json import Json


class HeadSigner(Protocol):
    """A hardware security module could implement it as well as our own key does."""

    async def sign(self, claims: Mapping[str, Json]) -> str:
        """A compact JWS (RFC 7515), ES256, of the type `postern-head+jwt`."""

    async def public_key(self) -> Mapping[str, Json]:
        """The key as a JSON Web Key. It never changes, so that people can verify heads for as long as they keep them."""
