"""Passkeys: key pairs in people's authenticators (Web Authentication, level 3). One of them signs in without a password, and shows two
factors at once: the authenticator that has the key, and the finger, face or PIN that unlocks it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from core.domain.errors import BadRequest, Unauthorized
from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.devices import device_name
from core.domain.identity.mfa import MfaMethod
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.repeats import is_just_past
from core.frozen import Frozen

PASSKEY_PROVIDER: Final = "passkey"
CHALLENGE_LIFETIME: Final = timedelta(minutes=5)
MOST_PASSKEYS: Final = 25
LONGEST_CREDENTIAL_ID: Final = 1023
"""Web Authentication, section 4."""
LONGEST_PUBLIC_KEY: Final = 1200
"""An RSA key of 8192 bits. Larger ones would keep us busy."""

# COSE: Ed25519, ECDSA on P-256 with SHA-256, RSA with SHA-256, in the order of our preference.
ALGORITHMS: Final = (-8, -7, -257)

passkey_name = device_name
"""Names of devices and passkeys follow the same rules."""


class Ceremony(StrEnum):
    """What a challenge is for."""

    REGISTER = "register"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    PROVE = "prove"


class RelyingParty(Frozen):
    """Who we are for authenticators. A passkey belongs to the host, and can be used on the pages of the origin only."""

    id: str
    origin: str


class Obstacle(StrEnum):
    """Why an installation cannot have passkeys."""

    ADDRESS = "address"
    """Its base URL names an IP address; browsers bind passkeys to names."""
    INSECURE = "insecure"
    """Its base URL is plain HTTP, and not on this machine: browsers offer passkeys on secure pages only."""


def relying_party(base_url: str) -> RelyingParty | Obstacle:
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
        if parts.scheme != "https" and not local:
            return Obstacle.INSECURE
        # As browsers write it: small letters, and no port where it is the scheme's own.
        usual = {"https": 443, "http": 80}.get(parts.scheme)
        port = "" if parts.port in {None, usual} else f":{parts.port}"
        return RelyingParty(host, f"{parts.scheme}://{host}{port}")
    return Obstacle.ADDRESS


class PasskeysUnavailable(BadRequest):
    """Raised by everything that would use one."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(_OBSTACLES[obstacle], words=f"passkeys_{obstacle.value}")


_OBSTACLES: Final = {
    Obstacle.ADDRESS: "Passkeys need an installation whose base URL has a host name; this one's is an IP address",
    Obstacle.INSECURE: "Passkeys need an installation whose base URL is https",
}


def challenge_digest(challenge: str, ceremony: Ceremony, bound_to: bytes) -> bytes:
    """What is kept of a challenge. Its purpose, and whom it was given to, are part of it: nothing else finds it."""
    return sha256(b" ".join((ceremony.value.encode(), sha256(bound_to).digest(), challenge.encode("utf-8", "surrogatepass")))).digest()


class PasskeyRegistration(Frozen):
    """What a browser answers with when it has made a passkey."""

    client_data: bytes
    attestation_object: bytes
    transports: Sequence[str] = ()
    is_discoverable: bool | None = None
    """As the browser says; None where it does not."""


