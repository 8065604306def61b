"""FreeIPA and lldap by what their public sources and documentation say that they answer: entries as they give them, read with the presets.

Neither runs here. FreeIPA is 389 with a schema of its own; lldap has no paging, and compares nothing by order.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.ldap.reading import TrioLdapReading
from core.domain.federation.directory_runs.people import external_id, named_person, run_attributes
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.settings import LdapPreset
from core.domain.identity.upstream.ldap.surveys import LdapMarks, LdapPerson
from tests.adapters.ldap.reaching import directories, site
from tests.ldap.authority import Authority
from tests.ldap.fake import FakeLdap, FakePerson, result

_IPA_PEOPLE: Final = "cn=users,cn=accounts,dc=ipa,dc=test"
_LLDAP_PEOPLE: Final = "ou=people,dc=example,dc=com"
_IPA_CLASSES: Final = ("top", "person", "organizationalperson", "inetorgperson", "inetuser", "posixaccount", "krbprincipalaux", "ipaobject")


def _ipa(uid: str, unique: str, **more: str) -> FakePerson:
    values = {
        "uid": uid,
        "cn": f"{uid.title()} Byron",
        "sn": "Byron",
        "givenName": uid.title(),
        "displayName": f"{uid.title()} Byron",
        "initials": "AB",
        "mail": f"{uid}@example.org",
        "krbPrincipalName": f"{uid}@IPA.TEST",
        "uidNumber": "940800001",
        "gidNumber": "940800001",
        "homeDirectory": f"/home/{uid}",
        "loginShell": "/bin/bash",
        "ipaUniqueID": unique,
        "nsUniqueId": f"{unique[:8]}-00000000-00000000-00000000",
        "memberOf": "cn=ipausers,cn=groups,cn=accounts,dc=ipa,dc=test",
        **more,
    }
    attributes = {name: [value.encode()] for name, value in values.items()}
    return FakePerson(f"uid={uid},{_IPA_PEOPLE}", "x", {"objectClass": [one.encode() for one in _IPA_CLASSES], **attributes})


def _lldap(uid: str, unique: str, **more: str) -> FakePerson:
    values = {
        "uid": uid,
        "mail": f"{uid}@example.org",
        "givenname": uid.title(),
        "sn": "Byron",
        "cn": f"{uid.title()} Byron",
        "createtimestamp": "2026-01-02T03:04:05+00:00",
        "entryuuid": unique,
        **more,
    }
    classes = [b"inetOrgPerson", b"posixAccount", b"mailAccount", b"person"]
    attributes = {name: [value.encode()] for name, value in values.items()}
    return FakePerson(f"uid={uid},{_LLDAP_PEOPLE}", "x", {"objectclass": classes, **attributes})


@pytest.fixture
def authority() -> Authority:
    return Authority.make()


@pytest.fixture
def directory(authority: Authority, tmp_path: Path) -> Iterator[FakeLdap]:
    with FakeLdap(authority.server_context(tmp_path, "dc1.example.org")) as running:
        yield running


def _of(directory: FakeLdap, authority: Authority, preset: LdapPreset, base: str) -> LdapSite:
    settings: Mapping[str, Any] = {"ldap_preset": preset, "base_dn": base, "person_filter": None}
    return site(directory.port, ca=authority.pem, **settings)


async def _read(of: LdapSite) -> list[LdapPerson]:
    read: list[LdapPerson] = []
    async for page in TrioLdapReading(directories()).people(of, list(run_attributes(of.settings, {})), None):
        read += page
    return read


async def test_freeipa_knows_people_by_its_unique_id_and_locks_by_ns_account_lock(directory: FakeLdap, authority: Authority) -> None:
    directory.people = [
        _ipa("ada", "86a50d72-4c56-11ec-88d9-5254004d77d3"),
        _ipa("bob", "9d5dddca-dc66-11e5-b542-001a4a23140a", nsAccountLock="TRUE"),
        _ipa("eve", "3b1f0a4c-dc66-11e5-b542-001a4a23140a", nsAccountLock="FALSE"),
    ]
    of = _of(directory, authority, LdapPreset.FREEIPA, _IPA_PEOPLE)
    read = await _read(of)
    assert [one.is_disabled for one in read] == [False, True, False]
    ada = named_person(of.settings, {}, read[0])
    assert ada.external_id == external_id(b"86a50d72-4c56-11ec-88d9-5254004d77d3", of.settings)
    assert (ada.email, ada.given_name, ada.family_name, ada.display_name) == ("ada@example.org", "Ada", "Byron", "Ada Byron")
    assert {("objectClass", b"person"), ("objectClass", b"posixAccount")} <= set(directory.searches[-1])


async def test_lldap_gives_everybody_in_one_page_and_names_in_small_letters(directory: FakeLdap, authority: Authority) -> None:
    directory.people = [_lldap(f"person{number}", f"00000000-0000-3000-8000-{number:012x}") for number in range(700)]
    of = _of(directory, authority, LdapPreset.LLDAP, _LLDAP_PEOPLE)
    read = await _read(of)
    assert len(read) == 700
    first = named_person(of.settings, {}, read[0])
    assert first.external_id == external_id(b"00000000-0000-3000-8000-000000000000", of.settings)
    assert (first.email, first.given_name, first.family_name) == ("person0@example.org", "Person0", "Byron")
    assert not any(one.is_disabled for one in read)


async def test_lldap_is_never_asked_for_changes(directory: FakeLdap, authority: Authority) -> None:
    """It refuses a filter that compares by order (53)."""
    directory.people = [_lldap("ada", "00000000-0000-3000-8000-000000000001", modifytimestamp="20260102030405Z")]
    directory.answers = lambda number, operation, body: (
        result(0x65, number, 53, "Unsupported user filter") if operation == 0x63 and b"modifyTimestamp" in body else None
    )
    of = _of(directory, authority, LdapPreset.LLDAP, _LLDAP_PEOPLE)
    assert await TrioLdapReading(directories()).marks(of) == LdapMarks(None, None, None)
    assert [one.dn for one in await _read(of)] == [f"uid=ada,{_LLDAP_PEOPLE}"]
