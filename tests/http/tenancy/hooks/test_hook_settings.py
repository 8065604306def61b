"""Owners set the hook before a sign-in, and let it count once they have seen what it would do. Both keepers go by the same rules."""

import json
from base64 import b64decode
from typing import Any, Final
from uuid import uuid4

import pytest

from core.domain.tenancy.roles import Capability
from tests.http.client import refused
from tests.http.tenancy.hooks.scene import ACME, GLOBEX, INSTALLATION, HookScene, saying
from tests.receiver import answering, hanging_up

KEEPERS: Final = pytest.mark.parametrize("at", [ACME, INSTALLATION])
_BEGINS: Final = {ACME: "hook.", INSTALLATION: "platform.hook."}


@KEEPERS
async def test_a_hook_begins_in_shadow_with_a_secret_that_is_shown_once(scene: HookScene, at: str) -> None:
    nothing = await scene.shown(at)
    assert (nothing["id"], nothing["address"], nothing["stands"], nothing["digest"], nothing["report"]) == (None, None, None, None, None)
    made = await scene.made(at, seconds=3)
    assert made["secret"].startswith("whsec_")
    assert len(b64decode(made["secret"][6:])) == 32
    assert (made["address"], made["silence"], made["seconds"], made["stands"]) == (scene.url, "go_on", 3, "shadow")
    assert made["report"]["asked"] == 0
    assert not made["report"]["may_count"]
    shown = await scene.shown(at)
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert made["secret"] not in str(scene.audited())
    (entry,) = scene.audited(f"{_BEGINS[at]}created")
    assert entry["details"]["host"] == "127.0.0.1"
    assert scene.url not in str(entry["details"])
    assert (entry["organization_id"] is None) == (at == INSTALLATION)


@KEEPERS
async def test_each_change_goes_by_what_the_owner_has_seen_and_puts_the_hook_in_shadow(scene: HookScene, at: str) -> None:
    made = await scene.made(at)
    counting = await scene.counting(at)
    assert counting["stands"] == "counts"
    for digest in (None, made["digest"][::-1], "0" * 64):
        assert refused(await scene.put(at=at, seconds=4, digest=digest)) == (409, "CONFLICT"), digest
    assert (await scene.shown(at))["stands"] == "counts"
    same = (await scene.put(at=at, digest=counting["digest"])).ok()
    assert (same["stands"], same["secret"]) == ("counts", None), "nothing has changed"
    for change in ({"silence": "refuse"}, {"silence": "refuse", "seconds": 5}, {"address": f"{scene.url}/other"}):
        scene.stood(asked=100)
        before = await scene.shown(at)
        if before["stands"] == "shadow":
            (await scene.ask("POST", "/count", {"digest": before["report"]["digest"]}, at=at)).ok()
        changed = (await scene.put(at=at, digest=before["digest"], **change)).ok()
        assert (changed["stands"], changed["report"]["asked"], changed["secret"]) == ("shadow", 0, None), change
        assert scene.people.rows("select counts_as from hooks") == [{"counts_as": None}]
    assert len(scene.audited(f"{_BEGINS[at]}updated")) == 3


@KEEPERS
async def test_an_owner_lets_it_count_after_a_hundred_questions_or_an_hour_by_what_the_report_showed(scene: HookScene, at: str) -> None:
    made = await scene.made(at)
    assert refused(await scene.ask("POST", "/count", {"digest": made["report"]["digest"]}, at=at)) == (409, "CONFLICT")
    scene.stood(asked=99)
    assert refused(await scene.ask("POST", "/count", {"digest": made["report"]["digest"]}, at=at)) == (409, "CONFLICT")
    scene.stood(asked=100)
    shown = await scene.shown(at)
    assert shown["report"]["may_count"]
    # What the report did not show.
    scene.stood(refused=1)
    assert refused(await scene.ask("POST", "/count", {"digest": shown["report"]["digest"]}, at=at)) == (409, "CONFLICT")
    shown = await scene.shown(at)
    # One more no is not another report: a hook is asked while its owner reads.
    scene.stood(refused=2, asked=104)
    assert (await scene.ask("POST", "/count", {"digest": shown["report"]["digest"]}, at=at)).ok()["stands"] == "counts"
    (entry,) = scene.audited(f"{_BEGINS[at]}counts")
    assert (entry["details"]["asked"], entry["details"]["refused"], entry["details"]["digest"]) == (104, 2, shown["digest"])
    # It never counts by itself, and is asked once.
    assert (await scene.ask("POST", "/count", {"digest": (await scene.shown(at))["report"]["digest"]}, at=at)).ok()["stands"] == "counts"
    assert len(scene.audited(f"{_BEGINS[at]}counts")) == 1


