"""Hooks of organizations and of the installation, each with a receiver on loopback that says what the test wants."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import trio

from core.domain.identifiers import HookId, OrganizationId, ServiceId, SessionId
from core.domain.identity.guards.hook_verdicts import HookSaid
from core.domain.tenancy.hooks import Hook, HookExchange, HookSilence, hook_context
from core.domain.tenancy.webhooks import SECRET_BYTES, secret_of
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.http.tenants import Tenant
from tests.patience import PATIENCE
from tests.receiver import Answer, Receiver, answering, receiving

GO_ON = {"decision": "go_on"}


async def until(true: Callable[[], bool]) -> None:
    """Waits until the tasks of the product have come so far. Raises `trio.TooSlowError`."""
    with trio.fail_after(PATIENCE):
        while not true():
            await trio.sleep(0.01)


def no(reason: str = "place") -> dict[str, str]:
    return {"decision": "no", "reason": reason}


def saying(said: Any) -> Answer:
    return answering(200, json.dumps(said).encode(), "content-type: application/json")


@dataclass
class Hooked:
    """A hook with its receiver."""

    postern: Postern
    receiver: Receiver
    hook: Hook

    def say(self, said: Any) -> None:
        self.receiver.answer = saying(said)

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(call.body) for call in self.receiver.calls]

    async def count(self, *, counts: bool = True) -> None:
        """An owner lets it count, as another than before. The owner's page has tests of its own."""
        self.hook = replace(self.hook, counts_as=uuid4() if counts else None)
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.hooks.save(self.hook)
            await uow.commit()

    async def change(self) -> None:
        """Any change puts it in shadow, and its report begins anew."""
        self.hook = replace(self.hook, counts_as=None, since=self.postern.foundation.clock.now())
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.hooks.save(self.hook)
            await uow.commit()

    async def let_in(self, session: UUID, service: UUID | None = None) -> None:
        """As if it had been asked about this session there, in the console or in an application, and had said yes."""
        hook, now = self.hook, self.postern.foundation.clock.now()
        assert hook.counts_as is not None
        assert hook.organization is not None
        there = None if service is None else ServiceId(service)
        said = HookSaid(hook=hook.id, counts_as=hook.counts_as, organization=hook.organization, service=there, at=now)
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.hooks.keep_verdicts(SessionId(session), (said,))
            await uow.commit()

    async def until_asked(self, times: int) -> None:
        """A hook in shadow is asked beside the sign-in."""
        with trio.fail_after(PATIENCE):
            while len(await self.exchanges()) < times:
                await trio.sleep(0.01)

    async def exchanges(self) -> list[HookExchange]:
        return list(await self.postern.foundation.stores.hooks.exchanges(self.hook.id))


@dataclass
class Hooks:
    """Makes hooks that live as long as the test."""

    postern: Postern
    made: list[Hooked] = field(default_factory=list)

    @asynccontextmanager
    async def of(
        self, tenant: Tenant | None, said: Any = GO_ON, *, counts: bool = True, silence: str = "refuse", seconds: int = 1, port: int = 0
    ) -> AsyncIterator[Hooked]:
        async with receiving(saying(said) if isinstance(said, dict) else said) as receiver, trio.open_nursery() as nursery:
            await nursery.start(self.postern.identity.hooks_beside.run)
            now = self.postern.foundation.clock.now()
            hook = Hook(
                id=HookId(uuid4()),
                organization=None if tenant is None else OrganizationId(tenant.id),
                address=f"http://127.0.0.1:{port or receiver.port}/hook",
                silence=HookSilence(silence),
                seconds=seconds,
                counts_as=uuid4() if counts else None,
                since=now,
                secret_made_at=now,
                created_at=now,
                updated_at=now,
            )
            secret = secret_of(self.postern.foundation.secrets.key_bytes(SECRET_BYTES))
            sealed = self.postern.foundation.keyring.seal(secret.reveal().encode(), hook_context(hook.id))
            async with self.postern.foundation.unit_of_work() as uow:
                assert await uow.hooks.add(hook, sealed)
                await uow.commit()
            yield Hooked(self.postern, receiver, hook)
            nursery.cancel_scope.cancel()
