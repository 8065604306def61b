"""Sign-ins in numbers, for members and for platform owners, and the installation as its operators see it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from datetime import timedelta

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId, OrganizationId, ServiceId
from core.domain.platform.analytics import (
    DEFAULT_DAYS,
    MOST_ACTIVE,
    MOST_READ_FOR_FAILURES,
    PAGE,
    ActiveOrganization,
    AttemptsOfWays,
    FailuresOfDays,
    Growth,
    LoggedSignIn,
    LoginsOfDay,
    LoginsOfProvider,
    LoginsOfService,
    Overview,
    RecentLogin,
    SignInFilter,
    Span,
    day_of,
    span,
)
from core.domain.platform.installation import FirstStepsDone, InstallationState
from core.frozen import Frozen
from ports.jobs import Turns
from ports.platform import AnalyticsLookup, InstallationLookup
from ports.system import Clock


class Analytics(Frozen):
    """Reads the counts of one organization one after the other, so that its requests do not delay other organizations."""

    lookup: AnalyticsLookup
    turns: Turns
    clock: Clock

    async def by_day(self, organization: OrganizationId, first: str | None, last: str | None) -> Sequence[LoginsOfDay]:
        """Raises `BadRequest`, `Overloaded`."""
        wanted = self._span(first, last)
        async with self.turns.take(organization):
            return await self.lookup.by_day(organization, wanted)

    async def failures(self, organization: OrganizationId) -> FailuresOfDays:
        """Those of today and the thirty days before. Raises `Overloaded`."""
        since = self.clock.now().date() - timedelta(days=DEFAULT_DAYS)
        async with self.turns.take(organization):
            return await self.lookup.failures(organization, since, MOST_READ_FOR_FAILURES)

    async def by_way(self, organization: OrganizationId, service: ServiceId) -> AttemptsOfWays:
        """The attempts to sign in to one application, of today and the thirty days before. Raises `Overloaded`."""
        since = self.clock.now().date() - timedelta(days=DEFAULT_DAYS)
        async with self.turns.take(organization):
            return await self.lookup.by_way(organization, service, since, MOST_READ_FOR_FAILURES)

    async def by_service(self, organization: OrganizationId, first: str | None, last: str | None) -> Sequence[LoginsOfService]:
        """Raises `BadRequest`, `Overloaded`."""
        wanted = self._span(first, last)
        async with self.turns.take(organization):
            return await self.lookup.by_service(organization, wanted)

    async def by_provider(self, organization: OrganizationId, first: str | None, last: str | None) -> Sequence[LoginsOfProvider]:
        """Raises `BadRequest`, `Overloaded`."""
        wanted = self._span(first, last)
        async with self.turns.take(organization):
            return await self.lookup.by_provider(organization, wanted)

    async def recent(self, organization: OrganizationId, limit: int) -> AsyncGenerator[Sequence[RecentLogin], None]:
        """Returns recent sign-ins page by page. Reads the first page here, and the others when the reader asks for them. Raises
        `BadRequest`.
        """
        if limit < 1:
            raise BadRequest("limit: must be at least 1")
        first = await self.lookup.recent(organization, None, min(PAGE, limit))
        return self._pages(organization, first, limit)

    async def sign_ins(
        self, organization: OrganizationId, wanted: SignInFilter, before: LoginEventId | None, limit: int
    ) -> Sequence[LoggedSignIn]:
        """The log of the organization's sign-ins, newest first; with `before`, only older ones. Raises `Overloaded`."""
        # A filter may have to pass over many sign-ins before it finds enough.
        async with nullcontext() if wanted.is_empty else self.turns.take(organization):
            return await self.lookup.sign_ins(organization, wanted, before, limit)

    async def overview(self) -> Overview:
        return await self.lookup.overview(self.clock.now())

    async def of_installation(self) -> tuple[Sequence[LoginsOfDay], FailuresOfDays, Sequence[ActiveOrganization]]:
        """Sign-ins and failures of today and the thirty days before, and the organizations with the most sign-ins among the newest."""
        since = self.clock.now().date() - timedelta(days=DEFAULT_DAYS)
        return (
            await self.lookup.of_installation(since),
            await self.lookup.failures_of_installation(since, MOST_READ_FOR_FAILURES),
            await self.lookup.most_active(since, MOST_READ_FOR_FAILURES, MOST_ACTIVE),
        )

    async def growth(self) -> Growth:
        """The organizations and people that came today and in the thirty days before."""
        return await self.lookup.growth(self.clock.now().date() - timedelta(days=DEFAULT_DAYS), MOST_READ_FOR_FAILURES)

    async def _pages(
        self, organization: OrganizationId, first: Sequence[RecentLogin], limit: int
    ) -> AsyncGenerator[Sequence[RecentLogin], None]:
        page, left = first, limit
        while page:
            yield page
            left -= len(page)
            if left <= 0 or len(page) < PAGE:
                return
            page = await self.lookup.recent(organization, page[-1].id, min(PAGE, left))

    def _span(self, first: str | None, last: str | None) -> Span:
        return span(day_of(first, "start_date"), day_of(last, "end_date"), self.clock.now().date())


class Installation(Frozen):
    """The caller has checked that the request comes from a platform owner."""

    lookup: InstallationLookup

    async def state(self) -> InstallationState:
        return await self.lookup.state()

    async def first_steps(self) -> FirstStepsDone:
        return await self.lookup.first_steps()
