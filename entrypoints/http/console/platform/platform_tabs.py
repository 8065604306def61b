"""The side list of the installation, and the tabs of its entries."""

from typing import Final

from core.domain.platform.todos import PlatformTodo
from entrypoints.http.console.kit.navigation import ConsolePlace, PagePosition, SideEntry, Tab
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.page_addresses import GOVERNED_ORGANIZATIONS, GOVERNED_PEOPLE, PLATFORM_HOME, PROVIDERS
from entrypoints.http.page_addresses import ORGANIZATIONS as OWN_ORGANIZATIONS

HOME: Final = PLATFORM_HOME
HEALTH: Final = f"{HOME}/health"
JOBS: Final = f"{HOME}/jobs"
HELD_BACK: Final = f"{HOME}/held-back"
SEARCH: Final = f"{HOME}/search"
EXPIRIES: Final = f"{HOME}/ends-soon"
ORGANIZATIONS: Final = GOVERNED_ORGANIZATIONS
APPROVALS: Final = f"{HOME}/apis"
PEOPLE: Final = GOVERNED_PEOPLE
OWNERS: Final = f"{PEOPLE}/owners"
SECOND_FACTORS: Final = f"{PEOPLE}/second-factors"
TIERS: Final = f"{HOME}/tiers"
FIELDS: Final = f"{HOME}/fields"
KEYS: Final = f"{HOME}/keys"
SIGNING_KEYS: Final = f"{HOME}/signing-keys"
HOOKS: Final = f"{HOME}/hooks"
RISK: Final = f"{HOME}/risk"
AUDIT_LOG: Final = f"{HOME}/audit-log"
SETTINGS: Final = f"{HOME}/settings"
DOCUMENTS: Final = f"{SETTINGS}/documents"
TERMS: Final = f"{SETTINGS}/terms"
TEXTS: Final = f"{SETTINGS}/texts"
TEXT_APPROVALS: Final = f"{HOME}/texts"

OVERVIEW_TAB: Final = Tab("console.tab.overview", HOME, PLATFORM_OWNER, "console.installation_at_a_glance.title")
HEALTH_TAB: Final = Tab("console.tab.health", HEALTH, PLATFORM_OWNER, "console.health.title")
JOBS_TAB: Final = Tab("console.tab.jobs", JOBS, PLATFORM_OWNER, "console.jobs.title")
HELD_BACK_TAB: Final = Tab("console.tab.held_back", HELD_BACK, PLATFORM_OWNER, "console.held_back.title")
EXPIRIES_TAB: Final = Tab("console.tab.expiries", EXPIRIES, PLATFORM_OWNER, "console.expiries.title")
ORGANIZATIONS_TAB: Final = Tab("console.tab.organizations", ORGANIZATIONS, PLATFORM_OWNER, "console.governed.title")
TEXT_APPROVALS_TAB: Final = Tab("console.text_approvals.title", TEXT_APPROVALS, PLATFORM_OWNER, "console.text_approvals.title")
APPROVALS_TAB: Final = Tab("console.tab.approvals", APPROVALS, PLATFORM_OWNER, "console.api_approvals.title", beneath=(TEXT_APPROVALS_TAB,))
PEOPLE_TAB: Final = Tab("console.tab.people", PEOPLE, PLATFORM_OWNER, "console.people.title")
OWNERS_TAB: Final = Tab("console.tab.owners", OWNERS, PLATFORM_OWNER, "console.people.owners")
SECOND_FACTORS_TAB: Final = Tab("console.tab.second_factors", SECOND_FACTORS, PLATFORM_OWNER, "console.people.second_factors")
TIERS_TAB: Final = Tab("console.tab.tiers", TIERS, PLATFORM_OWNER, "console.tiers.title")
FIELDS_TAB: Final = Tab("console.tab.fields", FIELDS, PLATFORM_OWNER, "console.platform_fields.title")
KEYS_TAB: Final = Tab("console.tab.keys", KEYS, PLATFORM_OWNER, "console.platform_keys.title")
SIGNING_KEYS_TAB: Final = Tab("console.tab.signing_keys", SIGNING_KEYS, PLATFORM_OWNER, "console.installation_keys.title")
HOOKS_TAB: Final = Tab("console.hook.title", HOOKS, PLATFORM_OWNER, "console.hook.title")
PROVIDERS_TAB: Final = Tab("console.tab.platform_providers", PROVIDERS, PLATFORM_OWNER, "console.platform_providers.title")
RISK_TAB: Final = Tab("console.tab.risk", RISK, PLATFORM_OWNER, "console.risk.title_here")
AUDIT_LOG_TAB: Final = Tab("console.tab.audit_log", AUDIT_LOG, PLATFORM_OWNER, "console.platform_log.title")
SETTINGS_TAB: Final = Tab("console.settings_in_force.title", SETTINGS, PLATFORM_OWNER, "console.settings_in_force.title")
TERMS_TAB: Final = Tab("console.tab.terms", TERMS, PLATFORM_OWNER, "console.installation_terms.title")
TEXTS_TAB: Final = Tab("console.installation_texts.title", TEXTS, PLATFORM_OWNER, "console.installation_texts.title")
DOCUMENTS_TAB: Final = Tab("console.tab.documents", DOCUMENTS, PLATFORM_OWNER, "console.documents.title")

OVERVIEW_ENTRY: Final = SideEntry("console.entry.overview", (OVERVIEW_TAB, EXPIRIES_TAB))
ORGANIZATIONS_ENTRY: Final = SideEntry(
    "console.entry.organizations",
    (ORGANIZATIONS_TAB, APPROVALS_TAB, TIERS_TAB),
    todos=(PlatformTodo.ORGANIZATIONS, PlatformTodo.APPROVALS, PlatformTodo.TEXTS),
)
PEOPLE_ENTRY: Final = SideEntry("console.entry.people", (PEOPLE_TAB, OWNERS_TAB, SECOND_FACTORS_TAB, FIELDS_TAB))
PROVIDERS_ENTRY: Final = SideEntry("console.tab.platform_providers", (PROVIDERS_TAB,), icon="sign_in")
SECURITY_ENTRY: Final = SideEntry("console.entry.security", (RISK_TAB, HOOKS_TAB, HELD_BACK_TAB))
BRANDING_ENTRY: Final = SideEntry("console.entry.branding", (TEXTS_TAB, TERMS_TAB))
OPERATION_ENTRY: Final = SideEntry(
    "console.entry.operation", (HEALTH_TAB, JOBS_TAB, SIGNING_KEYS_TAB, KEYS_TAB), todos=(PlatformTodo.JOBS,)
)
AUDIT_LOG_ENTRY: Final = SideEntry("console.entry.audit_log", (AUDIT_LOG_TAB,))
CONFIGURATION_ENTRY: Final = SideEntry("console.entry.configuration", (SETTINGS_TAB, DOCUMENTS_TAB))

PLATFORM: Final = ConsolePlace(
    (
        ("", (OVERVIEW_ENTRY, ORGANIZATIONS_ENTRY, PEOPLE_ENTRY)),
        ("console.group.defaults", (PROVIDERS_ENTRY, SECURITY_ENTRY, BRANDING_ENTRY)),
        ("console.group.system", (OPERATION_ENTRY, AUDIT_LOG_ENTRY, CONFIGURATION_ENTRY)),
    ),
    change=OWN_ORGANIZATIONS,
    search=SEARCH,
    settings=SETTINGS_TAB,
)


def position(entry: SideEntry, tab: Tab) -> PagePosition:
    return PagePosition(PLATFORM, entry, tab)
