"""The APIs whose organizations ask for an approval of the host, or have one."""

from typing import Any, Final

from core.domain.services.resource_servers import ResourceState
from entrypoints.http.pages.console.cells import code, copied, plain, state, when, yes_or_no
from entrypoints.http.pages.console.organization.apis.apis import STATES
from entrypoints.http.pages.console.platform.platform_tabs import APPROVALS, APPROVALS_TAB, ORGANIZATIONS_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Resource
from entrypoints.http.routes.platform.resource_servers import approve_resource_server, end_resource_approval, list_resource_approvals


def _waits(one: Any) -> bool:
    return bool(one.resource_server.state is ResourceState.WAITING)


_ASKED_AT: Final = when("resource_server.approval_asked_at")

API_APPROVALS: Final = Resource(
    name="api_approvals",
    position=position(ORGANIZATIONS_ENTRY, APPROVALS_TAB),
    at=APPROVALS,
    listed=list_resource_approvals,
    columns=(
        code("resource_server.identifier", "console.apis.identifier"),
        plain("org_name", "console.api_approvals.organization", beside="org_slug"),
        state("resource_server.state", STATES),
        _ASKED_AT,
        when("resource_server.approved_at"),
    ),
    parameter="resource_id",
    key=lambda one: one.resource_server.id,
    called=lambda one: str(one.resource_server.identifier),
    state=(lambda one: one.resource_server.state, STATES.__getitem__),
    facts=(
        copied("resource_server.identifier", "console.apis.identifier"),
        plain("resource_server.name"),
        plain("org_name", "console.api_approvals.organization", beside="org_slug"),
        yes_or_no("proved_elsewhere", "console.api_approvals.proved_elsewhere", good=False),
        _ASKED_AT,
        when("resource_server.approved_at"),
        when("resource_server.created_at"),
    ),
    acts=(
        Act("approve", approve_resource_server, asks=True, kind="", shows=_waits),
        Act("withdraw", end_resource_approval, asks=True, kind="danger", shows=lambda one: not _waits(one), leaves=True),
    ),
)

PAGES: Final = tuple(pages(API_APPROVALS))
