"""Single changes: triggers mark who is to be looked at, and what is sent is the state that is read then."""

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.runs import PROVISIONING_LEASE
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.federation.provisioning.scene import MAPPING, ProvisioningScene

_TEAM = "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'crew', 'Crew', now(), now())"
_ROLE = "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at) values (%s, %s, %s, 'r', 'R', now(), now())"


def marked(scene: ProvisioningScene) -> set[UUID]:
    return {row["user_id"] for row in scene.people.rows("select user_id from provisioning_marks")}


async def begun(scene: ProvisioningScene, **columns: Any) -> None:
    """Everybody is there, and nobody is marked."""
    scene.active(**columns)
    assert (await scene.step())["state"] == "done"
    await scene.changed()
    assert marked(scene) == set()


async def test_somebody_who_joins_changes_and_leaves_is_sent(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    for number in range(12):
        scene.member(f"p{number}@acme.example")
    await begun(scene)
    ada = scene.member("ada@acme.example")
    run = await scene.changed()
    assert (run["kind"], scene.counts(run)) == ("changes", {"made": 1})
    far.forget_requests()
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    assert scene.counts(await scene.changed()) == {"changed": 1}
    there = far.named("ada@acme.example")
    assert there is not None
    assert there["name"] == {"givenName": "Ada"}
    assert len(far.writes()) == 1
    scene.leaves(ada)
    assert scene.named(await scene.changed()) == [("ended", "no_member", "ada@acme.example")]
    assert "ada@acme.example" not in far.active()


async def test_whoever_nothing_changed_is_not_sent(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    await begun(scene)
    far.forget_requests()
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    scene.people.change("update users set given_name = null where id = %s", ada.user)
    assert marked(scene) == {ada.user}
    await scene.changed()
    assert (marked(scene), far.arrived) == (set(), [])


async def test_each_thing_that_a_mapping_reads_marks_the_person(scene: ProvisioningScene) -> None:
    ada = scene.member("ada@acme.example", listed=True)
    await begun(scene)
    change, ids = scene.people.change, scene.postern.foundation.ids
    team, role, field = ids.new(), ids.new(), ids.new()
    change(
        _TEAM,
        team,
        scene.acme.id,
    )
    change(
        _ROLE,
        role,
        scene.acme.id,
        scene.shop.id,
    )
    del field
    person, organization = ada.user, scene.acme.id
    changes: dict[str, tuple[str, tuple[Any, ...]]] = {
        "own": ("update memberships set own_since = now() where user_id = %s", (person,)),
        "address": ("update users set email = 'a2@acme.example', email_key = 'a2@acme.example' where id = %s", (person,)),
        "proof": ("update users set email_verified_at = null where id = %s", (person,)),
        "name": ("update users set name = 'Ada' where id = %s", (person,)),
        "language": ("update users set language = 'de' where id = %s", (person,)),
        "lock": ("update users set deactivated_at = now(), locked_at = now() where id = %s", (person,)),
        "open": ("update users set deactivated_at = null where id = %s", (person,)),
        "role": ("update memberships set role = 'admin' where user_id = %s", (person,)),
        "values": (
            "insert into profile_values (user_id, org_id, values, updated_at) values (%s, %s, %s, now())",
            (person, organization, Jsonb({"f": 1})),
        ),
        "changed values": ("update profile_values set values = %s where user_id = %s", (Jsonb({"f": 2}), person)),
        "consent": (
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{profile}', now())",
            (person, scene.shop.id),
        ),
        "wider consent": ("update consents set scopes = '{profile,email}' where user_id = %s", (person,)),
        "no consent": ("delete from consents where user_id = %s", (person,)),
        "directory": (
            (
                "insert into provisioned_users (org_id, user_id, given_name, is_member, created_at, updated_at)"
                " values (%s, %s, 'A', true, now(), now())"
            ),
            (organization, person),
        ),
        "directory's name": ("update provisioned_users set given_name = 'B' where user_id = %s", (person,)),
        "team": ("insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", (team, organization, person)),
        "no team": ("delete from team_members where user_id = %s", (person,)),
        "assigned": (
            (
                "insert into relations (id, organization_id, user_id, relation, object_type, object_id, service_id, created_at)"
                " values (gen_random_uuid(), %s, %s, 'holder', 'service_role', %s, %s, now())"
            ),
            (organization, person, role, scene.shop.id),
        ),
        "not assigned": ("delete from relations where user_id = %s and object_type = 'service_role'", (person,)),
        "gone": ("delete from memberships where user_id = %s", (person,)),
    }
    for name, (statement, values) in changes.items():
        scene.people.change("delete from provisioning_marks")
        change(statement, *values)
        assert marked(scene) == {person}, name


async def test_of_whoever_is_listed_only_what_the_organization_may_know_marks(scene: ProvisioningScene) -> None:
    """Whether somebody proves the address, renames themself or is locked is none of the organization's business."""
    ada = scene.member("ada@acme.example", listed=True, proved=False)
    await begun(scene)
    person, acme, globex = ada.user, scene.acme.id, scene.globex.id
    users = "update users set {} where id = %s"
    values = "insert into profile_values (user_id, values, updated_at) values (%s, '{\"f\": 1}', now())"
    for name, statement in {
        "proof": users.format("email_verified_at = now()"),
        "no proof": users.format("email_verified_at = null"),
        "another's provider": users.format(f"address_vouched_by = '{globex}/x'"),
        "nobody's provider": users.format("address_vouched_by = null"),
        "names": users.format("name = 'A', given_name = 'A', family_name = 'B', username = 'ada_b', zoneinfo = 'UTC', language = 'de'"),
        "lock": users.format("deactivated_at = now(), locked_at = now()"),
        "open": users.format("deactivated_at = null, locked_at = null"),
        "another's directory": users.format(f"deactivated_at = now(), deactivated_by_org_id = '{globex}'"),
        "open again": users.format("deactivated_at = null, deactivated_by_org_id = null"),
        "own values": values,
        "other own values": "update profile_values set values = '{}' where user_id = %s and org_id is null",
    }.items():
        scene.people.change("delete from provisioning_marks")
        scene.people.change(statement, person)
        assert marked(scene) == set(), name
    for name, statement in {
        "address": users.format("email = 'a2@acme.example', email_key = 'a2@acme.example'"),
        "our provider": users.format(f"address_vouched_by = '{acme}/x'"),
        "our directory": users.format(f"deactivated_at = now(), deactivated_by_org_id = '{acme}'"),
        "open": users.format("deactivated_at = null, deactivated_by_org_id = null"),
        "consent": "insert into consents (id, user_id, service_id, scopes, granted_at)"
        f" values (gen_random_uuid(), %s, '{scene.shop.id}', '{{profile}}', now())",
        "a name that they let the application read": users.format("name = 'Ada'"),
        "a value of their own": "update profile_values set values = '{\"f\": 2}' where user_id = %s and org_id is null",
    }.items():
        scene.people.change("delete from provisioning_marks")
        scene.people.change(statement, person)
        assert marked(scene) == {person}, name


async def test_what_no_mapping_reads_marks_nobody(scene: ProvisioningScene) -> None:
    ada = scene.member("ada@acme.example")
    await begun(scene)
    for statement in (
        "update users set password_hash = 'x', password_changed_at = now(), updated_at = now() where id = %s",
        "update users set given_name = given_name where id = %s",
        "update memberships set created_at = now() where user_id = %s",
    ):
        scene.people.change(statement, ada.user)
    assert marked(scene) == set()


async def test_nobody_is_marked_without_an_active_connection(scene: ProvisioningScene) -> None:
    ada = scene.member("ada@acme.example")
    scene.active(state="draft")
    scene.people.change("update users set name = 'Ada' where id = %s", ada.user)
    other = scene.member("eve@globex.example", tenant=scene.globex)
    scene.people.change("update provisioning_connections set state = 'active'")
    scene.people.change("update users set name = 'Eve' where id = %s", other.user)
    assert marked(scene) == set()


async def test_what_concerns_many_marks_the_connection(scene: ProvisioningScene) -> None:
    await begun(scene)
    ids = scene.postern.foundation.ids
    team, role = ids.new(), ids.new()
    scene.people.change(
        _TEAM,
        team,
        scene.acme.id,
    )
    scene.people.change(
        _ROLE,
        role,
        scene.acme.id,
        scene.shop.id,
    )
    for statement, *values in (
        ("update all_services set sign_in_policy = 'assigned' where id = %s", scene.shop.id),
        ("update teams set role = 'admin' where id = %s", team),
        (
            (
                "insert into relations (id, organization_id, team_id, relation, object_type, object_id, service_id, created_at)"
                " values (gen_random_uuid(), %s, %s, 'holder', 'service_role', %s, %s, now())"
            ),
            scene.acme.id,
            team,
            role,
            scene.shop.id,
        ),
    ):
        scene.people.change("update provisioning_connections set whole_due_at = now() + interval '1 day'")
        scene.people.change(statement, *values)
        (row,) = scene.people.rows("select whole_due_at <= now() as due from provisioning_connections")
        assert row["due"], statement


async def test_marks_that_a_killed_process_has_taken_are_taken_again(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example")
    await begun(scene)
    scene.people.change("update users set name = 'Ada' where id = %s", ada.user)
    now = scene.postern.foundation.clock.now()
    scene.people.change("update provisioning_connections set leased_until = null")
    (work,) = await scene.keeping.claim_due(10)
    async with scene.postern.foundation.unit_of_work() as uow:
        assert await uow.provisioning_runs.renew_lease(work, now + PROVISIONING_LEASE)
        assert list(await uow.provisioning_runs.take_marks(work, now, 100)) == [ada.user]
        await uow.commit()
    assert marked(scene) == set()
    # The process is gone, and its lease ends.
    assert scene.counts(await scene.changed()) == {"changed": 1}
    there = far.named("ada@acme.example")
    assert there is not None
    assert there["displayName"] == "Ada"
    assert scene.people.rows("select taken from provisioning_connections") == [{"taken": []}]


async def test_an_attribute_that_an_owner_leaves_out_is_not_written(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada = scene.member("ada@acme.example", name="Ada")
    scene.active(attributes_left_out=["displayName"], mapping=Jsonb(MAPPING))
    await scene.step()
    there = far.named("ada@acme.example")
    assert there is not None
    assert "displayName" not in there
    far.people.resources[there["id"]]["displayName"] = "Countess"
    assert scene.counts(await scene.step()) == {"unchanged": 2}
    del ada
