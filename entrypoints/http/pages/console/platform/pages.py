"""All pages of the installation."""

from typing import Final

from entrypoints.http.pages.console.organization.risk import risk_policies
from entrypoints.http.pages.console.platform import (
    api_approvals,
    customer_links,
    installation_terms,
    organizations,
    own_texts,
    provider_logo,
    providers,
    search_pages,
    terms,
)
from entrypoints.http.pages.console.platform.keys import management_keys, signing_key_pages
from entrypoints.http.pages.console.platform.overview import expiry_pages, health_pages, held_back_pages, job_pages, overview_pages
from entrypoints.http.pages.console.platform.people import acting_pages, list_pages, person_pages, session_pages, value_pages
from entrypoints.http.pages.console.platform.record import audit_log_pages, settings_pages

PAGES: Final = (
    *overview_pages.PAGES,
    *search_pages.PAGES,
    *health_pages.PAGES,
    *expiry_pages.PAGES,
    *job_pages.PAGES,
    *held_back_pages.PAGES,
    *organizations.PAGES,
    *customer_links.PAGES,
    *api_approvals.PAGES,
    *list_pages.PAGES,
    *person_pages.PAGES,
    *session_pages.PAGES,
    *acting_pages.PAGES,
    *value_pages.PAGES,
    *terms.PAGES,
    *providers.PAGES,
    *provider_logo.PAGES,
    *management_keys.PAGES,
    *risk_policies.PAGES_OF_INSTALLATION,
    *signing_key_pages.PAGES,
    *audit_log_pages.PAGES,
    *settings_pages.PAGES,
    *installation_terms.PAGES,
    *own_texts.PAGES,
)
