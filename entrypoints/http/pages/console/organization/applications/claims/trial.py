"""The test sign-in: a person signs in as an application's request would have them sign in, and meets a page of ours that says what the
application would have learned. The application gets nothing: no code, no token, no session and no consent comes of it.
"""

from collections.abc import Sequence
from typing import Any, Final

from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.federation.oauth.authorizations import AuthorizationRefused, UnknownRecipient
from core.domain.identity.flows import FlowPurpose, Prompt, Wanted
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.pages.console.cells import Tone
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.claims_shown import places_of, verdict_of
from entrypoints.http.pages.console.visit import ButtonLink, Head, Page, PageVisit
from entrypoints.http.pages.flows import begin
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.services import get_service

RESULT: Final = f"{application_tabs.TEST_SIGN_IN}/result"
_GOOD: Final = frozenset({AuthorizationStep.DONE, AuthorizationStep.CONSENT, AuthorizationStep.CONFIRM_MEMBERSHIP})


@console.get(application_tabs.TEST_SIGN_IN, of=preview_tokens, also=(get_service,))
async def ask_for_test(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Say what the test sign-in does, with the button that begins it."""
    visit = PageVisit(call, postern)
    service = await visit.ask(get_service)
    page = visit.show(
        "question.html",
        application_tabs.OVERVIEW_POSITION,
        Head(title=visit.text("console.test_sign_in.title"), crumbs=application_tabs.above(visit)),
        explained=visit.text("console.test_sign_in.explained", application=service.name),
        ends=[visit.text(f"console.test_sign_in.promise_{one}") for one in ("session", "self", "others")],
        action=visit.here(application_tabs.TEST_SIGN_IN),
        back=visit.here(application_tabs.ONE),
        button=visit.text("console.test_sign_in.begin"),
        kind="primary",
        wanted="",
    )
    return Answer(page, 200)


# The form calls no endpoint that changes something: it begins a sign-in.
@console.post(application_tabs.TEST_SIGN_IN, of=preview_tokens.caller)
async def begin_test(call: Call[BoundForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Begin the test sign-in: the pages of a sign-in, in the name and the looks of the application."""
    visit = PageVisit(call, postern)
    service = await visit.ask(get_service)
    wanted = Wanted(prompt=Prompt.LOGIN, organization=visit.path["org_slug"], service_name=service.name)
    # A flow to one of our own pages: whatever the application is, the sign-in ends there. The service itself is left out, so that the
    # person does not become a user of it.
    return await begin(call, postern, FlowPurpose.ACCOUNT, {"to": visit.here(RESULT)}, wanted, expected=visit.person.user)


@console.get(RESULT, of=preview_tokens, also=(get_service,))
async def show_result(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Show what the application would have learned, and what would have come next."""
    visit = PageVisit(call, postern)
    service = await visit.ask(get_service)
    preview = await visit.ask(preview_tokens, query={"user_id": str(visit.person.user)})
    step, tone = await _next(visit, postern, service)
    head = Head(
        title=visit.text("console.test_sign_in.result_title"),
        crumbs=application_tabs.above(visit),
        main=ButtonLink(visit.text("console.test_sign_in.again"), visit.here(application_tabs.TEST_SIGN_IN), "quiet"),
        curl=visit.curl(preview_tokens, query={"user_id": str(visit.person.user)}),
    )
    page = visit.show(
        "organization/applications/claims/tested.html",
        application_tabs.OVERVIEW_POSITION,
        head,
        step=step,
        tone=tone,
        verdict=verdict_of(visit, preview),
        tokens=places_of(visit, preview),
    )
    return Answer(page, 200)


async def _next(visit: PageVisit, postern: Postern, service: Any) -> tuple[str, Tone]:
    """What would have come next, by the rules of real requests."""
    person, now = visit.person, postern.foundation.clock.now()
    began = person.proved.at or now
    try:
        step = await postern.federation.authorizations.rehearse(service.client_id, person, began)
    except UnknownRecipient:
        return visit.text("console.test_sign_in.no_address"), Tone.BAD
    except OrganizationNotActive:
        return visit.text("console.test_sign_in.closed"), Tone.BAD
    except AuthorizationRefused as refusal:
        return visit.text("console.test_sign_in.refused", reason=refusal.message), Tone.BAD
    said = visit.text(f"console.test_sign_in.next_{step.name.lower()}", application=service.name)
    return said, Tone.GOOD if step in _GOOD else Tone.BAD


PAGES: Final[Sequence[Endpoint]] = (ask_for_test, begin_test, show_result)
