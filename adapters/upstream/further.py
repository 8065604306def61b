"""Custom providers of the installation: OpenID Connect by the issuer, and OAuth 2.0 by endpoints with a profile."""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from adapters.upstream.keys import PublishedAnswers
from adapters.upstream.oauth import Calls, authorization_url, redeemed, tokens_of
from adapters.upstream.oidc import OpenId
from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identity.upstream.claims import Asserted, NotVouched, OddProfile, of_further_openid, of_further_profile
from core.domain.identity.upstream.further_sign_ins import answer_context, with_stated
from core.domain.identity.upstream.providers import ClientAtProvider, ClientSecretKind, FurtherSettings, ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import OAuthError, ProviderRequest, ReceivedTokens, UnreadableAnswer
from core.domain.secrets import Secret, Token
from core.frozen import replace
from ports.crypto import KeyRing
from ports.identity.upstream import PostedAnswerStore
from ports.system import Clock

# A clock there that is behind ours must not find the secret made in its future, nor one that is ahead find it ended.
_BEFORE: Final = timedelta(minutes=1)
_LASTS: Final = timedelta(minutes=5)


def made_secret(settings: FurtherSettings, client: ClientAtProvider, now: datetime) -> ClientAtProvider:
    """Returns the client with the secret that goes to the provider: the stored one, or a JWT signed for a few minutes with a private key,
    as Apple requires. Raises `BadRequest` for an invalid key.
    """
    if settings.secret_kind is ClientSecretKind.TEXT:
        return client
    claims = {
        "iss": settings.team_id,
        "sub": client.client_id,
        "aud": settings.issuer or settings.token_url,
        "iat": int((now - _BEFORE).timestamp()),
        "exp": int((now + _LASTS).timestamp()),
    }
    signed = jwt.encode(claims, _key(client.secret), algorithm="ES256", headers={"kid": settings.key_id})
    return replace(client, secret=Secret(signed))


def _key(pem: Secret) -> EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise BadRequest("client_secret: no private key of P-256 in PEM, as the file that ends in .p8 has it", words="provider_key")
    return key


class WaitingAnswers:
    """Answers that came by a form, and wait for their browser."""

    def __init__(self, store: PostedAnswerStore, keyring: KeyRing) -> None:
        self._store = store
        self._keyring = keyring

    async def fetch(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Token, Json]:
        """The provider's code, and what it has stated beside the code. Raises `NotVouched`."""
        waiting = await self._store.redeem(upstream.key, code.digest(), asked.state.digest())
        if waiting is None:
            raise NotVouched("no answer waits for this code")
        answer, sealed = waiting
        kept = json.loads(self._keyring.open(sealed, answer_context(answer)))
        return Token(kept["code"]), kept["stated"]


class FurtherOpenId(OpenId):
    scopes = ()

    def __init__(self, calls: Calls, clock: Clock, answers: WaitingAnswers) -> None:
        super().__init__(calls, clock)
        self._answers = answers

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        url = await super().authorization_url(upstream, asked)
        return f"{url}&{urlencode({'response_mode': 'form_post'})}" if _settings(upstream).posts_answer else url

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        form: Json = None
        if _settings(upstream).posts_answer:
            code, form = await self._answers.fetch(upstream, code, asked)
        asserted, tokens = await super().redeem(self._with_secret(upstream), code, asked)
        return with_stated(asserted, form), tokens

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        return await super().refresh(self._with_secret(upstream), refresh_token)

    def wanted(self, upstream: Upstream) -> Collection[str]:
        del upstream
        return ("name",)

    def asserted(self, claims: Mapping[str, Any]) -> Asserted:
        return of_further_openid(claims)

    def _with_secret(self, upstream: Upstream) -> Upstream:
        return replace(upstream, client=made_secret(_settings(upstream), upstream.client, self._clock.now()))


class FurtherOAuth:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._reached = PublishedAnswers(self._reach)

    async def authorization_url(self, upstream: Upstream, asked: ProviderRequest) -> str:
        return authorization_url(upstream.endpoints.authorization_url, upstream.client.client_id, asked, upstream.scopes, {})

    async def look(self, site: ProviderSite, *, at_attempt: bool, is_away: bool) -> None:
        """Call for the profile without a token. A refusal is answer enough."""
        await self._reached.look(site.endpoints.userinfo_url, at_attempt=at_attempt, is_away=is_away)

    async def redeem(self, upstream: Upstream, code: Token, asked: ProviderRequest) -> tuple[Asserted, ReceivedTokens]:
        tokens, _ = await redeemed(self._calls, upstream.endpoints.token_url, upstream.client, code, asked)
        bearer = {"authorization": f"Bearer {tokens.access_token.reveal()}"}
        try:
            profile = await self._calls.get(upstream.endpoints.userinfo_url, bearer)
        except UnreadableAnswer as refusal:
            raise OddProfile(f"the profile cannot be read: {refusal.detail}") from None
        if not isinstance(profile, dict):
            raise OddProfile("the profile is no object")
        return of_further_profile(_settings(upstream), profile), tokens

    async def refresh(self, upstream: Upstream, refresh_token: Secret) -> ReceivedTokens:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        return (await tokens_of(self._calls, upstream.endpoints.token_url, upstream.client, form))[0]

    async def _reach(self, url: str) -> bool:
        await self._calls.reach(url)
        return True


def _settings(upstream: Upstream) -> FurtherSettings:
    if upstream.further is None:
        raise OAuthError(detail="no further provider of the installation")
    return upstream.further
