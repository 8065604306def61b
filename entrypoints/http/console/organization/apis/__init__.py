"""The APIs of an organization: who may ask for tokens, whose documents are let in, and what an API publishes and checks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.federation.oauth.oidc import JWKS
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.services.resource_identifiers import (
    forbidden,
    insufficient_authentication,
    metadata_address,
    protected_resource_metadata,
    unauthorized,
)
from core.domain.services.resource_servers import (
    LONGEST_DESCRIPTION,
    LONGEST_MAX_AGE,
    LONGEST_SCOPE,
    SHORTEST_MAX_AGE,
    Admits,
    ResourceState,
)
from core.domain.tokens import TokenAlgorithm
from entrypoints.http.console.kit.cells import Cell, Column, Tone, code, copied, listed, number, plain, state, when, words
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.console.kit.rows import Row, RowField, Rows
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.organization_tabs import APIS, APIS_TAB, APPLICATIONS_ENTRY, position
from entrypoints.http.routes.federation.unplaced_clients import list_document_refusals
from entrypoints.http.routes.services.resource_servers import (
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
from ports.texts import Text

_SAID: Final[Mapping[MetadataClients, tuple[str, Tone]]] = {
    MetadataClients.OFF: ("console.metadata_clients.off", Tone.PLAIN),
    MetadataClients.NAMED: ("console.metadata_clients.named", Tone.GOOD),
    MetadataClients.ANY: ("console.metadata_clients.any", Tone.WARN),
}


_REGISTERED: Final[Mapping[RegisteredClients, tuple[str, Tone]]] = {
    RegisteredClients.OFF: ("console.metadata_clients.registered_off", Tone.PLAIN),
    RegisteredClients.ON: ("console.metadata_clients.registered_on", Tone.WARN),
}


async def _choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(said)) for one, (said, _) in _SAID.items()]


async def _registered_choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(said)) for one, (said, _) in _REGISTERED.items()]


METADATA_CLIENTS: Final = Asked("metadata_clients", choices=_choices, hint="console.metadata_clients.hint")
METADATA_HOSTS: Final = Asked("metadata_hosts", hint="console.metadata_clients.hosts_hint")
REGISTERED_CLIENTS: Final = Asked("registered_clients", choices=_registered_choices, hint="console.metadata_clients.registered_hint")
SHOWN_CLIENTS: Final[Sequence[Column]] = (
    state("metadata_clients", _SAID, "console.field.metadata_clients"),
    state("registered_clients", _REGISTERED, "console.field.registered_clients"),
    listed("metadata_hosts"),
)


STATES: Final = {
    ResourceState.WAITING: ("console.apis.waiting", Tone.WARN),
    ResourceState.SETTLING: ("console.apis.settling", Tone.WARN),
    ResourceState.ACTIVE: ("console.state.active", Tone.GOOD),
}
_TWO_FACTORS: Final = "two-factors"


async def _services(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.slug, one.name, one.slug) for one in (await visit.ask(list_services)).services]


async def _algorithms(_visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.value) for one in TokenAlgorithm]


def scope_rows(record: Any) -> Sequence[Row]:
    return [
        {
            "name": one.name,
            "description": one.description,
            "permission": one.permission or "",
            "acr_values": _TWO_FACTORS if TWO_FACTORS in one.acr_values else "",
            "max_age": "" if one.max_age is None else str(one.max_age),
        }
        for one in record.scopes
    ]


def scopes_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    return {
        "scopes": [
            {
                "name": row["name"],
                "description": row["description"],
                "permission": row["permission"] or None,
                "acr_values": [TWO_FACTORS] if row["acr_values"] == _TWO_FACTORS else [],
                "max_age": row["max_age"] or None,
            }
            for row in rows
        ]
    }


def _said(text: Text, row: Row) -> tuple[str, str]:
    return row["name"], ", ".join(filter(None, (row["description"], _needs(text, row))))


def _needs(text: Text, row: Row) -> str:
    """What a scope asks of the person and of the sign-in."""
    needs = (
        text("console.apis.needs", permission=row["permission"]) if row["permission"] else "",
        text("console.apis.asks_second_factor") if row["acr_values"] else "",
        text("console.apis.asks_max_age", seconds=row["max_age"]) if row["max_age"] else "",
    )
    return ", ".join(filter(None, needs))


_SCOPE_ROWS: Final = Rows(
    fields=(
        RowField(name="name", label="console.apis.scope_name", longest=LONGEST_SCOPE),
        RowField(name="description", label="console.apis.scope_text", longest=LONGEST_DESCRIPTION),
        RowField(name="permission", label="console.apis.scope_permission", longest=LONGEST_SCOPE, is_folded=True),
        RowField(
            name="acr_values",
            label="console.apis.scope_sign_in",
            options=(("", "console.apis.any_sign_in"), (_TWO_FACTORS, "console.apis.two_factors")),
            is_folded=True,
        ),
        RowField(name="max_age", label="console.apis.scope_max_age", bounds=(SHORTEST_MAX_AGE, LONGEST_MAX_AGE), is_folded=True),
    ),
    one="console.apis.scope_number",
    add="console.apis.add_scope",
    more="console.apis.scope_more",
    said=_said,
)
_SCOPES: Final = Asked("scopes", rows=_SCOPE_ROWS, shown=scope_rows, stands_for=scopes_of, hint="console.apis.scopes_hint")
_ADMITS: Final = Asked("admits", kind=InputKind.CARDS, label="console.apis.admits", can_wait=True)
_ADMITTED: Final = Asked(
    "admitted_services", choices=_services, label="console.apis.admitted_services", hint="console.apis.admitted_hint", can_wait=True
)
_EXCHANGES: Final = Asked("exchanges", choices=_services, label="console.apis.exchanges", hint="console.apis.exchanges_hint", can_wait=True)
_SERVICE: Final = Asked("service_slug", choices=_services, label="console.apis.service_slug", hint="console.apis.service_hint")
_ALGORITHM: Final = Asked("access_token_alg", choices=_algorithms, label="console.apis.check_algorithm")
_LIFETIME: Final = Asked("token_lifetime", label="console.apis.token_lifetime", hint="console.apis.lifetime_hint")


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
        # Whoever may change the scopes has them in the panel.
        "scopes": []
        if visit.may(change_resource_server)
        else [(row["name"], Cell("text", row["description"], beside=_needs(visit.text, row))) for row in scope_rows(record)],
        "metadata_address": metadata_address(record.identifier),
        "metadata": protected_resource_metadata(record.identifier, record.name, scopes, issuer),
        "challenges": _challenges(visit, record),
        "mcp_clients": f"{visit.here(f'{applications.LIST}/~new')}?kind=mcp" if visit.may(create_service) else "",
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
        words("admits", Admits, "console.apis.admits"),
        when("created_at"),
    ),
    parameter="resource_id",
    record=get_resource_server,
    state=(lambda one: one.state, STATES.__getitem__),
    facts=(
        copied("identifier", "console.apis.identifier"),
        code("service_slug", "console.apis.service_slug"),
        words("admits", Admits, "console.apis.admits"),
        *SHOWN_CLIENTS,
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
            METADATA_CLIENTS,
            REGISTERED_CLIENTS,
            METADATA_HOSTS,
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
            shape(change_resource_server, _ADMITS, _ADMITTED, METADATA_CLIENTS, REGISTERED_CLIENTS, METADATA_HOSTS),
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
            said=lambda tried, _: (tried.verified, tried.message),
        ),
        Act("ask-approval", request_resource_approval, shows=lambda one: _waits(one) and one.approval_asked_at is None),
    ),
    ending=Ending(delete_resource_server, typed=lambda one: str(one.identifier)),
    template="organization/apis/api.html",
    more=_documents,
    also=(list_services, list_document_refusals),
)

PAGES: Final = pages(API_PAGES)
