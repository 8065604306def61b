"""All pages of the console."""

from typing import Final

from entrypoints.http.console.organization import apis, events, hooks, overview, proposals, risk, rules, search, sign_ins
from entrypoints.http.console.organization.applications import pages as applications
from entrypoints.http.console.organization.connections import beginning_tests, connection_pages, keys, providers, scim, setup_links
from entrypoints.http.console.organization.people import agent_grants, invitations, members, roles, teams, why
from entrypoints.http.console.organization.settings import (
    audit_log,
    credentials,
    danger,
    deadline,
    entry_receivers,
    evidence,
    general,
    looks,
    words,
)
from entrypoints.http.console.platform import for_everybody, organizations, record, search_pages
from entrypoints.http.console.platform import keys as platform_keys
from entrypoints.http.console.platform import overview as platform_overview
from entrypoints.http.console.platform import people as platform_people
from entrypoints.http.console.platform import providers as platform_providers
from entrypoints.http.console.platform.people import person_pages
from entrypoints.http.machinery.endpoints import Endpoints

OF_INSTALLATION: Final = (
    *platform_overview.PAGES,
    *search_pages.PAGES,
    *organizations.PAGES,
    *platform_people.PAGES,
    *person_pages.PAGES,
    *for_everybody.PAGES,
    *platform_providers.PAGES,
    *platform_keys.PAGES,
    *record.PAGES,
)

CONSOLE: Final = Endpoints(
    [
        *overview.PAGES,
        *search.PAGES,
        *sign_ins.PAGES,
        *members.PAGES,
        *agent_grants.PAGES,
        *why.PAGES,
        *invitations.PAGES,
        *teams.PAGES,
        *roles.PAGES,
        *applications.PAGES,
        *apis.PAGES,
        *providers.PAGES,
        *connection_pages.PAGES,
        *beginning_tests.PAGES,
        *scim.PAGES,
        *setup_links.PAGES,
        *events.PAGES,
        *hooks.PAGES,
        *keys.PAGES,
        *general.PAGES,
        *rules.PAGES,
        *risk.PAGES,
        *credentials.PAGES,
        *audit_log.PAGES,
        *entry_receivers.PAGES,
        *deadline.PAGES,
        *evidence.PAGES,
        *looks.PAGES,
        *words.PAGES,
        *danger.PAGES,
        *proposals.PAGES,
        *OF_INSTALLATION,
    ]
)
