"""The words of further providers about newcomers, while they wait in their flows."""

import json

from core.domain.identifiers import FlowId
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.newcomers import LIFETIME, WaitingNewcomer, restored_word, stored_word, word_context
from core.frozen import Frozen
from core.usecases.identity.upstream.journeys import Vouched
from ports.encryption import KeyRing
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class NewcomerWords(Frozen):
    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    system: System

    async def keep(self, flow: FlowId, vouched: Vouched) -> None:
        now = self.system.clock.now()
        newcomer = WaitingNewcomer(
            flow=flow,
            provider=vouched.upstream.key,
            sealed_word=self.keyring.seal(json.dumps(stored_word(vouched.asserted)).encode(), word_context(flow)),
            created_at=now,
            expires_at=now + LIFETIME,
        )
        async with self.unit_of_work() as uow:
            await uow.newcomers.keep(newcomer)
            await uow.commit()

    async def get(self, flow: FlowId) -> WaitingNewcomer:
        """Raises `FlowOver` when nobody waits in the flow."""
        async with self.unit_of_work() as uow:
            found = await uow.newcomers.find(flow, self.system.clock.now())
        if found is None:
            raise FlowOver
        return found

    def opened(self, newcomer: WaitingNewcomer) -> Asserted:
        return restored_word(json.loads(self.keyring.open(newcomer.sealed_word, word_context(newcomer.flow))))
