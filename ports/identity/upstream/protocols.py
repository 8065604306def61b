"""Upstream providers, each spoken to in its own protocol."""

from typing import Protocol

from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.providers import Upstream
from core.domain.identity.upstream.sign_in import ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token


class GrantEnded(Exception):
    """The provider does not renew this any more: the person has to sign in there again."""


class UpstreamProtocols(Protocol):
    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        """Where the person goes. Raises `OAuthError`."""

    async def look(self, upstream: Upstream) -> None:
        """Whether the provider answers, as it was seen a minute ago at most. Raises `ProviderAway`."""

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        """Whom the provider vouches for. Raises `OAuthError`, and `NotVouched` for what shows nobody's identity."""

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        """Raises `OAuthError`, `GrantEnded`, and `NotVouched` for what is no answer."""

    async def check(self, issuer: str) -> None:
        """Looks an organization's own provider up. Raises `BadRequest` when nobody can sign in through it."""
