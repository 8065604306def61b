"""The audit log, and the log of sign-ins."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.record import audit, sign_ins

ROUTES: Final = Endpoints.of(audit, sign_ins)
