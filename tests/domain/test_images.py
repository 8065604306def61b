"""Pictures in files: what stays of them when their metadata go."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies

from core.domain.images import BrokenImage, image_of, without_metadata
from tests.pictures import chunk, drawn_jpeg, drawn_png, drawn_webp, part, segment

SECRET = b"48.2082 N 16.3738 E"
PNG_METADATA = [chunk(kind, SECRET) for kind in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME", b"prVt")]
JPEG_METADATA = [
    segment(0xE1, b"Exif\0\0" + SECRET),
    segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + SECRET),
    segment(0xE2, b"MPF\0" + SECRET),
    segment(0xED, b"Photoshop 3.0\0" + SECRET),
    segment(0xFE, SECRET),
    segment(0xE0, b"JFXX\0" + SECRET),
    segment(0xC8, SECRET),
    segment(0xD8, SECRET),
]
ICC = b"ICC_PROFILE\0\1\1colours"
BITS = part(b"VP8L", b"\x2f" + b"\0" * 6)


@pytest.mark.parametrize("metadata", PNG_METADATA, ids=lambda one: one[4:8].decode())
def test_a_png_loses_its_metadata(metadata: bytes) -> None:
    assert without_metadata("image/png", drawn_png(2, 2, metadata)) == drawn_png()


def test_a_png_keeps_what_is_drawn_and_ends_at_its_end() -> None:
    kept = [chunk(kind, b"abc") for kind in (b"PLTE", b"tRNS", b"iCCP", b"sRGB", b"gAMA", b"pHYs", b"acTL", b"fcTL", b"fdAT")]
    picture = drawn_png(2, 2, *kept)
    assert without_metadata("image/png", picture + SECRET) == picture


@pytest.mark.parametrize("metadata", JPEG_METADATA, ids=lambda one: one[1:9].hex())
def test_a_jpeg_loses_its_metadata(metadata: bytes) -> None:
    assert without_metadata("image/jpeg", drawn_jpeg(metadata)) == drawn_jpeg()


def test_a_jpeg_keeps_what_is_drawn_and_loses_its_thumbnail_and_further_pictures() -> None:
    head, profile, adobe = b"JFIF\0\1\2\0\0\1\0\1", segment(0xE2, ICC), segment(0xEE, b"Adobe\0d\0\0\0\0\1")
    with_thumbnail = drawn_jpeg(segment(0xE0, head + b"\1\1" + b"rgb"), profile, adobe)
    expected = drawn_jpeg(segment(0xE0, head + b"\0\0"), profile, adobe)
    assert without_metadata("image/jpeg", with_thumbnail + drawn_jpeg(segment(0xFE, SECRET))) == expected


def test_a_jpeg_may_fill_between_its_segments() -> None:
    assert without_metadata("image/jpeg", drawn_jpeg(b"\xff\xff\xff")) == drawn_jpeg()


def test_a_webp_loses_its_metadata_also_within_frames_and_says_so() -> None:
    frame = b"\0" * 16
    picture = drawn_webp(
        part(b"ICCP", ICC), part(b"ANMF", frame + BITS + part(b"note", SECRET)), part(b"EXIF", SECRET), part(b"XMP ", SECRET)
    )
    stripped = without_metadata("image/webp", picture + SECRET[:0])
    assert SECRET not in stripped
    assert stripped[20] == 0
    assert int.from_bytes(stripped[4:8], "little") == len(stripped) - 8
    assert stripped.endswith(part(b"ICCP", ICC) + part(b"ANMF", frame + BITS))
    assert image_of(stripped) == image_of(picture)


@pytest.mark.parametrize("picture", [drawn_png(), drawn_jpeg(), drawn_webp(BITS)], ids=["png", "jpeg", "webp"])
def test_a_picture_that_was_cut_off_is_broken(picture: bytes) -> None:
    found = image_of(picture)
    assert found is not None
    assert without_metadata(found.media_type, without_metadata(found.media_type, picture)) == without_metadata(found.media_type, picture)
    for length in range(12, len(picture) - 1):
        if found.media_type == "image/webp" and length in {12, 30}:
            continue  # the file ends between two parts
        with pytest.raises(BrokenImage):
            without_metadata(found.media_type, picture[:length])


def test_a_picture_of_endless_segments_is_broken() -> None:
    with pytest.raises(BrokenImage):
        without_metadata("image/png", drawn_png(2, 2, *([chunk(b"tEXt")] * 600)))
    with pytest.raises(BrokenImage):
        without_metadata("image/jpeg", drawn_jpeg(*([segment(0xFE, b"")] * 600)))
    with pytest.raises(BrokenImage):
        without_metadata("image/webp", drawn_webp(*([part(b"note", b"")] * 600)))
    with pytest.raises(BrokenImage):
        without_metadata("image/gif", b"GIF89a")


def test_a_wrong_checksum_is_broken() -> None:
    with pytest.raises(BrokenImage):
        without_metadata("image/png", drawn_png(2, 2, b"\0\0\0\1tEXtx\0\0\0\0"))


@given(strategies.sampled_from(["image/png", "image/jpeg", "image/webp"]), strategies.binary(max_size=300))
def test_any_bytes_are_a_picture_or_broken(media_type: str, content: bytes) -> None:
    with suppress(BrokenImage):
        without_metadata(media_type, content)
