"""A run works in turns: a slow system takes nobody's place, and the next turn goes on from where the last one was over."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
import trio

from actors.foundation import Mailbox
from actors.provisioner import Provisioner
from core.domain.federation.provisioning.progress import LONGEST_RUN, LONGEST_TURN
from ops.stand_ins.fake_remote_system import Arrived, FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import RemoteDialect
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.federation.provisioning.test_connections import PATH
from tests.http.federation.provisioning.test_rarer_runs import crowd, now, run_at
from tests.patience import PATIENCE
from tests.usecases.set_clock import SetClock

_CONNECTION: Final = (
    "select leased_until, turn_over_at is not null as ran_out, failing_since is not null as fails from provisioning_connections"
)
_KEPT: Final = "select distinct name from provisioning_progress"
_MORE: Final = 40


def is_list(request: Arrived) -> bool:
    return request.method == "GET" and "startIndex" in request.query


def takes(clock: SetClock, seconds: float, when: Callable[[Arrived], bool]) -> Callable[[Arrived], RemoteAnswer | None]:
    """Each such request takes so long, and is answered honestly."""

    def answer(request: Arrived) -> RemoteAnswer | None:
        if when(request):
            clock.at += timedelta(seconds=seconds)
        return None

    return answer


async def turns(scene: ProvisioningScene, clock: SetClock) -> tuple[dict[str, Any], int]:
    """The run that is due, to its end. Returns it, and how many turns it had."""
    run, number = await run_at(scene, clock), 1
    while run["state"] == "running":
        assert scene.people.rows(_CONNECTION) == [{"leased_until": None, "ran_out": True, "fails": False}]
        assert scene.people.rows(_KEPT) != []
        run, number = await run_at(scene, clock, whole=False), number + 1
        assert number < _MORE
    assert scene.people.rows(_KEPT) == [], "nothing is kept of a run that has ended"
    return run, number


async def test_two_slow_systems_of_one_tenant_leave_a_place_to_others(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    goes_on = threading.Event()

    def answers_late(request: Arrived) -> RemoteAnswer | None:
        if is_list(request):
            goes_on.wait()
        return None

    far.answers = answers_late
    scene.active(service=scene.shop)
    scene.active(service=scene.app)
    with FakeRemoteSystem(token=far.token) as theirs:
        provisioner = Provisioner(scene.keeping, Mailbox(), metrics=scene.keeping.metrics, spread=lambda: 0.0, interval=0.1)
        try:
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    await nursery.start(provisioner.run)
                    while not scene.people.rows("select from provisioning_connections where leased_until is not null"):
                        await trio.sleep(0.01)
                    scene.active(tenant=scene.globex, service=scene.theirs, base_url=theirs.url)
                    await theirs.met(lambda one: bool(one.arrived))
                    held = scene.people.rows(
                        "select org_id, count(*) as count from provisioning_connections where leased_until > now() group by org_id"
                    )
                    nursery.cancel_scope.cancel()
        finally:
            goes_on.set()
    assert {row["org_id"]: row["count"] for row in held}.get(scene.acme.id) == 1, "one place of a tenant at most"


async def test_whoever_used_up_a_turn_goes_behind_all_that_wait(scene: ProvisioningScene) -> None:
    async def next_one() -> str:
        (work,) = await scene.keeping.claim_due(1)
        scene.people.change("update provisioning_connections set leased_until = null where id = %s", work.connection)
        return f"{work.organization_slug} {work.service_slug}"

    shop = scene.active(service=scene.shop)
    scene.active(service=scene.app)
    scene.active(tenant=scene.globex, service=scene.theirs)
    scene.people.change("update provisioning_connections set turn_over_at = now() - interval '1 hour' where id = %s", shop)
    # Round and round, though the one whose turn ran out waits for the longest time.
    assert {await next_one(), await next_one()} == {"acme app", "globex app"}
    assert {await next_one(), await next_one()} == {"acme app", "globex app"}
    scene.people.change("update provisioning_connections set whole_due_at = null where id <> %s", shop)
    assert await next_one() == "acme shop"


async def test_of_a_tenant_one_connection_is_under_way(scene: ProvisioningScene) -> None:
    scene.active(service=scene.shop)
    scene.active(service=scene.app)
    scene.active(tenant=scene.globex, service=scene.theirs)
    assert sorted(one.organization_slug for one in await scene.keeping.claim_due(10)) == ["acme", "globex"]
    assert list(await scene.keeping.claim_due(10)) == []
    # A process that was killed holds nobody up for longer than its lease.
    scene.people.change("update provisioning_connections set leased_until = now() - interval '1 second' where leased_until is not null")
    assert len(await scene.keeping.claim_due(10)) == 2


async def test_a_list_goes_on_from_where_it_was(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    far.dialect = RemoteDialect(longest_page=3)
    theirs = [far.add(f"p{number}@acme.example") for number in range(6)]
    for number in range(8):
        scene.member(f"p{number}@acme.example")
    for number in range(12):
        far.add(f"stranger{number}@elsewhere.example")
    scene.active()
    clock = SetClock(now())
    far.answers = takes(clock, 50, is_list)
    run, number = await turns(scene, clock)
    assert number == 3
    assert [one.query["startIndex"] for one in far.arrived if is_list(one)] == ["1", "4", "7", "10", "13", "16"]
    assert (run["state"], scene.counts(run)) == ("done", {"matched": 6, "made": 3}), "whom the first turn has read is known in the second"
    assert {scene.there()[f"p{number}@acme.example"]["far_id"] for number in range(6)} == {one["id"] for one in theirs}
    assert far.doubles() == []
    far.answers = None
    assert scene.counts(await scene.step()) == {"unchanged": 9}


async def test_a_plan_of_several_turns_is_that_of_one(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    far.dialect = RemoteDialect(longest_page=2)
    for number in range(20):
        scene.member(f"p{number}@acme.example")
    for number in (1, 5, 9):
        far.add(f"p{number}@acme.example")
    scene.active(agreed=False)
    at_once = await scene.step()
    clock = SetClock(now())
    far.answers = takes(clock, 90, is_list)
    run, number = await turns(scene, clock)
    assert (number, run["kind"], run["state"]) == (2, "plan", "waiting")
    assert (scene.counts(run), run["digest"], scene.named(run)) == (scene.counts(at_once), at_once["digest"], scene.named(at_once))
    assert far.writes() == []


async def test_whoever_was_sent_is_not_counted_twice(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(31):
        scene.member(f"p{number:02}@acme.example")
    scene.active()
    clock = SetClock(now())
    far.answers = takes(clock, 13, lambda request: request.method == "POST")
    run, number = await turns(scene, clock)
    assert number > 2
    assert (run["state"], scene.counts(run)) == ("done", {"made": 32})
    assert len({email for _, _, email in scene.named(run)}) == len(scene.named(run)) == 32
    assert (len(far.everybody()), far.doubles()) == (32, [])


async def test_ends_go_on_too(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    people = await crowd(scene, 20)
    for one in people[:12]:
        scene.leaves(one)
    stop = await scene.step()
    assert (stop["state"], stop["held_back"]) == ("waiting", 12)
    scene.agree(stop)
    clock = SetClock(now() + timedelta(seconds=1))
    far.answers = takes(clock, 25, lambda request: request.method == "PATCH")
    run, number = await turns(scene, clock)
    assert number > 1
    assert (run["state"], scene.counts(run)) == ("done", {"ended": 12, "unchanged": 9})
    assert len({one for _, _, one in scene.named(run)}) == len(scene.named(run)) == 12
    assert len(far.active()) == 9


async def test_a_connection_ends_everybody_in_turns(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    people = await crowd(scene, 40)
    scene.people.change("update provisioning_connections set state = 'ending', whole_due_at = null")
    far.refuses = {one.email: (400, "mutability", "stays") for one in people[:3]}
    clock = SetClock(now())
    far.answers = takes(clock, 13, lambda request: request.method == "PATCH")
    far.forget_requests()
    for _ in range(_MORE):
        await run_at(scene, clock, whole=False)
        if not scene.people.rows(_CONNECTION)[0]["ran_out"]:
            break
    assert scene.people.rows(_CONNECTION)[0]["fails"], "three are still there"
    assert len(far.writes()) == 41, "nobody is asked for twice in one round"
    far.refuses = {}
    await run_at(scene, clock, whole=False)
    assert (far.active(), scene.people.rows("select from provisioning_connections")) == (set(), [])


async def test_single_changes_go_on_too(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 2)
    for number in range(25):
        scene.member(f"new{number:02}@acme.example")
    clock = SetClock(now())
    far.answers = takes(clock, 13, lambda request: request.method == "POST")
    await run_at(scene, clock, whole=False)
    assert scene.people.rows(_CONNECTION) == [{"leased_until": None, "ran_out": True, "fails": False}]
    while scene.people.rows(_CONNECTION)[0]["ran_out"]:
        await run_at(scene, clock, whole=False)
    runs = scene.people.rows("select state, made from provisioning_runs where kind = 'changes'")
    assert (sum(one["made"] for one in runs), {one["state"] for one in runs}) == (25, {"done"})
    assert (len(far.active()), far.doubles()) == (28, [])


async def test_a_run_of_more_than_an_hour_fails(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Its list has one person a page, and another one each time."""
    scene.active()
    clock = SetClock(now())

    def endless(request: Arrived) -> RemoteAnswer | None:
        if not is_list(request):
            return None
        clock.at += LONGEST_TURN
        start = request.query["startIndex"]
        return RemoteAnswer(200, {"totalResults": 10**9, "Resources": [{"id": f"x{start}", "userName": f"x{start}@elsewhere.example"}]})

    far.answers = endless
    run, number = await run_at(scene, clock), 1
    while run["state"] == "running":
        run, number = await run_at(scene, clock, whole=False), number + 1
        assert number < _MORE
    assert number == LONGEST_RUN / LONGEST_TURN + 1
    assert (run["state"], run["why"]) == ("failed", "too_long")
    assert scene.people.rows(_CONNECTION) == [{"leased_until": None, "ran_out": False, "fails": True}]
    assert scene.people.rows("select said from provisioning_exchanges where has_failed") == [{"said": "too_long"}]
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"]
    assert scene.people.rows(_KEPT) == []
    scene.people.change("update provisioning_connections set failing_since = now() - interval '25 hours'")
    run = await run_at(scene, clock)
    while run["state"] == "running":
        run = await run_at(scene, clock, whole=False)
    assert scene.people.rows("select state, stopped_why from provisioning_connections") == [{"state": "stopped", "stopped_why": "failing"}]


