"""Billing: the way to the payment provider's pages, for the owner."""

from typing import Final

from core.domain.errors import BillingFailed, Refusal
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import BILLING_TAB, SETTINGS, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.visit import Head, Page, PageVisit
from entrypoints.http.routes.services.billing import NewBillingPortal, open_billing_portal
from entrypoints.http.routes.tenancy.organizations import get_organization

_AT: Final = f"{SETTINGS}/billing"


@console.get(_AT, of=open_billing_portal, also=(get_organization,))
async def show_billing(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """See how an organization pays"""
    return Answer(await _page(PageVisit(call, postern)), 200)


@console.post(_AT, of=open_billing_portal)
async def leave_for_billing_portal(call: Call[BoundForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the payment provider's pages

    The answer is a page that leads on by itself. A redirect would be stopped: browsers apply the policy for forms to all redirects after a
    form, and the provider's address is known only now.
    """
    visit = PageVisit(call, postern)
    try:
        back = f"{postern.foundation.public_url}{visit.here(_AT)}"
        portal = await visit.ask(open_billing_portal, body=NewBillingPortal(return_url=back))
    except BillingFailed as refusal:
        return Answer(await _page(visit, visit.said(refusal)), status_of(refusal))
    except Refusal as refusal:
        if status_of(refusal) >= 500:
            raise
        return Answer(await _page(visit, visit.said(refusal)), status_of(refusal))
    title, label = visit.text("leaving.title"), visit.text("common.continue")
    return Answer(shipped_pages().page("leave.html", call.language, title=title, label=label, address=portal.url), 200)


async def _page(visit: PageVisit, problem: str = "") -> bytes:
    found = await visit.ask(get_organization)
    return visit.show(
        "organization/settings/billing.html",
        position(SETTINGS_ENTRY, BILLING_TAB),
        Head(
            title=visit.text("console.billing.title"),
            curl=visit.curl(open_billing_portal, body={}),
            errors={"": problem} if problem else {},
        ),
        tier=found.tier,
        is_off=visit.postern.services.payment_provider is None,
        action=visit.here(_AT),
    )


PAGES: Final = (show_billing, leave_for_billing_portal)
