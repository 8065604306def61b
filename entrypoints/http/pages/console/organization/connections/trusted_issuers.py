"""The trusted issuers of an organization: whose signed tokens let build jobs and clusters in without a secret."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.frozen import replace
from entrypoints.http.pages.console.cells import code, copied, linked, listed, plain, when
from entrypoints.http.pages.console.forms import Asked, Choice, InputKind, shape
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.organization.organization_tabs import (
    APPLICATIONS,
    KEYS,
    KEYS_ENTRY,
    TRUSTED_ISSUERS,
    TRUSTED_ISSUERS_TAB,
    position,
)
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.services.services import get_service, list_services
from entrypoints.http.routes.tenancy.management_keys import get_management_key, list_management_keys
from entrypoints.http.routes.tenancy.trusted_issuers import (
    change_trusted_issuer,
    create_trusted_issuer,
    delete_trusted_issuer,
    get_trusted_issuer,
    list_trusted_issuers,
)

# No short name of an application has a colon.
_OF_KEY: Final = "key:"


async def _holders(visit: PageVisit) -> Sequence[Choice]:
    """The applications, and the keys: whoever may not see the keys sets no rule for one."""
    services = [one for one in (await visit.ask(list_services)).services if one.service_type in {"web", "api"}]
    keys = (await visit.ask(list_management_keys)).management_keys if visit.may(list_management_keys) else ()
    applications, credentials = (visit.text(f"console.entry.{one}") for one in ("applications", "keys"))
    return [
        *(Choice(one.slug, one.name, group=applications) for one in services),
        *(Choice(f"{_OF_KEY}{one.id}", f"{one.name} ({one.prefix}…)", group=credentials) for one in keys),
    ]


def _holder(chosen: str | None) -> Mapping[str, Any]:
    if chosen is not None and chosen.startswith(_OF_KEY):
        return {"management_key_id": chosen.removeprefix(_OF_KEY)}
    return {"service_slug": chosen}


def _service(rule: Any, path: Mapping[str, str]) -> str:
    return "" if rule.service_slug is None else address(f"{APPLICATIONS}/{{service_slug}}", {**path, "service_slug": rule.service_slug})


def _key(rule: Any, path: Mapping[str, str]) -> str:
    return "" if rule.management_key_id is None else address(f"{KEYS}/{{key_id}}", {**path, "key_id": str(rule.management_key_id)})


_FOR_SERVICE: Final = linked(code("service_slug", "console.trusted_issuers.service_slug"), _service, get_service)
_FOR_KEY: Final = linked(code("management_key_id", "console.trusted_issuers.management_key_id"), _key, get_management_key)
_ISSUER: Final = Asked("issuer", kind=InputKind.TEXT, label="console.trusted_issuers.issuer", hint="console.trusted_issuers.issuer_hint")
_AUDIENCE: Final = Asked(
    "audience", kind=InputKind.TEXT, label="console.trusted_issuers.audience", hint="console.trusted_issuers.audience_hint"
)
_PATTERN: Final = Asked(
    "subject_pattern", kind=InputKind.TEXT, label="console.trusted_issuers.subject_pattern", hint="console.trusted_issuers.pattern_hint"
)
_CLAIMS: Final = Asked("claims", kind=InputKind.JSON, label="console.trusted_issuers.claims", hint="console.trusted_issuers.claims_hint")
_ADDRESS: Final = Asked("jwks_uri", kind=InputKind.TEXT, label="console.trusted_issuers.jwks_uri", hint="console.trusted_issuers.uri_hint")
_PASTED: Final = Asked("jwks", kind=InputKind.JSON, label="console.trusted_issuers.jwks", hint="console.trusted_issuers.jwks_hint")

TRUSTED_ISSUER_PAGES: Final = Resource(
    name="trusted_issuers",
    position=position(KEYS_ENTRY, TRUSTED_ISSUERS_TAB),
    at=TRUSTED_ISSUERS,
    listed=list_trusted_issuers,
    columns=(
        plain("name", beside="issuer"),
        code(_PATTERN),
        _FOR_SERVICE,
        _FOR_KEY,
        when("last_used_at"),
    ),
    parameter="rule_id",
    record=get_trusted_issuer,
    facts=(
        _FOR_SERVICE,
        _FOR_KEY,
        copied(_ISSUER),
        copied(_AUDIENCE),
        copied(_PATTERN),
        listed(lambda one: [f"{name} = {value!r}" for name, value in one.claims.items()], "console.trusted_issuers.claims"),
        code(_ADDRESS),
        listed(lambda one: [str(key.get("kid", "*")) for key in (one.jwks or {}).get("keys", ())], "console.trusted_issuers.jwks"),
        when("last_used_at"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(
        shape(
            create_trusted_issuer,
            "name",
            Asked(
                "service_slug",
                choices=_holders,
                label="console.trusted_issuers.holder",
                hint="console.trusted_issuers.holder_hint",
                stands_for=_holder,
                at_once=True,
            ),
            _ISSUER,
            _PATTERN,
            replace(_ADDRESS, at_once=True),
            _PASTED,
            replace(_AUDIENCE, can_wait=True),
            _CLAIMS,
        ),
        begins=lambda visit: {"audience": visit.postern.foundation.public_url},
    ),
    sections=(
        Section("change", shape(change_trusted_issuer, "name", _ISSUER, _AUDIENCE, _PATTERN, _CLAIMS)),
        Section("keys", shape(change_trusted_issuer, _ADDRESS, _PASTED)),
    ),
    ending=Ending(delete_trusted_issuer),
    also=(list_services, list_management_keys),
)

PAGES: Final = pages(TRUSTED_ISSUER_PAGES)
