"""Settings of one form each: name and limits, terms, billing, documents, held-back mails, mail server, domain."""

from collections.abc import Mapping
from typing import Any, Final

from core.domain.errors import BillingFailed, Refusal
from core.domain.tenancy.members import Member
from core.domain.tenancy.organizations import OrganizationStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, code, copied, listed, number, plain, state, when
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, InputKind, shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, EndLink, Resource, Section
from entrypoints.http.console.kit.visit import Head, Page, PageVisit
from entrypoints.http.console.organization import organization_tabs as of_organization
from entrypoints.http.console.organization.organization_tabs import (
    BILLING_TAB,
    BRANDING_ENTRY,
    DELETE_TAB,
    DOMAIN_TAB,
    GENERAL_TAB,
    HELD_BACK_TAB,
    MAIL_SERVER_TAB,
    SECURITY_ENTRY,
    SETTINGS,
    SETTINGS_ENTRY,
    SIGN_IN,
    TERMS_TAB,
    TRANSFER_TAB,
    position,
)
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.configuration.documents import get_organization_configuration
from entrypoints.http.routes.configuration.proposals import list_proposals
from entrypoints.http.routes.identity.mail_budgets import get_mail_budget
from entrypoints.http.routes.services.plans import NewBillingPortal, open_billing_portal
from entrypoints.http.routes.tenancy.domains import get_domain, remove_domain, set_domain, verify_domain
from entrypoints.http.routes.tenancy.mail_servers import get_mail_server, remove_mail_server, set_mail_server, test_mail_server
from entrypoints.http.routes.tenancy.members import transfer_ownership
from entrypoints.http.routes.tenancy.organizations import change_organization, delete_organization, get_organization
from entrypoints.http.routes.tenancy.terms import TermsBody, end_terms, get_terms, set_terms

_STATES: Final = {
    "active": ("console.value.state.active", Tone.GOOD),
    "pending": ("console.value.state.pending", Tone.WARN),
    "rejected": ("console.value.state.rejected", Tone.BAD),
    "suspended": ("console.value.state.suspended", Tone.BAD),
}


def _used(count: int, limit: int) -> str:
    return f"{count} / {limit}"


def _members(found: Any) -> str:
    own = found.organization.max_users
    return _used(found.member_count, found.tier.default_max_users if own is None else own)


def _applications(found: Any) -> str:
    own = found.organization.max_services
    return _used(found.service_count, found.tier.default_max_services if own is None else own)


def _is_suspended(found: Any) -> bool:
    return bool(found.organization.status is OrganizationStatus.SUSPENDED)


async def _kept(visit: PageVisit, found: Any) -> Mapping[str, Any]:
    """The owners of the installation alone may delete a suspended organization."""
    return {"kept_by_others": _is_suspended(found) and visit.may(delete_organization)}


GENERAL: Final = Resource(
    name="general",
    position=position(SETTINGS_ENTRY, GENERAL_TAB),
    at=SETTINGS,
    is_single=True,
    listed=get_organization,
    columns=(
        plain("organization.name", "console.field.name"),
        copied("organization.slug", "console.field.slug"),
        state("organization.status", _STATES),
        plain("tier.display_name", "console.field.tier"),
        plain(_members, "console.general.members"),
        plain(_applications, "console.general.applications"),
        code("organization.id", "console.field.id"),
        when("organization.created_at", "console.field.created_at"),
    ),
    sections=(
        Section(
            "change",
            shape(
                change_organization,
                Asked("name", shown=lambda found: found.organization.name),
                Asked("metadata", kind=InputKind.JSON, hint="console.general.metadata_hint"),
            ),
        ),
    ),
    end_links=(
        EndLink(
            TRANSFER_TAB.label, TRANSFER_TAB.at, transfer_ownership, lambda found: found.organization.status is OrganizationStatus.ACTIVE
        ),
        EndLink(DELETE_TAB.label, DELETE_TAB.at, delete_organization, lambda found: not _is_suspended(found)),
    ),
    template="organization/settings/general.html",
    more=_kept,
)


class TermsShown(TermsBody, frozen=True, kw_only=True):
    """The version in force, with the earlier ones in short."""

    set_at: Any
    accepted: int
    earlier: list[str]


def shown_terms(answer: Any) -> Any:
    """The version in force. None when people are asked for nothing."""
    now = answer.in_force
    if now is None:
        return None
    earlier = [f"{one.version} · {one.address}" for one in answer.versions if one.ended_at is not None]
    return TermsShown(
        version=now.version, address=now.address, due_at=now.due_at, set_at=now.set_at, accepted=now.accepted, earlier=earlier
    )


TERMS_COLUMNS: Final = (
    plain("version", "console.terms.version"),
    code("address", "console.terms.address"),
    when("due_at", "console.terms.due_at"),
    when("set_at", "console.terms.set_at"),
    number("accepted", "console.terms.accepted"),
    listed("earlier", "console.terms.earlier"),
)
TERMS_ASKED: Final = (
    Asked("version", label="console.terms.version", hint="console.terms.version_hint"),
    Asked("address", label="console.terms.address", hint="console.terms.address_hint"),
    Asked("due_at", label="console.terms.due_at", hint="console.terms.due_hint"),
)

