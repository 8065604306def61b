"""The 3 social providers of the installation, and the one entry to all identity providers."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import trio

from adapters.upstream.directories import LdapPasswordPages, SamlDirectories
from adapters.upstream.further import FurtherOAuth, FurtherOpenId, WaitingAnswers, made_secret
from adapters.upstream.keys import PublishedAnswers
from adapters.upstream.oauth import Calls, authorization_url, redeemed, tokens_of
from adapters.upstream.oidc import OpenId
from core.domain.errors import BadRequest
from core.domain.identity.upstream.claims import Asserted, NotVouched, of_codehost, of_officesuite, of_websuite
from core.domain.identity.upstream.providers import ClientAtProvider, FurtherKind, FurtherSettings, Provider, ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway, ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token
from ports.system import Clock

CODEHOST_SCOPES: Final = ("read:user", "user:email")


class CodeHost:
    """GitHub: OAuth 2.0, and two calls to its API. It issues no ID tokens."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._reached = PublishedAnswers(self._reach)

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        more = {"prompt": "select_account"} if asked.fresh or asked.choose else {}
        scopes = (*CODEHOST_SCOPES, *asked.scopes)
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


class OfficeSuite(OpenId):
    """Microsoft: OpenID Connect, for users of many tenants and of none."""

    def wishes(self, asked: ProviderRequest) -> Mapping[str, str]:
        return super().wishes(asked) or ({"prompt": "select_account"} if asked.choose else {})

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_officesuite(claims)


class WebSuite(OpenId):
    """Google: OpenID Connect, with a parameter of its own for refresh tokens (`access_type`)."""

    def wishes(self, asked: ProviderRequest) -> Mapping[str, str]:
        """The web suite does not know `prompt=login`, so it gets `select_account`. A person who chooses an account there may have to sign
        in.
        """
        words = (*(("select_account",) if asked.fresh or asked.choose else ()), *(("consent",) if asked.consent else ()))
        prompt = {"prompt": " ".join(words)} if words else {}
        return {**prompt, "access_type": "offline"} if asked.offline else prompt

    def scopes_offline(self, asked: ProviderRequest) -> tuple[str, ...]:  # noqa: ARG002 - it has none
        return ()

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_websuite(claims)


# In seconds. Whoever waits for a look wants to sign in, and many clients give up after five seconds.
LOOK_PATIENCE: Final = 4.0


class _Protocol(Protocol):
    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str: ...
    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None: ...
    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]: ...
    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens: ...


class Upstreams:
    """Selects the protocol of an identity provider: the social providers, custom providers that platform owners add, and organizations'
    enterprise connections by OpenID Connect, SAML or LDAP.

    Implements `ports.identity.upstream.UpstreamProtocols`. `named` makes calls to providers that the operator has named, and `guarded`
    makes calls to providers that tenants, or platform owners on a page, have named.
    """

    def __init__(
        self,
        named: Calls,
        guarded: Calls,
        directories: SamlDirectories,
        passwords: LdapPasswordPages,
        *,
        answers: WaitingAnswers,
        clock: Clock,
    ) -> None:
        self._directories = directories
        self._passwords = passwords
        self._clock = clock
        self._guarded = guarded
        self._own = OpenId(guarded, clock)
        self._further: dict[FurtherKind, _Protocol] = {
            FurtherKind.OPENID: FurtherOpenId(guarded, clock, answers),
            FurtherKind.OAUTH: FurtherOAuth(guarded),
        }
        self._three: dict[Provider, _Protocol] = {
            Provider.CODEHOST: CodeHost(named),
            Provider.WEBSUITE: WebSuite(named, clock),
            Provider.OFFICESUITE: OfficeSuite(named, clock),
        }

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        return await self._of(upstream).authorization_url(upstream, asked)

    async def look(self, site: ProviderSite, *, at_attempt: bool = False, is_away: bool = False) -> None:
        try:
            with trio.fail_after(LOOK_PATIENCE):
                await self._of(site).look(site, at_attempt=at_attempt, is_away=is_away)
        except trio.TooSlowError:
            raise ProviderAway(detail=f"{site.label} did not answer a look in time") from None
        except ProviderAway:
            raise
        except (OAuthError, NotVouched):
            # The provider answers, although not as it should. The sign-in itself will report the fault.
            return

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        return await self._of(upstream).redeem(upstream, code, asked)

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        return await self._of(upstream).refresh(upstream, refresh_token)

    async def keys_address(self, issuer: str) -> str:
        return await self._own.keys_address(issuer)

    async def check(self, issuer: str) -> None:
        await self._own.check(issuer)

    async def check_further(self, settings: FurtherSettings, client: ClientAtProvider) -> None:
        # Raises for a key that is none.
        made_secret(settings, client, self._clock.now())
        if settings.kind is FurtherKind.OPENID:
            await self._own.check(settings.issuer)
            return
        for field in ("authorization_url", "token_url", "profile_url"):
            if not self._guarded.may_call(getattr(settings, field)):
                raise BadRequest(f"{field}: must be an address that may be called", words="fetch_address_not_allowed")

    def _of(self, site: ProviderSite) -> _Protocol:
        if isinstance(site, Upstream) and site.further is not None:
            return self._further[site.further.kind]
        kind = site.kind
        if site.speaks_saml:
            return self._directories
        if site.speaks_ldap:
            return self._passwords
        return self._own if kind is None else self._three[kind]
