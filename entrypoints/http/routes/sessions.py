"""Carrying a session on, and ending it."""

import msgspec

from core.domain.errors import BadRequest, Forbidden, OrganizationNotActive, Unauthorized
from core.domain.secrets import Token
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Message
from entrypoints.http.callers import ANYONE, LEAVING, Leaving
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.limits import AUTH


class Refresh(msgspec.Struct, frozen=True):
    refresh_token: Token


class RefreshedTokens(msgspec.Struct, frozen=True):
    """`expires_in` is the access token's, in seconds."""

    access_token: str
    refresh_token: str
    expires_in: int
    token_type: str


@endpoint.post(
    "/api/auth/refresh",
    caller=ANYONE,
    limit=AUTH,
    refuses=(BadRequest, Unauthorized, Forbidden, OrganizationNotActive),
    tags=("sign-in",),
)
async def refresh_session(call: Call[Refresh], services: Services) -> RefreshedTokens:
    """Exchange a refresh token for new tokens

    Each refresh token is exchanged once. A client that lost the answer may ask again within ten seconds, from the same device, and gets the
    same refresh token. Later, or from elsewhere, the old token's return ends the session.
    """
    pair = await services.sessions.refresh(call.body.refresh_token, call.client)
    return RefreshedTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer")


@endpoint.post("/api/auth/logout", caller=LEAVING, limit=AUTH, tags=("sign-in",))
async def sign_out(call: Call[None, None, None, Leaving], services: Services) -> Message:
    """End the session

    Its access and refresh tokens are dead from the next request on. May be repeated.
    """
    leaving = call.caller
    await services.sessions.sign_out(leaving.session, leaving.actor)
    return Message("You are signed out.")
