"""Users and their second factors, for platform owners."""

from collections.abc import Sequence
from contextlib import nullcontext

from core.domain.email import Email
from core.domain.errors import BadRequest, found
from core.domain.identifiers import UserId
from core.domain.identity.alerts import LOOKED_BACK
from core.domain.identity.guards.guesses import Suspicions
from core.domain.identity.impersonation import reason_of
from core.domain.platform.platform_users import (
    COUNTED_BACK,
    INSTALLATION,
    MOST_OWNERS,
    MOST_READ,
    FoundUser,
    FoundUsers,
    MfaMetrics,
    MfaOverview,
)
from core.domain.record.events import Actor
from core.frozen import Frozen
from core.usecases.identity.mfa import Mfa
from ports.clock import Clock
from ports.platform.platform_users import AlertLookup, UserDirectory
from ports.turns import Turns


class PlatformUsers(Frozen):
    """The caller has checked that the request comes from a platform owner."""

    directory: UserDirectory
    activity: AlertLookup
    second_factors: Mfa
    turns: Turns
    clock: Clock

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Returns accounts whose address contains this text, ignoring case; only the one whose address it is, if there is one. With `user`,
        at most this account.
        """
        # The text is normalized as addresses are for comparison, so that a displayed address finds its account.
        wanted = Email(part.strip()).key
        async with self.turns.take(INSTALLATION) if wanted and user is None else nullcontext():
            return await self.directory.search(wanted, user, limit)

    async def find(self, text: str, limit: int) -> FoundUsers:
        """The newest accounts whose address, name or user name contains this text, ignoring case; first the one whose address it is. The
        text is not empty. Raises `Overloaded` when too many searches are under way.
        """
        async with self.turns.take(INSTALLATION):
            return await self.directory.find(Email(text.strip()).key, limit, MOST_READ)

    async def owners(self) -> Sequence[FoundUser]:
        """All platform owners, the first one first."""
        return await self.directory.owners(MOST_OWNERS)

    async def mfa(self, user: UserId) -> MfaOverview:
        """Raises `NotFound`."""
        return found(await self.directory.mfa(user), "There is no such user")

    async def force_disable_mfa(self, user: UserId, by: UserId, reason: str, actor: Actor) -> bool:
        """Disables the second factor of a person who has lost it, and mails the person. Returns False when there was no second factor.
        Raises `NotFound`, and `BadRequest` for oneself and without a reason.
        """
        reason = reason_of(reason)
        if user == by:
            raise BadRequest(
                "Another platform owner has to do it: your own second factor you disable with DELETE /api/user/mfa",
                words="another_platform_owner",
            )
        found = await self.mfa(user)
        return await self.second_factors.force_disable(user, found.email, actor, reason, language=found.language)

    async def mfa_metrics(self) -> MfaMetrics:
        return await self.directory.mfa_metrics(self.clock.now() - COUNTED_BACK)

    async def alerts(self) -> Suspicions:
        return await self.activity.alerts(self.clock.now() - LOOKED_BACK)
