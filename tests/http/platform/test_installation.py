"""The installation by the API: its log, its background work, its keys and its settings, and the accounts that a platform owner closes."""

from typing import Final
from uuid import uuid4

import psycopg
import pytest
import trio

from adapters.postgres.locks import NAMESPACE, PLATFORM_OWNERS
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

LOG: Final = "/api/platform/audit-log"
JOBS: Final = "/api/platform/jobs"
KEYS: Final = "/api/platform/signing-keys"
SETTINGS: Final = "/api/platform/settings"
DEAD: Final = "01a20686-52f3-77fe-b295-49fbf1cdd2d2"


class InstallationScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.grace = self.speaker = self.people.add("grace@house.example", platform_owner=True)
        self.ada = self.resident(self.acme, "owner", "ada")

    async def key(self, *capabilities: str) -> str:
        """A management key of the platform."""
        made = await self.request("POST", "/api/platform/management-keys", {"name": "Robot", "capabilities": list(capabilities)})
        key: str = made.ok(201)["key"]
        self.log.remember(key)
        return key

    async def with_key(self, key: str, method: str, path: str) -> Received:
        return await self.client.request(method, path, token=key)

    async def act(self, act: str, person: Person, *, by: Person | None = None) -> Received:
        return await self.request("POST", f"/api/platform/users/{person.user}/{act}", by=by)

    def dies(self) -> None:
        self.people.change(
            """insert into jobs (id, kind, payload, state, attempts, run_at, died_at, last_error)
               values (%s, 'mail', '{"to": "secret@example.org"}', 'dead', 7, now(), now(), 'The mail server answered 550')""",
            DEAD,
        )

    def grow_old(self, person: Person) -> None:
        self.people.change(
            "update sessions set proved_at = now() - interval '1 day', created_at = now() - interval '1 day' where id = %s", person.session
        )


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> InstallationScene:
    return InstallationScene(postern, people, unlimited(postern), log)


async def test_the_log_of_the_installation_is_listed_filtered_and_opened(scene: InstallationScene) -> None:
    for act in ("deactivate", "activate"):
        assert (await scene.act(act, scene.ada)).status == 200
    listed = (await scene.request("GET", LOG)).ok()
    assert set(listed) == {"logs", "pagination"}
    assert [one["action"] for one in listed["logs"]][:2] == ["user.activated", "user.deactivated"]
    one = listed["logs"][0]
    assert one["org_id"] is None
    assert one["actor"]["email"] == scene.grace.email
    assert (one["target_type"], one["target_id"]) == ("user", str(scene.ada.user))
    narrowed = (await scene.request("GET", f"{LOG}?action=user.deactivated&target_type=user&target_id={scene.ada.user}&limit=1")).ok()
    assert [one["action"] for one in narrowed["logs"]] == ["user.deactivated"]
    assert narrowed["pagination"] == {"page": 1, "limit": 1, "total": 1, "total_pages": 1, "has_next": False, "has_prev": False}
    assert (await scene.request("GET", f"{LOG}/{one['id']}")).ok() == one
    assert refused(await scene.request("GET", f"{LOG}?target_id=7")) == (400, "BAD_REQUEST")
    assert refused(await scene.request("GET", f"{LOG}/{uuid4()}")) == (404, "NOT_FOUND")


async def test_entries_of_an_organization_are_not_in_the_log_of_the_installation(scene: InstallationScene) -> None:
    (await scene.request("POST", "/api/organizations/acme/roles", {"slug": "auditor", "name": "A", "permissions": []}, by=scene.ada)).ok(
        201
    )
    (entry,) = scene.people.rows("select id from audit_entries where organization_id = %s", scene.acme.id)
    assert str(entry["id"]) not in {one["id"] for one in (await scene.request("GET", LOG)).ok()["logs"]}
    assert refused(await scene.request("GET", f"{LOG}/{entry['id']}")) == (404, "NOT_FOUND")


