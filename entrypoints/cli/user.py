"""`postern user …`: an operator shows or changes one account."""

import argparse
import getpass
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import trio

from core.domain.identity.upstream.providers import NAMES
from core.domain.mail import Email
from core.domain.platform.platform_users import (
    AccountOverview,
    CredentialSeen,
    IdentitySeen,
    LinkSeen,
    OrganizationRole,
    PasskeySeen,
    SignInAttempt,
)
from core.usecases.platform.account_administration import AccessReset, AccountAdministration
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import moment, print_json, printable, tell
from entrypoints.failures import OK
from entrypoints.settings import Settings
from ports.identity.accounts import PasswordCounts

Done = tuple[Mapping[str, object], str]
"""What was done, for programs and for people."""

_PROVIDERS: Final[Mapping[str, str]] = {provider.value: name for provider, name in NAMES.items()}


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        if arguments.action == "stats":
            _print_counts(await postern.identity.foreign_hashes.counts(), as_json=arguments.json)
            return
        email = postern.foundation.email_syntax.parse(arguments.email)
        administration = postern.platform.account_administration
        if arguments.json and arguments.action == "show":
            print_json(await administration.show(email, operator()))
        elif arguments.action == "show":
            await _show(administration, email)
        elif arguments.action == "reset-password":
            await _reset_password(administration, email, show_link=arguments.print_link, as_json=arguments.json)
        else:
            record, line = await _ACTIONS[arguments.action](administration, email)
            tell(record, line, as_json=arguments.json)


async def _show(administration: AccountAdministration, email: Email) -> None:
    for name, text in _lines(await administration.show(email, operator())):
        print(f"{name:<15} {text}")


async def _deactivate(administration: AccountAdministration, email: Email) -> Done:
    done = await administration.deactivate(email, operator())
    said = f"is deactivated; {_sessions(done.sessions)} revoked." if done.changed else "was deactivated already."
    return {"email": done.account.email, "changed": done.changed, "sessions": done.sessions}, f"{done.account.email} {said}"


async def _activate(administration: AccountAdministration, email: Email) -> Done:
    done = await administration.activate(email, operator())
    said = "can sign in again" if done.changed else "was active already"
    return {"email": done.account.email, "changed": done.changed}, f"{done.account.email} {said}."


async def _lock(administration: AccountAdministration, email: Email) -> Done:
    done = await administration.lock(email, operator())
    record = {
        "email": done.account.email,
        "changed": done.changed,
        "sessions": done.sessions,
        "devices": done.devices,
        "consents": done.consents,
        "keys": done.keys,
        "recent": done.recent,
    }
    if not done.changed:
        return record, f"{done.account.email} was locked already."
    ended = [_sessions(done.sessions), _count(done.devices, "trusted device"), _count(done.consents, "consent"), *done.keys]
    said = f"is locked: {', '.join(ended)} revoked. A link to choose a new password was sent to this email address. It unlocks the account."
    return record, f"{done.account.email} {said}"


async def _reset_password(administration: AccountAdministration, email: Email, *, show_link: bool, as_json: bool) -> None:
    reset = await administration.reset_password(email, operator(), by_mail=not show_link)
    link = reset.link.reveal() if show_link and reset.link is not None else None
    record = {"email": reset.account.email, "sessions": reset.sessions, "ended": reset.ended, "link": link}
    tell(record, *_reset_lines(reset, show_link=show_link), as_json=as_json)


async def _revoke_sessions(administration: AccountAdministration, email: Email) -> Done:
    done = await administration.revoke_sessions(email, operator())
    return {"email": done.account.email, "sessions": done.sessions}, f"{done.account.email}: {_sessions(done.sessions)} revoked."


async def _disable_mfa(administration: AccountAdministration, email: Email) -> Done:
    done = await administration.disable_mfa(email, operator())
    said = "now signs in without MFA. An email tells the person." if done.changed else "had no second factor."
    return {"email": done.account.email, "changed": done.changed}, f"{done.account.email} {said}"


_ACTIONS: Final = {
    "lock": _lock,
    "deactivate": _deactivate,
    "activate": _activate,
    "revoke-sessions": _revoke_sessions,
    "disable-mfa": _disable_mfa,
}


def _print_counts(counts: PasswordCounts, *, as_json: bool) -> None:
    if as_json:
        print_json(counts)
        return
    for name, number in (("ours", counts.ours), *counts.foreign.items(), ("none", counts.none)):
        print(f"{name:<20} {number:>10}")


