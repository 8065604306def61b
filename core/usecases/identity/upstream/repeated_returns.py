"""Answers a second return from a provider: a browser that returns twice drops the first answer, and needs the same answer again."""

from collections.abc import Awaitable, Callable
from typing import Final

from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.providers import provider_key
from core.domain.identity.upstream.sign_in import REPEATABLE, UsedState
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.identity.upstream.sign_in import UpstreamLookup

LOOK_AGAIN_AFTER: Final = 0.1
_LOOKS: Final = int(REPEATABLE.total_seconds() / LOOK_AGAIN_AFTER)


class RepeatedReturns(Frozen):
    lookup: UpstreamLookup
    pause: Callable[[float], Awaitable[None]]

    async def wait(self, provider: str, state: Token, browser: Token | None) -> UsedState:
        """Waits for the outcome of the first return with this state in this browser. Raises `UnknownProvider`, and `FlowOver` when there
        was no first return, or the first return led nowhere.
        """
        key = provider_key(provider)
        for _ in range(_LOOKS):
            used = None if browser is None else await self.lookup.used(state.digest(), key, browser.digest())
            if used is None:
                break
            if used.has_led_somewhere:
                return used
            await self.pause(LOOK_AGAIN_AFTER)
        raise FlowOver

    async def tell(self, state: Token, led_to: str = "") -> None:
        """Stores where the first return led to. An empty address means that the first return led nowhere."""
        await self.lookup.settle(state.digest(), led_to)

    async def tell_of_failure(self, provider: str, state: Token, browser: Token | None, led_to: str) -> None:
        """Stores where a second return goes on after the first has failed: in the flow, if the first return had signed the person in by
        then.
        """
        used = None if browser is None else await self.lookup.used(state.digest(), provider_key(provider), browser.digest())
        if used is None or not used.has_led_somewhere:
            await self.tell(state, led_to)
