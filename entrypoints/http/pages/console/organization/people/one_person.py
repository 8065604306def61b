"""What the page of a person of the organization shows beside the facts: how the person signs in, and where they may."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.claims_shown import verdict_of
from entrypoints.http.pages.console.organization.sign_ins import OF_PERSON, latest
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.token_preview import list_sign_in_verdicts
from entrypoints.http.routes.record.sign_ins import list_sign_ins

TEMPLATE: Final = "organization/people/one_person.html"
ASKED: Final = (list_sign_ins, list_sign_in_verdicts)


async def more(visit: PageVisit, user: UUID) -> Mapping[str, Any]:
    return {
        "latest": await latest(visit, OF_PERSON, person=user) if visit.may(list_sign_ins) else None,
        "verdicts": await _verdicts(visit, user) if visit.may(list_sign_in_verdicts) else (),
    }


async def _verdicts(visit: PageVisit, user: UUID) -> list[tuple[str, str, tuple[str, str, Any]]]:
    """For each application its name, its address, and whether the person may sign in to it."""
    answer = await visit.ask(list_sign_in_verdicts, user_id=user)
    return [(one.name, visit.here(application_tabs.ONE, service_slug=one.slug), verdict_of(visit, one)) for one in answer.services]
