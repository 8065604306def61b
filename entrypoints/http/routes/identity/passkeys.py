"""The caller's passkeys, and sign-in with a passkey."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, SecondFactorRequired, TermsRequired, Unauthorized
from core.domain.identifiers import PasskeyId
from core.domain.identity.passkeys import NOBODY, Ceremony, Passkey
from core.domain.identity.proofs import StepUp
from core.domain.identity.sign_in import service_named
from core.domain.identity.sign_in_domains import ProviderRequired
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import COOKIES, DEVICE_TOKEN, NEW_DEVICE_TOKEN, NO_BODY, Answer, NoBody
from entrypoints.http.machinery.browser_cookies import device_headers
from entrypoints.http.machinery.callers import ANYONE, OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, CreatedAt, ExpiresIn, Id, Name, RefreshTokenText, Slug, Total, example
from entrypoints.http.machinery.limits import AUTH, CREDENTIALS, LOGIN
from entrypoints.http.passkeys import (
    AssertionCredential,
    PasskeyCreationOptions,
    PasskeyRequestOptions,
    RegistrationCredential,
    creation_options,
    maker_named,
    request_options,
)
from entrypoints.http.routes.identity.own_terms import PendingTermsRecord
from entrypoints.http.routes.identity.sign_in import pending_of

_TAGS = ("passkeys",)


class PasskeyPath(msgspec.Struct, frozen=True):
    passkey_id: UUID
    """The passkey's ID."""


class PasskeyDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey of the account."""

    id: Id
    name: Annotated[str, example("Firefox on Linux")]
    """Your name for the passkey. The default is the browser that created it."""
    aaguid: UUID | None
    """The model of the authenticator (AAGUID); null if unknown."""
    maker: Annotated[str, example("Google Password Manager")] | None
    """The manufacturer of the model, from a short list in Postern; null for others. Authenticators can state any model, so do not base
    decisions on it.
    """
    made_on: Annotated[str, example("Firefox on Linux")] | None
    """The browser and operating system that created the passkey; null if it was created elsewhere, or before this field existed."""
    backup_eligible: bool
    """Whether your passkey provider can sync the passkey to your other devices."""
    backed_up: bool
    """Whether the passkey was synced when it was last used."""
    second_factor: bool
    """Whether sign-in requires this passkey after your password. Even if false, you can use the passkey in place of a code."""
    created_at: CreatedAt
    last_used_at: datetime | None
    """When you last used the passkey; null if never."""


class PasskeyList(msgspec.Struct, frozen=True):
    """All passkeys of the account."""

    passkeys: Sequence[PasskeyDetail]
    """The passkeys, oldest first."""
    total: Total


class NewPasskey(msgspec.Struct, frozen=True):
    """The passkey to add."""

    credential: RegistrationCredential
    """The result of `navigator.credentials.create()` in the browser."""
    name: Annotated[Name, example("Work laptop")] | None = None
    """The name, 1 to 100 characters. The default is the name of the browser."""


class PasskeyName(msgspec.Struct, frozen=True):
    """The new name of a passkey."""

    name: Annotated[Name, example("Work laptop")]
    """The name, 1 to 100 characters. Leading and trailing spaces are removed."""


class PasskeySignIn(msgspec.Struct, frozen=True):
    """A sign-in with a passkey."""

    credential: AssertionCredential
    """The result of `navigator.credentials.get()` in the browser."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The slug of the service's organization. Without `service_slug`, this field has no effect."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The slug of the service to sign in to. The tokens are for this service, and the account becomes a user of it."""


class PasskeyTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""
    terms_pending: Sequence[PendingTermsRecord] | msgspec.UnsetType = msgspec.UNSET
    """Terms that the person has not accepted: of the installation, of the service's organization, and of organizations that the person
    belongs to. Accept them with `POST /api/user/terms`. Absent if there are none.
    """


@endpoint.get("/api/user/passkeys", caller=OWN_USER, tags=_TAGS)
async def list_passkeys(call: Call, postern: Postern) -> PasskeyList:
    """List your passkeys

    Returns names and times, oldest first. The keys themselves are never returned.
    """
    passkeys = await postern.identity.passkeys.list(call.caller.user)
    return PasskeyList([_detail(one) for one in passkeys], len(passkeys))


@endpoint.post("/api/user/passkeys/options", caller=OWN_USER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def begin_passkey(call: Call, postern: Postern) -> PasskeyCreationOptions:
    """Create the options for a new passkey

    Returns the options for `navigator.credentials.create()`. Only a page on this installation's own host can use them: browsers bind
    passkeys to the host. Requires a recent sign-in or reauthentication. If the base URL of the installation is an IP address, passkeys are
    not available, and the response is 400.
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

    With a passkey, you sign in without a password and without a code: the passkey counts as both. Postern notifies you by email. If your
    MFA already consists of passkeys, the new passkey is part of it. Otherwise, `POST /api/user/mfa/passkeys` turns on MFA with your
    passkeys.
    """
    body = call.body
    added = await postern.identity.passkeys.add(call.caller, body.credential.registration(), body.name or "", call.actor)
    return _detail(added)


@endpoint.patch("/api/user/passkeys/{passkey_id}", caller=OWN_USER, refuses=(BadRequest, NotFound), tags=_TAGS)
async def rename_passkey(call: Call[PasskeyName, None, PasskeyPath], postern: Postern) -> PasskeyDetail:
    """Rename a passkey

    Only you see the name. The passkey stays valid.
    """
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

    The passkey no longer works, your other sessions are revoked, and Postern notifies you by email. You cannot remove your last sign-in
    method. Without a password, you must keep another passkey, or a connected account that you can sign in with. If MFA consists of passkeys
    only, removing the last passkey turns off MFA and deletes the backup codes. Requires a recent sign-in or reauthentication.
    """
    await postern.identity.passkeys.remove(call.caller, PasskeyId(call.path.passkey_id), call.actor)
    return NO_BODY


