"""The organization's own providers, at which its people sign in."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.domain.identity.upstream.connection_tests import ConnectionExchangeKind
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind
from core.domain.identity.upstream.ldap.settings import LDAP_PRESETS
from core.domain.identity.upstream.saml.assertions import PRESETS
from entrypoints.http.pages.console.cells import Tone, code, copied, in_words, listed, number, plain, state, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, InputKind, shape
from entrypoints.http.pages.console.lists import latest_of
from entrypoints.http.pages.console.organization.connections.certificates_pages import CERTIFICATES
from entrypoints.http.pages.console.organization.connections.connection_pages import CONNECTION, EXCHANGES_AT, above, steps_of
from entrypoints.http.pages.console.organization.connections.directory_runs import DIRECTORY_RUNS
from entrypoints.http.pages.console.organization.connections.identity_assertions import ASSERTIONS
from entrypoints.http.pages.console.organization.connections.owners_word import settings_of
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, DIRECTORIES_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.directory_runs import create_directory_run, list_directory_runs
from entrypoints.http.routes.tenancy.connections import activate_upstream_provider, list_connection_exchanges
from entrypoints.http.routes.tenancy.upstream_providers import (
    change_upstream_provider,
    create_upstream_provider,
    delete_upstream_provider,
    list_upstream_providers,
)

_STATES: Final = {
    "draft": ("console.state.draft", Tone.WARN),
    "tested": ("console.state.tested", Tone.WARN),
    "active": ("console.state.active", Tone.GOOD),
    "off": ("console.state.off", Tone.WARN),
}


async def _products(visit: PageVisit) -> Sequence[Choice]:
    saml, oidc, ldap = (in_words("kind", kind, visit.text) for kind in (ProviderKind.SAML, ProviderKind.OIDC, ProviderKind.LDAP))
    return [
        *(Choice(one.value, preset.name, saml) for one, preset in PRESETS.items()),
        Choice(ProviderKind.SAML.value, visit.text("console.providers.another"), saml),
        Choice(ProviderKind.OIDC.value, visit.text("console.providers.another"), oidc),
        *(Choice(one.value, usual.name, ldap) for one, usual in LDAP_PRESETS.items()),
        Choice(ProviderKind.LDAP.value, visit.text("console.providers.another"), ldap),
    ]


def _chosen(product: str) -> Mapping[str, Any]:
    if product in frozenset(PRESETS):
        return {"kind": ProviderKind.SAML, "preset": product}
    if product in frozenset(LDAP_PRESETS):
        return {"kind": ProviderKind.LDAP, "ldap_preset": product}
    return {"kind": product}


def _named(form: Any) -> Any:
    """The form with a name for the button of the sign-in page: the product's, or the host of the issuer."""
    if form.name.strip():
        return form
    products = {one.value: preset.name for one, preset in PRESETS.items()} | {one.value: usual.name for one, usual in LDAP_PRESETS.items()}
    try:
        name = products[form.kind] if form.kind in products else urlsplit(form.issuer.strip()).hostname or ""
    except ValueError:
        # The endpoint says what is wrong with the issuer.
        name = ""
    return msgspec.structs.replace(form, name=name)


