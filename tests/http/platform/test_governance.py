"""Governing organizations over HTTP: the callers who may, each decision and each that comes too late, its audit entry, and its effect on
the next request.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import permutations, product
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.requests import LARGEST_PAGE_LIMIT
from core.domain.tenancy.organizations import PURGE_JOB, OrganizationStatus
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.tenants import Tenant

PLATFORM: Final = "/api/platform/organizations"
FREE: Final = "01900000-0000-7000-8000-000000000001"
PROFESSIONAL: Final = "01900000-0000-7000-8000-000000000002"
RECORD: Final = {
    *("id", "slug", "name", "status", "tier_id", "owner_user_id", "max_services", "max_users", "approved_at", "approved_by"),
    *("rejected_at", "rejection_reason", "suspended_at", "suspension_reason", "created_at", "updated_at"),
}
Body = dict[str, Any]


class GovernanceScene(Cast):
    """A platform owner, and acme with its owner."""

    audited_columns = f"{Cast.audited_columns}, success, host(address) as address"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grace = self.speaker = self.people.add("grace@example.org", platform_owner=True)
        self.acme = self.tenants.add("acme", status="pending")
        self.ada = self.resident(self.acme, "owner", "ada")

    async def ask(self, method: str, path: str, body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, PLATFORM + path, body, by=by)

    async def decide(self, what: str, body: Any = None, *, of: Tenant | None = None) -> Received:
        """Makes one of the four transitions, with the least body that it needs."""
        given = {"reason": "Spam"} if what == "reject" and body is None else body
        return await self.ask("POST", f"/{(of or self.acme).id}/{what}", given)

    async def change_tier(self, body: Any, *, of: Tenant | None = None) -> Received:
        return await self.ask("PATCH", f"/{(of or self.acme).id}/tier", body)

    async def listing(self, query: str = "") -> Body:
        return (await self.ask("GET", query)).ok()

    async def slugs(self, query: str = "") -> list[str]:
        return [one["organization"]["slug"] for one in (await self.listing(query))["organizations"]]

    def row(self, of: Tenant | None = None) -> Body:
        (row,) = self.people.rows("select * from all_organizations where id = %s", (of or self.acme).id)
        return row

    def audited(self, action: str = "organization.%") -> list[Body]:
        return super().audited(action)

    def set(self, status: str, of: Tenant | None = None) -> None:
        self.people.change("update all_organizations set status = %s where id = %s", status, (of or self.acme).id)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> GovernanceScene:
    return GovernanceScene(postern, people, client, log)


async def test_tiers_are_listed_the_cheapest_first(scene: GovernanceScene) -> None:
    answer = await scene.client.get("/api/platform/tiers", token=await scene.people.token(scene.grace))
    assert answer.json() == [
        {
            "id": FREE,
            "name": "free",
            "display_name": "Free",
            "default_max_services": 3,
            "default_max_users": 100,
            "price_cents": 0,
        },
        {
            "id": PROFESSIONAL,
            "name": "professional",
            "display_name": "Professional",
            "default_max_services": 10,
            "default_max_users": 1000,
            "price_cents": 4900,
        },
    ]


async def test_an_organization_is_approved_and_works_at_once(scene: GovernanceScene) -> None:
    token = await scene.tenants.token(scene.ada)
    assert (await scene.client.get("/api/organizations/acme/users", token=token)).error_code == "ORGANIZATION_NOT_ACTIVE"
    before = datetime.now(UTC)
    answer = await scene.decide("approve")
    assert answer.status == 200
    approved = answer.json()["organization"]
    assert set(approved) == {"id", "status", "approved_at"}
    assert (approved["id"], approved["status"]) == (str(scene.acme.id), "active")
    assert before <= datetime.fromisoformat(approved["approved_at"]) <= datetime.now(UTC)
    row = scene.row()
    assert (row["status"], row["approved_by"], str(row["tier_id"])) == ("active", scene.grace.user, FREE)
    assert row["approved_at"] == row["updated_at"] == datetime.fromisoformat(approved["approved_at"])
    assert (await scene.client.get("/api/organizations/acme/users", token=token)).status == 200
    (entry,) = scene.audited()
    assert entry == {
        "action": "organization.approved",
        "actor_id": scene.grace.user,
        "organization_id": scene.acme.id,
        "target_type": "organization",
        "target_id": str(scene.acme.id),
        "details": {"tier": "free"},
        "success": True,
        "address": "192.0.2.1",
    }


@pytest.mark.parametrize(("body", "tier"), [({"tier_id": PROFESSIONAL}, PROFESSIONAL), ({"tier_id": None}, FREE), ({}, FREE), (None, FREE)])
async def test_an_approval_may_name_the_tier(scene: GovernanceScene, body: Any, tier: str) -> None:
    assert (await scene.decide("approve", body)).status == 200
    assert str(scene.row()["tier_id"]) == tier


async def test_an_approval_that_names_no_tier_gives_the_free_one_in_place_of_any_other(scene: GovernanceScene) -> None:
    await scene.change_tier({"tier_id": PROFESSIONAL})
    await scene.decide("approve")
    assert str(scene.row()["tier_id"]) == FREE


async def test_an_organization_is_turned_away_with_a_reason_and_for_good(scene: GovernanceScene) -> None:
    answer = await scene.decide("reject", {"reason": " Not a\ncompany "})
    assert answer.status == 200
    record = answer.json()["organization"]
    assert set(record) == RECORD
    assert (record["status"], record["rejection_reason"]) == ("rejected", "Not a company")
    assert record["rejected_at"] == record["updated_at"]
    assert (record["owner_user_id"], record["approved_at"], record["approved_by"]) == (str(scene.ada.user), None, None)
    assert scene.row()["status"] == "rejected"
    (entry,) = scene.audited()
    assert (entry["action"], entry["details"]) == ("organization.rejected", {"reason": "Not a company"})
    for what in ("approve", "reject", "suspend", "activate"):
        assert (await scene.decide(what)).status == 400
    assert scene.row()["status"] == "rejected"


async def test_a_suspension_is_felt_on_the_next_request_and_so_is_its_end(scene: GovernanceScene) -> None:
    scene.set("active")
    tokens = [await scene.tenants.token(scene.ada), await scene.tenants.token_in(scene.ada, scene.acme)]
    path = "/api/organizations/acme/users"
    assert [(await scene.client.get(path, token=token)).status for token in tokens] == [200, 200]
    answer = await scene.decide("suspend", {"reason": "Unpaid"})
    record = answer.json()["organization"]
    assert set(record) == RECORD
    assert (record["status"], record["suspension_reason"]) == ("suspended", "Unpaid")
    assert record["suspended_at"] == record["updated_at"]
    for token in tokens:
        refused = await scene.client.get(path, token=token)
        assert (refused.status, refused.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    answer = await scene.decide("activate")
    record = answer.json()["organization"]
    assert (record["status"], record["suspended_at"], record["suspension_reason"]) == ("active", None, None)
    assert [(await scene.client.get(path, token=token)).status for token in tokens] == [200, 200]
    assert [(entry["action"], entry["details"]) for entry in scene.audited()] == [
        ("organization.suspended", {"reason": "Unpaid"}),
        ("organization.activated", {}),
    ]


@pytest.mark.parametrize("body", [None, {}, {"reason": None}, {"reason": " \n "}])
async def test_a_suspension_needs_no_reason(scene: GovernanceScene, body: Any) -> None:
    scene.set("active")
    record = (await scene.decide("suspend", body)).json()["organization"]
    assert (record["status"], record["suspension_reason"]) == ("suspended", None)


STARTS: Final = {"approve": "pending", "reject": "pending", "suspend": "active", "activate": "suspended"}


async def test_a_decision_from_the_wrong_state_is_refused_and_leaves_no_trace(scene: GovernanceScene) -> None:
    for status in OrganizationStatus:
        scene.set(status)
        before = scene.row()
        for what, start in STARTS.items():
            if start == status:
                continue
            answer = await scene.decide(what)
            assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
            assert answer.json()["error"].startswith(f"Only {'an' if start == 'active' else 'a'} {start} organization can be ")
            assert answer.json()["error"].endswith(f"this one is {status}")
        assert scene.row() == before
    assert scene.audited() == []


async def test_tier_and_limits_are_changed_in_any_state(scene: GovernanceScene) -> None:
    for status in OrganizationStatus:
        tenant = scene.tenants.add(f"{status}-one", status=status)
        answer = await scene.change_tier({"tier_id": PROFESSIONAL, "max_users": 7}, of=tenant)
        record = answer.json()["organization"]
        assert set(record) == RECORD
        assert (record["tier_id"], record["max_users"], record["max_services"], record["status"]) == (PROFESSIONAL, 7, None, status)
        entry = scene.audited()[-1]
        assert (entry["action"], entry["organization_id"]) == ("organization.tier.changed", tenant.id)
        assert entry["details"] == {"old_tier": "free", "tier": "professional", "max_users": 7, "max_services": None}


async def test_limits_that_are_left_out_stay_and_null_takes_them_away(scene: GovernanceScene) -> None:
    async def limits(**body: Any) -> tuple[Any, Any]:
        record = (await scene.change_tier({"tier_id": FREE, **body})).json()["organization"]
        return record["max_services"], record["max_users"]

    assert await limits(max_services=0, max_users=2_147_483_647) == (0, 2_147_483_647)
    assert await limits() == (0, 2_147_483_647)
    assert await limits(max_users=None) == (0, None)
    assert await limits(max_services=None) == (None, None)


async def test_a_tier_that_it_has_already_is_no_change(scene: GovernanceScene) -> None:
    before = scene.row()
    answer = await scene.change_tier({"tier_id": FREE, "max_users": None})
    assert (answer.status, answer.json()["organization"]["tier_id"]) == (200, FREE)
    assert scene.row() == before
    assert scene.audited() == []


MALFORMED: Final[list[tuple[str, str, Any]]] = [
    ("POST", "/approve", {"tier_id": "nonsense"}),
    ("POST", "/approve", {"tier_id": 1}),
    ("POST", "/approve", []),
    ("POST", "/approve", b"{"),
    ("POST", "/reject", None),
    ("POST", "/reject", {"reason": None}),
    ("POST", "/reject", {"reason": ""}),
    ("POST", "/reject", {"reason": " \r\n\t\u2028 "}),
    ("POST", "/reject", {"reason": "\u200b\u200b\u200b"}),
    ("POST", "/reject", {"reason": "x" * 501}),
    ("POST", "/reject", {"reason": "x" * 60_000}),
    ("POST", "/reject", {"reason": "a\x00b"}),
    ("POST", "/reject", {"reason": ["x"]}),
    ("POST", "/reject", b'{"reason": "\\ud800"}'),
    ("POST", "/suspend", {"reason": "x" * 501}),
    ("POST", "/suspend", {"reason": 7}),
    ("PATCH", "/tier", None),
    ("PATCH", "/tier", {"max_users": 5}),
    ("PATCH", "/tier", {"tier_id": None}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_users": -1}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_users": 2_147_483_648}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_services": -1}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_services": 1.5}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_services": "5"}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_services": True}),
    ("PATCH", "/tier", {"tier_id": FREE, "max_services": 10**400}),
]


async def test_what_is_malformed_is_refused_and_changes_nothing(scene: GovernanceScene) -> None:
    for method, suffix, body in MALFORMED:
        scene.set("active" if suffix == "/suspend" else "pending")
        before = scene.row()
        answer = await scene.ask(method, f"/{scene.acme.id}{suffix}", body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), (suffix, str(body)[:50])
        assert scene.row() == before
    assert scene.audited() == []


async def test_what_would_move_a_cursor_or_turn_the_text_round_is_no_part_of_a_reason(scene: GovernanceScene) -> None:
    scene.set("active")
    record = (await scene.decide("suspend", {"reason": "Un\x1b[2Jpaid \u202esince May\u200b"})).json()["organization"]
    assert record["suspension_reason"] == "Un[2Jpaid since May"
    assert scene.audited()[0]["details"] == {"reason": "Un[2Jpaid since May"}


async def test_what_is_written_as_a_reason_stays_what_it_is(scene: GovernanceScene) -> None:
    hostile = "'; drop table users; -- <script>%s {0}"
    record = (await scene.decide("reject", {"reason": hostile})).json()["organization"]
    assert record["rejection_reason"] == hostile
    assert scene.audited()[0]["details"] == {"reason": hostile}


EACH: Final[list[tuple[str, str, Any]]] = [
    ("POST", "/approve", None),
    ("POST", "/reject", {"reason": "Spam"}),
    ("POST", "/suspend", None),
    ("POST", "/activate", None),
    ("PATCH", "/tier", {"tier_id": PROFESSIONAL}),
    ("DELETE", "", None),
]


async def test_an_organization_that_is_not_there_is_not_found(scene: GovernanceScene) -> None:
    gone = scene.tenants.add("gone", status="pending")
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", gone.id)
    for method, suffix, body in EACH:
        for organization in (uuid4(), gone.id, scene.ada.user, "acme", "not-an-id", "%00"):
            answer = await scene.ask(method, f"/{organization}{suffix}", body)
            assert (answer.status, answer.error_code) == (404, "NOT_FOUND"), (suffix, organization)
    assert scene.audited() == []
    assert scene.row()["status"] == "pending"


async def test_a_tier_that_is_not_there_is_not_found(scene: GovernanceScene) -> None:
    for answer in (
        await scene.decide("approve", {"tier_id": str(scene.acme.id)}),
        await scene.change_tier({"tier_id": str(uuid4())}),
    ):
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
        assert "tier" in answer.json()["error"]
    assert scene.row()["status"] == "pending"


async def test_a_deleted_organization_is_gone_at_once_and_its_deletion_is_on_record_twice(scene: GovernanceScene) -> None:
    scene.set("active")
    token = await scene.tenants.token_in(scene.ada, scene.acme)
    answer = await scene.ask("DELETE", f"/{scene.acme.id}")
    assert (answer.status, answer.json()) == (200, {"success": True, "message": "The organization acme is deleted"})
    assert await scene.slugs() == []
    assert (await scene.client.get("/api/organizations/acme/users", token=token)).status == 401
    other = await scene.client.get("/api/organizations/acme/users", token=await scene.tenants.token(scene.ada))
    assert other.status == 404
    assert (await scene.ask("DELETE", f"/{scene.acme.id}")).status == 404
    entries = scene.audited()
    assert [(entry["action"], entry["organization_id"], entry["actor_id"]) for entry in entries] == [
        ("organization.deleted", scene.acme.id, scene.grace.user),
        ("organization.deleted", None, scene.grace.user),
    ]
    assert all(entry["details"]["slug"] == "acme" for entry in entries)
    (job,) = scene.people.rows("select kind, payload from jobs")
    assert job == {"kind": PURGE_JOB, "payload": {"organization": str(scene.acme.id)}}


async def test_an_organization_is_deleted_in_any_state(scene: GovernanceScene) -> None:
    for status in OrganizationStatus:
        tenant = scene.tenants.add(f"{status}-one", status=status)
        assert (await scene.ask("DELETE", f"/{tenant.id}")).status == 200
    assert await scene.slugs() == ["acme"]


@pytest.mark.parametrize(("one", "other"), [*permutations(("approve", "reject")), ("approve", "approve"), ("reject", "reject")])
async def test_of_decisions_that_exclude_each_other_one_is_taken(scene: GovernanceScene, one: str, other: str) -> None:
    for _ in range(3):
        scene.set("pending")
        scene.people.change("delete from audit_pending")
        scene.people.change("delete from audit_personal")
        scene.people.change("delete from audit_entries")
        answers: dict[int, tuple[str, int]] = {}

        async def decide(number: int, what: str, answers: dict[int, tuple[str, int]] = answers) -> None:
            answers[number] = what, (await scene.decide(what)).status

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(decide, number, one if number % 2 else other)
        (taken,) = [what for what, status in answers.values() if status == 200]
        assert sorted(status for _, status in answers.values()) == [200] + [400] * 9
        (entry,) = scene.audited()
        outcome = {"approve": ("active", "organization.approved"), "reject": ("rejected", "organization.rejected")}[taken]
        assert (scene.row()["status"], entry["action"]) == outcome


async def test_of_deletions_at_once_one_deletes(scene: GovernanceScene) -> None:
    statuses: list[int] = []

    async def delete() -> None:
        statuses.append((await scene.ask("DELETE", f"/{scene.acme.id}")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(delete)
    assert sorted(statuses) == [200] + [404] * 9
    assert len(scene.audited()) == 2
    assert len(scene.people.rows("select from jobs")) == 1


@pytest.mark.parametrize(
    ("change", "what", "status"),
    [
        ("update all_organizations set status = 'rejected' where slug = 'acme'", "approve", 400),
        ("update all_organizations set deleted_at = now() where slug = 'acme'", "approve", 404),
        ("update all_organizations set status = 'active' where slug = 'acme'", "suspend", 200),
    ],
)
async def test_what_happens_to_it_at_this_moment_is_waited_for(
    scene: GovernanceScene, database_url: str, change: str, what: str, status: int
) -> None:
    answers: list[Received] = []

    async def decide() -> None:
        answers.append(await scene.decide(what))

    with psycopg.connect(database_url) as connection:
        connection.execute(change.encode())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide)
            await scene.people.somebody_waits()
            assert not answers, "it did not wait"
            connection.commit()
    assert answers[0].status == status


async def test_nobody_else_governs(scene: GovernanceScene) -> None:
    """Tries the organization's own owner; tests/http/test_authorization.py tries all other callers."""
    scene.set("active")
    token = await scene.tenants.token_in(scene.ada, scene.acme)
    for method, suffix, body in [("GET", "", None), *((method, f"/{scene.acme.id}{suffix}", body) for method, suffix, body in EACH)]:
        answer = await scene.client.request(method, f"{PLATFORM}{suffix}", body=body, token=token)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert scene.row()["status"] == "active"