@endpoint.post("/api/auth/passkeys/options", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def begin_passkey_sign_in(_call: Call, postern: Postern) -> PasskeyRequestOptions:
    """Create the options for a passkey sign-in

    Returns the options for `navigator.credentials.get()`. The person does not enter a name, but selects one of the passkeys for this
    installation. Only a page on this installation's own host can use the options. If the base URL is an IP address, passkeys are not
    available, and the response is 400.
    """
    return request_options(await postern.identity.passkey_proofs.options(Ceremony.SIGN_IN, NOBODY))


@endpoint.post(
    "/api/auth/passkeys",
    caller=ANYONE,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, Unauthorized, OrganizationNotActive, SecondFactorRequired, TermsRequired, ProviderRequired, NotFound),
    reads=(DEVICE_TOKEN,),
    sends={200: (NEW_DEVICE_TOKEN, COOKIES)},
    tags=("sign-in",),
)
async def sign_in_with_passkey(call: Call[PasskeySignIn], postern: Postern) -> Answer[PasskeyTokens]:
    """Sign in with a passkey

    A passkey counts as two factors, since the authenticator has verified the person: no code is required. The response header
    `X-Device-Token` identifies this device; browsers also get it as a cookie. If the people of the email domain sign in with a provider,
    the response is 403. `POST /api/auth/lookup-email` returns the provider.
    """
    body = call.body
    service = service_named(body.org_slug or "", body.service_slug or "")
    signed_in = await postern.identity.sign_in.with_passkey(body.credential.assertion(), call.device, service)
    pair = signed_in.tokens
    tokens = PasskeyTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer", pending_of(signed_in))
    return Answer(tokens, 200, device_headers(signed_in.remembered, postern.foundation.public_url))


def _detail(passkey: Passkey) -> PasskeyDetail:
    return PasskeyDetail(
        id=passkey.id,
        name=passkey.name,
        aaguid=passkey.aaguid if passkey.aaguid.int else None,
        maker=maker_named(passkey.aaguid) or None,
        made_on=passkey.made_on,
        backup_eligible=passkey.backup_eligible,
        backed_up=passkey.backed_up,
        second_factor=passkey.second_factor_since is not None,
        created_at=passkey.created_at,
        last_used_at=passkey.last_used_at,
    )
