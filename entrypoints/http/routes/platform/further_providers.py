"""Custom providers of the installation, besides the 3 social providers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.branding import logo_path
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.profiles import LARGEST_PICTURE, PICTURE_TYPES
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.further import (
    LONGEST_ADDRESS,
    LONGEST_CLIENT,
    LONGEST_NAME,
    LONGEST_PATH,
    LONGEST_SCOPE,
    LONGEST_SECRET,
    LONGEST_SHORT_NAME,
    MOST_OFFERED,
    MOST_SCOPES,
    FurtherChange,
    FurtherProvider,
    FurtherState,
    FurtherTest,
    ProviderPreset,
)
from core.domain.identity.upstream.providers import ClientSecretKind, FurtherKind
from core.domain.requests import UNCHANGED
from core.usecases.platform.further_providers import NewFurther
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawOfTypes
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import media_type_of
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SECRET, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.connections import ConfirmedSettings

_TAGS = ("installation",)
_PROVIDERS = "/api/platform/providers"
_ONE = f"{_PROVIDERS}/{{key}}"
_LOGO = f"{_ONE}/logo"

_Word = bounded({"maxLength": LONGEST_SHORT_NAME})
_Label = bounded({"minLength": 1, "maxLength": LONGEST_NAME})
_Client = bounded({"minLength": 1, "maxLength": LONGEST_CLIENT})
_Secret = bounded({"minLength": 1, "maxLength": LONGEST_SECRET})
_Url = bounded({"maxLength": LONGEST_ADDRESS})
_Path = bounded({"maxLength": LONGEST_PATH})
_Apple = bounded({"maxLength": 10})

_Key = Annotated[str, _Word, example("discord")]
_Preset = Annotated[str, _Word, example("discord")]
_Name = Annotated[str, _Label, example("Discord")]
_ClientId = Annotated[str, _Client, example("1234567890")]
_ClientSecret = Annotated[str, _Secret, SECRET, example("3c6e0b8a9c15224a8228b9a98ca1531d")]
_Issuer = Annotated[str, _Url, example("https://id.example.org")]
_AuthorizationUrl = Annotated[str, _Url, example("https://id.example.org/authorize")]
_TokenUrl = Annotated[str, _Url, example("https://id.example.org/token")]
_ProfileUrl = Annotated[str, _Url, example("https://id.example.org/profile")]
_Scope = Annotated[str, bounded({"maxLength": LONGEST_SCOPE})]
_Scopes = Annotated[Sequence[_Scope], msgspec.Meta(extra_json_schema={"maxItems": MOST_SCOPES}), example(["openid", "email"])]
_Subject = Annotated[str, _Path, example("id")]
_Email = Annotated[str, _Path, example("email")]
_Verified = Annotated[str, _Path, example("verified")]
_FullName = Annotated[str, _Path, example("name")]
_TeamId = Annotated[str, _Apple, example("A1B2C3D4E5")]
_KeyId = Annotated[str, _Apple, example("F6G7H8I9J0")]
_Position = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": MOST_OFFERED}), example(1)]
_Slug = Annotated[str, bounded({"maxLength": 50})]
_Organizations = Annotated[Sequence[_Slug], msgspec.Meta(extra_json_schema={"maxItems": MOST_OFFERED}), example(["acme"])]
_Flag = Annotated[bool, example(True)]
_No = Annotated[bool, example(False)]


class FurtherProviderPath(msgspec.Struct, frozen=True):
    key: _Key
    """The provider's short name."""


class FurtherProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed. Fields that are left out stay as they are, or as the preset has them."""

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    """The display name."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The client ID at the provider."""
    active: _Flag | msgspec.UnsetType = msgspec.UNSET
    """True activates the provider, even without a test; the audit log records this. Otherwise a new provider is a draft, even with
    `enabled`: no one can sign in through it. False makes the provider a draft again.
    """
    enabled: _Flag | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through the provider. A draft is disabled. A provider that becomes active is enabled by default."""
    position: _Position | msgspec.UnsetType = msgspec.UNSET
    """The position of the button."""
    organizations: _Organizations | msgspec.UnsetType | None = msgspec.UNSET
    """The slugs of the organizations on whose pages the provider is offered; null offers it everywhere."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect: the issuer, exactly as in the provider's tokens. For OAuth 2.0: the issuer of people's IDs, and the `iss` of the
    provider's responses, if they have one; empty for the profile URL.
    """
    authorization_url: _AuthorizationUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the authorization endpoint."""
    token_url: _TokenUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the token endpoint."""
    profile_url: _ProfileUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the user info endpoint."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """The scopes to request."""
    subject: _Subject | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the path of the person's ID in the profile, as names with dots between them."""
    email: _Email | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the path of the email address in the profile."""
    verified: _Verified | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the path of the value that states whether the email address is verified."""
    full_name: _FullName | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the path of the person's name in the profile."""
    posts_answer: _No | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect: whether to request the response as a form (`response_mode=form_post`)."""
    repeats_nonce: _Flag | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect: whether ID tokens contain the nonce."""
    team_id: _TeamId | msgspec.UnsetType = msgspec.UNSET
    """For a client secret generated from a signing key: the ID of the team that signs it."""
    key_id: _KeyId | msgspec.UnsetType = msgspec.UNSET
    """For a client secret generated from a signing key: the ID of the key."""

    def change(self, secret: str | None = None) -> FurtherChange:
        said = {name: getattr(self, name) for name in FURTHER_FIELDS if getattr(self, name) is not msgspec.UNSET}
        return FurtherChange(**said, client_secret=UNCHANGED if secret is None else secret)


