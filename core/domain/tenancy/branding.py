"""The branding of an organization: logo, colors, links, and the pictures that it uploads."""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from core.domain.branding import CORNERS, PLAIN, ColorUse, Font, Look, PaleColor, brand_color, nearest_color, pale_uses, worst_contrast
from core.domain.branding import LIGHT as LIGHT_GROUNDS
from core.domain.errors import BadRequest, PayloadTooLarge
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId
from core.domain.identity.profiles import LARGEST_PICTURE, MOST_PIXELS, PICTURE_TYPES, picture_of
from core.domain.images import image_of, is_animated
from core.domain.outbound import NotADestination, OutboundDestination, destination
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import UNCHANGED, Unchanged
from core.frozen import Frozen, replace

_PNG_OR_WEBP: Final = ("image/png", "image/webp")


class LookPicture(StrEnum):
    """A picture that an organization uploads for its pages."""

    LOGO = "logo"
    DARK_LOGO = "dark_logo"
    FAVICON = "favicon"
    BACKGROUND = "background"

    @property
    def bounds(self) -> "PictureBounds":
        return _BOUNDS[self]


class PictureBounds(Frozen):
    largest: int
    """In bytes."""
    most_pixels: int
    """On a side."""
    types: tuple[str, ...] = PICTURE_TYPES
    is_square: bool = False


LOGO_BOUNDS: Final = PictureBounds(LARGEST_PICTURE, MOST_PIXELS)
# Browsers show a favicon at 16 to 64 pixels, and a background as large as the screen.
_BOUNDS: Final = {
    LookPicture.LOGO: LOGO_BOUNDS,
    LookPicture.DARK_LOGO: LOGO_BOUNDS,
    LookPicture.FAVICON: PictureBounds(32 << 10, 512, _PNG_OR_WEBP, is_square=True),
    LookPicture.BACKGROUND: PictureBounds(200 << 10, MOST_PIXELS),
}


class Logo(Frozen):
    """The picture that pages show."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return sha256(self.content).hexdigest()


def look_picture(content: bytes, bounds: PictureBounds, declared: str = "") -> Logo:
    """Validates a picture of an organization's branding or of its applications, and removes the metadata. It is checked as pictures of
    users are: PNG, JPEG or WebP by its bytes, with nothing behind its end. In addition, it is not animated: an animation beside a sign-in
    draws the eye away from what the user has to read there. `declared` is the media type that the sender stated, if they did. Raises
    `BadRequest` and `PayloadTooLarge`.
    """
    if len(content) > bounds.largest:
        kib = bounds.largest >> 10
        raise PayloadTooLarge(f"The picture must not exceed {kib} KiB", words="look_picture_large", values={"kib": kib})
    picture = picture_of(content, declared)
    if picture.media_type not in bounds.types:
        raise BadRequest("The picture must be PNG or WebP", words="favicon_type")
    if is_animated(picture.media_type, picture.content):
        raise BadRequest("The picture is animated: send a still picture", words="picture_animated")
    image = image_of(picture.content)
    if image is None or not image.fits(bounds.most_pixels):
        raise BadRequest(
            f"The picture must have 1 to {bounds.most_pixels} pixels on a side", words="picture_size", values={"most": bounds.most_pixels}
        )
    if bounds.is_square and image.width != image.height:
        raise BadRequest("The picture must be as wide as it is high", words="favicon_square")
    return Logo(picture.media_type, picture.content)


LARGEST_LOGO: Final = 256 << 10
MOST_LOGO_PIXELS: Final = 4096
TIMEOUT: Final = timedelta(seconds=10)
_OF_LOOK: Final = ("second_color", "corner", "font")
_FIELDS: Final = ("logo_url", "primary_color", *_OF_LOOK, "help_url", "privacy_url", "terms_url")


class OrganizationLook(Frozen):
    """The stored branding: the logo, which Postern fetches from its URL and stores, the color, and the links in the footer of the
    organization's pages.
    """

    logo_url: str | None
    primary_color: str | None
    help_url: str | None = None
    privacy_url: str | None = None
    terms_url: str | None = None
    logo_digest: str | None = None
    """The digest of the logo that pages show: fetched from `logo_url`, or uploaded."""
    look: Look = PLAIN

    @property
    def pale(self) -> Sequence[PaleColor]:
        """What pages do not use the organization's own colour for. Ours suits every use."""
        return () if self.primary_color is None else pale_uses(self.primary_color)

    def digest_of(self, kind: LookPicture) -> str | None:
        digest: str | None = self.logo_digest if kind is LookPicture.LOGO else getattr(self.look, kind.value)
        return digest

    def with_picture(self, kind: LookPicture, digest: str | None) -> "OrganizationLook":
        """An uploaded logo takes the place of one that was fetched, so its address is no more."""
        if kind is LookPicture.LOGO:
            return replace(self, logo_url=None, logo_digest=digest)
        named: dict[str, Any] = {kind.value: digest}
        return replace(self, look=replace(self.look, **named))


