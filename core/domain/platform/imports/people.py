"""A person as another system had them. Nothing here has been checked against this installation yet."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.profile.profiles import NOTHING_STATED, StatedProfile
from core.domain.json import Json
from core.domain.secrets import Secret
from core.frozen import Frozen

NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


class LeftOut(Exception):
    """A record that names nobody who could be taken. The text says why, in one line, and holds nothing secret."""


class ImportedPasskey(Frozen, kw_only=True):
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    aaguid: UUID
    transports: tuple[str, ...] = ()
    user_handle: bytes
    """The name that the other system gave the person at the authenticator."""
    backup_eligible: bool | None = None
    """None where the other system does not say. Then the passkey's first use here says it."""
    backed_up: bool = False
    is_second_factor: bool = False
    """The passkey was asked for after the password, and did not sign in alone."""


class ImportedIdentity(Frozen):
    """An account at a provider. `client_id` is the other system's registration there, if it says so: many providers name a person
    differently to each client.
    """

    issuer: str
    subject: str
    email: str = ""
    client_id: str = ""


class ImportedPerson(Frozen, kw_only=True):
    place: str
    """Where in the file the person stands, in words."""
    id: str
    """The other system's own name for the person, which never changes there."""
    email: str
    email_verified: bool = False
    is_disabled: bool = False
    profile: StatedProfile = NOTHING_STATED
    username: str = ""
    password: ForeignHash | None = None
    totp: Secret | None = None
    """In base32, for codes of six digits that change every thirty seconds, by SHA-1."""
    passkeys: tuple[ImportedPasskey, ...] = ()
    identities: tuple[ImportedIdentity, ...] = ()
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    service_roles: tuple[tuple[str, str], ...] = ()
    """Pairs: the name of an application, and of one of its roles."""
    fields: Mapping[str, Json] = NOTHING
    notes: tuple[str, ...] = ()
    """What stays behind of the person, line by line."""


class UnreadableRecord(Frozen):
    """A record of the file that is nobody."""

    place: str
    reason: str
    id: str = ""
    email: str = ""


Found = ImportedPerson | UnreadableRecord
