"""Held back today: the budgets of mails that have said no, and exceptions with an end."""

from typing import Final

from core.domain.identity.registering import BudgetScope
from entrypoints.http.pages.console.cells import copied, number, plain, when, words
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.platform.platform_tabs import HELD_BACK, HELD_BACK_TAB, OVERVIEW_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Making, Resource
from entrypoints.http.routes.identity.mail_budgets import lift_mail_budget, list_mail_budgets, restore_mail_budget

_COUNTS: Final = (number("size"), number("taken", "console.held_back.used"), number("waiting", "console.held_back.waiting"))
_SINCE: Final = (number("held"), when("held_since"), when("held_at"), when("exempt_until"))

HELD_BACK_TODAY: Final = Resource(
    name="held_back",
    position=position(OVERVIEW_ENTRY, HELD_BACK_TAB),
    at=HELD_BACK,
    listed=list_mail_budgets,
    columns=(words("budget", BudgetScope), plain("name"), *_SINCE),
    parameter="budget_id",
    called=lambda one: str(one.name or one.budget),
    facts=(words("budget", BudgetScope), copied("key", "console.held_back.key"), *_COUNTS, *_SINCE),
    making=Making(
        shape(
            lift_mail_budget,
            Asked("budget", at_first=BudgetScope.NETWORK),
            Asked("key", label="console.held_back.key", hint="console.held_back.key_hint"),
            Asked("until", label="console.held_back.until", hint="console.held_back.until_hint"),
        )
    ),
    acts=(Act("restore", restore_mail_budget, shows=lambda one: one.exempt_until is not None, leaves=True),),
)

PAGES: Final = tuple(pages(HELD_BACK_TODAY))
