"""The event types of Shared Signals, and the events of the catalog that become signals."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.domain.identifiers import OrganizationId
from core.domain.record.events import SYSTEM, Event, Target

SIGNAL_TOPIC: Final = "signals"
"""The doorbell of the dispatchers of signals."""

_CAEP: Final = "https://schemas.openid.net/secevent/caep/event-type"
_RISC: Final = "https://schemas.openid.net/secevent/risc/event-type"
_SSF: Final = "https://schemas.openid.net/secevent/ssf/event-type"


class SignalType(StrEnum):
    """What can be told. The first five are named by owners and by streams; each stream hears of itself."""

    SESSION_REVOKED = "session-revoked"
    CREDENTIAL_CHANGE = "credential-change"
    ACCOUNT_DISABLED = "account-disabled"
    ACCOUNT_ENABLED = "account-enabled"
    ACCOUNT_PURGED = "account-purged"
    VERIFICATION = "verification"
    STREAM_UPDATED = "stream-updated"

    @property
    def uri(self) -> str:
        return f"{_BASES[self]}/{self}"


_BASES: Final[Mapping[SignalType, str]] = {
    SignalType.SESSION_REVOKED: _CAEP,
    SignalType.CREDENTIAL_CHANGE: _CAEP,
    SignalType.ACCOUNT_DISABLED: _RISC,
    SignalType.ACCOUNT_ENABLED: _RISC,
    SignalType.ACCOUNT_PURGED: _RISC,
    SignalType.VERIFICATION: _SSF,
    SignalType.STREAM_UPDATED: _SSF,
}
OFFERED: Final = (
    SignalType.SESSION_REVOKED,
    SignalType.CREDENTIAL_CHANGE,
    SignalType.ACCOUNT_DISABLED,
    SignalType.ACCOUNT_ENABLED,
    SignalType.ACCOUNT_PURGED,
)
"""What owners turn on and streams ask for."""
BY_URI: Final[Mapping[str, SignalType]] = {one.uri: one for one in OFFERED}

VERIFIED_EVENT: Final = "signal_stream.verification"
DROPPED_EVENT: Final = "signal_stream.dropped"
"""The signals of these two events go to the stream that is their target, and to nobody else."""
PURGED_EVENT: Final = "user.purged"
"""The statement that ends an account publishes it, before the person's uses end. So nobody asks again when it is sent."""
PAUSING_EVENT: Final = "signal_stream.paused"
RESUMING_EVENT: Final = "signal_stream.resumed"
"""The signals of these two events go to all streams of the organization that are enabled: they are paused meanwhile."""

SIGNALLED_EVENTS: Final[Mapping[str, SignalType]] = {
    "security.password.changed": SignalType.CREDENTIAL_CHANGE,
    "security.passkeys.changed": SignalType.CREDENTIAL_CHANGE,
    "security.mfa.enabled": SignalType.CREDENTIAL_CHANGE,
    "security.mfa.disabled": SignalType.CREDENTIAL_CHANGE,
    "security.account.locked": SignalType.ACCOUNT_DISABLED,
    "security.account.unlocked": SignalType.ACCOUNT_ENABLED,
    PURGED_EVENT: SignalType.ACCOUNT_PURGED,
    VERIFIED_EVENT: SignalType.VERIFICATION,
    DROPPED_EVENT: SignalType.STREAM_UPDATED,
    PAUSING_EVENT: SignalType.STREAM_UPDATED,
    RESUMING_EVENT: SignalType.STREAM_UPDATED,
}
"""The events that signals tell, by their names in the catalogue. Their targets are people, but for those of the two last types."""


def streams_paused(organization: OrganizationId) -> Event:
    """The organization is suspended. What its webhooks hear of it names nobody."""
    return Event(PAUSING_EVENT, SYSTEM, Target("organization", str(organization)), organization)


def streams_resumed(organization: OrganizationId) -> Event:
    """The organization is active again."""
    return Event(RESUMING_EVENT, SYSTEM, Target("organization", str(organization)), organization)