@KEEPERS
async def test_an_hour_in_shadow_is_enough(scene: HookScene, at: str) -> None:
    await scene.made(at)
    assert (await scene.counting(at))["stands"] == "counts"
    shadow = (await scene.ask("POST", "/shadow", at=at)).ok()
    assert (shadow["stands"], shadow["report"]["asked"], shadow["report"]["may_count"]) == ("shadow", 0, False)
    assert (await scene.ask("POST", "/shadow", at=at)).ok()["since"] == shadow["since"]
    assert len(scene.audited(f"{_BEGINS[at]}in_shadow")) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "http://checks.example.org/"},
        {"address": "http://8.8.8.8/"},
        {"address": "ftp://checks.example.org/"},
        {"address": "https://169.254.169.254/latest"},
        {"address": "https://user:secret@checks.example.org/"},
        {"address": ""},
        {"seconds": 0},
        {"seconds": 6},
        {"silence": "perhaps"},
    ],
)
async def test_a_hook_is_an_address_outside_with_few_seconds(scene: HookScene, changed: dict[str, Any]) -> None:
    assert (await scene.put(**changed)).status == 400
    assert scene.people.rows("select 1 from hooks") == []


async def test_nobody_but_an_owner_in_person_and_freshly_proved_sets_it(scene: HookScene) -> None:
    made = await scene.made()
    scene.stood()
    seen = (await scene.shown())["report"]["digest"]
    acts: list[tuple[str, str, Any]] = [
        ("PUT", "", {"address": scene.url, "silence": "refuse", "digest": made["digest"]}),
        ("POST", "/count", {"digest": seen}),
        ("POST", "/shadow", None),
        ("POST", "/rotate-secret", None),
        ("DELETE", "", None),
        ("POST", "/try", None),
    ]
    key = scene.tenants.management_key(scene.acme, scene.boss, [*Capability])
    for method, step, body in acts:
        assert (await scene.ask(method, step, body, by=scene.admin)).status == 403, step
        assert (await scene.ask(method, step, body, by=scene.stranger)).status == 403, step
        assert (await scene.ask(method, step, body, by=scene.root)).status == 403, step
        assert (await scene.client.request(method, f"{ACME}{step}", body=body, token=key)).status in {401, 403}, step
        assert (await scene.ask(method, step, body, at=INSTALLATION, by=scene.boss)).status == 403, step
    scene.people.change("update sessions set proved_at = now() - interval '1 day'")
    for method, step, body in acts[:-1]:
        assert refused(await scene.ask(method, step, body)) == (401, "REAUTHENTICATION_REQUIRED"), step
    assert (await scene.shown())["digest"] == (await scene.ask("GET", by=scene.admin)).ok()["digest"]
    assert scene.receiver.calls == []


async def test_an_organization_has_a_hook_of_its_own(scene: HookScene) -> None:
    await scene.made()
    assert (await scene.shown(GLOBEX))["id"] is None
    theirs = await scene.made(GLOBEX)
    installation = await scene.made(INSTALLATION)
    assert len({theirs["id"], installation["id"], (await scene.shown())["id"]}) == 3
    assert (await scene.ask("GET", by=scene.stranger)).status == 403
    assert (await scene.ask("GET", "/exchanges", by=scene.stranger)).status == 403
    assert (await scene.ask("DELETE", at=GLOBEX)).status == 204
    assert {row["id"] for row in scene.people.rows("select id::text as id from hooks")} == {installation["id"], (await scene.shown())["id"]}


@KEEPERS
async def test_a_new_secret_signs_beside_the_former_one_for_a_day(scene: HookScene, at: str) -> None:
    made = await scene.made(at)
    rotated = (await scene.ask("POST", "/rotate-secret", at=at)).ok()
    scene.log.remember(rotated["secret"])
    assert rotated["secret"] not in {made["secret"], None}
    assert rotated["digest"] != made["digest"], "whoever let it count has seen another one"
    (await scene.ask("POST", "/try", at=at)).ok()
    (call,) = scene.receiver.calls
    assert len(call.headers["webhook-signature"].split()) == 2
    scene.people.change("update hooks set previous_until = now()")
    (await scene.ask("POST", "/try", at=at)).ok()
    assert len(scene.receiver.calls[-1].headers["webhook-signature"].split()) == 1


@KEEPERS
async def test_a_trial_asks_about_nobody_and_counts_nowhere(scene: HookScene, at: str) -> None:
    await scene.made(at)
    tried = (await scene.ask("POST", "/try", at=at)).ok()
    assert (tried["success"], tried["outcome"], tried["why"]) == (True, "go_on", None)
    (call,) = scene.receiver.calls
    asked = json.loads(call.body)
    assert asked["user"]["email"] == "somebody@example.com"
    assert asked["user"]["sub"] == "00000000-0000-0000-0000-000000000000"
    assert asked["point"] == "sign_in"
    assert asked["id"] == call.headers["webhook-id"]
    scene.receiver.answer = saying({"decision": "no", "reason": "place"})
    assert (await scene.ask("POST", "/try", at=at)).ok()["why"] == "place"
    for answer, why in (
        (answering(500), "status"),
        (answering(302, b"", "location: http://127.0.0.1/"), "status"),
        (saying({"decision": "let_in"}), "invalid_answer"),
        (saying({"decision": "no", "reason": "because I say so"}), "invalid_answer"),
        (answering(200, b"x" * 70_000, "content-type: application/json"), "answer_too_long"),
        (hanging_up, "malformed_answer"),
    ):
        scene.receiver.answer = answer
        tried = (await scene.ask("POST", "/try", at=at)).ok()
        assert (tried["success"], tried["outcome"], tried["why"]) == (False, "silent", why)
    exchanges: Any = (await scene.ask("GET", "/exchanges", at=at)).ok()
    assert [one["outcome"] for one in exchanges] == ["silent"] * 6 + ["no", "go_on"]
    assert all(one["is_test"] and not one["counted"] for one in exchanges)
    for text in ("somebody@example.com", "because I say so", "192.0.2.1"):
        assert text not in json.dumps(exchanges)
    assert exchanges[-1]["answered"] == '{"decision": "go_on"}'
    assert (await scene.shown(at))["report"]["asked"] == 0
    assert len(scene.audited(f"{_BEGINS[at]}tested")) == 8


