"""The accounts at providers by which people sign in, and a provider's access tokens, by which services act there for a person."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound, ReauthenticationRequired
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.federation.oauth.resources import PROVIDER_TOKEN
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.identities import ConnectedIdentity, may_leave_at_once
from core.domain.identity.upstream.sign_in import OAuthError
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, AnswerHeader, NoBody
from entrypoints.http.machinery.browser_cookies import flow_secret, is_of_another_origin, keep_flow_secret
from entrypoints.http.machinery.callers import USER, USER_IN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Word, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.machinery.step_up import require_fresh_proof
from entrypoints.http.page_addresses import LINK_REQUEST

_TAGS: Final = ("account",)
_COOKIE: Final = AnswerHeader(
    "Set-Cookie",
    "This cookie binds the connection to the browser that started it. The response has no cookie if the request already had one, or if"
    " the URL is a page of Postern.",
    "postern_flow=8fKq2ZrWm1LcVb6NsXe0HjUo5TgPaYd3QiRl7wBzMx4; Path=/; HttpOnly; SameSite=Lax",
    always=False,
)
_IDENTITIES: Final = "/api/user/identities"
_ProviderName = Annotated[Word, example("codehost")]


class IdentityPath(msgspec.Struct, frozen=True):
    provider: _ProviderName
    """The provider: `codehost`, `websuite`, `officesuite`, or the ID of an organization's own provider."""


class IdentityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A connected account at a provider."""

    provider: _ProviderName
    """The provider: `codehost`, `websuite`, `officesuite`, or the ID of an organization's own provider."""
    provider_user_id: Annotated[str, example("5831042")]
    """Your ID at the provider."""
    email: Annotated[str, example("ada@example.org")] | None
    """The last email address that the provider sent; null if it sent none."""
    linked_at: datetime
    """When you connected the account."""


class AuthorizationUrl(msgspec.Struct, frozen=True):
    """The URL to send the person to."""

    authorization_url: Annotated[str, example("https://github.com/login/oauth/authorize?client_id=Iv1.4f2d9a1b&state=uW0…")]
    """The URL to open in the person's browser."""


@endpoint.get(_IDENTITIES, caller=USER, tags=_TAGS)
async def list_identities(call: Call, postern: Postern) -> Sequence[IdentityRecord]:
    """List your connected accounts

    Returns your accounts at providers, oldest first. With a token for a service, only the accounts that you use in this service.
    """
    return [_record(one) for one in await postern.identity.identities.list(call.caller)]


@endpoint.post(
    f"{_IDENTITIES}/{{provider}}/link",
    caller=USER_IN_PERSON,
    limit=CREDENTIALS,
    refuses=(BadRequest, NotFound, OAuthError, ReauthenticationRequired),
    sends={200: (_COOKIE,)},
    tags=_TAGS,
)
async def link_identity(call: Call[None, None, IdentityPath], postern: Postern) -> AuthorizationUrl:
    """Connect an account at a provider

    Open `authorization_url` in the browser that has the cookie of this response. No other browser can finish the connection. The URL opens
    the provider.

    With a token for a service, or from a page of another origin, the URL opens a page of Postern instead. On that page, you sign in, see
    the account and the application, reauthenticate and confirm. For this reason, a token for a service needs no recent sign-in or
    reauthentication here. Any other token does.

    Afterwards, the browser goes to the first redirect URI of the token's service. With a token for no service, it goes to
    `/settings/connections` of the frontend. The query has `status=success` or `status=error`, `provider`, `action=link`, and `error` for an
    error. Postern notifies you by email.
    """
    provider = call.path.provider
    by_person = may_leave_at_once(call.caller)
    if by_person:
        # An application's request goes nowhere by itself. Its page opens for the session's person alone, and asks them for the proof.
        await require_fresh_proof(call.request, postern, StepUp.ACCOUNT)
    if not by_person or is_of_another_origin(call.request, postern.foundation.public_url):
        request = await postern.identity.link_requests.make(call.caller, provider)
        return AuthorizationUrl(postern.foundation.public_url + LINK_REQUEST.format(provider=provider, request=request))
    browser, headers = _browser(call, postern)
    url = await postern.identity.journeys.leave_to_connect(provider, browser, call.caller)
    return Answer(AuthorizationUrl(url), 200, headers)  # type: ignore[return-value]  # the declaration's type, with headers


