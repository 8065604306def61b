"""Further providers of the installation, besides the three."""

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
    """The name that pages show."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The client ID at the provider."""
    active: _Flag | msgspec.UnsetType = msgspec.UNSET
    """True makes it active, whether or not it was tested, and the log says so. Otherwise a new one is a draft, whatever `enabled` says: no
    one can sign in through it. False makes a draft again.
    """
    enabled: _Flag | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through it. A draft is off; one that becomes active is on, unless you say otherwise."""
    position: _Position | msgspec.UnsetType = msgspec.UNSET
    """The position of the button."""
    organizations: _Organizations | msgspec.UnsetType | None = msgspec.UNSET
    """The slugs of the organizations on whose pages it is offered; null offers it everywhere."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect, byte for byte as its tokens have it. For OAuth 2.0, what people's IDs belong to, and the `iss` of its answers, if
    they have one; empty takes the address of the profile.
    """
    authorization_url: _AuthorizationUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0."""
    token_url: _TokenUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0."""
    profile_url: _ProfileUrl | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: the user info endpoint."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """The scopes to ask for."""
    subject: _Subject | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: where the profile has the person's ID, as names of members with dots between them."""
    email: _Email | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: where the profile has the email address."""
    verified: _Verified | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: where the profile says whether the email address is verified."""
    full_name: _FullName | msgspec.UnsetType = msgspec.UNSET
    """For OAuth 2.0: where the profile has the person's name."""
    posts_answer: _No | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect: ask for the answer by a form (`response_mode=form_post`)."""
    repeats_nonce: _Flag | msgspec.UnsetType = msgspec.UNSET
    """For OpenID Connect: whether ID tokens repeat the nonce."""
    team_id: _TeamId | msgspec.UnsetType = msgspec.UNSET
    """For a secret that is made of a signing key: who signs it."""
    key_id: _KeyId | msgspec.UnsetType = msgspec.UNSET
    """For a secret that is made of a signing key: the key's ID."""

    def change(self, secret: str | None = None) -> FurtherChange:
        said = {name: getattr(self, name) for name in FURTHER_FIELDS if getattr(self, name) is not msgspec.UNSET}
        return FurtherChange(**said, client_secret=UNCHANGED if secret is None else secret)


FURTHER_FIELDS = FurtherProviderSettings.__struct_fields__


class NewFurtherProvider(FurtherProviderSettings, frozen=True, kw_only=True):
    """A provider to add: of a preset with a client there, or with all that its kind needs."""

    key: _Key = ""
    """The short name in `/auth/{provider}`, which never changes. Empty takes that of the preset."""
    preset: _Preset = ""
    """The short name of a preset. Empty takes none."""
    kind: FurtherKind | None = None
    """The protocol, where no preset says it."""
    client_secret: _ClientSecret
    """The client secret, or the private key in PEM that generates it. Postern stores it encrypted, and no response contains it."""


