"""The counts of budgets of mails: all or none, the narrowest first, exactly as many as there are, and few rows whatever comes."""

from datetime import UTC, datetime, timedelta

import pytest
import trio

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.identity.registering import MailBudgetRows
from adapters.postgres.statements import Statements
from core.domain.identity.registering import Budget, BudgetLane, BudgetScope, BudgetVerdict, Counted
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

NOW = datetime(2026, 11, 27, 10, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
GO = Counted(BudgetVerdict.GO)
NETWORK = "203.0.113.0/24"
MAIL_DOMAIN, INSTALLATION = BudgetScope.MAIL_DOMAIN, BudgetScope.INSTALLATION


@pytest.fixture
def budgets(store: Store) -> MailBudgetRows:
    return MailBudgetRows(Statements(store.pool))


def of(network: str = NETWORK, domain: str = "acme.example", *, sizes: tuple[int, int, int] = (2, 3, 10)) -> list[Budget]:
    return [
        Budget(BudgetScope.NETWORK, network, sizes[0]),
        Budget(MAIL_DOMAIN, domain, sizes[1]),
        Budget(INSTALLATION, "", sizes[2]),
    ]


async def ask(budgets: MailBudgetRows, wanted: list[Budget], now: datetime = NOW, *, may_wait: bool = False) -> Counted:
    return await budgets.count(BudgetLane.OPEN, wanted, now, may_wait=may_wait)


async def rows(store: Store) -> dict[str, tuple[int, int, int]]:
    found = await store.query("select scope, key, taken, waiting, held from mail_budgets where lane = 'open'")
    return {one["key"] or one["scope"]: (one["taken"], one["waiting"], one["held"]) for one in found}


def refused(over: BudgetScope) -> Counted:
    return Counted(BudgetVerdict.REFUSE, over)


async def test_the_narrowest_budget_keeps_a_request_from_the_wider_ones(store: Store, budgets: MailBudgetRows) -> None:
    assert [await ask(budgets, of()) for _ in range(3)] == [GO, GO, refused(BudgetScope.NETWORK)]
    assert await rows(store) == {NETWORK: (2, 0, 1), "acme.example": (2, 0, 0), "installation": (2, 0, 0)}


async def test_a_wider_budget_keeps_it_from_the_narrower_ones(store: Store, budgets: MailBudgetRows) -> None:
    for network in ("198.51.100.0/24", "192.0.2.0/24", NETWORK):
        assert await ask(budgets, of(network)) == GO
    assert await ask(budgets, of("198.51.100.0/24")) == refused(MAIL_DOMAIN)
    assert (await rows(store))["198.51.100.0/24"] == (1, 0, 0)
    assert (await rows(store))["acme.example"] == (3, 0, 1)


async def test_what_may_wait_waits_for_the_next_hours_in_order(store: Store, budgets: MailBudgetRows) -> None:
    sizes = (10, 2, 100)
    asked = [await ask(budgets, of(sizes=sizes), may_wait=True) for _ in range(7)]
    assert asked == [GO, GO, *(Counted(BudgetVerdict.WAIT, MAIL_DOMAIN, hours) for hours in (1, 1, 2, 2, 3))]
    assert (await rows(store))["acme.example"] == (2, 5, 5)
    # The next hour belongs to what waited: nothing of it is left, and whoever comes now waits behind the others.
    assert await ask(budgets, of(sizes=sizes), NOW + HOUR, may_wait=True) == Counted(BudgetVerdict.WAIT, MAIL_DOMAIN, 2)
    assert (await rows(store))["acme.example"] == (2, 4, 6)
    # Three hours later nothing waits any more.
    assert await ask(budgets, of(sizes=sizes), NOW + 4 * HOUR) == GO
    assert (await rows(store))["acme.example"] == (1, 0, 6)


async def test_the_waiting_of_a_network_and_of_the_installation_has_an_end(store: Store, budgets: MailBudgetRows) -> None:
    asked = [await ask(budgets, of(sizes=(2, 3, 3)), may_wait=True) for _ in range(5)]
    assert [one.verdict for one in asked] == [BudgetVerdict.GO] * 2 + [BudgetVerdict.WAIT] * 2 + [BudgetVerdict.REFUSE]
    others = [await ask(budgets, of(f"192.0.{number}.0/24", sizes=(2, 9, 3)), may_wait=True) for number in range(5)]
    assert [one.verdict for one in others] == [BudgetVerdict.GO, BudgetVerdict.WAIT, *[BudgetVerdict.REFUSE] * 3]
    # Networks that got nothing have no row, however many they are.
    assert len(await rows(store)) == 5


async def test_nothing_waits_longer_than_a_day_but_for_the_reserve(store: Store, budgets: MailBudgetRows) -> None:
    sizes = (100, 1, 100)
    asked = [await ask(budgets, of(sizes=sizes), may_wait=True) for _ in range(28)]
    assert [one.hours for one in asked] == [*range(25), 25, 25, 25]
    assert asked[-1] == Counted(BudgetVerdict.WAIT, MAIL_DOMAIN, 25)
    # These have no hour of the domain, but a place for waiting of their network and of the installation.
    assert (await rows(store))["acme.example"][:2] == (1, 24)
    assert (await rows(store))[NETWORK][:2] == (1, 27)


async def test_of_fifty_requests_at_once_as_many_go_as_the_budget_holds(budgets: MailBudgetRows) -> None:
    verdicts = list[BudgetVerdict]()

    async def one(number: int) -> None:
        verdicts.append((await ask(budgets, of(f"10.0.{number}.0/24", sizes=(5, 20, 100)))).verdict)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(one, number)
    assert verdicts.count(BudgetVerdict.GO) == 20
    assert verdicts.count(BudgetVerdict.REFUSE) == 30


async def test_of_two_that_see_the_last_place_at_once_one_gets_it(store: Store, budgets: MailBudgetRows) -> None:
    sizes = (5, 2, 100)
    assert await ask(budgets, of("10.0.0.0/24", sizes=sizes)) == GO
    counted = list[Counted]()

    async def one(number: int) -> None:
        counted.append(await ask(budgets, of(f"10.0.{number}.0/24", sizes=sizes)))

    async with await Connection.connect(store.url) as holder:
        await holder.execute(b"begin")
        await holder.execute(b"update mail_budgets set held = 0 where key = 'acme.example'")
        async with trio.open_nursery() as nursery:
            for number in (1, 2):
                nursery.start_soon(one, number)
            with trio.fail_after(PATIENCE):
                while await store.waiting() < 2:
                    await trio.sleep(0.01)
            await holder.execute(b"commit")
    assert sorted(counted, key=str) == [GO, refused(MAIL_DOMAIN)]


async def test_each_lane_counts_for_itself_and_the_unknown_use_up_their_network_alone(store: Store, budgets: MailBudgetRows) -> None:
    assert [await ask(budgets, of()) for _ in range(3)][2].verdict is BudgetVerdict.REFUSE
    for number in range(4):
        for known in (False, number == 0):
            network = of(f"198.51.{number}.0/24")
            assert await budgets.count(BudgetLane.RESERVE, network, NOW, may_wait=False, known=known) == GO
    assert (await budgets.count(BudgetLane.RESERVE, of("198.51.0.0/24"), NOW, may_wait=False)) == refused(BudgetScope.NETWORK)
    taken = await store.query("select key, taken from mail_budgets where lane = 'reserve' and scope <> 'network' order by key")
    assert taken == [{"key": "", "taken": 1}, {"key": "acme.example", "taken": 1}]
    assert (await rows(store))[NETWORK] == (2, 0, 1)


async def test_one_statement_counts_in_a_table_that_no_log_and_no_backup_has(store: Store, budgets: MailBudgetRows) -> None:
    trips = TripCounter()
    round_trips.set(trips)
    for verdict in (BudgetVerdict.GO, BudgetVerdict.GO, BudgetVerdict.REFUSE):
        assert (await ask(budgets, of())).verdict is verdict
    assert trips.count == 3
    assert await store.query("select relpersistence from pg_class where relname = 'mail_budgets'") == [{"relpersistence": "u"}]


async def test_a_clock_that_was_a_year_ahead_for_a_moment_keeps_no_mail_back(store: Store, budgets: MailBudgetRows) -> None:
    assert await ask(budgets, of(), NOW + timedelta(days=365)) == GO
    assert [await ask(budgets, of()) for _ in range(3)] == [GO, GO, refused(BudgetScope.NETWORK)]
    assert await ask(budgets, of(), NOW + HOUR) == GO
    assert (await rows(store))[NETWORK] == (1, 0, 1)
    # Two clocks on both sides of a full hour count together.
    assert await ask(budgets, of()) == GO
    assert (await rows(store))[NETWORK] == (2, 0, 1)


async def test_an_exception_lifts_one_budget_until_its_end(budgets: MailBudgetRows) -> None:
    budget = Budget(BudgetScope.NETWORK, NETWORK, 2)
    assert [await ask(budgets, of()) for _ in range(3)][2] == refused(BudgetScope.NETWORK)
    standing = await budgets.lift(budget, NOW + HOUR, NOW, 1)
    assert standing is not None
    assert (standing.held, standing.exempt_until, standing.size) == (1, NOW + HOUR, 2)
    # The wider budgets stay.
    assert [await ask(budgets, of()) for _ in range(2)] == [GO, refused(MAIL_DOMAIN)]
    assert await budgets.lift(Budget(MAIL_DOMAIN, "acme.example", 3), NOW + HOUR, NOW, 1) is None
    assert await budgets.lift(budget, NOW + 2 * HOUR, NOW, 1) is not None
    ended = await budgets.restore(standing.id, NOW)
    assert ended is not None
    assert ended.exempt_until == NOW + 2 * HOUR
    assert await budgets.restore(standing.id, NOW) is None
    assert await ask(budgets, of(domain="other.example")) == refused(BudgetScope.NETWORK)
    listed = await budgets.find_all(NOW - HOUR, NOW, 10)
    assert [(one.key, one.name, one.held) for one in listed] == [("acme.example", "acme.example", 1), (NETWORK, NETWORK, 2)]
    assert await budgets.find_all(NOW, NOW, 10) == []


async def test_a_new_day_counts_anew(budgets: MailBudgetRows) -> None:
    for _ in range(4):
        await ask(budgets, of())
    tomorrow = NOW + timedelta(days=1, minutes=1)
    for _ in range(3):
        await ask(budgets, of(), tomorrow)
    (one,) = await budgets.find_all(tomorrow - HOUR, tomorrow, 10)
    assert (one.held, one.held_since) == (1, tomorrow)
