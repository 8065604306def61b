"""The offer of a passkey, after a sign-in by a password: once in thirty days, to a person who has none, on a page of the browser's flow."""

from core.domain.errors import ReauthenticationRequired
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.proofs import StepUp
from core.frozen import Frozen
from core.usecases.identity.reauthentication import Reauthentication
from ports.clock import Clock
from ports.unit_of_work import UnitOfWorkFactory


class PasskeyOffers(Frozen):
    unit_of_work: UnitOfWorkFactory
    reauthentication: Reauthentication
    clock: Clock

    async def make(self, flow: Flow, caller: Caller) -> bool:
        """Whether the page has something to offer, which counts as the offer of these thirty days. Nobody is offered what they would have
        to prove themselves for once more. False ends the offer in this flow. Raises `FlowOver` for a flow that another person has signed
        in by.
        """
        if flow.user != caller.user or caller.impersonator is not None:
            raise FlowOver
        now, proved = self.clock.now(), await self._has_proved(caller)
        async with self.unit_of_work() as uow:
            offered = proved and await uow.flows.offer_passkey(flow.id, caller.user, now)
            if not offered:
                await uow.flows.answer_offer(flow.id, caller.user, now)
            await uow.commit()
        return offered

    async def answer(self, flow: Flow, caller: Caller, *, never_again: bool = False) -> None:
        """Ends the offer in this flow, and every other one to a person who wants no more of it."""
        async with self.unit_of_work() as uow:
            await uow.flows.answer_offer(flow.id, caller.user, self.clock.now(), never_again=never_again)
            await uow.commit()

    async def _has_proved(self, caller: Caller) -> bool:
        try:
            await self.reauthentication.require(caller, StepUp.ACCOUNT)
        except ReauthenticationRequired:
            return False
        return True
