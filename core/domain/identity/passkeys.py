"""Passkeys: registration and authentication by Web Authentication, level 3."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from core.domain.errors import BadRequest, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import PasskeyId, SessionId, UserId
from core.domain.identity.devices import device_name
from core.domain.identity.mfa import MfaMethod
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import is_just_past
from core.frozen import Frozen

PASSKEY_PROVIDER: Final = "passkey"
CHALLENGE_LIFETIME: Final = timedelta(minutes=5)
MOST_PASSKEYS: Final = 25
RELATED_ORIGINS: Final = "/.well-known/webauthn"
"""Where browsers ask the host that passkeys belong to for the origins that may use them."""
MOST_PASSKEY_ORIGINS: Final = 5
"""Beside the installation's own. Browsers read at least as many sites of a host's document (section 5.11)."""
OFFERED_AGAIN_AFTER: Final = timedelta(days=30)
"""After a sign-in by a password, a person without a passkey is offered one, and not again before this."""
LONGEST_CREDENTIAL_ID: Final = 1023
"""Web Authentication, section 4."""
LONGEST_PUBLIC_KEY: Final = 1200
"""The length of an RSA key of 8192 bits. Larger keys would cost too much processor time."""

# COSE: Ed25519, ECDSA on P-256 with SHA-256, RSA with SHA-256, in the order of our preference.
ALGORITHMS: Final = (-8, -7, -257)
# Web Authentication, section 5.8.4. The next browser could do nothing with other values.
TRANSPORTS: Final = frozenset({"usb", "nfc", "ble", "smart-card", "hybrid", "internal"})

passkey_name = device_name
"""Names of devices and passkeys follow the same rules."""


class Ceremony(StrEnum):
    """The purpose of a challenge."""

    REGISTER = "register"
    CONDITIONAL = "conditional"
    """Adding a passkey that the browser makes by itself, after a sign-in by a password (conditional create, section 5.1.3)."""
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    PROVE = "prove"


class RelyingParty(Frozen):
    """The name under which authenticators know us. A passkey belongs to the host, and works on the pages of the origins only."""

    id: str
    origin: str
    """Of the installation's own pages."""
    others: Sequence[str] = ()
    """Origins whose pages may use the passkeys as well, as the operator has named them."""

    @property
    def origins(self) -> Sequence[str]:
        return (self.origin, *self.others)

    @property
    def is_related(self) -> bool:
        """Whether browsers have to ask the host of the passkeys if our own pages may use them: a related origin (section 5.11)."""
        return self.is_apart(self.origin)

    def is_apart(self, origin: str) -> bool:
        """Whether the origin is neither on the host nor below it."""
        host = urlsplit(origin).hostname or ""
        return host != self.id and not host.endswith(f".{self.id}")

    @property
    def is_of_several(self) -> bool:
        """Whether anything but the host of our own pages has to do with the passkeys, as the operator has said."""
        return bool(self.others) or self.id != urlsplit(self.origin).hostname

    @property
    def apart(self) -> Sequence[str]:
        """The origins that the document of the host has to name."""
        return [one for one in self.origins if self.is_apart(one)]


class Obstacle(StrEnum):
    """The reason why an installation cannot have passkeys."""

    ADDRESS = "address"
    """Its base URL names an IP address; browsers bind passkeys to names."""
    INSECURE = "insecure"
    """Its base URL is plain HTTP, and not on this machine: browsers offer passkeys on secure pages only."""


def relying_party(base_url: str, named: str | None = None, others: Sequence[str] = ()) -> RelyingParty | Obstacle:
    """`named` is the host that passkeys belong to, if it is not the host of the base URL. `others` are further origins, as browsers write
    them.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        if parts.scheme != "https" and not is_local(host):
            return Obstacle.INSECURE
        origin = written_origin(base_url)
        return RelyingParty(named or host, origin, tuple(one for one in others if one != origin))
    return Obstacle.ADDRESS


def is_local(host: str) -> bool:
    """Whether browsers take the host for this very machine, where pages are secure without https."""
    return host == "localhost" or host.endswith(".localhost")


def written_origin(url: str) -> str:
    """The origin as browsers write it: in small letters, and without the scheme's usual port."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    port = "" if parts.port in {None, usual} else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


class PasskeysUnavailable(BadRequest):
    """Raised by every use of passkeys in such an installation."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(_OBSTACLES[obstacle], words=f"passkeys_{obstacle.value}")


_OBSTACLES: Final = {
    Obstacle.ADDRESS: "Passkeys require a base URL with a host name; the base URL of this installation has an IP address",
    Obstacle.INSECURE: "Passkeys require a base URL with https",
}


def challenge_digest(challenge: str, ceremony: Ceremony, bound_to: bytes) -> bytes:
    """The stored form of a challenge. The digest includes the purpose and the receiver, so a challenge works for no other purpose and no
    other receiver.
    """
    return sha256(b" ".join((ceremony.value.encode(), sha256(bound_to).digest(), challenge.encode("utf-8", "surrogatepass")))).digest()


class PasskeyRegistration(Frozen):
    """The browser's answer after it has made a passkey."""

    client_data: bytes
    attestation_object: bytes
    transports: Sequence[str] = ()
    is_discoverable: bool | None = None
    """As the browser says. None when the browser does not say."""


class Assertion(Frozen):
    """The browser's answer after somebody has used a passkey."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes | None


class NewKey(Frozen, kw_only=True):
    """A public key that an authenticator has made, and what the authenticator says about it."""

    credential_id: bytes
    public_key: bytes
    """COSE_Key (RFC 9052), as the authenticator wrote it."""
    sign_count: int
    aaguid: UUID
    """The authenticator's model. Zero when the authenticator does not say."""
    backup_eligible: bool
    """The person's passkey manager may copy it to other devices of the person."""
    backed_up: bool


