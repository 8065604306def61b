"""What the organization's own budget of mails has held back today."""

from typing import Final

from entrypoints.http.pages.console.cells import number, when
from entrypoints.http.pages.console.organization.organization_tabs import HELD_BACK_TAB, SIGN_IN, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.routes.identity.mail_budgets import get_mail_budget

OWN_BUDGET: Final = Resource(
    name="own_budget",
    position=position(SIGN_IN_ENTRY, HELD_BACK_TAB),
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

PAGES: Final = pages(OWN_BUDGET)
