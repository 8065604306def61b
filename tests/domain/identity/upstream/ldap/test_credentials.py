"""Attributes that hold credentials are read nowhere, and compared nowhere."""

from typing import Any

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.upstream.directories import readable
from core.domain.identity.upstream.ldap.filters import is_credential, is_readable, require_no_credential
from core.domain.identity.upstream.ldap.settings import NOTHING_DESCRIBED, LdapChange

CREDENTIALS = [
    "userPassword",
    "USERPASSWORD",
    "userPassword;binary",
    "userPassword;lang-de;x-a",
    "unicodePwd",
    "ms-Mcs-AdmPwd",
    "msLAPS-Password",
    "msLAPS-EncryptedPassword",
    "sambaNTPassword",
    "sambaLMPassword",
    "krbPrincipalKey",
    "krbMKey",
    "krbPwdHistory",
    "pwdHistory",
    "passwordHistory",
    "ipaNTHash",
    "ipatokenOTPkey",
    "supplementalCredentials",
    "msDS-ManagedPassword",
    "msSFU30Password",
    "userPassword3",
    "dBCSPwd",
    "clearPassword",
    "krb5Key",
    "olcRootPW",
    "olcSyncrepl;x-a",
    "OLCDbBindDN",
    "nsslapd-rootpw",
    "nsds5ReplicaCredentials",
    "radiusTunnelPassword",
    "radiusSecret",
    "cryptPasswd",
    "appRootPW",
]
NUMBERS = ["2.5.4.35", "2.5.4.3", "02.5.4.35", "1.3.6.1.4.1.7165.2.1.25;binary", "OID.2.5.4.35", "oid.1.2.840.113556.1.4.90"]


@pytest.mark.parametrize("attribute", CREDENTIALS)
def test_a_credential_is_one_in_any_case_and_with_options(attribute: str) -> None:
    assert is_credential(attribute)


@pytest.mark.parametrize(
    "attribute",
    [
        *("mail", "memberOf", "uid", "krbPrincipalName", "sAMAccountName", "telephoneNumber", "secretary", "credentialsOffice"),
        *("pwdLastSet", "badPwdCount", "badPasswordTime", "maxPwdAge", "pwdChangedTime", "pwdAccountLockedTime", "pwdPolicySubentry"),
        *("sambaPwdLastSet", "krbPasswordExpiration", "krbLastPwdChange", "passwordExpirationTime", "ms-Mcs-AdmPwdExpirationTime"),
        *("msDS-UserPasswordExpiryTimeComputed", "nsAccountLock", "oidc-name"),
    ],
)
def test_what_else_a_directory_has_is_none(attribute: str) -> None:
    assert is_readable(attribute)
    require_no_credential("profile_mapping", [attribute])


@pytest.mark.parametrize("number", NUMBERS)
def test_the_number_of_an_attribute_is_refused_and_read_as_no_field(number: str) -> None:
    """No list knows the numbers of all credentials."""
    with pytest.raises(BadRequest) as refused:
        require_no_credential("profile_mapping", [number])
    assert refused.value.words == "ldap_number"
    assert readable({number: "nickname", "mail": "work_mail"}) == {"mail": "work_mail"}


@pytest.mark.parametrize(
    "change",
    [
        {"address_attribute": "userPassword"},
        {"groups_attribute": "ms-Mcs-AdmPwd"},
        {"sign_in_attributes": ("uid", "sambaNTPassword;x")},
        {"person_filter": "(&(uid=*)(!(userPassword=a*)))"},
        {"person_filter": "(unicodePwd=*)"},
        {"person_filter": "(userPassword>=a)"},
        {"person_filter": "(userPassword:caseExactMatch:=a)"},
        {"person_filter": "(|(uid=a)(!(olcRootPW;x=*)))"},
        {"person_filter": "(MSSFU30PASSWORD:dn:=a)"},
        {"sign_in_attributes": ("uid", "nsslapd-rootpw")},
    ],
)
def test_no_setting_names_one(change: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refused:
        LdapChange(**change).applied(NOTHING_DESCRIBED)
    assert refused.value.words == "ldap_credential"


@pytest.mark.parametrize(
    "change",
    [
        {"address_attribute": "0.9.2342.19200300.100.1.3"},
        {"groups_attribute": "1.2.840.113556.1.2.102"},
        {"sign_in_attributes": ("uid", "1.3.6.1.4.1.7165.2.1.25")},
        {"person_filter": "(1.3.6.1.4.1.7165.2.1.25=*)"},
        {"person_filter": "(&(uid=*)(!(1.3.6.1.4.1.7165.2.1.25>=a)))"},
        {"person_filter": "(OID.2.5.4.35=a*)"},
        {"person_filter": "(1.2.840.113556.1.4.90:dn:1.2.840.113556.1.4.803:=1)"},
    ],
)
def test_no_setting_names_an_attribute_by_its_number(change: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refused:
        LdapChange(**change).applied(NOTHING_DESCRIBED)
    assert refused.value.words == "ldap_number"


@pytest.mark.parametrize(
    "text",
    [
        "(user\\50assword=*)",
        "(user Password=*)",
        "( userPassword=*)",
        "(userPassword =*)",
        "(:dn:2.5.4.13:=a)",
        "(us\u212ar=*)",
        "(2.5.4.35;binary=*)",
    ],
)
def test_no_way_of_writing_goes_round_it(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        LdapChange(person_filter=text).applied(NOTHING_DESCRIBED)
    assert refused.value.words == "ldap_filter"


@pytest.mark.parametrize(
    "text",
    [
        "(memberOf:1.2.840.113556.1.4.1941:=cn=staff,dc=acme,dc=example)",
        "(!(userAccountControl:1.2.840.113556.1.4.803:=2))",
        "(&(objectClass=person)(!(pwdLastSet=0)))",
        "(description=2.5.4.35=userPassword)",
    ],
)
def test_rules_by_number_and_words_in_values_stay(text: str) -> None:
    assert LdapChange(person_filter=text).applied(NOTHING_DESCRIBED).person_filter == text