# The lists of organizations.


async def test_the_list_tells_of_each_organization_its_owner_and_its_tier(scene: GovernanceScene) -> None:
    scene.people.change("update users set created_at = '2026-05-04T12:00:00Z' where id = %s", scene.ada.user)
    listed = await scene.listing()
    assert set(listed) == {"organizations", "total"}
    (one,) = listed["organizations"]
    assert set(one) == {"organization", "owner", "tier"}
    assert set(one["organization"]) == RECORD
    assert (one["organization"]["slug"], one["organization"]["status"]) == ("acme", "pending")
    assert one["owner"] == {
        "id": str(scene.ada.user),
        "email": "ada@acme.example",
        "is_platform_owner": False,
        "created_at": "2026-05-04T12:00:00Z",
        "name": None,
    }
    assert one["tier"] == {"id": FREE, "name": "free", "display_name": "Free"}
    assert listed["total"] == 1


async def test_an_owner_who_is_gone_is_unknown(scene: GovernanceScene) -> None:
    scene.people.change("delete from users where id = %s", scene.ada.user)
    (one,) = (await scene.listing())["organizations"]
    assert one["owner"] == {
        "id": "unknown",
        "email": "deleted-user@unknown",
        "is_platform_owner": False,
        "created_at": "1970-01-01T00:00:00Z",
        "name": None,
    }
    assert one["organization"]["owner_user_id"] is None


