"""Puzzles for programs, where a budget of mails is over: the refusal has one, and the request with its solution counts."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from core.domain.identity.guards.puzzles import LIFETIME, PARTS
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.adapters.widgets.maker_server import widget_maker, with_widget
from tests.http.client import Client, Received
from tests.http.conftest import postern_on, with_keys
from tests.http.pages.solving import solve
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited
from tests.usecases.set_clock import SetClock

OVER: Final = {"POSTERN_MAILS_PER_NETWORK": "1"}
ASKING: Final[Mapping[str, Mapping[str, str]]] = {
    "/api/auth/register": {"email": "ada@example.org", "password": PASSWORD},
    "/api/auth/resend-verification": {"email": "ada@example.org"},
    "/api/auth/forgot-password": {"email": "ada@example.org"},
    "/api/auth/magic-link": {"email": "ada@example.org"},
}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, OVER) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
async def door(postern: Postern) -> Client:
    return await used_up(postern)


async def used_up(postern: Postern) -> Client:
    client = unlimited(postern)
    assert (await client.post("/api/auth/forgot-password", {"email": "somebody@example.org"})).status == 200
    return client


def solution(refused: Received) -> list[tuple[str, str]]:
    puzzle = refused.json()["puzzle"]
    assert puzzle["parts"] == PARTS
    return [("x-puzzle-challenge", puzzle["challenge"]), ("x-puzzle-solution", solve(puzzle["challenge"], puzzle["bits"] + 3))]


async def refused_at(client: Client, place: str, **changed: str) -> Received:
    answer = await client.post(place, {**ASKING[place], **changed})
    assert answer.status == 429
    return answer


@pytest.mark.parametrize("place", ASKING)
async def test_the_refusal_has_a_puzzle_and_its_solution_counts_once(door: Client, people: People, place: str) -> None:
    refused = await refused_at(door, place)
    assert refused.json()["error_code"] == "RATE_LIMIT_EXCEEDED"
    assert refused.header("retry-after") is not None
    headers = solution(refused)
    assert (await door.post(place, ASKING[place], headers=headers)).status in {200, 201}
    # Twice, it is as none, and the refusal has a new one.
    again = await door.post(place, {**ASKING[place], "email": "ada@example.org"}, headers=headers)
    assert again.status == 429
    assert again.json()["puzzle"]["challenge"] != refused.json()["puzzle"]["challenge"]
    assert len(people.rows("select from users")) == (1 if place == "/api/auth/register" else 0)


async def test_the_mail_goes_out(door: Client, postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    postbox = Postbox(postern)
    await postbox.empty()
    refused = await refused_at(door, "/api/auth/forgot-password")
    await door.post("/api/auth/forgot-password", ASKING["/api/auth/forgot-password"], headers=solution(refused))
    assert [mail.to for mail in await postbox.empty()] == ["ada@example.org"]


async def test_a_solution_is_of_its_address_network_kind_and_time(door: Client, postern: Postern) -> None:
    place = "/api/auth/forgot-password"
    headers = solution(await refused_at(door, place))

    async def status(client: Client, where: str = place, email: str = "ada@example.org") -> int:
        return (await client.post(where, {"email": email}, headers=headers)).status

    assert await status(door, email="eve@example.org") == 429
    assert await status(door, "/api/auth/magic-link") == 429
    neighbour = unlimited(postern, address="203.0.113.9")
    assert (await neighbour.post(place, {"email": "bob@example.org"})).status == 200
    assert await status(neighbour) == 429
    late = SetClock(postern.foundation.clock.now() + LIFETIME)
    puzzles = replace(postern.identity.puzzles, clock=late)
    assert await status(unlimited(replace(postern, identity=replace(postern.identity, puzzles=puzzles)))) == 429
    assert await status(door) == 200


async def test_a_page_takes_no_solution_of_a_program(door: Client, postern: Postern) -> None:
    from tests.http.pages.test_puzzles import browser  # noqa: PLC0415 - that module's tests have another Postern

    refused = await refused_at(door, "/api/auth/forgot-password")
    (_, challenge), (_, solved) = solution(refused)
    tab = await browser(postern).tab().open("/ui/forgot-password")
    await tab.send(email="ada@example.org", challenge=challenge, solution=solved)
    assert tab.status == 400


async def test_a_flood_gets_harder_ones_and_writes_nothing(door: Client, people: People) -> None:
    bits = [(await refused_at(door, "/api/auth/register", email=f"a{n}@example.org")).json()["puzzle"]["bits"] for n in range(45)]
    assert bits[0] == 11
    assert bits[-1] > 11
    assert sorted(bits) == bits
    for headers in ([("x-puzzle-solution", "0.0.0.0.0.0.0.0")], [("x-puzzle-challenge", "A" * 9000), ("x-puzzle-solution", "1" * 9000)]):
        answer = await door.post("/api/auth/register", ASKING["/api/auth/register"], headers=headers)
        assert answer.status in {429, 431}
    assert people.rows("select from users union all select from used_puzzles") == []


async def test_solved_budgets_end_as_well_and_then_nothing_more_is_offered(door: Client) -> None:
    place = "/api/auth/register"
    assert (await door.post(place, ASKING[place], headers=solution(await refused_at(door, place)))).status == 200
    other = {**ASKING[place], "email": "bob@example.org"}
    refused = await door.post(place, other)
    answer = await door.post(place, other, headers=solution(refused))
    assert answer.status == 429
    assert "puzzle" not in answer.json()


async def test_where_puzzles_are_off_or_a_widget_is_shown_there_is_none(database_url: str, tmp_path: Path, people: People) -> None:
    async with postern_on(database_url, tmp_path / "off", {**OVER, "POSTERN_PUZZLES": "off"}) as off:
        assert "puzzle" not in (await refused_at(await used_up(off), "/api/auth/register")).json()
    people.change("delete from mail_budgets")
    async with widget_maker() as maker, postern_on(database_url, tmp_path / "widget", OVER) as opened:
        client = await used_up(with_widget(opened, maker))
        assert "puzzle" not in (await refused_at(client, "/api/auth/register")).json()


async def test_other_refusals_have_none(door: Client) -> None:
    body: Any = (await door.post("/api/auth/register", {"email": "none", "password": PASSWORD})).json()
    assert set(body) == {"error", "error_code", "timestamp"}
