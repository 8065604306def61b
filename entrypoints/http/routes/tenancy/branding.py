"""The branding of an organization, and the languages that it speaks."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.branding import CORNERS, ColorScheme, ColorUse, Font, PaleColor, logo_path
from core.domain.errors import BadRequest
from core.domain.languages import Language
from core.domain.outbound import LONGEST_URL
from core.domain.tenancy.branding import LookChange, LookPicture, OrganizationLook
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts import MOST_LANGUAGES, SpokenLanguages
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawOfTypes
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import media_type_of
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_BRANDING = "/api/organizations/{org_slug}/branding"
_LOGO = f"{_BRANDING}/logo"
_DARK_LOGO = f"{_BRANDING}/dark-logo"
_FAVICON = f"{_BRANDING}/favicon"
_BACKGROUND = f"{_BRANDING}/background"
_MANAGERS = able(Capability.SETTINGS_MANAGE, impersonated=True)

_Url = Annotated[str, bounded({"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://acme.example/logo.png"])]
_Link = Annotated[
    str,
    bounded({"maxLength": LONGEST_URL, "format": "uri", "pattern": "^https://"}, examples=["https://acme.example/privacy"]),
]
_Color = Annotated[Word, msgspec.Meta(extra_json_schema={"pattern": "^#[0-9A-Fa-f]{6}$"}, examples=["#a01040"])]
_Corner = Annotated[int, msgspec.Meta(extra_json_schema={"enum": list(CORNERS)}, examples=[4])]
_Font = Annotated[Font, example("humanist")]
_Shown = Annotated[str, example("https://id.example.org/logos/9f86d081884c7d65")]


class BrandingPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the branding. Omitted fields keep their values; null removes a value. Send at least one field."""

    logo_url: _Url | msgspec.UnsetType | None = msgspec.UNSET
    """The URL to fetch the logo from, now: a PNG, JPEG, WebP or GIF picture of at most 256 KiB and 4096 pixels on a side."""
    primary_color: _Color | msgspec.UnsetType | None = msgspec.UNSET
    """The color of buttons, and of links where it can be read, as `#rrggbb`."""
    second_color: _Color | msgspec.UnsetType | None = msgspec.UNSET
    """The color of links, in place of the first one. It must be readable on light ground (WCAG 2.2: 4.5 to 1); the refusal of another names
    the nearest that is. On dark ground Postern shows the nearest that can be read there.
    """
    corner: _Corner | msgspec.UnsetType | None = msgspec.UNSET
    """How round buttons, fields and cards are, in pixels: 0, 4 or 12; null for the default."""
    font: _Font | msgspec.UnsetType | None = msgspec.UNSET
    """The type of pages, from fonts that people's systems have: `system`, `humanist`, `geometric`, `serif`, `slab` or `mono`."""
    help_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your help page (https). The foot of your sign-in pages links to it; Postern never calls it."""
    privacy_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your privacy notice (https)."""
    terms_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your terms of use (https)."""


class PaleUse(msgspec.Struct, frozen=True, kw_only=True):
    """A use that the color has too little contrast for. Pages use the color of text there."""

    use: Annotated[ColorUse, example("links")]
    """`links` have to be read, `edges` of buttons have to be seen."""
    scheme: Annotated[ColorScheme, example("light")]
    """The pages that this is about: `light`, or `dark`, as the reader's system prefers."""
    contrast: Annotated[float, example(1.19)]
    """The contrast that the color has on the ground of these pages."""
    needed: Annotated[float, example(4.5)]
    """The contrast that WCAG 2.2 demands at level AA."""
    nearest: Annotated[str, example("#846e00")]
    """The nearest color of the same hue that has it."""


class BrandingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The branding of an organization."""

    logo_url: _Url | None
    """The URL that the logo was fetched from; null if there is none, or if it was uploaded."""
    primary_color: _Color | None
    """The color of buttons and links; null for the default color."""
    second_color: _Color | None
    """The color of links; null for the first one."""
    corner: _Corner | None
    """How round buttons, fields and cards are, in pixels; null for the default."""
    font: _Font | None
    """The type of pages; null for the system's."""
    help_url: _Link | None
    """The page for help that the foot of the pages links to; null if there is none."""
    privacy_url: _Link | None
    """The privacy notice that the foot of the pages links to; null if there is none."""
    terms_url: _Link | None
    """The terms of use that the foot of the pages links to; null if there are none."""
    logo: _Shown | None
    """The URL at which Postern shows the logo, fetched or uploaded; null if there is none. Each logo has a new one."""
    dark_logo: _Shown | None
    """The URL at which Postern shows the logo for dark pages; null if the logo is shown there, too."""
    favicon: _Shown | None
    """The URL of the favicon; null for Postern's."""
    background: _Shown | None
    """The URL at which Postern shows the picture behind the cards of pages; null if there is none."""
    pale_uses: Sequence[PaleUse]
    """What pages do not use `primary_color` for, since it could not be read or seen there. Empty for a color that they use everywhere."""


