"""Somebody wants everybody ended in the other system without an owner's word: bit by bit, beside newcomers, or by another run."""

from datetime import timedelta
from typing import Any

from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from tests.http.federation.provisioning.scene import ProvisioningScene


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


async def test_one_after_the_other_is_as_many_as_all_at_once(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 40)
    for number in range(20):
        leave(scene, number)
        await scene.changed()
        if number % 5 == 4:
            await scene.step()
    assert len(far.active()) == 36, "five of forty-one, and the next asks an owner"
    assert scene.people.rows("select held_back from provisioning_runs where state = 'waiting'") != []


async def test_newcomers_make_no_room(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    for number in range(100, 200):
        scene.member(f"p{number}@acme.example")
    leave(scene, *range(8))
    await scene.changed()
    await scene.step()
    assert {f"p{number}@acme.example" for number in range(8)} <= far.active()


async def test_whoever_comes_back_and_goes_again_is_counted_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 40)
    leave(scene, *range(5))
    await scene.changed()
    assert len(far.active()) == 36
    for number in range(5):
        person = scene.people.rows("select id, email from users where email = %s", f"p{number}@acme.example")[0]
        scene.people.change(
            "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
            " values (gen_random_uuid(), %s, %s, 'member', now(), now())",
            scene.acme.id,
            person["id"],
        )
    await scene.changed()
    leave(scene, *range(10, 20))
    await scene.changed()
    await scene.step()
    assert len(far.active()) >= 36, "ten more, within the same day, ask an owner"


async def test_a_narrower_scope_asks_an_owner_like_anything_else(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """An administrator asks for a role that nobody holds."""
    await crowd(scene, 12)
    scene.people.change("update all_services set sign_in_policy = 'assigned' where id = %s", scene.shop.id)
    await scene.changed()
    await scene.step()
    assert len(far.active()) == 13
    waiting = scene.people.rows("select held_back from provisioning_runs where state = 'waiting'")
    assert [row["held_back"] for row in waiting] == [13]


async def test_a_stop_that_is_a_day_old_is_asked_about_anew(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 20)
    leave(scene, *range(8))
    await scene.step()
    scene.people.change(
        "update provisioning_runs set begun_at = begun_at - %s, ended_at = ended_at - %s", timedelta(days=2), timedelta(days=2)
    )
    scene.people.change("update provisioning_connections set held_since = held_since - %s", timedelta(days=2))
    await scene.step()
    assert len(far.active()) == 21


async def test_the_remote_systems_word_about_who_is_gone_ends_nobody_here(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """It names nobody any more. Its people are made or found again, and nobody of ours is less of a member."""
    await crowd(scene, 8)
    members = scene.people.rows("select user_id from memberships order by user_id")
    far.answers = lambda asked: (
        RemoteAnswer(200, {"totalResults": 0, "Resources": []}) if asked.method == "GET" and asked.path.endswith("/Users") else None
    )
    await scene.step()
    far.answers = None
    await scene.step()
    assert scene.people.rows("select user_id from memberships order by user_id") == members
    assert (len(far.active()), far.doubles()) == (9, [])


async def test_ends_wait_as_long_as_an_owner_was_asked_about_them(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Whom a stop holds does not end by a single change, by a run that is asked for, or by a try again."""
    await crowd(scene, 20)
    leave(scene, *range(7))
    await scene.step()
    held = {f"p{number}@acme.example" for number in range(7)}
    for row in scene.people.rows("select user_id from provisioned_people"):
        scene.people.change(
            "insert into provisioning_marks values (%s, %s, now() - interval '1 second') on conflict do nothing",
            scene.connection,
            row["user_id"],
        )
    await scene.changed()
    for number in (8, 9):
        leave(scene, number)
        await scene.changed()
        await scene.step()
    assert held <= far.active()
