"""The branding of an organization."""

from typing import Annotated

import msgspec

from core.domain.branding import logo_path
from core.domain.errors import BadRequest
from core.domain.identity.profile.pictures import LARGEST_PICTURE, PICTURE_TYPES
from core.domain.outbound.destinations import LONGEST_URL
from core.domain.tenancy.branding import LookChange, OrganizationLook
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawOfTypes
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import media_type_of
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_BRANDING = "/api/organizations/{org_slug}/branding"
_LOGO = f"{_BRANDING}/logo"
_MANAGERS = able(Capability.SETTINGS_MANAGE, impersonated=True)

_Url = Annotated[
    str, msgspec.Meta(extra_json_schema={"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://acme.example/logo.png"])
]
_Link = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"maxLength": LONGEST_URL, "format": "uri", "pattern": "^https://"}, examples=["https://acme.example/privacy"]
    ),
]
_Color = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^#[0-9A-Fa-f]{6}$"}, examples=["#a01040"])]


class BrandingPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the branding. Fields that you leave out stay as they are; null removes a value. Send at least one field."""

    logo_url: _Url | msgspec.UnsetType | None = msgspec.UNSET
    """The address to fetch the logo from, now: a PNG, JPEG, WebP or GIF picture of at most 256 KiB and 4096 pixels on a side."""
    primary_color: _Color | msgspec.UnsetType | None = msgspec.UNSET
    """The colour of buttons and links, as `#rrggbb`."""
    help_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The address of your page for help, by https. The foot of your sign-in pages links to it; we never call it."""
    privacy_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The address of your privacy notice, by https."""
    terms_url: _Link | msgspec.UnsetType | None = msgspec.UNSET
    """The address of your terms of use, by https."""


class BrandingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The branding of an organization."""

    logo_url: _Url | None
    """The address that the logo was fetched from; null if there is none, or if it was uploaded."""
    primary_color: _Color | None
    """The colour of buttons and links; null for the default colour."""
    help_url: _Link | None
    """The page for help that the foot of the pages links to; null if there is none."""
    privacy_url: _Link | None
    """The privacy notice that the foot of the pages links to; null if there is none."""
    terms_url: _Link | None
    """The terms of use that the foot of the pages links to; null if there are none."""
    logo: Annotated[str, example("https://id.example.org/logos/9f86d081884c7d65")] | None
    """The address at which we show the logo, fetched or uploaded; null if there is none. Each logo has a new one."""


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

    We fetch a logo at once and keep a copy: pages and mails show this copy, from our address. To use a new picture, send its address again.
    """
    return _recorded(await postern.tenancy.branding.change(call.caller, _change(call.body), call.actor), postern)


@endpoint.get(_BRANDING, caller=MEMBER, keys=True, tags=_TAGS)
async def get_branding(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Get the branding of an organization

    Our pages and mails for the organization show the branding.
    """
    return _recorded(await postern.tenancy.branding.get(call.caller), postern)


@endpoint.put(
    _LOGO,
    caller=_MANAGERS,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawOfTypes(PICTURE_TYPES, LARGEST_PICTURE),
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def upload_logo(call: Call[bytes, None, OrganizationPath, Member], postern: Postern) -> BrandingRecord:
    """Upload the logo of an organization

    The body is the picture: PNG, JPEG or WebP, of at most 256 KiB and 2048 pixels on a side. We keep what is drawn, and drop metadata. It
    takes the place of a logo that was fetched, and `logo_url` becomes null.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    return _recorded(await postern.tenancy.branding.put_logo(call.caller, call.body, call.actor, declared=declared), postern)


@endpoint.delete(_LOGO, caller=_MANAGERS, keys=True, status=204, limit=CREDENTIALS, tags=_TAGS)
async def remove_logo(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Remove the logo of an organization

    The answer is the same if there was none. Browsers that have shown the logo may keep it.
    """
    await postern.tenancy.branding.remove_logo(call.caller, call.actor)
    return NO_BODY


def _recorded(look: OrganizationLook, postern: Postern) -> BrandingRecord:
    return _record(look, logo=None if look.logo_digest is None else f"{postern.foundation.public_url}{logo_path(look.logo_digest)}")


_change = taken(BrandingPatch, LookChange)
_record = shown(OrganizationLook, BrandingRecord, given=("logo",))