@dataclass(frozen=True)
class TwelveOrganizations:
    """Twelve organizations, made a minute apart: three in each state, the last of which is professional."""

    scene: GovernanceScene
    slugs: list[str]
    """The newest first."""


@pytest.fixture
def town(scene: GovernanceScene) -> TwelveOrganizations:
    scene.people.change("delete from all_organizations")
    slugs = []
    for number, status in enumerate(OrganizationStatus):
        for index in range(3):
            tenant = scene.tenants.add(f"{status}-{index}", status=status)
            at = datetime(2026, 5, 4, 12, number * 3 + index, tzinfo=UTC)
            scene.people.change(
                "update all_organizations set created_at = %s, tier_id = %s where id = %s",
                at,
                UUID(PROFESSIONAL if index == 2 else FREE),
                tenant.id,
            )
            slugs.append(tenant.slug)
    return TwelveOrganizations(scene, slugs[::-1])


async def test_the_list_is_filtered_by_status_and_tier(town: TwelveOrganizations) -> None:
    for status, tier in product([None, *OrganizationStatus], [None, FREE, PROFESSIONAL]):
        expected = [
            slug
            for slug in town.slugs
            if (status is None or slug.startswith(status)) and (tier is None or slug.endswith("2") == (tier == PROFESSIONAL))
        ]
        query = "&".join(f"{name}={value}" for name, value in (("status", status), ("tier_id", tier)) if value)
        assert await town.scene.slugs(f"?{query}") == expected
        # All pages of the list, and one beyond the end.
        paged = []
        for offset in range(0, len(expected) + 3, 3):
            listed = await town.scene.listing(f"?{query}&limit=3&offset={offset}")
            assert listed["total"] == len(expected)
            paged += [one["organization"]["slug"] for one in listed["organizations"]]
        assert paged == expected


