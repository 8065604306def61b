"""SECURITY 9: the demand of a passkey names a role of the organization's own applications, and reads no other."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, refused
from tests.http.people import People
from tests.http.tenancy.passkeys.test_demanded_passkeys import DemandScene
from tests.http.tenancy.test_sign_in_rules import ACME, BAD_REQUEST


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> DemandScene:
    return DemandScene(postern, people, client, log)


async def test_the_role_of_another_organization_is_neither_named_nor_told(scene: DemandScene) -> None:
    boss = scene.resident(scene.globex, "owner", "boss")
    vault = scene.tenants.service(scene.globex, "vault")
    body = {"slug": "heir", "name": "Heir"}
    made = await scene.request("POST", f"/api/organizations/globex/services/{vault.slug}/roles", body, by=boss)
    role = made.ok(201)["id"]
    assert refused(await scene.change(all_factor="role_passkey", all_factor_role="vault/heir")) == BAD_REQUEST
    # As if an organization had arrived with it.
    scene.people.change(
        "update all_organizations set all_factor = 'role_passkey', all_factor_role_id = %s, all_required_since = now() where slug = 'acme'",
        role,
    )
    assert (await scene.request("GET", f"{ACME}/sign-in-rules")).ok()["all_factor_role"] is None
    assert (await scene.request("GET", f"{ACME}/configuration")).body.count(b"heir") == 0
