"""The audit log over HTTP: the entries that readers see, their order and pages; and other tenants' entries, which stay hidden."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from core.domain import requests
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import SYSTEM, Actor, Event, Target, TargetType
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.tenants import Tenant

LIST: Final = "/api/organizations/acme/audit-log"


class AuditScene(Neighbours):
    """The organizations have an audit log, and acme's admin reads it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.admin = self.speaker = self.resident(self.acme, "admin")

    async def record(
        self,
        action: str = "role.created",
        target: Target = Target("role", "1"),  # noqa: B008 - frozen
        *,
        actor: Actor | None = None,
        tenant: Tenant | None = None,
        details: Mapping[str, Json] | None = None,
        personal: Mapping[str, str] | None = None,
        success: bool = True,
        times: int = 1,
    ) -> list[str]:
        by = actor or Actor(UserId(self.admin.user), None, "192.0.2.7", "Mozilla/5.0")
        organization = OrganizationId((tenant or self.acme).id)
        event = Event(action, by, target, organization, details or {}, success, personal=personal or {})
        async with self.postern.foundation.unit_of_work() as uow:
            recorded = [str(await uow.record(event)) for _ in range(times)]
            await uow.commit()
        return recorded

    async def link(self) -> None:
        while await self.postern.record.audit.link():
            pass

    async def ask(self, query: str = "", *, by: Person | None = None, path: str = LIST) -> Received:
        return await self.request("GET", path + query, by=by)

    async def page(self, query: str = "") -> dict[str, Any]:
        return (await self.ask(query)).ok()

    async def listed(self, query: str = "") -> list[str]:
        return [one["id"] for one in (await self.page(query))["logs"]]


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> AuditScene:
    return AuditScene(postern, people, client, log)


async def test_an_entry_says_who_did_what_to_whom_from_where(scene: AuditScene) -> None:
    before = scene.postern.foundation.clock.now()
    owner = scene.people.add("owner@postern.example", platform_owner=True)
    actor = Actor(UserId(scene.admin.user), UserId(owner.user), "2001:db8::7", "Mozilla/5.0")
    target = Target("user", str(scene.admin.user))
    await scene.record(
        "user.invited", target, actor=actor, details={"role": "member", "n": 5}, personal={"invited_email": "new@example.org"}
    )
    for linked in (False, True):
        if linked:
            await scene.link()
        (entry,) = (await scene.page())["logs"]
        assert before <= datetime.fromisoformat(entry.pop("created_at")) <= scene.postern.foundation.clock.now()
        assert UUID(entry.pop("id")).version == 7
        assert entry == {
            "org_id": str(scene.acme.id),
            "actor": {"id": str(scene.admin.user), "email": "admin@acme.example", "name": None, "is_platform_owner": False},
            "impersonator": {"id": str(owner.user), "email": "owner@postern.example", "name": None, "is_platform_owner": False},
            "action": "user.invited",
            "target_type": "user",
            "target_id": str(scene.admin.user),
            "subject": {"id": str(scene.admin.user), "email": "admin@acme.example", "name": None},
            "ip_address": "2001:db8::7",
            "user_agent": "Mozilla/5.0",
            "success": True,
            "details": {"role": "member", "n": 5, "invited_email": "new@example.org"},
        }


async def test_what_the_system_did_has_no_actor_and_no_address(scene: AuditScene) -> None:
    await scene.record("invitation.expired", Target("invitation", "1"), actor=SYSTEM, success=False)
    (entry,) = (await scene.page())["logs"]
    assert [entry[name] for name in ("actor", "impersonator", "ip_address", "user_agent", "success")] == [None, None, None, None, False]


async def test_an_actor_who_is_gone_is_named_so(scene: AuditScene) -> None:
    gone = UserId(uuid4())
    await scene.record(actor=Actor(gone, gone))
    (entry,) = (await scene.page())["logs"]
    nobody = {"id": str(gone), "email": "deleted-user@unknown", "name": None, "is_platform_owner": False}
    assert entry["actor"] == entry["impersonator"] == nobody


