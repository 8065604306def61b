"""What an operator does to an account from the command line. Each is on record, with the name that the operator goes by there."""

from dataclasses import dataclass
from typing import Final

from core.domain.account_overviews import AccountOverview
from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.events import SYSTEM, Event, Target
from core.domain.json import Json
from core.domain.links import Links
from core.domain.mailed_tokens import MailedTokenPurpose, mailed_token
from core.domain.secrets import Secret
from core.usecases.mfa import Mfa
from ports.account_overviews import AccountOverviews
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.secrets import Secrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class Done:
    """To which account, whether it changed anything, and how many sessions it ended."""

    account: Account
    changed: bool
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """`link` lets its holder in, once, within the hour."""

    account: Account
    sessions: int
    link: Secret


class AccountAdministration:
    """Each method raises `NotFound` when there is no account with this e-mail."""

    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        *,
        overviews: AccountOverviews,
        mfa: Mfa,
        templates: MailTemplates,
        links: Links,
        clock: Clock,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._overviews = overviews
        self._mfa = mfa
        self._templates = templates
        self._links = links
        self._clock = clock
        self._secrets = secrets

    async def show(self, email: Email, operator: str) -> AccountOverview:
        found = await self._overviews.find(email)
        if found is None:
            raise NotFound(_UNKNOWN)
        async with self._unit_of_work() as unit:
            await _record(unit, "user.viewed", found.account, operator, {})
            await unit.commit()
        return found

    async def deactivate(self, email: Email, operator: str) -> Done:
        """Nobody signs in to it any more, and every session, link and trusted device of it ends. What it owns stays. May be repeated."""
        now = self._clock.now()
        async with self._unit_of_work() as unit:
            # Before the account: of two owners that go at once, the second must see that the first is gone.
            await unit.accounts.hold_platform_owners()
            account = await _find(unit, email)
            await unit.accounts.hold(account.id)
            is_active_owner = account.is_platform_owner and account.deactivated_at is None
            if is_active_owner and not await unit.accounts.has_other_platform_owner(account.id):
                raise Conflict("This is the last active platform owner; make another first, with `postern owner create`")
            changed = await unit.accounts.deactivate(account.id, now)
            sessions = await self._end_access(unit, account)
            if changed:
                await _record(unit, "user.deactivated", account, operator, {"sessions": sessions})
            await unit.commit()
        return Done(account, changed, sessions)

    async def activate(self, email: Email, operator: str) -> Done:
        """It can sign in again, from the beginning. May be repeated."""
        async with self._unit_of_work() as unit:
            account = await _find(unit, email)
            now = self._clock.now()
            if account.deactivated_at is not None:
                # A sign-in that was half done when it was deactivated, and could not be finished since.
                await unit.mfa.end_preauthentications(account.id, now)
            changed = await unit.accounts.activate(account.id, now)
            if changed:
                await _record(unit, "user.activated", account, operator, {})
            await unit.commit()
        return Done(account, changed)

    async def reset_password(self, email: Email, operator: str, *, by_mail: bool) -> PasswordReset:
        """The password that it has ends now, with every session and all trust in devices; the link leads to a new one. That is what sets
        it apart from the link that a person can ask for: whoever knows the old password is locked out at once.

        The second factor stays. Raises `BadRequest` when the account is deactivated.
        """
        now = self._clock.now()
        token = self._secrets.mailed_token()
        link = self._links.redeeming(MailedTokenPurpose.RESET_PASSWORD, token)
        async with self._unit_of_work() as unit:
            account = await _find(unit, email)
            await unit.accounts.hold(account.id)
            if not await unit.accounts.forget_password(account.id, now):
                raise BadRequest("The account is deactivated; activate it first")
            sessions = await self._end_access(unit, account)
            await unit.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.RESET_PASSWORD, account.id, account.email, now))
            if by_mail:
                await unit.jobs.add(self._templates.mail("reset", account.email.address, link=link).as_job())
            details: dict[str, Json] = {"how": "ended", "link": "mailed" if by_mail else "shown", "sessions": sessions}
            await _record(unit, "security.password.changed", account, operator, details)
            await unit.commit()
        return PasswordReset(account, sessions, Secret(link))

    async def revoke_sessions(self, email: Email, operator: str) -> Done:
        """It is signed out everywhere, on the next request. Devices that skip the second factor go on doing so. May be repeated."""
        async with self._unit_of_work() as unit:
            account = await _find(unit, email)
            await unit.accounts.hold(account.id)
            sessions = await unit.sessions.revoke_all(account.id, but=None)
            if sessions:
                await _record(unit, "security.sessions.revoked", account, operator, {"sessions": sessions})
            await unit.commit()
        return Done(account, changed=sessions > 0, sessions=sessions)

    async def disable_mfa(self, email: Email, operator: str) -> Done:
        """For whoever lost the second factor: it is told by mail. May be repeated."""
        async with self._unit_of_work() as unit:
            account = await _find(unit, email)
        changed = await self._mfa.force_disable(account.id, account.email, SYSTEM, "command line", operator)
        return Done(account, changed)

    async def _end_access(self, unit: UnitOfWork, account: Account) -> int:
        await unit.mailed_tokens.end_all(account.id, self._clock.now())
        await unit.devices.end_trust(account.id)
        return await unit.sessions.revoke_all(account.id, but=None)


_UNKNOWN: Final = "There is no account with this e-mail"


async def _find(unit: UnitOfWork, email: Email) -> Account:
    account = await unit.accounts.find(email)
    if account is None:
        raise NotFound(_UNKNOWN)
    return account


async def _record(unit: UnitOfWork, name: str, account: Account, operator: str, details: dict[str, Json]) -> None:
    # Webhooks hear what they have a name for; coming and going of an account by the operator's hand is the installation's own affair.
    published = name.startswith("security.")
    target = Target("user", str(account.id))
    # The name is somebody's: it must be possible to forget it.
    await unit.record(Event(name, SYSTEM, target, details=details, published=published, personal={"operator": operator}))
