"""The pictures of looks: what each may be, and what is cut away."""

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given, strategies

from core.domain.errors import BadRequest, PayloadTooLarge
from core.domain.images import image_of
from core.domain.tenancy.branding import LookPicture, look_picture
from tests.pictures import chunk, drawn_jpeg, drawn_png, drawn_webp, gif, part, segment

EXIF = b"Exif\0\0II*\0GPS 52.5200 13.4050"
APNG = chunk(b"acTL", pack(">II", 2, 0))
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
LOGO, DARK, FAVICON, BACKGROUND = LookPicture


def noise(size: int) -> bytes:
    """A chunk of pixels that is no smaller than this."""
    return chunk(b"IDAT", b"\0" * size)


@pytest.mark.parametrize("kind", LookPicture)
@pytest.mark.parametrize(
    "content",
    [drawn_png(2, 2, chunk(b"eXIf", EXIF), chunk(b"tEXt", EXIF)), drawn_webp(part(b"VP8 ", b"\0" * 10), part(b"EXIF", EXIF), width=32)],
)
def test_metadata_are_dropped(kind: LookPicture, content: bytes) -> None:
    kept = look_picture(content, kind.bounds)
    assert EXIF not in kept.content
    assert image_of(kept.content) == image_of(content)


def test_the_place_where_a_photograph_was_taken_is_dropped() -> None:
    assert EXIF not in look_picture(drawn_jpeg(segment(0xE1, EXIF)), BACKGROUND.bounds).content


@pytest.mark.parametrize("behind", [b"<script>alert(1)</script>", b"%PDF-1.7", b"PK\x03\x04", drawn_png()])
@pytest.mark.parametrize("content", [drawn_png(), drawn_jpeg()])
def test_what_lies_behind_the_end_is_cut_off(content: bytes, behind: bytes) -> None:
    assert behind not in look_picture(content + behind, BACKGROUND.bounds).content[len(content) - 4 :]
    assert look_picture(content + behind, BACKGROUND.bounds).content == look_picture(content, BACKGROUND.bounds).content


def test_what_lies_behind_the_end_of_a_webp_makes_it_no_picture() -> None:
    with pytest.raises(BadRequest, match="broken"):
        look_picture(drawn_webp(part(b"VP8 ", b"\0" * 10)) + b"<script>alert(1)</script>", BACKGROUND.bounds)


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        *((kind, SVG, "picture_unknown") for kind in LookPicture),
        *((kind, b"<?xml version='1.0'?>" + SVG, "picture_unknown") for kind in LookPicture),
        *((kind, gif(32, 32), "picture_unknown") for kind in LookPicture),
        *((kind, drawn_png(2, 2, APNG), "picture_animated") for kind in LookPicture),
        *((kind, drawn_webp(part(b"ANIM", b"\0" * 6), width=32), "picture_animated") for kind in LookPicture),
        *((kind, drawn_webp(part(b"ANMF", b"\0" * 16), width=32), "picture_animated") for kind in LookPicture),
        *((kind, drawn_png()[:40], "picture_broken") for kind in LookPicture),
        *((kind, b"", "picture_unknown") for kind in LookPicture),
        (LOGO, drawn_png(2049, 1), "picture_size"),
        (DARK, drawn_png(1, 2049), "picture_size"),
        (FAVICON, drawn_png(513, 513), "picture_size"),
        (BACKGROUND, drawn_png(2049, 1), "picture_size"),
        (FAVICON, drawn_png(32, 31), "favicon_square"),
        (FAVICON, drawn_jpeg(width=32, height=32), "favicon_type"),
    ],
)
def test_everything_else_is_refused_in_words(kind: LookPicture, content: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        look_picture(content, kind.bounds)
    assert refusal.value.words == words


@pytest.mark.parametrize(("kind", "kib"), [(LOGO, 256), (DARK, 256), (FAVICON, 32), (BACKGROUND, 200)])
def test_a_picture_has_a_largest_size(kind: LookPicture, kib: int) -> None:
    small = drawn_png(2, 2)
    fits = small[:-12] + noise((kib << 10) - len(small) - 12) + small[-12:]
    assert len(fits) == kib << 10
    look_picture(fits, kind.bounds)
    with pytest.raises(PayloadTooLarge, match=f"{kib} KiB"):
        look_picture(fits + b"\0", kind.bounds)


@given(
    strategies.sampled_from(LookPicture),
    strategies.sampled_from([b"", drawn_png()[:50], drawn_jpeg()[:30], drawn_webp(part(b"VP8 ", b"\0" * 10))[:40]]),
    strategies.binary(max_size=200),
)
def test_no_bytes_are_too_much(kind: LookPicture, beginning: bytes, rest: bytes) -> None:
    with suppress(BadRequest):
        look_picture(beginning + rest, kind.bounds)