async def test_a_dead_job_is_listed_and_taken_up_again_once(scene: InstallationScene) -> None:
    scene.dies()
    listed = await scene.request("GET", JOBS)
    assert "secret@example.org" not in str(listed.json())
    (job,) = listed.ok()["jobs"]
    assert {name: job[name] for name in ("id", "kind", "attempts", "last_error")} == {
        "id": DEAD,
        "kind": "mail",
        "attempts": 7,
        "last_error": "The mail server answered 550",
    }
    answers = await all_at_once(*(lambda: scene.request("POST", f"{JOBS}/{DEAD}/retry") for _ in range(4)))
    assert sorted(one.status for one in answers) == [200, 404, 404, 404]
    assert next(one.ok() for one in answers if one.status == 200) == {"id": DEAD, "kind": "mail"}
    assert (await scene.request("GET", JOBS)).ok() == {"jobs": []}
    assert scene.people.rows("select state, attempts from jobs") == [{"state": "waiting", "attempts": 0}]
    (row,) = scene.audited("platform.job.revived")
    assert (row["actor_id"], row["target_id"]) == (scene.grace.user, DEAD)


async def test_signing_keys_are_listed_without_their_private_halves_and_rotated(scene: InstallationScene) -> None:
    await scene.postern.foundation.signing_keys.ensure()
    listed = (await scene.request("GET", KEYS)).ok()
    assert set(listed) == {"signing_keys", "encryption_keys", "reencryption_finished"}
    assert {one["state"] for one in listed["signing_keys"]} == {"current", "next"}
    assert not any("private" in name or name == "d" for one in listed["signing_keys"] for name in one)
    assert listed["encryption_keys"][0]["encrypts"] is True
    following = {one["purpose"]: one["id"] for one in listed["signing_keys"] if one["state"] == "next"}
    rotated = (await scene.request("POST", f"{KEYS}/rotate")).ok()["rotated"]
    assert {one["purpose"]: one["activated"] for one in rotated} == following
    after = (await scene.request("GET", KEYS)).ok()["signing_keys"]
    assert {one["purpose"]: one["id"] for one in after if one["state"] == "current"} == following
    assert {row["actor_id"] for row in scene.audited("platform.signing_keys.rotated")} == {scene.grace.user}


async def test_settings_are_told_without_secrets(scene: InstallationScene) -> None:
    settings = {one["name"]: one for one in (await scene.request("GET", SETTINGS)).ok()["settings"]}
    assert settings["POSTERN_ENCRYPTION_KEYS"]["value"] == "***"
    assert settings["POSTERN_BASE_URL"]["value"] == scene.postern.foundation.public_url
    assert all(one["group"] for one in settings.values())


async def test_a_person_is_deactivated_and_activated(scene: InstallationScene) -> None:
    token = await scene.tenants.token(scene.ada)
    done = (await scene.act("deactivate", scene.ada)).ok()
    assert (done["user"]["id"], done["changed"], done["sessions_ended"]) == (str(scene.ada.user), True, 1)
    assert done["user"]["deactivated_at"] is not None
    assert (await scene.client.request("GET", "/api/user", token=token)).status == 401
    again = (await scene.act("deactivate", scene.ada)).ok()
    assert (again["changed"], again["sessions_ended"]) == (False, 0)
    done = (await scene.act("activate", scene.ada)).ok()
    assert (done["user"]["deactivated_at"], done["changed"]) == (None, True)
    assert (await scene.act("activate", scene.ada)).ok()["changed"] is False
    assert [(row["action"], row["actor_id"]) for row in scene.audited("user.%activated")] == [
        ("user.deactivated", scene.grace.user),
        ("user.activated", scene.grace.user),
    ]


async def test_who_is_not_there_or_is_oneself_is_neither(scene: InstallationScene) -> None:
    for act in ("deactivate", "activate"):
        assert refused(await scene.request("POST", f"/api/platform/users/{uuid4()}/{act}")) == (404, "NOT_FOUND")
        assert refused(await scene.act(act, scene.grace)) == (400, "BAD_REQUEST")
        assert refused(await scene.act(act, scene.ada, by=scene.ada)) == (403, "FORBIDDEN")


