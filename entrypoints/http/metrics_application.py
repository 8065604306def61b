"""The application on the address `POSTERN_METRICS_BIND`. The application serves only `/metrics`."""

from typing import Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.addresses import ClientAddresses
from entrypoints.http.machinery.cors import CrossOrigin
from entrypoints.http.machinery.dispatch import Dispatcher, Routes
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.machinery.error_shapes import OURS, Refusing
from entrypoints.http.machinery.headers import security_headers
from entrypoints.http.quart_application import DispatchedApplication, with_routes
from entrypoints.http.routes import metrics

METRICS_ROUTES: Final = Endpoints.of(metrics)
_DEADLINE: Final = 30.0


class MetricsApplication(DispatchedApplication):
    def __init__(self, postern: Postern) -> None:
        super().__init__(with_routes(METRICS_ROUTES))
        common = security_headers(https=False)
        self.dispatcher = Dispatcher(
            Routes(tuple(METRICS_ROUTES), common, body_limit=0),
            postern,
            # The application has no pages, so browsers also get errors in JSON.
            people=Refusing(OURS, common),
            origin="",
            addresses=ClientAddresses(()),
            cross_origin=CrossOrigin(()),
            limiter=None,
            deadline=_DEADLINE,
            most_requests=1,
        )
