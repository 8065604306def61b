"""Webhooks: their configuration and tests, and the deliveries that the dispatcher sends."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog

from core.domain.errors import BadRequest, found
from core.domain.identifiers import WebhookDeliveryId, WebhookId
from core.domain.record.deliveries import DeliveryOutcome, ReceiverKind
from core.domain.record.event_types import WEBHOOK_EVENTS, EventType
from core.domain.record.events import Actor
from core.domain.requests import Listed, Page
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.webhooks import (
    MOST_REPLAYED,
    OVERLAP,
    PATIENCE,
    SECRET_BYTES,
    WEBHOOK_DELIVERY_RULES,
    Delivery,
    DueEvent,
    Replayed,
    Webhook,
    WebhookChange,
    WebhookSettings,
    body_of,
    headers_of,
    previous_sealing_context,
    require_active,
    require_room,
    secret_of,
    secret_rotated,
    subscription,
    webhook_created,
    webhook_deleted,
    webhook_delivery_context,
    webhook_destination,
    webhook_name,
    webhook_paused,
    webhook_tested,
    webhook_updated,
)
from core.frozen import Frozen, replace
from core.usecases.record import OpenReceiver
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.texts import organization_mail
from ports.crypto import CannotOpen, KeyRing
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundRequest
from ports.system import Clock, System
from ports.tenancy.receivers import ClaimedWebhook, WantedDeliveries, WebhookDeliveryStore, WebhookStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NAME_TAKEN = "name: the organization has a webhook of this name"


_NO_SUCH_WEBHOOK: Final = "There is no such webhook"


class NewWebhook(Frozen):
    """A webhook with its new secret. No later answer shows the secret."""

    webhook: Webhook
    secret: Secret


class Webhooks(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: WebhookStore
    outbound: Outbound
    keyring: KeyRing
    system: System

    @staticmethod
    def event_types() -> Sequence[EventType]:
        """All event types that a webhook can subscribe to."""
        return WEBHOOK_EVENTS

    async def list(self, member: Member) -> Sequence[Webhook]:
        """Oldest first."""
        return await self.lookup.list(member.organization)

    async def get(self, member: Member, webhook: WebhookId) -> Webhook:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, webhook), _NO_SUCH_WEBHOOK)

    async def create(self, member: Member, actor: Actor, wanted: WebhookSettings) -> NewWebhook:
        """Create a webhook. Raises `BadRequest`, also for a name that another webhook of the organization has."""
        now = self.system.clock.now()
        self._require_callable(wanted.url)
        webhook = Webhook(
            id=WebhookId(self.system.ids.new()),
            organization=member.organization,
            name=webhook_name(wanted.name),
            url=wanted.url,
            events=subscription(wanted.events),
            is_active=wanted.is_active,
            paused_at=None,
            created_at=now,
            updated_at=now,
        )
        secret = secret_of(self.system.secrets.key_bytes(SECRET_BYTES))
        sealed = self.keyring.seal(secret.reveal().encode(), webhook_delivery_context(webhook.id))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.WEBHOOKS_MANAGE)
            require_room(await uow.webhooks.count(member.organization))
            if not await uow.webhooks.add(webhook, sealed):
                raise BadRequest(_NAME_TAKEN, words="name_taken")
            await uow.record(webhook_created(webhook, actor))
            await uow.commit()
        return NewWebhook(webhook, secret)

    async def change(self, member: Member, webhook: WebhookId, actor: Actor, change: WebhookChange) -> Webhook:
        """Raises `BadRequest`, `NotFound`."""
        said = {**change.said}
        if not said:
            raise BadRequest("Send at least one of name, url, events and is_active", words="nothing_to_change")
        if "name" in said:
            said["name"] = webhook_name(said["name"])
        if "events" in said:
            said["events"] = subscription(said["events"])
        if "url" in said:
            self._require_callable(said["url"])
        if "is_active" in said:
            said["paused_at"] = None
        async with self.unit_of_work() as uow:
            before = await _held(uow, member, webhook)
            after = replace(before, **said)
            if after == before:
                return before
            after = replace(after, updated_at=self.system.clock.now())
            if not await uow.webhooks.save(after):
                raise BadRequest(_NAME_TAKEN, words="name_taken")
            await uow.record(webhook_updated(before, after, actor))
            await uow.commit()
        return after

    async def rotate_secret(self, member: Member, webhook: WebhookId, actor: Actor) -> NewWebhook:
        """Replace the secret. For one more day, deliveries are signed with the replaced secret too; a secret from an earlier rotation no
        longer signs. Raises `NotFound`.
        """
        secret = secret_of(self.system.secrets.key_bytes(SECRET_BYTES))
        async with self.unit_of_work() as uow:
            rotated = await _held(uow, member, webhook)
            previous = self.keyring.open(await uow.webhooks.sealed_secret(webhook), webhook_delivery_context(webhook))
            await uow.webhooks.replace_secret(
                webhook,
                self.keyring.seal(secret.reveal().encode(), webhook_delivery_context(webhook)),
                self.keyring.seal(previous, previous_sealing_context(webhook)),
                self.system.clock.now() + OVERLAP,
            )
            await uow.record(secret_rotated(rotated, actor))
            await uow.commit()
        return NewWebhook(rotated, secret)

    async def test(self, member: Member, webhook: WebhookId, actor: Actor) -> Delivery:
        """Queues an event for this webhook alone. Raises `NotFound`, `BadRequest` when it is disabled."""
        async with self.unit_of_work() as uow:
            tested = await held_active(uow, member, webhook)
            await uow.record(webhook_tested(tested, actor))
            delivery = await uow.webhook_deliveries.newest_test(webhook)
            await uow.commit()
        return delivery

    async def delete(self, member: Member, webhook: WebhookId, actor: Actor) -> None:
        """Delete a webhook. Its deliveries are deleted a little later. A delivery that is under way may still arrive. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            deleted = await _held(uow, member, webhook)
            await uow.webhooks.delete(webhook)
            await uow.record(webhook_deleted(deleted, actor))
            await uow.commit()

    def _require_callable(self, url: str) -> None:
        if not self.outbound.may_call(webhook_destination(url)):
            raise BadRequest(
                "url: this URL is not public, and the operator of this installation has not allowed it", words="address_not_public"
            )


async def _held(uow: UnitOfWork, member: Member, webhook: WebhookId) -> Webhook:
    await hold_rights(uow, member, Capability.WEBHOOKS_MANAGE)
    return found(await uow.webhooks.hold(member.organization, webhook), _NO_SUCH_WEBHOOK)


async def held_active(uow: UnitOfWork, member: Member, webhook: WebhookId) -> Webhook:
    """The webhook, held, for changes that send a delivery. Raises `NotFound`, and `BadRequest` when the webhook is disabled."""
    held = await _held(uow, member, webhook)
    require_active(held)
    return held


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
    """Webhooks as receivers of the dispatcher. Implements `core.usecases.record.Receivers`."""

    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    templates: MailTemplates
    metrics: Metrics
    clock: Clock
    rules = WEBHOOK_DELIVERY_RULES
    kind = ReceiverKind.WEBHOOK
    attempted = "webhook_attempted"
    unreadable = "webhook_unreadable"

    def opened(self, claimed: ClaimedWebhook) -> OpenReceiver[ClaimedWebhook] | None:
        try:
            secrets = [Secret(self.keyring.open(claimed.sealed_secret, webhook_delivery_context(claimed.id)).decode())]
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
