"""The code host: OAuth 2.0, and two calls to its API. The code host issues no ID tokens."""

from typing import Final

from adapters.upstream.calls import Calls
from adapters.upstream.oauth import authorization_url, redeemed, tokens_of
from adapters.upstream.remembered import PublishedAnswers
from core.domain.identity.upstream.claims import Asserted, NotVouched, of_codehost
from core.domain.identity.upstream.providers import ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token

SCOPES: Final = ("read:user", "user:email")


class CodeHost:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._reached = PublishedAnswers(self._reach)

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        more = {"prompt": "select_account"} if asked.fresh or asked.choose else {}
        scopes = (*SCOPES, *asked.scopes)
        return authorization_url(upstream.endpoints.authorization_url, upstream.client.client_id, asked, scopes, more)

    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None:
        """Call the API without a token. A refusal is answer enough. The code host publishes neither metadata nor keys that we could ask
        for.
        """
        await self._reached.look(site.endpoints.userinfo_url, at_attempt=at_attempt, is_away=is_away)

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        tokens, _ = await redeemed(self._calls, upstream.endpoints.token_url, upstream.client, code, asked)
        bearer = {"authorization": f"Bearer {tokens.access_token.reveal()}"}
        person = await self._calls.get(upstream.endpoints.userinfo_url, bearer)
        emails = await self._calls.get(upstream.endpoints.emails_url, bearer)
        if not isinstance(person, dict) or not isinstance(emails, list):
            raise NotVouched("the API answers otherwise than documented")
        return of_codehost(upstream.endpoints.issuer, person, emails), tokens

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        return (await tokens_of(self._calls, upstream.endpoints.token_url, upstream.client, form))[0]

    async def _reach(self, url: str) -> bool:
        await self._calls.reach(url)
        return True
