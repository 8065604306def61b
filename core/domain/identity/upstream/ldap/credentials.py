"""The attributes in which directories keep credentials. We read none of them, and compare none: a value that is compared is found out."""

import re
from collections.abc import Iterable
from typing import Final

from core.domain.errors import BadRequest

# By their names in lower case. What ends like a password needs no line here.
_CREDENTIALS: Final = frozenset(
    {
        "currentvalue",
        "initialauthincoming",
        "initialauthoutgoing",
        "lmpwdhistory",
        "msfve-keypackage",
        "ntpwdhistory",
        "priorvalue",
        "pwdhistory",
        "sambapasswordhistory",
        "trustauthincoming",
        "trustauthoutgoing",
        "userpkcs12",
        "sshprivatekey",
    }
)
# Families of products that add members: LAPS of Windows, keys of Kerberos, one-time passwords, what names itself a password, a secret or a
# hash, and the settings of OpenLDAP and 389, in which their own passwords stand. `pwdLastSet` and its like say nothing but when.
_FAMILIES: Final = re.compile(
    r"mslaps-.*|ms-laps-.*|krb.*key.*|krbpwdhistory|ipanthash|ipatoken.*|oath.*(?:secret|key).*|.*(?:otp|totp).*(?:secret|key).*"
    r"|passwordhistory|.*passwordhash.*|.*nthash.*|.*lmhash.*|.*(?:password|passwd|pwd|rootpw|credentials|secret)[0-9]*|olc.*|nsslapd-.*"
)
# Every attribute has a number beside its names, and directories take either, some of them as `OID.2.5.4.35`.
_NUMBER: Final = re.compile(r"(?:oid\.)?[0-9].*", re.DOTALL)


def is_number(attribute: str) -> bool:
    """Whether the attribute is named by its number, which says nothing of what it holds."""
    return _NUMBER.fullmatch(_plain(attribute)) is not None


def is_credential(attribute: str) -> bool:
    """Whether the attribute holds a credential, whatever its case and its options, such as `userPassword;binary`."""
    name = _plain(attribute)
    return name in _CREDENTIALS or _FAMILIES.fullmatch(name) is not None


def is_readable(attribute: str) -> bool:
    """Whether its value may become a field of a person."""
    return not is_number(attribute) and not is_credential(attribute)


def require_no_credential(field: str, attributes: Iterable[str]) -> None:
    """Raises `BadRequest`, also for a number: no list knows the numbers of all credentials."""
    for one in attributes:
        if is_number(one):
            raise BadRequest(
                f"{field}: {one} is the number of an attribute: write its name", words="ldap_number", values={"attribute": one}
            )
        if is_credential(one):
            raise BadRequest(
                f"{field}: {one} holds a credential, which nobody reads here", words="ldap_credential", values={"attribute": one}
            )


def _plain(attribute: str) -> str:
    """The name without its options, in lower case."""
    return attribute.partition(";")[0].strip().lower()