async def test_nobody_rests_in_a_place_that_others_need(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    clock = SetClock(now())
    asked: list[Arrived] = []

    def busy(request: Arrived) -> RemoteAnswer | None:
        asked.append(request)
        clock.at += timedelta(seconds=80)
        return RemoteAnswer(429, {}, {"retry-after": "45"}) if len(asked) == 1 else None

    far.answers = busy
    run = await run_at(scene, clock)
    assert (run["state"], len(asked)) == ("running", 1)
    (row,) = scene.people.rows("select leased_until, again_at from provisioning_connections")
    assert row == {"leased_until": None, "again_at": clock.at + timedelta(seconds=45)}


@pytest.mark.parametrize("act", ["disable", "draft"])
async def test_whoever_stops_between_two_turns_ends_the_run(scene: ProvisioningScene, far: FakeRemoteSystem, act: str) -> None:
    far.dialect = RemoteDialect(longest_page=1)
    for number in range(4):
        far.add(f"p{number}@acme.example")
    scene.active()
    clock = SetClock(now())
    far.answers = takes(clock, 70, is_list)
    assert (await run_at(scene, clock))["state"] == "running"
    if act == "disable":
        (await scene.request("POST", f"{PATH}/stop")).ok()
    else:
        (await scene.request("PUT", PATH, {"base_url": far.url, "token": far.token, "preset": "postern"})).ok()
    run = scene.newest()
    assert (run["state"], run["why"], run["ended_at"] is not None) == ("failed", "interrupted", True)
    assert scene.people.rows(_KEPT) == []


async def test_what_is_pressed_between_two_turns_is_done_afterwards(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    far.dialect = RemoteDialect(longest_page=1)
    for number in range(4):
        far.add(f"p{number}@acme.example")
    scene.active()
    clock = SetClock(now())
    far.answers = takes(clock, 70, is_list)
    assert (await run_at(scene, clock))["state"] == "running"
    (await scene.request("POST", f"{PATH}/runs")).ok()
    run = await run_at(scene, clock, whole=False)
    while run["state"] == "running":
        run = await run_at(scene, clock, whole=False)
    assert run["state"] == "done"
    far.answers = None
    assert (await scene.step(whole=False))["id"] != run["id"]


async def test_a_turn_that_was_killed_begins_the_run_anew(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(31):
        scene.member(f"p{number:02}@acme.example")
    scene.active()
    clock = SetClock(now())
    far.answers = takes(clock, 13, lambda request: request.method == "POST")
    first = await run_at(scene, clock)
    assert first["state"] == "running"
    far.holds_behind = {14}
    scene.people.change("update provisioning_connections set leased_until = null, again_at = null")
    (work,) = await scene.keeping.claim_due(10)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.keeping.run, work)
            await far.met(lambda one: len(one.writes()) >= 14)
            nursery.cancel_scope.cancel()
    far.go_on()
    assert scene.newest()["state"] == "running", "a process that goes down settles nothing"
    far.answers = None
    run = await scene.step(whole=False)
    assert (run["state"], run["id"] != first["id"]) == ("done", True)
    assert scene.people.rows("select state, why from provisioning_runs where id = %s", first["id"]) == [
        {"state": "failed", "why": "interrupted"}
    ]
    assert (len(far.everybody()), far.doubles(), len(scene.there())) == (32, [], 32)


async def test_a_hung_turn_is_given_up(scene: ProvisioningScene) -> None:
    scene.active()
    (work,) = await scene.keeping.claim_due(1)
    scene.people.change(
        "insert into provisioning_runs (id, connection_id, kind, state, begun_at, settings_digest)"
        " values (gen_random_uuid(), %s, 'whole', 'running', now(), 'settings')",
        work.connection,
    )
    await scene.keeping.give_up(work)
    assert (scene.newest()["state"], scene.newest()["why"]) == ("failed", "too_long")
    assert scene.people.rows(_CONNECTION) == [{"leased_until": None, "ran_out": False, "fails": True}]
