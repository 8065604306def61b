"""An organization's branding: bytes that count as a picture, and the event of a change."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given, strategies

from core.domain.branding import Font, Look
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.record.events import SYSTEM
from core.domain.requests import UNCHANGED
from core.domain.tenancy.branding import (
    LARGEST_LOGO,
    MOST_LOGO_PIXELS,
    LookChange,
    LookPicture,
    OrganizationLook,
    branding_updated,
    logo_destination,
    logo_of,
    picture_changed,
)
from tests.hostile_addresses import HOSTILE_URLS
from tests.pictures import gif, jpeg, png, webp

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
NOTHING = OrganizationLook(None, None)
DIGEST = "0f" * 32


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (png(), "image/png"),
        (gif(), "image/gif"),
        (jpeg(), "image/jpeg"),
        (jpeg(64, 32, b"JFIF", b"Exif"), "image/jpeg"),
        *((webp(kind), "image/webp") for kind in ("VP8X", "VP8L", "VP8 ")),
        (png(MOST_LOGO_PIXELS, MOST_LOGO_PIXELS), "image/png"),
        (png(padding=LARGEST_LOGO - len(png())), "image/png"),
    ],
)
def test_a_picture_is_what_its_bytes_say(content: bytes, media_type: str) -> None:
    logo = logo_of(200, content)
    assert (logo.media_type, logo.content, len(logo.digest)) == (media_type, content, 64)


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (302, png(), "redirects are not followed"),
        (404, png(), "answered 404"),
        (200, png(padding=LARGEST_LOGO), "more than 256 KiB"),
        (200, SVG, "not return a PNG"),
        (200, b"", "not return a PNG"),
        (200, b"<html>" + png(), "not return a PNG"),
        (200, png()[:10], "not return a PNG"),
        (200, b"RIFF\0\0\0\0WAVEfmt ", "not return a PNG"),
        (200, webp("ANIM"), "not return a PNG"),
        (200, b"\xff\xd8\xff\xe0\0\x02", "not return a PNG"),
        (200, b"\xff\xd8\xff" + b"\xe0\0\x02\xff" * 1000 + jpeg(), "not return a PNG"),
        (200, png(MOST_LOGO_PIXELS + 1, 1), "pixels"),
        (200, png(0, 1), "pixels"),
        (200, png()[:18], "pixels"),
        (200, gif(60000, 60000), "pixels"),
        (200, jpeg(1, MOST_LOGO_PIXELS + 1), "pixels"),
        *((200, webp(kind, 16000, 1), "pixels") for kind in ("VP8X", "VP8L", "VP8 ")),
    ],
)
def test_everything_else_is_refused_in_words(status: int, content: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        logo_of(status, content)


@given(strategies.sampled_from([b"", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBPVP8 ", b"\x89PNG\r\n\x1a\n0000IHDR"]), strategies.binary())
def test_no_bytes_are_too_much(beginning: bytes, rest: bytes) -> None:
    with suppress(BadRequest):
        logo_of(200, beginning + rest)


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_what_some_read_as_another_host_is_no_address_of_a_logo(url: str) -> None:
    with pytest.raises(BadRequest, match="logo_url"):
        logo_destination(url)


@pytest.mark.parametrize("color", ["", "red", "#fff", "#12345g", "#123456;x", "#1234567", "url(x)"])
def test_a_colour_has_one_form(color: str) -> None:
    with pytest.raises(BadRequest, match="primary_color"):
        LookChange(UNCHANGED, color).applied(NOTHING)


def test_what_is_left_out_stays() -> None:
    look = OrganizationLook("https://a.example/", "#000000")
    assert LookChange(UNCHANGED, "#A01040").applied(look) == OrganizationLook("https://a.example/", "#a01040")
    assert LookChange(None, UNCHANGED).applied(look) == OrganizationLook(None, "#000000")
    assert LookChange(UNCHANGED, None).applied(look) == OrganizationLook("https://a.example/", None)
    LookChange(None, UNCHANGED).require_something()
    with pytest.raises(BadRequest):
        LookChange(UNCHANGED, UNCHANGED).require_something()


def test_a_change_tells_before_and_after() -> None:
    organization = OrganizationId(UUID(int=1))
    event = branding_updated(organization, NOTHING, OrganizationLook(None, "#000000"), SYSTEM, new_logo=False)
    assert event.details == {"changed": ["primary_color"], "old_primary_color": None, "new_primary_color": "#000000"}
    again = OrganizationLook("https://a.example/", None)
    assert branding_updated(organization, again, again, SYSTEM, new_logo=True).details["changed"] == ["logo_url"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (LookChange(second_color="red"), "color_malformed"),
        (LookChange(second_color="#ffe066"), "color_pale"),
        (LookChange(corner=5), "corner_unknown"),
        (LookChange(corner=-4), "corner_unknown"),
    ],
)
def test_a_look_that_cannot_be_is_refused(change: LookChange, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        change.applied(NOTHING)
    assert refusal.value.words == words


def test_a_pale_second_colour_is_refused_with_the_nearest_and_that_is_taken() -> None:
    with pytest.raises(BadRequest) as refusal:
        LookChange(second_color="#ffe066").applied(NOTHING)
    nearest = str(refusal.value.values["nearest"])
    assert nearest in refusal.value.message
    assert LookChange(second_color=nearest.upper()).applied(NOTHING).look.second_color == nearest


def test_parts_of_the_look_change_one_by_one() -> None:
    look = OrganizationLook(None, None, look=Look(second_color="#a01040", corner=4, font=Font.SERIF, background=DIGEST))
    assert LookChange(corner=None).applied(look).look == Look(second_color="#a01040", font=Font.SERIF, background=DIGEST)
    assert LookChange(second_color=None, font=Font.MONO).applied(look).look == Look(corner=4, font=Font.MONO, background=DIGEST)
    event = branding_updated(OrganizationId(UUID(int=1)), look, LookChange(corner=0).applied(look), SYSTEM, new_logo=False)
    assert event.details == {"changed": ["corner"], "old_corner": 4, "new_corner": 0}


def test_each_picture_has_its_place() -> None:
    look = OrganizationLook("https://a.example/", None, logo_digest="1" * 64)
    assert look.with_picture(LookPicture.LOGO, DIGEST) == OrganizationLook(None, None, logo_digest=DIGEST)
    for kind in set(LookPicture) - {LookPicture.LOGO}:
        changed = look.with_picture(kind, DIGEST)
        assert changed.digest_of(kind) == DIGEST
        assert changed.with_picture(kind, None) == look
        assert picture_changed(OrganizationId(UUID(int=1)), kind, look, SYSTEM).details == {"changed": [kind.value]}
