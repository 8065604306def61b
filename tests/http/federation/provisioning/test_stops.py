"""Plans and stops: an owner is asked before a first run, and before too many end."""

from typing import Any

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.postbox import Postbox


async def crowd(scene: ProvisioningScene, number: int, **columns: Any) -> None:
    """So many members, and the owner, are there."""
    for one in range(number):
        scene.member(f"p{one}@acme.example")
    scene.active(**columns)
    assert (await scene.step())["state"] == "done"
    await scene.changed()


def leave(scene: ProvisioningScene, *numbers: int) -> None:
    for one in numbers:
        scene.people.change("delete from memberships using users where users.id = user_id and users.email = %s", f"p{one}@acme.example")


async def test_the_first_run_is_a_plan_that_does_nothing_until_an_owner_lets_it_go_on(
    scene: ProvisioningScene, far: FakeRemoteSystem
) -> None:
    scene.member("ada@acme.example")
    far.add("ada@acme.example")
    scene.active(agreed=False)
    plan = await scene.step()
    assert (plan["kind"], plan["state"], scene.counts(plan)) == ("plan", "waiting", {"made": 1, "matched": 1})
    assert {one[0] for one in scene.named(plan)} == {"made", "matched"}
    assert far.writes() == []
    # A change meanwhile goes nowhere, either.
    scene.people.change("update users set given_name = 'Ada' where email = 'ada@acme.example'")
    scene.people.change("update provisioning_connections set leased_until = null")
    assert list(await scene.keeping.claim_due(10)) == []
    scene.agree(plan)
    run = await scene.step(whole=False)
    assert (run["kind"], run["state"], scene.counts(run)) == ("whole", "done", {"made": 1, "matched": 1})


async def test_the_owner_hears_of_a_plan_that_waits_once(scene: ProvisioningScene) -> None:
    scene.active(agreed=False)
    await scene.step()
    assert (await scene.step())["state"] == "waiting"
    mails = [one for one in await Postbox(scene.postern).empty() if "/services/shop/" in one.text]
    assert [one.to for one in mails] == [scene.boss.email]


async def test_too_many_ends_stop_until_an_owner_lets_them_go_on(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    leave(scene, *range(7))
    stop = await scene.step()
    assert (stop["state"], stop["held_back"], stop["ended"]) == ("waiting", 7, 0)
    assert len(far.active()) == 21
    again = await scene.step()
    assert (again["state"], again["held_back"]) == ("done", 7), "nobody is asked twice about the same people"
    leave(scene, 7)
    scene.agree(stop)
    run = await scene.step(whole=False)
    # The eighth was not in what the owner has seen.
    assert (run["state"], run["ended"], run["held_back"]) == ("waiting", 7, 1)
    assert len(far.active()) == 14
    assert "p7@acme.example" in far.active()


async def test_everybody_at_once_stops(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 3)
    scene.people.change("delete from memberships")
    assert (await scene.step())["held_back"] == 4
    assert len(far.active()) == 4


async def test_single_changes_and_runs_count_together(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    for number in range(5):
        leave(scene, number)
        assert scene.counts(await scene.changed()) == {"ended": 1}
    leave(scene, 5)
    stop = await scene.changed()
    assert stop["kind"] == "changes", "the sixth ends nobody, and wants a look at everybody"
    assert len(far.active()) == 16
    stop = await scene.changed()
    assert (stop["kind"], stop["state"], stop["held_back"]) == ("whole", "waiting", 1)
    # While the stop holds somebody, no single change ends anybody.
    leave(scene, 6)
    await scene.changed()
    assert len(far.active()) == 16
    scene.people.change("update provisioned_people set ended_at = ended_at - interval '25 hours'")
    scene.agree(stop)
    assert (await scene.changed())["ended"] >= 1
    assert "p5@acme.example" not in far.active()


async def test_a_stop_that_an_owner_leaves_asks_nobody_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    leave(scene, *range(7))
    stop = await scene.step()
    scene.people.change("update provisioning_runs set state = 'left' where id = %s", stop["id"])
    scene.people.change("update provisioning_connections set held_since = null")
    assert (await scene.step())["state"] == "done"
    assert len(far.active()) == 21


async def test_whoever_comes_back_meanwhile_does_not_end(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    leave(scene, *range(7))
    stop = await scene.step()
    (ada,) = scene.people.rows("select id from users where email = 'p0@acme.example'")
    scene.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
        " values (gen_random_uuid(), %s, %s, 'member', now(), now())",
        scene.acme.id,
        ada["id"],
    )
    scene.agree(stop)
    assert (await scene.step(whole=False))["ended"] == 6
    assert "p0@acme.example" in far.active()


async def test_newcomers_make_no_room_for_ends(scene: ProvisioningScene) -> None:
    await crowd(scene, 20)
    leave(scene, *range(7))
    for one in range(100, 180):
        scene.member(f"p{one}@acme.example")
    run = await scene.step()
    assert (run["state"], run["made"], run["held_back"]) == ("waiting", 80, 7)


async def test_newcomers_of_single_changes_make_no_room_either(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    for one in range(100, 200):
        scene.member(f"p{one}@acme.example")
    await scene.changed()
    assert len(far.active()) == 121
    leave(scene, *range(8))
    await scene.changed()
    stop = await scene.changed()
    assert (stop["kind"], stop["state"], stop["held_back"]) == ("whole", "waiting", 8)
    assert len(far.active()) == 121
