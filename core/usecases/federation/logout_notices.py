"""Telling services of their sessions that have ended, and telling organizations what became of that."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import structlog

from core.domain.errors import NotFound
from core.domain.federation.logout_notices import (
    ATTEMPT_TIMEOUT,
    HEADERS,
    DueNotice,
    LogoutNotice,
    answered,
    body_of,
    logout_claims,
    unanswered,
)
from core.domain.identifiers import OrganizationId
from core.domain.outbound.destinations import Destination
from core.domain.pages import Listed, Page
from core.domain.secrets import Token
from core.domain.services.services import logout_destination
from core.domain.tenancy.members import Member
from core.domain.tenancy.webhook_deliveries import BROKEN, Outcome
from core.frozen import Frozen
from core.usecases.tenancy.webhook_deliveries import BATCH, LEASE
from ports.clock import Clock
from ports.federation.logout_notices import ClaimedService, LogoutNoticeLookup, LogoutQueue
from ports.ids import Ids
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.tokens import TokenSigner

log = structlog.get_logger()

# For a service whose address is none by the rules of today.
_UNREADABLE: Final = timedelta(minutes=5)


class LogoutReceiver(Frozen):
    """A claimed service, ready to be called."""

    claimed: ClaimedService
    destination: Destination

    @property
    def organization(self) -> OrganizationId:
        return self.claimed.organization

    @property
    def is_failing(self) -> bool:
        return self.claimed.is_failing


class LogoutNotices:
    def __init__(
        self,
        lookup: LogoutNoticeLookup,
        queue: LogoutQueue,
        outbound: Outbound,
        signer: TokenSigner,
        *,
        metrics: Metrics,
        clock: Clock,
        ids: Ids,
        issuer: str,
        spread: Callable[[], float],
    ) -> None:
        self._lookup = lookup
        self._queue = queue
        self._outbound = outbound
        self._signer = signer
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._issuer = issuer
        self._spread = spread

    async def list(self, member: Member, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice]:
        """Newest first. Raises `NotFound`."""
        listed = await self._lookup.list(member.organization, slug, page, delivered=delivered)
        if listed is None:
            raise NotFound("The organization has no such service")
        return listed

    async def claim(self, limit: int, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[LogoutReceiver]:
        """For the dispatcher, which releases each of them again."""
        return [
            receiver
            for claimed in await self._queue.claim(limit, LEASE, failing=failing, busy=busy)
            if (receiver := await self._read(claimed)) is not None
        ]

    async def _read(self, claimed: ClaimedService) -> LogoutReceiver | None:
        try:
            return LogoutReceiver(claimed, logout_destination(claimed.uri))
        except Exception:
            log.exception("logout_address_unreadable", service=str(claimed.service))
        await self._queue.release(claimed, _UNREADABLE)
        return None

    async def due(self, receiver: LogoutReceiver) -> Sequence[DueNotice]:
        return await self._queue.due(receiver.claimed, BATCH)

    async def attempt(self, receiver: LogoutReceiver, due: DueNotice, elapsed: Callable[[], float]) -> Outcome:
        """`elapsed` tells the seconds of the attempt so far. The token is signed now: it is to be used at once."""
        claimed = receiver.claimed
        token_id = str(self._ids.new())
        claims = logout_claims(due, client=claimed.client, issuer=self._issuer, token_id=token_id, now=self._clock.now())
        token = Token(await self._signer.sign_logout(claims, claimed.algorithm.value))
        try:
            answer = await self._outbound.post(OutboundRequest(receiver.destination, body_of(token), HEADERS), ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            outcome = unanswered(due, failed.failure.value, self._spread())
        else:
            asked = answer.headers.get("retry-after")
            outcome = answered(due, answer.status, retry_after=asked, now=self._clock.now(), spread=self._spread())
        self._metrics.logout_notice_attempted(outcome.word, elapsed())
        log.info(
            "logout_notice_attempted",
            service=str(claimed.service),
            notice=str(due.id),
            outcome=outcome.word,
            status=outcome.status_code,
            error=outcome.error,
            attempts=due.attempts + 1,
        )
        return outcome

    def broken(self, due: DueNotice, elapsed: Callable[[], float]) -> Outcome:
        """An attempt that raised what nobody has foreseen."""
        outcome = unanswered(due, BROKEN, self._spread())
        self._metrics.logout_notice_attempted(outcome.word, elapsed())
        return outcome

    async def settle(self, receiver: LogoutReceiver, outcomes: Sequence[Outcome]) -> None:
        """Writes down how attempts ended. May be repeated while the lease lasts."""
        await self._queue.settle(receiver.claimed, outcomes)

    async def release(self, receiver: LogoutReceiver, rest: timedelta | None = None) -> None:
        await self._queue.release(receiver.claimed, rest)
