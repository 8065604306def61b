"""The logout notices of an application."""

from typing import Any, Final

from entrypoints.http.pages.console.cells import Tone, code, number, plain, state, when
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.lists import list_page
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resources import Filter, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.logout_notices import list_logout_notices


def _outcome(notice: Any) -> str:
    if notice.delivered:
        return "delivered"
    return "waiting" if notice.next_retry_at is not None else "failed"


async def _outcomes(visit: PageVisit) -> list[Choice]:
    return [Choice("true", visit.text("console.state.delivered")), Choice("false", visit.text("console.state.not_delivered"))]


NOTICES: Final = Resource(
    name="logout_notices",
    position=application_tabs.SIGN_IN_POSITION,
    at=application_tabs.NOTICES,
    listed=list_logout_notices,
    rows="logout_notices",
    columns=(
        when("created_at"),
        state(
            _outcome,
            {
                "delivered": ("console.state.delivered", Tone.GOOD),
                "waiting": ("console.logout_notices.waiting", Tone.WARN),
                "failed": ("console.state.not_delivered", Tone.BAD),
            },
        ),
        number("attempt_count"),
        number("response_status_code"),
        plain("delivery_error"),
        code("session_id"),
    ),
    filters=(Filter("delivered", "console.field.state", _outcomes),),
    crumbs=application_tabs.above,
)

PAGES: Final = (list_page(NOTICES),)
