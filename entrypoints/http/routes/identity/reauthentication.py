"""Proving once more, within a session, that it is its person who uses it."""

from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Overloaded, RateLimited
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import OWN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import AUTH, LOGIN


class Reauthentication(msgspec.Struct, frozen=True):
    """Send either the password or a code."""

    password: Password | None = None
    """Your password, if you have no second factor."""
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])] | None = None
    """The six digits of an authenticator, or a backup code."""


@endpoint.post(
    "/api/auth/reauthenticate",
    caller=OWN_PERSON,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, RateLimited, Overloaded),
    tags=("sign-in",),
)
async def reauthenticate(call: Call[Reauthentication], postern: Postern) -> Message:
    """Prove again who you are

    Some changes need a recent proof of who you are. Without one they are answered with `REAUTHENTICATION_REQUIRED`. This renews the proof
    of the session that the token belongs to; then repeat the change. If you have a second factor, send a `code`, otherwise your `password`;
    if you have neither, sign in again. The same limits as for sign-in apply, and failures are logged.
    """
    body = call.body
    if (body.password is None) == (body.code is None):
        raise BadRequest("Send either password or code")
    if body.password is not None:
        await postern.identity.reauthentication.with_password(call.caller, body.password, call.client, call.actor)
    elif body.code is not None:
        await postern.identity.reauthentication.with_code(call.caller, body.code, call.client, call.actor)
    return Message("Your proof is renewed.")
