"""A system that another identity provider has fed: each account there has an `externalId` of its own. An owner lets people take them
over.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pytest

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.provisioning.scene import ProvisioningScene

PATH: Final = "/api/organizations/acme/services/shop/provisioning"


async def planned(scene: ProvisioningScene) -> Mapping[str, Any]:
    """A plan that waits, as the API shows it."""
    scene.active(agreed=False)
    await scene.step()
    plan: dict[str, Any] = (await scene.request("GET", f"{PATH}/runs")).json()[0]
    return plan


async def go_on(scene: ProvisioningScene, plan: Mapping[str, Any], **more: Any) -> Received:
    return await scene.request("POST", f"{PATH}/runs/{plan['id']}/go-on", {"digest": plan["digest"], **more})


async def people_of(scene: ProvisioningScene, run: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    found = (await scene.request("GET", f"{PATH}/runs/{run['id']}/people")).ok()["people"]
    return {one["named"]: one for one in found}


async def test_an_owner_lets_verified_addresses_take_over_their_accounts(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", given_name="Ada")
    theirs = far.add("Ada@acme.example", externalId="00u1a2b3c4", displayName="Ada of the other provider")
    far.add("ceo@acme.example", externalId="00u5d6e7f8")
    scene.member("ceo@acme.example", listed=True, proved=True)
    plan = await planned(scene)
    assert (plan["adoptable"], plan["left_out"], plan["made"], plan["adopts"]) == (1, 2, 1, False)
    named = (await people_of(scene, plan))["ada@acme.example"]
    assert (named["what"], named["why"], named["former_external_id"]) == ("left_out", "other_external_id", "00u1a2b3c4")
    assert named["attributes"] == ['emails[type eq "work"].value', "name.givenName", "externalId"]
    assert (await people_of(scene, plan))["ceo@acme.example"]["former_external_id"] is None
    assert far.writes() == []
    agreed = (await go_on(scene, plan, adopt=True)).ok()
    assert (agreed["state"], agreed["adopts"]) == ("agreed", True)
    run = await scene.step(whole=False)
    assert scene.counts(run) == {"made": 1, "matched": 1, "left_out": 1}
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["id"], there["externalId"]) == (theirs["id"], str(ada.user))
    assert there["displayName"] == "Ada of the other provider", "there is no such name here"
    named = (await people_of(scene, run))["ada@acme.example"]
    assert (named["what"], named["former_external_id"]) == ("matched", "00u1a2b3c4")
    told = {one["name"]: one["details"] for one in scene.told() if "provisioning" in one["name"]}
    assert told["service.provisioning.run.agreed"]["adopts"] == 1
    assert told["service.provisioning.person.adopted"] == {"service_slug": "shop", "run_id": plan["id"]}
    (entry,) = scene.audited("service.provisioning.person.adopted")
    assert (entry["target_type"], entry["target_id"]) == ("user", str(ada.user))
    assert (entry["details"]["far_id"], entry["details"]["former_external_id"]) == (theirs["id"], "00u1a2b3c4")
    assert scene.people.rows("select details from audit_personal where details ? 'former_external_id'") == [
        {"details": {"far_id": theirs["id"], "former_external_id": "00u1a2b3c4"}}
    ], "it is forgotten with the person"
    assert scene.counts(await scene.step()) == {"unchanged": 2, "left_out": 1}


async def test_without_the_box_they_are_left_out_as_before(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    theirs = far.add("ada@acme.example", externalId="00u1a2b3c4")
    plan = await planned(scene)
    assert (await go_on(scene, plan)).ok()["adopts"] is False
    for whole in (False, True):
        assert ("left_out", "other_external_id", "ada@acme.example") in scene.named(await scene.step(whole=whole))
    assert far.named("ada@acme.example") == theirs
    assert scene.audited("service.provisioning.person.adopted") == []


async def test_exactly_the_accounts_that_the_owner_has_seen_are_taken_over(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """What changes between the plan and the run is nothing that the owner has seen."""
    people = ("same", "retied", "replaced", "renamed", "later", "freed", "gone")
    theirs = {one: far.add(f"{one}@acme.example", externalId=f"of-{one}") for one in people}
    for one in people:
        if one != "later":
            scene.member(f"{one}@acme.example")
    plan = await planned(scene)
    assert plan["adoptable"] == 6
    (await go_on(scene, plan, adopt=True)).ok()
    scene.member("later@acme.example")
    far.people.keep({**theirs["retied"], "externalId": "of-somebody-else"})
    far.people.drop(theirs["replaced"]["id"])
    far.add("replaced@acme.example", externalId="of-replaced")
    far.people.keep({**theirs["renamed"], "userName": "ceo@acme.example"})
    far.people.keep({**theirs["freed"], "externalId": None})
    far.people.drop(theirs["gone"]["id"])
    await scene.step(whole=False)
    there = {email: row["far_id"] for email, row in scene.there().items()}
    assert {one: there[f"{one}@acme.example"] == theirs[one]["id"] for one in people} == {
        "same": True,
        "retied": False,
        "replaced": False,
        "renamed": False,
        "later": False,
        "freed": True,
        "gone": False,
    }
    kept = {one["externalId"] for one in far.everybody() if one.get("externalId")}
    assert {"of-somebody-else", "of-replaced", "of-renamed", "of-later"} <= kept
    assert "of-same" not in kept
    assert len(scene.audited("service.provisioning.person.adopted")) == 1


async def test_an_address_that_counts_no_more_takes_nothing_over(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    theirs = far.add("ada@acme.example", externalId="00u1a2b3c4")
    plan = await planned(scene)
    (await go_on(scene, plan, adopt=True)).ok()
    scene.people.change("update users set email_verified_at = null where id = %s", ada.user)
    assert ("left_out", "address_not_proved", "ada@acme.example") in scene.named(await scene.step(whole=False))
    assert far.named("ada@acme.example") == theirs


async def test_an_account_of_another_member_is_not_taken_over(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Its `externalId` is the id that the application knows of Bob, whom the organization does not send there."""
    scene.member("ada@acme.example")
    bob, eve = scene.member("bob@acme.example"), scene.member("eve@globex.example", tenant=scene.globex)
    scene.member("carl@acme.example")
    tied = far.add("ada@acme.example", externalId=str(bob.user))
    far.add("carl@acme.example", externalId=str(eve.user))
    far.add("bob@acme.example", externalId=str(bob.user))
    plan = await planned(scene)
    assert (plan["adoptable"], (await people_of(scene, plan))["ada@acme.example"]["why"]) == (1, "far_id_of_another")
    (await go_on(scene, plan, adopt=True)).ok()
    await scene.step(whole=False)
    assert far.people.resources[tied["id"]] == tied


