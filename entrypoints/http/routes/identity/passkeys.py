"""The caller's passkeys, and signing in with one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, SecondFactorRequired, Unauthorized
from core.domain.identifiers import PasskeyId
from core.domain.identity.passkeys import NOBODY, Ceremony, Passkey
from core.domain.identity.proofs import StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.sign_in import service_named
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody
from entrypoints.http.machinery.callers import ANYONE, OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.device_cookies import device_headers
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, CreatedAt, ExpiresIn, Id, Name, RefreshTokenText, Slug, Total, example
from entrypoints.http.machinery.headers import COOKIES, DEVICE_TOKEN, NEW_DEVICE_TOKEN
from entrypoints.http.machinery.limits import AUTH, CREDENTIALS, LOGIN
from entrypoints.http.passkeys import (
    AssertionCredential,
    PasskeyCreationOptions,
    PasskeyRequestOptions,
    RegistrationCredential,
    creation_options,
    request_options,
)

_TAGS = ("passkeys",)


class PasskeyPath(msgspec.Struct, frozen=True):
    passkey_id: UUID
    """The passkey's id."""


class PasskeyDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey of the account."""

    id: Id
    name: Annotated[str, example("Firefox on Linux")]
    """What you call it; at first, the browser that it was made in."""
    aaguid: UUID | None
    """The authenticator's model; null if it does not say."""
    backup_eligible: bool
    """Whether the service that keeps your passkeys may copy it to your other devices."""
    backed_up: bool
    """Whether that has happened, as of its last use."""
    second_factor: bool
    """Whether it is asked for after your password. It may be used in place of a code in any case."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When you last used it; null: never."""


class PasskeyList(msgspec.Struct, frozen=True):
    """All passkeys of the account."""

    passkeys: Sequence[PasskeyDetail]
    """The passkeys, the oldest first."""
    total: Total


class NewPasskey(msgspec.Struct, frozen=True):
    """A passkey that the browser has just made."""

    credential: RegistrationCredential
    """What the browser made."""
    name: Annotated[Name, example("Work laptop")] | None = None
    """1 to 100 characters; left out, it is the name of the browser."""


class PasskeyName(msgspec.Struct, frozen=True):
    """The new name of a passkey."""

    name: Annotated[Name, example("Work laptop")]
    """1 to 100 characters; spaces around it are removed."""


class PasskeySignIn(msgspec.Struct, frozen=True):
    """A passkey that the browser has just used."""

    credential: AssertionCredential
    """What the browser found."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization of the service to sign in to. It has no effect without `service_slug`."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The service to sign in to. The tokens are for it, and the account becomes a user of it."""


class PasskeyTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""


@endpoint.get("/api/user/passkeys", caller=OWN_USER, tags=_TAGS)
async def list_passkeys(call: Call, postern: Postern) -> PasskeyList:
    """List your passkeys, the oldest first"""
    passkeys = await postern.identity.passkeys.list(call.caller.user)
    return PasskeyList([_detail(one) for one in passkeys], len(passkeys))


@endpoint.post("/api/user/passkeys/options", caller=OWN_USER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def begin_passkey(call: Call, postern: Postern) -> PasskeyCreationOptions:
    """Get what a browser needs to make a passkey

    The page that calls this must be one of this installation's own host: browsers bind passkeys to it. You need a recent proof of who you
    are. Where the base URL of the installation is an IP address, there are no passkeys, and this answers 400.
    """
    return creation_options(await postern.identity.passkeys.begin(call.caller), POSTERN.name)


@endpoint.post(
    "/api/user/passkeys",
    caller=OWN_USER,
    step_up=StepUp.ACCOUNT,
    limit=CREDENTIALS,
    refuses=(BadRequest, Conflict),
    status=201,
    tags=_TAGS,
)
async def add_passkey(call: Call[NewPasskey], postern: Postern) -> PasskeyDetail:
    """Add a passkey

    With it you sign in without a password and without a code: it counts as both. You are told by mail. If passkeys are your second factor
    already, this one is, too; otherwise `POST /api/user/mfa/passkeys` makes them one.
    """
    body = call.body
    added = await postern.identity.passkeys.add(call.caller, body.credential.registration(), body.name or "", call.actor)
    return _detail(added)


@endpoint.patch("/api/user/passkeys/{passkey_id}", caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def rename_passkey(call: Call[PasskeyName, None, PasskeyPath], postern: Postern) -> PasskeyDetail:
    """Rename a passkey"""
    passkey = PasskeyId(call.path.passkey_id)
    return _detail(await postern.identity.passkeys.rename(call.caller.user, passkey, call.body.name, call.actor))


@endpoint.delete(
    "/api/user/passkeys/{passkey_id}",
    caller=OWN_USER,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, NotFound),
    status=204,
    tags=_TAGS,
)
async def remove_passkey(call: Call[None, None, PasskeyPath], postern: Postern) -> NoBody:
    """Remove a passkey

    It signs nobody in any more, your other sessions end, and you are told by mail. The last way into an account stays: without a password,
    keep another passkey, or an account at a provider that lets you in. If your second factor is passkeys alone, it is off when the last one
    goes, and the backup codes with it. You need a recent proof of who you are.
    """
    await postern.identity.passkeys.remove(call.caller, PasskeyId(call.path.passkey_id), call.actor)
    return NO_BODY


@endpoint.post("/api/auth/passkeys/options", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def begin_passkey_sign_in(_call: Call, postern: Postern) -> PasskeyRequestOptions:
    """Get what a browser needs to sign in with a passkey

    Nobody types a name: the person chooses among the passkeys that their authenticators have for this installation. The page that calls
    this must be one of its own host. Where the base URL is an IP address, there are no passkeys, and this answers 400.
    """
    return request_options(await postern.identity.passkey_proofs.options(Ceremony.SIGN_IN, NOBODY))


@endpoint.post(
    "/api/auth/passkeys",
    caller=ANYONE,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, Unauthorized, OrganizationNotActive, SecondFactorRequired, ProviderRequired, NotFound),
    reads=(DEVICE_TOKEN,),
    sends={200: (NEW_DEVICE_TOKEN, COOKIES)},
    tags=("sign-in",),
)
async def sign_in_with_passkey(call: Call[PasskeySignIn], postern: Postern) -> Answer[PasskeyTokens]:
    """Sign in with a passkey

    A passkey counts as two factors, since its authenticator has verified its owner: nobody is asked for a code. The answer's
    `X-Device-Token` header identifies this device; browsers also get it as a cookie. If the people of the account's domain sign in at a
    provider, the answer is 403: `POST /api/auth/lookup-email` names the provider.
    """
    body = call.body
    service = service_named(body.org_slug or "", body.service_slug or "")
    signed_in = await postern.identity.sign_in.with_passkey(body.credential.assertion(), call.device, service)
    pair = signed_in.tokens
    tokens = PasskeyTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer")
    return Answer(tokens, 200, device_headers(signed_in.remembered, postern.foundation.public_url))


def _detail(passkey: Passkey) -> PasskeyDetail:
    return PasskeyDetail(
        id=passkey.id,
        name=passkey.name,
        aaguid=passkey.aaguid if passkey.aaguid.int else None,
        backup_eligible=passkey.backup_eligible,
        backed_up=passkey.backed_up,
        second_factor=passkey.second_factor_since is not None,
        created_at=passkey.created_at,
        last_used_at=passkey.last_used_at,
    )
