"""The button that begins a test of an organization's own provider. What is missing is asked for on the page that says so: the record."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from core.domain.errors import BadRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.resource_pages import SentSection, shown_record
from entrypoints.http.console.kit.resources import Section
from entrypoints.http.console.kit.sent_forms import explained, texts_of
from entrypoints.http.console.kit.visit import Page, PageVisit
from entrypoints.http.console.organization.connections.connection_pages import TEST
from entrypoints.http.console.organization.connections.providers import PROVIDERS
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.routes.tenancy.connections import list_connection_exchanges, test_upstream_provider
from entrypoints.http.routes.tenancy.upstream_providers import UpstreamProviderPath, list_upstream_providers

_LDAP: Final[Section] = next(one for one in PROVIDERS.sections if one.name == "ldap")


@console.post(TEST, of=test_upstream_provider, also=(list_upstream_providers, list_connection_exchanges))
async def test_connection(call: Call[BoundForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Begin a test of a provider."""
    visit = PageVisit(call, postern)
    try:
        started = await visit.ask(test_upstream_provider)
    except BadRequest as problem:
        record = await PROVIDERS.find(visit)
        said, status = explained(visit, problem)
        given = None
        if record.ldap is not None and visit.may(_LDAP.shape.endpoint):
            said = _at_fields(visit, problem) or said
            given = SentSection(_LDAP, texts_of(_LDAP.shape.inputs, record))
        else:
            said = {"": " ".join(said.values())}
        return Answer(await shown_record(PROVIDERS, visit, record, errors=said, given=given), status)
    parts = urlsplit(started.url)
    return redirect(f"{parts.path}?{parts.query}")


def _at_fields(visit: PageVisit, problem: BadRequest) -> Mapping[str, str]:
    """The fields that the refusal names as missing: `hosts, bind_dn: missing. …`."""
    missing = problem.message.partition(":")[0].split(", ")
    return {one.field: visit.text("console.providers.needed_for_test") for one in _LDAP.shape.inputs if one.name in missing}


PAGES: Final = (test_connection,)
