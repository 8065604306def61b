"""The looks that an organization sets: the address of its logo, which we fetch and store, and its colour."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Final

from core.domain.branding import brand_color
from core.domain.changes import Unchanged
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.json import Json
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

LARGEST_LOGO: Final = 256 << 10
# A picture of a few kilobytes may claim a huge size, and a browser would reserve memory for it.
MOST_PIXELS: Final = 4096
_MOST_SEGMENTS: Final = 500
TIMEOUT: Final = timedelta(seconds=10)


class OrganizationLook(Frozen):
    logo_url: str | None
    primary_color: str | None


class Logo(Frozen):
    """The picture that pages show."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return sha256(self.content).hexdigest()


class LookChange(Frozen):
    """A change of the looks. None removes a value."""

    logo_url: str | Unchanged | None
    primary_color: str | Unchanged | None

    def require_something(self) -> None:
        if isinstance(self.logo_url, Unchanged) and isinstance(self.primary_color, Unchanged):
            raise BadRequest("Send at least one of logo_url and primary_color")

    def applied(self, look: OrganizationLook) -> OrganizationLook:
        """Raises `BadRequest`."""
        return OrganizationLook(
            look.logo_url if isinstance(self.logo_url, Unchanged) else self.logo_url,
            look.primary_color if isinstance(self.primary_color, Unchanged) else _color(self.primary_color),
        )


def logo_destination(text: str) -> OutboundDestination:
    """Raises `BadRequest`."""
    try:
        return destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"logo_url: {refusal}") from None


def logo_of(status: int, content: bytes) -> Logo:
    """The logo in the answer to our request. Raises `BadRequest`."""
    if status != 200:
        raise BadRequest(f"logo_url: the server answered {status} in place of a picture; redirects are not followed")
    if len(content) > LARGEST_LOGO:
        raise BadRequest(f"logo_url: the picture has more than {LARGEST_LOGO >> 10} KiB")
    for media_type, measure in _KINDS:
        size = measure(content)
        if size is not None:
            if not all(1 <= side <= MOST_PIXELS for side in size):
                raise BadRequest(f"logo_url: the picture has more than {MOST_PIXELS} pixels on a side")
            return Logo(media_type, content)
    raise BadRequest("logo_url: there is no PNG, JPEG, WebP or GIF picture")


def branding_updated(
    organization: OrganizationId, before: OrganizationLook, after: OrganizationLook, actor: Actor, *, new_logo: bool
) -> Event:
    changed: list[Json] = []
    details: dict[str, Json] = {"changed": changed}
    for field, was, now in (
        ("logo_url", before.logo_url, after.logo_url),
        ("primary_color", before.primary_color, after.primary_color),
    ):
        if was != now or (new_logo and field == "logo_url"):
            changed.append(field)
            details |= {f"old_{field}": was, f"new_{field}": now}
    return Event("branding.updated", actor, Target("organization", str(organization)), organization, details)


def _color(text: str | None) -> str | None:
    if text is None:
        return None
    color = brand_color(text.strip())
    if color is None:
        raise BadRequest("primary_color: must be a colour like #0f5f5c")
    return color


# The bytes of a picture decide its kind, whatever its server calls it. SVG is not accepted, because an SVG is a document with scripts.
def _png(content: bytes) -> Sequence[int] | None:
    if not content.startswith(b"\x89PNG\r\n\x1a\n") or content[12:16] != b"IHDR":
        return None
    return _big(content[16:20]), _big(content[20:24])


def _gif(content: bytes) -> Sequence[int] | None:
    return (_little(content[6:8]), _little(content[8:10])) if content.startswith((b"GIF87a", b"GIF89a")) else None


def _webp(content: bytes) -> Sequence[int] | None:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    kind, body = content[12:16], content[20:30]
    if kind == b"VP8X":
        return _little(body[4:7]) + 1, _little(body[7:10]) + 1
    if kind == b"VP8L":
        packed = _little(body[1:5])
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    return (_little(body[6:8]) & 0x3FFF, _little(body[8:10]) & 0x3FFF) if kind == b"VP8 " else None


def _jpeg(content: bytes) -> Sequence[int] | None:
    """Goes from segment to segment until one contains the size."""
    if not content.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    # A camera writes a few dozen segments. More would only cost processor time.
    for _ in range(_MOST_SEGMENTS):
        if at + 9 > len(content) or content[at] != 0xFF:
            break
        marker, length = content[at + 1], _big(content[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _big(content[at + 7 : at + 9]), _big(content[at + 5 : at + 7])
        at += 2 + length
    return None


def _big(part: bytes) -> int:
    return int.from_bytes(part, "big")


def _little(part: bytes) -> int:
    return int.from_bytes(part, "little")


_KINDS: Final = (("image/png", _png), ("image/jpeg", _jpeg), ("image/webp", _webp), ("image/gif", _gif))
