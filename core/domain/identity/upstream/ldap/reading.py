"""What is read of a whole directory by LDAP: how far a run has come, people, and groups."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.frozen import Frozen, replace

MODIFIED: Final = "modifyTimestamp"
MOST_PEOPLE: Final = 100_000
"""So many people a directory may have here, and so many members a group."""
# The shortest time, as directories write it.
_TIME: Final = "20261127000000Z"


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


def later_marks(marks: LdapMarks, people: Sequence[LdapPerson]) -> LdapMarks:
    """The marks after these people were read with `MODIFIED`."""
    times = [value for one in people for value in one.values.get(MODIFIED.lower(), ())[:1] if len(value) >= len(_TIME)]
    return replace(marks, modified=max([*([] if marks.modified is None else [marks.modified]), *times], key=_comparable, default=None))


def _comparable(time: str) -> str:
    """Without the letter of the zone, which would come after a fraction of a second."""
    return time.rstrip("Z")
