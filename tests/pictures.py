"""The smallest pictures whose bytes tell their format and their size."""

from struct import pack


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
