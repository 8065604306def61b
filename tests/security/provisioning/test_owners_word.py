"""Nobody but an owner, freshly proved, lets people go to another system; and our token there belongs to its scheme, host and port."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from core.domain.federation.provisioning.connections import token_context
from core.domain.tenancy.roles import Capability
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from ports.crypto import CannotOpen
from tests.http.client import Received, refused
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import Person

PATH: Final = "/api/organizations/acme/services/shop/provisioning"
THEIRS: Final = "/api/organizations/globex/services/app/provisioning"


async def draft(scene: ProvisioningScene, by: Person | None = None, path: str = PATH, **changed: Any) -> Received:
    body = {"base_url": scene.far.url, "token": scene.far.token, **changed}
    return await scene.request("PUT", path, {name: value for name, value in body.items() if value is not None}, by=by)


async def activate(scene: ProvisioningScene, shown: Mapping[str, Any], by: Person | None = None, path: str = PATH) -> Received:
    return await scene.request("POST", f"{path}/activate", {"digest": shown["digest"]}, by=by)


def sealed(scene: ProvisioningScene) -> bytes | None:
    (row,) = scene.people.rows("select sealed_token from provisioning_connections")
    return row["sealed_token"]  # type: ignore[no-any-return]


async def test_an_administrator_drafts_and_an_owner_decides(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    admin = scene.resident(scene.acme, "admin", "admin")
    shown = (await draft(scene, by=admin)).ok()
    for answer in (
        await activate(scene, shown, by=admin),
        await scene.request("POST", f"{PATH}/end", by=admin),
        await scene.request("DELETE", PATH, by=admin),
    ):
        assert answer.status == 403, answer.body
    (await activate(scene, shown)).ok()
    plan = await scene.step()
    run = f"{PATH}/runs/{plan['id']}"
    for answer in (
        await scene.request("POST", f"{run}/go-on", {"digest": plan["digest"].hex()}, by=admin),
        await scene.request("POST", f"{run}/leave", by=admin),
    ):
        assert answer.status == 403, answer.body
    await scene.step(whole=False)
    assert far.writes() == []


@pytest.mark.parametrize(
    "change",
    [
        {"token": "token-of-the-attackers-own-tenant"},
        {"preset": "slack"},
        {"team_ids": "crew"},
        {"attributes_left_out": ["displayName"]},
        {"mapping": [{"attribute": "userName", "source": "constant", "argument": "ceo@customer.example"}]},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_what_changes_between_the_look_and_the_yes_is_not_made_active(
    scene: ProvisioningScene, far: FakeRemoteSystem, change: dict[str, Any]
) -> None:
    """An administrator swaps the settings while the owner's page is open, also those that no page shows: the token."""
    admin = scene.resident(scene.acme, "admin", "admin")
    seen = (await draft(scene)).ok()
    if "team_ids" in change:
        team = scene.postern.foundation.ids.new()
        scene.people.change(
            "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'crew', 'Crew', now(), now())",
            team,
            scene.acme.id,
        )
        change = {"team_ids": [str(team)]}
    (await draft(scene, by=admin, **{"token": None, **change})).ok()
    assert refused(await activate(scene, seen)) == (409, "CONFLICT")
    await scene.step()
    assert far.arrived == []


async def test_a_change_of_what_is_active_stops_it_until_the_owner_says_yes_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    admin = scene.resident(scene.acme, "admin", "admin")
    active = (await activate(scene, (await draft(scene)).ok())).ok()
    scene.people.change("update provisioning_connections set agreed_digest = active_digest")
    await scene.step()
    far.forget_requests()
    await draft(scene, by=admin, token="another-token-of-somebody")
    scene.member("ada@acme.example")
    await scene.step()
    await scene.changed()
    assert far.arrived == []
    assert refused(await activate(scene, active)) == (409, "CONFLICT")


async def test_a_yes_needs_a_fresh_proof(scene: ProvisioningScene) -> None:
    shown = (await draft(scene)).ok()
    scene.people.change("update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '2 days'")
    for answer in (
        await activate(scene, shown),
        await scene.request("POST", f"{PATH}/end"),
        await scene.request("DELETE", PATH),
    ):
        assert answer.error_code == "REAUTHENTICATION_REQUIRED"
    assert scene.people.rows("select state from provisioning_connections") == [{"state": "draft"}]


async def test_another_address_gets_no_token_that_was_given_for_this_one(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """A member who may draft does not know the token, and would like to see it arrive."""
    admin = scene.resident(scene.acme, "admin", "admin")
    (await activate(scene, (await draft(scene)).ok())).ok()
    scene.people.change("update provisioning_connections set agreed_digest = active_digest")
    with FakeRemoteSystem(token=far.token) as elsewhere:
        shown = (await draft(scene, by=admin, token=None, base_url=elsewhere.url)).ok()
        assert (shown["state"], shown["has_token"], sealed(scene)) == ("draft", False, None)
        assert (await activate(scene, shown)).status == 400
        await scene.step()
        assert elsewhere.arrived == []
        # Back again, the token does not come back, either.
        shown = (await draft(scene, by=admin, token=None)).ok()
        assert (shown["has_token"], sealed(scene)) == (False, None)


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ("https://scim.example.org/v2", "https://scim.example.org/other", True),
        ("https://scim.example.org/v2", "https://SCIM.example.org/v2", True),
        ("https://scim.example.org/v2", "https://scim.example.org:443/v2", True),
        ("https://scim.example.org/v2", "https://scim.example.org:8443/v2", False),
        ("https://scim.example.org/v2", "https://scim.example.com/v2", False),
        ("https://scim.example.org/v2", "https://scim.example.org.evil.example/v2", False),
        ("https://127.0.0.1/v2", "http://127.0.0.1/v2", False),
        ("http://127.0.0.1:80/v2", "http://127.0.0.1:8080/v2", False),
    ],
)
async def test_the_token_belongs_to_scheme_host_and_port(scene: ProvisioningScene, before: str, after: str, stays: bool) -> None:
    (await draft(scene, base_url=before)).ok()
    assert (await draft(scene, base_url=after, token=None)).ok()["has_token"] is stays
    assert (sealed(scene) is not None) is stays


