"""The set-up links that platform owners make for an organization."""

from typing import Final

from core.domain.tenancy.setup import SetupLinkState
from entrypoints.http.pages.console.forms import shape
from entrypoints.http.pages.console.organization.connections.setup_links import ASKED, COLUMNS, FACTS, LINK_STATES
from entrypoints.http.pages.console.platform.platform_tabs import ORGANIZATIONS, ORGANIZATIONS_ENTRY, ORGANIZATIONS_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Making, Resource
from entrypoints.http.routes.platform.setup_links import (
    create_customer_link,
    get_customer_link,
    list_customer_links,
    release_customer_link,
    revoke_customer_link,
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

PAGES: Final = tuple(pages(LINKS))