def _oidc(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", ProviderKind.OIDC), **more)


def _saml(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", ProviderKind.SAML), shown=_within(attrgetter("saml"), name), **more)


def _ldap(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", ProviderKind.LDAP), shown=_within(attrgetter("ldap"), name), **more)


def _within(settings: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """A value of a provider's settings of one kind, of which other kinds have none."""
    return lambda one: None if settings(one) is None else getattr(settings(one), name)


_SCOPES: Final = _oidc("scopes", hint="console.providers.scopes_hint")
_MAPPING: Final = Asked("profile_mapping", hint="console.providers.mapping_hint")


_OUTCOMES: Final = {True: ("console.state.taken", Tone.GOOD), False: ("console.state.refused", Tone.BAD)}


def _state(one: Any) -> str:
    return "off" if one.state is ConnectionState.ACTIVE and not one.enabled else one.state.value


def _may_be_activated(one: Any) -> bool:
    """A directory has to be tested before."""
    return one.state is ConnectionState.TESTED or (one.state is ConnectionState.DRAFT and one.kind is ProviderKind.OIDC)


def _keeps_in_step(one: Any) -> bool:
    return bool(one.ldap is not None and one.ldap.keeps_in_step and one.enabled)


EXCHANGES: Final = Resource(
    name="connection_exchanges",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=EXCHANGES_AT,
    listed=list_connection_exchanges,
    rows="exchanges",
    is_log=True,
    columns=(
        when("created_at", "console.field.happened_at"),
        code("reference", "console.field.reference"),
        words("kind", ConnectionExchangeKind),
        state("succeeded", _OUTCOMES),
        plain("reason", beside="advice"),
        code(lambda one: one.certificate[:16], "console.field.signed_by"),
        number("times"),
        when("last_at"),
    ),
    crumbs=above,
)
_LATEST: Final = (EXCHANGES.columns[0], words("kind", ConnectionExchangeKind), state("succeeded", _OUTCOMES), plain("reason"))


async def _happened(visit: PageVisit, provider: Any) -> Mapping[str, Any]:
    """What happens at the provider, once it is active, and the steps that led there."""
    listed = provider.state is ConnectionState.ACTIVE and visit.may(list_connection_exchanges)
    return {**await steps_of(visit, provider), "latest": await latest_of(EXCHANGES, visit, _LATEST) if listed else None}


PROVIDERS: Final = Resource(
    name="providers",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=DIRECTORIES,
    listed=list_upstream_providers,
    columns=(plain("name"), words("kind", ProviderKind), code("issuer"), state(_state, _STATES), when("created_at")),
    parameter="provider_id",
    state=(_state, _STATES.__getitem__),
    facts=(
        words("kind", ProviderKind),
        listed("scopes"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(
        shape(
            create_upstream_provider,
            # The product says what else is asked.
            Asked(
                "kind",
                kind=InputKind.CARDS,
                choices=_products,
                label="console.field.preset",
                stands_for=_chosen,
                at_first="",
                is_needed=True,
            ),
            Asked("name", hint="console.providers.name_hint"),
            _oidc("issuer", kind=InputKind.TEXT, hint="console.providers.issuer_hint", is_needed=True),
            _oidc("client_id", kind=InputKind.TEXT, is_needed=True),
            _oidc("client_secret", kind=InputKind.SECRET, is_needed=True),
        ),
        filled=_named,
    ),
    sections=(
        Section(
            "change",
            shape(
                change_upstream_provider,
                "name",
                _oidc("client_id", kind=InputKind.TEXT),
                _oidc("client_secret", kind=InputKind.SECRET, hint="console.siem.secret_hint"),
                "enabled",
                _SCOPES,
                _oidc("second_factor_values", hint="console.providers.factors_hint"),
                _MAPPING,
            ),
        ),
        Section(
            "saml",
            shape(
                change_upstream_provider,
                Asked("issuer", under=("kind", ProviderKind.SAML), kind=InputKind.TEXT, hint="console.providers.entity_id_hint"),
                _saml("sso_url"),
                _saml("slo_url"),
                _saml("metadata_url"),
                _saml("subject_source", hint="console.providers.subject_source_hint"),
                _saml("email_sources", hint="console.providers.email_sources_hint"),
                _saml("wants_encrypted"),
                _saml("requested_contexts"),
                Asked("second_factor_values", under=("kind", ProviderKind.SAML), hint="console.providers.factors_hint"),
            ),
        ),
        Section(
            "ldap",
            shape(
                change_upstream_provider,
                _ldap("hosts", hint="console.providers.hosts_hint"),
                _ldap("start_tls"),
                _ldap("ca_certificates", kind=InputKind.LONG, hint="console.providers.authorities_hint"),
                _ldap("bind_dn", hint="console.providers.bind_dn_hint"),
                Asked(
                    "bind_password", kind=InputKind.SECRET, under=("kind", ProviderKind.LDAP), hint="console.providers.bind_password_hint"
                ),
                _ldap("base_dn", hint="console.providers.base_dn_hint"),
                _ldap("search_scope"),
                _ldap("person_filter", kind=InputKind.TEXT),
                _ldap("sign_in_attributes", hint="console.providers.sign_in_attributes_hint"),
                _ldap("identity_attribute", hint="console.providers.identity_attribute_hint"),
                _ldap("address_attribute", hint="console.providers.address_attribute_hint"),
                _ldap("groups_attribute"),
                _ldap("lockout_threshold", hint="console.providers.lockout_hint"),
                _ldap("lockout_minutes"),
                _ldap("accepts_lockouts", hint="console.providers.accepts_lockouts_hint"),
                _ldap("keeps_in_step", hint="console.providers.keeps_in_step_hint"),
                _ldap("step_minutes"),
            ),
        ),
    ),
    acts=(
        Act(
            "activate",
            activate_upstream_provider,
            asks=True,
            shows=_may_be_activated,
            facts=settings_of(lambda one: one),
            seen=lambda one: str(one.digest),
        ),
        Act("run", create_directory_run, shows=_keeps_in_step),
    ),
    below=(
        ("console.connection.title", CONNECTION, list_upstream_providers),
        ("console.connection_certificates.title", CERTIFICATES, list_upstream_providers),
        ("console.assertions.title", ASSERTIONS, list_upstream_providers),
        ("console.connection_exchanges.title", EXCHANGES_AT, list_connection_exchanges),
        ("console.directory_runs.title", DIRECTORY_RUNS, list_directory_runs),
    ),
    ending=Ending(delete_upstream_provider),
    template="organization/connections/provider.html",
    more=_happened,
    also=(list_connection_exchanges,),
)

PAGES: Final = (*pages(PROVIDERS), *pages(EXCHANGES))
