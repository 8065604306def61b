"""All pages of the console."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.pages.console.organization import events, expiries, overview, search, sign_ins
from entrypoints.http.pages.console.organization.apis import apis
from entrypoints.http.pages.console.organization.applications import pages as applications
from entrypoints.http.pages.console.organization.connections import (
    certificates_pages,
    connection_pages,
    directory_runs,
    domains,
    identity_assertions,
    keys,
    providers,
    scim,
    scim_attributes,
    setup_links,
    trusted_issuers,
)
from entrypoints.http.pages.console.organization.people import (
    agent_grants,
    end_users,
    fields,
    invitations,
    join_requests,
    members,
    person,
    roles,
    teams,
)
from entrypoints.http.pages.console.organization.proposals import proposals
from entrypoints.http.pages.console.organization.risk import risk_policies
from entrypoints.http.pages.console.organization.settings import (
    audit_log,
    billing,
    credentials,
    danger,
    documents,
    general,
    held_back,
    looks,
    mail_server,
    own_domain,
    rules,
    terms,
)
from entrypoints.http.pages.console.organization.settings.words import own_texts, spoken_languages
from entrypoints.http.pages.console.platform import pages as platform

CONSOLE: Final = Endpoints(
    [
        *overview.PAGES,
        *search.PAGES,
        *sign_ins.PAGES,
        *expiries.PAGES,
        *members.PAGES,
        *person.PAGES,
        *end_users.PAGES,
        *agent_grants.PAGES,
        *invitations.PAGES,
        *join_requests.PAGES,
        *teams.PAGES,
        *roles.PAGES,
        *fields.PAGES,
        *applications.PAGES,
        *apis.PAGES,
        *providers.PAGES,
        *connection_pages.PAGES,
        *directory_runs.PAGES,
        *certificates_pages.PAGES,
        *identity_assertions.PAGES,
        *domains.PAGES,
        *scim.PAGES,
        *scim_attributes.PAGES,
        *setup_links.PAGES,
        *events.PAGES,
        *keys.PAGES,
        *trusted_issuers.PAGES,
        *rules.PAGES,
        *held_back.PAGES,
        *risk_policies.PAGES,
        *credentials.PAGES,
        *audit_log.PAGES,
        *general.PAGES,
        *looks.PAGES,
        *spoken_languages.PAGES,
        *own_texts.PAGES,
        *own_domain.PAGES,
        *mail_server.PAGES,
        *terms.PAGES,
        *billing.PAGES,
        *danger.PAGES,
        *documents.PAGES,
        *proposals.PAGES,
        *platform.PAGES,
    ]
)
