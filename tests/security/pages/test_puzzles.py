"""Puzzles of pages: used twice, elsewhere, late, by half, in two processes, under other keys; and floods that solve none."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from adapters.crypto.key_ring import EncryptionKey
from core.domain.identity.guards.puzzles import LONGEST_CHALLENGE, Puzzle, PuzzleAnswer, PuzzleDemand, PuzzlePurpose, PuzzleUnsolved
from core.domain.identity.guards.traffic import Crossing
from core.frozen import replace
from core.usecases.identity.guards.puzzles import Puzzles
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.conftest import postern_on
from tests.http.pages.solving import solve
from tests.http.pages.test_puzzles import asks, make_mails_busy, make_sign_ins_busy, solution_of
from tests.http.people import People
from tests.http.signing_in import PASSWORD, UNLIMITED, unlimited
from tests.patience import PATIENCE
from tests.usecases.set_clock import SetClock

database_url, postern, people = http.database_url, http.postern, http.people

HERE = Crossing("192.0.2.1")
DEMAND = PuzzleDemand(PuzzlePurpose.REGISTRATION).at_least(10)
FORM = "the token of the form"


@pytest.fixture
def puzzles(postern: Postern) -> Puzzles:
    return postern.identity.puzzles


@pytest.fixture
async def another_process(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path / "another") as opened:
        yield opened


def solved(puzzles: Puzzles, demand: PuzzleDemand = DEMAND) -> PuzzleAnswer:
    puzzle = puzzles.issue(demand, FORM)
    assert puzzle is not None
    return PuzzleAnswer(puzzle.challenge, solve(puzzle.challenge, puzzle.bits))


async def why(
    puzzles: Puzzles, answer: PuzzleAnswer, demand: PuzzleDemand = DEMAND, binding: str = FORM, *, crossing: Crossing = HERE
) -> str:
    """Why it is refused; empty if it counts."""
    try:
        await puzzles.check(demand, binding, answer, crossing)
    except PuzzleUnsolved as refusal:
        return refusal.reason
    return ""


async def test_a_solution_counts_once(puzzles: Puzzles) -> None:
    answer = solved(puzzles)
    assert [await why(puzzles, answer) for _ in range(3)] == ["", "used", "used"]


async def test_of_two_processes_and_many_tries_at_once_one_wins(puzzles: Puzzles, another_process: Postern) -> None:
    answer = solved(puzzles)
    reasons: list[str] = []

    async def race(one: Puzzles) -> None:
        reasons.append(await why(one, answer))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(race, puzzles)
                nursery.start_soon(race, another_process.identity.puzzles)
    assert sorted(reasons) == ["", *["used"] * 19]


async def test_no_other_flow_purpose_or_moment_takes_it_and_it_stays_good_for_its_own(puzzles: Puzzles) -> None:
    answer = solved(puzzles)
    clock = SetClock(puzzles.clock.now() + timedelta(minutes=5))
    assert await why(puzzles, answer, binding="another form") == "flow"
    assert await why(puzzles, answer, PuzzleDemand(PuzzlePurpose.SIGN_IN).at_least(10)) == "purpose"
    assert await why(replace(puzzles, clock=clock), answer) == "late"
    assert await why(puzzles, answer, DEMAND.at_least(11)) == "bits"
    assert await why(puzzles, answer) == ""


async def test_fewer_bits_than_the_challenge_says(puzzles: Puzzles) -> None:
    puzzle = puzzles.issue(DEMAND.at_least(16), FORM)
    assert puzzle is not None
    answer = PuzzleAnswer(puzzle.challenge, solve(puzzle.challenge, 10))
    assert await why(puzzles, answer, DEMAND.at_least(16)) == "wrong"
    # Nor does it count where fewer would be enough.
    assert await why(puzzles, answer) == "wrong"


async def test_challenges_under_other_keys_or_of_somebodys_own_making(puzzles: Puzzles, database_url: str, tmp_path: Path) -> None:
    keys = {"POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"x" * 32).line()}
    async with postern_on(database_url, tmp_path / "foreign", keys) as foreign:
        assert await why(puzzles, solved(foreign.identity.puzzles)) == "foreign"
    good = solved(puzzles)
    altered = good.challenge[:-1] + ("A" if good.challenge[-1] != "A" else "B")
    waited = puzzles.ticket(HERE, "")
    for challenge in ("", "A", "\ud800", "ümlaut", altered, waited, "A" * LONGEST_CHALLENGE, "A" * 10**6):
        assert await why(puzzles, PuzzleAnswer(challenge, good.solution)) == "foreign"
    # A challenge is no ticket of those who wait.
    clock = SetClock(puzzles.clock.now() + timedelta(hours=1))
    for ticket in (good.challenge, "A" * 300, "%"):
        assert await why(replace(puzzles, clock=clock), PuzzleAnswer(waited=ticket)) == "none"


async def test_whoever_has_a_48_waits_an_hour_for_one_form_and_not_for_256(puzzles: Puzzles) -> None:
    later = replace(puzzles, clock=SetClock(puzzles.clock.now() + timedelta(hours=1)))
    reasons = []
    for number in range(4):
        place = Crossing(f"2001:db8:1:{number << 8:x}::1")
        reasons.append(await why(later, PuzzleAnswer(waited=puzzles.ticket(place, "")), crossing=place))
    assert reasons == ["", "none", "none", "none"]


async def test_whoever_is_asked_for_nothing_leaves_the_hour_to_a_neighbour_who_waits(database_url: str, tmp_path: Path) -> None:
    async with postern_on(database_url, tmp_path / "wide", {"POSTERN_MAILS_PER_NETWORK": "0"}) as postern:
        await whoever_is_asked_for_nothing(postern)


async def whoever_is_asked_for_nothing(postern: Postern) -> None:
    clock = SetClock(postern.foundation.clock.now())
    postern = replace(postern, identity=replace(postern.identity, puzzles=replace(postern.identity.puzzles, clock=clock)))
    await make_mails_busy(postern)
    somebody, neighbour = Tabs(unlimited(postern)), Tabs(unlimited(postern))
    for tabs in (somebody, neighbour):
        await tabs.tab().open("/ui/forgot-password")
    clock.at += timedelta(hours=1)
    tab = await somebody.tab().open("/ui/forgot-password")
    assert not asks(tab)
    assert (await tab.send(email="ada@example.org")).place.startswith("/ui/check-mail")
    await make_mails_busy(postern)
    tab = await neighbour.tab().open("/ui/forgot-password")
    assert asks(tab)
    assert (await tab.send(email="ada@example.org")).place.startswith("/ui/check-mail")


async def test_an_enormous_field_is_refused_before_it_is_read(postern: Postern) -> None:
    tabs = Tabs(unlimited(postern))
    tab = await tabs.tab().open("/ui/register")
    form = tab.page.forms[0]
    for field in ("solution", "challenge"):
        answer = await tabs.request("POST", form.action, {**form.fields, "email": "a@example.org", "password": PASSWORD, field: "0" * 500})
        assert answer.status == 400


async def test_a_flood_that_solves_nothing_writes_nothing_and_hashes_nothing(postern: Postern, people: People) -> None:
    await make_mails_busy(postern)
    people.change("delete from flows")
    tabs = Tabs(unlimited(postern))
    tab = await tabs.tab().open("/ui/register")
    form = tab.page.forms[0]
    for name, value in (("solution", ""), ("solution", "0.0.0.0.0.0.0.0"), ("challenge", "")):
        trips = postern.foundation.database.count_round_trips()
        for _ in range(20):
            answer = await tabs.request("POST", form.action, {**form.fields, "email": "a@example.org", "password": PASSWORD, name: value})
            assert answer.status == 400
        trips.stop()
        # Not even a look: a hash would have had its answer written.
        assert trips.count == 0
    assert people.rows("select from users union all select from flows union all select from used_puzzles") == []


async def test_a_flood_that_makes_up_an_organization_each_time_is_counted_together(postern: Postern) -> None:
    # On a busy machine the requests take a minute, in which a part of the count fades.
    puzzles = replace(postern.identity.puzzles, clock=SetClock(postern.foundation.clock.now()))
    postern = replace(postern, identity=replace(postern.identity, puzzles=puzzles))
    application = build_application(postern, UNLIMITED)
    tab = await Tabs(Client(application, "192.0.2.1")).tab().open("/ui/register")
    form = tab.page.forms[0]
    places = len(postern.identity.puzzles.places)
    for number in range(301):
        tabs = Tabs(Client(application, f"10.{number // 200}.{number % 200}.1"))
        tabs.cookies = tab.tabs.cookies
        await tabs.request("POST", form.action, {**form.fields, "email": "none", "password": PASSWORD, "org_slug": f"made-up-{number}"})
    # An address and its network, each, and the installation's own pages.
    assert len(postern.identity.puzzles.places) == places + 2 * 301 + 1
    assert asks(await tab.open("/ui/register"))


async def test_an_address_that_is_none_uses_no_solution_up(postern: Postern) -> None:
    await make_mails_busy(postern)
    tab = await Tabs(unlimited(postern)).tab().open("/ui/register")
    fields = {**tab.page.forms[0].fields, "password": PASSWORD, "solution": solution_of(tab)}
    answers = [await tab.tabs.request("POST", "/ui/register", {**fields, "email": email}) for email in ("none", "ada@example.org")]
    assert [answer.status for answer in answers] == [400, 303]


async def test_the_puzzle_comes_before_the_password_is_hashed(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(postern)
    before = people.rows("select count(*) as number from login_events")
    tabs = Tabs(unlimited(postern))
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password="a wrong guess")
    # Nobody has looked at the password: a failed sign-in would stand in the log.
    assert tab.status == 400
    assert people.rows("select count(*) as number from login_events") == before


async def test_off_asks_for_nothing_however_busy(database_url: str, tmp_path: Path) -> None:
    async with postern_on(database_url, tmp_path / "off", {"POSTERN_PUZZLES": "off"}) as opened:
        await make_mails_busy(opened)
        puzzles = opened.identity.puzzles
        assert puzzles.demand(PuzzlePurpose.RESET, HERE).bits == 0
        assert puzzles.issue(DEMAND, FORM) is None
        assert await why(puzzles, PuzzleAnswer()) == ""


async def test_what_the_page_shows_tells_nothing_of_the_keys(puzzles: Puzzles) -> None:
    one, other = puzzles.issue(DEMAND, FORM), puzzles.issue(DEMAND, FORM)
    assert isinstance(one, Puzzle)
    assert isinstance(other, Puzzle)
    assert one.challenge != other.challenge
    assert "registration" not in one.challenge
