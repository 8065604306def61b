"""Signatures of the heads of exported chains, under a key of the installation's own that is for nothing else."""

from collections.abc import Mapping
from typing import Protocol

from core.domain.json import Json


class HeadSigner(Protocol):
    async def sign(self, claims: Mapping[str, Json]) -> str:
        """A compact JWS (RFC 7515), ES256, of the type `postern-head+jwt`."""

    async def public_key(self) -> Mapping[str, Json]:
        """As a JSON Web Key. It never changes, so that heads can be verified for as long as somebody keeps them."""
