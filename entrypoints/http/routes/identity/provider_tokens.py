"""What a service may do at a provider in a person's name."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, NotFound
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
    refresh_token: None = None
    """Always null: Postern renews the token."""
    expires_at: datetime | None
    """When it expires; null if it does not."""
    scopes: Annotated[Sequence[str], example(["repo"])]
    """What the provider allows with it."""
    provider: _ProviderName
    """The provider."""


@endpoint.get(
    "/api/provider-token/{provider}",
    caller=USER_IN_PERSON,
    cache="no-store",
    refuses=(BadRequest, NotFound, OAuthError),
    tags=("account",),
)
async def provider_token(call: Call[None, None, ProviderTokenPath], postern: Postern) -> ProviderTokenRecord:
    """Get an access token of a provider

    For the service that the token is for, if it asks that provider for scopes and the person has signed in through it. An expired one is
    renewed first. Where that is impossible, the answer is `OAUTH_ERROR`: its text says whether to try again later, or to have the person
    sign in through the provider again.
    """
    found = await postern.identity.provider_tokens.get(call.caller, call.path.provider, call.request.finish)
    return ProviderTokenRecord(
        access_token=found.access_token.reveal(), expires_at=found.expires_at, scopes=found.scopes, provider=found.provider
    )
