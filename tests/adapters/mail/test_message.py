"""Composing mails: what the headers say, and what cannot be made to appear in them."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapters.mail.message import Letter, Sender, _headers, compose
from adapters.mail_address import MailAddress, MalformedAddress
from core.domain.mail import Mail
from ports.mail import MailRefused
from tests.adapters.mail.letters import ID, LINK, NOW, SENDER, mail

HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type", "Content-Language"]


def composed(one: Mail) -> Letter:
    return compose(one, ID, Sender.parse(SENDER), NOW)


def parsed(letter: Letter) -> EmailMessage:
    message = message_from_bytes(letter.content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_a_mail_has_a_text_and_an_html_part() -> None:
    message = parsed(composed(mail()))
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert LINK in text.get_content()
    assert LINK in html.get_content()
    assert message.get_content_type() == "multipart/alternative"


@given(st.text(st.one_of(st.sampled_from("\r\n .-=_part\t\x00\x0cü🔑"), st.characters(exclude_categories=["Cs"])), max_size=300))
@example("--=_part\r\n\r\nanother part\r\n--=_part--\r\n")
@example("\n.\n..\nFrom here \nto there\t\n \n")
@example("x" * 75 + " \n" + "é" * 40)
@example("")
def test_any_text_arrives_as_it_was_written(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    parts = list(parsed(composed(Mail("alice@example.org", "Hello", text, f"<p>{text}</p>"))).iter_parts())
    assert [part.get_content_type() for part in parts] == ["text/plain", "text/html"]
    assert parts[0].get_content() == "".join(f"{line}\r\n" for line in lines if text)
    assert b"\r\n.\r\n" not in composed(Mail("alice@example.org", "Hello", text, "")).content


def test_the_headers_say_who_when_and_which() -> None:
    message = parsed(composed(mail()))
    assert message.keys() == HEADERS
    assert message["From"] == SENDER
    assert message["To"] == "alice@example.org"
    assert message["Date"] == "Sun, 01 Mar 2026 12:30:00 +0000"
    assert message["Message-ID"] == f"<{ID}@id.example.org>"
    assert message["Auto-Submitted"] == "auto-generated"


def test_the_same_mail_has_the_same_message_id_at_every_attempt() -> None:
    first, second = composed(mail()), composed(mail())
    assert parsed(first)["Message-ID"] == parsed(second)["Message-ID"]


def test_a_subject_may_be_of_any_script() -> None:
    letter = composed(mail(subject="Neues Paßwort für Ωmega 🔑"))
    assert letter.content.isascii()
    assert parsed(letter)["Subject"] == "Neues Paßwort für Ωmega 🔑"


@pytest.mark.parametrize("length", range(30, 90))
def test_a_subject_keeps_its_spaces_wherever_its_lines_end(length: int) -> None:
    subject = f"{'a word ' * 12}"[:length].strip() + " für Müller & Söhne"
    assert parsed(composed(mail(subject=subject)))["Subject"] == subject


@pytest.mark.parametrize(
    "subject",
    [
        "Hello\r\nBcc: eve@example.org",
        "Hello\nBcc: eve@example.org",
        "Hello\rBcc: eve@example.org",
        "Hello\r\n\r\n<script>",
        "Hello\u2028Bcc: eve@example.org",
        "Hello\x00\x0b\x0c\x85Bcc: eve@example.org",
        "=?utf-8?q?Hello=0D=0ABcc:_eve@example.org?=",
        "Grüße\r\nBcc: eve@example.org",
    ],
)
def test_a_subject_cannot_add_a_header(subject: str) -> None:
    message = parsed(composed(mail(subject=subject)))
    assert message.keys() == HEADERS
    assert message.is_multipart()
    assert len(list(message.iter_parts())) == 2


@given(st.text(max_size=200))
def test_no_subject_whatever_adds_a_header(subject: str) -> None:
    try:
        message = parsed(composed(mail(subject=subject)))
    except MailRefused:
        return
    assert message.keys() == HEADERS


@given(st.text(max_size=80))
def test_no_recipient_whatever_adds_a_header_or_a_recipient(recipient: str) -> None:
    try:
        letter = composed(mail(to=f"alice{recipient}@example.org"))
    except MailRefused:
        return
    assert parsed(letter).keys() == HEADERS
    assert len(parsed(letter)["To"].addresses) == 1


@pytest.mark.parametrize(
    "recipient",
    [
        "alice@example.org\r\nBcc: eve@example.org",
        "alice@example.org\nRCPT TO:<eve@example.org>",
        "alice@example.org, eve@example.org",
        "alice@example.org,eve@example.org",
        "<alice@example.org>",
        "alice@example.org> SIZE=1",
        "Alice <alice@example.org>",
        "alice\x00@example.org",
        "alice @example.org",
        '"alice"@example.org',
        "alice(comment)@example.org",
        "alice@[127.0.0.1]",
        "alice@exa mple.org",
        "alice@-example.org",
        "alice@example..org",
        "=?utf-8?q?=0D=0ABcc=3Aeve?=@example.org",
        "alice@",
        "@example.org",
        "alice",
        "",
        "a" * 65 + "@example.org",
        "alice@" + "a" * 64 + ".org",
        "alice@" + ".".join(["a" * 60] * 5),
    ],
)
def test_what_is_no_plain_address_is_refused(recipient: str) -> None:
    with pytest.raises(MailRefused, match="Not an address") as refusal:
        composed(mail(to=recipient))
    assert "alice" not in str(refusal.value)


def test_a_header_that_is_not_ours_would_be_seen() -> None:
    """The last line of defence, behind checks that let none get so far."""
    assert _headers(b"From: a@example.org\r\nSubject: long\r\n one\r\nBcc: eve@example.org\r\n\r\nX: text") == [b"From", b"Subject", b"Bcc"]


def test_a_domain_of_another_script_is_written_in_ascii() -> None:
    letter = composed(mail(to="alice@bücher.example"))
    assert letter.recipient == "alice@xn--bcher-kva.example"
    assert not letter.is_international


def test_a_local_part_of_another_script_makes_the_mail_international() -> None:
    letter = composed(mail(to="älice@example.org"))
    assert letter.is_international
    assert "To: älice@example.org\r\n".encode() in letter.content


def test_a_text_that_cannot_be_encoded_is_refused_without_quoting_it() -> None:
    with pytest.raises(MailRefused, match="No mail can be made") as refusal:
        composed(Mail("alice@example.org", "Hello", f"\ud800 {LINK}", "<p></p>"))
    assert LINK not in str(refusal.value)


def test_every_line_is_short_and_seven_bit() -> None:
    letter = composed(Mail("alice@example.org", "ü" * 1000, "ü" * 5000 + "\n.\n", "<p>" + "x" * 5000 + "</p>"))
    assert letter.content.isascii()
    assert max(len(line) for line in letter.content.split(b"\r\n")) <= 998
    assert b"\n" not in letter.content.replace(b"\r\n", b"")


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("postern@localhost", "postern@localhost", ""),
        ("Postern <postern@localhost>", "postern@localhost", "Postern"),
        ('"Müller, Söhne" <post@müller.example>', "post@xn--mller-kva.example", "Müller, Söhne"),
    ],
)
def test_a_sender_is_an_address_with_or_without_a_name(text: str, address: str, name: str) -> None:
    sender = Sender.parse(text)
    assert (str(sender.address), sender.name) == (address, name)
    assert parsed(compose(mail(), ID, sender, NOW))["From"].addresses[0].display_name == name


@pytest.mark.parametrize(
    "text", ["", "Postern", "Postern <>", "a@b@c", "Postern <a@example.org>\r\nBcc: eve@example.org", "pöst@example.org"]
)
def test_other_senders_are_malformed(text: str) -> None:
    with pytest.raises(MalformedAddress):
        Sender.parse(text)


def test_an_address_prints_as_smtp_writes_it() -> None:
    assert str(MailAddress.parse("Alice.O'Neil+tag@EXAMPLE.org")) == "Alice.O'Neil+tag@example.org"
