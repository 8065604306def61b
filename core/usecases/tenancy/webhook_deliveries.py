"""Deliveries: attempted by the dispatcher; listed and queued again by members."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.branding import Branding
from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import OrganizationId, WebhookDeliveryId, WebhookId
from core.domain.outbound.destinations import Destination
from core.domain.pages import Listed, Page
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import OrganizationMail
from core.domain.tenancy.members import Member
from core.domain.tenancy.webhook_deliveries import (
    ATTEMPT_TIMEOUT,
    BROKEN,
    MOST_REPLAYED,
    Delivery,
    DueDelivery,
    Outcome,
    Replayed,
    answered,
    body_of,
    headers_of,
    previous_sealing_context,
    sealing_context,
    unanswered,
)
from core.domain.tenancy.webhooks import PATIENCE, webhook_destination, webhook_paused
from core.frozen import Frozen
from core.usecases.tenancy.webhooks import held_active
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.tenancy.webhook_deliveries import Claimed, Wanted, WebhookDeliveryLookup, WebhookQueue
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# Longer than a batch takes when each of its attempts takes as long as it may.
LEASE: Final = timedelta(seconds=60)
BATCH: Final = 16
# For a webhook whose secret cannot be opened: the key may come back. Or whose URL is none by the rules of today.
_SEALED_SHUT: Final = timedelta(minutes=5)


class Receiver(Frozen):
    """A claimed destination, ready to be called."""

    claimed: Claimed
    destination: Destination
    secrets: Sequence[Secret]

    @property
    def organization(self) -> OrganizationId:
        return self.claimed.organization

    @property
    def is_failing(self) -> bool:
        return self.claimed.is_failing


class WebhookDeliveries:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: WebhookDeliveryLookup,
        queue: WebhookQueue,
        outbound: Outbound,
        *,
        keyring: KeyRing,
        templates: MailTemplates,
        metrics: Metrics,
        clock: Clock,
        spread: Callable[[], float],
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._queue = queue
        self._outbound = outbound
        self._keyring = keyring
        self._templates = templates
        self._metrics = metrics
        self._clock = clock
        self._spread = spread

    async def list(self, member: Member, webhook: WebhookId, wanted: Wanted, page: Page) -> Listed[Delivery]:
        """Newest event first. Raises `NotFound`."""
        listed = await self._lookup.list(member.organization, webhook, wanted, page)
        if listed is None:
            raise NotFound("There is no such webhook")
        return listed

    async def redeliver(self, member: Member, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery:
        """Raises `NotFound`, `BadRequest` when the webhook is disabled."""
        async with self._unit_of_work() as uow:
            await held_active(uow, member, webhook)
            queued = await uow.webhook_deliveries.redeliver(webhook, delivery)
            if queued is None:
                raise NotFound("The webhook has no such delivery")
            await uow.webhook_deliveries.ring()
            await uow.commit()
        return queued

    async def replay(self, member: Member, webhook: WebhookId, since: datetime, until: datetime | None, event_type: str | None) -> Replayed:
        """Raises `NotFound`, `BadRequest` when the webhook is disabled, does not subscribe to the type, or the span is empty."""
        end = self._clock.now() if until is None else until
        if since >= end:
            raise BadRequest("since: must be before until, and in the past")
        async with self._unit_of_work() as uow:
            held = await held_active(uow, member, webhook)
            if event_type is not None and event_type not in held.events:
                raise BadRequest("event_type: the webhook does not subscribe to it")
            replayed = await uow.webhook_deliveries.replay(webhook, since, end, event_type, MOST_REPLAYED)
            await uow.webhook_deliveries.ring()
            await uow.commit()
        return replayed

    async def claim(self, limit: int, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[Receiver]:
        """For the dispatcher, which releases each of them again."""
        return [
            receiver
            for claimed in await self._queue.claim(limit, LEASE, failing=failing, busy=busy)
            if (receiver := await self._opened(claimed)) is not None
        ]

    async def due(self, receiver: Receiver) -> Sequence[DueDelivery]:
        return await self._queue.due(receiver.claimed, BATCH)

    async def attempt(self, receiver: Receiver, due: DueDelivery, elapsed: Callable[[], float]) -> Outcome:
        """`elapsed` tells the seconds of the attempt so far."""
        body = body_of(due.happened)
        headers = headers_of(due.id, due.happened, body, receiver.secrets, self._clock.now())
        try:
            answer = await self._outbound.post(OutboundRequest(receiver.destination, body, headers), ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            outcome = unanswered(due, failed.failure.value, self._spread())
        else:
            outcome = answered(
                due,
                answer.status,
                answer.body,
                retry_after=answer.headers.get("retry-after"),
                now=self._clock.now(),
                spread=self._spread(),
            )
        self._count(due, outcome, elapsed)
        log.info(
            "webhook_attempted",
            webhook=str(receiver.claimed.webhook),
            delivery=str(due.id),
            name=due.happened.name,
            outcome=outcome.word,
            status=outcome.status_code,
            error=outcome.error,
            attempts=due.attempts + 1,
        )
        return outcome

    def broken(self, due: DueDelivery, elapsed: Callable[[], float]) -> Outcome:
        """An attempt that raised what nobody has foreseen."""
        outcome = unanswered(due, BROKEN, self._spread())
        self._count(due, outcome, elapsed)
        return outcome

    def _count(self, due: DueDelivery, outcome: Outcome, elapsed: Callable[[], float]) -> None:
        self._metrics.webhook_attempted(outcome.word, elapsed(), due.waited.total_seconds())

    async def settle(self, receiver: Receiver, outcomes: Sequence[Outcome]) -> None:
        """Writes down how attempts ended, and pauses a webhook that has failed for days. May be repeated while the lease lasts."""
        failing_since = await self._queue.settle(receiver.claimed, outcomes)
        now = self._clock.now()
        if failing_since is not None and failing_since <= now - PATIENCE:
            await self._pause(receiver.claimed.webhook, now)

    async def release(self, receiver: Receiver, rest: timedelta | None = None) -> None:
        await self._queue.release(receiver.claimed, rest)

    async def _opened(self, claimed: Claimed) -> Receiver | None:
        try:
            secrets = [Secret(self._keyring.open(claimed.sealed_secret, sealing_context(claimed.webhook)).decode())]
            if claimed.previous_sealed_secret is not None:
                previous = self._keyring.open(claimed.previous_sealed_secret, previous_sealing_context(claimed.webhook))
                secrets.append(Secret(previous.decode()))
            return Receiver(claimed, webhook_destination(claimed.url), secrets)
        except CannotOpen as error:
            log.error("webhook_secret_unreadable", webhook=str(claimed.webhook), error=str(error))  # noqa: TRY400 - the sentence says it all
        except Exception:
            log.exception("webhook_unreadable", webhook=str(claimed.webhook))
        await self._queue.release(claimed, _SEALED_SHUT)
        return None

    async def _pause(self, webhook: WebhookId, now: datetime) -> None:
        """Of several processes that find it due, one finds a webhook to pause, and tells the owners."""
        async with self._unit_of_work() as uow:
            paused = await uow.webhooks.pause(webhook, now - PATIENCE, now)
            if paused is None:
                return
            await uow.record(webhook_paused(paused, now - PATIENCE))
            for owner in await uow.webhooks.owners(paused.organization):
                mail = self._templates.mail(
                    "webhook_paused",
                    owner.email.address,
                    account=owner.user,
                    language=owner.language,
                    branding=Branding(owner.organization_name),
                    webhook=paused.name,
                    host=webhook_destination(paused.url).host,
                )
                await uow.jobs.add(OrganizationMail(mail, paused.organization).as_job())
            await uow.commit()
        self._metrics.webhook_paused()
        log.warning("webhook_paused", webhook=str(webhook), organization=str(paused.organization))
