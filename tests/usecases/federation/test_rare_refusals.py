"""What is refused to whoever acts in somebody else's name."""

from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.usecases.federation.authorization_requests import AwaitedSignIns

ADA: Final = Caller(
    UserId(UUID(int=1)), Email("ada@example.org"), SessionId(UUID(int=2)), is_platform_owner=False, impersonator=UserId(UUID(int=3))
)


async def test_nobody_waits_for_a_first_sign_in_in_somebody_else_s_name() -> None:
    begun: list[Any] = []

    async def begin(new: Any) -> bool:
        begun.append(new)
        return True

    clock, ids = cast(Any, SimpleNamespace(now=lambda: None)), cast(Any, SimpleNamespace(new=lambda: UUID(int=4)))
    waiting = AwaitedSignIns(cast(Any, SimpleNamespace(begin=begin)), clock, ids)
    member = cast(Any, SimpleNamespace(caller=ADA, organization=UUID(int=5)))
    with pytest.raises(Forbidden) as refused:
        await waiting.begin(member, "shop")
    assert (refused.value.words, begun) == ("impersonating", [])
