"""The audit log, and the receivers of its entries."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.record import audit, entry_receivers, evidence

ROUTES: Final = Endpoints.of(audit, entry_receivers, evidence)
