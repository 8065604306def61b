"""Access tokens of a provider, by which a service may act there in a person's name."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.federation.oauth.resources import PROVIDER_TOKEN
from core.domain.identity.upstream.sign_in import OAuthError
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import USER_IN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example

_ProviderName = Annotated[str, example("codehost")]


class ProviderTokenPath(msgspec.Struct, frozen=True):
    provider: _ProviderName
    """The provider: `codehost`, `websuite` or `officesuite`."""


class ProviderTokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An access token of the provider."""

    access_token: Annotated[str, example("gho_16C7e42F292c6912E7710c838347Ae178B4a")]
    """The provider's access token."""
    refresh_token: Annotated[str | None, example(None)] = None
    """Always null: Postern refreshes the access token."""
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

    For the service that your token is for, if this service asks the provider for scopes and the person has signed in through the provider.
    A token that came from `/oauth/authorize` needs the scope `provider_token`, which the person allows; one that came from
    `/auth/{provider}` has it.
    Postern refreshes an expired token first. If that fails, the answer is `OAUTH_ERROR`: its text says whether to try again later, or to
    ask the person to sign in through the provider again.
    """
    scopes = call.caller.scopes

    def require_scope() -> None:
        if scopes is not None and PROVIDER_TOKEN not in scopes:
            raise InsufficientScope(PROVIDER_TOKEN)

    found = await postern.identity.provider_tokens.get(call.caller, call.path.provider, require_scope, call.request.finish)
    return ProviderTokenRecord(
        access_token=found.access_token.reveal(), expires_at=found.expires_at, scopes=found.scopes, provider=found.provider
    )
