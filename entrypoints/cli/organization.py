"""`postern organization …` and `postern invite`: an operator lists organizations, founds, governs and deletes them, and invites people."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

import trio

from core.domain.identifiers import TierId
from core.domain.platform.governance import Authority, GovernedOrganization, OrganizationFilter, Override
from core.domain.record.events import SYSTEM
from core.domain.requests import MOST_ROWS_COUNTED, UNCHANGED
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import user_limit
from core.usecases.platform.governance import Governance
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
from entrypoints.cli.output.printing import moment, print_json, printable, tell
from entrypoints.cli.user import operator
from entrypoints.failures import OK, USAGE, StartFailed
from entrypoints.settings import Settings


class NothingToChange(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        if arguments.action in _MAKING:
            await _MAKING[arguments.action](postern, arguments)
        else:
            await _ACTIONS[arguments.action](postern.platform.governance, arguments)


async def _create(postern: Postern, given: argparse.Namespace) -> None:
    owner = postern.foundation.email_syntax.parse(given.owner)
    made = await postern.tenancy.organizations.found_for(owner, given.organization, given.name, acting())
    if given.json:
        print_json(made)
    else:
        print(f"{made.slug} is active, and {owner} owns it.")


async def _invite(postern: Postern, given: argparse.Namespace) -> None:
    email = postern.foundation.email_syntax.parse(given.email)
    member = await for_owner(postern, given.organization)
    invitation = (await postern.tenancy.invitations.create(member, email, given.role, acting())).invitation
    if given.json:
        shown = {"id": invitation.id, "email": email, "organization": given.organization, "role": given.role}
        print_json({**shown, "expires_at": invitation.expires_at})
        return
    until = moment(invitation.expires_at)
    print(f"{email} is invited to {given.organization} as {given.role}. The link in the email expires at {until}.")


async def _list(governance: Governance, given: argparse.Namespace) -> None:
    status = None if given.status is None else OrganizationStatus(given.status)
    found = await governance.list(OrganizationFilter(status, await _tier(governance, given)), given.limit, given.offset)
    if given.json:
        print_json(found)
        return
    for line in table(found.items):
        print(line)
    at_least = "at least " if found.total == MOST_ROWS_COUNTED else ""
    shown = f"{given.offset + 1}-{given.offset + len(found.items)}" if found.items else "none"
    print(f"{shown} of {at_least}{found.total}")


async def _show(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    if given.json:
        print_json(found)
        return
    for name, text in lines(found):
        print(f"{name:<9} {text}")


async def _approve(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    tier = await _tier(governance, given)
    approved = await governance.approve(found.organization.id, tier, _operator())
    _say(given, approved, f"{approved.slug} is active.")


async def _reject(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    rejected = await governance.reject(found.organization.id, given.reason, _operator())
    _say(given, rejected, f"{rejected.slug} is rejected permanently.")


async def _suspend(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    suspended = await governance.suspend(found.organization.id, given.reason, _operator())
    _say(given, suspended, f"{suspended.slug} is suspended: from now on, its members and the users of its services are refused.")


async def _activate(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    active = await governance.activate(found.organization.id, _operator())
    _say(given, active, f"{active.slug} is active again.")


async def _change_tier(governance: Governance, given: argparse.Namespace) -> None:
    services, users = override(given.max_services), override(given.max_users)
    if given.tier is None and services is UNCHANGED and users is UNCHANGED:
        raise NothingToChange("Specify --tier, --max-users or --max-services")
    found = await governance.show(given.organization)
    tier = await _tier(governance, given) or found.tier.id
    await governance.change_tier(found.organization.id, tier, _operator(), max_services=services, max_users=users)
    await _show(governance, given)


async def _delete(governance: Governance, given: argparse.Namespace) -> None:
    found = await governance.show(given.organization)
    organization = found.organization
    if not given.yes:
        asked = f"{organization.slug} ({printable(organization.name)}) has {_members(found.members)}. Deleting it cannot be undone.\n"
        answer = await trio.to_thread.run_sync(_ask, f"{asked}Type its slug to delete it: ", abandon_on_cancel=True)
        if answer != organization.slug:
            raise StartFailed("Nothing was deleted: the answer is not the organization's slug")
    await governance.delete(organization.id, _operator())
    said = f"{organization.slug} is deleted. The running server removes its data in the background, or the next one does."
    tell({"id": organization.id, "slug": organization.slug, "deleted": True}, said, as_json=given.json)


def _say(given: argparse.Namespace, organization: Organization, sentence: str) -> None:
    tell(organization, sentence, as_json=given.json)


_MAKING: Final = {"create": _create, "invite": _invite}
_ACTIONS: Final = {
    "list": _list,
    "show": _show,
    "approve": _approve,
    "reject": _reject,
    "suspend": _suspend,
    "activate": _activate,
    "tier": _change_tier,
    "delete": _delete,
}


def _operator() -> Authority:
    return Authority(SYSTEM, operator())


async def _tier(governance: Governance, given: argparse.Namespace) -> TierId | None:
    return None if given.tier is None else (await governance.tier(given.tier)).id


def override(text: str | None) -> Override:
    """The limit that an operator gave. `none` removes the organization's own limit, so that its tier's limit applies again."""
    if text is None:
        return UNCHANGED
    return None if text == "none" else int(text)


def _ask(question: str) -> str:
    if sys.stdin.isatty():
        return input(question).strip()
    return sys.stdin.readline().strip()


def table(organizations: Sequence[GovernedOrganization]) -> list[str]:
    rows = [("slug", "status", "tier", "members", "created", "owner")] if organizations else []
    rows += [
        (
            one.organization.slug,
            one.organization.status.value,
            one.tier.name,
            str(one.members),
            f"{one.organization.created_at:%Y-%m-%d}",
            "unknown" if one.owner is None else printable(one.owner.email),
        )
        for one in organizations
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def lines(seen: GovernedOrganization) -> list[tuple[str, str]]:
    organization, tier = seen.organization, seen.tier
    limit = user_limit(organization.max_users, tier.default_max_users)
    own_services = organization.max_services
    services = f"at most {tier.default_max_services} (tier)" if own_services is None else f"at most {own_services} (its own limit)"
    return [
        ("id", str(organization.id)),
        ("slug", organization.slug),
        ("name", printable(organization.name, 100)),
        ("status", _status(organization)),
        ("tier", f"{tier.name} ({tier.display_name})"),
        ("members", f"{seen.members} of {limit.max_users} ({'its own limit' if organization.max_users is not None else 'tier'})"),
        ("services", services),
        ("owner", "unknown" if seen.owner is None else printable(seen.owner.email, 320)),
        ("created", moment(organization.created_at)),
    ]


def _status(organization: Organization) -> str:
    match organization.status:
        case OrganizationStatus.ACTIVE:
            since, reason = organization.approved_at, None
            word = "active, approved"
        case OrganizationStatus.SUSPENDED:
            since, reason = organization.suspended_at, organization.suspension_reason
            word = "suspended"
        case OrganizationStatus.REJECTED:
            since, reason = organization.rejected_at, organization.rejection_reason
            word = "rejected"
        case _:
            return "pending: waiting for approval"
    told = word if since is None else f"{word} {moment(since)}"
    return told if reason is None else f"{told}: {printable(reason, 500)}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"
