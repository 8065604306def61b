"""An organization may list any address. What it then reads of the person must not tell whether the address had an account before."""

from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.scim.directories import Directory
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people
ADA, NEW = "ada@example.org", "new@example.org"
SAME = {"user", "membership"}


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, unlimited(postern), log)


async def shown(scene: Inviting, email: str, of: str = "acme") -> dict[str, Any]:
    path = f"/api/organizations/{of}/members"
    listed = (await scene.request("GET", path, by=scene.ada)).ok()["members"]
    (user,) = [one["user"]["id"] for one in listed if one["user"]["email"] == email]
    return (await scene.request("GET", f"{path}/{user}", by=scene.ada)).ok()


async def test_accepted_on_behalf_both_came_alike(scene: Inviting) -> None:
    (await scene.client.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).ok()
    for email in (ADA, NEW):
        invited = await scene.invite(email)
        (await scene.ask("POST", f"/{invited['invitation']['id']}/accept")).ok()
    known, new = await shown(scene, ADA), await shown(scene, NEW)
    assert {name: known[name] for name in known.keys() - SAME} == {name: new[name] for name in new.keys() - SAME}
    assert (known["came_by"], new["came_by"]) == ("added", "added")
    # What it says comes with the person's own act.
    invited = await scene.invite("bob@example.org")
    ((_, token),) = [one for one in await scene.mailed() if one[0] == "bob@example.org"]
    assert token != invited["token"]
    (await scene.accept(token)).ok()
    own = await shown(scene, "bob@example.org")
    assert (own["came_by"], own["own_since"] is None) == ("created", False)


async def test_listed_by_a_directory_both_came_alike(scene: Inviting) -> None:
    (await scene.client.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).ok()
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    for email in (ADA, NEW):
        await directory.create(email)
    scene.ada = directory.owner
    known, new = await shown(scene, ADA, "initech"), await shown(scene, NEW, "initech")
    assert {name: known[name] for name in known.keys() - SAME} == {name: new[name] for name in new.keys() - SAME}
    assert known["came_by"] == "added"
