"""From an entry to a provider's word, and whose wrong passwords are counted together."""

from datetime import UTC, datetime
from uuid import UUID

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.directories import (
    asserted_by_entry,
    counted_person,
    read_attributes,
    restored_word,
    stored_word,
    surveyed_attributes,
)
from core.domain.identity.upstream.ldap.answers import LdapEntry
from core.domain.identity.upstream.ldap.settings import LdapSettings

PROVIDER = UpstreamProviderId(UUID(int=7))
NOW = datetime(2026, 11, 26, 22, tzinfo=UTC)


def test_the_word_survives_its_wait() -> None:
    entry = LdapEntry("uid=ada", {"entryuuid": [b"U-1"], "mail": [b"ada@example.org", b"other@example.org"], "l": [b"a", b"b"], "o": []})
    word = asserted_by_entry(PROVIDER, LdapSettings(), {"l": "places", "o": "none", "sn": "name"}, entry, NOW)
    assert (word.issuer, word.subject, word.email, word.email_is_verified) == (f"urn:uuid:{PROVIDER}", "u-1", "ada@example.org", True)
    assert word.fields == {"places": ["a", "b"]}
    assert restored_word(stored_word(word)) == word


def test_without_an_address_the_directory_vouches_for_none() -> None:
    word = asserted_by_entry(PROVIDER, LdapSettings(), {}, LdapEntry("uid=ada", {"entryuuid": [b"u"]}), NOW)
    assert (word.email, word.email_is_verified) == ("", False)


def test_no_credential_is_read_or_kept() -> None:
    """Not even by a mapping that came into the row by another way."""
    assert read_attributes(LdapSettings(), {"userPassword": "department"}) == ["entryUUID", "mail"]
    entry = LdapEntry("uid=ada", {"entryuuid": [b"u"], "userpassword": [b"{SSHA}hash"]})
    assert asserted_by_entry(PROVIDER, LdapSettings(), {"userPassword": "department"}, entry, NOW).fields == {}


def test_only_what_is_needed_is_read() -> None:
    assert read_attributes(LdapSettings(), {"department": "d", "no attribute": "e", "mail": "m"}) == ["entryUUID", "mail", "department"]
    assert surveyed_attributes(LdapSettings()) == ["entryUUID", "mail", "memberOf"]
    assert surveyed_attributes(LdapSettings(groups_attribute="")) == ["entryUUID", "mail"]


def test_an_identity_is_counted_under_whatever_name() -> None:
    one = counted_person(PROVIDER, subject="u-1", name="ada")
    assert one == counted_person(PROVIDER, subject="u-1", name="ada@example.org")
    assert one != counted_person(UpstreamProviderId(UUID(int=8)), subject="u-1")
    assert counted_person(PROVIDER, name="Straße") == counted_person(PROVIDER, name="STRASSE")
    assert counted_person(PROVIDER, name="ada") != counted_person(PROVIDER, name="adb")
