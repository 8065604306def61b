"""The mail domains of the organization, and where their people sign in."""

from collections.abc import Sequence
from typing import Final

from core.domain.identity.realms import LoginPolicy
from core.domain.identity.upstream.providers import NAMES
from core.domain.tenancy.domains import JoinPolicy, faults_of
from entrypoints.http.pages.console.cells import Tone, code, copied, plain, state, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, DOMAINS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.domain_routes import (
    change_domain_route,
    create_domain_route,
    delete_domain_route,
    list_domain_routes,
    verify_domain_route,
)
from entrypoints.http.routes.tenancy.upstream_providers import list_upstream_providers

_STATES: Final = {True: ("console.state.proved", Tone.GOOD), False: ("console.state.not_proved", Tone.WARN)}


async def _providers(visit: PageVisit) -> Sequence[Choice]:
    """The organization's own providers, then those of the installation."""
    own = [Choice(str(one.id), one.name) for one in await visit.ask(list_upstream_providers)]
    return [*own, *(Choice(provider.value, name) for provider, name in NAMES.items())]


_PROVIDER: Final = Asked("upstream_provider_id", choices=_providers)

DOMAINS: Final = Resource(
    name="domains",
    position=position(DIRECTORIES_ENTRY, DOMAINS_TAB),
    at=f"{DIRECTORIES}/domains",
    listed=list_domain_routes,
    columns=(
        plain("domain"),
        state("verified", _STATES),
        words("login_policy", LoginPolicy),
        words("join_policy", JoinPolicy),
        when("checked_at"),
    ),
    parameter="domain_id",
    called=lambda one: str(one.domain),
    state=(lambda one: one.verified, _STATES.__getitem__),
    facts=(
        copied("txt_name"),
        copied("txt_value"),
        code("file_url"),
        words("login_policy", LoginPolicy),
        words("join_policy", JoinPolicy),
        when("verified_at"),
        when("checked_at"),
        when("created_at"),
    ),
    making=Making(
        shape(create_domain_route, "domain", _PROVIDER, "login_policy", "join_policy"),
        faults=lambda body: faults_of(body.domain, body.upstream_provider_id, body.login_policy),
    ),
    sections=(Section("change", shape(change_domain_route, _PROVIDER, "login_policy", "join_policy")),),
    acts=(Act("verify", verify_domain_route, said=lambda tried: (tried.verified, tried.message)),),
    ending=Ending(delete_domain_route),
)

PAGES: Final = pages(DOMAINS)
