"""Texts are normalized within a bound of their caller, and never with a long run of combining marks."""

import unicodedata
from collections.abc import Callable
from time import thread_time
from typing import Final

import pytest

from adapters.mail_address import LibraryEmailSyntax, MailAddress, MalformedAddress
from core.domain.errors import BadRequest
from core.domain.federation.backchannel_requests import InvalidBindingMessage, read_message
from core.domain.federation.scim.filters import OF_USERS, parse_filter
from core.domain.federation.scim.protocol import USER_SCHEMA, parse_path, text_of
from core.domain.federation.scim.tokens import shown_reason
from core.domain.identity.passwords import require_acceptable
from core.domain.identity.upstream.claims import stated_address
from core.domain.identity.upstream.ldap.answers import usable_name
from core.domain.identity.upstream.ldap.entries import folded_dn
from core.domain.languages import Language
from core.domain.lines import has_host, has_link
from core.domain.mail import Email
from core.domain.normal_forms import (
    LONGEST_NORMALIZED,
    LONGEST_OF_ANY_MARKS,
    NotNormalized,
    ascii_letters,
    folded,
    has_long_run,
    normalized,
)
from core.domain.platform.imports.clients import slug_of
from core.domain.secrets import Password
from core.domain.services.proxy_paths import place_of
from core.domain.tenancy.mail_servers import require_name_of
from core.domain.tenancy.teams import slug_stem
from core.domain.texts.own_texts import OPEN_TEXTS
from core.domain.texts.rules import OwnText, canonical

MOST_MS: Final = 5.0
# Both come apart into two marks, and the second only when it comes apart.
MARKS: Final = "\u0344" * 2000 + "\u0f73" * 2000
WORST: Final = {
    "marks": f"a{MARKS}",
    "ligatures": "\ufdfa" * 4000,
    "folding": "\u0390" * 4000,
    "one word": "é" * 4000,
    "long": "a" * 60_000,
}


def milliseconds(work: Callable[[], object]) -> float:
    """The thread's processor time, the least of five."""
    times = []
    for _ in range(5):
        began = thread_time()
        work()
        times.append(thread_time() - began)
    return min(times) * 1000


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFKD"])
def test_a_text_within_the_bound_is_normalized(form: str) -> None:
    for text in ("", "plain", "\uff37ide", "e\u0301" * 20, "\u0e01\u0e34\u0e48", "a" + "\u0301" * 30, "\ufdfa"):
        assert normalized(text, form, LONGEST_NORMALIZED) == unicodedata.normalize(form, text)  # type: ignore[arg-type]


def test_a_text_beyond_its_callers_bound_is_refused() -> None:
    assert normalized("é" * 10, "NFC", 10) == "é" * 10
    for text in ("é" * 11, "a" * 11):
        with pytest.raises(NotNormalized):
            normalized(text, "NFC", 10)
        with pytest.raises(NotNormalized):
            folded(text, 10)


@pytest.mark.parametrize(
    ("run", "is_long"),
    [
        ("\u0301" * 30, False),
        ("\u0301" * 31, True),
        ("\u0344" * 15, False),
        ("\u0344" * 16, True),
        ("\u0f73" * 16, True),
        ("\uff9e" * 31, True),
        ("\u0301" * 30 + "b" + "\u0301" * 30, False),
    ],
)
def test_a_run_of_more_than_thirty_marks_is_refused(run: str, is_long: bool) -> None:
    text = f"a{run}"
    assert has_long_run(text) is is_long
    if is_long:
        with pytest.raises(NotNormalized):
            normalized(text, "NFC", LONGEST_NORMALIZED)
    else:
        assert normalized(text, "NFC", LONGEST_NORMALIZED) == unicodedata.normalize("NFC", text)