@endpoint.patch(
    _BRANDING,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_branding(call: Call[BrandingPatch, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Change the branding of an organization

    Postern fetches a logo at once and keeps a copy: pages and emails show this copy, from Postern's URL. To use a new picture, send its URL
    again.
    """
    return _recorded(await postern.tenancy.branding.change(call.caller, _change(call.body), call.actor), postern)


@endpoint.get(_BRANDING, caller=MEMBER, keys=True, tags=_TAGS)
async def get_branding(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Get the branding of an organization

    Our pages and emails for the organization show the branding.
    """
    return _recorded(await postern.tenancy.branding.get(call.caller), postern)


@endpoint.put(
    _LOGO,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(LookPicture.LOGO.bounds.types, LookPicture.LOGO.bounds.largest),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_logo(call: Call[bytes, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Upload the logo of an organization

    The body is the image: PNG, JPEG or WebP, of at most 256 KiB and 2048 pixels on a side, not animated. Postern keeps the image and strips
    metadata. It takes the place of a logo that was fetched, and `logo_url` becomes null.
    """
    return await _upload(call, postern, LookPicture.LOGO)


@endpoint.delete(_LOGO, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_logo(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the logo of an organization

    The response is the same if there was none. Browsers may have it cached.
    """
    await postern.tenancy.branding.remove_picture(call.caller, LookPicture.LOGO, call.actor)
    return NO_BODY


@endpoint.put(
    _DARK_LOGO,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(LookPicture.DARK_LOGO.bounds.types, LookPicture.DARK_LOGO.bounds.largest),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_dark_logo(call: Call[bytes, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Upload the logo of an organization for dark pages

    Readers whose system prefers dark pages see it in place of the logo. It may be what the logo may be.
    """
    return await _upload(call, postern, LookPicture.DARK_LOGO)


@endpoint.delete(_DARK_LOGO, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_dark_logo(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the logo for dark pages

    The response is the same if there was none. Browsers may have it cached.
    """
    await postern.tenancy.branding.remove_picture(call.caller, LookPicture.DARK_LOGO, call.actor)
    return NO_BODY


@endpoint.put(
    _FAVICON,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(LookPicture.FAVICON.bounds.types, LookPicture.FAVICON.bounds.largest),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_favicon(call: Call[bytes, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Upload the favicon

    PNG or WebP, as wide as it is high, of at most 32 KiB and 512 pixels on a side.
    """
    return await _upload(call, postern, LookPicture.FAVICON)


@endpoint.delete(_FAVICON, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_favicon(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the favicon

    Succeeds even if there was none. Browsers may have it cached.
    """
    await postern.tenancy.branding.remove_picture(call.caller, LookPicture.FAVICON, call.actor)
    return NO_BODY


@endpoint.put(
    _BACKGROUND,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(LookPicture.BACKGROUND.bounds.types, LookPicture.BACKGROUND.bounds.largest),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_background(call: Call[bytes, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Upload the picture behind the cards of an organization's pages

    PNG, JPEG or WebP, of at most 200 KiB and 2048 pixels on a side. Text never stands on it.
    """
    return await _upload(call, postern, LookPicture.BACKGROUND)


@endpoint.delete(_BACKGROUND, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_background(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the picture behind the cards of pages

    The response is the same if there was none. Browsers may have it cached.
    """
    await postern.tenancy.branding.remove_picture(call.caller, LookPicture.BACKGROUND, call.actor)
    return NO_BODY


async def _upload(call: Call[bytes, None, OrganizationPath, Member], postern: Postern, kind: LookPicture) -> BrandingRecord:
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    return _recorded(await postern.tenancy.branding.put_picture(call.caller, kind, call.body, call.actor, declared=declared), postern)


def _recorded(look: OrganizationLook, postern: Postern) -> BrandingRecord:
    return _record(look, **{kind.value: _address(look.digest_of(kind), postern) for kind in LookPicture})


def _address(digest: str | None, postern: Postern) -> str | None:
    return None if digest is None else f"{postern.foundation.public_url}{logo_path(digest)}"


_change = taken(BrandingPatch, LookChange)
_pale = shown(PaleColor, PaleUse)
_record = shown(
    OrganizationLook,
    BrandingRecord,
    within=("look",),
    given=("logo", "dark_logo", "favicon", "background"),
    pale_uses=lambda look: [_pale(one) for one in look.pale],
)


_SPOKEN_LANGUAGE_TAGS: Final = ("settings",)
_LANGUAGES: Final = "/api/organizations/{org_slug}/languages"

# Any text is decoded, so that a language that we do not have is refused in words.
_Code = Annotated[Word, msgspec.Meta(extra_json_schema={"enum": [one.value for one in Language]}, examples=["de"])]


class LanguagesPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The languages of an organization."""

    languages: Annotated[list[_Code], msgspec.Meta(extra_json_schema={"maxItems": MOST_LANGUAGES}, examples=[["de", "en"]])] | None
    """The preferred one first: it is the fallback. An empty list, or null, means all supported languages, and English to everyone else."""


class LanguagesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The languages of an organization."""

    languages: Annotated[list[Language], msgspec.Meta(examples=[["de", "en"]])]
    """The preferred one first. An empty list means all supported languages."""


@endpoint.patch(
    _LANGUAGES,
    caller=able(Capability.SETTINGS_MANAGE, impersonated=True),
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest,),
    tags=_SPOKEN_LANGUAGE_TAGS,
)
async def change_languages(call: Call[LanguagesPatch, None, OrganizationPath, Member], postern: Postern) -> LanguagesRecord:
    """Change the languages of an organization

    Pages and emails that have the organization's branding speak these languages and no other.
    """
    return _recorded_spoken_language(await postern.tenancy.spoken_languages.change(call.caller, call.body.languages or (), call.actor))


@endpoint.get(_LANGUAGES, caller=MEMBER, keys=True, tags=_SPOKEN_LANGUAGE_TAGS)
async def get_languages(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> LanguagesRecord:
    """Get the languages of an organization

    The pages and emails that have its branding speak these languages.
    """
    return _recorded_spoken_language(await postern.tenancy.spoken_languages.get(call.caller))


def _recorded_spoken_language(spoken: SpokenLanguages) -> LanguagesRecord:
    return LanguagesRecord(languages=list(spoken.languages))
