"""The routes of the API, area by area. Health, metrics and the published keys belong to no area. A
search knows things of all areas.
"""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes import (
    configuration,
    federation,
    health,
    identity,
    metrics,
    platform,
    record,
    searches,
    services,
    tenancy,
    well_known,
)

ROUTES: Final = Endpoints(
    [
        *Endpoints.of(health, metrics, well_known),
        *identity.ROUTES,
        *services.ROUTES,
        *federation.ROUTES,
        *tenancy.ROUTES,
        *platform.ROUTES,
        *record.ROUTES,
        *configuration.ROUTES,
        *Endpoints.of(searches),
    ]
)