async def test_what_was_forgotten_of_an_entry_is_named_so(scene: AuditScene) -> None:
    await scene.record(details={"role": "member"}, personal={"invited_email": "new@example.org"})
    await scene.link()
    scene.people.change("delete from audit_personal")
    (entry,) = (await scene.page())["logs"]
    assert [entry[name] for name in ("ip_address", "user_agent", "details")] == [
        "0.0.0.0",  # noqa: S104 - nothing is bound to it
        "anonymized",
        {"role": "member"},
    ]


async def test_the_newest_come_first_linked_or_not(scene: AuditScene) -> None:
    recorded = await scene.record(times=3)
    await scene.link()
    recorded += await scene.record(times=4)
    await scene.record(tenant=scene.globex, times=3)
    assert await scene.listed() == recorded[::-1]
    await scene.link()
    assert await scene.listed() == recorded[::-1]


@pytest.mark.parametrize("waiting", [0, 1, 3, 4, 7, 10])
async def test_pages_join_without_a_gap_or_a_repetition(scene: AuditScene, waiting: int) -> None:
    recorded = await scene.record(times=10 - waiting)
    await scene.link()
    recorded += await scene.record(times=waiting)
    await scene.record(tenant=scene.globex, times=2)
    for limit in (1, 3, 5, 10, 100):
        pages_read: list[str] = []
        last = -(-10 // limit)
        for number in range(1, last + 1):
            page = await scene.page(f"?page={number}&limit={limit}")
            pages_read += [one["id"] for one in page["logs"]]
            assert page["pagination"] == {
                "page": number,
                "limit": limit,
                "total": 10,
                "total_pages": last,
                "has_next": number < last,
                "has_prev": number > 1,
            }
        assert pages_read == recorded[::-1]
        beyond = await scene.page(f"?page={last + 1}&limit={limit}")
        assert beyond["logs"] == []
        assert beyond["pagination"]["total"] == 10
        assert beyond["pagination"]["has_next"] is False


async def test_an_empty_log_is_an_empty_page(scene: AuditScene) -> None:
    for query in ("", "?success=false"):
        assert await scene.page(query) == {
            "logs": [],
            "pagination": {"page": 1, "limit": 50, "total": 0, "total_pages": 0, "has_next": False, "has_prev": False},
        }


async def test_a_page_far_beyond_the_end_is_empty(scene: AuditScene) -> None:
    await scene.record()
    page = await scene.page("?page=10000000&limit=100")
    assert (page["logs"], page["pagination"]["total"]) == ([], 1)


async def test_filters_find_what_matches_all_of_them(scene: AuditScene) -> None:
    other = UserId(scene.people.add().user)
    invited = await scene.record("user.invited", Target("user", "7"))
    removed = await scene.record("user.removed", Target("user", "8"))
    by_other = await scene.record("user.removed", Target("user", "7"), actor=Actor(other))
    failed = await scene.record("role.created", Target("role", "7"), success=False)
    await scene.record("user.removed", Target("user", "7"), tenant=scene.globex)
    wanted = {
        "action=user.removed": by_other + removed,
        "target_type=user": by_other + removed + invited,
        "target_type=user&target_id=7": by_other + invited,
        "target_type=role&target_id=7": failed,
        "target_type=role&target_id=8": [],
        f"actor_id={other}": by_other,
        f"actor_id={scene.admin.user}": failed + removed + invited,
        "success=false": failed,
        "success=true": by_other + removed + invited,
        "action=user.removed&target_type=user&target_id=8&success=true": removed,
        f"action=user.invited&actor_id={other}": [],
        "action=no.such.action": [],
    }
    for linked in (False, True):
        if linked:
            await scene.link()
        for query, found in wanted.items():
            page = await scene.page(f"?{query}")
            assert [one["id"] for one in page["logs"]] == found, query
            assert page["pagination"]["total"] == len(found), query


async def test_each_type_of_target_can_be_asked_for(scene: AuditScene) -> None:
    written = {one.value: await scene.record("organization.updated", Target(one.value, "7")) for one in TargetType}
    for kind, found in written.items():
        assert [one["id"] for one in (await scene.page(f"?target_type={kind}&target_id=7"))["logs"]] == found, kind
    assert "upstream_provider" in written


async def test_a_span_of_time_has_its_beginning_and_not_its_end(scene: AuditScene) -> None:
    recorded = [(await scene.record())[0] for _ in range(4)]
    times = {one["id"]: one["created_at"] for one in (await scene.page())["logs"]}
    first, second, third, fourth = recorded
    assert await scene.listed(f"?since={times[second]}") == [fourth, third, second]
    assert await scene.listed(f"?until={times[third]}") == [second, first]
    assert await scene.listed(f"?since={times[second]}&until={times[fourth]}") == [third, second]
    # The same moment in another time zone.
    elsewhere = (datetime.fromisoformat(times[second]) + timedelta(hours=5)).isoformat().replace("+00:00", "+05:00")
    assert await scene.listed(f"?since={quote(elsewhere)}") == [fourth, third, second]
    assert await scene.listed("?since=0001-01-01T00:00:00%2B14:00&until=9999-12-31T23:59:59-14:00") == recorded[::-1]


async def test_filtered_pages_join_too(scene: AuditScene) -> None:
    recorded = await scene.record("user.invited", times=7)
    await scene.record("user.removed", times=3)
    read: list[str] = []
    for number in (1, 2, 3):
        page = await scene.page(f"?action=user.invited&limit=3&page={number}")
        read += [one["id"] for one in page["logs"]]
        assert (page["pagination"]["total"], page["pagination"]["total_pages"]) == (7, 3)
    assert read == recorded[::-1]


async def test_a_filtered_list_ends_where_counting_ends(scene: AuditScene, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("core.domain.record.audit", "adapters.postgres.record.audit"):
        monkeypatch.setattr(f"{module}.MOST_ROWS_COUNTED", 20)
    recorded = await scene.record("user.invited", times=25)
    page = await scene.page("?action=user.invited&limit=10&page=2")
    assert [one["id"] for one in page["logs"]] == recorded[::-1][10:20]
    assert page["pagination"] == {"page": 2, "limit": 10, "total": 20, "total_pages": 2, "has_next": False, "has_prev": True}
    beyond = await scene.ask("?action=user.invited&limit=10&page=3")
    assert (beyond.status, beyond.error_code) == (400, "BAD_REQUEST")
    assert "since and until" in beyond.json()["error"]
    # Without a filter the list has no such end.
    assert (await scene.page("?limit=10&page=3"))["pagination"]["total"] == 25
    assert len(await scene.listed("?limit=10&page=3")) == 5


def test_the_end_of_a_filtered_list_is_the_one_that_is_documented() -> None:
    assert requests.MOST_ROWS_COUNTED == 10_000


REFUSED: Final = (
    "page=0",
    "page=-1",
    "page=10000001",
    "page=99999999999999999999999",
    "page=",
    "limit=0",
    "limit=101",
    "limit=ten",
    "target_id=7",
    "target_id=7&action=user.removed",
    "target_type=tenant",
    "target_type=USER",
    "target_type=user&target_id=",
    f"target_type=user&target_id={'x' * 201}",
    "action=",
    f"action={'x' * 101}",
    "actor_id=7",
    "actor_id=ada@example.org",
    "success=perhaps",
    "since=yesterday",
    "since=2026-01-01",
    "since=2026-01-01T00:00:00",
    "until=2026-01-01T00:00:00",
    "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
    "until=253402300799.99999",
    "since=null",
    "actor_id=null",
    "success=NULL",
    "target_type=null",
    "since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z",
    "action=a&action=b",
    "action=%00",
    "action=%ff",
)


@pytest.mark.parametrize("query", REFUSED)
async def test_a_query_that_makes_no_sense_is_refused(scene: AuditScene, query: str) -> None:
    answer = await scene.ask(f"?{query}")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


HOSTILE: Final = (
    "'; drop table audit_entries; --",
    "%",
    "_",
    "\\",
    "\N{RIGHT-TO-LEFT OVERRIDE}",
    "</script>",
    "${jndi:ldap}",
    "\N{GRINNING FACE}",
)


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_filters_find_just_what_they_say(scene: AuditScene, text: str) -> None:
    await scene.record()
    recorded = await scene.record("user.joined", Target("user", text), actor=Actor(user_agent=text), details={text: text})
    (entry,) = (await scene.page(f"?target_type=user&target_id={quote(text)}"))["logs"]
    assert entry["id"] == recorded[0]
    assert (entry["target_id"], entry["user_agent"], entry["details"]) == (text, text, {text: text})
    # No event has such a name, so the list is empty.
    assert (await scene.page(f"?action={quote(text)}"))["logs"] == []


async def test_another_organizations_log_is_not_seen(scene: AuditScene) -> None:
    theirs = await scene.record(tenant=scene.globex, times=3)
    entries = await scene.record(times=2)
    await scene.link()
    theirs += await scene.record(tenant=scene.globex, times=2)
    assert await scene.listed() == entries[::-1]
    for query in ("?success=true", "?action=role.created", "?target_type=role&target_id=1", f"?actor_id={scene.admin.user}"):
        page = await scene.page(query)
        assert [one["id"] for one in page["logs"]] == entries[::-1]
        assert page["pagination"]["total"] == 2
    answer = await scene.ask(path="/api/organizations/globex/audit-log")
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


async def test_what_is_about_the_platform_is_in_no_organizations_log(scene: AuditScene) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.record(Event("user.logout", Actor(UserId(scene.admin.user)), Target("user", str(scene.admin.user))))
        await uow.commit()
    assert await scene.listed() == await scene.listed("?success=true") == []


async def test_only_who_may_see_it_does(scene: AuditScene) -> None:
    tenants = scene.tenants
    allowed = tenants.role(scene.acme, "auditor", {Capability.AUDIT_LOGS_VIEW})
    others = tenants.role(scene.acme, "all_but", set(Capability) - {Capability.AUDIT_LOGS_VIEW})
    expected = {"owner": 200, "admin": 200, "member": 403}
    statuses = {role: (await scene.ask(by=tenants.member(scene.acme, role))).status for role in expected}
    assert statuses == expected
    assert (await scene.ask(by=tenants.member(scene.acme, allowed))).status == 200
    assert (await scene.ask(by=tenants.member(scene.acme, others))).status == 403
    assert (await scene.ask(by=scene.people.add(platform_owner=True))).status == 403
    assert (await scene.client.get(LIST)).status == 401
    assert (await scene.ask(path="/api/organizations/nowhere/audit-log")).status == 404
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    answer = await scene.ask()
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_every_action_of_the_interface_is_named_with_label_and_category(scene: AuditScene) -> None:
    answer = await scene.ask("/event-types")
    assert answer.status == 200
    types = {one["value"]: one for one in answer.json()}
    assert len(types) == len(answer.json())
    assert set(types) >= OF_THE_INTERFACE
    assert all(one["label"] and one["category"] and set(one) == {"value", "label", "category"} for one in types.values())
    assert not [value for value in types if value.startswith("platform.")]
    assert (await scene.ask("/event-types", by=scene.tenants.member(scene.acme))).status == 403


OF_THE_INTERFACE: Final = {
    *("user.invited", "user.joined", "user.removed", "user.role_updated", "user.anonymized"),
    *("service.created", "service.updated", "service.deleted", "service.oauth_credentials.updated"),
    *("organization.updated", "organization.smtp.configured", "organization.smtp.removed", "organization.owner.changed"),
    *("plan.created", "plan.updated", "plan.deleted", "subscription.created", "subscription.updated", "subscription.canceled"),
    *("invitation.accepted", "invitation.declined", "invitation.expired", "invitation.revoked"),
    *("security.mfa.enabled", "security.mfa.disabled", "security.password.changed", "api_key.created", "api_key.deleted"),
    *("domain.set", "domain.verified", "domain.deleted", "branding.updated"),
}


# The caller's own look-up included.
ROUND_TRIPS: Final = {"": 2, "?page=3&limit=2": 2, "?action=role.created": 2, "/event-types": 1}


async def test_round_trips(scene: AuditScene) -> None:
    await scene.record(times=4)
    await scene.link()
    await scene.record(times=3)
    measured: dict[str, int] = {}
    for _ in ("warm", "measured"):
        for query in ROUND_TRIPS:
            scene.log.entries.clear()
            assert (await scene.ask(query)).status == 200
            (line,) = scene.log.events("request")
            measured[query] = line["db_round_trips"]
    assert measured == ROUND_TRIPS
