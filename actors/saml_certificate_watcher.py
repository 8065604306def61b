"""The SAML certificate watcher: tells owners before a certificate ends."""

from collections.abc import Callable
from typing import Final

import structlog
import trio

from actors.outages import Outage
from core.usecases.federation.saml.configurations import Saml

log = structlog.get_logger()

_INTERVAL: Final = 3600.0
_MOST_AT_ONCE: Final = 1000


class SamlCertificateWatcher:
    name = "saml_certificate_watcher"

    def __init__(self, saml: Saml, *, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._saml = saml
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        # Processes that start together should not look together. If they do, one of them writes each mail.
        await trio.sleep(self._interval * self._spread())
        while True:
            await self.look()
            await trio.sleep(self._interval * (1 + self._spread() / 5))

    async def look(self) -> int:
        """Returns how many certificates the owners were told of."""
        told = await self._outage.wait_out(lambda: self._saml.warn_of_ends(_MOST_AT_ONCE))
        if told:
            log.info("saml_certificates_end", certificates=told)
        return told
