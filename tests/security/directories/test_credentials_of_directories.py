"""Whoever manages a connection looks for a way to read or to compare the credentials of its directory."""

import pytest

from tests.http.ldap.scene import PATH, LdapScene

# Each by its number, or by a name that no list had: those of Samba, Kerberos, Active Directory, OpenLDAP, 389 and RADIUS.
_CREDENTIALS = [
    "1.3.6.1.4.1.7165.2.1.25",
    "1.3.6.1.4.1.7165.2.1.24",
    "2.16.840.1.113719.1.301.4.39.1",
    "1.2.840.113556.1.4.2196",
    "1.2.840.113556.1.4.1964",
    "2.16.840.1.113730.3.1.216",
    "1.3.6.1.4.1.4203.1.3.4",
    "OID.2.5.4.35",
    "msSFU30Password",
    "olcRootPW",
    "olcSyncrepl",
    "nsds5ReplicaCredentials",
    "nsslapd-rootpw",
    "radiusTunnelPassword",
]


@pytest.mark.parametrize("attribute", _CREDENTIALS)
async def test_no_credential_is_compared_or_read_by_any_of_its_names(scene: LdapScene, attribute: str) -> None:
    provider = await scene.draft()
    before = await scene.record(provider)
    for written in (attribute, attribute.swapcase(), f"{attribute};binary"):
        for changes in (
            {"person_filter": f"({written}=*)"},
            {"person_filter": f"(&(objectClass=person)(!({written}>=a)))"},
            {"person_filter": f"({written}:dn:1.2.840.113556.1.4.803:=1)"},
            {"sign_in_attributes": ["uid", written]},
            {"address_attribute": written},
            {"groups_attribute": written},
            {"profile_mapping": {written: "department"}},
        ):
            changed = await scene.change(provider, **changes)
            assert (changed.status, next(iter(changes)) in changed.body.decode()) == (400, True), changes
            made = await scene.request("POST", PATH, scene.settings(**changes))
            assert made.status == 400, changes
    assert await scene.record(provider) == before


async def test_rules_by_number_and_when_a_password_was_set_stay(scene: LdapScene) -> None:
    """Active Directory has no names for its rules, and administrators let in only those who have chosen a password."""
    text = "(&(memberOf:1.2.840.113556.1.4.1941:=cn=staff,dc=acme,dc=example)(!(pwdLastSet=0)))"
    provider = await scene.draft(person_filter=text, profile_mapping={"pwdLastSet": "department"})
    assert (await scene.record(provider))["ldap"]["person_filter"] == text
