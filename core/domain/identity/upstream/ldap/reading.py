"""What a run reads in a directory by LDAP."""

from collections.abc import Mapping, Sequence

from core.frozen import Frozen


class LdapMarks(Frozen):
    """How far a run has come."""

    controller: str | None
    """Active Directory: the controller's invocationId."""
    usn: int | None
    """Its highestCommittedUSN at the start of the run."""
    modified: str | None
    """Elsewhere: the greatest modifyTimestamp seen, as the server writes it."""


class LdapPerson(Frozen):
    identity: bytes
    dn: str
    is_disabled: bool
    values: Mapping[str, Sequence[str]]
    """The asked attributes, by their names in lower case."""


class LdapGroup(Frozen):
    identity: bytes
    dn: str
    name: str
    members: frozenset[bytes]
    """The identities of people. Nested groups are resolved to a depth of 10, and Active Directory's primaryGroupID counts."""
    is_cut: bool
    """The group has more than 100 000 people, and these are some of them."""
