"""How long sign-ins of this process wait for hooks that count: apart from our own time, and to find the hooks that are slow."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain import causes
from core.domain.identifiers import HookId, OrganizationId
from core.domain.tenancy.hooks import Hook
from core.frozen import Frozen
from ports.system import Clock

LATELY: Final = timedelta(minutes=15)
SLOW: Final = 1.0
"""The seconds that nine of ten answers take at most, unless the hook is slow."""
ENOUGH: Final = 5
"""Fewer questions within fifteen minutes say nothing."""
MOST_NAMED: Final = 10
"""The slowest of them, in a line of the log."""
_MOST_KEPT: Final = 20
# The hooks of which a process knows, and the requests that wait at once. Whoever is forgotten is only less exact.
_MOST_HOOKS: Final = 1_000
_MOST_REQUESTS: Final = 1_000


class SlowHook(Frozen):
    """`organization` is None for the installation's hook. `seconds` is the 90th percentile."""

    hook: HookId
    organization: OrganizationId | None
    seconds: float


class HookWaits:
    """Lives in the memory of its process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of_requests: dict[str, float] = {}
        self._of_hooks: OrderedDict[HookId, tuple[OrganizationId | None, deque[tuple[datetime, float]]]] = OrderedDict()

    def waited(self, seconds: float) -> None:
        """The request that is at work now has waited so long: for its place, and for the answers of all hooks."""
        request = causes.request_text()
        if request is not None:
            self._of_requests[request] = self._of_requests.get(request, 0.0) + seconds
            if len(self._of_requests) > _MOST_REQUESTS:
                del self._of_requests[next(iter(self._of_requests))]

    def answered(self, hook: Hook, seconds: float) -> None:
        """The hook has taken so long for one question."""
        _, times = self._of_hooks.pop(hook.id, (None, deque[tuple[datetime, float]](maxlen=_MOST_KEPT)))
        times.append((self._clock.now(), seconds))
        self._of_hooks[hook.id] = hook.organization, times
        if len(self._of_hooks) > _MOST_HOOKS:
            self._of_hooks.popitem(last=False)

    def taken(self, request: str) -> float:
        """The seconds that the request has waited, which is over now."""
        return self._of_requests.pop(request, 0.0) if self._of_requests else 0.0

    def slow(self) -> Sequence[SlowHook]:
        """The slowest first."""
        after = self._clock.now() - LATELY
        found: list[SlowHook] = []
        for hook, (organization, times) in self._of_hooks.items():
            lately = sorted(seconds for at, seconds in times if at > after)
            if len(lately) >= ENOUGH and (high := lately[(len(lately) - 1) * 9 // 10]) > SLOW:
                found.append(SlowHook(hook, organization, high))
        return sorted(found, key=lambda one: one.seconds, reverse=True)
