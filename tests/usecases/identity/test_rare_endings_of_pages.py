"""What ends before a page can ask: a flow that is another person's, and a session that has ended meanwhile."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import Unauthorized
from core.domain.identity.flows import FlowOver
from core.usecases.identity.sign_in.sign_in_results import PasskeyOffers
from core.usecases.identity.terms import TermsOfPeople

ADA, EVE = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(("user", "impersonator"), [(EVE, None), (ADA, EVE)])
async def test_nobody_is_offered_a_passkey_in_the_flow_of_somebody_else(user: UUID, impersonator: UUID | None) -> None:
    nothing: Any = None
    flow: Any = SimpleNamespace(user=ADA)
    caller: Any = SimpleNamespace(user=user, impersonator=impersonator)
    offers = PasskeyOffers(nothing, nothing, nothing, nothing)
    for ask in (offers.make(flow, caller), offers.begin_upgrade(flow, caller), offers.upgrade(flow, caller, nothing, nothing)):
        with pytest.raises(FlowOver):
            await ask


async def test_a_session_that_has_ended_meanwhile_accepts_no_terms() -> None:
    class Ended:
        async def find_opener_for_update(self, session: object, user: object) -> None:
            """The session has ended."""

    @asynccontextmanager
    async def begin() -> Any:
        yield SimpleNamespace(sessions=Ended())

    nothing: Any = None
    opened: Any = begin
    caller: Any = SimpleNamespace(session=None, user=ADA)
    people = TermsOfPeople(opened, nothing, nothing, nothing)
    with pytest.raises(Unauthorized):
        await people.accept(caller, "", "1", nothing)
