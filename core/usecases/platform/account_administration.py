"""What an operator does to an account from the command line. Everything is put on record, with the operator's name."""

from datetime import datetime
from typing import Final

from core.domain.email import Email
from core.domain.errors import Conflict, NotFound
from core.domain.identity.accounts import Account
from core.domain.identity.links import Links
from core.domain.identity.mailed_tokens import MailedTokenPurpose, mailed_token
from core.domain.identity.ways_in import WaysIn
from core.domain.jobs import NewJob
from core.domain.json import Json
from core.domain.platform.account_overviews import AccountOverview
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen
from core.usecases.identity.account_access import end_access_counting, hand_over_counting
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.realms import HomeRealms
from ports.clock import Clock
from ports.mail_templates import MailTemplates
from ports.platform.account_overviews import AccountOverviews
from ports.secrets import Secrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class AdministeredAccount(Frozen):
    """Which account it was, whether anything changed, and how many sessions ended."""

    account: Account
    changed: bool
    sessions: int = 0


class AccessReset(Frozen):
    """What ended, and how the owner comes in again: by `link`, once, within the hour. None: where they sign in, no link would help, or the
    account is deactivated.
    """

    account: Account
    ended: WaysIn
    sessions: int
    second_factor_ended: bool
    """It was passkeys."""
    second_factor_since: datetime | None
    """Of the authenticator app, which stays."""
    link: Secret | None


