"""A fresh proof, within a session, that its person is using it."""

from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Overloaded, RateLimited
from core.domain.identity.passkeys import Ceremony, bound_to_session
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import OWN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.headers import DEVICE_TOKEN, DEVICE_TRUST_TOKEN
from entrypoints.http.machinery.limits import AUTH, LOGIN
from entrypoints.http.passkeys import AssertionCredential, PasskeyRequestOptions, request_options


class ReauthenticationProof(msgspec.Struct, frozen=True):
    """One of a password, a code and a passkey."""

    password: Password | None = None
    """Your password, if you have no second factor."""
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])] | None = None
    """The six digits of an authenticator, or a backup code."""
    passkey: AssertionCredential | None = None
    """A passkey, used with the options of `POST /api/auth/reauthenticate/options`. The passkey proves both factors."""


@endpoint.post(
    "/api/auth/reauthenticate",
    caller=OWN_PERSON,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, ProviderRequired, RateLimited, Overloaded),
    reads=(DEVICE_TOKEN, DEVICE_TRUST_TOKEN),
    tags=("sign-in",),
)
async def reauthenticate(call: Call[ReauthenticationProof], postern: Postern) -> Message:
    """Prove again who you are

    Some changes need a recent proof of who you are. Without one the answer is `REAUTHENTICATION_REQUIRED`. This endpoint renews the proof
    of your token's session; then repeat the change. If you have a second factor, send a `code`, otherwise your `password`. A `passkey`
    stands for both. If you have none of them, sign in again. The limits of sign-in apply, and failures are logged.
    """
    body = call.body
    if sum(given is not None for given in (body.password, body.code, body.passkey)) != 1:
        raise BadRequest("Send one of password, code and passkey")
    if body.password is not None:
        await postern.identity.reauthentication.with_password(call.caller, body.password, call.client, call.actor)
    elif body.code is not None:
        await postern.identity.reauthentication.with_code(call.caller, body.code, call.client, call.actor)
    elif body.passkey is not None:
        await postern.identity.reauthentication.with_passkey(call.caller, body.passkey.assertion(), call.client, call.actor)
    return Message("Your proof is renewed.")


@endpoint.post("/api/auth/reauthenticate/options", caller=OWN_PERSON, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def begin_passkey_proof(call: Call, postern: Postern) -> PasskeyRequestOptions:
    """Get what a browser needs to prove again who you are with a passkey

    Send the browser's answer as `passkey` to `POST /api/auth/reauthenticate`, in the same session. If the base URL of the installation is
    an IP address, passkeys are impossible, and the answer is 400.
    """
    caller = call.caller
    options = await postern.identity.passkey_proofs.options(Ceremony.PROVE, bound_to_session(caller.session), caller.user)
    return request_options(options)
