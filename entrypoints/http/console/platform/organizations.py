"""Organizations of the installation: found, approved, suspended, limited, deleted; their APIs' approvals and set-up links."""

from collections.abc import Sequence
from typing import Any, Final

from core.domain.services.resource_servers import ResourceState
from core.domain.tenancy.organizations import OrganizationStatus
from core.domain.tenancy.setup import SetupLinkState
from entrypoints.http.console.kit.cells import Tone, Words, code, copied, linked, number, plain, signed, state, when, yes_or_no
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Filter, Making, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization.apis import STATES
from entrypoints.http.console.organization.connections.setup_links import ASKED, COLUMNS, FACTS, LINK_STATES
from entrypoints.http.console.platform.platform_tabs import (
    APPROVALS,
    APPROVALS_TAB,
    ORGANIZATIONS,
    ORGANIZATIONS_ENTRY,
    ORGANIZATIONS_TAB,
    PEOPLE,
    TEXT_APPROVALS_TAB,
    position,
)
from entrypoints.http.routes.platform.governance import (
    activate_organization,
    approve_organization,
    approve_resource_server,
    change_organization_tier,
    delete_platform_organization,
    end_resource_approval,
    get_platform_organization,
    list_platform_organizations,
    list_resource_approvals,
    list_tiers,
    reject_organization,
    suspend_organization,
)
from entrypoints.http.routes.platform.setup_links import (
    create_customer_link,
    get_customer_link,
    list_customer_links,
    release_customer_link,
    revoke_customer_link,
)
from entrypoints.http.routes.platform.text_approvals import list_text_approvals

_STATES: Final = {
    OrganizationStatus.ACTIVE: ("console.state.active", Tone.GOOD),
    OrganizationStatus.PENDING: ("console.state.pending", Tone.WARN),
    OrganizationStatus.SUSPENDED: ("console.state.suspended", Tone.BAD),
    OrganizationStatus.REJECTED: ("console.state.rejected", Tone.PLAIN),
}
said: Final[Words] = _STATES.__getitem__
UNKNOWN_OWNER: Final = "unknown"


async def _tiers(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(str(one.id), one.display_name) for one in await visit.ask(list_tiers)]


async def _statuses(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(status.value, visit.text(said(status)[0])) for status in OrganizationStatus]


async def _ends(_visit: PageVisit, found: Any) -> Sequence[tuple[str, int]]:
    names = ("members", "services", "end_users", "teams", "webhooks")
    return [(f"console.governed.ends_{name}", getattr(found, name)) for name in names]


def _is(*statuses: OrganizationStatus) -> Any:
    return lambda found: found.organization.status in statuses


def _of(name: str) -> Any:
    return lambda found: getattr(found.organization, name)


def _decided_at(found: Any) -> Any:
    organization = found.organization
    return organization.suspended_at or organization.rejected_at or organization.approved_at


_TIER: Final = Asked("tier_id", choices=_tiers, kind=InputKind.CHOICE, label="console.field.tier", shown=_of("tier_id"))
_OWNER: Final = linked(
    plain(lambda found: "" if found.owner.id == UNKNOWN_OWNER else found.owner.email, "console.field.owner"),
    lambda found, _path: "" if found.owner.id == UNKNOWN_OWNER else f"{PEOPLE}/{found.owner.id}",
)

