"""Set-up links and what was set up with them, and what an owner sees of a provider before it signs people in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from core.domain.identity.upstream.connections import ProviderKind
from core.domain.languages import Language
from core.domain.tenancy.setup import SetupDraftState, SetupLinkState, SetupPurpose
from core.domain.tenancy.siem import SiemProvider
from entrypoints.http.console.kit.cells import Column, Tone, code, copied, listed, number, plain, state, when, words, yes_or_no
from entrypoints.http.console.kit.forms import Asked, Choice, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES_ENTRY, SETUP_LINKS, SETUP_LINKS_TAB, position
from entrypoints.http.routes.tenancy.setup_links import (
    activate_setup_draft,
    create_setup_link,
    get_setup_link,
    list_setup_links,
    release_setup_link,
    revoke_setup_link,
)

_LABELS: Final = "console.field"


def settings_of(provider: Callable[[Any], Any]) -> tuple[Column, ...]:
    """Facts about the provider in a record. A record that has none, or a provider of the other kind, leaves facts empty, and no page shows
    these.
    """

    def of(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(provider(record), name, None)

    def of_saml(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(getattr(provider(record), "saml", None), name, None)

    def of_ldap(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(getattr(provider(record), "ldap", None), name, None)

    def certificates(record: Any) -> Sequence[str] | None:
        known = of_saml("certificates")(record)
        return None if known is None else [one.fingerprint for one in known]

    return (
        words(of("kind"), ProviderKind, f"{_LABELS}.kind"),
        copied(of("issuer"), f"{_LABELS}.issuer"),
        listed(certificates, f"{_LABELS}.certificates_sha256"),
        code(of_saml("sso_url"), f"{_LABELS}.sso_url"),
        code(of_saml("slo_url"), f"{_LABELS}.slo_url"),
        code(of_saml("slo_response_url"), f"{_LABELS}.slo_response_url"),
        code(of_saml("metadata_url"), f"{_LABELS}.metadata_url"),
        code(of_saml("subject_source"), f"{_LABELS}.subject_source"),
        listed(of_saml("email_sources"), f"{_LABELS}.email_sources"),
        yes_or_no(of_saml("wants_encrypted"), f"{_LABELS}.wants_encrypted"),
        listed(of_saml("requested_contexts"), f"{_LABELS}.requested_contexts"),
        listed(of("second_factor_values"), f"{_LABELS}.second_factor_values"),
        listed(of_ldap("hosts"), f"{_LABELS}.hosts"),
        yes_or_no(of_ldap("start_tls"), f"{_LABELS}.start_tls"),
        code(of_ldap("ca_certificates"), f"{_LABELS}.ca_certificates"),
        code(of_ldap("bind_dn"), f"{_LABELS}.bind_dn"),
        code(of_ldap("base_dn"), f"{_LABELS}.base_dn"),
        code(of_ldap("search_scope"), f"{_LABELS}.search_scope"),
        code(of_ldap("person_filter"), f"{_LABELS}.person_filter"),
        listed(of_ldap("sign_in_attributes"), f"{_LABELS}.sign_in_attributes"),
        code(of_ldap("identity_attribute"), f"{_LABELS}.identity_attribute"),
        code(of_ldap("address_attribute"), f"{_LABELS}.address_attribute"),
        code(of_ldap("groups_attribute"), f"{_LABELS}.groups_attribute"),
        number(of_ldap("lockout_threshold"), f"{_LABELS}.lockout_threshold"),
        number(of_ldap("lockout_minutes"), f"{_LABELS}.lockout_minutes"),
        yes_or_no(of_ldap("accepts_lockouts"), f"{_LABELS}.accepts_lockouts"),
        code(of("client_id"), f"{_LABELS}.client_id"),
        listed(of("scopes"), f"{_LABELS}.scopes"),
        when(of("tested_at"), f"{_LABELS}.tested_at"),
        code(of("digest"), f"{_LABELS}.digest"),
    )


_DRAFTS: Final = f"{SETUP_LINKS}/{{link_id}}/drafts"
LINK_STATES: Final[Mapping[SetupLinkState, tuple[str, Tone]]] = {
    SetupLinkState.UNUSED: ("console.setup_state.unused", Tone.PLAIN),
    SetupLinkState.IN_USE: ("console.setup_state.in_use", Tone.WARN),
    SetupLinkState.FINISHED: ("console.setup_state.finished", Tone.GOOD),
    SetupLinkState.EXPIRED: ("console.setup_state.expired", Tone.PLAIN),
    SetupLinkState.REVOKED: ("console.setup_state.revoked", Tone.PLAIN),
}
DRAFT_STATES: Final[Mapping[SetupDraftState, tuple[str, Tone]]] = {
    SetupDraftState.DRAFT: ("setup.state.draft", Tone.PLAIN),
    SetupDraftState.TESTED: ("setup.state.tested", Tone.PLAIN),
    SetupDraftState.WAITING: ("console.setup_state.waiting", Tone.WARN),
    SetupDraftState.ACTIVE: ("setup.state.active", Tone.GOOD),
}
LIVING: Final = frozenset({SetupLinkState.UNUSED, SetupLinkState.IN_USE})
COLUMNS: Final[tuple[Column, ...]] = (
    plain("name"),
    words("purposes", SetupPurpose),
    state("state", LINK_STATES),
    plain("used_by"),
    when("created_at"),
    when("expires_at"),
)
FACTS: Final[tuple[Column, ...]] = (
    words("purposes", SetupPurpose),
    code("prefix"),
    plain("mailed_to"),
    plain("used_by"),
    when("used_at"),
    code("used_from"),
    plain("used_with"),
    when("created_at"),
    when("expires_at"),
    when("revoked_at"),
)


async def purposes(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(f"setup.purpose.{one.value}")) for one in SetupPurpose]


async def languages(_visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.own_name) for one in Language]


async def _drop(_visit: PageVisit, link: Any) -> Sequence[tuple[str, int]]:
    return (("console.setup_links.drops", sum(one.state is not SetupDraftState.ACTIVE for one in link.drafts)),)


ASKED: Final = (
    "name",
    Asked("purposes", choices=purposes),
    Asked("email", label="console.field.mailed_to", hint="console.setup_links.email_hint"),
    Asked("language", choices=languages, label="console.field.mail_language"),
)

LINKS: Final = Resource(
    name="setup_links",
    position=position(DIRECTORIES_ENTRY, SETUP_LINKS_TAB),
    at=SETUP_LINKS,
    listed=list_setup_links,
    rows="setup_links",
    columns=COLUMNS,
    parameter="link_id",
    record=get_setup_link,
    state=(lambda link: link.state, LINK_STATES.__getitem__),
    facts=FACTS,
    making=Making(shape(create_setup_link, *ASKED, Asked("activates", hint="console.setup_links.activates_hint")), secret="url"),  # noqa: S106
    acts=(Act("release", release_setup_link, asks=True, shows=lambda link: link.state is SetupLinkState.IN_USE),),
    ending=Ending(revoke_setup_link, counts=_drop),
    below=(("console.setup_drafts.title", _DRAFTS, get_setup_link),),
)

DRAFTS: Final = Resource(
    name="setup_drafts",
    position=position(DIRECTORIES_ENTRY, SETUP_LINKS_TAB),
    at=_DRAFTS,
    listed=get_setup_link,
    rows="drafts",
    columns=(
        plain("subject"),
        words("purpose", SetupPurpose),
        state("state", DRAFT_STATES),
        when("tested_at"),
        when("waiting_since"),
        when("activated_at"),
    ),
    parameter="draft_id",
    called=lambda draft: str(draft.subject),
    state=(lambda draft: draft.state, DRAFT_STATES.__getitem__),
    acts=(
        Act(
            "activate",
            activate_setup_draft,
            asks=True,
            kind="",
            shows=lambda draft: draft.state is SetupDraftState.WAITING,
            facts=(
                words("purpose", SetupPurpose),
                plain("subject"),
                when("waiting_since"),
                words("provider_type", SiemProvider),
                code("endpoint_url"),
                code("token_prefix"),
                *settings_of(lambda draft: draft.connection)[:-1],
                code("digest"),
            ),
            seen=lambda draft: str(draft.digest),
        ),
    ),
    crumbs=lambda visit: ((LINKS.text(visit, "title"), visit.here(SETUP_LINKS)),),
)

PAGES: Final = (*pages(LINKS), *pages(DRAFTS))
