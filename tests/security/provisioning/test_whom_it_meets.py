"""Somebody lists an address that is not theirs to list, and wants the account that has it in the other system; or wants a value there that
is none of the organization's business.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from ops.stand_ins.remote_dialects import RemoteDialect
from tests.http.federation.provisioning.scene import MAPPING, ProvisioningScene
from tests.http.tenants import Tenant
from tests.security.provisioning.test_lying_systems import without_lists

CEO = "ceo@customer.example"


def mapped(*more: dict[str, Any], **replaced: dict[str, Any]) -> Jsonb:
    rows = [{**one, **replaced.get(one["attribute"], {})} for one in MAPPING]
    return Jsonb([*rows, *more])


@pytest.mark.parametrize("lists", [True, False], ids=["from the list", "by filters"])
@pytest.mark.parametrize("written", [CEO, "CEO@Customer.Example"])
@pytest.mark.parametrize("proved", [False, True], ids=["unproved", "proved by its owner"])
async def test_a_listed_address_gets_nobodys_account(
    scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: pytest.MonkeyPatch, written: str, lists: bool, proved: bool
) -> None:
    """Who lists it learns nothing of its owner, either: a proof that its owner has given to others counts for nothing here."""
    if not lists:
        monkeypatch.setattr("adapters.postgres.federation.provisioning_runs.dialect_of", without_lists)
    theirs = far.add(written, displayName="The boss", emails=[{"value": written, "type": "work"}])
    scene.member(CEO, listed=True, proved=proved, given_name="Mallory")
    scene.active()
    for _ in range(2):
        run = await scene.step()
        assert ("left_out", "address_not_proved", CEO) in scene.named(run)
    assert far.people.resources[theirs["id"]] == theirs
    # It does not end, either, when the one who was listed goes.
    scene.people.change("delete from memberships using users where users.id = user_id and email = %s", CEO)
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs


def verified_domain(scene: ProvisioningScene, domain: str, *, tenant: Tenant | None = None, is_proved: bool = True) -> None:
    at = datetime.now(UTC) if is_proved else None
    scene.people.change(
        "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
        " values (gen_random_uuid(), %s, %s, 'x', %s, %s, now(), now())",
        (tenant or scene.acme).id,
        domain,
        at,
        at,
    )


@pytest.mark.parametrize("proved", [False, True], ids=["unproved", "proved by its owner"])
async def test_a_listed_address_of_a_domain_that_the_organization_has_verified_counts(
    scene: ProvisioningScene, far: FakeRemoteSystem, proved: bool
) -> None:
    scene.member("ada@acme.example", listed=True, proved=proved)
    scene.member(CEO, listed=True, proved=proved)
    scene.member("sub@x.acme.example", listed=True, proved=proved)
    ada, ceo, below = far.add("Ada@acme.example"), far.add(CEO), far.add("sub@x.acme.example")
    verified_domain(scene, "customer.example", tenant=scene.globex)
    scene.active()
    assert {one[1:] for one in scene.named(await scene.step()) if one[0] == "left_out"} == {
        ("address_not_proved", one) for one in ("ada@acme.example", CEO, "sub@x.acme.example")
    }
    verified_domain(scene, "acme.example")
    run = await scene.step()
    assert ("matched", None, "ada@acme.example") in scene.named(run)
    assert scene.there()["ada@acme.example"]["far_id"] == ada["id"]
    assert [far.people.resources[one["id"]] for one in (ceo, below)] == [ceo, below], "another's domain, and one below it"


async def test_a_domain_that_is_not_verified_yet_counts_for_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member("ada@acme.example", listed=True)
    theirs = far.add("ada@acme.example")
    verified_domain(scene, "acme.example", is_proved=False)
    scene.active()
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs


async def test_whoever_was_met_before_goes_on(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """People who are there by an earlier release, or by a domain that is verified no more, are neither left out nor ended."""
    ada = scene.member("ada@acme.example", listed=True)
    theirs = far.add("ada@acme.example")
    verified_domain(scene, "acme.example")
    scene.active()
    await scene.step()
    scene.people.change("delete from domains")
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    # Also where somebody there has taken our id away.
    far.people.keep({**theirs, "externalId": None})
    assert scene.counts(await scene.step()) == {"overwritten": 1, "unchanged": 1}
    there = far.named("ada@acme.example")
    assert there is not None
    assert (there["id"], there["externalId"], there["active"]) == (theirs["id"], str(ada.user), True)


async def test_a_name_that_is_hidden_there_is_not_taken_by_force(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """The list does not show the account, making it is refused, and then the question shows it."""
    far.dialect = RemoteDialect(longest_page=1, pages=False)
    far.add("first@customer.example")
    theirs = far.add(CEO)
    scene.member(CEO, listed=True, proved=False)
    scene.active()
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs


async def test_a_fixed_text_as_a_name_is_no_proof_of_an_address(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Whoever writes the mapping has a proved address of their own."""
    theirs = far.add(CEO)
    scene.member("mallory@acme.example")
    scene.active(mapping=mapped(userName={"source": "constant", "argument": CEO}))
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs


