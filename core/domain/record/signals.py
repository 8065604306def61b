"""Shared signals: the types of what streams hear, and the events of the catalogue that become signals. What is set, and what a signal
says, stands in `core/domain/federation/signals.py`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

SIGNAL_TOPIC: Final = "signals"
"""The doorbell of the dispatchers of signals."""

_CAEP: Final = "https://schemas.openid.net/secevent/caep/event-type"
_RISC: Final = "https://schemas.openid.net/secevent/risc/event-type"
_SSF: Final = "https://schemas.openid.net/secevent/ssf/event-type"


class SignalType(StrEnum):
    """What can be told. The first four are named by owners and by streams; each stream hears of itself."""

    SESSION_REVOKED = "session-revoked"
    CREDENTIAL_CHANGE = "credential-change"
    ACCOUNT_DISABLED = "account-disabled"
    ACCOUNT_ENABLED = "account-enabled"
    VERIFICATION = "verification"

    @property
    def uri(self) -> str:
        return f"{_BASES[self]}/{self}"


_BASES: Final[Mapping[SignalType, str]] = {
    SignalType.SESSION_REVOKED: _CAEP,
    SignalType.CREDENTIAL_CHANGE: _CAEP,
    SignalType.ACCOUNT_DISABLED: _RISC,
    SignalType.ACCOUNT_ENABLED: _RISC,
    SignalType.VERIFICATION: _SSF,
}
OFFERED: Final = (
    SignalType.SESSION_REVOKED,
    SignalType.CREDENTIAL_CHANGE,
    SignalType.ACCOUNT_DISABLED,
    SignalType.ACCOUNT_ENABLED,
)
"""What owners turn on and streams ask for."""
BY_URI: Final[Mapping[str, SignalType]] = {one.uri: one for one in OFFERED}

VERIFIED_EVENT: Final = "signal_stream.verification"
"""The event whose signal goes to the stream that is its target, and to nobody else."""

SIGNALLED_EVENTS: Final[Mapping[str, SignalType]] = {
    "security.password.changed": SignalType.CREDENTIAL_CHANGE,
    "security.passkeys.changed": SignalType.CREDENTIAL_CHANGE,
    "security.mfa.enabled": SignalType.CREDENTIAL_CHANGE,
    "security.mfa.disabled": SignalType.CREDENTIAL_CHANGE,
    "security.account.locked": SignalType.ACCOUNT_DISABLED,
    "security.account.unlocked": SignalType.ACCOUNT_ENABLED,
    VERIFIED_EVENT: SignalType.VERIFICATION,
}
"""The events that signals tell, by their names in the catalogue. Their targets are people, but for that of a stream itself."""
