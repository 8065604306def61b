"""What runs rarely meet: plans about people who are known, ends that do not succeed, words of owners that are too old, and slow systems."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.runs import PROVISIONING_LEASE
from core.frozen import replace
from core.usecases.federation.provisioning.keeping import ProvisioningKeeping
from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import AWS_BEFORE
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import Person
from tests.usecases.set_clock import SetClock

_OTHER_SETTINGS = "update provisioning_connections set active_digest = 'other settings'"


@dataclass
class ToldOfAll:
    """What is told of all connections."""

    told: list[tuple[int, int]] = field(default_factory=list)

    def provisioning(self, waiting: int, failing: int, late: float) -> None:
        assert late >= 0
        self.told.append((waiting, failing))


async def crowd(scene: ProvisioningScene, number: int) -> list[Person]:
    """So many members, and the owner, are there, and nobody is marked."""
    people = [scene.member(f"p{one:02}@acme.example") for one in range(number)]
    scene.active()
    assert (await scene.step())["state"] == "done"
    await scene.changed()
    return people


async def run_at(scene: ProvisioningScene, clock: SetClock, *, whole: bool = True) -> dict[str, Any]:
    """As `scene.step`, at the time of this clock."""
    if whole:
        scene.people.change("update provisioning_connections set whole_due_at = now() - interval '1 second'")
    scene.people.change("update provisioning_connections set leased_until = null, again_at = null")
    keeping = keeping_at(scene, clock)
    for work in await keeping.claim_due(10):
        await keeping.run(work)
    return scene.newest()


def keeping_at(scene: ProvisioningScene, clock: SetClock) -> ProvisioningKeeping:
    return replace(scene.keeping, system=replace(scene.keeping.system, clock=clock))


def now() -> datetime:
    return datetime.now(UTC)


def refusing(method: str) -> Callable[[Any], RemoteAnswer | None]:
    return lambda request: RemoteAnswer(400, {"scimType": "mutability", "detail": "not here"}) if request.method == method else None


async def test_whoever_has_room_for_more_tells_how_connections_stand(scene: ProvisioningScene) -> None:
    """A full hand may be one of many: who looks again then counts."""
    scene.active()
    metrics: Any = ToldOfAll()
    keeping = replace(scene.keeping, metrics=metrics)
    assert len(await keeping.claim_due(1)) == 1
    assert metrics.told == []
    scene.people.change("update provisioning_connections set failing_since = now()")
    assert list(await keeping.claim_due(1)) == []
    assert metrics.told == [(0, 1)]


async def test_a_plan_leaves_out_whoever_has_no_name_there(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", name="Countess")
    scene.member("bob@acme.example")
    scene.active(agreed=False, mapping=Jsonb([{"attribute": "userName", "source": "name"}]))
    plan = await scene.step()
    assert (plan["kind"], plan["state"], scene.counts(plan)) == ("plan", "waiting", {"made": 1, "left_out": 2})
    assert sorted(map(str, scene.named(plan))) == sorted(
        map(
            str,
            [
                ("made", None, "ada@acme.example"),
                ("left_out", "no_user_name", "bob@acme.example"),
                ("left_out", "no_user_name", scene.boss.email),
            ],
        )
    )
    assert (far.everybody(), scene.there()) == ([], {})


async def test_a_plan_with_other_settings_names_those_who_would_change(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada, _ = await crowd(scene, 2)
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    scene.people.change(_OTHER_SETTINGS)
    before = far.everybody()
    plan = await scene.step()
    assert (plan["kind"], plan["state"], scene.counts(plan)) == ("plan", "waiting", {"changed": 1, "unchanged": 2})
    assert scene.named(plan) == [("changed", None, ada.email)]
    assert far.everybody() == before
    scene.agree(plan)
    run = await scene.step(whole=False)
    assert (run["kind"], scene.counts(run)) == ("whole", {"changed": 1, "unchanged": 2})
    there = far.named(ada.email)
    assert there is not None
    assert there["name"] == {"givenName": "Ada"}


async def test_a_plan_by_which_nothing_would_change_names_nobody(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Everybody is looked at in several pages, and there is nothing to write of the second one."""
    await crowd(scene, 20)
    scene.people.change(_OTHER_SETTINGS)
    far.forget_requests()
    plan = await scene.step()
    assert (plan["kind"], plan["state"], scene.counts(plan)) == ("plan", "waiting", {"unchanged": 21})
    assert scene.named(plan) == []
    assert [(one.method, one.path) for one in far.arrived] == [
        ("GET", "/scim/v2/ServiceProviderConfig"),
        ("GET", "/scim/v2/Users"),
    ]