class LookChange(Frozen):
    """A change of the looks. None removes a value."""

    logo_url: str | Unchanged | None = UNCHANGED
    primary_color: str | Unchanged | None = UNCHANGED
    help_url: str | Unchanged | None = UNCHANGED
    privacy_url: str | Unchanged | None = UNCHANGED
    terms_url: str | Unchanged | None = UNCHANGED
    second_color: str | Unchanged | None = UNCHANGED
    corner: int | Unchanged | None = UNCHANGED
    font: Font | Unchanged | None = UNCHANGED

    def require_something(self) -> None:
        if all(isinstance(getattr(self, field), Unchanged) for field in _FIELDS):
            raise BadRequest(f"Send at least one of {', '.join(_FIELDS)}", words="nothing_to_change")

    def applied(self, look: OrganizationLook) -> OrganizationLook:
        """Raises `BadRequest`."""
        return OrganizationLook(
            look.logo_url if isinstance(self.logo_url, Unchanged) else self.logo_url,
            look.primary_color if isinstance(self.primary_color, Unchanged) else _color("primary_color", self.primary_color),
            look.help_url if isinstance(self.help_url, Unchanged) else _link("help_url", self.help_url),
            look.privacy_url if isinstance(self.privacy_url, Unchanged) else _link("privacy_url", self.privacy_url),
            look.terms_url if isinstance(self.terms_url, Unchanged) else _link("terms_url", self.terms_url),
            look.logo_digest,
            replace(
                look.look,
                second_color=look.look.second_color if isinstance(self.second_color, Unchanged) else _second_color(self.second_color),
                corner=look.look.corner if isinstance(self.corner, Unchanged) else _corner(self.corner),
                font=look.look.font if isinstance(self.font, Unchanged) else self.font,
            ),
        )


def logo_destination(text: str) -> OutboundDestination:
    """Raises `BadRequest`."""
    try:
        return destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"logo_url: {refusal}", words="web_address") from None


def logo_of(status: int, content: bytes) -> Logo:
    """The logo in the answer to our request. Raises `BadRequest`."""
    if status != 200:
        raise BadRequest(
            f"logo_url: the server answered {status} instead of a picture; redirects are not followed",
            words="logo_status",
            values={"status": status},
        )
    if len(content) > LARGEST_LOGO:
        raise BadRequest(f"logo_url: the picture has more than {LARGEST_LOGO >> 10} KiB", words="picture_large")
    image = image_of(content)
    if image is not None:
        if not image.fits(MOST_LOGO_PIXELS):
            raise BadRequest(
                f"logo_url: the picture has more than {MOST_LOGO_PIXELS} pixels on a side",
                words="picture_size",
                values={"most": MOST_LOGO_PIXELS},
            )
        return Logo(image.media_type, content)
    raise BadRequest("logo_url: the URL does not return a PNG, JPEG, WebP or GIF image", words="picture_unknown")


def picture_changed(organization: OrganizationId, kind: LookPicture, before: OrganizationLook, actor: Actor) -> Event:
    """A picture was uploaded, or removed. The address that a logo before was fetched from is no more."""
    changed: list[Json] = [kind.value]
    details: dict[str, Json] = {"changed": changed}
    if kind is LookPicture.LOGO and before.logo_url is not None:
        changed.append("logo_url")
        details |= {"old_logo_url": before.logo_url, "new_logo_url": None}
    return Event("branding.updated", actor, Target("organization", str(organization)), organization, details)


def branding_updated(
    organization: OrganizationId, before: OrganizationLook, after: OrganizationLook, actor: Actor, *, new_logo: bool
) -> Event:
    changed: list[Json] = []
    details: dict[str, Json] = {"changed": changed}
    for field in _FIELDS:
        was, now = (getattr(one.look if field in _OF_LOOK else one, field) for one in (before, after))
        if was != now or (new_logo and field == "logo_url"):
            changed.append(field)
            details |= {f"old_{field}": was, f"new_{field}": now}
    return Event("branding.updated", actor, Target("organization", str(organization)), organization, details)


def _link(field: str, text: str | None) -> str | None:
    """A page that people open by themselves; we never call it. Only https, so that nobody on the way can change what people read."""
    if text is None:
        return None
    try:
        place = destination(text.strip())
    except NotADestination as refusal:
        raise BadRequest(f"{field}: {refusal}", words="web_address") from None
    if place.scheme != "https":
        raise BadRequest(f"{field}: must start with https://", words="https_only")
    return text.strip()


def _color(field: str, text: str | None) -> str | None:
    if text is None:
        return None
    color = brand_color(text.strip())
    if color is None:
        raise BadRequest(f"{field}: must be a colour like #0f5f5c", words="color_malformed")
    return color


def _second_color(text: str | None) -> str | None:
    """The colour of links has to be read on light grounds. On dark ones, pages take the nearest colour that can be read there: no colour
    can be read on both.
    """
    color = _color("second_color", text)
    if color is None or worst_contrast(color, LIGHT_GROUNDS) >= ColorUse.LINKS.needed:
        return color
    nearest = nearest_color(color, LIGHT_GROUNDS, ColorUse.LINKS.needed)
    raise BadRequest(
        f"second_color: links in {color} are not readable on a light background; the nearest readable color is {nearest}",
        words="color_pale",
        values={"nearest": nearest},
    )


def _corner(pixels: int | None) -> int | None:
    if pixels is not None and pixels not in CORNERS:
        raise BadRequest(f"corner: must be one of {', '.join(map(str, CORNERS))}", words="corner_unknown")
    return pixels
