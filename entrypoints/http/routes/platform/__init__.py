"""The endpoints of platform owners, and figures about sign-ins."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.platform import analytics, governance, management_keys, matters, platform_fields, platform_users, setup_links

ROUTES: Final = Endpoints.of(governance, platform_users, platform_fields, analytics, matters, management_keys, setup_links)
