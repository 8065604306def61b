"""Lists by cursor (RFC 9865): where the other system offers them, and what cannot be believed of them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from core.domain.federation.provisioning.progress import LONGEST_TURN
from ops.stand_ins.fake_remote_system import Arrived, FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import AWS, AWS_BEFORE, RemoteDialect
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.federation.provisioning.test_rarer_runs import now
from tests.http.federation.provisioning.test_turns import takes, turns
from tests.usecases.set_clock import SetClock

CURSORS: Final = RemoteDialect(cursors=True, pages=False, longest_page=5)
WITHOUT_FILTERS: Final = RemoteDialect(cursors=True, pages=False, longest_page=5, filters=frozenset())
PEOPLE: Final = 12
EVERYBODY: Final = PEOPLE + 1
"""The boss, too."""


def asked(far: FakeRemoteSystem, name: str) -> list[str]:
    """The values of a parameter of the lists that were asked for, in their order."""
    return [one.query[name] for one in far.arrived if one.method == "GET" and name in one.query and "filter" not in one.query]


def asked_each(far: FakeRemoteSystem) -> int:
    return sum(one.method == "GET" and (one.path.rstrip("/").count("/Users/") == 1 or "filter" in one.query) for one in far.arrived)


def members(scene: ProvisioningScene) -> None:
    for number in range(PEOPLE):
        name = f"p{number}"
        scene.member(f"{name}@acme.example", given_name=name, family_name="Q", name=f"{name} Q")
    scene.people.change("update users set given_name = 'Boss', family_name = 'B', name = 'Boss B' where id = %s", scene.boss.user)


async def arrived(scene: ProvisioningScene, far: FakeRemoteSystem, dialect: RemoteDialect, **columns: Any) -> None:
    """Everybody is there, and the requests until then are forgotten."""
    far.dialect = dialect
    members(scene)
    scene.active(**columns)
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"made": EVERYBODY})
    assert far.doubles() == []
    far.forget_requests()


@pytest.mark.parametrize("number", [True, False])
async def test_a_list_by_cursor_is_read_to_its_end(scene: ProvisioningScene, far: FakeRemoteSystem, *, number: bool) -> None:
    await arrived(scene, far, RemoteDialect(cursors=True, pages=number, longest_page=5))
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    first, second, third = asked(far, "cursor")
    assert (first, second.partition("/")[0], third.partition("/")[0]) == ("", "5", "10")
    assert asked(far, "startIndex") == []
    assert asked_each(far) == 0
    # What is different there is seen in the list, and whoever is not in it is made again.
    theirs = far.everybody()
    far.people.keep({**theirs[7], "displayName": "Somebody else"})
    far.people.drop(theirs[11]["id"])
    assert scene.counts(await scene.step()) == {"overwritten": 1, "made": 1, "unchanged": EVERYBODY - 2}


async def test_amazon_is_asked_for_its_list_and_not_for_each(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await arrived(scene, far, AWS, preset="aws")
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert [(one.method, one.path.rpartition("/")[2]) for one in far.arrived] == [("GET", "Users")]


async def test_an_older_endpoint_of_amazon_is_asked_for_each(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await arrived(scene, far, AWS_BEFORE, preset="aws")
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert (asked(far, "cursor"), asked(far, "startIndex"), asked_each(far) >= EVERYBODY) == ([""], [], True)


def _refusing_cursors(request: Arrived) -> RemoteAnswer | None:
    return RemoteAnswer(400, {"detail": "cursor is not known"}) if "cursor" in request.query else None


@pytest.mark.parametrize("answers", [None, _refusing_cursors])
async def test_a_system_that_offers_cursors_and_takes_none_is_asked_by_number(
    scene: ProvisioningScene, far: FakeRemoteSystem, answers: Callable[[Arrived], RemoteAnswer | None] | None
) -> None:
    await arrived(scene, far, RemoteDialect(says_cursors=True, longest_page=5))
    far.answers = answers
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert (asked(far, "cursor"), asked(far, "startIndex")) == ([""], ["1", "6", "11"])


@pytest.mark.parametrize(
    "configuration",
    [
        RemoteAnswer(404),
        RemoteAnswer(401),
        RemoteAnswer(500),
        RemoteAnswer(200, b"<html>"),
        RemoteAnswer(200, []),
        RemoteAnswer(200, {"pagination": []}),
        RemoteAnswer(200, {"pagination": {"cursor": "true"}}),
        RemoteAnswer(302, b"", {"location": "https://elsewhere.example/"}),
    ],
    ids=lambda one: f"{one.status} {one.body}",
)
async def test_a_configuration_that_says_nothing_changes_nothing(
    scene: ProvisioningScene, far: FakeRemoteSystem, configuration: RemoteAnswer
) -> None:
    await arrived(scene, far, RemoteDialect(longest_page=5))
    far.answers = lambda request: configuration if request.path.endswith("/ServiceProviderConfig") else None
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert asked(far, "startIndex") == ["1", "6", "11"]
    assert scene.people.rows("select from provisioning_exchanges where has_failed") == []


async def test_a_cursor_that_expires_once_begins_the_list_anew(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await arrived(scene, far, CURSORS)
    refused: list[str] = []

    def answer(request: Arrived) -> RemoteAnswer | None:
        cursor = request.query.get("cursor", "")
        if not cursor.startswith("10/") or refused:
            return None
        refused.append(cursor)
        return RemoteAnswer(400, {"scimType": "expiredCursor"})

    far.answers = answer
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert [one.partition("/")[0] for one in asked(far, "cursor")] == ["", "5", "10", "", "5", "10"]


@pytest.mark.parametrize(("dialect", "state"), [(CURSORS, ("done", None)), (WITHOUT_FILTERS, ("failed", "repeated_page"))])
async def test_cursors_that_always_expire_are_given_up(
    scene: ProvisioningScene, far: FakeRemoteSystem, dialect: RemoteDialect, state: tuple[str, str | None]
) -> None:
    """Each person is asked for, where filters find them."""
    await arrived(scene, far, CURSORS)
    far.dialect = dialect
    far.answers = lambda request: RemoteAnswer(400, {"scimType": "expiredCursor"}) if request.query.get("cursor") else None
    run = await scene.step()
    assert (run["state"], run["why"]) == state
    assert len(asked(far, "cursor")) < 12
    assert far.doubles() == []


async def test_the_next_turn_goes_on_at_the_cursor(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    clock = SetClock(now())
    await arrived(scene, far, CURSORS)
    far.answers = takes(clock, LONGEST_TURN.total_seconds() * 0.6, lambda request: "cursor" in request.query)
    run, number = await turns(scene, clock)
    assert (run["state"], scene.counts(run)) == ("done", {"unchanged": EVERYBODY})
    assert number > 1
    assert [one.partition("/")[0] for one in asked(far, "cursor")] == ["", "5", "10"]


def _listing(**more: Any) -> Callable[[Arrived], RemoteAnswer | None]:
    def answer(request: Arrived) -> RemoteAnswer | None:
        return RemoteAnswer(200, {"Resources": [], **more}) if "cursor" in request.query else None

    return answer


_SECRET: Final = "cursor-of-ada@example.org"


def _one_more(request: Arrived) -> RemoteAnswer | None:
    """The same person on each page, with another cursor."""
    if "cursor" not in request.query:
        return None
    cursor = f"{request.query['cursor']}x"
    return RemoteAnswer(200, {"Resources": [{"id": "1", "userName": "p0@acme.example"}], "nextCursor": cursor})


HOSTILE: Final[Mapping[str, tuple[Callable[[Arrived], RemoteAnswer | None], str]]] = {
    "empty pages without an end": (_listing(nextCursor=_SECRET), "list_too_long"),
    "one person without an end": (_one_more, "repeated_page"),
    "a cursor that is too long": (_listing(nextCursor="x" * 2001), "malformed_answer"),
    "a cursor that would end the line": (_listing(nextCursor="x\r\nhost: evil"), "malformed_answer"),
    "a cursor of other letters": (_listing(nextCursor="\u00fc"), "malformed_answer"),
    "a cursor that is no text": (_listing(nextCursor=5), "malformed_answer"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_list_ends(scene: ProvisioningScene, far: FakeRemoteSystem, name: str) -> None:
    answers, why = HOSTILE[name]
    await arrived(scene, far, CURSORS)
    far.dialect, far.answers = WITHOUT_FILTERS, answers
    run = await scene.step()
    assert (run["state"], run["why"]) == ("failed", why)
    assert len(far.arrived) < 40
    assert far.writes() == []
    # A cursor is theirs, and may say whom it stands for.
    exchanges = str(scene.people.rows("select * from provisioning_exchanges"))
    assert _SECRET not in exchanges


async def test_a_cursor_cannot_lead_elsewhere(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await arrived(scene, far, CURSORS)
    strange = 'x&filter=userName eq "a"#/../../other?startIndex=1'
    pages = iter([{"Resources": [], "nextCursor": strange}])

    def answer(request: Arrived) -> RemoteAnswer | None:
        return RemoteAnswer(200, next(pages, {"Resources": []})) if "cursor" in request.query else None

    far.answers = answer
    await scene.step()
    assert asked(far, "cursor")[:2] == ["", strange]
    assert {one.path for one in far.arrived if "cursor" in one.query} == {far.arrived[1].path}
