"""Budgets of mails: what was held back in the last day, and exceptions with an end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.registering import BudgetScope, BudgetStanding
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, example
from entrypoints.http.machinery.limits import UNLIMITED

_BUDGETS = "/api/platform/mail-budgets"
_Held = Annotated[int, example(12)]


class MailBudgetPath(msgspec.Struct, frozen=True):
    budget_id: UUID
    """The budget's ID."""


class MailBudgetException(msgspec.Struct, frozen=True, kw_only=True):
    """A budget to lift for a while."""

    budget: Annotated[BudgetScope, example("network")]
    """What the budget is of."""
    key: Annotated[str, msgspec.Meta(max_length=253), example("203.0.113.7")] = ""
    """Which one: an address in the network, an email domain, or an organization's ID; empty for the installation."""
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    """When the exception ends, at most seven days from now."""


class MailBudgetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many emails strangers asked for, and what was held back."""

    size: Annotated[int, example(300)]
    """How many emails an hour has; 0 where the installation has no such budget."""
    taken: _Held
    """How many of them this hour has used."""
    waiting: _Held
    """How many emails wait for the hours after it."""
    held: _Held
    """How many requests the budget has held back since `held_since`: their emails come later, or they were refused."""
    held_since: datetime | None
    """Since when; null if it has held nothing back in the last day."""
    held_at: datetime | None
    """When it last held something back."""
    exempt_until: datetime | None
    """Until when the budget does not count; null if it counts."""


class MailBudgetRecord(MailBudgetCounts, frozen=True, kw_only=True):
    """A budget that has held something back in the last day, or that someone has lifted."""

    id: Id
    budget: Annotated[BudgetScope, example("network")]
    """What the budget is of."""
    key: Annotated[str, example("203.0.113.0/24")]
    """The network, the email domain or the organization's ID; empty for the installation."""
    name: Annotated[str, example("203.0.113.0/24")]
    """What people call it: the organization's name, otherwise as `key`."""


_record = shown(BudgetStanding, MailBudgetRecord, named={"budget": "scope"})
_counts = shown(BudgetStanding, MailBudgetCounts)


@endpoint.get(_BUDGETS, caller=PLATFORM_OWNER, tags=("installation",))
async def list_mail_budgets(_call: Call, postern: Postern) -> Sequence[MailBudgetRecord]:
    """List the budgets of emails that have held something back in the last day

    Strangers ask for emails when they register, or want a link or a code. Every request counts, whether or not the address has an account.
    Those budgets are in the list, too, that someone has lifted. Returns the last hundred.
    """
    return [_record(one) for one in await postern.identity.mail_budgets.held_today()]


@endpoint.post(_BUDGETS, caller=PLATFORM_OWNER, status=201, refuses=(BadRequest, Conflict), tags=("installation",))
async def lift_mail_budget(call: Call[MailBudgetException], postern: Postern) -> MailBudgetRecord:
    """Lift a budget of emails for a while

    For a day on which many people register from one place. The other budgets stay. An exception ends by itself, and when the database
    crashes: the counts are in no log and no backup. A second exception of the same budget replaces the first.
    """
    body = call.body
    return _record(await postern.identity.mail_budgets.lift(body.budget, body.key, body.until, call.actor))


@endpoint.delete(
    f"{_BUDGETS}/{{budget_id}}/exception",
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    status=204,
    refuses=(NotFound,),
    tags=("installation",),
)
async def restore_mail_budget(call: Call[None, None, MailBudgetPath], postern: Postern) -> NoBody:
    """End the exception of a budget of emails

    The budget counts again with the next request.
    """
    await postern.identity.mail_budgets.restore(call.path.budget_id, call.actor)
    return NO_BODY


@endpoint.get(
    "/api/organizations/{org_slug}/mail-budget",
    caller=able(Capability.SETTINGS_MANAGE, impersonated=True),
    keys=True,
    tags=("organizations",),
)
async def get_mail_budget(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> MailBudgetCounts:
    """Get the budget of emails of an organization

    It counts the emails that strangers ask for on the organization's pages, whether or not their addresses have accounts.
    """
    return _counts(await postern.identity.mail_budgets.of_organization(call.caller.organization))
