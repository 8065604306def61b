"""Webhooks: members with the right create, change, test and delete them."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, found
from core.domain.identifiers import WebhookId
from core.domain.record.event_types import WEBHOOK_EVENTS, EventType
from core.domain.record.events import Actor
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.webhook_deliveries import Delivery, previous_sealing_context, sealing_context
from core.domain.tenancy.webhooks import (
    OVERLAP,
    SECRET_BYTES,
    Webhook,
    WebhookChange,
    WebhookSettings,
    require_active,
    require_room,
    secret_of,
    secret_rotated,
    subscription,
    webhook_created,
    webhook_deleted,
    webhook_destination,
    webhook_name,
    webhook_tested,
    webhook_updated,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_rights
from ports.encryption import KeyRing
from ports.outbound import Outbound
from ports.system import System
from ports.tenancy.webhooks import WebhookStore
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
        sealed = self.keyring.seal(secret.reveal().encode(), sealing_context(webhook.id))
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
            previous = self.keyring.open(await uow.webhooks.sealed_secret(webhook), sealing_context(webhook))
            await uow.webhooks.replace_secret(
                webhook,
                self.keyring.seal(secret.reveal().encode(), sealing_context(webhook)),
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
                "url: this address is not public, and the operator of this installation has not allowed it", words="address_not_public"
            )


async def _held(uow: UnitOfWork, member: Member, webhook: WebhookId) -> Webhook:
    await hold_rights(uow, member, Capability.WEBHOOKS_MANAGE)
    return found(await uow.webhooks.hold(member.organization, webhook), _NO_SUCH_WEBHOOK)


async def held_active(uow: UnitOfWork, member: Member, webhook: WebhookId) -> Webhook:
    """The webhook, held, for changes that send a delivery. Raises `NotFound`, and `BadRequest` when the webhook is disabled."""
    held = await _held(uow, member, webhook)
    require_active(held)
    return held
