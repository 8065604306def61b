"""The common part of all providers: the authorization request, and calls to the token endpoint (RFC 6749, RFC 7636)."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, TypeGuard
from urllib.parse import quote_plus, urlencode

from adapters.upstream.calls import Calls
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.providers import ClientAtProvider
from core.domain.identity.upstream.sign_in import OAuthError, ProviderRequest, ReceivedTokens
from core.domain.secrets import Secret, Token
from ports.identity.upstream import GrantEnded
from ports.outbound import NO_HEADERS

LONGEST_TOKEN: Final = 16 << 10
_LONGEST_SCOPE: Final = 4 << 10
# A tuple and no set, because `error` may be any JSON value, also one that cannot be hashed.
_ENDED: Final = ("invalid_grant", "bad_refresh_token", "bad_verification_code")
# In seconds. A provider that names a longer lifetime means a token that never expires.
_LONGEST_LIFE: Final = 10 * 366 * 24 * 3600


def authorization_url(endpoint: str, client_id: str, asked: ProviderRequest, scopes: tuple[str, ...], more: Mapping[str, str]) -> str:
    fields = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": asked.redirect_uri,
        "scope": " ".join(dict.fromkeys(scopes)),
        "state": asked.state.reveal(),
        "code_challenge": asked.code_challenge,
        "code_challenge_method": "S256",
        **more,
    }
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}"


async def tokens_of(
    calls: Calls, endpoint: str, client: ClientAtProvider, form: Mapping[str, str], *, basic: bool = False
) -> tuple[ReceivedTokens, Mapping[str, Any]]:
    """The tokens, and the whole answer. Raises `OAuthError`, and `GrantEnded` when the provider no longer accepts the code or refresh
    token.
    """
    if basic:
        # RFC 6749 section 2.3.1: client id and secret are each encoded like the field of a form.
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret.reveal())}"
        headers: Mapping[str, str] = {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        fields = form
    else:
        headers, fields = NO_HEADERS, {**form, "client_id": client.client_id, "client_secret": client.secret.reveal()}
    status, answer = await calls.post(endpoint, fields, headers)
    # Some providers refuse with status 200.
    error = answer.get("error")
    if error in _ENDED:
        raise GrantEnded
    if status != 200 or error is not None:
        raise OAuthError(detail=f"the token endpoint answered {status}, {str(error)[:100]!r}")
    return _read(answer), answer


async def redeemed(
    calls: Calls, endpoint: str, client: ClientAtProvider, code: Token, asked: ProviderRequest, *, basic: bool = False
) -> tuple[ReceivedTokens, Mapping[str, Any]]:
    """Exchange a code for tokens. Raises `OAuthError`, and `NotVouched` when the provider does not accept the code."""
    form = {
        "grant_type": "authorization_code",
        "code": code.reveal(),
        "redirect_uri": asked.redirect_uri,
        "code_verifier": asked.verifier.reveal(),
    }
    try:
        return await tokens_of(calls, endpoint, client, form, basic=basic)
    except GrantEnded:
        raise NotVouched("the code is not good") from None


def _read(answer: Mapping[str, Any]) -> ReceivedTokens:
    access, refresh = answer.get("access_token"), answer.get("refresh_token")
    kind, life, scope = answer.get("token_type"), answer.get("expires_in"), answer.get("scope")
    if not _is_token(access) or not isinstance(kind, str) or kind.lower() != "bearer":
        raise NotVouched("no access token")
    return ReceivedTokens(
        access_token=Secret(access),
        refresh_token=Secret(refresh) if _is_token(refresh) else None,
        expires_in=_seconds(life),
        scopes=_scopes(scope),
    )


def _scopes(text: Any) -> tuple[str, ...] | None:
    """The granted scopes. The code host separates scopes by commas. None when the text is missing, too long, or has other characters than
    scopes.
    """
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_SCOPE or not text.isascii() or not text.isprintable():
        return None
    return tuple(text.replace(",", " ").split())


def _is_token(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_TOKEN and value.isascii() and value.isprintable()


def _seconds(value: Any) -> int | None:
    try:
        seconds = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_LIFE) if seconds > 0 else None
