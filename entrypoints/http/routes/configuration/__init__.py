"""Configuration as a document: the kinds of objects that documents have, and the plan and the application of a document. Each change of a
document is a call of the endpoint that a person would have called, so its rule, its checks and its refusals are those of the endpoint.
"""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.configuration import documents, proposals

ROUTES: Final = Endpoints.of(documents, proposals)
