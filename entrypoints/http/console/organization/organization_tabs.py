"""The side list of an organization, and the tabs of its entries."""

from typing import Final

from core.domain.platform.todos import Todo
from entrypoints.http.console.kit.navigation import ConsolePlace, PagePosition, SideEntry, Tab
from entrypoints.http.page_addresses import ORGANIZATIONS
from entrypoints.http.routes.configuration.documents import get_organization_configuration
from entrypoints.http.routes.configuration.proposals import list_proposals
from entrypoints.http.routes.federation.scim_settings import list_scim_tokens
from entrypoints.http.routes.identity.mail_budgets import get_mail_budget
from entrypoints.http.routes.platform.sign_ins import list_logins_by_service
from entrypoints.http.routes.platform.todos import list_expiries
from entrypoints.http.routes.record.audit import list_audit_log
from entrypoints.http.routes.services.end_users import list_end_users
from entrypoints.http.routes.services.plans import open_billing_portal
from entrypoints.http.routes.services.resource_servers import list_resource_servers
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.branding import change_branding, get_languages
from entrypoints.http.routes.tenancy.domain_routes import list_domain_routes
from entrypoints.http.routes.tenancy.domains import get_domain
from entrypoints.http.routes.tenancy.hooks import get_sign_in_hook
from entrypoints.http.routes.tenancy.joining import list_invitations, list_join_requests
from entrypoints.http.routes.tenancy.mail_servers import get_mail_server
from entrypoints.http.routes.tenancy.management_keys import list_management_keys
from entrypoints.http.routes.tenancy.members import list_members, transfer_ownership
from entrypoints.http.routes.tenancy.oauth_credentials import get_oauth_credentials
from entrypoints.http.routes.tenancy.offboarding import get_offboarding_deadline
from entrypoints.http.routes.tenancy.organizations import change_organization, delete_organization, get_organization
from entrypoints.http.routes.tenancy.profile_fields import list_fields
from entrypoints.http.routes.tenancy.risk_policies import get_risk_policies
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.setup_links import list_setup_links
from entrypoints.http.routes.tenancy.siem import get_siem_configuration
from entrypoints.http.routes.tenancy.sign_in_rules import get_sign_in_rules
from entrypoints.http.routes.tenancy.teams import list_teams
from entrypoints.http.routes.tenancy.terms import get_terms
from entrypoints.http.routes.tenancy.texts import change_texts
from entrypoints.http.routes.tenancy.trusted_issuers import list_trusted_issuers
from entrypoints.http.routes.tenancy.upstream_providers import list_upstream_providers
from entrypoints.http.routes.tenancy.webhooks import list_webhooks

HOME: Final = "/ui/o/{org_slug}"
PEOPLE: Final = f"{HOME}/people"
WHY: Final = f"{PEOPLE}/why"
APPLICATIONS: Final = f"{HOME}/applications"
APIS: Final = f"{HOME}/apis"
DIRECTORIES: Final = f"{HOME}/directories"
SETUP_LINKS: Final = f"{DIRECTORIES}/setup-links"
EVENTS: Final = f"{HOME}/events"
HOOKS: Final = f"{EVENTS}/hooks"
KEYS: Final = f"{HOME}/keys"
TRUSTED_ISSUERS: Final = f"{HOME}/trusted-issuers"
SIGN_IN: Final = f"{HOME}/sign-in"
RISK: Final = f"{SIGN_IN}/risk"
AUDIT_LOG: Final = f"{HOME}/audit-log"
SETTINGS: Final = f"{HOME}/settings"
BRAND: Final = f"{SETTINGS}/brand"
DANGER: Final = f"{SETTINGS}/danger"
TRANSFER: Final = f"{DANGER}/transfer"
DELETE: Final = f"{DANGER}/delete"
DOCUMENTS: Final = f"{SETTINGS}/documents"
TEXTS: Final = f"{SETTINGS}/texts"
PROPOSALS: Final = f"{SETTINGS}/proposals"
OFFBOARDING: Final = f"{SETTINGS}/offboarding"
SEARCH: Final = f"{HOME}/search"
SIGN_INS: Final = f"{HOME}/sign-ins"
EXPIRIES: Final = f"{HOME}/ends-soon"