@endpoint.delete(
    f"{_IDENTITIES}/{{provider}}",
    caller=USER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    status=204,
    refuses=(BadRequest, NotFound),
    tags=_TAGS,
)
async def unlink_identity(call: Call[None, None, IdentityPath], postern: Postern) -> NoBody:
    """Disconnect an account at a provider

    Your other sessions are revoked. You cannot disconnect your only sign-in method. With a token for a service, no session is revoked. If
    you also use the account elsewhere, it is disconnected from this service only.

    Requires a recent sign-in or reauthentication (`REAUTHENTICATION_REQUIRED`). Some providers, such as the code host, do not report when
    the person signed in. If such a provider is the person's only sign-in method, the person cannot reauthenticate through the API. Send the
    person to `/ui/settings/connections` of this installation, which emails a code.
    """
    await postern.identity.identities.disconnect(call.caller, call.path.provider, call.actor)
    return NO_BODY


def _browser(call: Call[Any, Any, Any], postern: Postern) -> tuple[Any, Any]:
    base_url = postern.foundation.public_url
    browser = flow_secret(call.request, base_url)
    if browser is not None:
        return browser, ()
    made = postern.foundation.secrets.token()
    return made, keep_flow_secret(made, base_url)


def _record(identity: ConnectedIdentity) -> IdentityRecord:
    return IdentityRecord(
        provider=identity.provider,
        provider_user_id=identity.subject,
        email=identity.email or None,
        linked_at=identity.linked_at,
    )


class ProviderTokenPath(msgspec.Struct, frozen=True):
    provider: _ProviderName
    """The provider: `codehost`, `websuite` or `officesuite`."""


class ProviderTokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An access token of the provider."""

    access_token: Annotated[str, example("gho_16C7e42F292c6912E7710c838347Ae178B4a")]
    """The provider's access token."""
    refresh_token: Annotated[str | None, example(None)] = None
    """Always null. Postern refreshes the access token."""
    expires_at: datetime | None
    """When the access token expires; null if it never does."""
    scopes: Annotated[Sequence[str], example(["repo"])]
    """The scopes that the provider granted."""
    provider: _ProviderName
    """The provider."""


@endpoint.get(
    "/api/provider-token/{provider}",
    caller=USER_IN_PERSON,
    cache="no-store",
    refuses=(BadRequest, InsufficientScope, NotFound, OAuthError),
    tags=("account",),
)
async def get_provider_token(call: Call[None, None, ProviderTokenPath], postern: Postern) -> ProviderTokenRecord:
    """Get an access token of a provider

    The token must be for a service that requests scopes of the provider. The person must have signed in to the service through the
    provider. If your token was issued through `/oauth/authorize`, it needs the scope `provider_token`, which the person allows. Tokens that
    were issued through `/auth/{provider}` have this scope. If the provider's token has expired, Postern refreshes it first. If the refresh
    fails, the response is `OAUTH_ERROR`. Its message says whether to try again later, or to ask the person to sign in through the provider
    again.
    """
    scopes = call.caller.scopes

    def require_scope() -> None:
        if scopes is not None and PROVIDER_TOKEN not in scopes:
            raise InsufficientScope(PROVIDER_TOKEN)

    found = await postern.identity.provider_tokens.get(call.caller, call.path.provider, require_scope, call.request.finish)
    return ProviderTokenRecord(
        access_token=found.access_token.reveal(), expires_at=found.expires_at, scopes=found.scopes, provider=found.provider
    )
