"""What all OAuth providers share: the authorization request, the token endpoint (RFC 6749, RFC 7636) and API calls."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, TypeGuard
from urllib.parse import quote_plus, urlencode

import msgspec
import structlog

from core.domain.far_numbers import has_too_many_values
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.providers import ClientAtProvider
from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway, ProviderRequest, ReceivedTokens, UnreadableAnswer
from core.domain.outbound import NotADestination, OutboundDestination, destination
from core.domain.secrets import Secret, Token
from ports.identity.upstream import GrantEnded
from ports.outbound import NO_HEADERS, Outbound, OutboundAnswer, OutboundFailed, OutboundRequest

log = structlog.get_logger()


CALL_TIMEOUT: Final = timedelta(seconds=8)
LARGEST_ANSWER: Final = 64 << 10
# The most values in an answer. Tenants choose providers, their answers are decoded on the event loop, and each value costs time and memory.
# A real answer has only a fraction of this number.
MOST_VALUES: Final = 3000
# How many URLs of endpoints are kept parsed. The same few endpoints are called again and again.
MOST_READ: Final = 200
_DOWN: Final = 500
_JSON: Final = {"accept": "application/json", "user-agent": "Postern"}
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


class Calls:
    """Calls providers. A request has a form or no body, and its response is JSON. Every other response is refused, and its text is neither
    logged nor passed on.

    `plain` makes calls over http, and `secure` calls over https. They differ, because not every provider may be called without encryption.
    """

    def __init__(self, secure: Outbound, plain: Outbound) -> None:
        self._secure = secure
        self._plain = plain

    def may_call(self, url: str) -> bool:
        """False when `url` is no URL, or leads to an address that is never called."""
        try:
            to = destination(url)
        except NotADestination:
            return False
        return self._by(to).may_call(to)

    async def reach(self, url: str) -> None:
        """Check that the provider answers at `url`, with any answer. Raises `ProviderAway`, an `OAuthError`, when it does not."""
        await self._got(_destination(url), NO_HEADERS)

    async def get(self, url: str, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        """Raises `OAuthError`."""
        to = _destination(url)
        answer = await self._got(to, headers)
        if answer.status != 200:
            raise _failed(to, f"status {answer.status}")
        if len(answer.body) > LARGEST_ANSWER:
            raise _unreadable(to, "too long")
        return _decoded(to, answer)

    async def _got(self, to: OutboundDestination, headers: Mapping[str, str]) -> OutboundAnswer:
        try:
            answer = await self._by(to).get(to, CALL_TIMEOUT, most=LARGEST_ANSWER, headers={**_JSON, **headers})
        except OutboundFailed as failed:
            raise _away(to, failed.failure.value) from None
        _require_up(to, answer)
        return answer

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, Mapping[str, Any]]:
        """An OAuth endpoint answers with an object, also when it refuses. Raises `OAuthError`."""
        to = _destination(url)
        request = OutboundRequest(to, urlencode(form).encode(), {**_JSON, **_FORM, **headers})
        try:
            answer = await self._by(to).post(request, CALL_TIMEOUT)
        except OutboundFailed as failed:
            raise _away(to, failed.failure.value) from None
        _require_up(to, answer)
        body = _decoded(to, answer)
        if not isinstance(body, dict):
            raise _failed(to, "no object")
        return answer.status, body

    def _by(self, to: OutboundDestination) -> Outbound:
        return self._secure if to.scheme == "https" else self._plain


def _destination(url: str) -> OutboundDestination:
    try:
        return _read_destination(url)
    except NotADestination as refusal:
        raise OAuthError(detail=f"the URL {refusal}") from None


@lru_cache(maxsize=MOST_READ)
def _read_destination(url: str) -> OutboundDestination:
    return destination(url)


def _decoded(to: OutboundDestination, answer: OutboundAnswer) -> Any:
    if has_too_many_values(answer.body, MOST_VALUES):
        raise _unreadable(to, f"status {answer.status}, too many values")
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _unreadable(to, f"status {answer.status}, no JSON") from None


def _require_up(to: OutboundDestination, answer: OutboundAnswer) -> None:
    if answer.status >= _DOWN:
        raise _away(to, f"status {answer.status}")


def _away(to: OutboundDestination, why: str) -> ProviderAway:
    log.warning("upstream_failed", host=to.host, why=why)
    return ProviderAway(detail=f"{to.host}: {why}")


def _failed(to: OutboundDestination, why: str) -> OAuthError:
    log.warning("upstream_failed", host=to.host, why=why)
    return OAuthError(detail=f"{to.host}: {why}")


def _unreadable(to: OutboundDestination, why: str) -> UnreadableAnswer:
    log.warning("upstream_failed", host=to.host, why=why)
    return UnreadableAnswer(detail=f"{to.host}: {why}")


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
    return _read_tokens(answer), answer


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


def _read_tokens(answer: Mapping[str, Any]) -> ReceivedTokens:
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
