"""Refreshing a session, and ending it."""

from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Forbidden, OrganizationNotActive, SecondFactorRequired, TermsRequired, Unauthorized
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import ANYONE, LEAVING, Leaving
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, ExpiresIn, RefreshTokenText, example
from entrypoints.http.machinery.headers import DEVICE_TOKEN
from entrypoints.http.machinery.limits import AUTH


class RefreshRequest(msgspec.Struct, frozen=True):
    """The refresh token to exchange."""

    refresh_token: Annotated[Token, example("5vXkS0mJtq1WcR8nZbYd2LhE7aPoGuKfZ3iN4wTqB9s")]
    """The latest refresh token of the session."""


class RefreshedTokens(msgspec.Struct, frozen=True):
    """New tokens for the same session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""


@endpoint.post(
    "/api/auth/refresh",
    caller=ANYONE,
    limit=AUTH,
    refuses=(BadRequest, Unauthorized, Forbidden, OrganizationNotActive, SecondFactorRequired, TermsRequired),
    reads=(DEVICE_TOKEN,),
    tags=("sign-in",),
)
async def refresh_session(call: Call[RefreshRequest], postern: Postern) -> RefreshedTokens:
    """Exchange a refresh token for new tokens

    Each refresh token works once. If you lost the answer, ask again within ten seconds from the same device: you get the same new refresh
    token. If somebody sends an old refresh token later, or from elsewhere, the session ends. An application with a client secret or keys
    refreshes at the token endpoint instead, because it must authenticate.
    """
    pair = await postern.identity.sessions.refresh(call.body.refresh_token, call.device)
    return RefreshedTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer")


@endpoint.post("/api/auth/logout", caller=LEAVING, limit=AUTH, tags=("sign-in",))
async def sign_out(call: Call[None, None, None, Leaving], postern: Postern) -> Message:
    """Sign out

    The session's access and refresh tokens stop working with the next request. So do the tokens of every session that was opened from this
    session, in an organization or in another user's name. You may repeat this.
    """
    leaving = call.caller
    await postern.identity.sessions.sign_out(leaving.session, leaving.actor)
    return Message("You are signed out.")
