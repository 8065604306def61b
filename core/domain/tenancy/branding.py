"""The looks that an organization sets: the address of its logo, which we fetch and store, its colour, and the links at the foot of its
pages.
"""

from datetime import timedelta
from hashlib import sha256
from typing import Final

from core.domain.branding import brand_color
from core.domain.changes import UNCHANGED, Unchanged
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.profile.pictures import picture_of
from core.domain.images import image_of
from core.domain.json import Json
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LARGEST_LOGO: Final = 256 << 10
MOST_PIXELS: Final = 4096
TIMEOUT: Final = timedelta(seconds=10)
_FIELDS: Final = ("logo_url", "primary_color", "help_url", "privacy_url", "terms_url")


class OrganizationLook(Frozen):
    logo_url: str | None
    primary_color: str | None
    help_url: str | None = None
    privacy_url: str | None = None
    terms_url: str | None = None
    logo_digest: str | None = None
    """The digest of the logo that pages show: fetched from `logo_url`, or uploaded."""


class Logo(Frozen):
    """The picture that pages show."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return sha256(self.content).hexdigest()


class LookChange(Frozen):
    """A change of the looks. None removes a value."""

    logo_url: str | Unchanged | None = UNCHANGED
    primary_color: str | Unchanged | None = UNCHANGED
    help_url: str | Unchanged | None = UNCHANGED
    privacy_url: str | Unchanged | None = UNCHANGED
    terms_url: str | Unchanged | None = UNCHANGED

    def require_something(self) -> None:
        if all(isinstance(getattr(self, field), Unchanged) for field in _FIELDS):
            raise BadRequest(f"Send at least one of {', '.join(_FIELDS)}", words="nothing_to_change")

    def applied(self, look: OrganizationLook) -> OrganizationLook:
        """Raises `BadRequest`."""
        return OrganizationLook(
            look.logo_url if isinstance(self.logo_url, Unchanged) else self.logo_url,
            look.primary_color if isinstance(self.primary_color, Unchanged) else _color(self.primary_color),
            look.help_url if isinstance(self.help_url, Unchanged) else _link("help_url", self.help_url),
            look.privacy_url if isinstance(self.privacy_url, Unchanged) else _link("privacy_url", self.privacy_url),
            look.terms_url if isinstance(self.terms_url, Unchanged) else _link("terms_url", self.terms_url),
            look.logo_digest,
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
            f"logo_url: the server answered {status} in place of a picture; redirects are not followed",
            words="logo_status",
            values={"status": status},
        )
    if len(content) > LARGEST_LOGO:
        raise BadRequest(f"logo_url: the picture has more than {LARGEST_LOGO >> 10} KiB", words="picture_large")
    image = image_of(content)
    if image is not None:
        if not image.fits(MOST_PIXELS):
            raise BadRequest(
                f"logo_url: the picture has more than {MOST_PIXELS} pixels on a side", words="picture_size", values={"most": MOST_PIXELS}
            )
        return Logo(image.media_type, content)
    raise BadRequest("logo_url: there is no PNG, JPEG, WebP or GIF picture", words="picture_unknown")


def uploaded_logo(content: bytes, declared: str = "") -> Logo:
    """The picture without its metadata, as pictures of people are kept. `declared` is the media type that the sender stated, if they did.
    Raises `BadRequest` and `PayloadTooLarge`.
    """
    picture = picture_of(content, declared)
    return Logo(picture.media_type, picture.content)


def logo_changed(organization: OrganizationId, before: OrganizationLook, actor: Actor) -> Event:
    """A logo was uploaded, or removed. The address that the logo before was fetched from is no more."""
    changed: list[Json] = ["logo"]
    details: dict[str, Json] = {"changed": changed}
    if before.logo_url is not None:
        changed.append("logo_url")
        details |= {"old_logo_url": before.logo_url, "new_logo_url": None}
    return Event("branding.updated", actor, Target("organization", str(organization)), organization, details)


def branding_updated(
    organization: OrganizationId, before: OrganizationLook, after: OrganizationLook, actor: Actor, *, new_logo: bool
) -> Event:
    changed: list[Json] = []
    details: dict[str, Json] = {"changed": changed}
    for field in _FIELDS:
        was, now = getattr(before, field), getattr(after, field)
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


def _color(text: str | None) -> str | None:
    if text is None:
        return None
    color = brand_color(text.strip())
    if color is None:
        raise BadRequest("primary_color: must be a colour like #0f5f5c", words="color_malformed")
    return color