async def test_a_tier_that_nobody_has_has_no_organizations(town: TwelveOrganizations) -> None:
    assert await town.scene.listing(f"?tier_id={uuid4()}") == {"organizations": [], "total": 0}


async def test_of_many_fifty_are_on_a_page_and_a_hundred_at_most(scene: GovernanceScene) -> None:
    scene.people.change(
        "insert into all_organizations (id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), 'many-' || n, 'X', now() - n * interval '1 minute', now() from generate_series(1, 120) as n"
    )
    first = await scene.slugs()
    assert (len(first), first[:2]) == (50, ["acme", "many-1"])
    assert len(await scene.slugs(f"?limit={LARGEST_PAGE_LIMIT}")) == 100
    assert (await scene.listing("?limit=1&offset=121")) == {"organizations": [], "total": 121}
    assert (await scene.listing("?limit=100&offset=100"))["total"] == 121


async def test_organizations_of_the_same_moment_are_listed_once_each(scene: GovernanceScene) -> None:
    scene.people.change("delete from all_organizations")
    scene.people.change(
        "insert into all_organizations (id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), 'same-' || n, 'X', '2026-05-04', now() from generate_series(1, 9) as n"
    )
    paged = [slug for offset in range(0, 9, 2) for slug in await scene.slugs(f"?limit=2&offset={offset}")]
    assert sorted(paged) == [f"same-{n}" for n in range(1, 10)]


