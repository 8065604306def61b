"""The set-up of an organization's own provider: what to give to it, its metadata and certificates, and our key pair."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound, Refusal
from core.domain.saml import LONGEST_METADATA
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, code, listed
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.resource_pages import facts_of
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, DIRECTORIES_TAB, position
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.routes.tenancy.connections import (
    ConnectionCertificateBody,
    ReplacedProvider,
    change_connection_certificate,
    list_connection_exchanges,
    succeed_upstream_provider,
    test_upstream_provider,
    upload_upstream_provider_metadata,
)
from entrypoints.http.routes.tenancy.upstream_providers import UpstreamProviderPath, UpstreamProviderRecord, list_upstream_providers

ONE: Final = f"{DIRECTORIES}/{{provider_id}}"
CONNECTION: Final = f"{ONE}/connection"
EXCHANGES_AT: Final = f"{ONE}/exchanges"
_METADATA: Final = f"{CONNECTION}/metadata"
_CERTIFICATE: Final = f"{CONNECTION}/certificate"
TEST: Final = f"{CONNECTION}/test"
_SUCCEED: Final = f"{CONNECTION}/succeed"
_THEIRS: Final = (
    listed(lambda one: one.ldap and one.ldap.hosts, "console.field.hosts"),
    code(lambda one: one.ldap and one.ldap.bind_dn, "console.field.bind_dn"),
    # A directory by LDAP names itself by nothing that people enter.
    code(lambda one: "" if one.ldap else one.issuer, "console.field.issuer"),
    code(lambda one: one.saml and one.saml.sso_url, "console.field.sso_url"),
    code("client_id"),
)
_POSITION: Final = position(DIRECTORIES_ENTRY, DIRECTORIES_TAB)


class DirectoryMetadataForm(BoundForm, frozen=True, kw_only=True):
    """The metadata by address, as a file, or pasted."""

    url: Line = ""
    file: bytes = b""
    text: Lines = ""


class ConnectionCertificateForm(BoundForm, frozen=True, kw_only=True):
    certificate: Lines = ""
    activate: Line = ""
    """Not empty: our next key pair signs from now on."""


class SucceededProviderForm(BoundForm, frozen=True, kw_only=True):
    provider_id: Line = ""
    """The former provider, which may be deleted."""


async def connection_name(visit: PageVisit) -> str:
    """The name of the provider. Raises `NotFound`."""
    for one in await visit.ask(list_upstream_providers):
        if str(one.id) == visit.path["provider_id"]:
            return str(one.name)
    raise NotFound


console.name(ONE, connection_name, beneath=EXCHANGES_AT)


def above(visit: PageVisit) -> Sequence[tuple[str, str]]:
    return ((visit.text("console.providers.title"), visit.here(DIRECTORIES)), (visit.named(ONE), visit.here(ONE)))


def _given_to(visit: PageVisit, provider: UpstreamProviderRecord) -> Sequence[tuple[str, Cell]]:
    """What people enter at the provider."""
    text, saml = visit.text, provider.saml
    if provider.ldap is not None:
        # Nobody enters anything there: the account that looks people up is made there.
        return []
    if saml is None:
        return [(text("console.field.callback_url"), Cell("copy", provider.callback_url))]
    return [
        (text("console.connection.our_entity_id"), Cell("copy", saml.entity_id)),
        (text("console.connection.our_acs"), Cell("copy", saml.acs_url)),
        (text("console.connection.our_slo"), Cell("copy", saml.single_logout_url)),
        (text("console.connection.start"), Cell("copy", f"{saml.entity_id}/start")),
    ]


async def steps_of(visit: PageVisit, provider: UpstreamProviderRecord) -> Mapping[str, Any]:
    """What the record shows of the steps to an active provider."""
    return {
        "provider": provider,
        "given": _given_to(visit, provider),
        "theirs": facts_of(_THEIRS, visit, provider),
        "fill": visit.here(_METADATA) if visit.may(upload_upstream_provider_metadata) else "",
        "test": visit.here(TEST) if visit.may(test_upstream_provider) else "",
    }


async def _shown(visit: PageVisit, *, done: str = "", errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    providers = await visit.ask(list_upstream_providers)
    provider = next((one for one in providers if str(one.id) == visit.path["provider_id"]), None)
    if provider is None:
        raise NotFound
    recent = await visit.ask(list_connection_exchanges)
    text = visit.text
    last = next((one.certificate for one in recent.exchanges if one.succeeded and one.certificate), "")
    return visit.show(
        "organization/connections/connection.html",
        _POSITION,
        Head(
            title=text("console.connection.title"),
            crumbs=(*above(visit)[:1], (provider.name, visit.here(ONE))),
            curl=visit.curl(test_upstream_provider),
            done=done,
            errors=errors,
        ),
        provider=provider,
        given=_given_to(visit, provider),
        certificates=() if provider.saml is None else [(one, one.fingerprint == last) for one in provider.saml.certificates],
        may_change=visit.may(upload_upstream_provider_metadata),
        may_succeed=visit.may(succeed_upstream_provider),
        others=[(str(one.id), one.name) for one in providers if one.id != provider.id],
        succeed=visit.here(_SUCCEED),
        fill=visit.here(_METADATA),
        certify=visit.here(_CERTIFICATE),
        test=visit.here(TEST),
    )


@console.get(CONNECTION, of=list_upstream_providers, also=(list_connection_exchanges,))
async def show_connection(call: Call[None, DoneLink, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Show what a provider needs to be connected."""
    return Answer(await _shown(PageVisit(call, postern), done=call.query.done), 200)


@console.post(
    _METADATA,
    of=upload_upstream_provider_metadata,
    also=(list_upstream_providers, list_connection_exchanges),
    accepts=FormWithFile(2 * LONGEST_METADATA + (16 << 10)),
)
async def fill_connection(call: Call[DirectoryMetadataForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Fill the settings of a directory from its metadata."""
    visit, body = PageVisit(call, postern), call.body
    document = b"" if body.url else body.file or body.text.strip().encode()
    try:
        await visit.ask(upload_upstream_provider_metadata, body=document, query={"url": body.url.strip()} if body.url else None)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, errors={"url": " ".join(said.values())}), status)
    return redirect(f"{visit.here(ONE)}?done=saved")


@console.post(_CERTIFICATE, of=change_connection_certificate, also=(list_upstream_providers, list_connection_exchanges))
async def certify_connection(call: Call[ConnectionCertificateForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Accept another certificate of a directory, or change our key pair."""
    visit, form = PageVisit(call, postern), call.body
    sent = ConnectionCertificateBody(certificate=form.certificate.strip(), activate=bool(form.activate))
    try:
        await visit.ask(change_connection_certificate, body=sent)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, errors={"certificate": " ".join(said.values())}), status)
    return redirect(f"{visit.here(CONNECTION)}?done=saved")


@console.post(_SUCCEED, of=succeed_upstream_provider, also=(list_upstream_providers, list_connection_exchanges))
async def succeed_connection(call: Call[SucceededProviderForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Name a provider the successor of another one."""
    visit = PageVisit(call, postern)
    try:
        former = UUID(call.body.provider_id.strip())
    except ValueError:
        return Answer(await _shown(visit, errors={"former": visit.text("console.connection.former_wrong")}), 400)
    try:
        await visit.ask(succeed_upstream_provider, body=ReplacedProvider(provider_id=former))
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, errors={"former": " ".join(said.values())}), status)
    return redirect(f"{visit.here(CONNECTION)}?done=saved")


PAGES: Final = (show_connection, fill_connection, certify_connection, succeed_connection)
