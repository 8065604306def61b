"""The attributes in which directories keep credentials. We read none of them, and compare none: a value that is compared is found out."""

import re
from collections.abc import Iterable
from typing import Final

from core.domain.errors import BadRequest

# By their names in lower case, and the numbers of those that have a well-known one.
_CREDENTIALS: Final = frozenset(
    {
        "2.5.4.35",
        "1.2.840.113556.1.4.55",
        "1.2.840.113556.1.4.90",
        "1.2.840.113556.1.4.94",
        "1.2.840.113556.1.4.125",
        "1.2.840.113556.1.4.160",
        "1.3.6.1.4.1.42.2.27.8.1.20",
        "authpassword",
        "clearpassword",
        "currentvalue",
        "dbcspwd",
        "initialauthincoming",
        "initialauthoutgoing",
        "lmpwdhistory",
        "ms-mcs-admpwd",
        "msds-managedpassword",
        "msfve-recoverypassword",
        "msfve-keypackage",
        "ntpwdhistory",
        "orclpassword",
        "priorvalue",
        "pwdhistory",
        "sambalmpassword",
        "sambantpassword",
        "sambapasswordhistory",
        "sambacleartextpassword",
        "supplementalcredentials",
        "trustauthincoming",
        "trustauthoutgoing",
        "unicodepwd",
        "unixuserpassword",
        "userpassword",
        "userpassword2",
        "userpkcs12",
        "sshprivatekey",
    }
)
# Families of products that add members: LAPS of Windows, keys of Kerberos, one-time passwords, and what names itself a password or a hash.
_FAMILIES: Final = re.compile(
    r"mslaps-.*|ms-laps-.*|krb.*key.*|krbpwdhistory|ipanthash|ipatoken.*|oath.*(?:secret|key).*|.*(?:otp|totp).*(?:secret|key).*"
    r"|passwordhistory|.*passwordhash.*|.*nthash.*|.*lmhash.*"
)


def is_credential(attribute: str) -> bool:
    """Whether the attribute holds a credential, whatever its case and its options, such as `userPassword;binary`."""
    name = attribute.partition(";")[0].strip().lower()
    return name in _CREDENTIALS or _FAMILIES.fullmatch(name) is not None


def require_no_credential(field: str, attributes: Iterable[str]) -> None:
    """Raises `BadRequest`."""
    for one in attributes:
        if is_credential(one):
            raise BadRequest(
                f"{field}: {one} holds a credential, which nobody reads here", words="ldap_credential", values={"attribute": one}
            )
