"""What the rows of an application's tabs say: the first things that are there, a state, or what the page is for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from core.domain.errors import Forbidden
from entrypoints.http.console.kit.declaring import opens
from entrypoints.http.console.kit.resources import Resource, query_names
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.claims import CLAIMS
from entrypoints.http.console.organization.applications.saml import saml_state
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.saml import get_saml_configuration
from entrypoints.http.routes.services.services import get_service

_NAMED: Final = 3
State = Callable[[PageVisit], Awaitable[str]]


def purpose(at: str) -> State:
    """The sentence about a page of which there is no state, or none yet."""
    key = f"console.leads.{at.rpartition('/')[2].replace('-', '_')}"

    async def said(visit: PageVisit) -> str:
        return visit.text(key)

    return said


def names_in(resource: Resource) -> State:
    """The first things of the list, and how many more there are."""

    async def said(visit: PageVisit) -> str:
        is_cut = "limit" in query_names(resource.listed)
        answer = await visit.ask(resource.listed, query={"limit": _NAMED + 1} if is_cut else {})
        rows = resource.rows_in(answer)
        if not rows:
            return resource.text(visit, "empty_title")
        named = [str(resource.columns[0].cell(row, visit.text, visit.path).value) for row in rows[:_NAMED]]
        # A list in pages that says no total says only that there are more.
        total = getattr(answer, "total", None if is_cut else len(rows))
        further = "" if len(rows) <= _NAMED else ", …" if total is None else f" +{total - _NAMED}"
        return ", ".join(named) + further

    return said


async def _public_keys(visit: PageVisit) -> str:
    service = await visit.ask(get_service)
    if service.jwks_uri:
        return str(service.jwks_uri)
    return visit.text("console.field.jwks") if service.jwks else await purpose(applications.PUBLIC_KEYS)(visit)


async def _saml(visit: PageVisit) -> str:
    configuration = await visit.ask(get_saml_configuration)
    return saml_state(visit, configuration)[0] if configuration.entity_id else await purpose(applications.SAML)(visit)


async def _refusals(visit: PageVisit) -> str:
    count = len((await visit.ask(list_authorization_refusals)).refusals)
    return visit.text("console.leads.refused", count=count) if count else await purpose(applications.REFUSALS)(visit)


async def _claims(visit: PageVisit) -> str:
    return await names_in(CLAIMS)(visit)


STATES: Final[Mapping[str, State]] = {
    applications.PUBLIC_KEYS: _public_keys,
    applications.SAML: _saml,
    applications.REFUSALS: _refusals,
    applications.CLAIMS: _claims,
}


async def setting_rows(
    visit: PageVisit, pages: Sequence[tuple[str, str]], states: Mapping[str, State] = STATES
) -> Sequence[tuple[str, str, str]]:
    """The title, the address and the state of each page that the caller may open. `pages` has text keys and templates of addresses."""
    rows = []
    for label, at in pages:
        if not opens(visit, at):
            continue
        try:
            state = await states.get(at, purpose(at))(visit)
        except Forbidden:
            # The page itself says what is missing. An application that is not there is no page.
            state = ""
        rows.append((visit.text(label), visit.here(at), state))
    return rows
