"""Everything that can be administered can be administered on pages: each endpoint for it is offered by a page, or is named below with the
reason why no page offers it.
"""

from collections.abc import Mapping
from typing import Final

from entrypoints.http.application import PAGES
from entrypoints.http.console.kit.declaring import offers
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.routes import ROUTES

# The beginnings of addresses that are not for administering anything, each with the reason.
FOR_OTHERS: Final[Mapping[str, str]] = {
    "/health": "for the supervisor of the process",
    "/metrics": "for Prometheus",
    "/.well-known/": "for programs that verify our tokens and exports",
    "/api/auth/": "the pages of signing in stand for them",
    "/api/user": "the pages of one's own account stand for them",
    "/api/provider-token/": "an application asks, with the session that it was given",
    "/api/subscription": "an application asks, with the session that it was given",
    "/api/service/": "servers of applications ask, with an API key",
    "/auth/": "applications and links in mails",
    "/oauth/": "applications",
    "/access/v1/": "servers of services, and gateways in front of them",
    "/saml/": "applications",
    "/ssf/": "applications that hear signals",
    "/scim/v2/": "directories",
    "/webhooks/billing": "the payment provider",
    "/invitations/accept": "a link in a mail",
    "/robots.txt": "crawlers",
    "/favicon.ico": "browsers",
    "/api/invitations": "the pages for invited people stand for them",
}
# Endpoints that pages of the account or of signing in offer, each with such a page.
OFFERED_ELSEWHERE: Final[Mapping[str, str]] = {
    "GET /api/organizations": "GET /ui/organizations",
    "POST /api/organizations": "POST /ui/organizations/~new",
    "POST /api/organizations/{org_slug}/select": "POST /ui/choose-organization",
    "POST /api/organizations/{org_slug}/ownership": "POST /ui/organizations/{org_slug}/ownership",
}
# Endpoints that no page offers, each with the reason.
EXCEPTIONS: Final[Mapping[str, str]] = {
    "GET /api/organizations/{org_slug}/webhooks/event-types": "the form of a webhook has the same names as boxes to tick",
    "GET /api/organizations/{org_slug}/audit-log/event-types": "the filter of the audit log has the same names as choices",
    "GET /api/organizations/{org_slug}/analytics/recent-logins": "the page of sign-ins has the same, with people, places and failures",
    **{
        f"POST {place}/configuration/{act}": "programs send documents, and operators apply them with `postern config`"
        for place in ("/api/organizations/{org_slug}", "/api/platform")
        for act in ("plan", "apply")
    },
    **{
        f"PUT {place}/texts": "configuration documents set all own texts; pages change one by one"
        for place in ("/api/organizations/{org_slug}", "/api/platform")
    },
    "POST /api/organizations/{org_slug}/proposals": "programs propose, and people change things by the pages of things",
    "GET /api/privacy/export/{user_id}": "people export their own data by the API, and operators by `postern privacy`",
    "DELETE /api/privacy/forget/{user_id}": "people ask for it by the API, and operators by `postern privacy`",
    "GET /api/privacy/requests/{request_id}": "the person who asked by the API follows the request there",
    "POST /api/organizations/{org_slug}/services/{service_slug}/checkout": "an application opens it for its own user, who buys",
    "GET /api/organizations/{org_slug}/services/{service_slug}/saml/login": "the application's tile on the start page opens it",
    "POST /api/organizations/{org_slug}/services/{service_slug}/saml/login": "the application's tile on the start page opens it",
}


def test_every_endpoint_for_administering_has_a_page() -> None:
    offered = {str(one) for endpoints in offers().values() for one in endpoints}
    administering = {str(one) for one in ROUTES if not one.path.startswith(tuple(FOR_OTHERS))}
    assert administering - offered - set(OFFERED_ELSEWHERE) - set(EXCEPTIONS) == set()


def test_exceptions_are_endpoints_that_no_page_offers() -> None:
    routes = {str(one) for one in ROUTES}
    offered = {str(one) for endpoints in offers().values() for one in endpoints}
    assert {*OFFERED_ELSEWHERE, *EXCEPTIONS} <= routes | {str(one) for one in PAGES}
    assert {*OFFERED_ELSEWHERE, *EXCEPTIONS} & offered == set()
    assert set(OFFERED_ELSEWHERE.values()) <= {str(one) for one in PAGES} - {str(one) for one in CONSOLE}
    # A beginning that begins nothing hides what comes under a new name.
    assert [one for one in FOR_OTHERS if not any(route.path.startswith(one) for route in ROUTES)] == []


# What is typed in a search, or as somebody's address, comes by a form, so that it stands in no address. It changes nothing.
ASKS: Final = frozenset(
    (
        *(f"POST {place}/search{part}" for place in ("/ui/o/{org_slug}", "/ui/platform") for part in ("", "/suggestions")),
        "POST /ui/o/{org_slug}/people/why",
    )
)


def test_a_form_offers_a_change() -> None:
    """A form calls what changes something. It may ask further endpoints for what the page shows beside an error."""
    for one in CONSOLE:
        first, *_ = offers().get(str(one)) or (None,)
        if one.method == "POST" and first is not None and str(one) not in ASKS:
            assert first.method != "GET", one
