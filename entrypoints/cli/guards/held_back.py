"""`postern held-back …`: lists the email rate limits that held mail back in the last day, and lifts one for a while."""

import argparse
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import trio

from core.domain.identity.registering import BudgetScope, BudgetStanding
from core.usecases.identity.registering import MailBudgets
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.printing import moment, print_json, printable, tell
from entrypoints.failures import OK
from entrypoints.settings import Settings

_SHOWN: Final = ("key", "name", "size", "taken", "waiting", "held", "held_since", "held_at", "exempt_until")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        budgets = postern.identity.mail_budgets
        if arguments.action == "list":
            await _list(budgets, as_json=arguments.json)
        elif arguments.action == "lift":
            until = postern.foundation.clock.now() + timedelta(hours=arguments.hours)
            lifted = await budgets.lift(BudgetScope(arguments.budget), arguments.key, until, acting())
            tell(_record(lifted), f"{_name(lifted)} has no email rate limit until {moment(until)}.", as_json=arguments.json)
        else:
            await budgets.restore(arguments.id, acting())
            tell({"id": arguments.id, "restored": True}, "The email rate limit applies again.", as_json=arguments.json)


async def _list(budgets: MailBudgets, *, as_json: bool) -> None:
    found = await budgets.held_today()
    if as_json:
        print_json([_record(one) for one in found])
        return
    for one in found:
        since = "" if one.held_since is None else f" since {moment(one.held_since)}"
        exempt = "" if one.exempt_until is None else f"; lifted until {moment(one.exempt_until)}"
        print(f"{one.id}  {_name(one)}: {one.held} rate-limited{since}, {one.taken} of {one.size} used, {one.waiting} waiting{exempt}")
    if not found:
        print("No rate-limited emails in the last day.")


def _name(one: BudgetStanding) -> str:
    return f"{one.scope.value} {printable(one.name, 253)}".strip()


def _record(one: BudgetStanding) -> Mapping[str, object]:
    told = {name: getattr(one, name) for name in _SHOWN}
    return {"id": one.id, "budget": one.scope, **told}
