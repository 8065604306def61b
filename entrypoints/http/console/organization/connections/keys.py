"""Management keys of the organization, and the issuers whose signed tokens let build jobs and clusters in without a secret."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.http.console.kit.cells import Tone, code, copied, linked, listed, plain, state, when, words, yes_or_no
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.organization_tabs import (
    APPLICATIONS,
    DEVELOPERS_ENTRY,
    KEYS,
    KEYS_TAB,
    TRUSTED_ISSUERS,
    TRUSTED_ISSUERS_TAB,
    position,
)
from entrypoints.http.console.organization.people.roles import capabilities, capability_presets
from entrypoints.http.routes.services.services import get_service, list_services
from entrypoints.http.routes.tenancy.management_keys import (
    adopt_management_key,
    create_management_key,
    end_management_key,
    get_management_key,
    list_management_keys,
)
from entrypoints.http.routes.tenancy.trusted_issuers import (
    change_trusted_issuer,
    create_trusted_issuer,
    delete_trusted_issuer,
    get_trusted_issuer,
    list_trusted_issuers,
)

_DAYS: Final = Asked("expires_in_days", hint="console.keys.days_hint")
ADOPTED: Final = {True: ("console.state.adopted", Tone.GOOD), False: ("console.state.of_its_maker", Tone.PLAIN)}


def _key(found: Any) -> Any:
    """A row of the list is the key itself; the record has the key beside what it made."""
    return getattr(found, "management_key", found)


async def _made(_visit: PageVisit, found: Any) -> Sequence[tuple[str, int]]:
    sent = [one.accepted for one in found.made.invitations]
    return (
        ("console.keys.api_keys", len(found.made.api_keys)),
        ("console.keys.client_secrets", len(found.made.client_secrets)),
        ("console.keys.invitations", sent.count(False)),
        ("console.keys.members", sent.count(True)),
    )


def _sent(*, accepted: bool) -> Callable[[Any], Sequence[str]]:
    return lambda found: [f"{one.email or one.id}: {one.role}" for one in found.made.invitations if one.accepted is accepted]


KEYS_OF_ORGANIZATION: Final = Resource(
    name="keys",
    position=position(DEVELOPERS_ENTRY, KEYS_TAB),
    at=KEYS,
    listed=list_management_keys,
    rows="management_keys",
    columns=(
        plain("name"),
        code("prefix"),
        plain("maker_email", "console.field.maker"),
        state(lambda key: key.adopted_at is not None, ADOPTED),
        when("last_used_at"),
        when("expires_at"),
    ),
    parameter="key_id",
    key=lambda found: _key(found).id,
    called=lambda found: _key(found).name,
    record=get_management_key,
    state=(lambda found: _key(found).adopted_at is not None, ADOPTED.__getitem__),
    facts=(
        code("management_key.prefix"),
        words("management_key.capabilities", Capability),
        when("management_key.last_used_at"),
        when("management_key.expires_at"),
        plain("management_key.maker_email", "console.field.maker"),
        yes_or_no("management_key.maker_is_here", "console.field.maker_is_member", good=True),
        when("management_key.adopted_at"),
        when("management_key.former_secret_until"),
        listed(lambda found: [f"{one.service_slug}: {one.name}" for one in found.made.api_keys], "console.field.made_api_keys"),
        listed(lambda found: [f"{one.service_slug}: {one.prefix}" for one in found.made.client_secrets], "console.field.made_secrets"),
        listed(_sent(accepted=False), "console.field.made_invitations"),
        listed(_sent(accepted=True), "console.field.made_members"),
        when("management_key.created_at"),
    ),
    making=Making(
        shape(
            create_management_key,
            "name",
            Asked("capabilities", choices=capabilities, presets=capability_presets),
            Asked("expires_in_days", hint="console.keys.days_hint"),
        ),
        secret="key",  # noqa: S106 - the name of a field
    ),
    acts=(
        Act(
            "adopt",
            adopt_management_key,
            asks=True,
            secret="key",  # noqa: S106 - the name of a field
            shows=lambda found: _key(found).adopted_at is None,
        ),
    ),
    ending=Ending(end_management_key, counts=_made),
)


# No short name of an application has a colon.
_OF_KEY: Final = "key:"


async def _holders(visit: PageVisit) -> Sequence[Choice]:
    """The applications, and the keys: whoever may not see the keys sets no rule for one."""
    services = [one for one in (await visit.ask(list_services)).services if one.service_type in {"web", "api"}]
    keys = (await visit.ask(list_management_keys)).management_keys if visit.may(list_management_keys) else ()
    applications, credentials = (visit.text(f"console.tab.{one}") for one in ("applications", "keys"))
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


def _key_trusted_issuer(rule: Any, path: Mapping[str, str]) -> str:
    return "" if rule.management_key_id is None else address(f"{KEYS}/{{key_id}}", {**path, "key_id": str(rule.management_key_id)})


_FOR_SERVICE: Final = linked(code("service_slug", "console.trusted_issuers.service_slug"), _service, get_service)
_FOR_KEY: Final = linked(code("management_key_id", "console.trusted_issuers.management_key_id"), _key_trusted_issuer, get_management_key)
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
    position=position(DEVELOPERS_ENTRY, TRUSTED_ISSUERS_TAB),
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


PAGES: Final = (*pages(KEYS_OF_ORGANIZATION), *pages(TRUSTED_ISSUER_PAGES))
