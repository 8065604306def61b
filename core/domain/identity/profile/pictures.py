"""Pictures of people. Their addresses tell nothing, and anybody who has an address may see the picture."""

from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest, PayloadTooLarge
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profile.profiles import OwnProfile
from core.domain.images import BrokenImage, image_of, without_metadata
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LARGEST_PICTURE: Final = 256 << 10
MOST_PIXELS: Final = 2048
PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/webp")


class Picture(Frozen):
    media_type: str
    content: bytes


def picture_of(content: bytes, declared: str = "") -> Picture:
    """The picture without its metadata. `declared` is the media type that the sender stated, if they did. Raises `BadRequest` and
    `PayloadTooLarge`.
    """
    if len(content) > LARGEST_PICTURE:
        raise PayloadTooLarge(f"The picture must not exceed {LARGEST_PICTURE >> 10} KiB", words="picture_large")
    image = image_of(content)
    if image is None or image.media_type not in PICTURE_TYPES:
        raise BadRequest("There is no PNG, JPEG or WebP picture", words="picture_unknown")
    if declared and declared != image.media_type:
        raise BadRequest(f"The picture is {image.media_type}, and not {declared}", words="picture_unknown")
    if not image.fits(MOST_PIXELS):
        raise _wrong_size()
    try:
        kept = without_metadata(image.media_type, content)
    except BrokenImage:
        raise BadRequest("The picture is broken", words="picture_broken") from None
    # Browsers get these bytes, and what was left out may have hidden their size.
    drawn = image_of(kept)
    if drawn is None or not drawn.fits(MOST_PIXELS):
        raise _wrong_size()
    return Picture(image.media_type, kept)


def _wrong_size() -> BadRequest:
    return BadRequest(f"The picture must have 1 to {MOST_PIXELS} pixels on a side", words="picture_size", values={"most": MOST_PIXELS})


class Portrait(Frozen):
    """What pages show of a person who is named: the picture, or initials on the person's colour."""

    picture: str
    """The path of the picture. Empty when there is none."""
    initials: str
    shade: int
    """The number of the person's colour. The stylesheet has as many colours as `SHADES`."""


SHADES: Final = 8


def portrait(user: UserId, profile: OwnProfile, email: Email) -> Portrait:
    """The colour comes from the id, so it stays when the name changes."""
    words = (profile.shown_name or email.address).split()
    letters = [next((letter for letter in word if letter.isalnum()), "") for word in (words[0], *words[1:][-1:])]
    path = "" if profile.picture is None else picture_path(profile.picture)
    return Portrait(path, "".join(letters).upper()[:2], user.int % SHADES)


def picture_path(picture: PictureId) -> str:
    """The path of a picture. Each picture has a new one, so browsers may keep it."""
    return f"/pictures/{picture}"


def picture_set(user: UserId, actor: Actor) -> Event:
    return Event("user.picture.set", actor, Target("user", str(user)))


def picture_removed(user: UserId, actor: Actor) -> Event:
    return Event("user.picture.removed", actor, Target("user", str(user)))
