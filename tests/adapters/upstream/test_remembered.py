"""What providers publish is asked for once, however many want it, and however it ends."""

from functools import partial

import pytest
import trio
import trio.testing

from adapters.upstream.keys import PublishedAnswers
from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway


class PublishingProvider:
    def __init__(self) -> None:
        self.calls = 0
        self.fails = False
        self.answers = trio.Event()

    async def published(self, url: str) -> str:
        self.calls += 1
        await self.answers.wait()
        if self.fails:
            raise OAuthError(detail=url)
        return f"{url} {self.calls}"


@pytest.mark.parametrize("fails", [False, True])
async def test_all_who_wait_for_a_call_get_what_became_of_it(fails: bool) -> None:
    provider = PublishingProvider()
    provider.fails = fails
    remembered = PublishedAnswers(provider.published)
    got: list[str] = []

    async def ask() -> None:
        try:
            got.append(await remembered.get("a"))
        except OAuthError:
            got.append("failed")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        provider.answers.set()
    assert provider.calls == 1
    assert got == ["failed" if fails else "a 1"] * 10
    # A later caller asks again only after a failure.
    provider.fails = False
    assert await remembered.get("a") == ("a 2" if fails else "a 1")
    assert await remembered.get("a") == ("a 2" if fails else "a 1")


async def test_somebody_who_leaves_while_they_wait_takes_nobody_along() -> None:
    provider = PublishingProvider()
    remembered = PublishedAnswers(provider.published)
    got: list[str] = []

    async def ask() -> None:
        got.append(await remembered.get("a"))

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as leaves:
            nursery.start_soon(ask)
            async with trio.open_nursery() as first:
                first.start_soon(remembered.get, "a")
                await trio.testing.wait_all_tasks_blocked()
                leaves.cancel()
        provider.answers.set()
    assert len(got) == 1
    assert provider.calls <= 2


async def test_the_ones_that_were_wanted_last_are_kept() -> None:
    provider = PublishingProvider()
    provider.answers.set()
    remembered = PublishedAnswers(provider.published, most=2)
    for url in "abaca":
        await remembered.get(url)
    assert provider.calls == 3
    await remembered.get("b")
    assert provider.calls == 4


async def test_a_failure_that_many_are_told_of_does_not_grow() -> None:
    provider = PublishingProvider()
    provider.answers.set()
    provider.fails = True
    remembered = PublishedAnswers(provider.published)
    sizes = []
    for _ in range(5):
        with pytest.raises(OAuthError) as failed:
            await remembered.look("a")
        sizes.append(len(failed.traceback))
    assert provider.calls == 1
    assert len({*sizes[1:]}) == 1


async def test_a_look_counts_for_a_minute_and_a_failure_for_a_moment(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001 - it runs
    provider = PublishingProvider()
    provider.answers.set()
    remembered = PublishedAnswers(provider.published)
    for pause, calls in ((0.0, 1), (59.0, 1), (2.0, 2)):
        await trio.sleep(pause)
        await remembered.look("a")
        assert provider.calls == calls
    # What is published may be older than that.
    await trio.sleep(600)
    assert await remembered.get("a") == "a 2"
    provider.fails = True
    for pause, calls in ((0.0, 3), (9.0, 3), (2.0, 4)):
        await trio.sleep(pause)
        with pytest.raises(OAuthError):
            await remembered.look("a")
        assert provider.calls == calls
        assert await remembered.get("a") == "a 2"
    # Of a provider that is not known to be away, what failed a moment ago is over.
    with pytest.raises(OAuthError):
        await remembered.look("a", is_away=False)
    assert provider.calls == 5
    provider.fails = False
    await remembered.look("a", is_away=False)
    assert await remembered.get("a") == "a 6"


async def test_who_hears_of_anothers_call_has_no_news() -> None:
    """Whoever made the call notes the outage, and nobody who came beside it or after it."""
    answers = trio.Event()

    async def fetch(url: str) -> str:
        await answers.wait()
        raise ProviderAway(detail=url)

    remembered = PublishedAnswers(fetch)
    news: list[bool] = []

    async def ask() -> None:
        with pytest.raises(ProviderAway) as failed:
            await remembered.look("a")
        news.append(failed.value.is_news)
        assert failed.value.detail == "a"

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        answers.set()
    await ask()
    assert sorted(news) == [False] * 5 + [True]


async def test_an_attempt_asks_anew_after_a_second_and_shares_its_call(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001 - it runs
    provider = PublishingProvider()
    provider.answers.set()
    remembered = PublishedAnswers(provider.published)
    for pause, calls in ((0.0, 1), (0.5, 1), (1.5, 2)):
        await trio.sleep(pause)
        await remembered.look("a", at_attempt=True)
        assert provider.calls == calls
    await trio.sleep(5)
    provider.answers = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(partial(remembered.look, "a", at_attempt=True))
        await trio.testing.wait_all_tasks_blocked()
        # The answer takes longer than it counts for.
        await trio.sleep(3)
        provider.answers.set()
    assert provider.calls == 3