def operator() -> str:
    """The name of the system's user who runs the command. Under sudo, the user who called sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # In a container, a user often has a number but no name.
        return f"uid {os.getuid()}"


def _reset_lines(reset: AccessReset, *, show_link: bool) -> list[str]:
    email, ended = reset.account.email, reset.ended
    removed = [
        text
        for count, text in (
            (ended.password, "the password"),
            (ended.passkeys, _count(ended.passkeys, "passkey")),
            (ended.identities, _count(ended.identities, "connected account")),
        )
        if count
    ]
    lines = [f"All access to {email} is revoked: {_sessions(reset.sessions)} ended. Removed: {', '.join(removed) or 'nothing'}."]
    if reset.second_factor_ended:
        lines.append("MFA used passkeys: it is turned off.")
    elif reset.second_factor_since is not None:
        since = moment(reset.second_factor_since)
        lines.append(
            f"The authenticator app is still used for MFA, since {since}. If it does not belong to the owner: postern user disable-mfa"
        )
    if reset.account.deactivated_at is not None and not reset.account.is_locked:
        lines.append(
            "The account is still deactivated. To allow the owner to sign in: postern user activate, then reset-password again for a link."
        )
    elif reset.link is None:
        lines.append("People of this domain, including the owner, sign in at their organization's identity provider: no link was sent.")
    elif show_link:
        lines += ["This link chooses a new password. It works once, within the hour:", reset.link.reveal()]
    else:
        lines.append("A link to choose a new password was sent to this email address. It works once and expires in 1 hour.")
    return lines


def _lines(seen: AccountOverview) -> list[tuple[str, str]]:
    account = seen.account
    lines = [
        ("id", str(account.id)),
        ("e-mail", f"{account.email}, {_since('verified', account.email_verified_at, otherwise='not verified')}"),
        ("status", _since("locked" if account.is_locked else "deactivated", account.deactivated_at, otherwise="active")),
        ("created", moment(account.created_at)),
        ("platform owner", "yes" if account.is_platform_owner else "no"),
        ("password", _since("changed", seen.password_changed_at, otherwise="set") if seen.has_password else "none"),
        ("second factor", _since("enabled", seen.mfa_enabled_at, otherwise="none")),
        ("sessions", f"{seen.sessions}, {seen.impersonations} of them by platform owners" if seen.impersonations else str(seen.sessions)),
        ("devices", f"{seen.devices}, {seen.trusted_devices} trusted" if seen.devices else "none"),
        *_listed("passkeys", map(_passkey, seen.passkeys)),
        *_listed("connected", map(_identity, seen.identities)),
        *_listed("open links", map(_link, seen.links)),
        ("organizations", ", ".join(map(_organization, seen.organizations)) or "none"),
    ]
    if seen.pending_email is not None:
        lines.insert(2, ("new email address", f"{seen.pending_email}, once verified"))
    if seen.mfa_enabled_at is not None:
        below = [name for name, _ in lines].index("second factor") + 1
        lines.insert(below, ("backup codes", f"{seen.backup_codes} left"))
    if seen.credentials:
        lines += _listed("created by this person", map(_credential, seen.credentials))
    return lines + (_listed("latest sign-in", map(_attempt, seen.latest_attempts)) if seen.latest_attempts else [])


def _listed(name: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(name if at == 0 else "", text) for at, text in enumerate([*texts] or ["none"])]


def _passkey(one: PasskeySeen) -> str:
    return f"{printable(one.name)}, added {moment(one.created_at)}, {_since('last used', one.last_used_at, otherwise='never used')}"


def _identity(one: IdentitySeen) -> str:
    as_whom = f" as {printable(one.email)}" if one.email else ""
    return f"{printable(_PROVIDERS.get(one.provider, one.provider))}{as_whom}, since {moment(one.linked_at)}"


def _link(one: LinkSeen) -> str:
    return f"{one.purpose.replace('_', ' ')}, until {moment(one.expires_at)}"


def _credential(one: CredentialSeen) -> str:
    return f"{one.kind} {one.prefix}… of {one.place}, {moment(one.created_at)}"


def _organization(one: OrganizationRole) -> str:
    return f"{one.organization} ({one.role}{'' if one.is_active else ', not active'})"


def _attempt(one: SignInAttempt) -> str:
    outcome = "succeeded" if one.success else "FAILED"
    return f"{moment(one.at)}  {outcome:<9}  {one.address or 'IP address unknown'}  {printable(one.user_agent or '')}".rstrip()


def _since(word: str, at: datetime | None, *, otherwise: str) -> str:
    return otherwise if at is None else f"{word} {moment(at)}"


def _sessions(count: int) -> str:
    return _count(count, "session")


def _count(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
