"""The signatures of assertions."""

from typing import Protocol

from core.domain.identity.upstream.jwt_assertions import SignedToken, TrustedKeys


class AssertionSignatures(Protocol):
    """Checks signatures in threads of its own. No unit of work may be open meanwhile, since keys may have to be fetched."""

    async def signed(self, assertion: str, keys: TrustedKeys) -> SignedToken:
        """The assertion, if one of these keys has signed it. Raises `AssertionRefused`: `MALFORMED`, `KEY`, `SIGNATURE`, `KEYS_AWAY`."""

    async def look(self, address: str) -> None:
        """Fetch the keys at the address. Raises `AssertionRefused`: `KEYS_AWAY`."""