async def test_the_last_fifty_exchanges_are_kept(scene: HookScene) -> None:
    made = await scene.made()
    scene.people.change(
        "insert into hook_exchanges (id, hook_id, at, milliseconds, outcome, counted, sent)"
        " select gen_random_uuid(), %s, now() - make_interval(secs => number), 1, 'go_on', false, '{}'"
        " from generate_series(1, 60) as number",
        made["id"],
    )
    assert len((await scene.ask("GET", "/exchanges")).ok()) == 50
    (await scene.ask("POST", "/try")).ok()
    assert scene.people.rows("select count(*) as count from hook_exchanges") == [{"count": 50}]


@KEEPERS
async def test_what_is_not_there_is_neither_changed_nor_tried(scene: HookScene, at: str) -> None:
    for method, step in (("POST", "/try"), ("POST", "/shadow"), ("POST", "/rotate-secret"), ("DELETE", ""), ("GET", "/exchanges")):
        assert (await scene.ask(method, step, at=at)).status == 404, step
    assert (await scene.ask("POST", "/count", {"digest": "x"}, at=at)).status == 404
    assert (await scene.put(at=at, digest="0" * 64)).status == 409


@KEEPERS
async def test_a_deleted_hook_leaves_nothing(scene: HookScene, at: str) -> None:
    await scene.counting(at)
    (await scene.ask("POST", "/try", at=at)).ok()
    assert (await scene.ask("DELETE", at=at)).status == 204
    assert (await scene.shown(at))["id"] is None
    assert scene.people.rows("select 1 from hooks union all select 1 from hook_exchanges") == []
    assert len(scene.audited(f"{_BEGINS[at]}deleted")) == 1


async def test_a_hook_that_has_arrived_without_a_secret_waits_for_one(scene: HookScene) -> None:
    await scene.made()
    scene.people.change("update hooks set sealed_secret = null, secret_made_at = null, since = now() - interval '2 hours'")
    shown = await scene.shown()
    assert (shown["has_secret"], shown["report"]["may_count"]) == (False, False)
    assert refused(await scene.ask("POST", "/count", {"digest": shown["report"]["digest"]})) == (409, "CONFLICT")
    assert refused(await scene.ask("POST", "/try")) == (409, "CONFLICT")
    given = (await scene.ask("POST", "/rotate-secret")).ok()
    scene.log.remember(given["secret"])
    assert given["has_secret"]
    assert not given["report"]["may_count"], "its time in shadow begins with the secret"
    assert (await scene.ask("POST", "/try")).ok()["outcome"] == "go_on"


async def test_the_page_says_how_many_members_are_only_listed(scene: HookScene) -> None:
    await scene.made()
    assert (await scene.shown())["listed_only"] == 0
    for name in ("one", "two"):
        scene.tenants.join(scene.people.add(f"{name}@elsewhere.example"), scene.acme, listed=True)
    scene.tenants.join(scene.people.add("three@elsewhere.example"), scene.globex, listed=True)
    assert (await scene.shown())["listed_only"] == 2


async def test_owners_learn_how_many_keys_of_people_a_hook_says_nothing_of(scene: HookScene) -> None:
    """Of their own organization, with those that still count; and before they enforce the hook."""
    shop, till = scene.tenants.service(scene.acme, "shop"), scene.tenants.service(scene.globex, "till")
    ada = scene.people.add("ada@acme.example")
    for service in (shop, till):
        scene.tenants.uses(ada, service)
    for service, expires in ((shop, None), (shop, "1 hour"), (shop, "-1 hour"), (till, None)):
        scene.people.change(
            "insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, expires_at, created_at)"
            " values (%s, %s, %s, 'a key', %s, %s, '{}', now() + %s::interval, now())",
            uuid4(),
            service.id,
            ada.user,
            str(uuid4()),
            uuid4().bytes,
            expires,
        )
    assert (await scene.shown())["user_keys"] == 2
    await scene.made()
    assert (await scene.shown())["user_keys"] == 2
    assert (await scene.shown(GLOBEX))["user_keys"] == 1
    await scene.made(INSTALLATION)
    assert (await scene.shown(INSTALLATION))["user_keys"] == 0
