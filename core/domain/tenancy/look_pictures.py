"""The pictures of organizations' looks and of their applications: which there are, and what each may be.

All of them are checked as pictures of people are: PNG, JPEG or WebP by their bytes, without metadata and without anything behind their
end. In addition, none of them moves: an animation beside a sign-in draws the eye away from what somebody has to read there.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, PayloadTooLarge
from core.domain.identity.profile.pictures import LARGEST_PICTURE, MOST_PIXELS, PICTURE_TYPES, picture_of
from core.domain.images import image_of, is_animated
from core.frozen import Frozen

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
    """The picture without its metadata. `declared` is the media type that the sender stated, if they did. Raises `BadRequest` and
    `PayloadTooLarge`.
    """
    if len(content) > bounds.largest:
        kib = bounds.largest >> 10
        raise PayloadTooLarge(f"The picture must not exceed {kib} KiB", words="look_picture_large", values={"kib": kib})
    picture = picture_of(content, declared)
    if picture.media_type not in bounds.types:
        raise BadRequest("The picture must be PNG or WebP", words="favicon_type")
    if is_animated(picture.media_type, picture.content):
        raise BadRequest("The picture moves: send one that stands still", words="picture_animated")
    image = image_of(picture.content)
    if image is None or not image.fits(bounds.most_pixels):
        raise BadRequest(
            f"The picture must have 1 to {bounds.most_pixels} pixels on a side", words="picture_size", values={"most": bounds.most_pixels}
        )
    if bounds.is_square and image.width != image.height:
        raise BadRequest("The picture must be as wide as it is high", words="favicon_square")
    return Logo(picture.media_type, picture.content)