async def test_a_plan_asks_for_each_where_nobody_is_listed(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    far.dialect = AWS_BEFORE
    scene.member("ada@acme.example")
    theirs = far.add("bob@acme.example")
    scene.member("bob@acme.example")
    scene.active(agreed=False, preset="aws")
    plan = await scene.step()
    assert (plan["kind"], plan["state"], scene.counts(plan)) == ("plan", "waiting", {"made": 2, "matched": 1})
    assert scene.people.rows("select far_id from provisioning_run_people where what = 'matched'") == [{"far_id": theirs["id"]}]
    assert not any("startIndex" in one.query for one in far.arrived), "the list is not read"
    assert (far.writes(), scene.there()) == ([], {})


async def test_a_plan_leaves_out_whom_it_may_not_match(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    scene.member("bob@acme.example")
    scene.member("ceo@acme.example", listed=True, proved=False)
    tied = far.add("ada@acme.example", externalId="payroll-17")
    far.add("bob@acme.example")
    far.add("Bob@acme.example")
    far.add("ceo@acme.example")
    before = far.everybody()
    scene.active(agreed=False)
    plan = await scene.step()
    assert (plan["state"], scene.counts(plan)) == ("waiting", {"made": 1, "left_out": 3})
    assert {one for one in scene.named(plan) if one[0] == "left_out"} == {
        ("left_out", "other_external_id", "ada@acme.example"),
        ("left_out", "ambiguous", "bob@acme.example"),
        ("left_out", "address_not_proved", "ceo@acme.example"),
    }
    rows = scene.people.rows("select far_id from provisioning_run_people where why = 'other_external_id'")
    assert rows == [{"far_id": tied["id"]}], "an owner sees which of theirs it is about"
    assert far.everybody() == before


async def test_whoever_may_not_be_deleted_there_is_nobody_and_is_tried_again_in_a_day(
    scene: ProvisioningScene, far: FakeRemoteSystem
) -> None:
    ada, _ = await crowd(scene, 2)
    far_id = scene.there()[ada.email]["far_id"]
    scene.people.change("delete from relations where user_id = %s", ada.user)
    scene.people.change("delete from users where id = %s", ada.user)
    far.answers = refusing("DELETE")
    run = await scene.step()
    # The list still names the one who was forgotten here: that is neither a stranger nor a difference.
    assert (run["kind"], run["state"], scene.counts(run)) == ("whole", "done", {"unchanged": 2})
    kept = "select far_id, state, tries, delete_at > now() + interval '23 hours' as later from provisioned_people where user_id is null"
    assert scene.people.rows(kept) == [{"far_id": far_id, "state": "to_delete", "tries": 1, "later": True}]
    far.answers = None
    far.forget_requests()
    await scene.changed()
    assert (far.writes(), len(far.everybody())) == ([], 3)
    await run_at(scene, SetClock(now() + timedelta(hours=25)), whole=False)
    assert scene.people.rows(kept) == []
    assert len(far.everybody()) == 2
    assert far_id not in {one["id"] for one in far.everybody()}


@pytest.mark.parametrize(
    ("later", "told"),
    [(timedelta(hours=47), ("done", 7, 0)), (timedelta(hours=49), ("waiting", 0, 7))],
    ids=["in time", "too late"],
)
async def test_the_word_of_an_owner_counts_for_two_days(
    scene: ProvisioningScene, far: FakeRemoteSystem, later: timedelta, told: tuple[str, int, int]
) -> None:
    people = await crowd(scene, 20)
    for one in people[:7]:
        scene.leaves(one)
    stop = await scene.step()
    assert (stop["state"], stop["held_back"]) == ("waiting", 7)
    scene.agree(stop)
    run = await run_at(scene, SetClock(now() + later))
    assert (run["kind"], (run["state"], run["ended"], run["held_back"])) == ("whole", told)
    assert run["id"] != stop["id"]
    assert len(far.active()) == 21 - told[1]
    assert scene.people.rows("select agreed_run from provisioning_connections") == [{"agreed_run": None}]


async def test_ends_that_the_other_system_is_away_for_are_done_later(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada, *_ = await crowd(scene, 3)
    scene.leaves(ada)
    # It lists everybody, and then takes the token no more.
    far.answers = lambda request: RemoteAnswer(401, {"detail": "gone"}) if request.path.startswith("/scim/v2/Users/") else None
    run = await scene.step()
    assert (run["state"], run["why"], scene.counts(run)) == ("failed", "credentials", {"unchanged": 3})
    assert (ada.email in far.active(), scene.there()[ada.email]["active"]) == (True, True)
    far.answers = None
    assert scene.counts(await scene.step()) == {"ended": 1, "unchanged": 3}
    assert (ada.email in far.active(), scene.there()[ada.email]["active"]) == (False, False)


async def test_a_connection_that_cannot_end_somebody_stays_and_tries_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada, *_ = await crowd(scene, 3)
    scene.people.change("update provisioning_connections set state = 'ending'")
    far.refuses = {ada.email: (400, "mutability", "the last administrator stays")}
    await scene.changed()
    assert far.active() == {ada.email}
    there = scene.there()[ada.email]
    assert (there["state"], there["why"], there["active"]) == ("to_end", "mutability", True)
    columns = "state, again_at > now() + interval '14 minutes' as rests, failing_since is not null as fails, leased_until"
    assert scene.people.rows(f"select {columns} from provisioning_connections") == [
        {"state": "ending", "rests": True, "fails": True, "leased_until": None}
    ]
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"]
    far.refuses = {}
    far.forget_requests()
    await scene.changed()
    assert (far.active(), len(far.writes())) == (set(), 1)
    assert scene.people.rows("select 1 from provisioning_connections") == []


@pytest.mark.parametrize(("lasts", "sent_at_once"), [(1, {"ada", "bob"}), (6, {"ada"})], ids=["short", "longer than the lease"])
async def test_single_changes_make_room_after_a_lease(
    scene: ProvisioningScene, far: FakeRemoteSystem, lasts: int, sent_at_once: set[str]
) -> None:
    """Whoever is marked while changes are sent goes with them, unless they last so long that others have a turn first."""
    await crowd(scene, 12)
    scene.member("ada@acme.example")
    clock = SetClock(now())

    def slowly(request: Any) -> None:
        if request.method == "POST" and request.body["userName"] == "ada@acme.example":
            scene.member("bob@acme.example")
            clock.at += timedelta(minutes=lasts)

    far.answers = slowly
    await run_at(scene, clock, whole=False)
    assert {name for name in ("ada", "bob") if f"{name}@acme.example" in far.active()} == sent_at_once
    marks = scene.people.rows("select email from provisioning_marks join users on users.id = user_id")
    assert [one["email"] for one in marks] == [f"{name}@acme.example" for name in ("ada", "bob") if name not in sent_at_once]
    assert scene.people.rows("select leased_until, taken from provisioning_connections") == [{"leased_until": None, "taken": []}]
    far.answers = None
    await scene.changed()
    assert {"ada@acme.example", "bob@acme.example"} <= far.active()
    assert far.doubles() == []


@pytest.mark.parametrize(("seconds", "writes"), [(19, 4), (21, 0)])
async def test_whoever_has_read_for_long_looks_at_the_lease_before_sending(
    scene: ProvisioningScene, far: FakeRemoteSystem, seconds: int, writes: int
) -> None:
    """The organization is suspended while the list is read: what was held lately is believed, and nothing else."""
    for number in range(3):
        scene.member(f"p{number}@acme.example")
    scene.active()
    clock = SetClock(now())

    def slowly(request: Any) -> None:
        if request.method == "GET" and "startIndex" in request.query:
            clock.at += timedelta(seconds=seconds)
            scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)

    far.answers = slowly
    await run_at(scene, clock)
    assert len(far.writes()) == writes
    assert scene.there() == {}, "whoever has lost the connection writes nothing"


async def test_a_slow_run_keeps_its_lease(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(24):
        scene.member(f"p{number}@acme.example")
    scene.active()
    clock = SetClock(now())
    left: list[timedelta] = []

    def slowly(request: Any) -> None:
        is_list = request.method == "GET" and "filter" not in request.query
        clock.at += timedelta(seconds=30 if is_list else 6)
        if not is_list:
            (row,) = scene.people.rows("select leased_until from provisioning_connections")
            left.append(row["leased_until"] - clock.at)

    far.answers = slowly
    began = clock.at
    run = await run_at(scene, clock)
    while run["state"] == "running":
        run = await run_at(scene, clock, whole=False)
    assert (run["state"], scene.counts(run)) == ("done", {"made": 25})
    assert clock.at - began > PROVISIONING_LEASE
    assert left[0] == PROVISIONING_LEASE - timedelta(seconds=6), "it was held anew behind the long list"
    assert len(scene.people.rows("select from provisioning_runs")) == 1, "its turns are one run"
    assert min(left) > timedelta(minutes=1), "nobody else finds it due meanwhile"
    assert (len(far.everybody()), far.doubles()) == (25, [])