async def test_what_ends_access_or_changes_keys_takes_a_fresh_proof(scene: InstallationScene) -> None:
    scene.grow_old(scene.grace)
    for answer in (
        await scene.act("deactivate", scene.ada),
        await scene.act("activate", scene.ada),
        await scene.request("POST", f"{KEYS}/rotate"),
    ):
        assert refused(answer) == (401, "REAUTHENTICATION_REQUIRED")


@pytest.mark.parametrize(
    ("capability", "opened"),
    [
        ("audit_logs.view", {("GET", LOG), ("GET", f"{LOG}/{{entry}}")}),
        ("people.manage", {("POST", "/api/platform/users/{ada}/deactivate"), ("POST", "/api/platform/users/{ada}/activate")}),
        ("people.view", set()),
        ("configuration.manage", set()),
    ],
)
async def test_a_key_opens_what_its_capability_names(scene: InstallationScene, capability: str, opened: set[tuple[str, str]]) -> None:
    key = await scene.key(capability)
    scene.dies()
    (entry,) = scene.people.rows("select id from audit_entries where action = 'platform.management_key.created'")
    all_of_them = (
        *(("GET", LOG), ("GET", f"{LOG}/{{entry}}"), ("GET", JOBS), ("POST", f"{JOBS}/{DEAD}/retry")),
        *(("GET", KEYS), ("POST", f"{KEYS}/rotate"), ("GET", SETTINGS)),
        *(("POST", f"/api/platform/users/{{ada}}/{act}") for act in ("deactivate", "activate")),
    )
    for method, path in all_of_them:
        answer = await scene.with_key(key, method, path.format(entry=entry["id"], ada=scene.ada.user))
        assert answer.status == (200 if (method, path) in opened else 403), path


async def test_a_key_does_nothing_to_platform_owners(scene: InstallationScene) -> None:
    key = await scene.key("people.manage")
    other = scene.people.add("hopper@house.example", platform_owner=True)
    assert refused(await scene.with_key(key, "POST", f"/api/platform/users/{other.user}/deactivate")) == (403, "FORBIDDEN")
    assert (await scene.act("deactivate", other)).status == 200
    assert refused(await scene.with_key(key, "POST", f"/api/platform/users/{other.user}/activate")) == (403, "FORBIDDEN")
    assert scene.people.rows("select from users where id = %s and deactivated_at is not null", other.user) != []
    # Nor to whoever made it.
    assert refused(await scene.with_key(key, "POST", f"/api/platform/users/{scene.grace.user}/deactivate")) == (403, "FORBIDDEN")
    (entry,) = scene.audited("user.deactivated")
    assert entry["actor_id"] == scene.grace.user


@pytest.mark.parametrize("act", ["deactivate", "activate"])
async def test_who_becomes_a_platform_owner_at_this_moment_is_left_alone(
    scene: InstallationScene, emptied_database_url: str, act: str
) -> None:
    key, answers = await scene.key("people.manage"), list[Received]()
    if act == "activate":
        scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)

    async def ask() -> None:
        answers.append(await scene.with_key(key, "POST", f"/api/platform/users/{scene.ada.user}/{act}"))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select pg_advisory_xact_lock(%s, %s)", (NAMESPACE, PLATFORM_OWNERS))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await scene.people.somebody_waits()
            other.execute("update users set is_platform_owner = true where id = %s", (scene.ada.user,))
            other.commit()
    assert refused(answers[0]) == (403, "FORBIDDEN")


async def test_the_last_active_platform_owner_stays(scene: InstallationScene) -> None:
    other = scene.people.add("hopper@house.example", platform_owner=True)
    await scene.act("deactivate", other)
    assert refused(await scene.act("deactivate", scene.grace)) == (400, "BAD_REQUEST")


async def test_a_tenant_reads_none_of_it(scene: InstallationScene) -> None:
    scene.dies()
    for method, path in (
        ("GET", LOG),
        ("GET", JOBS),
        ("POST", f"{JOBS}/{DEAD}/retry"),
        ("GET", KEYS),
        ("POST", f"{KEYS}/rotate"),
        ("GET", SETTINGS),
    ):
        assert refused(await scene.request(method, path, by=scene.ada)) == (403, "FORBIDDEN"), path
