"""An organization with every kind of receiver, each of which writes down what it hears."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import trio
from psycopg.types.json import Jsonb

from actors.audit_log import SiemForwarder
from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from core.domain.federation.provisioning.connections import token_context
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.sessions import LOGOUT_TOPIC
from core.domain.record.event_types import WEBHOOK_TOPIC
from core.domain.record.events import Actor, Event, Target
from core.domain.record.signals import SIGNAL_TOPIC
from core.domain.tenancy.siem import SIEM_TOPIC
from ops.stand_ins.fake_far_side import FakeFarSide
from tests.http.client import Received
from tests.http.federation.provisioning.scene import MAPPING
from tests.http.federation.relying import Application
from tests.http.federation.signals.scene import Signalling
from tests.http.people import Person
from tests.http.tenants import Tenant, UsedService
from tests.patience import PATIENCE
from tests.receiver import Receiver

ORGANIZATION: Final = "/api/organizations/acme"
# Nobody listens there.
DEAD: Final = "http://127.0.0.1:1/"


@dataclass
class ReceivingScene(Signalling):
    """Ada uses the shop, the board and the page, and is a member of acme. All of it by her own act."""

    far: FakeFarSide | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.board = self.application(self.acme, "board", secret=True)
        self.stranger = self.resident(self.globex, "owner")
        self.connection: UUID = UUID(int=0)

    async def webhook(self, url: str, *events: str, name: str = "CRM") -> dict[str, Any]:
        body = {"name": name, "url": url, "events": list(events) or ["user.removed", "security.account.locked"]}
        made: dict[str, Any] = (await self.request("POST", f"{ORGANIZATION}/webhooks", body, by=self.owner)).ok()
        self.log.remember(made["secret"])
        return made

    async def notified(self, application: Application, uri: str, name: str = "backchannel_logout_uri") -> None:
        """The application says where it hears of ended sessions."""
        (await self.request("PATCH", f"{ORGANIZATION}/services/{application.service.slug}", {name: uri}, by=self.owner)).ok()

    async def exported(self, url: str) -> dict[str, Any]:
        body = {"name": "Our SIEM", "provider_type": "generic", "endpoint_url": url}
        made: dict[str, Any] = (await self.request("POST", f"{ORGANIZATION}/siem", body, by=self.owner)).ok()
        return made

    async def provisioned(self, service: UsedService | None = None, tenant: Tenant | None = None) -> UUID:
        """The application's people are sent to the far side, and Ada is there."""
        assert self.far is not None
        made = self.connection = self.postern.foundation.ids.new()
        self.people.change(
            "insert into provisioning_connections (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest,"
            " agreed_digest, agreed_run, whole_due_at)"
            " values (%s, %s, %s, 'generic', %s, %s, %s, 'active', 'settings', 'settings', gen_random_uuid(), now())",
            made,
            (tenant or self.acme).id,
            (service or self.board.service).id,
            self.far.url,
            self.people.sealed(self.far.token, token_context(made)),
            Jsonb(MAPPING),
        )
        await self.sends()
        return made

    async def sends(self) -> None:
        """What is due at the connections outwards."""
        self.people.change("update provisioning_connections set leased_until = null, again_at = null")
        for work in await self.postern.federation.provisioning_keeping.claim_due(10):
            await self.postern.federation.provisioning_keeping.run(work)

    async def removed(self) -> str:
        """The owner signs Ada out of everything and removes her: otherwise an application that admits anyone keeps her. Returns the id of
        the removal's entry.
        """
        member = f"{ORGANIZATION}/members/{self.ada.user}"
        (await self.request("DELETE", f"{member}/sessions", by=self.owner)).ok()
        (await self.request("POST", member, by=self.owner)).ok()
        return self.entry("user.removed")

    async def locked(self) -> str:
        """Ada locks her account."""
        (await self.request("POST", "/api/user/lock", by=self.ada)).ok()
        return self.entry("security.account.locked")

    async def happens(self, name: str, person: Person | None = None, *, tenant: Tenant | None = None, success: bool = True) -> str:
        """The event, in a unit of work of its own. Returns the id of its entry."""
        target = Target("user", str((person or self.ada).user))
        event = Event(name, Actor(UserId(self.owner.user)), target, OrganizationId((tenant or self.acme).id), {}, success)
        async with self.postern.foundation.unit_of_work() as uow:
            entry = await uow.record(event)
            await uow.commit()
        return str(entry)

    def entry(self, action: str, tenant: Tenant | None = None) -> str:
        """The id of the newest entry of this action."""
        rows = self.people.rows(
            "select id from audit_entries where action = %s and organization_id = %s order by id desc limit 1",
            action,
            (tenant or self.acme).id,
        )
        return str(rows[0]["id"])

    async def link(self) -> None:
        while await self.postern.record.audit.link():
            self.postern.foundation.doorbell.ring(SIEM_TOPIC)

    async def asked(self, entry: str, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request("GET", f"/api/organizations/{of}/audit-log/{entry}/receivers", by=by or self.owner)

    async def receivers(self, entry: str, *, by: Person | None = None) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = (await self.asked(entry, by=by)).ok()["receivers"]
        return told

    async def one(self, entry: str, kind: str, name: str | None = None, sent: str | None = None) -> dict[str, Any]:
        (found,) = [
            one
            for one in await self.receivers(entry)
            if one["kind"] == kind and name in {None, one["name"]} and sent in {None, one["sent"]}
        ]
        return found

    async def states(self, entry: str) -> dict[tuple[str, str, str | None], str]:
        return {(one["kind"], one["name"], one["sent"]): one["state"] for one in await self.receivers(entry)}

    async def until(self, entry: str, kind: str, state: str, name: str | None = None) -> dict[str, Any]:
        with trio.fail_after(PATIENCE):
            while True:
                found = [one for one in await self.receivers(entry) if one["kind"] == kind and name in {None, one["name"]}]
                if found and all(one["state"] == state for one in found):
                    return found[0]
                await trio.sleep(0.02)

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """All dispatchers, and the forwarder."""
        postern, doorbell = self.postern, self.postern.foundation.doorbell
        queues: list[tuple[str, Any, str]] = [
            ("webhooks", postern.tenancy.deliveries, WEBHOOK_TOPIC),
            ("logouts", postern.federation.deliveries, LOGOUT_TOPIC),
            *(("signals", one, SIGNAL_TOPIC) for one in postern.federation.signal_deliveries),
        ]
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            await nursery.start(doorbell.run)
            for name, deliveries, topic in queues:
                mailbox = Mailbox.rung_by(doorbell, topic)
                dispatcher: Any = DeliveryDispatcher(
                    name, deliveries, mailbox, metrics=postern.foundation.metrics, spread=lambda: 0.0, poll=0.2
                )
                await nursery.start(dispatcher.run)
            forwarder = SiemForwarder(
                postern.tenancy.siem_export, doorbell, metrics=postern.foundation.metrics, spread=lambda: 0.0, poll=0.05, numbering=0.05
            )
            await nursery.start(forwarder.run)
            yield
            nursery.cancel_scope.cancel()


def at(receiver: Receiver, path: str) -> str:
    return f"http://127.0.0.1:{receiver.port}{path}"
