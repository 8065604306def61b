"""What is read of a whole directory by LDAP: how far a run has come, people, and groups."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.frozen import Frozen

MOST_PEOPLE: Final = 100_000
"""So many people a directory may have here, and so many members a group."""


class LdapMarks(Frozen):
    """How far a run has come."""

    controller: str | None
    """Active Directory: the controller's `invocationId`."""
    usn: int | None
    """Its `highestCommittedUSN` at the start of the run."""
    modified: str | None
    """Elsewhere: the greatest `modifyTimestamp` seen, as the server writes it."""


class LdapPerson(Frozen):
    identity: bytes
    """The value of the attribute of identity: 16 bytes of a GUID, otherwise the text in lower case. `subject_from` makes the subject."""
    dn: str
    is_disabled: bool
    values: Mapping[str, Sequence[str]]
    """Of the asked attributes, by their names in lower case. What is no text, or holds a credential, is left out."""


class LdapGroup(Frozen):
    identity: bytes
    dn: str
    name: str
    members: frozenset[bytes]
    """Identities of people, also of those in groups of the group."""
    is_cut: bool
    """There are more members than are read of a group."""
