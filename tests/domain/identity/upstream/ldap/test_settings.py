"""The settings of a directory by LDAP: what each may be, and what the bind password belongs to."""

from typing import Any

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.upstream.ldap.settings import (
    LDAP_PRESETS,
    LONGEST_WINDOW_SECONDS,
    NO_LDAP_CHANGE,
    NOTHING_DESCRIBED,
    LdapChange,
    LdapHost,
    LdapIdentity,
    LdapPreset,
    LdapSettings,
    bound_password,
    can_lock_anybody,
    examined_settings,
    opened_password,
    usable_ldap,
)
from core.frozen import replace


def described(**changes: Any) -> LdapSettings:
    return LdapChange(**{"hosts": ("ldaps://dc1.example.org",), "bind_dn": "cn=reader,dc=example,dc=org", **changes}).applied(
        NOTHING_DESCRIBED
    )


def test_hosts_are_kept_in_one_form() -> None:
    found = described(hosts=("LDAPS://DC1.example.org/", "ldaps://dc1.example.org:636", "ldaps://[2001:db8::1]:1636"))
    assert found.hosts == ("ldaps://dc1.example.org:636", "ldaps://[2001:db8::1]:1636")
    assert found.places == (LdapHost("dc1.example.org", 636), LdapHost("2001:db8::1", 1636))
    assert described(hosts=("ldap://dc1",), start_tls=True).places == (LdapHost("dc1", 389),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hosts": ("ldap://dc1.example.org",)}, "ldap_in_clear"),
        ({"hosts": ("ldap://localhost",)}, "ldap_in_clear"),
        ({"hosts": ("ldaps://dc1.example.org",), "start_tls": True}, "ldap_start_tls"),
        ({"hosts": ("dc1.example.org",)}, "ldap_host"),
        ({"hosts": ("ldaps://dc1.example.org:0",)}, "ldap_host"),
        ({"hosts": ("ldaps://dc1.example.org:70000",)}, "ldap_host"),
        ({"hosts": ("ldaps://[::x]",)}, "ldap_host"),
        ({"hosts": ("ldaps://[::1:::2]",)}, "ldap_host"),
        ({"hosts": ("ldaps://user@dc1.example.org",)}, "ldap_host"),
        ({"hosts": ("ldaps://" + "a" * 300,)}, "ldap_host"),
        ({"hosts": tuple(f"ldaps://dc{number}" for number in range(4))}, "field_list"),
        ({"bind_dn": "reader"}, "ldap_dn"),
        ({"bind_dn": "cn=reader,"}, "ldap_dn"),
        ({"base_dn": "reader@example.org"}, "ldap_dn"),
        ({"base_dn": "dc=" + "x" * 1000}, "ldap_dn"),
        ({"person_filter": "uid=*"}, "ldap_filter"),
        ({"sign_in_attributes": ()}, "field_list"),
        ({"sign_in_attributes": ("a b",)}, "ldap_attribute"),
        ({"address_attribute": ""}, "ldap_attribute"),
        ({"groups_attribute": "member)of"}, "ldap_attribute"),
        ({"lockout_threshold": 0}, "field_bounds"),
        ({"lockout_minutes": 1441}, "field_bounds"),
        ({"lockout_threshold": 2}, "ldap_lockouts"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        described(**changes)
    assert refused.value.words == words


def test_a_principal_name_and_no_groups_are_fine() -> None:
    found = described(bind_dn="reader@example.org", groups_attribute="", base_dn=r"ou=People\, all,dc=example,dc=org")
    assert (found.bind_dn, found.groups_attribute, found.is_complete) == ("reader@example.org", "", True)


@pytest.mark.parametrize("preset", list(LdapPreset))
def test_each_preset_can_be_used(preset: LdapPreset) -> None:
    found, usual = described(ldap_preset=preset), LDAP_PRESETS[preset]
    assert (found.person_filter, found.sign_in_attributes, found.identity_attribute) == (
        usual.person_filter,
        usual.sign_in_attributes,
        usual.identity_attribute,
    )
    own = described(ldap_preset=preset, identity_attribute=LdapIdentity.IPA_UNIQUE_ID)
    assert own.identity_attribute is LdapIdentity.IPA_UNIQUE_ID


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ("ldaps://dc2.example.org",)},
        {"hosts": ("ldaps://dc1.example.org:1636",)},
        {"hosts": ("ldap://dc1.example.org",), "start_tls": True},
        {"ca_certificates": "another"},
        {"bind_dn": "cn=other,dc=example,dc=org"},
    ],
)
def test_a_bind_password_belongs_to_hosts_port_tls_authority_and_account(change: dict[str, Any]) -> None:
    before = described()
    kept = bound_password(before, "a secret")
    after = LdapChange(**change).applied(before)
    assert opened_password(before, kept) == "a secret"
    assert opened_password(after, kept) == ""
    assert after.read_threshold is None


