"""The APIs of an organization: who may ask for tokens, whether tokens are made, and what an API publishes and checks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.federation.oauth.metadata import JWKS
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.services.resource_documents import (
    forbidden,
    insufficient_authentication,
    metadata_address,
    protected_resource_metadata,
    unauthorized,
)
from core.domain.services.resource_servers import ResourceState
from core.domain.signing_keys import TokenAlgorithm
from entrypoints.http.pages.console.cells import Cell, Tone, code, copied, number, plain, state, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, InputKind, shape
from entrypoints.http.pages.console.organization import metadata_clients
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.organization_tabs import APIS, APIS_TAB, APPLICATIONS_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.document_refusals import list_document_refusals
from entrypoints.http.routes.services.resource_servers import (
    ResourceScopeBody,
    ResourceServerRecord,
    change_resource_server,
    create_resource_server,
    delete_resource_server,
    get_resource_server,
    list_resource_servers,
    request_resource_approval,
    verify_resource_server,
)
from entrypoints.http.routes.services.services import create_service, list_services

STATES: Final = {
    ResourceState.WAITING: ("console.apis.waiting", Tone.WARN),
    ResourceState.SETTLING: ("console.apis.settling", Tone.WARN),
    ResourceState.ACTIVE: ("console.state.active", Tone.GOOD),
}
# A line has the name of a scope, its description, in brackets the permission that a person must hold, and what the sign-in must be.
_LINE: Final = re.compile(
    r"(?P<name>\S+)(?:\s+(?P<description>.*?))?(?:\s+\[(?P<permission>[^\[\]\s]+)\])?(?P<asks>(?:\s+\+\S+)*)\s*", re.ASCII
)
_TWO_FACTORS: Final = "two-factors"
_MAX_AGE: Final = re.compile(r"max_age=([0-9]{1,9})")


async def _services(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.slug, one.name, one.slug) for one in (await visit.ask(list_services)).services]


async def _algorithms(_visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.value) for one in TokenAlgorithm]


def scope_lines(record: Any) -> Sequence[str]:
    return [f"{one.name} {one.description}{'' if one.permission is None else f' [{one.permission}]'}{_asks(one)}" for one in record.scopes]


def _asks(scope: Any) -> str:
    asks = [_TWO_FACTORS if one == TWO_FACTORS else one for one in scope.acr_values]
    return "".join(f" +{one}" for one in (*asks, *(() if scope.max_age is None else (f"max_age={scope.max_age}",))))


def scopes_of(lines: Any) -> Mapping[str, Any]:
    found = [_LINE.fullmatch(line) for line in lines]
    return {
        "scopes": [
            {"name": one["name"], "description": one["description"] or "", "permission": one["permission"], **_asked(one["asks"].split())}
            for one in found
            if one is not None
        ]
    }


def _asked(words: Sequence[str]) -> Mapping[str, Any]:
    """What a line asks of the sign-in. The domain refuses what it cannot ask for."""
    ages = [age for age in (_MAX_AGE.fullmatch(word.removeprefix("+")) for word in words) if age is not None]
    others = [word.removeprefix("+") for word in words if not _MAX_AGE.fullmatch(word.removeprefix("+"))]
    acr_values = [TWO_FACTORS if word == _TWO_FACTORS else word for word in others]
    return {"acr_values": acr_values, "max_age": min((int(age[1]) for age in ages), default=None)}


_SCOPES: Final = Asked("scopes", kind=InputKind.LINES, shown=scope_lines, stands_for=scopes_of, hint="console.apis.scopes_hint")
_ADMITS: Final = Asked("admits", kind=InputKind.CARDS, label="console.apis.admits")
_ADMITTED: Final = Asked("admitted_services", choices=_services, label="console.apis.admitted_services", hint="console.apis.admitted_hint")
_EXCHANGES: Final = Asked("exchanges", choices=_services, label="console.apis.exchanges", hint="console.apis.exchanges_hint")
_SERVICE: Final = Asked("service_slug", choices=_services, label="console.apis.service_slug", hint="console.apis.service_hint")
_ALGORITHM: Final = Asked("access_token_alg", choices=_algorithms, label="console.apis.check_algorithm")
_LIFETIME: Final = Asked("token_lifetime", label="console.apis.token_lifetime", hint="console.apis.lifetime_hint")


def _described(scope: ResourceScopeBody, visit: PageVisit) -> Cell:
    needs = (
        "" if scope.permission is None else visit.text("console.apis.needs", permission=scope.permission),
        visit.text("console.apis.asks_second_factor") if scope.acr_values else "",
        "" if scope.max_age is None else visit.text("console.apis.asks_max_age", seconds=scope.max_age),
    )
    return Cell("text", scope.description, beside=", ".join(filter(None, needs)))


def _challenges(visit: PageVisit, record: ResourceServerRecord) -> Sequence[tuple[str, str, str]]:
    """The id, the sentence before it, and the header."""
    scopes = [one.name for one in record.scopes]
    asking = [one for one in record.scopes if one.acr_values or one.max_age is not None]
    return [
        ("unauthorized", visit.text("console.apis.challenge_unauthorized"), unauthorized(record.identifier, scopes)),
        ("forbidden", visit.text("console.apis.challenge_forbidden"), forbidden(record.identifier, scopes)),
        *(
            (
                f"step-up-{number}",
                visit.text("console.apis.challenge_step_up", scope=one.name),
                insufficient_authentication(record.identifier, one.name, one.acr_values, one.max_age),
            )
            for number, one in enumerate(asking, 1)
        ),
    ]


async def _documents(visit: PageVisit, record: ResourceServerRecord) -> Mapping[str, Any]:
    issuer, scopes = visit.postern.foundation.public_url, [one.name for one in record.scopes]
    checked = (
        ("issuer", issuer),
        ("audience", record.identifier),
        ("jwks", f"{issuer}{JWKS}"),
        ("algorithm", record.access_token_alg),
        ("type", "at+jwt"),
        # A clash of identifiers is possible for development alone, and the id of the API tells them apart.
        ("resource", record.id),
    )
    refused = (await visit.ask(list_document_refusals)).refusals if visit.may(list_document_refusals) else ()
    return {
        "api": record,
        "refused": refused,
        "proof": [
            (visit.text(f"console.apis.{name}"), Cell("copy", getattr(record, name))) for name in ("txt_name", "txt_value", "file_url")
        ],
        "scopes": [(one.name, _described(one, visit)) for one in record.scopes],
        "metadata_address": metadata_address(record.identifier),
        "metadata": protected_resource_metadata(record.identifier, record.name, scopes, issuer),
        "challenges": _challenges(visit, record),
        "mcp_clients": f"{visit.here(f'{application_tabs.LIST}/~new')}?kind=mcp" if visit.may(create_service) else "",
        "checked": [(visit.text(f"console.apis.check_{name}"), Cell("copy", value)) for name, value in checked],
    }


def _waits(record: ResourceServerRecord) -> bool:
    return record.state is ResourceState.WAITING


API_PAGES: Final = Resource(
    name="apis",
    position=position(APPLICATIONS_ENTRY, APIS_TAB),
    at=APIS,
    listed=list_resource_servers,
    columns=(
        plain("name", beside="identifier"),
        state("state", STATES),
        number(lambda one: len(one.scopes), "console.field.scopes"),
        words("admits", "console.apis.admits"),
        when("created_at"),
    ),
    parameter="resource_id",
    record=get_resource_server,
    state=(lambda one: one.state, STATES.__getitem__),
    facts=(
        copied("identifier", "console.apis.identifier"),
        code("service_slug", "console.apis.service_slug"),
        words("admits", "console.apis.admits"),
        *metadata_clients.SHOWN,
        number(_LIFETIME),
        when("verified_at"),
        when("checked_at"),
        when("approved_at"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(
        shape(
            create_resource_server,
            Asked("identifier", kind=InputKind.TEXT, label="console.apis.identifier", hint="console.apis.identifier_hint"),
            "name",
            _SCOPES,
            _ADMITS,
            _ADMITTED,
            metadata_clients.CLIENTS,
            metadata_clients.REGISTERED,
            metadata_clients.HOSTS,
            _EXCHANGES,
            _SERVICE,
            _LIFETIME,
            _ALGORITHM,
        )
    ),
    sections=(
        Section("scopes", shape(change_resource_server, _SERVICE, _SCOPES)),
        Section(
            "admission",
            shape(
                change_resource_server, _ADMITS, _ADMITTED, metadata_clients.CLIENTS, metadata_clients.REGISTERED, metadata_clients.HOSTS
            ),
        ),
        Section("exchanges", shape(change_resource_server, _EXCHANGES)),
        Section("change", shape(change_resource_server, "name", _LIFETIME, _ALGORITHM)),
    ),
    acts=(
        Act(
            "verify",
            verify_resource_server,
            kind="",
            shows=lambda one: _waits(one) and one.txt_name is not None,
            said=lambda tried: (tried.verified, tried.message),
        ),
        Act("ask-approval", request_resource_approval, shows=lambda one: _waits(one) and one.approval_asked_at is None),
    ),
    ending=Ending(delete_resource_server, typed=lambda one: str(one.identifier)),
    template="organization/apis/api.html",
    more=_documents,
    also=(list_services, list_document_refusals),
)

PAGES: Final = pages(API_PAGES)
