"""The other system misbehaves, is away, or throttles; and a process is killed in the middle."""

from typing import Any

import pytest
import trio
from psycopg.types.json import Jsonb

from adapters.postgres.federation import provisioning_runs
from core.domain.federation.provisioning.connections import dialect_of
from core.domain.federation.provisioning.runs import ProvisioningWork
from core.frozen import replace
from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import AWS, SLACK, RemoteDialect
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.postbox import Postbox
from tests.patience import PATIENCE


async def killed_after(scene: ProvisioningScene, far: FakeRemoteSystem, write: int) -> None:
    """The other system has done so many writes, and then this process is gone before it has kept the last ones."""
    far.holds_behind = {write}
    scene.people.change("update provisioning_connections set leased_until = null, again_at = null")
    (work,) = await scene.keeping.claim_due(10)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.keeping.run, work)
            await far.met(lambda one: len(one.writes()) >= write)
            nursery.cancel_scope.cancel()
    far.go_on()


@pytest.mark.parametrize("write", [1, 7, 13])
async def test_a_run_that_is_killed_makes_no_double_and_leaves_no_gap(scene: ProvisioningScene, far: FakeRemoteSystem, write: int) -> None:
    for number in range(15):
        scene.member(f"p{number}@acme.example")
    scene.active()
    await killed_after(scene, far, write)
    run = await scene.step()
    assert run["state"] == "done"
    assert (len(far.everybody()), far.doubles()) == (16, [])
    assert len(scene.there()) == 16
    assert scene.counts(await scene.step()) == {"unchanged": 16}
    states = {row["state"] for row in scene.people.rows("select state from provisioning_runs where kind = 'whole'")}
    assert states == {"done", "failed"}


