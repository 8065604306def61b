"""What pages offer of further providers: kept for seconds, and as it was while the database is away."""

from collections.abc import Sequence
from typing import Any

from core.domain.errors import Unavailable
from core.domain.identity.upstream.providers import OfferedFurther
from core.usecases.identity.upstream.providers import KEPT_FOR, FurtherOffers


class _Store:
    def __init__(self) -> None:
        self.times = 0
        self.away = False

    async def offered(self) -> Sequence[OfferedFurther]:
        self.times += 1
        if self.away:
            raise Unavailable(retry_after=1)
        return [OfferedFurther(f"forum-{self.times}", "Forum")]


async def test_offers_are_read_again_after_seconds_and_stay_while_the_database_is_away() -> None:
    store, now = _Store(), [100.0]
    given: Any = store
    offers = FurtherOffers(given, lambda: now[0])
    assert offers.offered_in(None) == []
    await offers.refresh()
    await offers.refresh()
    assert [one.key for one in offers.offered_in(None)] == ["forum-1"]
    now[0] += KEPT_FOR
    await offers.refresh()
    assert [one.key for one in offers.offered_in(None)] == ["forum-2"]
    now[0] += KEPT_FOR
    store.away = True
    await offers.refresh()
    assert [one.key for one in offers.offered_in(None)] == ["forum-2"]
    store.away = False
    await offers.refresh()
    assert [one.key for one in offers.offered_in(None)] == ["forum-4"]
    offers.forget()
    await offers.refresh()
    assert store.times == 5
