"""What a second return goes on to after the first has failed."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.domain.identity.upstream.sign_in import UsedState
from core.domain.secrets import Token
from core.usecases.identity.upstream.idp_logins import RepeatedReturns


@pytest.mark.parametrize(("led_to", "told"), [("", ["/ui/sign-in"]), ("/ui/account", [])])
async def test_a_failure_after_the_first_return_led_somewhere_changes_nothing(led_to: str, told: list[str]) -> None:
    settled: list[str] = []

    async def used(*_: Any) -> UsedState:
        return UsedState(flow=None, led_to=led_to)

    async def settle(_: bytes, address: str) -> None:
        settled.append(address)

    returns: Any = RepeatedReturns
    repeated = returns(SimpleNamespace(used=used, settle=settle), None)
    await repeated.tell_of_failure("websuite", Token("state"), Token("browser"), "/ui/sign-in")
    assert settled == told