async def test_a_single_change_that_is_killed_makes_no_double(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    await scene.step()
    await scene.changed()
    scene.member("ada@acme.example")
    await killed_after(scene, far, 2)
    assert (await scene.changed())["kind"] == "changes"
    assert (len(far.everybody()), far.doubles()) == (2, [])


@pytest.mark.parametrize("switch", ["fails_behind", "hangs_up_behind"])
async def test_whoever_was_made_without_an_answer_is_found(scene: ProvisioningScene, far: FakeRemoteSystem, switch: str) -> None:
    for number in range(3):
        scene.member(f"p{number}@acme.example")
    scene.active()
    setattr(far, switch, {2})
    run = await scene.step()
    assert scene.counts(run) == {"made": 3, "left_out": 1}
    assert scene.counts(await scene.step()) == {"matched": 1, "unchanged": 3}
    assert (len(far.everybody()), far.doubles()) == (4, [])


async def test_an_error_in_the_middle_stops_nobody_else_and_is_tried_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    await scene.step()
    await scene.changed()
    ada = scene.member("ada@acme.example")
    far.fails_at = {2}
    assert scene.named(await scene.changed()) == [("left_out", "no_answer", "ada@acme.example")]
    assert scene.people.rows("select user_id, marked_at > now() as later from provisioning_marks") == [{"user_id": ada.user, "later": True}]
    scene.people.change("update provisioning_marks set marked_at = now() - interval '1 second'")
    assert scene.counts(await scene.changed()) == {"made": 1}


async def test_ids_may_be_numbers_and_nothing_needs_patch_or_filters(
    scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: Any
) -> None:
    far.dialect = RemoteDialect(patches=False, filters=frozenset(), numbers=True)
    _speak(monkeypatch, patches=False, filters=False)
    ada = scene.member("ada@acme.example")
    theirs = far.add("bob@acme.example", nickName="Bobby")
    scene.member("bob@acme.example", given_name="Bob")
    scene.active()
    assert scene.counts(await scene.step()) == {"made": 2, "matched": 1}
    bob = far.named("bob@acme.example")
    assert bob is not None
    assert (bob["id"], bob["nickName"], bob["name"]) == (theirs["id"], "Bobby", {"givenName": "Bob"})
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    assert scene.counts(await scene.changed()) == {"changed": 1}
    scene.leaves(ada)
    assert scene.counts(await scene.changed()) == {"ended": 1}
    assert {one.method for one in far.writes()} == {"POST", "PUT"}
    assert far.doubles() == []


def _speak(monkeypatch: Any, **changes: Any) -> None:
    monkeypatch.setattr(provisioning_runs, "dialect_of", lambda preset: replace(dialect_of(preset), **changes))


async def test_a_password_is_random_where_one_is_wanted(scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: Any) -> None:
    _speak(monkeypatch, needs_password=True)
    scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    passwords = {one.body["password"] for one in far.writes()}
    assert len(passwords) == 2
    assert all(len(one) == 43 for one in passwords)
    stored = str(scene.people.rows("select * from provisioned_people")) + str(scene.people.rows("select * from provisioning_exchanges"))
    assert not any(one in stored for one in passwords)


async def test_whoever_throttles_is_obeyed(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(12):
        scene.member(f"p{number}@acme.example")
    scene.active()
    far.throttles_each, far.retry_after = 10, "7"
    keeping = scene.impatient()
    for work in await keeping.claim_due(10):
        await keeping.run(work)
    assert scene.newest()["state"] == "done"
    assert (len(far.everybody()), far.doubles()) == (13, [])
    assert scene.rests != []
    assert set(scene.rests) == {7.0}


async def test_whoever_wants_a_long_rest_has_it_without_a_lease(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    far.throttles_each, far.retry_after = 1, "900"
    run = await scene.step()
    assert (run["state"], run["why"]) == ("failed", "throttled")
    (row,) = scene.people.rows(
        "select again_at > now() + interval '14 minutes' as rests, leased_until, failing_since from provisioning_connections"
    )
    assert row == {"rests": True, "leased_until": None, "failing_since": None}
    assert list(await scene.keeping.claim_due(10)) == []


async def test_a_token_that_does_not_count_any_more_fails_and_after_a_day_stops(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    far.token = "another-token-1c9f2e"
    run = await scene.step()
    assert (run["state"], run["why"]) == ("failed", "credentials")
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"]
    await scene.step()
    assert len([one for one in scene.told() if "provisioning" in one["name"]]) == 1, "a system that is away is news once"
    scene.people.change("update provisioning_connections set failing_since = now() - interval '25 hours'")
    await scene.step()
    assert scene.people.rows("select state, stopped_why from provisioning_connections") == [{"state": "stopped", "stopped_why": "failing"}]
    mails = [one for one in await Postbox(scene.postern).empty() if "/services/shop/" in one.text]
    assert [one.to for one in mails] == [scene.boss.email]
    assert list(await scene.keeping.claim_due(10)) == []


async def test_a_redirect_a_huge_answer_and_nonsense_are_failures(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.active()
    far.redirects_to = "http://127.0.0.1:1/inside"
    assert (await scene.step())["why"] == "redirect"
    far.redirects_to, far.is_huge = "", True
    assert (await scene.step())["why"] == "answer_too_long"
    assert far.sent < 64 << 20
    far.is_huge = False
    far.answers = lambda _request: RemoteAnswer(200, ["no", "object"])
    assert (await scene.step())["why"] == "malformed_answer"
    far.answers = lambda _request: RemoteAnswer(200, {"totalResults": 1000, "Resources": [{"id": "1", "userName": "same"}]})
    assert (await scene.step())["why"] == "repeated_page", "the list has no end, and filters find nobody"


async def test_the_recorder_has_the_words_of_the_other_system_without_values(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", family_name="Lovelace")
    far.refuses = {"ada@acme.example": (400, "invalidValue", "ada@acme.example: Lovelace may not be 'sent' here 12345678")}
    scene.active()
    assert ("left_out", "invalidValue", "ada@acme.example") in scene.named(await scene.step())
    (failed,) = scene.people.rows("select method, path, status, scim_type, said from provisioning_exchanges where has_failed")
    assert failed == {"method": "POST", "path": "/Users", "status": 400, "scim_type": "invalidValue", "said": "…: … may not be … here …"}
    far.refuses, far.echoes = {}, True
    await scene.step()
    said = str(scene.people.rows("select * from provisioning_exchanges"))
    assert far.token not in said
    assert "Lovelace" not in said
    assert "ada@" not in said


async def test_the_recorder_keeps_fifty_and_fifty_failures(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(60):
        scene.member(f"p{number}@acme.example")
        if number % 2:
            far.refuses[f"p{number}@acme.example"] = (400, "invalidValue", "no")
    scene.active()
    await scene.step()
    await scene.step()
    rows = scene.people.rows("select has_failed, count(*) as count from provisioning_exchanges group by has_failed order by has_failed")
    assert rows == [{"has_failed": False, "count": 50}, {"has_failed": True, "count": 50}]


async def test_a_suspended_organization_sends_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(30):
        scene.member(f"p{number}@acme.example")
    scene.active()
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    await scene.step()
    assert far.arrived == []
    scene.people.change("update all_organizations set status = 'active' where id = %s", scene.acme.id)
    # Suspended in the middle: the next look at the lease ends the run.
    far.holds_behind = {5}
    scene.people.change("update provisioning_connections set leased_until = null")
    (work,) = await scene.keeping.claim_due(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.keeping.run, work)
        await far.met(lambda one: len(one.writes()) >= 5)
        scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
        far.go_on()
    assert len(far.everybody()) <= 14
    del work


async def test_whoever_has_lost_the_lease_writes_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(30):
        scene.member(f"p{number}@acme.example")
    scene.active()
    far.holds_behind = {3}
    (work,) = await scene.keeping.claim_due(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.keeping.run, work)
        await far.met(lambda one: len(one.writes()) >= 3)
        scene.people.change("update provisioning_connections set leased_until = null")
        (other,) = await scene.keeping.claim_due(10)
        far.go_on()
    assert isinstance(other, ProvisioningWork)
    assert scene.there() == {}
    await scene.keeping.run(other)
    assert (len(far.everybody()), far.doubles(), len(scene.there())) == (31, [], 31)


async def test_whoever_is_forgotten_or_deleted_here_is_deleted_there(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada, bob = scene.member("ada@acme.example"), scene.member("bob@acme.example")
    scene.active()
    await scene.step()
    far_ids = {row["email"]: row["far_id"] for row in scene.there().values()}
    scene.people.change("update users set deactivated_at = now(), anonymized_at = now(), password_hash = null where id = %s", ada.user)
    scene.people.change("delete from relations where user_id = %s", bob.user)
    scene.people.change("delete from users where id = %s", bob.user)
    left = scene.people.rows("select far_id, user_name, sent_digest, state from provisioned_people where user_id is null order by far_id")
    assert left == [
        {"far_id": far_id, "user_name": None, "sent_digest": None, "state": "to_delete"}
        for far_id in sorted(far_ids[one] for one in ("ada@acme.example", "bob@acme.example"))
    ]
    await scene.changed()
    assert far.active() == {scene.boss.email}
    assert len(far.everybody()) == 1
    assert scene.people.rows("select 1 from provisioned_people where user_id is null") == []


async def test_without_deletion_the_names_go(scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: Any) -> None:
    _speak(monkeypatch, deletes=False)
    ada = scene.member("ada@acme.example", given_name="Ada", name="Countess")
    scene.active()
    await scene.step()
    scene.people.change("delete from relations where user_id = %s", ada.user)
    scene.people.change("delete from users where id = %s", ada.user)
    await scene.changed()
    there = far.named("ada@acme.example")
    assert there is not None
    assert there["active"] is False
    assert not {"displayName", "externalId"} & set(there)
    assert not there.get("name")
    assert not there.get("emails")


async def test_a_connection_that_ends_everybody_goes_when_it_has(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(12):
        scene.member(f"p{number}@acme.example")
    scene.active()
    await scene.step()
    scene.people.change("update provisioning_connections set state = 'ending'")
    await scene.changed()
    assert far.active() == set()
    assert scene.people.rows("select 1 from provisioning_connections") == []
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.ended"]


async def test_what_was_changed_there_is_written_over_and_named(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", name="Countess")
    scene.active(mapping=Jsonb([{"attribute": "userName", "source": "address"}, {"attribute": "displayName", "source": "name"}]))
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    far.people.keep({**far.people.resources[there["id"]], "displayName": "Duchess", "title": "Dr."})
    run = await scene.step()
    (named,) = scene.people.rows("select what, attributes from provisioning_run_people where run_id = %s", run["id"])
    assert named == {"what": "overwritten", "attributes": ["displayName"]}
    again = far.named("ada@acme.example")
    assert again is not None
    assert (again["displayName"], again["title"]) == ("Countess", "Dr.")
    # Whoever was deleted there is made again, and whoever was ended there is active again.
    far.people.drop(there["id"])
    assert scene.counts(await scene.step()) == {"made": 1, "unchanged": 1}
    far.people.keep({**far.people.resources[str(scene.there()["ada@acme.example"]["far_id"])], "active": False})
    assert scene.counts(await scene.step()) == {"overwritten": 1, "unchanged": 1}
    assert "ada@acme.example" in far.active()


async def test_a_circle_comes_to_rest(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """What another system writes back here is what it has from us."""
    ada = scene.member("ada@acme.example", given_name="Ada")
    scene.active()
    await scene.step()
    far.forget_requests()
    for _ in range(3):
        scene.people.change("update users set given_name = 'A', updated_at = now() where id = %s", ada.user)
        scene.people.change("update users set given_name = 'Ada', updated_at = now() where id = %s", ada.user)
        await scene.changed()
    assert far.writes() == []


async def test_a_far_person_in_other_letters_is_no_difference(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    far.swaps_case = True
    assert scene.counts(await scene.step()) == {"unchanged": 2}


async def test_a_system_that_lists_few_is_asked_for_each(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """As AWS says of itself: fifty in a list, from the first one on alone, and names are required."""
    far.dialect = AWS
    for number in range(60):
        scene.member(f"p{number}@acme.example", given_name="P", family_name=str(number), name=f"P {number}")
    scene.people.change("update users set given_name = 'B', family_name = 'B', name = 'B B' where id = %s", scene.boss.user)
    scene.member("nameless@acme.example")
    scene.active(preset="aws")
    run = await scene.step()
    assert scene.counts(run) == {"made": 61, "left_out": 1}
    assert scene.named(run)[-1][0] in {"made", "left_out"}
    far.forget_requests()
    again = await scene.step()
    assert scene.counts(again) == {"left_out": 1, "unchanged": 61}
    assert [one.method for one in far.writes()] == ["POST"], "only the nameless is tried again"
    there = far.named("p7@acme.example")
    assert there is not None
    far.people.keep({**far.people.resources[str(there["id"])], "displayName": "Somebody"})
    assert scene.counts(await scene.step())["overwritten"] == 1
    scene.people.change("update users set name = 'P Seven' where email = 'p7@acme.example'")
    assert scene.counts(await scene.changed())["changed"] == 1
    scene.people.change("delete from memberships using users where users.id = user_id and email = 'p7@acme.example'")
    assert scene.counts(await scene.changed())["ended"] == 1
    assert far.doubles() == []


async def test_a_system_whose_names_are_its_own_is_written_once(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """As Slack says of itself: it makes a handle of an address."""
    far.dialect = SLACK
    scene.member("ada@acme.example", name="Ada")
    scene.active(preset="slack")
    assert scene.counts(await scene.step()) == {"made": 2}
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    assert (len(far.everybody()), far.doubles()) == (2, [])