GOVERNED: Final = Resource(
    name="governed",
    position=position(ORGANIZATIONS_ENTRY, ORGANIZATIONS_TAB),
    at=ORGANIZATIONS,
    listed=list_platform_organizations,
    rows="organizations",
    columns=(
        signed(
            plain(_of("name"), "console.field.name", beside=_of("slug")), lambda found: (found.organization.name, found.organization.id)
        ),
        state(_of("status"), said),
        plain("tier.display_name", "console.field.tier"),
        _OWNER,
        when(_of("created_at"), "console.field.created_at"),
    ),
    filters=(
        Filter("search", "console.governed.search"),
        Filter("status", "console.field.state", _statuses),
        Filter("tier_id", "console.field.tier", _tiers),
    ),
    parameter="org_id",
    key=lambda found: found.organization.id,
    called=lambda found: str(found.organization.name),
    record=get_platform_organization,
    state=(lambda found: found.organization.status, said),
    facts=(
        plain(_of("slug"), "console.field.slug"),
        copied(_of("id"), "console.field.id"),
        _OWNER,
        plain("tier.display_name", "console.field.tier"),
        number("members"),
        number("services"),
        number("end_users"),
        plain(lambda found: found.organization.suspension_reason or found.organization.rejection_reason, "console.field.reason"),
        when(_of("created_at"), "console.field.created_at"),
        when(_decided_at, "console.field.decided_at"),
    ),
    sections=(
        Section(
            "limits",
            shape(
                change_organization_tier,
                _TIER,
                Asked("max_users", hint="console.governed.limit_hint", shown=_of("max_users")),
                Asked("max_services", hint="console.governed.limit_hint", shown=_of("max_services")),
            ),
        ),
    ),
    acts=(
        Act("approve", approve_organization, shape=shape(approve_organization, _TIER), kind="", shows=_is(OrganizationStatus.PENDING)),
        Act(
            "reject",
            reject_organization,
            shape=shape(reject_organization, Asked("reason", kind=InputKind.LONG)),
            kind="final",
            shows=_is(OrganizationStatus.PENDING),
        ),
        Act(
            "suspend",
            suspend_organization,
            shape=shape(suspend_organization, Asked("reason", kind=InputKind.LONG)),
            shows=_is(OrganizationStatus.ACTIVE),
        ),
        Act("activate", activate_organization, kind="", shows=_is(OrganizationStatus.SUSPENDED)),
    ),
    ending=Ending(delete_platform_organization, typed=lambda found: str(found.organization.slug), counts=_ends),
    below=(("console.customer_links.title", f"{ORGANIZATIONS}/{{org_id}}/setup-links", list_customer_links),),
)


def _waits(one: Any) -> bool:
    return bool(one.resource_server.state is ResourceState.WAITING)


_ASKED_AT: Final = when("resource_server.approval_asked_at")

API_APPROVALS: Final = Resource(
    name="api_approvals",
    position=position(ORGANIZATIONS_ENTRY, APPROVALS_TAB),
    at=APPROVALS,
    listed=list_resource_approvals,
    columns=(
        code("resource_server.identifier", "console.apis.identifier"),
        plain("org_name", "console.api_approvals.organization", beside="org_slug"),
        state("resource_server.state", STATES),
        _ASKED_AT,
        when("resource_server.approved_at"),
    ),
    parameter="resource_id",
    key=lambda one: one.resource_server.id,
    called=lambda one: str(one.resource_server.identifier),
    state=(lambda one: one.resource_server.state, STATES.__getitem__),
    facts=(
        copied("resource_server.identifier", "console.apis.identifier"),
        plain("resource_server.name"),
        plain("org_name", "console.api_approvals.organization", beside="org_slug"),
        yes_or_no("proved_elsewhere", "console.api_approvals.proved_elsewhere", good=False),
        _ASKED_AT,
        when("resource_server.approved_at"),
        when("resource_server.created_at"),
    ),
    acts=(
        Act("approve", approve_resource_server, asks=True, kind="", shows=_waits),
        Act("withdraw", end_resource_approval, asks=True, kind="danger", shows=lambda one: not _waits(one), leaves=True),
    ),
    beneath=((TEXT_APPROVALS_TAB.title, TEXT_APPROVALS_TAB.at, list_text_approvals),),
)


CUSTOMER_LINKS: Final = f"{ORGANIZATIONS}/{{org_id}}/setup-links"

LINKS: Final = Resource(
    name="customer_links",
    position=position(ORGANIZATIONS_ENTRY, ORGANIZATIONS_TAB),
    at=CUSTOMER_LINKS,
    listed=list_customer_links,
    rows="setup_links",
    columns=COLUMNS,
    parameter="link_id",
    record=get_customer_link,
    state=(lambda link: link.state, LINK_STATES.__getitem__),
    facts=FACTS,
    making=Making(shape(create_customer_link, *ASKED), secret="url"),  # noqa: S106 - the name of a field
    acts=(Act("release", release_customer_link, asks=True, shows=lambda link: link.state is SetupLinkState.IN_USE),),
    ending=Ending(revoke_customer_link),
    crumbs=lambda visit: ((visit.text("console.governed.title"), visit.here(ORGANIZATIONS)),),
)


PAGES: Final = (*pages(GOVERNED), *pages(API_APPROVALS), *pages(LINKS))
