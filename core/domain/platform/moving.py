"""Moving an organization to another installation: the header of its file, what may arrive, and the report."""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId
from core.domain.identity.foreign_hashes.hashes import HashRefused, is_foreign, read_stored
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

FORMAT: Final = 2
RECEIVING_KEY: Final = "organization_moves"
"""The purpose of the server secret that is the private half of the X25519 receiving key."""
HYBRID_RECEIVING_KEY: Final = "organization_moves_hybrid"
"""The same of the hybrid one."""
ARRIVED: Final = "It was moved here, and waits to be opened"
"""Why an organization that has arrived is suspended, until an operator activates it."""

_LONGEST_LINE: Final = 300

# A check of a password takes as much work as its hash says. An installation's own settings never come near these.
_MOST_MEMORY_KIB: Final = 256 * 1024
_MOST_WORK_KIB: Final = 1024 * 1024
_MOST_LANES: Final = 16
_HASH: Final = re.compile(
    r"\$argon2id\$v=(?:16|19)\$m=([0-9]{1,7}),t=([0-9]{1,3}),p=([0-9]{1,2})\$[A-Za-z0-9+/]{11,88}\$[A-Za-z0-9+/]{16,88}", re.ASCII
)


class UnfitFile(BadRequest):
    """The file cannot be imported, and nothing was. The message is one line for the operator, without characters of the file that a
    terminal would obey.
    """

    def __init__(self, message: str) -> None:
        shown = "".join(one if one.isprintable() else "?" for one in message)
        super().__init__(shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…")


class FileHead(Frozen):
    """The first line of a file."""

    format: int
    version: str
    schema: int
    """The number of the newest migration. A program that reads format 1 needs it, to say that this file has another format."""
    made_at: str
    source: str
    organization: UUID
    slug: str
    name: str
    tier: str
    relying_party: str | None
    """Passkeys are good for this name alone."""
    migrations: str = ""
    """The SHA-256 of the names and checksums of the migrations that both installations have reached, in hexadecimal: a file has the columns
    of this schema. Files of format 1 lack it. A number would not do: two lists of migrations may have one length.
    """


class FilePart(Frozen):
    name: str
    rows: int
    digest: str


class AuditProof(Frozen):
    """What proves the audit log. `head` is the end of the chain where the organization was, which only that installation can check.
    `digest` covers all entries in their order, and everybody who has the entries can compute it.
    """

    entries: int
    head: str
    faults: int
    digest: str


class FileEnd(Frozen):
    """The last line of a file: what the file must have contained. `head` is the digest of the first line."""

    head: str
    parts: tuple[FilePart, ...]
    audit: AuditProof


class TableReport(Frozen):
    """`rows` are in the file, `taken` have arrived, and the sentence says what became of the others."""

    table: str
    rows: int
    taken: int
    sentence: str = ""


class MovedPeople(Frozen):
    """`known` have had an account here. `renamed` have another id than before, so applications see another `sub`."""

    new: int
    known: int
    renamed: int
    without_password: int
    """Trusted people whose password is not good here, so that they choose a new one."""


class NamedPerson(Frozen):
    """Somebody who has had an account here, and who becomes the owner, or answers for management keys. They have not been asked."""

    email: str
    owns: bool
    keys: int
    """How many living management keys answer in their name."""


class DepartedOrganization(Frozen):
    """The report of an export."""

    organization: UUID
    slug: str
    file: str
    digest: str
    sealed_for: str
    was_open: bool
    """Whether the organization was in use meanwhile: later changes are not in the file."""
    people: int
    tables: Sequence[FilePart]
    audit: AuditProof


class ArrivedOrganization(Frozen):
    """The report of an import, or of its plan. `changed_ids` are at most the first few, old to new; a report file has all people."""

    organization: UUID
    slug: str
    source: str
    digest: str
    tier: str
    status: str
    trusted: bool
    planned: bool
    people: MovedPeople
    named: Sequence[NamedPerson]
    changed_ids: Mapping[str, str]
    tables: Sequence[TableReport]
    audit: AuditProof


def is_bearable(encoded: str) -> bool:
    """Whether a password's hash asks for a sensible amount of work. A hash of another system must be as we keep it: a fast one wrapped."""
    if not is_foreign(encoded):
        return _is_bearable(encoded)
    try:
        foreign = read_stored(encoded)
    except HashRefused:
        return False
    return not foreign.is_fast if foreign.wrapping is None else _is_bearable(foreign.wrapping)


def _is_bearable(encoded: str) -> bool:
    found = _HASH.fullmatch(encoded)
    if found is None:
        return False
    memory, passes, lanes = map(int, found.groups())
    return 1 <= lanes <= _MOST_LANES and 8 * lanes <= memory <= _MOST_MEMORY_KIB and passes >= 1 and memory * passes <= _MOST_WORK_KIB


def exported(departure: DepartedOrganization, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "slug": departure.slug,
        "digest": departure.digest,
        "sealed_for": departure.sealed_for,
        "people": departure.people,
        "audit_head": departure.audit.head,
    }
    return Event("organization.exported", actor, _target(departure.organization), OrganizationId(departure.organization), details)


def imported(arrival: ArrivedOrganization, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "slug": arrival.slug,
        "source": arrival.source,
        "digest": arrival.digest,
        "people": arrival.people.new + arrival.people.known,
        "trusted_people": arrival.trusted,
        "audit_head": arrival.audit.head,
        "audit_digest": arrival.audit.digest,
    }
    return Event("organization.imported", actor, _target(arrival.organization), OrganizationId(arrival.organization), details)


def _target(organization: UUID) -> Target:
    return Target("organization", str(organization))