FURTHER_FIELDS = FurtherProviderSettings.__struct_fields__


class NewFurtherProvider(FurtherProviderSettings, frozen=True, kw_only=True):
    """A custom provider to create: a preset with your client, or all settings that the protocol requires."""

    key: _Key = ""
    """The short name in `/auth/{provider}`, which never changes. Empty for the short name of the preset."""
    preset: _Preset = ""
    """The short name of a preset; empty for none."""
    kind: FurtherKind | None = None
    """The protocol, if no preset sets it."""
    client_secret: _ClientSecret
    """The client secret, or the private key in PEM that generates it. Postern stores it encrypted, and no response contains it."""


class FurtherProviderChange(FurtherProviderSettings, frozen=True, kw_only=True):
    """A change of a custom provider. If you change the issuer or the token endpoint, send the secret again."""

    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The client secret, or the private key in PEM that generates it."""


class FurtherProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A custom provider of the installation, without the client secret."""

    key: _Key
    """The short name in `/auth/{provider}`."""
    preset: _Preset
    """The preset that the provider was created from; empty for none."""
    name: _Name
    """The display name."""
    kind: FurtherKind
    """The protocol."""
    client_id: _ClientId
    """The client ID at the provider."""
    secret_kind: ClientSecretKind
    """The type of the client secret."""
    secret_set_at: datetime
    """When the secret was last set."""
    state: FurtherState
    """`draft`: no one can sign in through the provider, and only platform owners can see it. `active`: people can sign in through the
    provider if it is `enabled`.
    """
    enabled: _Flag
    """Whether people can sign in through the provider. Always false for a draft."""
    test: FurtherTest
    """`passed`: a test of the current settings succeeded. `before_change`: a test succeeded, but tested settings have changed since.
    `untested`: no test succeeded.
    """
    tested_at: datetime | None
    """When a test last succeeded; null if none did."""
    digest: Annotated[str, example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3")]
    """The digest of the tested settings. Send it to activate the provider."""
    people: Annotated[int, example(12)]
    """The number of people who have linked the provider. If the issuer changes, all of them must link it again."""
    position: _Position
    """The position of the button."""
    organizations: _Organizations | None
    """The slugs of the organizations on whose pages the provider is offered; null if it is offered everywhere."""
    issuer: _Issuer
    """The provider's issuer; empty for OAuth 2.0 if none was set."""
    authorization_url: _AuthorizationUrl
    """For OAuth 2.0: the authorization endpoint."""
    token_url: _TokenUrl
    """For OAuth 2.0: the token endpoint."""
    profile_url: _ProfileUrl
    """For OAuth 2.0: the user info endpoint."""
    scopes: _Scopes
    """The scopes that Postern requests."""
    subject: _Subject
    """The path of the person's ID in the profile."""
    email: _Email
    """The path of the email address in the profile."""
    verified: _Verified
    """The path of the value that states whether the email address is verified."""
    full_name: _FullName
    """The path of the person's name in the profile."""
    posts_answer: _No
    """Whether the response is requested as a form."""
    repeats_nonce: _Flag
    """Whether ID tokens contain the nonce."""
    team_id: _TeamId
    """The ID of the team that signs the client secret."""
    key_id: _KeyId
    """The ID of the signing key."""
    callback_url: Annotated[str, example("https://id.example.com/auth/discord/callback")]
    """The redirect URI to register at the provider."""
    logo: Annotated[str, example("https://id.example.org/logos/9f86d081884c7d65")] | None
    """The URL at which Postern serves the uploaded logo; null if there is none. Each new logo has a new URL."""
    created_at: datetime
    """When the provider was created."""
    updated_at: datetime
    """When the provider was last changed."""


class ProviderPresetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The known settings of a common provider."""

    key: _Key
    """The preset's short name."""
    name: _Name
    """The provider's display name."""
    kind: FurtherKind
    """The protocol."""
    secret_kind: ClientSecretKind
    """The type of the client secret."""
    guide: Annotated[str, example("https://discord.com/developers/docs/topics/oauth2")]
    """The URL of the provider's documentation on client registration."""


@endpoint.get(_PROVIDERS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_further_providers(_call: Call, postern: Postern) -> Sequence[FurtherProviderRecord]:
    """List the custom providers of the installation

    Return the providers in the order of their buttons. The 3 providers in the settings are not included.
    """
    found = await postern.platform.further_providers.list()
    people = await postern.platform.further_providers.people(found)
    return [_record(one, people[one.key], postern) for one in found]


@endpoint.get("/api/platform/provider-presets", caller=PLATFORM_OWNER, tags=_TAGS)
async def list_provider_presets(_call: Call, postern: Postern) -> Sequence[ProviderPresetRecord]:
    """List the provider presets

    A provider with a preset needs only a client at the provider.
    """
    return [_preset(one) for one in postern.platform.further_providers.known_presets()]


@endpoint.post(
    _PROVIDERS,
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_further_provider(call: Call[NewFurtherProvider], postern: Postern) -> FurtherProviderRecord:
    """Create a custom provider

    Create an OpenID Connect provider by its issuer, an OAuth 2.0 provider by its URLs, or a provider of a preset. The email addresses of
    such a provider are never treated as verified. A new account requires a code that Postern emails, and only the owner of an existing
    account can link it. Requires a recent sign-in or reauthentication.

    The provider is a draft until someone has tested it in a browser and activated it, unless you send `active: true`.
    """
    body = call.body
    new = NewFurther(key=body.key, preset=body.preset, kind=body.kind, secret=body.client_secret, change=body.change())
    return await _shown(await postern.platform.further_providers.add(new, call.actor), postern)


@endpoint.get(_ONE, caller=PLATFORM_OWNER, refuses=(NotFound,), tags=_TAGS)
async def get_further_provider(call: Call[None, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Get a custom provider

    The response does not contain the secret. Register `callback_url` as the redirect URI at the provider.
    """
    return await _shown(await postern.platform.further_providers.get(call.path.key), postern)


@endpoint.patch(
    _ONE, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict, NotFound), tags=_TAGS
)
async def change_further_provider(call: Call[FurtherProviderChange, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Change a custom provider

    The short name and the protocol cannot change. People are identified by the issuer, or by the profile URL. If you change it, everyone
    must link the provider again. While people have linked the provider, `subject` cannot change, and neither can `profile_url` if there is
    an issuer (409): the IDs would identify other people. An active provider stays active, and `test` shows that tested settings have
    changed. Requires a recent sign-in or reauthentication.
    """
    secret = None if call.body.client_secret is msgspec.UNSET else str(call.body.client_secret)
    after = await postern.platform.further_providers.change(call.path.key, call.body.change(secret), call.actor)
    return await _shown(after, postern)


@endpoint.post(
    f"{_ONE}/activate",
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict, NotFound),
    tags=_TAGS,
)
async def activate_further_provider(call: Call[ConfirmedSettings, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Activate a custom provider

    A draft becomes active and enabled. It must have been tested with its current settings: start the test on the provider's page in the
    console. Send the `digest` that you have seen; if the settings have changed since, the response is 409. Requires a recent sign-in or
    reauthentication.
    """
    return await _shown(await postern.platform.further_providers.activate(call.path.key, call.body.digest, call.actor), postern)


@endpoint.delete(_ONE, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, refuses=(NotFound,), tags=_TAGS)
async def delete_further_provider(call: Call[None, None, FurtherProviderPath], postern: Postern) -> NoBody:
    """Delete a custom provider

    The provider is unlinked from all accounts. The accounts are kept, and people can sign in with a magic link. Requires a recent sign-in
    or reauthentication.
    """
    await postern.platform.further_providers.remove(call.path.key, call.actor)
    return NO_BODY


@endpoint.put(
    _LOGO,
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    accepts=RawOfTypes(PICTURE_TYPES, LARGEST_PICTURE),
    refuses=(BadRequest, NotFound),
    tags=_TAGS,
)
async def upload_further_logo(call: Call[bytes, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Upload the logo of a custom provider

    The body is the image: PNG, JPEG or WebP, at most 256 KiB and 2048 pixels on a side. Postern stores the image without its metadata, and
    shows it on the provider's buttons. Requires a recent sign-in or reauthentication.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    after = await postern.platform.further_providers.put_logo(call.path.key, call.body, call.actor, declared=declared)
    return await _shown(after, postern)


@endpoint.delete(_LOGO, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, refuses=(NotFound,), tags=_TAGS)
async def remove_further_logo(call: Call[None, None, FurtherProviderPath], postern: Postern) -> NoBody:
    """Delete the logo of a custom provider

    The request also succeeds if there is no logo. Browsers can have the deleted logo in their cache. Requires a recent sign-in or
    reauthentication.
    """
    await postern.platform.further_providers.remove_logo(call.path.key, call.actor)
    return NO_BODY


async def _shown(one: FurtherProvider, postern: Postern) -> FurtherProviderRecord:
    people = await postern.platform.further_providers.people([one])
    return _record(one, people[one.key], postern)


def _record(one: FurtherProvider, people: int, postern: Postern) -> FurtherProviderRecord:
    logo = None if one.logo_digest is None else f"{postern.foundation.public_url}{logo_path(one.logo_digest)}"
    return _provider(one, people=people, callback_url=postern.identity.journeys.callback(one.key), logo=logo)


_provider = shown(
    FurtherProvider,
    FurtherProviderRecord,
    within=("settings",),
    given=("people", "callback_url", "logo"),
    digest=lambda one: one.digest.hex(),
)
_preset = shown(ProviderPreset, ProviderPresetRecord, within=("settings",))
