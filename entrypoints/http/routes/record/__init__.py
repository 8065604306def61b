"""The audit log."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.record import audit

ROUTES: Final = Endpoints.of(audit)
