"""The claims of an application, and what it would learn of a person: the preview, and the test sign-in.

The test sign-in: a person signs in as an application's request would have them sign in, and meets a page of ours that says what the
application would have learned. The application gets nothing: no code, no token, no session and no consent comes of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.claims import ClaimPlace, ClaimSource, OrganizationPart
from core.domain.errors import NotFound, OrganizationNotActive, Refusal
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.federation.oauth.authorizations import AuthorizationRefused, UnknownRecipient
from core.domain.federation.oauth.resources import SCOPES
from core.domain.identity.flows import FlowPurpose, Prompt, Wanted
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, code, in_words, plain, state, when, words
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Making, Resource, Section
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, ButtonLink, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.pages.kit.flows import begin
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.service_claims import (
    change_service_claim,
    create_service_claim,
    delete_service_claim,
    list_service_claims,
)
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.tenancy.profile_fields import list_fields

_SOURCES: Final = frozenset(
    {
        *("token", "account", "profile", "membership", "person_field", "organization_field", "roles", "permissions", "teams"),
        *("organization", "plan", "features", "constant"),
    }
)


class ShownClaim(NamedTuple):
    name: str
    value: str
    source: str
    """In the reader's language, with the field that the value comes from."""


class ShownPlace(NamedTuple):
    title: str
    claims: Sequence[ShownClaim]
    missing: Sequence[ShownClaim]
    """In place of the value, the reason."""


def places_of(visit: PageVisit, preview: Any) -> Sequence[ShownPlace]:
    """The tokens and answers of a preview."""
    named = (("id_token", preview.id_token), ("userinfo", preview.userinfo), ("access_token", preview.access_token), ("saml", preview.saml))
    return [_place(visit, name, place) for name, place in named if place is not None]


def _place(visit: PageVisit, name: str, place: Any) -> ShownPlace:
    return ShownPlace(
        in_words("into", name, visit.text),
        [ShownClaim(one.name, _value(one.value), _source(visit, one.source, one.about)) for one in place.claims],
        [ShownClaim(one.name, one.reason, _source(visit, one.source, None)) for one in place.missing],
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _source(visit: PageVisit, source: str, about: str | None) -> str:
    said = visit.text(f"console.source.{source}") if source in _SOURCES else source
    return f"{said}: {about}" if about else said


def verdict_of(visit: PageVisit, preview: Any) -> tuple[str, str, Tone]:
    """Whether the person may sign in, the rule that decides, and the tone of both."""
    may, outcome = (preview.sign_in.may_sign_in, "yes" if preview.sign_in.may_sign_in else "no")
    rule = visit.text(f"console.preview.{preview.sign_in.rule}_{outcome}")
    return visit.text(f"console.preview.may_{outcome}"), rule, Tone.GOOD if may else Tone.BAD


async def _places(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("into", one, visit.text)) for one in ClaimPlace]


async def _fields(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.key, one.label) for one in await visit.ask(list_fields)]


async def _parts(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(f"console.claims.part_{one.value}")) for one in OrganizationPart]


def _shown_argument(claim: Any) -> str:
    return "" if claim.argument is None else claim.argument if isinstance(claim.argument, str) else json.dumps(claim.argument)


def _writer(claim: Any) -> str:
    return "nobody" if claim.person_writes is None else "person" if claim.person_writes else "organization"


_WRITER: Final = state(
    _writer,
    {
        "nobody": ("console.claims.written_by_nobody", Tone.PLAIN),
        "organization": ("console.claims.written_by_organization", Tone.PLAIN),
        "person": ("console.claims.written_by_person", Tone.WARN),
    },
    "console.claims.written_by",
)
_FIELDS: Final = (
    Asked("name", hint="console.claims.name_hint"),
    Asked("source", kind=InputKind.CARDS),
    Asked(
        "argument",
        kind=InputKind.TEXT,
        under=("source", ClaimSource.PERSON_FIELD),
        label="console.claims.field",
        hint="console.claims.person_field_hint",
    ),
    Asked("argument", choices=_fields, under=("source", ClaimSource.ORGANIZATION_FIELD), label="console.claims.field"),
    Asked("argument", choices=_parts, under=("source", ClaimSource.ORGANIZATION), label="console.claims.part"),
    Asked(
        "argument",
        kind=InputKind.VALUE,
        under=("source", ClaimSource.CONSTANT),
        label="console.claims.constant",
        hint="console.claims.constant_hint",
    ),
    Asked("into", choices=_places, at_first=(ClaimPlace.ID_TOKEN, ClaimPlace.USERINFO)),
)

