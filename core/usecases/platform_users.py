"""Users, and what happens around their second factor, for those who govern the platform."""

from collections.abc import Sequence

from core.domain.alerts import LOOKED_BACK, Alert
from core.domain.email import Email
from core.domain.errors import NotFound
from core.domain.events import Actor
from core.domain.identifiers import UserId
from core.domain.impersonation import reason_of
from core.domain.platform_users import COUNTED_BACK, FoundUser, MfaMetrics, MfaOverview
from core.usecases.mfa import Mfa
from ports.clock import Clock
from ports.platform_users import SuspiciousActivity, UserDirectory


class PlatformUsers:
    """Whoever calls has seen to it that it is a platform owner who asks."""

    def __init__(self, directory: UserDirectory, activity: SuspiciousActivity, mfa: Mfa, clock: Clock) -> None:
        self._directory = directory
        self._activity = activity
        self._mfa = mfa
        self._clock = clock

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Those whose e-mail address contains this part, in any case; with `user` at most that one."""
        # As addresses are compared, so that what people see of one finds it.
        return await self._directory.search(Email(part.strip()).key, user, limit)

    async def mfa(self, user: UserId) -> MfaOverview:
        """Raises `NotFound`."""
        found = await self._directory.mfa(user)
        if found is None:
            raise NotFound("There is no such user")
        return found

    async def force_disable_mfa(self, user: UserId, reason: str, actor: Actor) -> bool:
        """For whoever lost their second factor: they are told by mail. False when there was none. Raises `NotFound`, and `BadRequest`
        without a reason.
        """
        reason = reason_of(reason)
        found = await self.mfa(user)
        return await self._mfa.force_disable(user, found.email, actor, reason)

    async def mfa_metrics(self) -> MfaMetrics:
        return await self._directory.mfa_metrics(self._clock.now() - COUNTED_BACK)

    async def alerts(self) -> Sequence[Alert]:
        """The latest first."""
        return await self._activity.alerts(self._clock.now() - LOOKED_BACK)
