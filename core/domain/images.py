"""Images: their type, their size, and the parts that browsers need to draw them."""

import re
import zlib
from collections.abc import Iterator
from typing import Final

from core.frozen import Frozen

# A camera writes a few dozen segments, and an editor a few hundred. More would only cost processor time.
_MOST_SEGMENTS: Final = 500
# A frame of an animation has its picture and its transparency.
_MOST_IN_FRAME: Final = 8
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MOVING_IN_PNG: Final = frozenset((b"acTL", b"fcTL", b"fdAT"))
# PNG's critical chunks, transparency, colours, pixel shape, and the frames of animations (PNG, third edition, sections 11 and 12). Texts,
# EXIF and times are absent from the list.
_DRAWN_IN_PNG: Final = (
    frozenset((b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT", b"sRGB", b"cICP", b"bKGD", b"pHYs"))
    | _MOVING_IN_PNG
)
_MOVING_IN_WEBP: Final = frozenset((b"ANIM", b"ANMF"))
_DRAWN_IN_WEBP: Final = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ICCP")) | _MOVING_IN_WEBP
_DRAWN_IN_FRAME: Final = frozenset((b"VP8 ", b"VP8L", b"ALPH"))
_FRAME_HEAD: Final = 16
# The flags of VP8X that announce EXIF and XMP.
_WEBP_METADATA: Final = 0x0C
_JFIF: Final = b"JFIF\x00"
_JFIF_HEAD: Final = 14
# Frames, scans, and the tables and numbers that they need (ITU-T T.81, table B.1).
_DRAWN_IN_JPEG: Final = frozenset(range(0xC0, 0xD0)) - {0xC8} | {0xDA, 0xDB, 0xDC, 0xDD}
_COLOUR_PROFILE: Final = b"ICC_PROFILE\x00"
_ADOBE: Final = b"Adobe"


class Image(Frozen):
    """The kind and the size that the bytes of a picture state."""

    media_type: str
    width: int
    height: int

    def fits(self, most: int) -> bool:
        """Whether each side has between 1 and so many pixels. A picture of a few kilobytes may claim a huge size, and a browser would
        reserve memory for it.
        """
        return 1 <= self.width <= most and 1 <= self.height <= most


class BrokenImage(Exception):
    """The bytes end too early, or are no picture of the kind that they begin as."""


def image_of(content: bytes) -> Image | None:
    """Returns the type and size by the bytes, whatever the sender calls them. SVG is not accepted, because an SVG is a document with
    scripts. None when the bytes are no PNG, JPEG, WebP or GIF.
    """
    for media_type, measure in _KINDS:
        size = measure(content)
        if size is not None:
            return Image(media_type, *size)
    return None


def without_metadata(media_type: str, content: bytes) -> bytes:
    """The picture with the parts alone that are drawn, and its colour profile. Cameras write the place where a picture was taken into it.
    Raises `BrokenImage`.
    """
    match media_type:
        case "image/png":
            return _PNG + b"".join(_drawn_chunks(content))
        case "image/jpeg":
            return b"\xff\xd8" + b"".join(_drawn_segments(content))
        case "image/webp":
            parts = b"".join(_drawn_parts(content[12:], _DRAWN_IN_WEBP))
            return b"RIFF" + (len(parts) + 4).to_bytes(4, "little") + b"WEBP" + parts
    raise BrokenImage


def is_animated(media_type: str, content: bytes) -> bool:
    """Whether a picture that has come through `without_metadata` moves. JPEG knows no animations."""
    if media_type == "image/png":
        return any(chunk[4:8] in _MOVING_IN_PNG for chunk in _drawn_chunks(content))
    return media_type == "image/webp" and any(part[:4] in _MOVING_IN_WEBP for part in _drawn_parts(content[12:], _DRAWN_IN_WEBP))


def _drawn_chunks(content: bytes) -> Iterator[bytes]:
    at = len(_PNG)
    for _ in range(_MOST_SEGMENTS):
        kind, end = content[at + 4 : at + 8], at + 12 + _big(content[at : at + 4])
        if end > len(content) or zlib.crc32(content[at + 4 : end - 4]) != _big(content[end - 4 : end]):
            raise BrokenImage
        if kind in _DRAWN_IN_PNG:
            yield content[at:end]
        if kind == b"IEND":
            return  # anything behind it is no part of the picture
        at = end
    raise BrokenImage


def _drawn_segments(content: bytes) -> Iterator[bytes]:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        # A marker may be preceded by any number of fill bytes. Searched in C: a file of them would cost a loop 20 milliseconds.
        filled = _FILL.match(content, at)
        at = at if filled is None else filled.end()
        if at + 2 > len(content) or content[at] != 0xFF:
            raise BrokenImage
        marker = content[at + 1]
        if marker == 0xD9:
            yield content[at : at + 2]
            return  # cameras append whole further pictures
        length = _big(content[at + 2 : at + 4])
        end = at + 2 + length
        if length < 2 or end > len(content):
            raise BrokenImage
        yield _drawn_segment(marker, content[at:end])
        if marker == 0xDA:
            at, end = end, _end_of_scan(content, end)
            yield content[at:end]
        at = end
    raise BrokenImage


def _drawn_segment(marker: int, segment: bytes) -> bytes:
    body = segment[4:]
    if marker == 0xE0 and body.startswith(_JFIF) and len(body) >= _JFIF_HEAD:
        # A thumbnail may show what was cut away from the picture. Two zeros say that there is none.
        return b"\xff\xe0\x00\x10" + body[: _JFIF_HEAD - 2] + b"\x00\x00"
    is_drawn = (
        marker in _DRAWN_IN_JPEG
        or (marker == 0xE2 and body.startswith(_COLOUR_PROFILE))
        or (marker == 0xEE and body.startswith(_ADOBE))  # says how the colours are coded
    )
    return segment if is_drawn else b""


def _end_of_scan(content: bytes, at: int) -> int:
    """The place of the marker behind the data of a scan. In the data, 0xFF is followed by 0 or by one of the eight restart markers."""
    found = _BEHIND_SCAN.search(content, at)
    if found is None:
        raise BrokenImage
    return found.start()


_FILL: Final = re.compile(rb"\xff+(?=\xff)")
_BEHIND_SCAN: Final = re.compile(rb"\xff[^\x00\xd0-\xd7]", re.DOTALL)


def _drawn_parts(content: bytes, drawn: frozenset[bytes], most: int = _MOST_SEGMENTS) -> Iterator[bytes]:
    at = 0
    for _ in range(most):
        if at >= len(content):
            return
        kind, length = content[at : at + 4], _little(content[at + 4 : at + 8])
        end = at + 8 + length
        if end > len(content):
            raise BrokenImage
        body = content[at + 8 : end]
        if kind in drawn:
            yield _part(kind, _drawn_part(kind, body))
        at = end + length % 2
    raise BrokenImage


def _drawn_part(kind: bytes, body: bytes) -> bytes:
    if kind == b"VP8X" and body:
        return bytes((body[0] & ~_WEBP_METADATA,)) + body[1:]
    if kind == b"ANMF":
        return body[:_FRAME_HEAD] + b"".join(_drawn_parts(body[_FRAME_HEAD:], _DRAWN_IN_FRAME, _MOST_IN_FRAME))
    return body


def _part(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "little") + body + b"\x00" * (len(body) % 2)


def _png(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(_PNG) or content[12:16] != b"IHDR":
        return None
    return _big(content[16:20]), _big(content[20:24])


def _gif(content: bytes) -> tuple[int, int] | None:
    return (_little(content[6:8]), _little(content[8:10])) if content.startswith((b"GIF87a", b"GIF89a")) else None


def _webp(content: bytes) -> tuple[int, int] | None:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    kind, body = content[12:16], content[20:30]
    if kind == b"VP8X":
        return _little(body[4:7]) + 1, _little(body[7:10]) + 1
    if kind == b"VP8L":
        packed = _little(body[1:5])
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    return (_little(body[6:8]) & 0x3FFF, _little(body[8:10]) & 0x3FFF) if kind == b"VP8 " else None


def _jpeg(content: bytes) -> tuple[int, int] | None:
    """Goes from segment to segment until one contains the size."""
    if not content.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
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
