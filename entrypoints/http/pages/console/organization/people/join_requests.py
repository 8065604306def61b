"""Requests of people who want to become members."""

from collections.abc import Sequence
from typing import Final

from core.domain.tenancy.join_requests import JoinRequestStatus
from entrypoints.http.pages.console.cells import Tone, in_words, plain, state, when
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization.organization_tabs import PEOPLE, PEOPLE_ENTRY, REQUESTS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Filter, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.join_requests import approve_join_request, decline_join_request, list_join_requests

_STATES: Final = {
    JoinRequestStatus.PENDING: ("console.value.state.pending", Tone.WARN),
    JoinRequestStatus.APPROVED: ("console.value.state.approved", Tone.GOOD),
    JoinRequestStatus.DECLINED: ("console.value.state.declined", Tone.PLAIN),
}


async def _statuses(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("state", one, visit.text)) for one in JoinRequestStatus]


REQUESTS: Final = Resource(
    name="requests",
    position=position(PEOPLE_ENTRY, REQUESTS_TAB),
    at=f"{PEOPLE}/requests",
    listed=list_join_requests,
    columns=(plain("email"), state("status", _STATES), when("created_at"), when("decided_at")),
    filters=(Filter("status", "console.field.state", _statuses),),
    parameter="request_id",
    called=lambda one: str(one.email),
    state=(lambda one: one.status, _STATES.__getitem__),
    acts=(
        Act("approve", approve_join_request, kind="primary", shows=lambda one: one.status is JoinRequestStatus.PENDING),
        Act("decline", decline_join_request, kind="danger", shows=lambda one: one.status is JoinRequestStatus.PENDING),
    ),
)

PAGES: Final = pages(REQUESTS)
