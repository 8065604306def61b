"""The token preview: what an application would learn of a person, and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.federation.oauth.resources import SCOPES
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.claims_shown import places_of, verdict_of
from entrypoints.http.pages.console.sent_forms import explained
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.services import get_service

_TICK: Final = "scope_"
# A query has each name once, so each scope has a name of its own. `person` is an address or an id.
PreviewQuery: Final[Any] = msgspec.defstruct(
    "PreviewQuery", [("person", str, ""), *((f"{_TICK}{one}", str, "") for one in SCOPES)], frozen=True
)


def named(person: str) -> Mapping[str, str]:
    """The person as the endpoint asks for it: an id or an address."""
    try:
        return {"user_id": str(UUID(person))}
    except ValueError:
        return {"email": person}


async def _show_preview(call: AnyCall, postern: Postern) -> Page:
    """Show what an application would learn of a person, and why."""
    visit, person = PageVisit(call, postern), call.query.person.strip()
    scopes = [one for one in SCOPES if getattr(call.query, f"{_TICK}{one}")]
    preview, errors, status = None, NO_ERRORS, 200
    query = {**named(person), **({"scope": " ".join(scopes)} if scopes else {})}
    if not person:
        # There is no application of this name, or there is one.
        await visit.ask(get_service)
    else:
        try:
            preview = await visit.ask(preview_tokens, query=query)
        except NotFound as problem:
            # Also for people without a tie to the application or its organization: the page says no more than the endpoint.
            errors, status = {"person": visit.text("console.preview.nobody")}, status_of(problem)
        except Refusal as problem:
            said, status = explained(visit, problem)
            errors = {"person": " ".join(said.values())}
    head = Head(
        title=visit.text("console.preview.title"),
        crumbs=application_tabs.above(visit),
        curl=visit.curl(preview_tokens, query=query if person else {"email": visit.person.email.address}),
        errors=errors,
    )
    page = visit.show(
        "organization/applications/claims/preview.html",
        application_tabs.TOKENS_POSITION,
        head,
        at=visit.here(application_tabs.PREVIEW),
        asked=person,
        scopes=[(f"{_TICK}{one}", one, not scopes or one in scopes) for one in SCOPES],
        preview=preview,
        verdict=None if preview is None else verdict_of(visit, preview),
        tokens=() if preview is None else places_of(visit, preview),
    )
    return Answer(page, status)


show_preview: Final = console.get(application_tabs.PREVIEW, of=preview_tokens, also=(get_service,))(
    stated(_show_preview, "show_preview", application_tabs.PREVIEW, query=PreviewQuery)
)

PAGES: Final[Sequence[Endpoint]] = (show_preview,)