class AccountAdministration(Frozen):
    """Each method raises `NotFound` when no account has this e-mail address."""

    unit_of_work: UnitOfWorkFactory
    overviews: AccountOverviews
    mfa: Mfa
    realms: HomeRealms
    templates: MailTemplates
    links: Links
    clock: Clock
    secrets: Secrets

    async def show(self, email: Email, operator: str) -> AccountOverview:
        found = await self.overviews.find(email)
        if found is None:
            raise NotFound(_UNKNOWN)
        async with self.unit_of_work() as uow:
            await _record(uow, "user.viewed", found.account, operator, {})
            await uow.commit()
        return found

    async def deactivate(self, email: Email, operator: str) -> AdministeredAccount:
        """Nobody can sign in to it any more, and all its sessions, links and trusted devices end. What it owns stays. May be repeated."""
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            # Taken before the account. Of two owners who are deactivated at once, the second must see that the first is gone.
            await uow.platform_owners.hold()
            account = await _find(uow, email)
            await uow.accounts.hold(account.id)
            is_active_owner = account.is_platform_owner and account.deactivated_at is None
            if is_active_owner and not await uow.platform_owners.exist_besides(account.id):
                raise Conflict("This is the last active platform owner: make another first, with `postern owner create`")
            changed = await uow.accounts.deactivate(account.id, now)
            sessions = await end_access_counting(uow, account.id, now)
            if changed:
                await _record(uow, "user.deactivated", account, operator, {"sessions": sessions})
            await uow.commit()
        return AdministeredAccount(account, changed, sessions)

    async def activate(self, email: Email, operator: str) -> AdministeredAccount:
        """It can sign in again, from the beginning. May be repeated. Raises `Conflict` for what is left of a person who was forgotten."""
        async with self.unit_of_work() as uow:
            account = await _find(uow, email)
            now = self.clock.now()
            changed = await uow.accounts.activate(account.id, now)
            if not changed and account.deactivated_at is not None:
                # Somebody else may have activated it meanwhile.
                account = await _find(uow, email)
                if account.deactivated_at is not None:
                    raise Conflict("Nobody is behind this account any more: the person was forgotten")
            if changed:
                await _record(uow, "user.activated", account, operator, {})
            await uow.commit()
        return AdministeredAccount(account, changed)

    async def reset_password(self, email: Email, operator: str, *, by_mail: bool) -> AccessReset:
        """Nobody is in any more, and nobody comes in but by the link: the password ends, with all sessions, links, passkeys, connected
        accounts and trust in devices. The link that people request themselves ends less: theirs is a password that was forgotten, and here
        somebody may have broken in, whose passkey looks like any other.

        An authenticator app stays, since it lets nobody in by itself. A deactivated account loses the same and gets no link. The owner is
        told by mail.
        """
        requires_provider = await self.realms.requires_provider(email)
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            account = await _find(uow, email)
            user = account.id
            await uow.accounts.hold(user)
            ways_in, secret = await uow.accounts.ways_in(user), await uow.mfa.find(user)
            app_since = None if secret is None else secret.enabled_at
            by_passkeys = app_since is None and await uow.mfa.is_enabled(user)
            await uow.account_passwords.forget(user, now)
            if by_passkeys:
                # Before the sessions, as whoever turns one on takes them.
                await self.mfa.force_end(
                    uow, user, account.email, SYSTEM, reason="command line", operator=operator, language=account.language
                )
            sessions = await hand_over_counting(uow, user, now)
            at_provider = requires_provider and not account.is_platform_owner
            link = None
            if account.deactivated_at is None and not at_provider:
                token = self.secrets.mailed_token()
                await uow.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.RESET_PASSWORD, user, account.email, now))
                link = self.links.redeeming(MailedTokenPurpose.RESET_PASSWORD, token)
            if account.deactivated_at is None:
                await uow.jobs.add(self._told_of_reset(account, link if by_mail else None, at_provider=at_provider))
            details: dict[str, Json] = {
                "how": "ended",
                "link": "none" if link is None else "mailed" if by_mail else "shown",
                "sessions": sessions,
                "passkeys": ways_in.passkeys,
                "identities": ways_in.identities,
            }
            await uow.record_in_every_log(_event("security.password.changed", account, operator, details), user)
            await uow.commit()
        return AccessReset(account, ways_in, sessions, by_passkeys, app_since, None if link is None else Secret(link))

    def _told_of_reset(self, account: Account, link: str | None, *, at_provider: bool) -> NewJob:
        mail = self.templates.mail(
            "access_reset",
            account.email.address,
            account=account.id,
            language=account.language,
            link=link,
            at_provider=at_provider,
            when=self.clock.now(),
        )
        return mail.as_job()

    async def revoke_sessions(self, email: Email, operator: str) -> AdministeredAccount:
        """Signed out everywhere from the next request on. Trusted devices stay trusted. May be repeated."""
        async with self.unit_of_work() as uow:
            account = await _find(uow, email)
            await uow.accounts.hold(account.id)
            await uow.sessions.end_codes(account.id)
            sessions = await uow.sessions.revoke_all(account.id, but=None)
            if sessions:
                await _record(uow, "security.sessions.revoked", account, operator, {"sessions": sessions})
            await uow.commit()
        return AdministeredAccount(account, changed=sessions > 0, sessions=sessions)

    async def disable_mfa(self, email: Email, operator: str) -> AdministeredAccount:
        """For people who have lost the second factor. They are told by mail. May be repeated."""
        async with self.unit_of_work() as uow:
            account = await _find(uow, email)
        changed = await self.mfa.force_disable(account.id, account.email, SYSTEM, "command line", operator, language=account.language)
        return AdministeredAccount(account, changed)


_UNKNOWN: Final = "There is no account with this e-mail"


async def _find(uow: UnitOfWork, email: Email) -> Account:
    account = await uow.accounts.find(email)
    if account is None:
        raise NotFound(_UNKNOWN)
    return account


async def _record(uow: UnitOfWork, name: str, account: Account, operator: str, details: dict[str, Json]) -> None:
    await uow.record(_event(name, account, operator, details))


def _event(name: str, account: Account, operator: str, details: dict[str, Json]) -> Event:
    # The name belongs to a person: it must be possible to forget it.
    return Event(name, SYSTEM, Target("user", str(account.id)), details=details, personal={"operator": operator})
