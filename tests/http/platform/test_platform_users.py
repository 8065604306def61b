"""Users as platform owners see them: found by search, and their second factor, which platform owners can disable."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import pytest

from core.domain.platform.platform_users import MOST_ORGANIZATIONS
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.endpoints import parameters
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import enable_mfa, unlimited

SEARCH: Final = "/api/platform/users/search"
Body = dict[str, Any]


class PlatformUserScene(Cast):
    audited_columns = "actor_id, target_id, details, success, host(address) as address"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grace = self.speaker = self.people.add("grace@house.example", platform_owner=True)

    async def found(self, query: str) -> list[Body]:
        body = (await self.request("GET", f"{SEARCH}?{query}")).ok()
        assert set(body) == {"users", "complete"}
        users: list[Body] = body["users"]
        return users

    async def emails(self, query: str) -> list[str]:
        return [one["email"] for one in await self.found(query)]

    async def mfa(self, person: Person) -> Body:
        return (await self.request("GET", f"/api/platform/users/{person.user}/mfa/status")).ok()

    def mfa_event(self, person: Person, name: str, at: datetime, *, success: bool = True) -> None:
        self.people.change(
            "insert into mfa_events (id, user_id, name, success, created_at) values (%s, %s, %s, %s, %s)",
            self.postern.foundation.ids.new(),
            person.user,
            name,
            success,
            at,
        )


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> PlatformUserScene:
    return PlatformUserScene(postern, people, unlimited(postern), log)


async def test_a_user_is_found_with_their_organizations_and_whether_they_have_a_second_factor(scene: PlatformUserScene) -> None:
    ada = scene.people.add("Ada@one.example")
    scene.people.change("update users set created_at = '2026-05-04T12:00:00Z' where id = %s", ada.user)
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, 'x', now())", ada.user)
    zeta, acme, gone = (scene.tenants.add(slug) for slug in ("zeta", "acme", "gone"))
    scene.tenants.join(ada, zeta, "owner")
    scene.tenants.join(ada, acme, scene.tenants.role(acme, "auditor", []))
    scene.tenants.join(ada, gone)
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", gone.id)
    expected = {
        "id": str(ada.user),
        "email": "Ada@one.example",
        "name": None,
        "is_platform_owner": False,
        "mfa_enabled": False,
        "created_at": "2026-05-04T12:00:00Z",
        "organizations": [
            {"id": str(acme.id), "slug": "acme", "name": "Acme", "role": "auditor"},
            {"id": str(zeta.id), "slug": "zeta", "name": "Zeta", "role": "owner"},
        ],
    }
    assert await scene.found("email=ada@one.example") == [expected]
    scene.people.change("update mfa_secrets set enabled_at = now()")
    assert await scene.found(f"user_id={ada.user}") == [{**expected, "mfa_enabled": True}]
    (grace,) = await scene.found(f"user_id={scene.grace.user}")
    assert (grace["is_platform_owner"], grace["organizations"]) == (True, [])


async def test_a_whole_address_finds_its_account_alone(scene: PlatformUserScene) -> None:
    for email in ("ada@one.example", "xada@one.example", "ada@one.example.org"):
        scene.people.add(email)
    assert await scene.emails("email=ADA@one.example") == ["ada@one.example"]
    assert await scene.emails("email=ada@one.exampl") == ["ada@one.example", "ada@one.example.org", "xada@one.example"]
    assert await scene.emails("email=nobody@one.example") == []


async def test_any_part_of_an_address_finds_it_in_any_case(scene: PlatformUserScene) -> None:
    for email in ("ada@one.example", "ADA.b@two.example", "bob@one.example", "Zoë@drei.example"):
        person = scene.people.add(email)
        scene.people.change("update users set email_key = %s where id = %s", email.casefold(), person.user)
    assert await scene.emails("email=ada") == ["ADA.b@two.example", "ada@one.example"]
    assert await scene.emails("email=%20AdA%20") == ["ADA.b@two.example", "ada@one.example"]
    assert await scene.emails("email=@ONE.") == ["ada@one.example", "bob@one.example"]
    assert await scene.emails("email=b%40t") == ["ADA.b@two.example"]
    # The same letter in another Unicode form: a search finds the text that people see.
    assert await scene.emails("email=" + quote("ZOE\u0308")) == ["Zoë@drei.example"]
    assert await scene.emails("email=nobody") == []
    assert len(await scene.emails("email=example")) == 5


async def test_nothing_in_a_part_is_a_wildcard(scene: PlatformUserScene) -> None:
    for email in ("a_b@x.example", "axb@x.example", "100%@x.example", "back\\slash@x.example"):
        scene.people.add(email)
    assert await scene.emails("email=a_b") == ["a_b@x.example"]
    assert await scene.emails("email=%25") == ["100%@x.example"]
    assert await scene.emails("email=" + quote("\\")) == ["back\\slash@x.example"]
    for hostile in ("'", "' or true --", "%%%", "__", "\\%", "<script>", "\u202e", "*", "a" * 320):
        assert await scene.emails("email=" + quote(hostile)) == []


async def test_both_given_both_must_hold(scene: PlatformUserScene) -> None:
    ada = scene.people.add("ada@one.example")
    assert await scene.emails(f"email=one&user_id={ada.user}") == ["ada@one.example"]
    assert await scene.emails(f"email=two&user_id={ada.user}") == []
    assert await scene.emails(f"user_id={uuid4()}") == []


async def test_without_either_the_newest_are_listed(scene: PlatformUserScene) -> None:
    people = [scene.people.add() for _ in range(25)]
    newest = [person.email for person in people[::-1]]
    assert await scene.emails("") == newest[:20]
    assert await scene.emails("email=%20&limit=3") == newest[:3]
    assert len(await scene.emails("limit=100")) == 26
    assert len(await scene.emails("email=person")) == 20


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "user_id=x", "user_id=", "email=" + "a" * 321, "email=a&email=b", "email=a%00b", "email=%ff"],
)
async def test_a_search_that_makes_no_sense_is_refused(scene: PlatformUserScene, query: str) -> None:
    answer = await scene.request("GET", f"{SEARCH}?{query}")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_a_person_in_very_many_organizations_is_listed_with_the_first(scene: PlatformUserScene) -> None:
    ada = scene.people.add("ada@one.example")
    scene.people.change(
        "with made as (insert into all_organizations (id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), 'many-' || lpad(n::text, 4, '0'), 'X', now(), now() from generate_series(1, 120) as n returning id)"
        " insert into memberships (id, org_id, user_id, role, created_at) select gen_random_uuid(), id, %s, 'member', now() from made",
        ada.user,
    )
    (found,) = await scene.found("email=ada")
    assert [one["slug"] for one in found["organizations"]] == [f"many-{n:04}" for n in range(1, MOST_ORGANIZATIONS + 1)]


async def test_the_second_factor_of_a_user(scene: PlatformUserScene) -> None:
    ada = scene.people.add("ada@one.example")
    nothing = {
        "user_id": str(ada.user),
        "email": "ada@one.example",
        "name": None,
        "mfa_enabled": False,
        "mfa_enabled_at": None,
        "backup_codes_remaining": 0,
        "last_mfa_challenge": None,
    }
    assert await scene.mfa(ada) == nothing
    # A second factor that awaits its first code does not count.
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, 'x', now())", ada.user)
    assert await scene.mfa(ada) == nothing
    scene.people.change("update mfa_secrets set enabled_at = '2026-05-04T12:00:00Z'")
    scene.people.change(
        "insert into backup_codes (user_id, digest, used_at) values (%s, 'a', null), (%s, 'b', null), (%s, 'c', now())", *[ada.user] * 3
    )
    scene.mfa_event(ada, "mfa_verify_attempt", datetime(2026, 5, 4, 13, 0, tzinfo=UTC))
    scene.mfa_event(ada, "mfa_verify_attempt", datetime(2026, 5, 4, 14, 0, tzinfo=UTC), success=False)
    scene.mfa_event(ada, "mfa_verify_failed", datetime(2026, 5, 4, 15, 0, tzinfo=UTC), success=False)
    scene.mfa_event(scene.grace, "mfa_verify_attempt", datetime(2026, 5, 4, 16, 0, tzinfo=UTC))
    assert await scene.mfa(ada) == {
        **nothing,
        "mfa_enabled": True,
        "mfa_enabled_at": "2026-05-04T12:00:00Z",
        "backup_codes_remaining": 2,
        "last_mfa_challenge": "2026-05-04T14:00:00Z",
    }


async def test_a_user_who_is_not_there_is_not_found(scene: PlatformUserScene) -> None:
    for user in (uuid4(), scene.grace.session, "not-an-id"):
        for method, path, body in (
            ("GET", f"/api/platform/users/{user}/mfa/status", None),
            ("DELETE", f"/api/platform/users/{user}/mfa", {"reason": "Lost"}),
        ):
            answer = await scene.request(method, path, body)
            assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


async def test_a_lost_second_factor_is_taken_away_on_record_and_its_owner_is_told(scene: PlatformUserScene, postern: Postern) -> None:
    ada = scene.people.add("ada@one.example")
    scene.people.change("delete from sessions where user_id = %s", ada.user)
    await enable_mfa(scene.client, scene.people, ada)
    postbox = Postbox(postern)
    await postbox.empty()
    scene.people.change(
        "insert into devices (id, user_id, name, device_type, last_used_at, trust_digest, trusted_until, created_at, updated_at)"
        " values (%s, %s, 'Telephone', 'mobile', now(), 'x', now() + interval '1 day', now(), now())",
        ada.user,
        ada.user,
    )
    path = f"/api/platform/users/{ada.user}/mfa"
    answer = await scene.request("DELETE", path, {"reason": " Telephone\nlost "})
    assert (answer.status, answer.json()) == (200, {"success": True, "message": "MFA is disabled"})
    assert scene.people.rows("select * from mfa_secrets") == scene.people.rows("select * from backup_codes") == []
    assert scene.people.rows("select trusted_until from devices") == [{"trusted_until": None}]
    (entry,) = scene.audited("security.mfa.disabled")
    assert entry == {
        "actor_id": scene.grace.user,
        "target_id": str(ada.user),
        "details": {"forced": True, "reason": "Telephone lost"},
        "success": True,
        "address": "192.0.2.1",
    }
    (event,) = scene.people.rows("select user_id, details from mfa_events where name = 'mfa_force_disabled_by_admin'")
    assert (event["user_id"], event["details"]["reason"]) == (ada.user, "Telephone lost")
    (mail,) = await postbox.empty()
    assert mail.to == "ada@one.example"
    again = await scene.request("DELETE", path, {"reason": "Again"})
    assert (again.status, again.json()) == (200, {"success": True, "message": "MFA was not enabled"})
    assert len(scene.audited("security.mfa.disabled")) == 1


async def test_the_reason_may_come_in_the_query(scene: PlatformUserScene) -> None:
    ada = scene.people.add("ada@one.example")
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", ada.user)
    assert (await scene.request("DELETE", f"/api/platform/users/{ada.user}/mfa?reason=Telephone%20lost")).status == 200
    assert scene.audited("security.mfa.disabled")[0]["details"]["reason"] == "Telephone lost"
    # The act is recorded in the log that it belongs to, and in no other.
    assert "Telephone" not in repr(scene.log.entries)


@pytest.mark.parametrize(
    ("body", "query"),
    [
        (None, ""),
        ({}, ""),
        ({"reason": ""}, ""),
        ({"reason": " \n"}, ""),
        ({"reason": "\u200b\u200b\u200b"}, ""),
        ({"reason": " "}, "?reason=Lost"),
        ({"reason": "x" * 501}, ""),
        ({"reason": 7}, ""),
        ({"reason": "a\x00b"}, ""),
        (None, "?reason="),
        (None, "?reason=a%00b"),
        (b"{", ""),
    ],
)
async def test_without_a_reason_nothing_is_taken_away(scene: PlatformUserScene, body: Any, query: str) -> None:
    ada = scene.people.add("ada@one.example")
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", ada.user)
    answer = await scene.request("DELETE", f"/api/platform/users/{ada.user}/mfa{query}", body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert len(scene.people.rows("select from mfa_secrets")) == 1


async def test_ones_own_is_not_taken_away_here(scene: PlatformUserScene) -> None:
    """Not even by the last platform owner, who can use the command line."""
    enabled = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')"
    scene.people.change(enabled, scene.grace.user)
    scene.people.change("update sessions set second_factor_at = now()")
    answer = await scene.request("DELETE", f"/api/platform/users/{scene.grace.user}/mfa", {"reason": "Lost"})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert "DELETE /api/user/mfa" in answer.json()["error"]
    assert len(scene.people.rows("select from mfa_secrets")) == 1


async def test_how_many_have_a_second_factor_and_how_it_goes(scene: PlatformUserScene) -> None:
    people = [scene.people.add() for _ in range(5)]
    gone = scene.people.add()
    for person in (people[0], people[1], gone):
        scene.people.change(
            "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", person.user
        )
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, 'x', now())", people[2].user)
    scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    now = datetime.now(UTC)
    for days in (0, 1, 6, 8):
        scene.mfa_event(people[0], "backup_code_used", now - timedelta(days=days))
    for days in (0, 6, 8):
        scene.mfa_event(people[1], "mfa_verify_failed", now - timedelta(days=days), success=False)
        scene.mfa_event(people[1], "mfa_verify_attempt", now, success=False)
    answer = await scene.request("GET", "/api/platform/mfa/metrics")
    assert answer.json() == {
        "total_users": 6,
        "mfa_enabled_users": 2,
        "mfa_adoption_rate": 33.33,
        "backup_codes_used_7d": 3,
        "mfa_failures_7d": 2,
    }


async def test_nobody_else_sees_users(scene: PlatformUserScene) -> None:
    owner = scene.tenants.member(scene.tenants.add("acme"), "owner")
    for method, path in (
        ("GET", SEARCH),
        ("GET", f"/api/platform/users/{scene.grace.user}/mfa/status"),
        ("DELETE", f"/api/platform/users/{scene.grace.user}/mfa?reason=X"),
        ("GET", "/api/platform/mfa/metrics"),
        ("GET", "/api/platform/mfa/suspicious"),
        ("POST", "/api/platform/owners"),
        ("DELETE", f"/api/platform/owners/{scene.grace.user}"),
    ):
        answer = await scene.request(method, path, {"user_id": str(owner.user)} if method == "POST" else None, by=owner)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


async def test_an_application_that_a_platform_owner_is_signed_in_to_does_not_govern_in_their_name(scene: PlatformUserScene) -> None:
    """The application's tenant may be anybody."""
    service = scene.tenants.service(scene.tenants.add("acme"), "shop")
    token = await scene.tenants.token_in(scene.grace, service)
    assert (await scene.client.get("/api/user", token=token)).status == 200
    for one in scene.client.application.endpoints:
        if one.caller is PLATFORM_OWNER:
            path = one.path
            for name in parameters(path):
                path = path.replace(f"{{{name}}}", str(scene.grace.user))
            answer = await scene.client.request(one.method, path, body={} if one.body_type is not None else None, token=token)
            assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), one


async def test_what_it_costs_in_round_trips(scene: PlatformUserScene) -> None:
    ada = scene.people.add("ada@one.example")
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", ada.user)
    scene.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    for expected, method, path, body in (
        (2, "GET", f"{SEARCH}?email=ada", None),
        (2, "GET", f"{SEARCH}?user_id={ada.user}", None),
        (2, "GET", SEARCH, None),
        (2, "GET", f"/api/platform/users/{ada.user}/mfa/status", None),
        (2, "GET", "/api/platform/mfa/metrics", None),
        (2, "GET", "/api/platform/mfa/suspicious", None),
        # One for the fresh proof.
        (5, "DELETE", f"/api/platform/users/{ada.user}/mfa", {"reason": "Lost"}),
        (5, "POST", "/api/platform/owners", {"user_id": str(ada.user)}),
        (6, "DELETE", f"/api/platform/owners/{ada.user}", None),
    ):
        assert (await scene.request(method, path, body)).status == 200
        assert scene.log.events("request")[-1]["db_round_trips"] == expected, (method, path)