def test_it_stays_when_anything_else_changes() -> None:
    before = described()
    after = LdapChange(base_dn="dc=example,dc=org", person_filter="(uid=*)", lockout_threshold=7).applied(before)
    assert opened_password(after, bound_password(before, "a secret")) == "a secret"


@pytest.mark.parametrize("password", ["", "a\0b", "x" * 501])
def test_a_password_that_no_directory_takes_is_refused(password: str) -> None:
    with pytest.raises(BadRequest):
        bound_password(described(), password)


def test_the_smaller_threshold_and_the_longer_window_count() -> None:
    typed = described(lockout_threshold=10, lockout_minutes=10)
    read = LdapSettings(**{**_values(typed), "read_threshold": 5, "read_seconds": 1800})
    assert (typed.most_failures, typed.window_seconds) == (8, 600)
    assert (read.most_failures, read.window_seconds) == (3, 1800)
    assert LdapSettings(**{**_values(typed), "read_threshold": 0}).threshold == 10
    assert LdapSettings(**{**_values(typed), "read_threshold": 0, "read_seconds": 0}).window_seconds == 600
    assert described(lockout_threshold=1, accepts_lockouts=True).most_failures == 1
    assert [can_lock_anybody(one) for one in (0, 1, 2, 3)] == [False, True, True, False]


@pytest.mark.parametrize("seconds", [None, 0, LONGEST_WINDOW_SECONDS, 99_999_999_999_999])
def test_no_window_is_longer_than_a_day_and_none_at_all_is_a_day(seconds: int | None) -> None:
    """A directory of ppolicy without an interval forgets wrong passwords by a right one alone (slapo-ppolicy(5))."""
    read = LdapSettings(read_threshold=5, read_seconds=seconds)
    assert read.window_seconds == LONGEST_WINDOW_SECONDS


def test_a_moved_window_is_one_of_ours() -> None:
    for read, kept in ((None, None), (-5, 0), (1800, 1800), (99_999_999_999_999, LONGEST_WINDOW_SECONDS)):
        assert usable_ldap(replace(described(), read_seconds=read)).read_seconds == kept


def test_a_preset_raises_no_threshold() -> None:
    """389 locks at 3 unless somebody changed it (passwordMaxFailure), where only its own administrator reads."""
    assert described(ldap_preset=LdapPreset.DIRECTORY_389).lockout_threshold == 3
    assert described(ldap_preset=LdapPreset.DIRECTORY_389, lockout_threshold=10).lockout_threshold == 10
    assert LdapChange(ldap_preset=LdapPreset.OPENLDAP).applied(described(lockout_threshold=4)).lockout_threshold == 4
    assert described(ldap_preset=LdapPreset.OPENLDAP).lockout_threshold == 5


def test_a_test_is_about_everything_but_what_it_reads() -> None:
    settings = described()
    assert examined_settings(settings) == examined_settings(LdapSettings(**{**_values(settings), "read_threshold": 4}))
    assert examined_settings(settings) != examined_settings(described(base_dn="dc=example,dc=org"))
    assert NO_LDAP_CHANGE.is_empty
    assert not LdapChange(start_tls=False).is_empty


def _values(settings: LdapSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}
