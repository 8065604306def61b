"""`postern billing`: lists events of the payment provider, applies failed events again, and corrects subscriptions that differ there."""

import argparse
from functools import partial

import trio

from core.usecases.services.billing_checkouts import NOT_SET_UP
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import moment, print_json, printable, tell
from entrypoints.failures import FAILURE, OK, StartFailed
from entrypoints.settings import Settings
from ports.services.billing import PaymentRefused, PaymentUnavailable

_BATCH = 100


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    match arguments.action:
        case "events":
            return trio.run(partial(_events, settings, waiting=arguments.waiting, limit=arguments.limit, as_json=arguments.json))
        case "retry":
            return trio.run(_retry, settings, arguments.event, arguments.json)
        case _:
            return trio.run(_reconcile, settings, arguments.json)


async def _events(settings: Settings, *, waiting: bool, limit: int, as_json: bool = False) -> int:
    async with opened_postern(settings) as postern:
        listed = await postern.services.billing.events(waiting=waiting, limit=limit)
    if as_json:
        print_json(listed)
        return OK
    for event in listed:
        state = event.outcome or f"waiting, {event.attempts} {'failure' if event.attempts == 1 else 'failures'}"
        reason = f" ({event.error})" if event.error else ""
        kind, subject = printable(event.type, 48), printable(event.subject or "-", 40)
        print(f"{moment(event.received_at)}  {printable(event.id, 40):<32} {kind:<40} {subject}  {state}{reason}")
    return OK


async def _retry(settings: Settings, event: str | None, as_json: bool = False) -> int:  # noqa: FBT001, FBT002 - trio.run passes by position
    async with opened_postern(settings) as postern:
        due = await postern.services.billing.retry(event)
        if event is not None and not due:
            raise StartFailed("The event was not found, or was already applied")
        await _apply_all(postern)
        left = await postern.services.billing.waiting()
    said = f"{due} {'event was' if due == 1 else 'events were'} due, {left.events} are still pending."
    tell({"due": due, "waiting": left.events}, said, as_json=as_json)
    return FAILURE if left.events else OK


async def _apply_all(postern: Postern) -> None:
    """Applies all due events. An event that fails again is due later, so the loop ends."""
    while due := await postern.services.billing_inbox.due(postern.foundation.clock.now(), _BATCH):
        for subject, is_customer in due:
            await postern.services.billing.apply(subject, is_customer=is_customer)


async def _reconcile(settings: Settings, as_json: bool = False) -> int:  # noqa: FBT001, FBT002 - as above
    async with opened_postern(settings) as postern:
        if not postern.services.billing_reconciliation.is_set_up:
            raise StartFailed(f"{NOT_SET_UP}: set POSTERN_BILLING_KEY")
        await _apply_all(postern)
        try:
            found = await postern.services.billing_reconciliation.reconcile()
        except PaymentRefused as refused:
            raise StartFailed(f"The payment provider refused: {refused.status} {refused.code}") from None
        except PaymentUnavailable as away:
            raise StartFailed(f"The payment provider does not answer: {away.reason}") from None
    said = f"{found.looked_at} subscriptions checked, {found.changed} corrected."
    tell({"looked_at": found.looked_at, "corrected": found.changed}, said, as_json=as_json)
    return OK
