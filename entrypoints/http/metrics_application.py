"""The application behind `POSTERN_METRICS_BIND`: `/metrics`, and nothing else."""

from typing import Any, Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.addresses import ClientAddresses
from entrypoints.http.machinery.cors import CrossOrigin
from entrypoints.http.machinery.decoding import Receive
from entrypoints.http.machinery.dispatch import Dispatcher, Routes, Send
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.machinery.error_shapes import OURS, Refusing
from entrypoints.http.machinery.headers import security_headers
from entrypoints.http.routes import metrics

METRICS_ROUTES: Final = Endpoints.of(metrics)
_DEADLINE: Final = 30.0


class MetricsApplication:
    def __init__(self, postern: Postern) -> None:
        common = security_headers(https=False)
        self._dispatcher = Dispatcher(
            Routes(tuple(METRICS_ROUTES), common, body_limit=0),
            postern,
            # There are no pages here.
            people=Refusing(OURS, common),
            origin="",
            addresses=ClientAddresses(()),
            cross_origin=CrossOrigin(()),
            limiter=None,
            deadline=_DEADLINE,
            most_requests=1,
        )

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._dispatcher(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})
