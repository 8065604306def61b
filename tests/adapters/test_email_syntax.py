"""Postern accepts e-mail addresses to which mail can be sent."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.mail.message import Sender, compose
from adapters.mail_address import LibraryEmailSyntax
from core.domain.errors import BadRequest
from core.domain.mail import Email
from tests.adapters.mail.letters import ID, NOW, SENDER, mail

# Such as are mostly taken, such as are mostly not, and characters whose company matters, a few at a time.
LOCAL_PARTS = (
    st.text(st.characters(categories=["L", "M", "N", "P", "S"]), min_size=1, max_size=25)
    | st.text(max_size=70)
    | st.text(st.sampled_from("ab.=?'\u00e9\u0301\u034f\u037e\u094d\u1160\u200d\u20ac\u2764\u2800\ufe0f\U0001f600"), min_size=1, max_size=6)
)
DOMAINS = st.sampled_from(["example.org", "b\u00fccher.example.org", "\u4f8b\u5b50.\u4e2d\u56fd", f"{'.'.join(['b' * 60] * 3)}.org"])


@pytest.mark.parametrize(
    "text",
    ["a@example.com", "First.Last+tag@sub.example.org", "Ünïcode@exämple.de", "owner@postern.local", "a@b.test", f"{'a' * 64}@example.com"],
)
def test_an_address_is_kept_as_its_owner_wrote_it(text: str) -> None:
    assert LibraryEmailSyntax().parse(text).address == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "@example.com",
        "a@",
        "a@b",
        "a b@example.com",
        " a@example.com",
        "a@example.com\n",
        "a@example.com\r\nBcc: b@example.com",
        "Name <a@example.com>",
        "a@[127.0.0.1]",
        "a@exa\0mple.com",
        f"{'a' * 65}@example.com",
        f"a@{'b.' * 200}com",
        "a@b@example.com",
        "=?x@example.com",
        "=?utf-8?q?=0D=0ABcc=3Aeve?=@example.com",
        "\u2800\u2800@example.com",  # blank Braille
        "a\u2800@example.com",
        "\u115f@example.com",  # a filler
        "a\u1160b@example.com",
        "a\u034fb@example.com",  # a joiner
        "a\u200db@example.com",
        "a\u00adb@example.com",
        "\u2764\ufe0f@example.com",  # a variation selector
        "a\U000e0100@example.com",
        "a\u0378b@example.com",  # unassigned
        "a\ue000b@example.com",  # for private use
        "a\ufffd@example.com",
        "a\u202eb@example.com",
        "a\u037e\u00e9@example.com",  # in NFC a semicolon
        "\u0301a@example.com",  # a mark on nothing
        "a.\u0301b@example.com",
        "\u0905" * 22 + "@example.com",  # 66 octets
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid"):
        LibraryEmailSyntax().parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "\ufb01nn@example.com",  # a ligature: compared as finn
        "\uff55ser@example.com",  # a wide letter
        "\u212aurt@example.com",  # the sign for kelvin
        "wei\u00df@example.com",
        "boss@he\u00dfen.de",  # mailed to hessen.de
        "a@\u03b1\u03c2.gr",  # a final sigma: mailed to the domain with a plain one
        "a@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.com",  # a joiner that IDNA 2003 drops
    ],
)
def test_what_would_be_taken_for_somebody_elses_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid"):
        LibraryEmailSyntax().parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "e\u0301va@example.com",
        "\u00c9va@Ex\u00e4mple.DE",
        "a@xn--heen-7na.de",
        "\u7528\u6237@\u4f8b\u5b50.\u4e2d\u56fd",
        "\u0939\u093f\u0928\u094d\u0926\u0940@example.com",  # Hindi, with marks
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35@example.com",  # Thai
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd@example.com",  # Tamil
        "col\u00b7lega@example.com",
        "ada\u20ac@example.com",
        "\U0001f600@example.com",
    ],
)
def test_other_scripts_and_forms_stay_welcome(text: str) -> None:
    assert LibraryEmailSyntax().parse(text).address == text


@given(LOCAL_PARTS, DOMAINS)
def test_a_mail_can_be_composed_to_every_accepted_address(local: str, domain: str) -> None:
    try:
        email = LibraryEmailSyntax().parse(f"{local}@{domain}")
    except BadRequest:
        return
    letter = compose(mail(to=email.address), ID, Sender.parse(SENDER), NOW)
    assert f"\r\nTo: {letter.recipient}\r\n".encode() in letter.content
    assert Email(letter.recipient).key.rpartition("@")[0] == email.key.rpartition("@")[0]


def test_what_is_compared_as_one_address_in_two_forms_is_mailed_as_one() -> None:
    """Both forms lead to one mailbox: nobody keeps its owner out by registering the other form for a mailbox of their own."""
    forms = [unicodedata.normalize(form, "\u00e9va@example.com") for form in ("NFC", "NFD")]
    first, second = (LibraryEmailSyntax().parse(form) for form in forms)
    assert first.key == second.key
    letters = [compose(mail(to=email.address), ID, Sender.parse(SENDER), NOW) for email in (first, second)]
    assert [letter.recipient for letter in letters] == ["\u00e9va@example.com"] * 2
