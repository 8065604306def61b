"""The claims that an application gets besides the standard ones."""

import json
from collections.abc import Sequence
from typing import Any, Final

from core.domain.claims import ClaimPlace, ClaimSource, OrganizationPart
from entrypoints.http.pages.console.cells import Tone, code, in_words, plain, state, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, InputKind, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.services.service_claims import (
    change_service_claim,
    create_service_claim,
    delete_service_claim,
    list_service_claims,
)
from entrypoints.http.routes.tenancy.profile_fields import list_fields


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
    position=application_tabs.TOKENS_POSITION,
    at=application_tabs.CLAIMS,
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
    crumbs=application_tabs.above,
)

PAGES: Final = pages(CLAIMS)
