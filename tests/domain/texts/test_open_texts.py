"""The open list: what organizations may put their own words in place of, and what stays ours for good."""

import re
from typing import Final

import pytest

from adapters.texts import ShippedTexts
from core.domain.languages import Language
from core.domain.texts.own_texts import FOOTER, NOTICE, OPEN_TEXTS, TextKind, is_open
from core.domain.texts.rules import PLACEHOLDER
from tests.places import PAGES, ROOT

ENGLISH: Final = ShippedTexts(PAGES).written(Language.ENGLISH)
# Whole pages and mails by which a person decides, or learns what happened to the account. Nobody else writes a word of them.
CLOSED: Final = re.compile(
    r"(consent|confirm_membership|ownership|device_decision|refusals|link_request|applications?|afar_requests?|user_keys?|user_key_\w+"
    r"|lock|lock_own|locked|not_me|first_proof|address_changed|registration_refused|change_refused|authorize|prove|turned_away_text"
    r"|terms|accounts|connection_test|provider_test|setup|proxied|console|risk_rules|lift_rules|time|common|parts|mail"
    r"|mail_\w*(added|removed|changed|changed_new|changed_old|linked|unlinked|enabled|disabled|renewed|locked|reset|copied|displaced|made"
    r"|breached|way_back|notice|paused|ends|waits|unread|failed|test|missing|lost|required|requested|received|returned|declined|link"
    r"|waiting|device|sign_in|request|code|set))\."
)
# Mails with a link or a code that people ask for themselves: their subject and first words, and nothing of the link.
ASKED_FOR: Final = ("mail_reset.", "mail_sign_in_link.", "mail_newcomer_code.subject")
# What names a person, an address, a code or where somebody acts.
NEVER_SAID: Final = {
    "email",
    "code",
    "inviter",
    "person",
    "scope",
    "what",
    "message",
    "api",
    "place",
    "location",
    "ip",
    "host",
    "fingerprint",
}
# Agents and their end; who manages an account; how long a code or a link works.
NEVER_READ: Final = re.compile(
    r"\bagents?\b|manage[sd] (by|its)|works once|\bfor \d+ (minutes|hours|days)|only (here|in this browser)|for an hour", re.IGNORECASE
)


def test_every_shipped_text_is_open_by_name_or_closed() -> None:
    assert [key for key in OPEN_TEXTS if key not in ENGLISH and key not in {FOOTER, NOTICE}] == []
    assert 150 <= len(OPEN_TEXTS) <= 200
    assert not is_open("a.new_text")
    assert all(is_open(key) for key in OPEN_TEXTS)


def test_the_texts_by_which_people_decide_stay_ours() -> None:
    closed = [key for key in ENGLISH if CLOSED.match(key) and not key.startswith(ASKED_FOR)]
    assert len(closed) > 1000
    assert [key for key in closed if is_open(key)] == []


@pytest.mark.parametrize("key", ["accept_invitation.accept", "accept_invitation.accept_here", "accept_invitation.decline"])
def test_the_buttons_of_a_membership_stay_ours(key: str) -> None:
    """With "Decline" on the one that accepts, an organization has a member by their own act who wanted none of it."""
    assert key in ENGLISH
    assert not is_open(key)


@pytest.mark.parametrize("key", ["verify_email.confirm", "verify_email.choose"])
def test_the_buttons_of_an_address_stay_ours(key: str) -> None:
    """The second locks out whoever has registered somebody else's address. Under each other's words, the owner of the address keeps the
    stranger's password.
    """
    assert key in ENGLISH
    assert not is_open(key)


@pytest.mark.parametrize("key", ["device_approved.title", "device_denied.title", "invitation_declined.title", "invitation_declined.text"])
def test_how_a_decision_ended_stays_ours(key: str) -> None:
    """A page that says the opposite would hide from somebody what they have just allowed."""
    assert key in ENGLISH
    assert not is_open(key)


@pytest.mark.parametrize("key", [key for key, one in OPEN_TEXTS.items() if one.has_ours])
def test_an_open_text_says_nothing_that_must_stay_ours(key: str) -> None:
    ours = ENGLISH[key]
    assert set(PLACEHOLDER.findall(ours)) & NEVER_SAID == set()
    assert NEVER_READ.search(ours) is None, ours
    assert not key.startswith(("mail_", "own.")) or OPEN_TEXTS[key].place.is_mail


def test_no_open_text_depends_on_a_number() -> None:
    assert [key for key in OPEN_TEXTS if f"{key.rpartition('.')[0]}.one" in ENGLISH and key.endswith(".other")] == []


def test_each_open_text_is_asked_for_by_its_page_or_mail() -> None:
    """The name of the page is that of a template, or of the text's own section where the page is made without one."""
    templates = {file.stem: file.read_text(encoding="utf-8") for file in PAGES.rglob("*.html")}
    mails = {file.stem for file in (ROOT / "adapters" / "mail" / "templates").rglob("*.jinja")}
    for key, one in OPEN_TEXTS.items():
        if one.place.is_mail:
            assert one.page in mails, key
            assert key.startswith(f"mail_{one.page}."), key
        elif one.has_ours:
            section = key.partition(".")[0]
            assert one.page in templates or one.page == section, key


def test_footer_and_notice_have_no_text_of_ours() -> None:
    assert [key for key, one in OPEN_TEXTS.items() if not one.has_ours] == [FOOTER, NOTICE]
    assert (OPEN_TEXTS[FOOTER].kind, OPEN_TEXTS[NOTICE].kind) == (TextKind.FOOTER, TextKind.NOTICE)
