"""`postern user …`: what an operator does to one account."""

import argparse
import getpass
import os
from datetime import datetime
from typing import Final

import trio

from core.domain.email import Email
from core.domain.platform.account_overviews import AccountOverview, OrganizationRole, SignInAttempt
from core.usecases.platform.account_administration import AccountAdministration
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.printing import moment, printable
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        email = postern.foundation.email_syntax.parse(arguments.email)
        administration = postern.platform.account_administration
        if arguments.action == "reset-password":
            await _reset_password(administration, email, show_link=arguments.print_link)
        else:
            await _ACTIONS[arguments.action](administration, email)


async def _show(administration: AccountAdministration, email: Email) -> None:
    for name, text in _lines(await administration.show(email, operator())):
        print(f"{name:<15} {text}")


async def _deactivate(administration: AccountAdministration, email: Email) -> None:
    done = await administration.deactivate(email, operator())
    if done.changed:
        print(f"{done.account.email} is deactivated; {_sessions(done.sessions)} ended.")
    else:
        print(f"{done.account.email} was deactivated already.")


async def _activate(administration: AccountAdministration, email: Email) -> None:
    done = await administration.activate(email, operator())
    print(f"{done.account.email} {'can sign in again' if done.changed else 'was active already'}.")


async def _reset_password(administration: AccountAdministration, email: Email, *, show_link: bool) -> None:
    reset = await administration.reset_password(email, operator(), by_mail=not show_link)
    print(f"The password of {reset.account.email} is no longer valid; {_sessions(reset.sessions)} ended.")
    if show_link:
        print("This link chooses a new one. It works once, within the hour:")
        print(reset.link.reveal())
    else:
        print("A link to choose a new one was mailed there. It works once, within the hour.")


async def _revoke_sessions(administration: AccountAdministration, email: Email) -> None:
    done = await administration.revoke_sessions(email, operator())
    print(f"{done.account.email}: {_sessions(done.sessions)} ended.")


async def _disable_mfa(administration: AccountAdministration, email: Email) -> None:
    done = await administration.disable_mfa(email, operator())
    if done.changed:
        print(f"{done.account.email} now signs in without a second factor. A mail tells them so.")
    else:
        print(f"{done.account.email} had no second factor.")


_ACTIONS: Final = {
    "show": _show,
    "deactivate": _deactivate,
    "activate": _activate,
    "revoke-sessions": _revoke_sessions,
    "disable-mfa": _disable_mfa,
}


def operator() -> str:
    """The person at the keyboard, as far as the system knows: behind sudo, the user who called it."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # In a container, a user often has a number but no name.
        return f"uid {os.getuid()}"


def _lines(seen: AccountOverview) -> list[tuple[str, str]]:
    account = seen.account
    lines = [
        ("id", str(account.id)),
        ("e-mail", f"{account.email}, {_since('verified', account.email_verified_at, otherwise='not verified')}"),
        ("status", _since("deactivated", account.deactivated_at, otherwise="active")),
        ("created", moment(account.created_at)),
        ("platform owner", "yes" if account.is_platform_owner else "no"),
        ("password", _since("changed", seen.password_changed_at, otherwise="set") if seen.has_password else "none"),
        ("second factor", _since("enabled", seen.mfa_enabled_at, otherwise="none")),
        ("sessions", f"{seen.sessions}, {seen.impersonations} of them by platform owners" if seen.impersonations else str(seen.sessions)),
        ("devices", f"{seen.devices}, {seen.trusted_devices} trusted" if seen.devices else "none"),
        ("organizations", ", ".join(map(_organization, seen.organizations)) or "none"),
    ]
    if seen.pending_email is not None:
        lines.insert(2, ("next e-mail", f"{seen.pending_email}, once verified"))
    if seen.mfa_enabled_at is not None:
        lines.insert(-3, ("backup codes", f"{seen.backup_codes} left"))
    return lines + [("latest sign-in" if at == 0 else "", _attempt(one)) for at, one in enumerate(seen.latest_attempts)]


def _organization(one: OrganizationRole) -> str:
    return f"{one.organization} ({one.role}{'' if one.is_active else ', not active'})"


def _attempt(one: SignInAttempt) -> str:
    outcome = "succeeded" if one.success else "FAILED"
    return f"{moment(one.at)}  {outcome:<9}  {one.address or 'address unknown'}  {printable(one.user_agent or '')}".rstrip()


def _since(word: str, at: datetime | None, *, otherwise: str) -> str:
    return otherwise if at is None else f"{word} {moment(at)}"


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"
