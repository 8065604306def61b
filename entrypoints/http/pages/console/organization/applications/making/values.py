"""The values of an application that its developers copy."""

from collections.abc import Sequence

from core.domain.federation.oauth.oidc import AUTHORIZATION_ENDPOINT, END_SESSION_ENDPOINT, JWKS, TOKEN_ALIAS, USERINFO_ENDPOINT
from entrypoints.http.pages.console.cells import Cell
from entrypoints.http.pages.console.organization.applications.making.lines import ApplicationValues
from entrypoints.http.pages.console.visit import PageVisit


def client_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """For OpenID Connect."""
    issuer = values.issuer
    named = (
        ("client_id", values.client_id),
        ("issuer", issuer),
        ("discovery", f"{issuer}/.well-known/openid-configuration"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]


def token_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """What a program that checks access tokens has to be told."""
    named = (
        ("issuer", values.issuer),
        ("audience", values.audience),
        ("own_audience", values.own_audience),
        ("algorithm", values.access_token_alg),
        ("jwks", f"{values.issuer}{JWKS}"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]


def endpoint_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """The addresses that a library finds in the discovery document by itself."""
    issuer = values.issuer
    named = (
        ("authorization_endpoint", f"{issuer}{AUTHORIZATION_ENDPOINT}"),
        ("token_endpoint", f"{issuer}{TOKEN_ALIAS}"),
        ("userinfo_endpoint", f"{issuer}{USERINFO_ENDPOINT}"),
        ("jwks", f"{issuer}{JWKS}"),
        ("end_session_endpoint", f"{issuer}{END_SESSION_ENDPOINT}"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]