OVERVIEW_TAB: Final = Tab("console.tab.overview", HOME, get_organization.caller, "console.overview.title")
EXPIRIES_TAB: Final = Tab("console.tab.expiries", EXPIRIES, list_expiries.caller, "console.expiries.title")
MEMBERS_TAB: Final = Tab("console.tab.members", PEOPLE, list_members.caller, "console.members.title")
REQUESTS_TAB: Final = Tab("console.tab.requests", f"{PEOPLE}/requests", list_join_requests.caller, "console.requests.title")
INVITATIONS_TAB: Final = Tab(
    "console.tab.invitations",
    f"{PEOPLE}/invitations",
    list_invitations.caller,
    "console.invitations.title",
    beneath=(REQUESTS_TAB,),
)
TEAMS_TAB: Final = Tab("console.tab.teams", f"{PEOPLE}/teams", list_teams.caller, "console.teams.title")
ROLES_TAB: Final = Tab("console.tab.roles", f"{PEOPLE}/roles", list_roles.caller, "console.roles.title")
APPLICATIONS_TAB: Final = Tab("console.tab.applications", APPLICATIONS, list_services.caller, "console.applications.title")
END_USERS_TAB: Final = Tab("console.tab.end_users", f"{PEOPLE}/users", list_end_users.caller, "console.end_users.title")
APIS_TAB: Final = Tab("console.tab.apis", APIS, list_resource_servers.caller, "console.apis.title")
DIRECTORIES_TAB: Final = Tab("console.tab.providers", DIRECTORIES, list_upstream_providers.caller, "console.providers.title")
DOMAINS_TAB: Final = Tab("console.tab.domains", f"{DIRECTORIES}/domains", list_domain_routes.caller, "console.domains.title")
SCIM_TAB: Final = Tab("console.tab.scim", f"{DIRECTORIES}/scim", list_scim_tokens.caller, "console.scim_tokens.title")
SETUP_LINKS_TAB: Final = Tab("console.tab.setup_links", SETUP_LINKS, list_setup_links.caller, "console.setup_links.title")
SIGN_INS_TAB: Final = Tab("console.sign_ins.title", SIGN_INS, list_logins_by_service.caller, "console.sign_ins.title")
RULES_TAB: Final = Tab("console.tab.rules", SIGN_IN, get_sign_in_rules.caller, "console.rules.title")
RISK_TAB: Final = Tab("console.tab.risk", RISK, get_risk_policies.caller, "console.risk.title")
HELD_BACK_TAB: Final = Tab("console.tab.held_back", f"{SIGN_IN}/held-back", get_mail_budget.caller, "console.own_budget.title")
CREDENTIALS_TAB: Final = Tab("console.tab.credentials", f"{SIGN_IN}/providers", get_oauth_credentials.caller, "console.credentials.title")
WEBHOOKS_TAB: Final = Tab("console.tab.webhooks", EVENTS, list_webhooks.caller, "console.webhooks.title")
SIEM_TAB: Final = Tab("console.tab.siem", f"{EVENTS}/siem", get_siem_configuration.caller, "console.siem.title")
HOOKS_TAB: Final = Tab("console.hook.title", HOOKS, get_sign_in_hook.caller, "console.hook.title")
KEYS_TAB: Final = Tab("console.tab.keys", KEYS, list_management_keys.caller, "console.keys.title")
TRUSTED_ISSUERS_TAB: Final = Tab(
    "console.tab.trusted_issuers", TRUSTED_ISSUERS, list_trusted_issuers.caller, "console.trusted_issuers.title"
)
AUDIT_LOG_TAB: Final = Tab("console.tab.audit_log", AUDIT_LOG, list_audit_log.caller, "console.audit_log.title")
OFFBOARDING_TAB: Final = Tab(
    "console.offboarding_deadline.title", OFFBOARDING, get_offboarding_deadline.caller, "console.offboarding_deadline.title"
)
PROPOSALS_TAB: Final = Tab("console.proposals.title", PROPOSALS, list_proposals.caller, "console.proposals.title")
DOCUMENTS_TAB: Final = Tab(
    "console.documents.title", DOCUMENTS, get_organization_configuration.caller, "console.documents.title", beneath=(PROPOSALS_TAB,)
)
TRANSFER_TAB: Final = Tab("console.danger.transfer", TRANSFER, transfer_ownership.caller, "console.danger.transfer")
DELETE_TAB: Final = Tab("console.danger.delete", DELETE, delete_organization.caller, "console.danger.delete")
GENERAL_TAB: Final = Tab(
    "console.tab.general",
    SETTINGS,
    change_organization.caller,
    "console.general.title",
    beneath=(TRANSFER_TAB, DELETE_TAB),
)
LOOKS_TAB: Final = Tab("console.looks.title", f"{SETTINGS}/looks", change_branding.caller, "console.looks.title")
TEXTS_TAB: Final = Tab("console.tab.texts", TEXTS, change_texts.caller, "console.own_texts.title")
LANGUAGES_TAB: Final = Tab("console.languages.title", f"{SETTINGS}/languages", get_languages.caller, "console.languages.title")
DOMAIN_TAB: Final = Tab("console.own_domain.title", f"{SETTINGS}/domain", get_domain.caller, "console.own_domain.title")
MAIL_SERVER_TAB: Final = Tab("console.mail_server.title", f"{SETTINGS}/mail-server", get_mail_server.caller, "console.mail_server.title")
FIELDS_TAB: Final = Tab("console.tab.fields", f"{PEOPLE}/fields", list_fields.caller, "console.fields.title")
TERMS_TAB: Final = Tab("console.tab.terms", f"{SETTINGS}/terms", get_terms.caller, "console.terms.title")
BILLING_TAB: Final = Tab("console.tab.billing", f"{SETTINGS}/billing", open_billing_portal.caller, "console.billing.title")