class ReadRegistration(Frozen):
    """A parsed and checked registration. Only its challenge is not checked yet."""

    challenge: str
    made: NewKey | None
    fault: str
    """The reason why there is no key. Empty when there is a key."""


class ReadAssertion(Frozen):
    """A parsed assertion. Every check that needs no key is done."""

    given: Assertion
    challenge: str
    sign_count: int
    backup_eligible: bool
    backed_up: bool
    fault: str
    """The reason for a refusal, whatever the signature. Empty when nothing is wrong so far."""


class Passkey(NewKey, kw_only=True):
    """A passkey signs in without a password. It shows two factors at once: the authenticator that has the key, and the finger, face or PIN
    that unlocks the authenticator.
    """

    id: PasskeyId
    user: UserId
    name: str
    transports: Sequence[str]
    created_at: datetime
    last_used_at: datetime | None = None
    made_on: str | None = None
    """The browser and system that made it, in words. None when it was made elsewhere, or before we kept this."""
    user_handle: bytes | None = None
    """The person's name at the authenticator, where another system made the passkey. None for the account's id."""
    awaits_first_use: bool = False
    """Another system made the passkey and did not say whether it may be copied. Its first use here says it."""
    second_factor_since: datetime | None = None
    """When the passkey became a second factor after a password. None when the passkey only signs in by itself."""

    def is_new(self, now: datetime) -> bool:
        """The passkey was added a moment ago, perhaps by the first of two equal forms."""
        return is_just_past(self.created_at, now)

    @property
    def handle(self) -> bytes:
        return self.user.bytes if self.user_handle is None else self.user_handle

    @property
    def method(self) -> MfaMethod:
        return MfaMethod.SYNCED_PASSKEY if self.backup_eligible else MfaMethod.PASSKEY

    @property
    def amr(self) -> tuple[str, ...]:
        """The methods of a sign-in with this passkey alone, in the words of RFC 8176 section 2. No attestation shows where the key is kept,
        so a key that may leave its device counts as a key in software.
        """
        return (*KEY_METHODS[self.method], "mfa")


KEY_METHODS: Final = {MfaMethod.PASSKEY: ("hwk", "user"), MfaMethod.SYNCED_PASSKEY: ("swk", "user")}


class CreationOptions(Frozen):
    """The data that a browser needs to make a passkey."""

    relying_party: RelyingParty
    challenge: str
    user: UserId
    email: str
    excluded: Sequence[Passkey]
    """The passkeys that the person has: no authenticator should have two."""
    ceremony: Ceremony = Ceremony.REGISTER


class RequestOptions(Frozen):
    """The data that a browser needs to ask for a passkey."""

    relying_party: RelyingParty
    challenge: str
    allowed: Sequence[Passkey] = ()
    """Empty when the person may use any passkey."""


def has_gone_back(kept: int, told: int) -> bool:
    """Whether the authenticator's counter shows a copy of the key. Many authenticators do not count, and always say 0."""
    return (kept > 0 or told > 0) and told <= kept


class PasskeyRefused(Unauthorized):
    """The answer is the same for every fault of a passkey. The log names the fault."""

    text = "This passkey was not accepted"

    def __init__(self, detail: str, *, shows_no_key: bool = False) -> None:
        """`shows_no_key`: whoever answered has shown no key that we know. It is the same for a passkey that nobody has, and for one that
        somebody has and whose signature is wrong, so whoever merely knows a passkey's name learns nothing.
        """
        self.shows_no_key = shows_no_key
        super().__init__(words="passkey_refused", detail=detail)


class PasskeyChallengeOver(Unauthorized):
    """The challenge has expired, was used, or was given to another receiver."""

    text = "This took too long, or was sent twice: request new options, and use the passkey again"

    def __init__(self) -> None:
        super().__init__(words="passkey_expired")


def passkey_added(passkey: Passkey, actor: Actor, *, by_itself: bool = False) -> Event:
    """`by_itself`: the browser made it after a sign-in by a password, without a question."""
    details = {**_details(passkey), **({"conditional": True} if by_itself else {})}
    return Event("security.passkey.added", actor, _target(passkey), details=details, personal={"name": passkey.name})


def passkey_removed(passkey: Passkey, actor: Actor) -> Event:
    return Event("security.passkey.removed", actor, _target(passkey), details=_details(passkey), personal={"name": passkey.name})


def passkeys_changed(passkey: Passkey, actor: Actor, *, added: bool) -> Event:
    """For the logs of organizations that the person belongs to by their own act: no name, and no id of the passkey."""
    kind = "fido2-platform" if "internal" in passkey.transports else "fido2-roaming"
    details = {"change": "create" if added else "delete", "kind": kind}
    return Event("security.passkeys.changed", actor, Target("user", str(passkey.user)), details=details)


def passkey_renamed(passkey: Passkey, name: str, actor: Actor) -> Event:
    personal = {"old_name": passkey.name, "name": name}
    return Event("security.passkey.renamed", actor, _target(passkey), details=_details(passkey), personal=personal)


def passkey_copied(passkey: Passkey, actor: Actor) -> Event:
    """The passkey's counter went back: somebody else may have a copy of the key."""
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
    """Without the passkey's name: the person chose the name, so it must be possible to forget it."""
    return {"passkey_id": str(passkey.id)}


NOBODY: Final = b""
"""The receiver of challenges for clients of the API. The client that sends the answer gets the tokens, so no other receiver can be confused
with it.
"""


def bound_to_session(session: SessionId) -> bytes:
    return session.bytes
