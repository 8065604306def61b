"""Attributes that hold credentials are read nowhere, and compared nowhere."""

from typing import Any

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.upstream.ldap.credentials import is_credential
from core.domain.identity.upstream.ldap.settings import NOTHING_DESCRIBED, LdapChange

CREDENTIALS = [
    "userPassword",
    "USERPASSWORD",
    "userPassword;binary",
    "userPassword;lang-de;x-a",
    "2.5.4.35",
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
]


@pytest.mark.parametrize("attribute", CREDENTIALS)
def test_a_credential_is_one_in_any_case_and_with_options(attribute: str) -> None:
    assert is_credential(attribute)


@pytest.mark.parametrize(
    "attribute", ["mail", "memberOf", "uid", "pwdLastSet", "krbPrincipalName", "sAMAccountName", "telephoneNumber", "2.5.4.3"]
)
def test_what_else_a_directory_has_is_none(attribute: str) -> None:
    assert not is_credential(attribute)


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
    ],
)
def test_no_setting_names_one(change: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refused:
        LdapChange(**change).applied(NOTHING_DESCRIBED)
    assert refused.value.words == "ldap_credential"
