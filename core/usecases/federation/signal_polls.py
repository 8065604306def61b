"""Shared signals by polls (RFC 8936): an application fetches what waits for its stream, and says what it has received."""

from collections.abc import Collection, Mapping
from uuid import UUID

from core.domain.errors import found
from core.domain.federation.signals import MOST_POLLED, DueSignal, SignalCaller, StreamMethod, refused_for, signal_claims
from core.domain.identifiers import SignalStreamId
from core.frozen import Frozen
from core.usecases.federation.signals import NO_SUCH_STREAM
from ports.crypto import TokenSigner
from ports.federation.signals import SignalCallers, SignalPolls, SignalStore
from ports.metrics import Metrics


class SignalPoll(Frozen, kw_only=True):
    """What an application sends. `refused` says why, by the signal's `jti`."""

    received: Collection[str] = ()
    refused: Mapping[str, str] = {}
    most: int | None = None


class Polled(Frozen, kw_only=True):
    """SETs by their `jti`, the oldest first."""

    signals: Mapping[str, str]
    more: bool = False


class PolledStreams(Frozen):
    store: SignalStore
    callers: SignalCallers
    polls: SignalPolls
    signer: TokenSigner
    metrics: Metrics
    issuer: str

    async def poll(self, caller: SignalCaller, stream: SignalStreamId, poll: SignalPoll) -> Polled:
        """Takes the application's answers, and returns what waits. What it does not acknowledge comes again. Raises `NotFound`, also for a
        stream of another application, and for one that is pushed; and `InsufficientScope` where it answers with a token that only reads.
        """
        if poll.received or poll.refused:
            caller.require_management()
        known = await self.store.find(caller.service, stream)
        found(known if known is not None and known.method is StreamMethod.POLL else None, NO_SUCH_STREAM)
        await self._answered(stream, poll)
        return await self._waiting(caller, stream, poll)

    async def wait(self, caller: SignalCaller, stream: SignalStreamId, poll: SignalPoll) -> Polled:
        """What comes within the time that a poll may wait; nothing, at once, if it may not. Whoever has lost the right meanwhile gets
        nothing.
        """
        if not await self.polls.wait(caller.organization, stream):
            return Polled(signals={})
        if await self.callers.find_again(caller) is None:
            return Polled(signals={})
        return await self._waiting(caller, stream, poll)

    async def _answered(self, stream: SignalStreamId, poll: SignalPoll) -> None:
        refused = {one: refused_for(error) for jti, error in poll.refused.items() if (one := _id(jti)) is not None}
        received = [one for jti in poll.received if (one := _id(jti)) is not None]
        if received or refused:
            self.metrics.signals_polled("acknowledged", await self.polls.acknowledge(stream, received, refused))

    async def _waiting(self, caller: SignalCaller, stream: SignalStreamId, poll: SignalPoll) -> Polled:
        most = MOST_POLLED if poll.most is None else min(poll.most, MOST_POLLED)
        waiting = await self.polls.waiting(stream, most + 1)
        signals = {str(due.id): await self._signed(due, caller) for due in waiting[:most]}
        self.metrics.signals_polled("sent", len(signals))
        return Polled(signals=signals, more=len(waiting) > most)

    async def _signed(self, due: DueSignal, caller: SignalCaller) -> str:
        return await self.signer.sign_signal(signal_claims(due, client=caller.client, issuer=self.issuer))


def _id(jti: str) -> UUID | None:
    try:
        return UUID(jti)
    except ValueError:
        return None
