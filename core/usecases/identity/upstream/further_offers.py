"""The further providers of the installation that pages offer. They change once in months, so each process keeps them for some seconds. What
a page offers is no right: whoever leaves for a provider is told if it is off by now.
"""

from collections.abc import Callable, Sequence
from typing import Final

from core.domain.errors import Refusal
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.providers import OfferedFurther, ProviderOffer
from ports.identity.upstream.further import FurtherProviderStore

KEPT_FOR: Final = 5.0


class FurtherOffers:
    def __init__(self, lookup: FurtherProviderStore, elapsed: Callable[[], float]) -> None:
        """`elapsed` gives seconds that never go back."""
        self._lookup = lookup
        self._elapsed = elapsed
        self._read_at: float | None = None
        self._known: Sequence[OfferedFurther] = ()

    async def refresh(self) -> None:
        """Reads them again, if they were not read in the last seconds. While the database is away, those that are known stay."""
        now = self._elapsed()
        if self._read_at is not None and now - self._read_at < KEPT_FOR:
            return
        # Whoever comes meanwhile takes what is known.
        self._read_at = now
        try:
            self._known = await self._lookup.offered()
        except Refusal:
            self._read_at = None

    def forget(self) -> None:
        """The next one who asks reads them again."""
        self._read_at = None

    def offered_in(self, organization: OrganizationId | None) -> Sequence[ProviderOffer]:
        return [one.offer for one in self._known if one.is_offered_in(organization)]
