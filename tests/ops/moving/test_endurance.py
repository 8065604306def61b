"""The half hour's own instruments: a visitor of all routes, a watcher of what a server holds, and a judge of what an outage excuses."""

import pytest
import trio

from entrypoints.http.routes import ROUTES
from ops.bench.harness import Server
from ops.bench.load import Answer
from ops.drill.__main__ import main
from ops.drill.endurance import ERRORS_AFTER, ServerFaults, figures, outside
from ops.drill.failover import Round
from ops.drill.faults import FAULTS, Outage
from ops.drill.truth import Truth
from ops.drill.visiting import LEFT_OUT, NOBODY, Broke, Visitor
from ops.drill.watching import Held, Watcher

ORGANIZATION = "acme"
OUTAGE = Outage(10.0, 20.0)


@pytest.fixture
def server(tmp_path: object) -> Server:
    return Server(None, 8000, tmp_path, tmp_path, {})  # type: ignore[arg-type] # nobody starts it


@pytest.fixture
def visitor(server: Server) -> Visitor:
    return Visitor(server, {"Authorization": "Bearer t"}, {"Cookie": "c"}, {"org_slug": ORGANIZATION})


def answer(status: int) -> Answer:
    return Answer(status, {}, b"", 0.1)


def round_with(*, lost: int = 0) -> Round:
    truth = Truth({"sign-in": lost}, {}, {}, 0, 0)
    return Round(OUTAGE, (), {}, {}, truth, {"mailer": 1.0}, set(), 0.0, 0.0)


def test_the_visitor_knows_every_route_and_each_place_in_it(visitor: Visitor) -> None:
    assert {one.path for one in visitor.routes} == {one.path for one in ROUTES} - LEFT_OUT
    targets = [visitor.target(one, known=known) for one in visitor.routes for known in (True, False)]
    assert not [target.path for target in targets if "{" in target.path]
    assert {target.method for target in targets} >= {"GET", "POST", "PATCH", "PUT", "DELETE"}


def test_only_reading_names_what_is_there(visitor: Visitor) -> None:
    for one in visitor.routes:
        target = visitor.target(one, known=True)
        if "{org_slug}" in one.path:
            assert (ORGANIZATION in target.path) == (one.method == "GET")
            assert (NOBODY in target.path) or one.method == "GET"
        assert bool(target.body) == (one.method not in {"GET", "HEAD"})
        assert ("Cookie" in target.headers) == one.path.startswith("/ui")
        assert not {"Cookie", "Authorization"} & visitor.target(one, known=False).headers.keys()


async def test_errors_of_ours_are_kept_and_refusals_are_not(visitor: Visitor) -> None:
    for status in (200, 303, 401, 404, 429, 501, 500, 503):
        visitor.note("GET /x", trio.current_time(), answer(status))
    visitor.note("GET /x", trio.current_time(), None)
    assert [one.code for one in visitor.broke] == ["500", "503", "no answer"]
    assert visitor.answers.total() == 9


@pytest.mark.parametrize(
    ("began", "ended", "excused"),
    [
        (5.0, 9.0, False),
        (5.0, 10.5, True),
        (12.0, 13.0, True),
        (20.0 + ERRORS_AFTER - 0.1, 40.0, True),
        (20.0 + ERRORS_AFTER + 0.1, 40.0, False),
    ],
)
def test_an_outage_excuses_what_it_touches(began: float, ended: float, excused: bool) -> None:
    broke = [Broke("GET /x", "503", began, ended)]
    assert bool(outside(broke, [OUTAGE])) != excused


def test_growth_loss_and_errors_break_their_bars(server: Server, visitor: Visitor) -> None:
    visitor.rounds = 1
    flat, growing = Watcher(server, [Held(100.0, 50)] * 30), Watcher(server, [Held(100.0 + one, 50 + one) for one in range(30)])
    good = {one.what: one.held for one in figures([("kill", round_with())], visitor, flat)}
    assert all(good.values())
    visitor.broke = [Broke("GET /x", "500", 12.0, 12.1), Broke("GET /y", "no answer", 30.0, 31.0)]
    bad = {one.what for one in figures([("kill", round_with(lost=1))], visitor, growing) if not one.held}
    assert bad == {
        "answers 500",
        "failed outside of every outage",
        "answered as done and lost",
        "memory, last third against first",
        "more descriptors in the last third",
    }


def test_the_faults_of_the_database_and_of_the_server_take_turns(server: Server) -> None:
    assert ServerFaults(server).all().keys() == FAULTS.keys() | {"hang", "connections"}


def test_the_drill_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["endurance", "--help"])
    assert ended.value.code == 0
    assert "fault every" in " ".join(capsys.readouterr().out.split())
