"""A draft is nobody's word: it loses nobody, and wins no race. Keys and people who act in the name of others have no part in it, and people
are not sent where they come from.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from core.domain.identity.upstream.ldap.settings import ldap_issuer
from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from core.domain.tenancy.roles import Capability
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.tenants import Tenant

PATH: Final = "/api/organizations/acme/services/shop/provisioning"


async def draft(scene: ProvisioningScene, **changed: Any) -> Received:
    body = {"base_url": scene.far.url, "token": scene.far.token, **changed}
    return await scene.request("PUT", PATH, {name: value for name, value in body.items() if value is not None})


async def activate(scene: ProvisioningScene, shown: Mapping[str, Any]) -> Received:
    return await scene.request("POST", f"{PATH}/activate", {"digest": shown["digest"]})


async def everybody_there(scene: ProvisioningScene) -> dict[str, Any]:
    shown: dict[str, Any] = (await activate(scene, (await draft(scene)).ok())).ok()
    scene.people.change("update provisioning_connections set agreed_digest = active_digest")
    await scene.step()
    return shown


def directory(scene: ProvisioningScene, tenant: Tenant, host: str) -> None:
    made = uuid4()
    scene.people.change(
        "insert into upstream_providers (id, org_id, kind, state, name, issuer, scopes, enabled, ldap, created_at, updated_at)"
        " values (%s, %s, 'ldap', 'active', 'Directory', %s, '{}', true, %s, now(), now())",
        made,
        tenant.id,
        ldap_issuer(str(made)),
        Jsonb({"hosts": [host]}),
    )


async def test_a_draft_that_leads_away_and_back_loses_nobody(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """An administrator who may not end anything changes the path, and changes it back. The owner still ends everybody who is there, and
    whoever was forgotten here meanwhile is deleted there.
    """
    gone = scene.member("gone@acme.example")
    scene.member("ada@acme.example")
    active = await everybody_there(scene)
    assert len(far.active()) == 3
    scene.people.change("delete from users where id = %s", gone.user)
    (await draft(scene, token=None, base_url=f"{far.url}/other")).ok()
    (await draft(scene, token=None)).ok()
    (kept,) = scene.people.rows("select far_id from provisioned_people where state = 'to_delete'")
    assert (await activate(scene, active)).ok()["active_there"] == 3
    await scene.step()
    assert kept["far_id"] not in str(far.everybody())
    assert (await scene.request("POST", f"{PATH}/end")).ok()["state"] == "ending"
    await scene.step(whole=False)
    assert far.active() == set()


async def test_another_address_forgets_with_the_owners_word(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await everybody_there(scene)
    # The same host: the token stays, and people's ids there mean nothing under another path.
    shown = (await draft(scene, token=None, base_url=f"{far.url}/other")).ok()
    assert (shown["state"], shown["active_there"]) == ("draft", 1)
    assert (await activate(scene, shown)).ok()["active_there"] == 0


async def test_a_draft_and_a_yes_at_once_send_nothing_that_nobody_saw(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for attempt in range(8):
        seen = (await draft(scene, attributes_left_out=[])).ok()
        far.forget_requests()
        sneaked = [{"attribute": "userName", "source": "constant", "argument": f"ceo{attempt}@customer.example"}]

        async def change(mapping: list[dict[str, str]] = sneaked) -> Received:
            return await draft(scene, token=None, mapping=mapping)

        async def agree(shown: dict[str, Any] = seen) -> Received:
            return await activate(scene, shown)

        answers = await all_at_once(*((change, agree) if attempt % 2 else (agree, change)))
        assert {one.status for one in answers} <= {200, 409}
        (row,) = scene.people.rows("select state, active_digest from provisioning_connections")
        assert row["state"] == "draft"
        assert row["active_digest"] is None or row["active_digest"].hex() != (await scene.request("GET", PATH)).ok()["digest"]
        await scene.step()
        assert far.arrived == []


async def test_two_yeses_at_once_are_one(scene: ProvisioningScene) -> None:
    shown = (await draft(scene)).ok()
    answers = await all_at_once(*[lambda: activate(scene, shown)] * 4)
    assert [one.status for one in answers] == [200] * 4
    assert [one["name"] for one in scene.told() if one["name"] == "service.provisioning.activated"] == ["service.provisioning.activated"]


async def test_two_first_drafts_at_once_make_one_connection(scene: ProvisioningScene) -> None:
    answers = await all_at_once(*[lambda: draft(scene)] * 4)
    assert [one.status for one in answers] == [200] * 4
    assert len(scene.people.rows("select from provisioning_connections")) == 1


def _writes(scene: ProvisioningScene, digest: str) -> list[tuple[str, str, Any]]:
    return [
        ("PUT", PATH, {"base_url": scene.far.url, "token": scene.far.token}),
        ("POST", f"{PATH}/activate", {"digest": digest}),
        ("POST", f"{PATH}/stop", None),
        ("POST", f"{PATH}/end", None),
        ("DELETE", PATH, None),
        ("GET", f"{PATH}/preview/{scene.boss.user}", None),
    ]


async def test_somebody_who_acts_in_an_owners_name_decides_nothing(scene: ProvisioningScene) -> None:
    shown = (await draft(scene)).ok()
    platform = scene.people.proved("staff@postern.example", platform_owner=True)
    seen = scene.tenants.session(scene.boss, scene.acme)
    by = (platform.user, scene.postern.foundation.ids.new())
    scene.people.change("update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", *by, seen.session)
    token = await scene.tenants.token(seen, scene.acme, token_use="impersonation", impersonator=str(platform.user))
    for method, target, body in _writes(scene, shown["digest"]):
        answer = await scene.client.request(method, target, body=body, token=token)
        assert answer.status == 403, (target, answer.body)
    assert (await scene.request("GET", PATH)).ok() == shown


@pytest.mark.parametrize("kind", ["service", "management"])
async def test_keys_have_no_part_in_it(scene: ProvisioningScene, kind: str) -> None:
    shown = (await draft(scene)).ok()
    if kind == "management":
        key = scene.tenants.management_key(scene.acme, scene.boss, [str(one) for one in Capability])
    else:
        key = scene.postern.foundation.secrets.key("sk").reveal()
        scene.people.change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
            " values (gen_random_uuid(), %s, 'key', %s, %s, %s, %s, now())",
            scene.shop.id,
            key[:9],
            Token(key).digest(),
            [str(permission) for permission in Permission],
            scene.boss.user,
        )
    for method, target, body in (("GET", PATH, None), *_writes(scene, shown["digest"])):
        answer = await scene.client.request(method, target, body=body, token=key)
        assert answer.status in {401, 403}, (target, answer.body)
    assert (await scene.request("GET", PATH)).ok() == shown


async def test_a_host_of_a_directory_of_the_organization_is_no_other_system(scene: ProvisioningScene) -> None:
    directory(scene, scene.acme, "ldaps://DC1.acme.example:636")
    directory(scene, scene.globex, "ldaps://dc1.globex.example")
    for base_url in ("https://dc1.acme.example/scim/v2", "https://DC1.ACME.example:8443/scim"):
        assert refused(await draft(scene, base_url=base_url)) == (409, "CONFLICT"), base_url
    assert (await draft(scene, base_url="https://dc1.globex.example/scim/v2")).status == 200, "it is the directory of others"


async def test_a_directory_that_comes_after_the_draft_is_a_circle_too(scene: ProvisioningScene) -> None:
    shown = (await draft(scene, base_url="https://dc1.acme.example/scim/v2")).ok()
    directory(scene, scene.acme, "ldaps://dc1.acme.example")
    assert refused(await activate(scene, shown)) == (409, "CONFLICT")
    assert (await scene.request("GET", PATH)).ok()["state"] == "draft"
