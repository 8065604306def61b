"""The smallest pictures whose bytes tell their format and their size."""

from struct import pack
from zlib import compress, crc32


def png(width: int = 64, height: int = 32, padding: int = 0) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\0\0\0" + b"\0" * padding


def gif(width: int = 64, height: int = 32) -> bytes:
    return b"GIF89a" + pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int = 64, height: int = 32, *before: bytes) -> bytes:
    segments = b"".join(b"\xff\xe0" + pack(">H", len(one) + 2) + one for one in before)
    return b"\xff\xd8" + segments + b"\xff\xc0" + pack(">HBHH", 17, 8, height, width) + b"\0" * 12 + b"\xff\xd9"


def webp(kind: str = "VP8X", width: int = 64, height: int = 32) -> bytes:
    body = {
        "VP8X": b"\0\0\0\0" + pack("<I", width - 1)[:3] + pack("<I", height - 1)[:3],
        "VP8L": b"\x2f" + pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 5,
        "VP8 ": b"\0\0\0\x9d\x01\x2a" + pack("<HH", width, height),
    }.get(kind, b"\0" * 10)
    return b"RIFF" + pack("<I", len(body) + 12) + b"WEBP" + kind.encode() + pack("<I", len(body)) + body


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return pack(">I", len(body)) + kind + body + pack(">I", crc32(kind + body))


def drawn_png(width: int = 2, height: int = 2, *metadata: bytes) -> bytes:
    """A picture that browsers draw, with these chunks between its head and its pixels."""
    head = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", compress((b"\0" + b"\x0f\x5f\x5c" * width) * height))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(metadata) + pixels + chunk(b"IEND")


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + pack(">H", len(body) + 2) + body


def drawn_jpeg(*metadata: bytes, width: int = 64, height: int = 32) -> bytes:
    """The segments of a picture with one scan, whose data have an escaped 0xFF and a restart marker."""
    frame = segment(0xC0, pack(">BHHB", 8, height, width, 1) + b"\1\x11\0")
    tables = segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC4, b"\0" * 17)
    scan = segment(0xDA, b"\1\1\0\0\x3f\0") + b"\x12\xff\0\x34\xff\xd0\x56"
    return b"\xff\xd8" + b"".join(metadata) + tables + frame + scan + b"\xff\xd9"


def part(kind: bytes, body: bytes) -> bytes:
    return kind + pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def drawn_webp(*parts: bytes, width: int = 64, height: int = 32) -> bytes:
    """An extended file, which announces EXIF and XMP."""
    head = part(b"VP8X", b"\x0c\0\0\0" + pack("<I", width - 1)[:3] + pack("<I", height - 1)[:3])
    body = b"WEBP" + head + b"".join(parts)
    return b"RIFF" + pack("<I", len(body)) + body


def checked_png(height: int, color: str) -> bytes:
    """A board of white and this colour, on which nothing could be read: three times as wide as it is high."""
    inked, size = bytes.fromhex(color[1:]), height // 2 or 1
    wide = 3 * height
    lines = [b"".join((b"\xff\xff\xff", inked)[(across // size + odd) % 2] for across in range(wide)) for odd in (0, 1)]
    rows = [b"\0" + lines[down // size % 2] for down in range(height)]
    head = chunk(b"IHDR", pack(">IIBBBBB", wide, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", compress(b"".join(rows))) + chunk(b"IEND")