def test_marks_that_begin_only_when_they_come_apart_are_all_known() -> None:
    letters = [chr(one) for one in range(0x110000) if not 0xD800 <= one < 0xE000]
    apart = [one for one in letters if unicodedata.combining(unicodedata.normalize("NFKD", one)[0])]
    assert all(has_long_run(one * 31) for one in apart)
    assert all(has_long_run(one * 16) for one in apart if len(unicodedata.normalize("NFKD", one)) > 1)


def test_a_short_text_may_have_any_marks_where_its_caller_says_so() -> None:
    text = "a" + "\u0301\u0323" * 60
    assert normalized(text, "NFC", LONGEST_OF_ANY_MARKS, any_marks=True) == unicodedata.normalize("NFC", text)
    with pytest.raises(NotNormalized):
        normalized("é" * (LONGEST_OF_ANY_MARKS + 1), "NFC", LONGEST_NORMALIZED, any_marks=True)


def test_folding_is_what_it_was_before() -> None:
    for text in ("ADA@Example.org", "ǰ@x.example", "Straße", "ﬁ", "İ", "\u0345", "K"):
        assert folded(text, LONGEST_NORMALIZED) == unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _refused(work: Callable[[], object], refusal: type[Exception]) -> None:
    try:
        work()
    except refusal:
        return


@pytest.mark.parametrize("text", WORST.values(), ids=WORST)
def test_no_text_holds_the_thread(text: str) -> None:
    """Each caller of the function, with a text that nobody has cut."""
    key = next(iter(OPEN_TEXTS))
    address = Email("ada@example.org")
    for work in (
        lambda: Email(text).key,
        lambda: Email(f"{text}@{text}.example").key,
        lambda: ascii_letters(text),
        lambda: slug_stem(text),
        lambda: usable_name(text),
        lambda: has_link(text),
        lambda: has_link(text[:2000]),
        lambda: has_host(text[:2000]),
        lambda: shown_reason(text),
        lambda: _refused(lambda: MailAddress.parse(f"a@{text[:250]}"), MalformedAddress),
        lambda: has_host(text),
        lambda: canonical(OwnText(key, Language.ENGLISH, text)),
        lambda: _refused(lambda: read_message(text), InvalidBindingMessage),
        lambda: _refused(lambda: require_name_of(text, text + "a"), Exception),
        lambda: _refused(lambda: require_acceptable(Password(text), address, 8, [text]), Exception),
        lambda: _refused(lambda: require_acceptable(Password(text[:128]), address, 8, [text]), Exception),
        lambda: place_of("/" + "%EF%B7%BA" * 900),
        lambda: place_of("/" + "%CD%84" * 1300),
    ):
        assert milliseconds(work) <= MOST_MS


@pytest.mark.parametrize("text", WORST.values(), ids=WORST)
def test_no_text_of_another_system_holds_the_thread(text: str) -> None:
    """What directories, providers and files of other systems say, before anybody has cut it."""
    for work in (
        lambda: Email(stated_address(text)).key,
        lambda: _refused(lambda: parse_filter(f'userName eq "{text}"', OF_USERS), Exception),
        lambda: _refused(lambda: parse_path(text, USER_SCHEMA), Exception),
        lambda: _refused(lambda: text_of("displayName", text), Exception),
        lambda: folded_dn(f"cn={text}"[:20_000]),
        lambda: slug_of(text),
        lambda: _refused(lambda: LibraryEmailSyntax().parse(f"a@{text}.example"), BadRequest),
        lambda: _refused(lambda: LibraryEmailSyntax().parse(f"a@{text[:240]}.example"), BadRequest),
    ):
        assert milliseconds(work) <= MOST_MS


def test_an_address_that_cannot_be_normalized_is_nobodys() -> None:
    for text in (f"a{MARKS}@example.org", "é" * 2000):
        assert Email(text).key == text


def test_a_name_with_a_long_run_is_no_name_of_a_directory() -> None:
    assert usable_name("ada" + "\u0301" * 31) is None
    assert usable_name("ada\u0301") == "ada\u0301"