NONSENSE: Final = [
    "status=ACTIVE",
    "status=",
    "status=deleted",
    "status=active&status=pending",
    "tier_id=free",
    "tier_id=",
    "tier_id=%27",
    "limit=0",
    "limit=101",
    "limit=-1",
    "limit=x",
    "limit=",
    "offset=-1",
    "offset=1000001",
    "offset=99999999999999999999",
    "offset=x",
]


async def test_a_query_that_makes_no_sense_is_refused(scene: GovernanceScene) -> None:
    for query in NONSENSE:
        answer = await scene.ask("GET", f"?{query}")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), query
        assert answer.json()["error"].startswith(query.partition("=")[0])


async def test_what_it_costs_in_round_trips(scene: GovernanceScene) -> None:
    token = await scene.people.token(scene.grace)
    path = f"{PLATFORM}/{scene.acme.id}"
    calls: list[tuple[int, str, str, Any]] = [
        (2, "GET", "/api/platform/tiers", None),
        (2, "GET", PLATFORM, None),
        (2, "GET", f"{PLATFORM}?status=active&tier_id={FREE}&offset=1000", None),
        # The caller, the present organization, the commit; and one more round trip if a tier is given.
        (4, "POST", f"{path}/approve", None),
        (3, "POST", f"{path}/suspend", {"reason": "Unpaid"}),
        (3, "POST", f"{path}/activate", None),
        (4, "PATCH", f"{path}/tier", {"tier_id": PROFESSIONAL}),
        # One more, to check for a fresh proof.
        (5, "DELETE", path, None),
    ]
    for expected, method, target, body in calls:
        answer = await scene.client.request(method, target, body=body, token=token)
        assert answer.status == 200, answer.body
        assert scene.log.events("request")[-1]["db_round_trips"] == expected, (method, target)


async def test_while_the_database_is_away_nothing_is_decided(lonely_client: Client, scene: GovernanceScene) -> None:
    token = await scene.people.token(scene.grace)
    assert (await lonely_client.get(PLATFORM, token=token)).status == 503
    assert (await lonely_client.post(f"{PLATFORM}/{scene.acme.id}/approve", token=token)).status == 503
