"""Coming back from a provider a second time: a browser that is sent back twice drops the first answer, and needs another."""

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
        """What has become of whoever came back with this state first, in this browser. Raises `UnknownProvider`, and `FlowOver` when nobody
        has, or nothing came of it.
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
        """Where whoever came back first was led to. Without an address, nothing came of it."""
        await self.lookup.settle(state.digest(), led_to)

    async def tell_of_failure(self, provider: str, state: Token, browser: Token | None, led_to: str) -> None:
        """Where whoever comes back once more goes on after something broke: in the flow, if the first was signed in by then."""
        used = None if browser is None else await self.lookup.used(state.digest(), provider_key(provider), browser.digest())
        if used is None or not used.has_led_somewhere:
            await self.tell(state, led_to)
