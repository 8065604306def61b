"""An organization lists three addresses: of somebody with a verified account, of somebody with an unverified one, and of nobody. By nothing
that it reads of its connection outwards, or sees at the other system, it tells which is which, nor when the third gets an account.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.conftest import CapturedLog
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import People
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.signing_in import PASSWORD, unlimited

PATH: Final = "/api/organizations/acme/services/shop/provisioning"
ADA, UNA, BOB = THREE = ("ada@somewhere.example", "una@somewhere.example", "bob@somewhere.example")
SCIM: Final = "urn:ietf:params:scim:schemas:core:2.0:User"


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, far: FakeRemoteSystem) -> ProvisioningScene:
    log.remember(far.token)
    return ProvisioningScene(postern, people, unlimited(postern), log, far=far)


async def registers(scene: ProvisioningScene, email: str, *, verifies: bool) -> None:
    postbox = Postbox(scene.postern)
    await postbox.empty()
    (await scene.client.post("/api/auth/register", {"email": email, "password": PASSWORD})).ok()
    (mail,) = [one for one in await postbox.empty() if one.to == email]
    if verifies:
        assert (await scene.client.get(f"/auth/verify-email?token={token_in(link_in(mail))}")).status == 200
    assert is_verified(scene, email) is verifies


async def comes_to_the_account(scene: ProvisioningScene, email: str) -> None:
    """By the mail that whoever is listed gets in place of a registration: a password, and with it the proof of the address."""
    postbox = Postbox(scene.postern)
    await postbox.empty()
    (await scene.client.post("/api/auth/forgot-password", {"email": email})).ok()
    (mail,) = [one for one in await postbox.empty() if one.to == email]
    body = {"token": token_in(link_in(mail)), "new_password": PASSWORD}
    assert (await scene.client.post("/api/auth/reset-password", body)).status == 200
    assert is_verified(scene, email)


def is_verified(scene: ProvisioningScene, email: str) -> bool:
    (row,) = scene.people.rows("select email_verified_at from users where email = %s", email)
    return row["email_verified_at"] is not None


async def listed_by_scim(scene: ProvisioningScene) -> Mapping[str, str]:
    """The ids of the three, by address."""
    token = (await scene.request("POST", "/api/organizations/acme/scim-tokens", {"name": "Directory"})).ok()["token"]
    scene.log.remember(token)
    ids = dict[str, str]()
    for one in THREE:
        body = {"schemas": [SCIM], "userName": one, "name": {"givenName": "X", "familyName": "Y"}}
        answer = await scene.client.request(
            "POST", "/scim/v2/Users", body=body, token=token, headers=[("content-type", "application/scim+json")]
        )
        ids[one] = answer.ok(201)["id"]
    return ids


async def read(scene: ProvisioningScene, far: FakeRemoteSystem, ids: Mapping[str, str]) -> Mapping[str, Any]:
    """What the organization reads of each, without addresses, ids and times; and how often the other system was asked about each."""
    runs = (await scene.request("GET", f"{PATH}/runs")).json()
    named = [(await scene.request("GET", f"{PATH}/runs/{one['id']}/people")).ok()["people"] for one in runs]
    people = (await scene.request("GET", f"{PATH}/people")).ok()["people"]
    said = dict[str, Any]()
    for email in THREE:
        user = ids[email]
        systems = await scene.request("GET", f"/api/organizations/acme/users/{user}/provisioning")
        told = {
            "runs": [[one for one in run if one["user"] == user] for run in named],
            "people": [one for one in people if one["user"] == user],
            "systems": (systems.status, systems.json()),
            "preview": (await scene.request("GET", f"{PATH}/preview/{user}")).ok(),
            "asked": sum(email in one.target.replace("%40", "@") or user in one.target for one in far.arrived),
            "logged": [one for one in scene.log.events("provisioning_person") if user in str(one)],
            "recorded": [one for one in scene.told() if "provisioning" in str(one["name"]) and user in str(one)],
            "marks": scene.people.rows("select count(*) as marks from provisioning_marks where user_id = %s", user),
        }
        own = str(told).replace(user, "<id>").replace(email, "<address>")
        said[email] = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.+Z-]+", "<time>", re.sub(r"far-\d+|payroll-\d+|'number': \d+", "<of theirs>", own))
    return said


def alike(read: Mapping[str, Any]) -> Any:
    assert read[ADA] == read[BOB]
    assert read[UNA] == read[BOB]
    return read[BOB]


@pytest.mark.parametrize("external_id", [None, "payroll-{}"], ids=["free there", "tied there"])
@pytest.mark.parametrize("are_there", [True, False], ids=["all are there", "nobody is there"])
async def test_three_addresses_are_alike(scene: ProvisioningScene, far: FakeRemoteSystem, are_there: bool, external_id: str | None) -> None:
    await registers(scene, ADA, verifies=True)
    await registers(scene, UNA, verifies=False)
    ids = await listed_by_scim(scene)
    for number, one in enumerate(THREE if are_there else ()):
        more = {} if external_id is None else {"externalId": external_id.format(number)}
        far.add(one, **more)
    theirs = far.everybody()
    scene.active(agreed=False)
    plan = await scene.step()
    assert (plan["kind"], plan["state"], plan["adoptable"]) == ("plan", "waiting", 0)
    in_plan = alike(await read(scene, far, ids))
    assert ("address_not_proved" in in_plan) is are_there
    assert far.everybody() == theirs
    scene.agree(plan)
    await scene.step(whole=False)
    alike(await read(scene, far, ids))
    if are_there:
        assert [one for one in far.everybody() if one["userName"] in THREE] == list(theirs)
    # The third registers, and verifies the address: nothing of it arrives here.
    metrics = provisioned(scene)
    await scene.changed()
    before, arrived, runs = await read(scene, far, ids), len(far.arrived), scene.people.rows("select id from provisioning_runs")
    await comes_to_the_account(scene, BOB)
    scene.people.change("update users set name = 'Bob', language = 'fr' where email = %s", BOB)
    assert scene.people.rows("select user_id from provisioning_marks") == []
    await scene.changed()
    assert (await read(scene, far, ids), len(far.arrived)) == (before, arrived)
    assert (scene.people.rows("select id from provisioning_runs"), provisioned(scene)) == (runs, metrics)
    # Nor with the look at everybody.
    await scene.step()
    alike(await read(scene, far, ids))


def provisioned(scene: ProvisioningScene) -> list[str]:
    rendered = scene.postern.foundation.metrics.render().decode()
    return [one for one in rendered.splitlines() if one.startswith(("sso_provisioned", "sso_provisioning_runs"))]