class FurtherProviderChange(FurtherProviderSettings, frozen=True, kw_only=True):
    """A change. With another issuer or token address, the secret has to be given again."""

    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The client secret, or the private key in PEM that generates it."""


class FurtherProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A custom provider of the installation, without the client secret."""

    key: _Key
    """The short name in `/auth/{provider}`."""
    preset: _Preset
    """The preset that it was made from. Empty for none."""
    name: _Name
    """The name that pages show."""
    kind: FurtherKind
    """The protocol."""
    client_id: _ClientId
    """The client ID at the provider."""
    secret_kind: ClientSecretKind
    """What the secret is."""
    secret_set_at: datetime
    """When the secret was last set."""
    state: FurtherState
    """`draft`: no one can sign in through it, and no one but platform owners knows of it. `active`: it counts while it is `enabled`."""
    enabled: _Flag
    """Whether people can sign in through it. Always false for a draft."""
    test: FurtherTest
    """`passed`: a test of these settings has succeeded. `before_change`: a test did, and what it was about was changed since. `untested`:
    none did.
    """
    tested_at: datetime | None
    """When a test last succeeded; null if none did."""
    digest: Annotated[str, example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3")]
    """The digest of what a test is about. A request that makes a draft active after a test sends it back."""
    people: Annotated[int, example(12)]
    """How many people are connected to it. With another issuer, all of them are newcomers."""
    position: _Position
    """The position of the button."""
    organizations: _Organizations | None
    """The slugs of the organizations on whose pages it is offered; null everywhere."""
    issuer: _Issuer
    """The provider's issuer. Empty for OAuth 2.0 where no one has stated one."""
    authorization_url: _AuthorizationUrl
    """Of OAuth 2.0."""
    token_url: _TokenUrl
    """Of OAuth 2.0."""
    profile_url: _ProfileUrl
    """Of OAuth 2.0."""
    scopes: _Scopes
    """The scopes that Postern asks for."""
    subject: _Subject
    """Where the profile has the person's ID."""
    email: _Email
    """Where the profile has the email address."""
    verified: _Verified
    """Where the profile says whether the email address is verified."""
    full_name: _FullName
    """Where the profile contains the person's name."""
    posts_answer: _No
    """Whether the answer comes by a form."""
    repeats_nonce: _Flag
    """Whether ID tokens repeat the nonce."""
    team_id: _TeamId
    """Who signs a secret that is made of a signing key."""
    key_id: _KeyId
    """The signing key's ID."""
    callback_url: Annotated[str, example("https://id.example.com/auth/discord/callback")]
    """The redirect URI to register there."""
    logo: Annotated[str, example("https://id.example.org/logos/9f86d081884c7d65")] | None
    """The URL at which Postern shows the uploaded logo; null if there is none. Each logo has a new one."""
    created_at: datetime
    """When it was added."""
    updated_at: datetime
    """When it was last changed."""


class ProviderPresetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a provider that many people use."""

    key: _Key
    """The preset's short name."""
    name: _Name
    """The provider's display name."""
    kind: FurtherKind
    """The protocol."""
    secret_kind: ClientSecretKind
    """What the secret of a client there is."""
    guide: Annotated[str, example("https://discord.com/developers/docs/topics/oauth2")]
    """Where client registration is documented at the provider."""


@endpoint.get(_PROVIDERS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_further_providers(_call: Call, postern: Postern) -> Sequence[FurtherProviderRecord]:
    """List the custom providers of the installation

    In the order of their buttons. The three providers in the settings are not included.
    """
    found = await postern.platform.further_providers.list()
    people = await postern.platform.further_providers.people(found)
    return [_record(one, people[one.key], postern) for one in found]


@endpoint.get("/api/platform/provider-presets", caller=PLATFORM_OWNER, tags=_TAGS)
async def list_provider_presets(_call: Call, postern: Postern) -> Sequence[ProviderPresetRecord]:
    """List the presets of providers

    A provider of a preset needs a client there, and nothing else.
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
    """Create a custom provider of the installation

    Any provider of OpenID Connect by its issuer, any of OAuth 2.0 by its addresses, or one of a preset. What such a provider says of an
    address proves nothing: a new account is made after a mailed code, and an account that is there is connected by its owner alone.
    Requires a recent sign-in or reauthentication.

    It is a draft until someone has tested it in a browser and made it active, unless you send `active: true`.
    """
    body = call.body
    new = NewFurther(key=body.key, preset=body.preset, kind=body.kind, secret=body.client_secret, change=body.change())
    return await _shown(await postern.platform.further_providers.add(new, call.actor), postern)


@endpoint.get(_ONE, caller=PLATFORM_OWNER, refuses=(NotFound,), tags=_TAGS)
async def get_further_provider(call: Call[None, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Get a custom provider of the installation, without the secret

    Register its `callback_url` there as the redirect URI.
    """
    return await _shown(await postern.platform.further_providers.get(call.path.key), postern)


@endpoint.patch(
    _ONE, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict, NotFound), tags=_TAGS
)
async def change_further_provider(call: Call[FurtherProviderChange, None, FurtherProviderPath], postern: Postern) -> FurtherProviderRecord:
    """Change a custom provider of the installation

    Its short name and its kind stay. People are known by the issuer, or by the address of the profile: with another one, everyone there has
    to connect again. While people are connected, `subject` stays, and so does `profile_url` beside an issuer (409): IDs would mean other
    people. An active provider stays active, and `test` says that what was tested has changed. Requires a recent sign-in or
    reauthentication.
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

    A draft becomes active and enabled. It must have been tested with its current settings: the page of the provider leads to the test. Send
    the `digest` that you have seen; if the settings have changed since, the response is 409. Requires a recent sign-in or reauthentication.
    """
    return await _shown(await postern.platform.further_providers.activate(call.path.key, call.body.digest, call.actor), postern)


@endpoint.delete(_ONE, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, refuses=(NotFound,), tags=_TAGS)
async def delete_further_provider(call: Call[None, None, FurtherProviderPath], postern: Postern) -> NoBody:
    """Delete a custom provider of the installation

    Everyone is disconnected from it. Their accounts stay, and a magic link leads back to them. Requires a recent sign-in or
    reauthentication.
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

    The body is the image: PNG, JPEG or WebP, of at most 256 KiB and 2048 pixels on a side. Postern keeps the image and strips metadata. It
    is shown on the provider's buttons. Requires a recent sign-in or reauthentication.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    after = await postern.platform.further_providers.put_logo(call.path.key, call.body, call.actor, declared=declared)
    return await _shown(after, postern)


@endpoint.delete(_LOGO, caller=PLATFORM_OWNER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, refuses=(NotFound,), tags=_TAGS)
async def remove_further_logo(call: Call[None, None, FurtherProviderPath], postern: Postern) -> NoBody:
    """Remove the logo of a custom provider

    The response is the same if there was none. Browsers may have it cached. Requires a recent sign-in or reauthentication.
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
