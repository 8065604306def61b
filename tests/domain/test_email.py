"""The addresses that count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.mail import Email, mail_domain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada@Example.com", "ada@example.COM"),
        ("stra\u00dfe@example.com", "STRASSE@example.com"),
        ("e\u0301va@example.com", "\u00e9va@example.com"),
        ("\uff41da@example.com", "ada@example.com"),
        ("ada@corp\u3002example.com", "ada@corp.example.com"),
        ("ada@corp\uff0eexample\uff61com", "ada@corp.example.com"),
        ("ada@b\u00fccher.example", "ada@xn--bcher-kva.example"),
        ("ada@B\u00dcCHER\u3002example", "ada@XN--BCHER-KVA.example"),
    ],
)
def test_addresses_that_differ_in_case_or_normal_form_are_the_same(one: str, other: str) -> None:
    assert Email(one).key == Email(other).key


def test_an_address_is_kept_as_its_owner_wrote_it() -> None:
    assert str(Email("Ada@Example.com")) == "Ada@Example.com"


def test_different_addresses_stay_different() -> None:
    assert Email("ada@example.com").key != Email("ada+1@example.com").key


def test_the_domain_is_what_follows_the_last_at_sign() -> None:
    assert Email('"a@b"@Example.com').domain == "example.com"


# IDNA refuses the label of the last domain: it mixes two directions of writing.
@pytest.mark.parametrize("domain", ["b\u00fc" * 40, "b\u00fc." * 90 + "example", "b\u00fccher..example", "b\u00fc\u0627.example"])
def test_what_cannot_be_a_domain_is_compared_as_it_is_written(domain: str) -> None:
    email = Email(f"ada@{domain}")
    assert (email.key, mail_domain(email)) == (f"ada@{domain}", "")


@given(st.text())
def test_a_key_is_its_own_key(text: str) -> None:
    key = Email(text).key
    assert Email(key).key == key
