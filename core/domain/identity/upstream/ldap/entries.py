"""Reads users and groups from LDAP entries, for a directory sync."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from core.domain.identity.upstream.ldap.answers import LdapEntry, NotRecognised, identity_of, shown
from core.domain.identity.upstream.ldap.filters import ComparedFilter, EveryFilter, LdapComparison, LdapFilter, is_attribute, is_credential
from core.domain.identity.upstream.ldap.settings import LdapIdentity
from core.domain.identity.upstream.ldap.surveys import MOST_PEOPLE, LdapMarks, LdapPerson

STANDING: Final = ("userAccountControl", "pwdAccountLockedTime", "nsAccountLock")
"""The attributes by which directories say that somebody is disabled."""
MOST_NESTED_GROUPS: Final = 10
LONGEST_GROUP_NAME: Final = 200
_MOST_VALUES: Final = 1000
# ACCOUNTDISABLE, MS-ADTS, section 2.2.16.
_DISABLED: Final = 0x2
_NUMBER: Final = re.compile(rb"-?[0-9]{1,10}")
# draft-behera-ldap-password-policy-10, section 5.3.3: by an administrator, until an administrator ends it.
_LOCKED_FOR_GOOD: Final = b"000001010000Z"
_MODIFIED: Final = re.compile(rb"[0-9]{14}(?:\.[0-9]{1,6})?Z")
_ESCAPES: Final = re.compile(r"(?:\\[0-9A-Fa-f]{2})+|\\.")
_SPACES: Final = re.compile(r"\s*(?<!\\)([,=+])\s*")
_UNUSUAL: Final = re.compile(r"[\\\s]")
_SPECIAL: Final = frozenset(',+"\\<>;=#')
# "Name and optional UID" of RFC 4517, section 3.3.21.
_OPTIONAL_UID: Final = re.compile(r"#'[01]*'B$")
# A security identifier of Windows ends in the number of the group in its domain, four bytes, the least first.
_LEAST_SID: Final = 12
_RID_BYTES: Final = 4


def person_of(entry: LdapEntry, identity: LdapIdentity, attributes: Collection[str]) -> LdapPerson | None:
    """None for somebody without exactly one usable identity. `attributes` are in lower case."""
    try:
        known_by = identity_of(entry, identity)
    except NotRecognised:
        return None
    values = {name: entry.texts(name)[:_MOST_VALUES] for name in attributes if name in entry.attributes}
    return LdapPerson(known_by, entry.dn, is_disabled(entry), values)


def readable_names(attributes: Sequence[str]) -> Sequence[str]:
    """Those of the attributes that may be read, in lower case."""
    return list(dict.fromkeys(one.lower() for one in attributes if is_attribute(one) and not is_credential(one)))


def is_disabled(entry: LdapEntry) -> bool:
    """Whether an administrator has disabled the account. A lock after wrong passwords disables nobody: a stranger brings it about."""
    control = entry.attributes.get("useraccountcontrol", ())
    if control and _NUMBER.fullmatch(control[0]) and int(control[0]) & _DISABLED:
        return True
    if _LOCKED_FOR_GOOD in entry.attributes.get("pwdaccountlockedtime", ()):
        return True
    return any(one.lower() == b"true" for one in entry.attributes.get("nsaccountlock", ()))


def changed_since(people: LdapFilter, since: LdapMarks | None, controller: str | None) -> LdapFilter:
    """Those of the people who have changed since the marks at this controller; all of them where the marks tell nothing about it."""
    if since is None:
        return people
    if since.controller is not None:
        if since.controller != controller or since.usn is None:
            return people
        return EveryFilter((people, ComparedFilter("uSNChanged", LdapComparison.AT_LEAST, str(since.usn + 1).encode())))
    if since.modified is None or controller is not None:
        return people
    return EveryFilter((people, ComparedFilter("modifyTimestamp", LdapComparison.AT_LEAST, since.modified.encode())))


def later_modified(before: str | None, entry: LdapEntry) -> str | None:
    """The later one of the two times, as the directory writes it."""
    values = entry.attributes.get("modifytimestamp", ())
    if len(values) != 1 or not _MODIFIED.fullmatch(values[0]):
        return before
    value = values[0].decode()
    return value if before is None or value.rstrip("Z") > before.rstrip("Z") else before


def folded_dn(dn: str) -> str:
    """The name as names are compared here: directories write one name in several ways, in case, spaces, and escapes."""
    if _UNUSUAL.search(dn) is None:
        return dn.casefold()
    return _SPACES.sub(r"\1", _ESCAPES.sub(_written, _OPTIONAL_UID.sub("", dn).strip())).casefold()


def _written(escape: re.Match[str]) -> str:
    """An escaped character as it is written here, whichever way the directory escapes it."""
    said = escape[0]
    characters = bytes.fromhex(said.replace("\\", "")).decode("utf-8", "replace") if len(said) > 2 else said[1]
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in characters)


def is_below(dn: str, base: str) -> bool:
    """Both are folded."""
    return base in ("", dn) or dn.endswith(f",{base}")


def group_name(entry: LdapEntry) -> str:
    named = next(iter(entry.texts("cn")), "") or entry.dn.partition("=")[2].partition(",")[0]
    return shown(named.strip(), LONGEST_GROUP_NAME)


def sid_of(entry: LdapEntry) -> tuple[bytes, int] | None:
    """The domain and the number there, by the security identifier of Windows."""
    values = entry.attributes.get("objectsid", ())
    if len(values) != 1 or len(values[0]) < _LEAST_SID:
        return None
    value = bytes(values[0])
    return value[:-_RID_BYTES], int.from_bytes(value[-_RID_BYTES:], "little")


def primary_group(entry: LdapEntry) -> tuple[bytes, int] | None:
    """Active Directory keeps a person's first group as a number beside the person, and lists the person in no `member` of it."""
    own, values = sid_of(entry), entry.attributes.get("primarygroupid", ())
    if own is None or len(values) != 1 or not _NUMBER.fullmatch(values[0]):
        return None
    return own[0], int(values[0])


class GroupMembers:
    """Who stands in a group itself, while the directory is read."""

    def __init__(self) -> None:
        self.people = set[bytes]()
        self.groups = set[str]()
        self.is_cut = False

    @property
    def is_full(self) -> bool:
        return len(self.people) >= MOST_PEOPLE


def resolved(groups: Mapping[str, GroupMembers], group: str) -> tuple[frozenset[bytes], bool, int]:
    """The people of a group and of the groups in it, whether there are more, and how many entries that took."""
    found, seen, is_cut, looked = set[bytes](), {group}, False, 0
    level = [group]
    for _ in range(MOST_NESTED_GROUPS + 1):
        below: list[str] = []
        for one in level:
            members = groups[one]
            found |= members.people
            is_cut = is_cut or members.is_cut
            looked += len(members.people) + len(members.groups) + 1
            new = members.groups - seen
            seen |= new
            below += sorted(new)
        level = below
        if not level:
            break
    if len(found) > MOST_PEOPLE:
        found, is_cut = set(sorted(found)[:MOST_PEOPLE]), True
    return frozenset(found), is_cut or level != [], looked