class Assertion(Frozen):
    """What a browser answers with when somebody has used a passkey."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes | None


class NewKey(Frozen):
    """A key that an authenticator has made."""

    credential_id: bytes
    public_key: bytes
    """COSE_Key (RFC 9052), as the authenticator wrote it."""
    sign_count: int
    aaguid: UUID
    backup_eligible: bool
    backed_up: bool


class ReadRegistration(Frozen):
    """A registration, with all of it checked but its challenge."""

    challenge: str
    made: NewKey | None
    fault: str
    """Why there is no key. Empty: there is one."""


class ReadAssertion(Frozen):
    """An assertion, with all of it checked that needs no key."""

    given: Assertion
    challenge: str
    sign_count: int
    backup_eligible: bool
    backed_up: bool
    fault: str
    """Why it must be refused, whatever its signature. Empty: nothing found."""


class Passkey(Frozen, kw_only=True):
    id: PasskeyId
    user: UserId
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    aaguid: UUID
    """The authenticator's model; zero where it does not say."""
    transports: Sequence[str]
    backup_eligible: bool
    """It may be copied to other devices of the person, by whoever keeps their passkeys."""
    backed_up: bool
    created_at: datetime
    last_used_at: datetime | None = None
    second_factor_since: datetime | None = None
    """Since when it is asked for after a password. None: it only signs in by itself."""

    def is_new(self, now: datetime) -> bool:
        """It was added a moment ago, perhaps by the first of two equal forms."""
        return is_just_past(self.created_at, now)

    @property
    def method(self) -> MfaMethod:
        return MfaMethod.SYNCED_PASSKEY if self.backup_eligible else MfaMethod.PASSKEY

    @property
    def amr(self) -> tuple[str, ...]:
        """For signing in with it alone, in the words of RFC 8176 section 2. No attestation shows where the key is kept: a key that may
        leave its device counts as one in software.
        """
        return (*KEY_METHODS[self.method], "mfa")


KEY_METHODS: Final = {MfaMethod.PASSKEY: ("hwk", "user"), MfaMethod.SYNCED_PASSKEY: ("swk", "user")}


class CreationOptions(Frozen):
    """What a browser needs to make a passkey."""

    relying_party: RelyingParty
    challenge: str
    user: UserId
    email: str
    excluded: Sequence[Passkey]
    """Those that the person has: no authenticator should have two."""


class RequestOptions(Frozen):
    """What a browser needs to ask for a passkey."""

    relying_party: RelyingParty
    challenge: str
    allowed: Sequence[Passkey] = ()
    """Empty: any passkey that the person chooses."""


def has_gone_back(kept: int, told: int) -> bool:
    """Whether the authenticator's counter shows a copy of the key. Many authenticators do not count, and always say 0."""
    return (kept > 0 or told > 0) and told <= kept


class PasskeyRefused(Unauthorized):
    """It says the same of everything that is wrong with a passkey; the log says what it was."""

    text = "This passkey was not accepted"

    def __init__(self, detail: str) -> None:
        super().__init__(words="passkey_refused", detail=detail)


class PasskeyChallengeOver(Unauthorized):
    """The challenge has expired, was used, or was given to somebody else."""

    text = "This took too long, or was sent twice: ask for new options, and use the passkey again"

    def __init__(self) -> None:
        super().__init__(words="passkey_expired")


def passkey_added(passkey: Passkey, actor: Actor) -> Event:
    return Event("security.passkey.added", actor, _target(passkey), details=_details(passkey), personal={"name": passkey.name})


def passkey_removed(passkey: Passkey, actor: Actor) -> Event:
    return Event("security.passkey.removed", actor, _target(passkey), details=_details(passkey), personal={"name": passkey.name})


def passkey_renamed(passkey: Passkey, name: str, actor: Actor) -> Event:
    personal = {"old_name": passkey.name, "name": name}
    return Event("security.passkey.renamed", actor, _target(passkey), details=_details(passkey), personal=personal)


def passkey_copied(passkey: Passkey, actor: Actor) -> Event:
    """Its counter went back: somebody else may have the key."""
    personal = {"name": passkey.name}
    return Event(
        "security.passkey.copied",
        actor,
        _target(passkey),
        details=_details(passkey),
        success=False,
        personal=personal,
        person=passkey.user,
    )


def _target(passkey: Passkey) -> Target:
    return Target("user", str(passkey.user))


def _details(passkey: Passkey) -> Mapping[str, Json]:
    """Without its name: the person chose that, so it must be possible to forget it."""
    return {"passkey_id": str(passkey.id)}


NOBODY: Final = b""
"""For a client of the API: its answer brings tokens to whoever sends it, so there is nobody to confuse."""


def bound_to_session(session: SessionId) -> bytes:
    return session.bytes