TERMS: Final = Resource(
    name="terms",
    position=position(SETTINGS_ENTRY, TERMS_TAB),
    at=f"{SETTINGS}/terms",
    is_single=True,
    listed=get_terms,
    of_record=shown_terms,
    columns=TERMS_COLUMNS,
    # A version is used once, so nothing can be put back.
    sections=(Section("change", shape(set_terms, *TERMS_ASKED), whole=True, undone=False),),
    ending=Ending(end_terms),
)


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


_DRIFT: Final = {False: ("console.state.as_documented", Tone.GOOD), True: ("console.state.changed_by_hand", Tone.WARN)}


def documents_of(at: str, position: PagePosition, listed: Endpoint, *beneath: tuple[str, str, Endpoint]) -> Resource:
    return Resource(
        name="documents",
        position=position,
        at=at,
        listed=listed,
        rows="managed",
        columns=(
            code("place"),
            state("has_drifted", _DRIFT),
            when("managed_at", "console.field.happened_at"),
            plain("managed_by"),
            code(_beginning, "console.field.document"),
        ),
        beneath=beneath,
    )


def _beginning(managed: Any) -> str:
    return str(managed.document[:12])


DOCUMENTS: Final = documents_of(
    of_organization.DOCUMENTS,
    of_organization.position(of_organization.SETTINGS_ENTRY, of_organization.DOCUMENTS_TAB),
    get_organization_configuration,
    ("console.proposals.title", of_organization.PROPOSALS, list_proposals),
)


OWN_BUDGET: Final = Resource(
    name="own_budget",
    position=position(SECURITY_ENTRY, HELD_BACK_TAB),
    at=f"{SIGN_IN}/held-back",
    is_single=True,
    listed=get_mail_budget,
    columns=(
        # The installation may have no such budget.
        number(lambda counts: counts.size or None, "console.field.size"),
        number("taken", "console.own_budget.used"),
        number("waiting", "console.own_budget.waiting"),
        number("held"),
        when("held_since"),
        when("held_at"),
        when("exempt_until"),
    ),
)


def _set(answer: Any) -> Any:
    return answer if answer.configured else None


def _state(server: Any) -> tuple[str, Tone]:
    if server.fallback_since:
        return "console.state.replaced", Tone.BAD
    return ("console.state.fails", Tone.BAD) if server.failing_since else ("console.state.active", Tone.GOOD)


MAIL_SERVER: Final = Resource(
    name="mail_server",
    position=position(BRANDING_ENTRY, MAIL_SERVER_TAB),
    at=f"{SETTINGS}/mail-server",
    is_single=True,
    listed=get_mail_server,
    of_record=_set,
    columns=(
        code("host"),
        number("port"),
        plain("username"),
        plain("from_email"),
        plain("from_name"),
        when("failing_since"),
        when("fallback_since"),
    ),
    state=(lambda server: server, _state),
    sections=(
        # The endpoint sets all of it at once, and asks for the password each time: a new host must not get the old password.
        Section(
            "change",
            shape(
                set_mail_server,
                Asked("host", hint="console.mail_server.host_hint"),
                Asked("port", hint="console.mail_server.port_hint"),
                Asked("username", kind=InputKind.TEXT),
                Asked("password", kind=InputKind.SECRET, hint="console.mail_server.password_hint"),
                Asked("from_email", hint="console.mail_server.from_hint"),
                Asked("from_name", hint="console.mail_server.name_hint"),
            ),
            whole=True,
        ),
    ),
    acts=(Act("test", test_mail_server, said=lambda tried, _: (tried.success, tried.message)),),
    ending=Ending(remove_mail_server),
)


_OWN_DOMAIN_STATES: Final = {True: ("console.state.proved", Tone.GOOD), False: ("console.state.not_proved", Tone.WARN)}


def _set_own_domain(answer: Any) -> Any:
    return answer if answer.domain else None


OWN_DOMAIN: Final = Resource(
    name="own_domain",
    position=position(BRANDING_ENTRY, DOMAIN_TAB),
    at=f"{SETTINGS}/domain",
    is_single=True,
    listed=get_domain,
    of_record=_set_own_domain,
    columns=(
        plain("domain"),
        copied("txt_name"),
        copied("txt_value"),
        code("file_url"),
        copied("file_content"),
        when("verified_at"),
        when("checked_at"),
    ),
    state=(lambda domain: domain.verified, _OWN_DOMAIN_STATES.__getitem__),
    sections=(Section("change", shape(set_domain, "domain"), undone=False),),
    acts=(Act("verify", verify_domain, said=lambda tried, _: (tried.verified, tried.message)),),
    ending=Ending(remove_domain),
)


PAGES: Final = (
    *pages(GENERAL),
    *pages(TERMS),
    show_billing,
    leave_for_billing_portal,
    *pages(DOCUMENTS),
    *pages(OWN_BUDGET),
    *pages(MAIL_SERVER),
    *pages(OWN_DOMAIN),
)
