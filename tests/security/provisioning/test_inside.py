"""Whoever drafts a connection would like our server to call a machine that only it can reach."""

from typing import Any, Final

import pytest

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.hostile_addresses import HOSTILE_ADDRESSES, HOSTILE_URLS
from tests.http.client import Received
from tests.http.federation.provisioning.scene import ProvisioningScene

PATH: Final = "/api/organizations/acme/services/shop/provisioning"
# The tests allow 127.0.0.1, and what leads to it.
ALLOWED: Final = frozenset({"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"})


async def draft(scene: ProvisioningScene, base_url: str, **more: Any) -> Received:
    return await scene.request("PUT", PATH, {"base_url": base_url, "token": scene.far.token, **more})


async def test_an_address_inside_is_refused_at_the_draft(scene: ProvisioningScene) -> None:
    for address in HOSTILE_ADDRESSES:
        host = f"[{address}]" if ":" in address else address
        answer = await draft(scene, f"https://{host}:8443/scim/v2")
        if address in ALLOWED:
            assert answer.status == 200, address
        else:
            assert (answer.status, "not public" in answer.json()["error"]) == (400, True), address
            assert (await draft(scene, f"http://{host}/scim/v2")).status == 400, address
    for url in HOSTILE_URLS:
        assert (await draft(scene, url)).status == 400, url


async def test_what_the_operator_has_allowed_may_be_drafted(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    assert (await draft(scene, far.url)).ok()["state"] == "draft"
    assert (await draft(scene, "https://scim.example.org/v2")).ok()["state"] == "draft", "a name is judged at each call"


@pytest.mark.parametrize("inside", ["https://169.254.169.254/scim", "http://10.0.0.1/scim", "https://[::ffff:10.0.0.1]/scim"])
async def test_an_earlier_draft_of_an_address_inside_is_not_made_active(
    scene: ProvisioningScene, far: FakeRemoteSystem, inside: str
) -> None:
    """It is from an earlier release, from another installation, or the operator allows its network no more."""
    (await draft(scene, far.url)).ok()
    scene.people.change("update provisioning_connections set base_url = %s", inside)
    shown = (await scene.request("GET", PATH)).ok()
    answer = await scene.request("POST", f"{PATH}/activate", {"digest": shown["digest"]})
    assert (answer.status, "not public" in answer.json()["error"]) == (400, True)
    assert scene.people.rows("select state from provisioning_connections") == [{"state": "draft"}]


async def test_an_active_connection_to_an_address_inside_calls_nobody(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for inside in ("https://169.254.169.254/scim", "http://[::1]:1/scim", far.url.replace("127.0.0.1", "127.0.0.2")):
        scene.people.change("delete from provisioning_connections")
        scene.active(base_url=inside)
        run = await scene.step()
        assert (run["state"], run["why"]) == ("failed", "address_not_allowed")
    assert far.arrived == []
