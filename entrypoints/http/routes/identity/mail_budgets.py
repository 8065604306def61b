"""Budgets of mails: what was held back in the last day, and exceptions with an end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.registering import BudgetScope, BudgetSnapshot
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
    """The rate limit's ID."""


class MailBudgetException(msgspec.Struct, frozen=True, kw_only=True):
    """The exception to an email rate limit."""

    budget: Annotated[BudgetScope, example("network")]
    """The scope of the rate limit."""
    key: Annotated[str, msgspec.Meta(max_length=253), example("203.0.113.7")] = ""
    """The key of the rate limit: an IP address, an email domain, or an organization's ID; empty for the installation."""
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    """When the exception expires, at most 7 days from now."""


class MailBudgetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of emails requested without signing in, and the number of rate-limited requests."""

    size: Annotated[int, example(300)]
    """The number of emails per hour; 0 if the installation has no such rate limit."""
    taken: _Held
    """The number of emails counted in this hour."""
    waiting: _Held
    """The number of emails delayed to later hours."""
    held: _Held
    """The number of requests rate-limited since `held_since`. Their emails were delayed, or the requests were rejected."""
    held_since: datetime | None
    """When rate limiting began; null if no request was rate-limited in the last day."""
    held_at: datetime | None
    """When a request was last rate-limited."""
    exempt_until: datetime | None
    """When the exception expires; null if the rate limit applies."""


class MailBudgetRecord(MailBudgetCounts, frozen=True, kw_only=True):
    """An email rate limit that was reached or lifted in the last day."""

    id: Id
    budget: Annotated[BudgetScope, example("network")]
    """The scope of the rate limit."""
    key: Annotated[str, example("203.0.113.0/24")]
    """The network, the email domain or the organization's ID; empty for the installation."""
    name: Annotated[str, example("203.0.113.0/24")]
    """The display name: the organization's name, otherwise the same as `key`."""


_record = shown(BudgetSnapshot, MailBudgetRecord, named={"budget": "scope"})
_counts = shown(BudgetSnapshot, MailBudgetCounts)


@endpoint.get(_BUDGETS, caller=PLATFORM_OWNER, tags=("installation",))
async def list_mail_budgets(_call: Call, postern: Postern) -> Sequence[MailBudgetRecord]:
    """List reached email rate limits

    Returns the last 100 email rate limits that were reached in the last day, including lifted ones. These limits apply to emails that are
    requested without signing in: to register, or to get a link or a code. Every request counts, whether or not the email address has an
    account.
    """
    return [_record(one) for one in await postern.identity.mail_budgets.held_today()]


@endpoint.post(_BUDGETS, caller=PLATFORM_OWNER, status=201, refuses=(BadRequest, Conflict), tags=("installation",))
async def lift_mail_budget(call: Call[MailBudgetException], postern: Postern) -> MailBudgetRecord:
    """Lift an email rate limit temporarily

    Use this for a day on which many people register from one place. Other email rate limits still apply. The exception expires
    automatically. It also ends if the database crashes, because the counts are in no log and no backup. A second exception for the same
    rate limit replaces the first.
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
    """Remove the exception to an email rate limit

    From the next request, the rate limit applies again.
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
    """Get the email rate limit of an organization

    The limit counts emails that are requested on the organization's pages without signing in. Every request counts, whether or not the
    email address has an account.
    """
    return _counts(await postern.identity.mail_budgets.of_organization(call.caller.organization))