OVERVIEW_ENTRY: Final = SideEntry("console.entry.overview", (OVERVIEW_TAB, EXPIRIES_TAB))
PEOPLE_ENTRY: Final = SideEntry(
    "console.entry.people",
    (MEMBERS_TAB, END_USERS_TAB, INVITATIONS_TAB, TEAMS_TAB, ROLES_TAB),
    todos=(Todo.JOIN_REQUESTS, Todo.SECOND_FACTORS),
)
APPLICATIONS_ENTRY: Final = SideEntry(
    "console.entry.applications", (APPLICATIONS_TAB, APIS_TAB), todos=(Todo.CERTIFICATES, Todo.RESOURCE_SERVERS)
)
DIRECTORIES_ENTRY: Final = SideEntry(
    "console.entry.directories",
    (DIRECTORIES_TAB, CREDENTIALS_TAB, SCIM_TAB, DOMAINS_TAB, SETUP_LINKS_TAB),
    todos=(Todo.CONNECTIONS, Todo.DOMAINS, Todo.SETUP_LINKS),
)
SECURITY_ENTRY: Final = SideEntry("console.entry.security", (RULES_TAB, RISK_TAB, HOOKS_TAB, HELD_BACK_TAB))
LOGS_ENTRY: Final = SideEntry(
    "console.entry.logs", (SIGN_INS_TAB, AUDIT_LOG_TAB, SIEM_TAB, OFFBOARDING_TAB), todos=(Todo.SIEM, Todo.OFFBOARDING)
)
DEVELOPERS_ENTRY: Final = SideEntry(
    "console.entry.developers", (WEBHOOKS_TAB, KEYS_TAB, TRUSTED_ISSUERS_TAB), todos=(Todo.WEBHOOKS, Todo.KEYS)
)
BRANDING_ENTRY: Final = SideEntry(
    "console.entry.branding",
    (LOOKS_TAB, TEXTS_TAB, LANGUAGES_TAB, DOMAIN_TAB, MAIL_SERVER_TAB),
    todos=(Todo.MAIL_SERVER, Todo.TEXTS),
)
SETTINGS_ENTRY: Final = SideEntry("console.entry.settings", (GENERAL_TAB, FIELDS_TAB, TERMS_TAB, BILLING_TAB, DOCUMENTS_TAB))

ORGANIZATION: Final = ConsolePlace(
    (
        ("", (OVERVIEW_ENTRY, PEOPLE_ENTRY, APPLICATIONS_ENTRY)),
        ("console.group.authentication", (DIRECTORIES_ENTRY, SECURITY_ENTRY)),
        ("console.group.organization", (LOGS_ENTRY, DEVELOPERS_ENTRY, BRANDING_ENTRY, SETTINGS_ENTRY)),
    ),
    change=ORGANIZATIONS,
    search=SEARCH,
)


def position(entry: SideEntry, tab: Tab) -> PagePosition:
    return PagePosition(ORGANIZATION, entry, tab)
