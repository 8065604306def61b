"""The authorization code flow of OpenID Connect, for any identity provider."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from adapters.upstream.keys import FAILURE_COUNTS_FOR, ProviderKeys, PublishedAnswers
from adapters.upstream.oauth import Calls, authorization_url, redeemed, tokens_of
from core.domain.errors import BadRequest
from core.domain.identity.upstream.claims import Asserted, NotVouched, mapped, of_own_openid, require_claims, with_userinfo
from core.domain.identity.upstream.directory_visits import methods_of_token
from core.domain.identity.upstream.providers import ProviderEndpoints, ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import OAuthError, ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from ports.system import Clock

SCOPES: Final = ("openid", "email", "profile")
_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class _Found(Frozen):
    endpoints: ProviderEndpoints
    basic: bool
    names_issuer: bool = False
    """The provider's answers contain its issuer (RFC 9207)."""


class OpenId:
    """`calls` decides which addresses may be called.

    Its metadata are found by its issuer. Two of the installation's social providers are subclasses with small differences.
    """

    scopes: ClassVar[tuple[str, ...]] = SCOPES

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._keys = ProviderKeys(calls)
        self._discovered = PublishedAnswers(self._discover)

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        found = await self._found(upstream)
        hint = {"login_hint": asked.login_hint} if asked.login_hint else {}
        more = {"nonce": asked.nonce, **hint, **self.wishes(asked)}
        scopes = (*self.scopes, *upstream.scopes, *asked.scopes, *self.scopes_offline(asked))
        return authorization_url(found.endpoints.authorization_url, upstream.client.client_id, asked, scopes, more)

    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None:
        """Fetch the provider's metadata. If the settings name its endpoints, fetch its keys instead."""
        endpoints = site.endpoints
        if endpoints.token_url:
            await self._keys.look(endpoints.jwks_url, at_attempt=at_attempt, is_away=is_away)
        else:
            await self._discovered.look(endpoints.issuer, at_attempt=at_attempt, is_away=is_away)

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        found = await self._found(upstream)
        if found.names_issuer and not asked.answer_names_issuer:
            raise NotVouched("the answer does not say whose it is")
        endpoint = found.endpoints.token_url
        tokens, answer = await redeemed(self._calls, endpoint, upstream.client, code, asked, basic=found.basic)
        claims = await self._verified(answer, upstream, found.endpoints, asked)
        methods = methods_of_token(claims)
        wanted = self.wanted(upstream)
        if ("email" not in claims or not claims.keys() >= set(wanted)) and found.endpoints.userinfo_url:
            bearer = {"authorization": f"Bearer {tokens.access_token.reveal()}"}
            userinfo = await self._calls.get(found.endpoints.userinfo_url, bearer)
            claims = with_userinfo(claims, userinfo if isinstance(userinfo, dict) else {}, wanted)
        asserted = replace(self.asserted(claims), methods=methods) if methods else self.asserted(claims)
        return (replace(asserted, fields=mapped(claims, upstream.profile_mapping)) if upstream.profile_mapping else asserted), tokens

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        found = await self._found(upstream)
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        return (await tokens_of(self._calls, found.endpoints.token_url, upstream.client, form, basic=found.basic))[0]

    async def keys_address(self, issuer: str) -> str:
        found = await self._discovered.get(issuer, not_again_within=FAILURE_COUNTS_FOR)
        return found.endpoints.jwks_url

    async def check(self, issuer: str) -> None:
        if not self._calls.may_call(issuer):
            raise BadRequest("issuer: must be an address that may be called")
        try:
            # Metadata that were fetched before may be the mistake that the administrator has just corrected, so they are fetched again.
            await self._discovered.get(issuer, not_older_than=0)
        except OAuthError:
            raise BadRequest(f"issuer: {issuer}{_WELL_KNOWN} must answer as OpenID Connect Discovery has it, over https") from None

    def wishes(self, asked: ProviderRequest) -> Mapping[str, str]:
        """Further parameters of the authorization request. A provider that gets `max_age` must send `auth_time` (OpenID Connect Core,
        section 2). Many servers refuse a `prompt` that they do not support, so all get `login`, which every server supports.
        """
        return {"prompt": "login", "max_age": "0"} if asked.fresh else {}

    def wanted(self, upstream: Upstream) -> Collection[str]:
        """The claims to ask the userinfo endpoint for, besides the address, if the ID token lacks them."""
        return upstream.profile_mapping.keys()

    def scopes_offline(self, asked: ProviderRequest) -> tuple[str, ...]:
        return ("offline_access",) if asked.offline else ()

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        """Raises `NotVouched`."""
        return of_own_openid(claims, self._clock.now())

    async def _verified(
        self, answer: Mapping[str, Any], upstream: Upstream, endpoints: ProviderEndpoints, asked: ProviderRequest
    ) -> Mapping[str, Any]:
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotVouched("no ID token")
        claims = await self._keys.verified(token, endpoints.jwks_url)
        client, now = upstream.client.client_id, self._clock.now()
        repeats = upstream.further is None or upstream.further.repeats_nonce
        require_claims(claims, issuer=endpoints.issuer, client_id=client, nonce=asked.nonce, now=now, since=asked.since, repeats=repeats)
        return claims

    async def _found(self, upstream: Upstream) -> _Found:
        if upstream.endpoints.token_url:
            return _Found(upstream.endpoints, basic=False)
        return await self._discovered.get(upstream.endpoints.issuer)

    async def _discover(self, issuer: str) -> _Found:
        """OpenID Connect Discovery, section 4."""
        said = await self._calls.get(f"{issuer.removesuffix('/')}{_WELL_KNOWN}")
        if not isinstance(said, dict) or said.get("issuer") != issuer:
            raise OAuthError(detail="the metadata is another issuer's")
        named = {name: said.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        userinfo = said.get("userinfo_endpoint", "")
        if not all(isinstance(url, str) and self._calls.may_call(url) for url in named.values()) or not isinstance(userinfo, str):
            raise OAuthError(detail="the metadata lacks an endpoint, or names one that is not called")
        # Metadata without this member mean that only the header is supported (OpenID Connect Discovery, section 3).
        methods = said.get("token_endpoint_auth_methods_supported")
        endpoints = ProviderEndpoints(
            issuer=issuer,
            authorization_url=str(named["authorization_endpoint"]),
            token_url=str(named["token_endpoint"]),
            userinfo_url=userinfo,
            jwks_url=str(named["jwks_uri"]),
        )
        return _Found(
            endpoints,
            basic=not isinstance(methods, list) or "client_secret_post" not in methods,
            names_issuer=said.get("authorization_response_iss_parameter_supported") is True,
        )
