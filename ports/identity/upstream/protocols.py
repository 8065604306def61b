"""Upstream providers, and the protocol of each."""

from typing import Protocol

from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.further_settings import FurtherSettings
from core.domain.identity.upstream.providers import ClientAtProvider, ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token


class GrantEnded(Exception):
    """The provider no longer renews the tokens: the person has to sign in there again."""


class UpstreamProtocols(Protocol):
    """OpenID Connect and the protocols of single providers implement it. A new provider is one more implementation."""

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        """The provider's page that the person goes to. Raises `OAuthError`."""

    async def look(self, site: ProviderSite, *, at_attempt: bool = False, is_away: bool = False) -> None:
        """Looks whether the provider answers; an answer counts for a minute, and for a second where somebody attempts to come in otherwise.
        Raises `ProviderAway`, also when nothing comes within a few seconds. A failure of the last seconds counts, too, but only if the
        provider `is_away` by what is noted: otherwise somebody has got through since.
        """

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        """The person whom the provider vouches for, and the tokens. Raises `OAuthError`; raises `NotVouched` for an answer that shows
        nobody's identity.
        """

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        """Raises `OAuthError`, `GrantEnded`, and `NotVouched` for a malformed answer."""

    async def keys_address(self, issuer: str) -> str:
        """Where an organization's own provider publishes its keys. Raises `OAuthError`."""

    async def check_further(self, settings: FurtherSettings, client: ClientAtProvider) -> None:
        """Looks up a further provider of the installation, and makes a secret of our key there, if it is one. Raises `BadRequest` when
        nobody can sign in through it.
        """

    async def check(self, issuer: str) -> None:
        """Looks up an organization's own provider. Raises `BadRequest` when nobody can sign in through it."""