async def test_a_name_of_ones_own_that_is_an_address_of_another_is_no_proof(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    theirs = far.add(CEO)
    mallory = scene.member("mallory@acme.example")
    for column in ("name", "given_name"):
        scene.people.change(f"update users set {column} = %s where id = %s", CEO, mallory.user)
    for source in ("name", "given_name"):
        scene.people.change("delete from provisioning_connections")
        scene.active(mapping=mapped(userName={"source": source}))
        await scene.step()
        assert far.people.resources[theirs["id"]] == theirs


async def test_a_proof_that_came_to_another_address_does_not_count_for_the_new_one(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """The account is the directory's own, so the directory may move it: to an address that nobody proved."""
    theirs = far.add(CEO)
    mallory = scene.member("mallory@acme.example", listed=True)
    scene.active()
    await scene.step()
    of_mallory = scene.there()["mallory@acme.example"]["far_id"]
    scene.people.change("update users set email = %s, email_key = %s, email_verified_at = null where id = %s", CEO, CEO, mallory.user)
    await scene.changed()
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs
    assert scene.there()[CEO]["far_id"] in {of_mallory, None}
    # Deleted there, Mallory's account is looked for anew, and still not found in the boss's.
    far.people.drop(of_mallory)
    await scene.step()
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs


async def test_a_filter_is_not_ended_by_a_value(scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.postgres.federation.provisioning_runs.dialect_of", without_lists)
    tricky = 'x" or userName eq "' + CEO
    theirs = far.add(CEO)
    scene.member("mallory@acme.example", name=tricky)
    scene.active(mapping=mapped(userName={"source": "name"}))
    await scene.step()
    assert far.people.resources[theirs["id"]] == theirs
    assert far.named(tricky) is not None
    assert far.statuses[400] == 0


async def test_a_mapping_reads_no_field_of_another_organization(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Ada is a member of both, and both have a field of this key. Only one of them has a value."""
    ada = scene.member("ada@acme.example")
    scene.tenants.join(ada, scene.globex)
    ids = scene.postern.foundation.ids
    for tenant, key in ((scene.globex, "salary"), (scene.acme, "salary"), (scene.globex, "illness")):
        field = ids.new()
        scene.people.change(
            "insert into all_profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)"
            " values (%s, %s, %s, 'X', 'text', '{administrator}', now(), now())",
            field,
            tenant.id,
            key,
        )
        if tenant is scene.globex:
            scene.people.change(
                "insert into profile_values (user_id, org_id, values, updated_at) values (%s, %s, %s, now())"
                " on conflict (user_id, org_id) do update set values = profile_values.values || excluded.values",
                ada.user,
                tenant.id,
                Jsonb({str(field): f"of globex: {key}"}),
            )
    more = [
        {"attribute": "title", "source": "organization_field", "argument": "salary"},
        {"attribute": "nickName", "source": "organization_field", "argument": "illness"},
        {"attribute": "userType", "source": "person_field", "argument": "salary"},
    ]
    scene.active(mapping=mapped(*more))
    await scene.step()
    assert "of globex" not in str(far.everybody())
    assert "of globex" not in str([one.body for one in far.arrived])


async def test_a_mapping_reads_neither_teams_nor_roles_of_another_organization(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.tenants.join(ada, scene.globex, "admin")
    team = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'secret-deal', 'Secret', now(), now())",
        team,
        scene.globex.id,
    )
    scene.people.change(
        "insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", team, scene.globex.id, ada.user
    )
    more = [
        {"attribute": "title", "source": "teams"},
        {"attribute": "nickName", "source": "role"},
        {"attribute": "userType", "source": "roles"},
    ]
    scene.active(mapping=mapped(*more))
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    assert there.get("title") is None
    assert there.get("nickName") != "admin"


@pytest.mark.parametrize("consent", [None, "{openid}", "{openid,email}"])
async def test_a_listed_persons_own_profile_stays_theirs(scene: ProvisioningScene, far: FakeRemoteSystem, consent: str | None) -> None:
    ada = scene.member("ada@acme.example", listed=True, given_name="Augusta", family_name="King", name="Countess")
    scene.people.change("update users set language = 'de', zoneinfo = 'Europe/London', username = 'countess' where id = %s", ada.user)
    if consent is not None:
        scene.people.change(
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, %s, now())",
            ada.user,
            scene.shop.id,
            consent,
        )
    # Consent to another application opens nothing here.
    scene.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{openid,profile}', now())",
        ada.user,
        scene.app.id,
    )
    more = [
        {"attribute": "locale", "source": "language"},
        {"attribute": "timezone", "source": "zoneinfo"},
        {"attribute": "nickName", "source": "user_name"},
    ]
    scene.active(mapping=mapped(*more))
    await scene.step()
    there = str(far.named("ada@acme.example"))
    assert not any(one in there for one in ("Augusta", "King", "Countess", "countess", "Europe/London", "'de'"))


async def test_people_of_another_tenant_go_nowhere_by_this_connection(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    eve = scene.member("eve@globex.example", tenant=scene.globex)
    scene.active()
    await scene.step()
    # Nor by a mark that somebody has forged, nor as one whom the connection has sent before.
    scene.people.change("insert into provisioning_marks values (%s, %s, now() - interval '1 second')", scene.connection, eve.user)
    await scene.changed()
    assert far.active() == {scene.boss.email}
    there = far.add("eve@globex.example", externalId=str(eve.user))
    await scene.step()
    assert far.people.resources[there["id"]] == there


async def test_a_suspended_organization_sends_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    scene.active()
    await scene.step()
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    far.forget_requests()
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    scene.leaves(ada)
    await scene.step()
    await scene.changed()
    assert far.arrived == []
