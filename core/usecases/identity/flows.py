"""Flows: begun when a person has to sign in first, found again on each page, and completed once."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from core.domain.formats import Json
from core.domain.identifiers import FlowId, ServiceId, UserId
from core.domain.identity.flows import LIFETIME, Flow, FlowOver, FlowPurpose, SignInRequirements
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from ports.identity.sign_in import FlowStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Flows(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: FlowStore
    system: System

    async def begin(
        self,
        browser: Token,
        purpose: FlowPurpose,
        request: Mapping[str, Json],
        wanted: SignInRequirements,
        *,
        service: ServiceId | None = None,
        email: str = "",
        account: UserId | None = None,
    ) -> Flow:
        """Begins a flow. `browser` is the secret that the browser keeps for all of its flows, `email` the address that the person has
        given already, and `account` the one that the flow goes on with.
        """
        flow = replace(self.made(purpose, request, wanted, service=service, email=email), account=account)
        await self.keep(flow, browser)
        return flow

    async def keep(self, flow: Flow, browser: Token) -> None:
        """Stores a flow that `made` has returned."""
        async with self.unit_of_work() as uow:
            await uow.flows.add(flow, browser.digest())
            await uow.commit()

    def made(
        self,
        purpose: FlowPurpose,
        request: Mapping[str, Json],
        wanted: SignInRequirements,
        lifetime: timedelta = LIFETIME,
        *,
        service: ServiceId | None = None,
        email: str = "",
    ) -> Flow:
        """Returns a new flow, which the caller adds in a unit of work of its own."""
        now = self.system.clock.now()
        return Flow(FlowId(self.system.ids.new()), purpose, request, wanted, now, now + lifetime, service=service, email=email)

    async def find(self, flow: FlowId, browser: Token) -> Flow:
        """Raises `FlowOver` when the flow has expired, belongs to another browser, or does not exist."""
        found = await self.lookup.find(flow, browser.digest())
        if found is None:
            raise FlowOver
        return found

    async def name(self, flow: Flow, email: Email) -> None:
        """Stores the address that the person signs in with. Does not look up whether an account has the address."""
        async with self.unit_of_work() as uow:
            await uow.flows.name(flow.id, email.address)
            await uow.commit()

    async def choose(self, flow: Flow, account: UserId, email: Email) -> Flow:
        """Goes on with the account that the person has chosen in this browser."""
        async with self.unit_of_work() as uow:
            await uow.flows.choose(flow.id, account, email.address)
            await uow.commit()
        return replace(flow, account=account, email=email.address)

    async def complete(self, flow: Flow) -> bool:
        """Marks the flow as completed. Of two calls at once, one gets True."""
        async with self.unit_of_work() as uow:
            done = await uow.flows.complete(flow.id, self.system.clock.now())
            await uow.commit()
        return done


async def complete_once(uow: UnitOfWork, flow: Flow, at: datetime, *, refused: bool = False) -> None:
    """Marks the flow as completed in the caller's unit of work. A flow that repeats its answer is completed already. `refused`: the person
    has declined. Raises `FlowOver`.
    """
    if not flow.repeats and not await uow.flows.complete(flow.id, at, refused=refused):
        raise FlowOver