async def test_more_than_a_thousand_are_all_named(scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of others who are left out, a run names a part."""
    monkeypatch.setattr("core.domain.federation.provisioning.runs.MOST_LEFT_OUT_NAMED", 1)
    for number in range(3):
        scene.member(f"p{number}@acme.example")
        far.add(f"p{number}@acme.example", externalId=f"of-{number}")
        scene.member(f"x{number}@acme.example", listed=True)
        far.add(f"x{number}@acme.example")
    plan = await planned(scene)
    assert (plan["adoptable"], plan["left_out"], len(await people_of(scene, plan))) == (3, 6, 5)
    (await go_on(scene, plan, adopt=True)).ok()
    assert scene.counts(await scene.step(whole=False))["matched"] == 3


async def test_who_may_say_it(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example")
    theirs = far.add("ada@acme.example", externalId="00u1a2b3c4")
    plan = await planned(scene)
    at, body = f"{PATH}/runs/{plan['id']}/go-on", {"digest": plan["digest"], "adopt": True}
    admin, spy = scene.resident(scene.acme, "admin", "admin"), scene.resident(scene.globex, "owner", "spy")
    assert (await scene.request("POST", at, body, by=admin)).status == 403
    assert (await scene.request("POST", at, body, by=spy)).status in {403, 404}
    assert (await scene.request("POST", at.replace("acme", "globex").replace("shop", "app"), body, by=spy)).status == 404
    assert (await scene.request("POST", at, {**body, "adopt": "yes"})).status == 400
    assert refused(await scene.request("POST", at, {**body, "digest": "0" * 64})) == (409, "CONFLICT")
    scene.people.change("update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '2 days'")
    assert (await scene.request("POST", at, body)).error_code == "REAUTHENTICATION_REQUIRED"
    await scene.step(whole=False)
    assert (far.writes(), far.named("ada@acme.example")) == ([], theirs)
    assert scene.people.rows("select adopts, state from provisioning_runs") == [{"adopts": False, "state": "waiting"}]


async def test_another_plan_needs_another_word(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Somebody else is there by the time of the second plan, so the digest is another."""
    scene.member("ada@acme.example")
    theirs = far.add("ada@acme.example", externalId="00u1a2b3c4")
    first = await planned(scene)
    far.people.keep({**theirs, "externalId": "00u9z9z9z9"})
    await scene.step()
    assert refused(await go_on(scene, first, adopt=True)) == (409, "CONFLICT")
    second: dict[str, Any] = (await scene.request("GET", f"{PATH}/runs")).json()[0]
    assert refused(await go_on(scene, {**second, "digest": first["digest"]}, adopt=True)) == (409, "CONFLICT")
    answers = await all_at_once(*(partial(go_on, scene, second, adopt=number % 2 == 0) for number in range(5)))
    assert sorted(one.status for one in answers) == [200, 409, 409, 409, 409], "one word is kept"
    (said,) = [one.json()["adopts"] for one in answers if one.status == 200]
    await scene.step(whole=False)
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["externalId"] != "00u9z9z9z9") is said


async def test_a_plan_without_such_people_takes_the_word_for_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    plan = await planned(scene)
    assert (await go_on(scene, plan, adopt=True)).ok()["adopts"] is False
    theirs = far.add("ada@acme.example", externalId="00u1a2b3c4")
    scene.member("ada@acme.example")
    await scene.step(whole=False)
    assert far.named("ada@acme.example") == theirs
