"""What holds for everybody: the tiers of organizations, and the installation's fields, terms, texts, documents, hook and rules for risk."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.identity.risk_policies.policies import NO_ROLE, PLATFORM_OWNER_ROLE
from core.domain.languages import Language
from core.domain.services.plans import priced
from core.domain.tenancy.tiers import PRICE_CURRENCY
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.http.console.kit.cells import Tone, number, plain, rows_of, sentence, state, when
from entrypoints.http.console.kit.forms import FIELD_ASKED, FIELD_BOUNDS, FIELD_COLUMNS, FIELD_FACTS, NEW_FIELD, Asked, Choice, shape
from entrypoints.http.console.kit.own_texts import TextPages, name_of
from entrypoints.http.console.kit.own_texts.place_pages import outdated_pages, place_pages
from entrypoints.http.console.kit.own_texts.preview_pages import preview_pages
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.hooks import HookPages
from entrypoints.http.console.organization.risk import RulesPage
from entrypoints.http.console.organization.risk.rule_forms import WITHOUT_TEAMS, ExceptionRows, is_id, shape_of
from entrypoints.http.console.organization.settings.general import TERMS_ASKED, TERMS_COLUMNS, documents_of, shown_terms
from entrypoints.http.console.platform.platform_tabs import (
    BRANDING_ENTRY,
    CONFIGURATION_ENTRY,
    DOCUMENTS,
    DOCUMENTS_TAB,
    FIELDS,
    FIELDS_TAB,
    HOOKS,
    HOOKS_TAB,
    ORGANIZATIONS_ENTRY,
    PEOPLE_ENTRY,
    RISK,
    RISK_TAB,
    SECURITY_ENTRY,
    TERMS,
    TERMS_TAB,
    TEXT_APPROVALS,
    TEXT_APPROVALS_TAB,
    TEXTS,
    TEXTS_TAB,
    TIERS,
    TIERS_TAB,
    position,
)
from entrypoints.http.routes.configuration.documents import get_platform_configuration
from entrypoints.http.routes.platform.for_everybody import (
    change_installation_texts,
    end_installation_terms,
    get_installation_terms,
    list_installation_texts,
    preview_installation_texts,
    set_installation_terms,
)
from entrypoints.http.routes.platform.governance import list_tiers
from entrypoints.http.routes.platform.platform_fields import (
    change_platform_field,
    create_platform_field,
    delete_platform_field,
    list_platform_fields,
)
from entrypoints.http.routes.platform.platform_users import search_users
from entrypoints.http.routes.platform.text_approvals import (
    ComparedTextRecord,
    TextApprovalRecord,
    approve_texts,
    end_text_approval,
    get_text_rules,
    list_text_approvals,
    set_text_rules,
)
from entrypoints.http.routes.tenancy.hooks import (
    activate_installation_sign_in_hook,
    disable_installation_sign_in_hook,
    get_installation_sign_in_hook,
    list_installation_sign_in_hook_exchanges,
    remove_installation_sign_in_hook,
    rotate_installation_sign_in_hook_secret,
    set_installation_sign_in_hook,
    test_installation_sign_in_hook,
)
from entrypoints.http.routes.tenancy.risk_policies import (
    get_installation_risk_policies,
    get_installation_risk_report,
    list_installation_risk_events,
    set_installation_risk_policies,
)
from ports.texts import Text

TIER_LIST: Final = Resource(
    name="tiers",
    position=position(ORGANIZATIONS_ENTRY, TIERS_TAB),
    at=TIERS,
    listed=list_tiers,
    columns=(
        plain("display_name", "console.field.name", beside="name"),
        number("default_max_users", "console.field.max_users"),
        number("default_max_services", "console.field.max_services"),
        plain(lambda tier: priced(tier.price_cents, PRICE_CURRENCY), "console.plans.price"),
    ),
)

PLATFORM_FIELDS: Final = Resource(
    name="platform_fields",
    position=position(PEOPLE_ENTRY, FIELDS_TAB),
    at=FIELDS,
    listed=list_platform_fields,
    columns=FIELD_COLUMNS,
    parameter="key",
    key=lambda field: field.key,
    called=lambda field: str(field.label),
    facts=(*FIELD_FACTS, plain("scope")),
    making=Making(shape(create_platform_field, *NEW_FIELD, "scope")),
    sections=(
        Section("change", shape(change_platform_field, "label", *FIELD_ASKED, "scope", "position")),
        Section("rule", shape(change_platform_field, *FIELD_BOUNDS), whole=True),
    ),
    ending=Ending(delete_platform_field, typed=lambda field: str(field.key)),
)


INSTALLATION_TERMS: Final = Resource(
    name="installation_terms",
    position=position(BRANDING_ENTRY, TERMS_TAB),
    at=TERMS,
    is_single=True,
    listed=get_installation_terms,
    of_record=shown_terms,
    columns=TERMS_COLUMNS,
    # A version is used once, so nothing can be put back.
    sections=(Section("change", shape(set_installation_terms, *TERMS_ASKED), whole=True, undone=False),),
    ending=Ending(end_installation_terms),
)


INSTALLATION_TEXTS: Final = TextPages(
    name="installation_texts",
    at=TEXTS,
    position=position(BRANDING_ENTRY, TEXTS_TAB),
    listing=list_installation_texts,
    changing=change_installation_texts,
    preview=preview_installation_texts,
)


def _language(one: ComparedTextRecord, _text: Text) -> str:
    known = Language.of(one.language)
    return one.language if known is None else name_of(known)


def _place(one: ComparedTextRecord, text: Text) -> str:
    """A text without a place is shown nowhere."""
    opened = OPEN_TEXTS.get(one.key)
    return one.key if opened is None else text(f"console.own_texts.place_{opened.place}")


_COMPARED: Final = (
    sentence(_place, "console.own_texts.place", beside="key"),
    sentence(_language, "console.own_texts.language"),
    plain("ours", "console.text_approvals.ours"),
    plain("own", "console.text_approvals.own"),
)


async def _compared(visit: PageVisit, record: TextApprovalRecord) -> Mapping[str, Any]:
    return {"columns": _COMPARED, "rows": rows_of(_COMPARED, record.texts, visit.text, visit.path)}


_STATES: Final = {False: ("console.text_approvals.waiting", Tone.WARN), True: ("console.text_approvals.approved", Tone.GOOD)}
_FACTS: Final = (
    number(lambda one: len(one.texts), "console.text_approvals.count"),
    when("changed_at", "console.text_approvals.changed_at"),
)

APPROVALS: Final = Resource(
    name="text_approvals",
    position=position(ORGANIZATIONS_ENTRY, TEXT_APPROVALS_TAB),
    at=TEXT_APPROVALS,
    listed=list_text_approvals,
    columns=(plain("org_name", "console.text_approvals.organization", beside="org_slug"), state("approved", _STATES), *_FACTS),
    parameter="org_id",
    key=lambda one: one.org_id,
    called=lambda one: str(one.org_name),
    state=(lambda one: one.approved, _STATES.__getitem__),
    facts=_FACTS,
    acts=(
        Act(
            "approve",
            approve_texts,
            asks=True,
            kind="",
            shows=lambda one: not one.approved,
            # Whoever says yes, says it to the texts that stand on the page.
            seen=lambda one: "" if one.approved else str(one.version),
            template="platform/text_approval.html",
            more=_compared,
        ),
        Act("withdraw", end_text_approval, asks=True, kind="danger", shows=lambda one: bool(one.approved)),
    ),
    beneath=(("console.text_rules.title", f"{TEXT_APPROVALS}/rules", get_text_rules),),
    template="platform/text_approval_record.html",
    more=_compared,
)
TEXT_RULES: Final = Resource(
    name="text_rules",
    position=position(ORGANIZATIONS_ENTRY, TEXT_APPROVALS_TAB),
    at=f"{TEXT_APPROVALS}/rules",
    is_single=True,
    listed=get_text_rules,
    columns=(),
    sections=(
        Section(
            "change",
            shape(
                set_text_rules,
                Asked("mails", label="console.text_rules.mails", hint="console.text_rules.mails_hint"),
                Asked("pages", label="console.text_rules.pages", hint="console.text_rules.pages_hint"),
            ),
            whole=True,
        ),
    ),
    crumbs=lambda visit: ((visit.text("console.text_approvals.title"), visit.here(TEXT_APPROVALS)),),
)


PLATFORM_DOCUMENTS: Final = documents_of(DOCUMENTS, position(CONFIGURATION_ENTRY, DOCUMENTS_TAB), get_platform_configuration)

HOOK, EXCHANGES = HookPages(
    name="installation_hook",
    at=HOOKS,
    position=position(SECURITY_ENTRY, HOOKS_TAB),
    get=get_installation_sign_in_hook,
    change=set_installation_sign_in_hook,
    remove=remove_installation_sign_in_hook,
    rotate=rotate_installation_sign_in_hook_secret,
    count=activate_installation_sign_in_hook,
    shadow=disable_installation_sign_in_hook,
    attempt=test_installation_sign_in_hook,
    exchanges=list_installation_sign_in_hook_exchanges,
).resources()


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    return await visit.postern.tenancy.risk_policies.excepted(None)


async def _called(visit: PageVisit, given: str) -> str | None:
    if is_id(given) or not given:
        return given or None
    found = (await visit.ask(search_users, query={"search": given})).users
    whole = [one for one in found if str(one.email).casefold() == given.casefold()]
    return str(whole[0].id) if len(whole) == 1 else None


async def _choices(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    return {
        "services": (),
        "roles": [
            Choice(PLATFORM_OWNER_ROLE, visit.text("console.risk.role_platform_owner")),
            Choice(NO_ROLE, visit.text("console.risk.role_none_here")),
        ],
    }


RISK_RULES: Final = RulesPage(
    name="installation_risk_policies",
    at=RISK,
    position=position(SECURITY_ENTRY, RISK_TAB),
    rules=get_installation_risk_policies,
    set_rules=set_installation_risk_policies,
    report=get_installation_risk_report,
    events=list_installation_risk_events,
    asked=(search_users,),
    exceptions=ExceptionRows(
        shape=shape_of(set_installation_risk_policies, WITHOUT_TEAMS),
        people=_excepted,
        called=_called,
        teams=None,
        no_person="console.risk.no_person_here",
    ),
    choices=_choices,
    whose="_here",
).pages()


PAGES: Final = (
    *pages(TIER_LIST),
    *pages(PLATFORM_FIELDS),
    *pages(INSTALLATION_TERMS),
    *place_pages(INSTALLATION_TEXTS),
    *outdated_pages(INSTALLATION_TEXTS),
    *preview_pages(INSTALLATION_TEXTS),
    *pages(TEXT_RULES),
    *pages(APPROVALS),
    *pages(HOOK),
    *pages(EXCHANGES),
    *RISK_RULES,
    *pages(PLATFORM_DOCUMENTS),
)