@pytest.mark.parametrize(
    "base_url",
    [
        "https://scim.example.org@evil.example/v2",
        "https://evil.example\\@scim.example.org/v2",
        "https://scim.example.org/v2?x=",
        "https://scim.example.org/v2#x",
        "https://scim.example.org\r\nhost: evil.example/",
        "https://0x7f.1/v2",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://scim.example.org/v2",
        "",
    ],
)
async def test_no_address_can_be_read_in_two_ways(scene: ProvisioningScene, base_url: str) -> None:
    assert (await draft(scene, base_url=base_url)).status == 400


async def test_nobody_is_shown_the_token(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    shown = (await draft(scene)).ok()
    (await activate(scene, shown)).ok()
    await scene.step()
    asked = ["", "/runs", "/people", "/exchanges", f"/preview/{scene.boss.user}"]
    said = [await scene.request("GET", PATH + one) for one in asked]
    assert [one.status for one in said] == [200] * len(said)
    assert not any(far.token.encode() in one.body for one in said)
    stored = str(scene.people.rows("select * from provisioning_connections"))
    assert far.token not in stored + str(scene.told()) + str(scene.audited())


async def test_a_sealed_token_is_no_other_connections_token(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Somebody who can write rows, and has no key, moves the sealed token to a connection that leads to them."""
    first = scene.active()
    token = sealed(scene)
    assert token is not None
    assert scene.people.opened(token, token_context(first)) == far.token
    scene.people.change("delete from provisioning_connections")
    with FakeRemoteSystem(token=far.token) as elsewhere:
        scene.active(base_url=elsewhere.url, sealed_token=token)
        with pytest.raises(CannotOpen):
            await scene.step()
        assert elsewhere.arrived == []


async def test_tenants_know_nothing_of_each_others_connections(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    spy = scene.resident(scene.globex, "owner", "spy")
    shown = (await draft(scene)).ok()
    (await activate(scene, shown)).ok()
    plan = await scene.step()
    reads = ["", "/runs", f"/runs/{plan['id']}", f"/runs/{plan['id']}/people", "/people", "/exchanges", f"/preview/{scene.boss.user}"]
    for one in reads:
        assert (await scene.request("GET", PATH + one, by=spy)).status in {403, 404}, one
    own = (await draft(scene, by=spy, path=THEIRS)).ok()
    # By their own path, with the ids of the others.
    for one in (f"/runs/{plan['id']}", f"/runs/{plan['id']}/people", f"/preview/{scene.boss.user}"):
        assert (await scene.request("GET", THEIRS + one, by=spy)).status == 404, one
    for path, body in ((f"/runs/{plan['id']}/go-on", {"digest": plan["digest"].hex()}), (f"/runs/{plan['id']}/leave", None)):
        assert (await scene.request("POST", THEIRS + path, body, by=spy)).status == 404
    assert (await activate(scene, own, by=spy)).status == 403, "the path is that of acme"
    ada = scene.member("ada@acme.example")
    assert (await scene.request("POST", f"{THEIRS}/people/{ada.user}/try-again", by=spy)).status == 404
    assert far.writes() == []
    (row,) = scene.people.rows("select state from provisioning_connections where org_id = %s", scene.acme.id)
    assert row["state"] == "active"


async def test_teams_of_another_organization_are_none(scene: ProvisioningScene) -> None:
    team = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'crew', 'Crew', now(), now())",
        team,
        scene.globex.id,
    )
    assert (await draft(scene, team_ids=[str(team)])).status == 400


async def test_a_member_without_the_right_reads_and_drafts_nothing(scene: ProvisioningScene) -> None:
    member = scene.resident(scene.acme, "member", "member")
    clerk = scene.resident(scene.acme, scene.tenants.role(scene.acme, "clerk", [Capability.SERVICES_MANAGE]), "clerk")
    for person in (member, clerk):
        assert (await scene.request("GET", PATH, by=person)).status == 403
        assert (await draft(scene, by=person)).status == 403


async def test_our_own_server_of_the_same_organization_and_its_directories_are_no_other_systems(scene: ProvisioningScene) -> None:
    made = (await scene.request("POST", "/api/organizations/acme/scim-tokens", {"name": "x"})).ok()["token"]
    scene.log.remember(made)
    assert refused(await draft(scene, base_url="https://id.example.org/scim/v2", token=made)) == (409, "CONFLICT")
    # Our server has names that we do not know: a proxy's, an address.
    assert refused(await draft(scene, base_url="https://other.example.org/scim/v2", token=made)) == (409, "CONFLICT")
