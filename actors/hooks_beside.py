"""Asks hooks in report-only mode beside the sign-ins that they are asked about, so that no sign-in waits for what decides nothing."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from actors.foundation import Mishaps, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.identifiers import OrganizationId
from ports.metrics import Metrics

log = structlog.get_logger()

MOST_OF_PROCESS: Final = 50
MOST_OF_ORGANIZATION: Final = 5
_IDLE: Final = 30.0

_Asks = tuple[OrganizationId, Callable[[], Awaitable[None]]]


class HookBesideAsker:
    """Implements `ports.tenancy.hooks.HooksBeside`. What finds no place is not asked: the report is a sample then."""

    name = "hook_beside_asker"

    def __init__(self, metrics: Metrics) -> None:
        self._mishaps = Mishaps(self.name, metrics)
        self._of_organization: Counter[OrganizationId] = Counter()
        self._all = 0
        self._sender, self._receiver = trio.open_memory_channel[_Asks](MOST_OF_PROCESS)

    def post(self, organization: OrganizationId, ask: Callable[[], Awaitable[None]]) -> None:
        if self._all >= MOST_OF_PROCESS or self._of_organization[organization] >= MOST_OF_ORGANIZATION:
            return
        self._all += 1
        self._of_organization[organization] += 1
        self._sender.send_nowait((organization, ask))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                turned(pause=_IDLE)
                with trio.move_on_after(_IDLE):
                    nursery.start_soon(self._ask, *await self._receiver.receive())

    async def _ask(self, organization: OrganizationId, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except (Unavailable, Overloaded) as error:
            log.warning("hook_not_asked_beside", organization=str(organization), error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a mishap about one hook must not stop the others
            self._mishaps.tell(error, organization=str(organization))
        finally:
            self._all -= 1
            self._of_organization[organization] -= 1
            if not self._of_organization[organization]:
                del self._of_organization[organization]
