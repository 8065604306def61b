"""Deliveries to webhooks: members list them and queue them again, and the dispatcher sends them."""

from collections.abc import Mapping
from datetime import datetime

import structlog

from core.domain.errors import BadRequest, found
from core.domain.identifiers import WebhookDeliveryId, WebhookId
from core.domain.pages import Listed, Page
from core.domain.record.deliveries import DeliveryOutcome
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from core.domain.tenancy.webhook_deliveries import (
    MOST_REPLAYED,
    RULES,
    Delivery,
    DueEvent,
    Replayed,
    body_of,
    headers_of,
    previous_sealing_context,
    sealing_context,
)
from core.domain.tenancy.webhooks import PATIENCE, webhook_destination, webhook_paused
from core.frozen import Frozen
from core.usecases.record.deliveries import OpenReceiver
from core.usecases.tenancy.texts.organization_mails import organization_mail
from core.usecases.tenancy.webhooks import held_active
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.outbound import OutboundRequest
from ports.tenancy.webhook_deliveries import ClaimedWebhook, WantedDeliveries, WebhookDeliveryStore
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class WebhookDeliveries(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: WebhookDeliveryStore
    clock: Clock

    async def list(self, member: Member, webhook: WebhookId, wanted: WantedDeliveries, page: Page) -> Listed[Delivery]:
        """Newest event first. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, webhook, wanted, page), "There is no such webhook")

    async def redeliver(self, member: Member, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery:
        """Queue a delivery again. Raises `NotFound`, `BadRequest` when the webhook is disabled."""
        async with self.unit_of_work() as uow:
            await held_active(uow, member, webhook)
            queued = found(await uow.webhook_deliveries.redeliver(webhook, delivery), "The webhook has no such delivery")
            await uow.webhook_deliveries.ring()
            await uow.commit()
        return queued

    async def replay(self, member: Member, webhook: WebhookId, since: datetime, until: datetime | None, event_type: str | None) -> Replayed:
        """Queue the events of a time span again. Raises `NotFound`, and `BadRequest` when the webhook is disabled or does not subscribe to
        the event type, or when the span is empty.
        """
        end = self.clock.now() if until is None else until
        if since >= end:
            raise BadRequest("since: must be before until, and in the past", words="since_until")
        async with self.unit_of_work() as uow:
            held = await held_active(uow, member, webhook)
            if event_type is not None and event_type not in held.events:
                raise BadRequest("event_type: the webhook does not subscribe to it", words="webhook_event")
            replayed = await uow.webhook_deliveries.replay(webhook, since, end, event_type, MOST_REPLAYED)
            await uow.webhook_deliveries.ring()
            await uow.commit()
        return replayed


class WebhookReceivers(Frozen):
    """Webhooks as receivers of the dispatcher. Implements `core.usecases.record.deliveries.Receivers`."""

    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    templates: MailTemplates
    metrics: Metrics
    clock: Clock
    rules = RULES
    attempted = "webhook_attempted"
    unreadable = "webhook_unreadable"

    def opened(self, claimed: ClaimedWebhook) -> OpenReceiver[ClaimedWebhook] | None:
        try:
            secrets = [Secret(self.keyring.open(claimed.sealed_secret, sealing_context(claimed.id)).decode())]
            if claimed.previous_sealed_secret is not None:
                previous = self.keyring.open(claimed.previous_sealed_secret, previous_sealing_context(claimed.id))
                secrets.append(Secret(previous.decode()))
        except CannotOpen as error:
            log.error("webhook_secret_unreadable", **self.logged(claimed), error=str(error))  # noqa: TRY400 - the sentence says it all
            return None
        return OpenReceiver(claimed, webhook_destination(claimed.url), secrets)

    async def request(self, receiver: OpenReceiver[ClaimedWebhook], due: DueEvent) -> OutboundRequest:
        body = body_of(due.happened)
        return OutboundRequest(receiver.destination, body, headers_of(due.id, due.happened, body, receiver.secrets, self.clock.now()))

    def logged(self, claimed: ClaimedWebhook, due: DueEvent | None = None) -> Mapping[str, str]:
        webhook = {"webhook": str(claimed.id)}
        return webhook if due is None else {**webhook, "delivery": str(due.id), "name": due.happened.name}

    def count(self, due: DueEvent, outcome: DeliveryOutcome, seconds: float) -> None:
        self.metrics.webhook_attempted(outcome.word, seconds, due.waited.total_seconds())

    async def settled(self, claimed: ClaimedWebhook, failing_since: datetime | None) -> None:
        """Pauses a webhook that has failed for days."""
        now = self.clock.now()
        if failing_since is not None and failing_since <= now - PATIENCE:
            await self._pause(WebhookId(claimed.id), now)

    async def _pause(self, webhook: WebhookId, now: datetime) -> None:
        """Of several processes that find the pause due, only one pauses the webhook and tells the owners."""
        async with self.unit_of_work() as uow:
            paused = await uow.webhooks.pause(webhook, now - PATIENCE, now)
            if paused is None:
                return
            await uow.record(webhook_paused(paused, now - PATIENCE))
            for owner in await uow.webhooks.owners(paused.organization):
                mail = organization_mail(
                    self.templates,
                    paused.organization,
                    "webhook_paused",
                    owner.email.address,
                    account=owner.user,
                    language=owner.language,
                    branding=owner.branding,
                    is_own=owner.is_own,
                    webhook=paused.name,
                    host=webhook_destination(paused.url).host,
                )
                await uow.jobs.add(mail.as_job())
            await uow.commit()
        self.metrics.webhook_paused()
        log.warning("webhook_paused", webhook=str(webhook), organization=str(paused.organization))