CLAIMS: Final = Resource(
    name="claims",
    position=applications.SIGN_IN_POSITION,
    at=applications.CLAIMS,
    listed=list_service_claims,
    columns=(
        code("name"),
        words("source", ClaimSource),
        plain(_shown_argument, "console.field.argument"),
        words("into", ClaimPlace),
        _WRITER,
    ),
    parameter="claim_id",
    facts=(
        words("source", ClaimSource),
        plain(_shown_argument, "console.field.argument"),
        words("into", ClaimPlace),
        _WRITER,
        when("created_at"),
    ),
    making=Making(shape(create_service_claim, *_FIELDS)),
    sections=(Section("change", shape(change_service_claim, *_FIELDS)),),
    ending=Ending(delete_service_claim),
    crumbs=applications.above,
)


_TICK: Final = "scope_"
# A query has each name once, so each scope has a name of its own. `person` is an address or an id.
PreviewQuery: Final[Any] = msgspec.defstruct(
    "PreviewQuery", [("person", Line, ""), *((f"{_TICK}{one}", Line, "") for one in SCOPES)], frozen=True
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
        crumbs=applications.above(visit),
        curl=visit.curl(preview_tokens, query=query if person else {"email": visit.person.email.address}),
        errors=errors,
    )
    page = visit.show(
        "organization/applications/claims/preview.html",
        applications.SIGN_IN_POSITION,
        head,
        at=visit.here(applications.PREVIEW),
        asked=person,
        scopes=[(f"{_TICK}{one}", one, not scopes or one in scopes) for one in SCOPES],
        preview=preview,
        verdict=None if preview is None else verdict_of(visit, preview),
        tokens=() if preview is None else places_of(visit, preview),
    )
    return Answer(page, status)


show_preview: Final = console.get(applications.PREVIEW, of=preview_tokens, also=(get_service,))(
    stated(_show_preview, "show_preview", applications.PREVIEW, query=PreviewQuery)
)


RESULT: Final = f"{applications.TEST_SIGN_IN}/result"
_GOOD: Final = frozenset({AuthorizationStep.DONE, AuthorizationStep.CONSENT, AuthorizationStep.CONFIRM_MEMBERSHIP})


@console.get(applications.TEST_SIGN_IN, of=preview_tokens, also=(get_service,))
async def ask_for_test(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Say what the test sign-in does, with the button that begins it."""
    visit = PageVisit(call, postern)
    service = await visit.ask(get_service)
    page = visit.show(
        "question.html",
        applications.OVERVIEW_POSITION,
        Head(title=visit.text("console.test_sign_in.title"), crumbs=applications.above(visit)),
        explained=visit.text("console.test_sign_in.explained", application=service.name),
        ends=[visit.text(f"console.test_sign_in.promise_{one}") for one in ("session", "self", "others")],
        action=visit.here(applications.TEST_SIGN_IN),
        back=visit.here(applications.ONE),
        button=visit.text("console.test_sign_in.begin"),
        kind="primary",
        wanted="",
    )
    return Answer(page, 200)


# The form calls no endpoint that changes something: it begins a sign-in.
@console.post(applications.TEST_SIGN_IN, of=preview_tokens.caller)
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
        crumbs=applications.above(visit),
        main=ButtonLink(visit.text("console.test_sign_in.again"), visit.here(applications.TEST_SIGN_IN), "quiet"),
        curl=visit.curl(preview_tokens, query={"user_id": str(visit.person.user)}),
    )
    page = visit.show(
        "organization/applications/claims/tested.html",
        applications.OVERVIEW_POSITION,
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


PAGES: Final = (*pages(CLAIMS), show_preview, ask_for_test, begin_test, show_result)
