"""Set-up links of the organization, and what was set up with them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.languages import Language
from core.domain.tenancy.setup import SetupDraftState, SetupLinkState, SetupPurpose
from core.domain.tenancy.siem import SiemProvider
from entrypoints.http.pages.console.cells import Column, Tone, code, plain, state, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.connections.owners_word import settings_of
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES_ENTRY, SETUP_LINKS, SETUP_LINKS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.setup_links import (
    activate_setup_draft,
    create_setup_link,
    get_setup_link,
    list_setup_links,
    release_setup_link,
    revoke_setup_link,
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
