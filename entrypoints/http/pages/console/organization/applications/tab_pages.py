"""The tabs of an application with several lists: who has access to what, and what its tokens and its own requests need."""

from collections.abc import Sequence
from typing import Any, Final

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.lists import latest_of, new_of
from entrypoints.http.pages.console.navigation import PagePosition
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.service_claims import CLAIMS
from entrypoints.http.pages.console.organization.applications.keys import API_KEYS, CLIENT_SECRETS
from entrypoints.http.pages.console.organization.applications.plans import PLANS
from entrypoints.http.pages.console.organization.applications.rights import ASSIGNMENTS, PERMISSIONS, ROLES
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.api_keys import list_api_keys
from entrypoints.http.routes.services.assignments import list_assignments
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.permissions import list_service_permissions
from entrypoints.http.routes.services.plans import list_plans
from entrypoints.http.routes.services.service_claims import list_service_claims
from entrypoints.http.routes.services.service_roles import list_service_roles
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.services.user_keys import list_user_keys

_ACCESS: Final = (ASSIGNMENTS, ROLES, PERMISSIONS, PLANS)
_TOKENS: Final = (CLIENT_SECRETS, API_KEYS, CLAIMS)
_BELOW_TOKENS: Final = (
    ("console.preview.title", application_tabs.PREVIEW, preview_tokens),
    ("console.public_keys.title", application_tabs.PUBLIC_KEYS, get_service),
    ("console.user_keys.title", application_tabs.USER_KEYS, list_user_keys),
)


async def _lists(
    visit: PageVisit, position: PagePosition, resources: Sequence[Resource], below: Sequence[tuple[str, str, Endpoint]] = ()
) -> Page:
    """The beginning of each list, with what makes another."""
    shown = [
        (
            one.text(visit, "title"),
            await latest_of(one, visit),
            new_of(one, visit),
            one.text(visit, "empty_title"),
        )
        for one in resources
        if visit.may(one.listed)
    ]
    page = visit.show(
        "organization/applications/tab.html",
        position,
        Head(title=visit.text(position.tab.label), crumbs=application_tabs.above(visit), curl=visit.curl(resources[-1].listed)),
        lists=shown,
        below=[(visit.text(label), visit.here(where)) for label, where, of in below if visit.may(of)],
    )
    return Answer(page, 200)


@console.get(application_tabs.ACCESS, of=list_service_roles, also=(list_assignments, list_service_permissions, list_plans))
async def show_access(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show who has which role in an application, and what there is to have."""
    return await _lists(PageVisit(call, postern), application_tabs.ACCESS_POSITION, _ACCESS)


@console.get(application_tabs.TOKENS, of=list_client_secrets, also=(list_api_keys, list_service_claims))
async def show_tokens(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show by what an application proves itself, and what its tokens say."""
    return await _lists(PageVisit(call, postern), application_tabs.TOKENS_POSITION, _TOKENS, _BELOW_TOKENS)


PAGES: Final = (show_access, show_tokens)
