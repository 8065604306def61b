"""The recorder of a connection: what its provider answered, and why an answer was refused. It keeps checks, ids and reasons, and nothing
that an answer says about a person.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import uuid5

from core.domain.identifiers import ConnectionExchangeId, UpstreamProviderId
from core.domain.identity.upstream.saml.examinations import Check, CheckName, CheckState, Examination
from core.domain.saml.messages import ID, LONGEST_ID
from core.frozen import Frozen, replace

MOST_EXCHANGES: Final = 50
_REFERENCE_LENGTH: Final = 10


class ConnectionExchangeKind(StrEnum):
    SIGN_IN = "sign_in"
    TEST = "test"
    LOGOUT = "logout"
    ASSERTION = "assertion"
    """An identity assertion that was refused."""


class ConnectionExchange(Frozen, kw_only=True):
    id: ConnectionExchangeId
    provider: UpstreamProviderId
    kind: ConnectionExchangeKind
    succeeded: bool
    fault: str = ""
    """The kind of failure, in one word for programs."""
    reason: str = ""
    """The failure in words."""
    advice: str = ""
    checks: Sequence[Check] = ()
    """What was checked, without what tells about a person."""
    certificate: str = ""
    """The fingerprint of the certificate that signed the answer."""
    message: str = ""
    in_response_to: str = ""
    created_at: datetime
    """For a counted one the first time."""
    times: int = 1
    last_at: datetime | None = None
    """The last time of a counted one, and None for any other. What anybody may send, without a sign-in or a signature, is counted in one
    entry of its kind, whose id is `counted_id`, so that a stranger does not push out the others. Refused assertions are counted by their
    faults.
    """

    @property
    def reference(self) -> str:
        return reference_of(self.id)


def counted_id(provider: UpstreamProviderId, kind: ConnectionExchangeKind) -> ConnectionExchangeId:
    return ConnectionExchangeId(uuid5(provider, kind.value))


def joined(earlier: ConnectionExchange, later: ConnectionExchange) -> ConnectionExchange:
    """Both in one entry, with the reason of the later one."""
    return replace(later, created_at=earlier.created_at, times=earlier.times + later.times)


def reference_of(exchange: ConnectionExchangeId) -> str:
    """The end of the id, which is random: short enough to read aloud."""
    return exchange.hex[-_REFERENCE_LENGTH:].upper()


def kept_id(text: str) -> str:
    """The id as it is stored. A text that is no valid id could say anything about anybody."""
    return text[:LONGEST_ID] if ID.fullmatch(text) else ""


def of_examination(
    exchange: ConnectionExchangeId, provider: UpstreamProviderId, kind: ConnectionExchangeKind, found: Examination, now: datetime
) -> ConnectionExchange:
    failed = found.failed
    return ConnectionExchange(
        id=exchange,
        provider=provider,
        kind=kind,
        succeeded=failed is None,
        fault="" if failed is None else failed.fault,
        reason="" if failed is None else failed.without_person().words,
        advice="" if failed is None else failed.mend,
        # Processes of the release before do not know the check of applications, so only one that found something is kept.
        checks=[
            one.without_person()
            for one in found.checks
            if one.state is not CheckState.NOT_REACHED and (one.name is not CheckName.APPLICATIONS or one.came)
        ],
        certificate=found.certificate,
        message=kept_id(found.response_id),
        in_response_to=kept_id(found.in_response_to),
        created_at=now,
    )
