"""The certificates between an organization's own provider and us: which count and which signed last, and which wait for an owner."""

from typing import Any, Final

from core.domain.errors import NotFound
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.connections.connection_pages import CONNECTION, ONE, above
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES_ENTRY, DIRECTORIES_TAB, position
from entrypoints.http.pages.console.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.tenancy.connection_certificates import (
    WaitingCertificatePath,
    approve_connection_certificate,
    decline_connection_certificate,
    delete_former_certificate,
)
from entrypoints.http.routes.tenancy.upstream_providers import UpstreamProviderPath, list_upstream_providers

CERTIFICATES: Final = f"{ONE}/certificates"
_APPROVE: Final = f"{CERTIFICATES}/{{fingerprint}}/approve"
_DECLINE: Final = f"{CERTIFICATES}/{{fingerprint}}/decline"
_DROP: Final = f"{CERTIFICATES}/former"
_POSITION: Final = position(DIRECTORIES_ENTRY, DIRECTORIES_TAB)


@console.get(CERTIFICATES, of=list_upstream_providers)
async def show_connection_certificates(call: Call[None, DoneLink, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Show the certificates of a provider, and ours there."""
    visit = PageVisit(call, postern)
    listed = await visit.ask(list_upstream_providers)
    provider = next((one for one in listed if str(one.id) == visit.path["provider_id"]), None)
    if provider is None:
        raise NotFound
    here = visit.here(CERTIFICATES)
    page = visit.show(
        "organization/connections/certificates.html",
        _POSITION,
        Head(
            title=visit.text("console.connection_certificates.title"),
            crumbs=(*above(visit)[:1], (provider.name, visit.here(ONE))),
            curl=visit.curl(list_upstream_providers),
            done=call.query.done,
        ),
        provider=provider,
        may_decide=visit.may(approve_connection_certificate),
        may_drop=visit.may(delete_former_certificate),
        here=here,
        set_up=visit.here(CONNECTION),
    )
    return Answer(page, 200)


@console.post(_APPROVE, of=approve_connection_certificate)
async def approve_certificate(call: Call[BoundForm, None, WaitingCertificatePath, Any], postern: Postern) -> Page:
    """Let a waiting certificate count."""
    visit = PageVisit(call, postern)
    await visit.ask(approve_connection_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


@console.post(_DECLINE, of=decline_connection_certificate)
async def decline_certificate(call: Call[BoundForm, None, WaitingCertificatePath, Any], postern: Postern) -> Page:
    """Decline a waiting certificate."""
    visit = PageVisit(call, postern)
    await visit.ask(decline_connection_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


@console.post(_DROP, of=delete_former_certificate)
async def drop_former(call: Call[BoundForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Delete our former key pair."""
    visit = PageVisit(call, postern)
    await visit.ask(delete_former_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


PAGES: Final = (show_connection_certificates, approve_certificate, decline_certificate, drop_former)
