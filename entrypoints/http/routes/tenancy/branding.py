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
    """The URL of the logo, which Postern fetches at once: a PNG, JPEG, WebP or GIF image of at most 256 KiB and 4096 pixels on a side."""
    primary_color: _Color | msgspec.UnsetType | None = msgspec.UNSET
    """The color of buttons, as `#rrggbb`. Links use it, too, where its contrast is sufficient."""
    second_color: _Color | msgspec.UnsetType | None = msgspec.UNSET
    """The color of links, in place of `primary_color`. On light backgrounds it needs a contrast of at least 4.5 to 1 (WCAG 2.2). Otherwise
    the request is rejected, and the error names the nearest valid color. On dark backgrounds, Postern uses the nearest color with
    sufficient contrast.
    """
    corner: _Corner | msgspec.UnsetType | None = msgspec.UNSET
    """The corner radius of buttons, fields and cards in pixels: 0, 4 or 12; null for the default."""
    font: _Font | msgspec.UnsetType | None = msgspec.UNSET
    """The font family of pages: `system`, `humanist`, `geometric`, `serif`, `slab` or `mono`. All of them use fonts of the reader's system.
    """
    help_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your help page (https). The footer of your sign-in pages links to it. Postern never requests it."""
    privacy_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your privacy notice (https)."""
    terms_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The URL of your terms of use (https)."""


class PaleUse(msgspec.Struct, frozen=True, kw_only=True):
    """A use for which the color has too little contrast. Pages use the text color instead."""

    use: Annotated[ColorUse, example("links")]
    """The use: `links`, whose text must be legible, or `edges` of buttons, which must be visible."""
    scheme: Annotated[ColorScheme, example("light")]
    """The color scheme of the pages: `light` or `dark`, as the reader's system prefers."""
    contrast: Annotated[float, example(1.19)]
    """The contrast between the color and the background of these pages."""
    needed: Annotated[float, example(4.5)]
    """The contrast that WCAG 2.2 requires at level AA."""
    nearest: Annotated[str, example("#846e00")]
    """The nearest color of the same hue with the required contrast."""


class BrandingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The branding of an organization."""

    logo_url: _Url | None
    """The URL that the logo was fetched from; null if there is none, or if it was uploaded."""
    primary_color: _Color | None
    """The color of buttons and links; null for the default color."""
    second_color: _Color | None
    """The color of links; null if links use `primary_color`."""
    corner: _Corner | None
    """The corner radius of buttons, fields and cards in pixels; null for the default."""
    font: _Font | None
    """The font family of pages; null for the system font."""
    help_url: _Link | None
    """The URL of the help page that the footer links to; null if not set."""
    privacy_url: _Link | None
    """The URL of the privacy notice that the footer links to; null if not set."""
    terms_url: _Link | None
    """The URL of the terms of use that the footer links to; null if not set."""
    logo: _Shown | None
    """The URL at which Postern serves the logo, fetched or uploaded; null if there is none. Each new logo has a new URL."""
    dark_logo: _Shown | None
    """The URL at which Postern serves the logo for dark mode; null if dark mode uses the same logo."""
    favicon: _Shown | None
    """The URL of the favicon; null for Postern's default favicon."""
    background: _Shown | None
    """The URL at which Postern serves the background image; null if there is none."""
    pale_uses: Sequence[PaleUse]
    """The uses for which pages do not use `primary_color`, because its contrast is too low. Empty if pages use it everywhere."""


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

    If you send `logo_url`, Postern fetches the logo at once and keeps a copy. Pages and emails show the copy, from Postern's URL. To
    replace the copy with a new image, send the URL again.
    """
    return _recorded(await postern.tenancy.branding.change(call.caller, _change(call.body), call.actor), postern)


@endpoint.get(_BRANDING, caller=MEMBER, keys=True, tags=_TAGS)
async def get_branding(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Get the branding of an organization

    Return the branding of the pages and emails that Postern shows for the organization.
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

    The body is the image: PNG, JPEG or WebP, at most 256 KiB and 2048 pixels on a side, not animated. Postern stores the image without its
    metadata. It replaces a fetched logo, and `logo_url` becomes null.
    """
    return await _upload(call, postern, LookPicture.LOGO)


@endpoint.delete(_LOGO, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_logo(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the logo of an organization

    The request also succeeds if there is no logo. Browsers can have the deleted logo in their cache.
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
    """Upload the logo of an organization for dark mode

    Pages show this logo if the reader's system prefers dark mode. The formats and limits are those of the logo.
    """
    return await _upload(call, postern, LookPicture.DARK_LOGO)


@endpoint.delete(_DARK_LOGO, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_dark_logo(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the logo of an organization for dark mode

    The request also succeeds if there is no such logo. Browsers can have the deleted logo in their cache.
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
    """Upload the favicon of an organization

    The body is the image: PNG or WebP, square, at most 32 KiB and 512 pixels on a side.
    """
    return await _upload(call, postern, LookPicture.FAVICON)


@endpoint.delete(_FAVICON, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_favicon(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the favicon of an organization

    The request also succeeds if there is no favicon. Browsers can have the deleted favicon in their cache.
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
    """Upload the background image of an organization's pages

    The body is the image: PNG, JPEG or WebP, at most 200 KiB and 2048 pixels on a side. It appears behind the cards of the pages, and never
    behind text.
    """
    return await _upload(call, postern, LookPicture.BACKGROUND)


@endpoint.delete(_BACKGROUND, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_background(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the background image of an organization's pages

    The request also succeeds if there is no background image. Browsers can have the deleted image in their cache.
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
    """The languages. The first one is preferred, and is the fallback. An empty list or null enables all supported languages, with English
    as the fallback.
    """


class LanguagesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The languages of an organization."""

    languages: Annotated[list[Language], msgspec.Meta(examples=[["de", "en"]])]
    """The languages, the preferred one first. An empty list means all supported languages."""


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

    Pages and emails with the organization's branding use only these languages.
    """
    return _recorded_spoken_language(await postern.tenancy.spoken_languages.change(call.caller, call.body.languages or (), call.actor))


@endpoint.get(_LANGUAGES, caller=MEMBER, keys=True, tags=_SPOKEN_LANGUAGE_TAGS)
async def get_languages(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> LanguagesRecord:
    """Get the languages of an organization

    Return the languages of the pages and emails with the organization's branding.
    """
    return _recorded_spoken_language(await postern.tenancy.spoken_languages.get(call.caller))


def _recorded_spoken_language(spoken: SpokenLanguages) -> LanguagesRecord:
    return LanguagesRecord(languages=list(spoken.languages))
