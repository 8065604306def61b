"""Platform owners appoint and remove each other, and one always remains."""

from contextlib import suppress
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.errors import Conflict
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Client, Received
from tests.http.people import People, Person

OWNERS: Final = "/api/platform/owners"
Body = dict[str, Any]


class PlatformOwnerScene(Cast):
    audited_columns = "action, actor_id, organization_id, target_id, details, host(address) as address"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grace = self.speaker = self.add("grace@example.org", owner=True)

    def add(self, email: str | None = None, *, owner: bool = False) -> Person:
        """Adds a person with a verified address."""
        person = self.people.add(email, platform_owner=owner)
        self.people.change("update users set email_verified_at = now() where id = %s", person.user)
        return person

    async def promote(self, user: UUID | str, *, by: Person | None = None) -> Received:
        return await self.request("POST", OWNERS, {"user_id": str(user)}, by=by)

    async def demote(self, user: UUID | str, *, by: Person | None = None) -> Received:
        return await self.request("DELETE", f"{OWNERS}/{user}", by=by)

    def owners(self) -> set[UUID]:
        return {row["id"] for row in self.people.rows("select id from users where is_platform_owner and deactivated_at is null")}

    def audited(self, action: str = "platform.owner.%") -> list[Body]:
        return super().audited(action)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> PlatformOwnerScene:
    return PlatformOwnerScene(postern, people, client, log)


async def test_a_user_is_put_in_office_and_governs_with_the_next_request(scene: PlatformOwnerScene) -> None:
    ada = scene.add("Ada@example.org")
    scene.people.change("update users set created_at = '2026-05-04T12:00:00Z' where id = %s", ada.user)
    token = await scene.people.token(ada)
    assert (await scene.client.get("/api/platform/tiers", token=token)).status == 403
    answer = await scene.promote(ada.user)
    expected = {"id": str(ada.user), "email": "Ada@example.org", "is_platform_owner": True, "created_at": "2026-05-04T12:00:00Z"}
    assert (answer.status, answer.json()) == (200, {"user": expected})
    assert scene.owners() == {scene.grace.user, ada.user}
    assert (await scene.client.get("/api/platform/tiers", token=token)).status == 200
    again = await scene.promote(ada.user)
    assert (again.status, again.json()) == (200, {"user": expected})
    (entry,) = scene.audited()
    assert entry == {
        "action": "platform.owner.created",
        "actor_id": scene.grace.user,
        "organization_id": None,
        "target_id": str(ada.user),
        "details": {"promoted": True},
        "address": "192.0.2.1",
    }
    assert scene.people.rows("select from events") == []


async def test_who_cannot_be_put_in_office(scene: PlatformOwnerScene) -> None:
    stranger, gone = scene.people.add(), scene.add()
    scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    for user, status, says in (
        (stranger.user, 400, "verified"),
        (gone.user, 400, "deactivated"),
        (uuid4(), 404, "no such user"),
        (scene.grace.session, 404, "no such user"),
        ("not-an-id", 400, "user_id"),
        ("", 400, "user_id"),
    ):
        answer = await scene.promote(user)
        assert answer.status == status, user
        assert says in answer.json()["error"]
    for body in (None, {}, {"user_id": None}, {"user_id": 7}, {"user_id": [str(stranger.user)]}, b"{"):
        assert (await scene.client.post(OWNERS, body, token=await scene.people.token(scene.grace))).error_code == "BAD_REQUEST"
    assert scene.owners() == {scene.grace.user}
    assert scene.audited() == []


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ("update users set deactivated_at = now() where id = %s", 400, "deactivated"),
        ("update users set email_verified_at = null where id = %s", 400, "verified"),
        ("delete from users where id = %s", 404, "no such user"),
    ],
)
async def test_what_happens_to_the_account_at_the_same_moment_counts(
    scene: PlatformOwnerScene, database_url: str, change: LiteralString, status: int, says: str
) -> None:
    ada = scene.add("ada@example.org")
    answers: list[Received] = []

    async def promote() -> None:
        answers.append(await scene.promote(ada.user))

    with psycopg.connect(database_url) as other:
        other.execute(change, [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(promote)
            await scene.people.somebody_waits()
            other.commit()
    assert [answer.status for answer in answers] == [status]
    assert says in answers[0].json()["error"]
    assert scene.owners() == {scene.grace.user}
    assert scene.audited() == []


async def test_an_owner_is_put_out_of_office_with_what_was_opened_in_others_names(scene: PlatformOwnerScene) -> None:
    ada, bob = scene.add("ada@example.org", owner=True), scene.add("bob@example.org")
    token = await scene.people.token(ada)
    begun = (await scene.client.post(f"/api/platform/impersonate/{bob.user}", {"reason": "Ticket"}, token=token)).json()
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 200
    answer = await scene.demote(ada.user)
    assert answer.status == 200
    assert answer.json()["user"]["is_platform_owner"] is False
    assert (await scene.client.get("/api/platform/tiers", token=token)).status == 403
    # The account itself is unchanged.
    assert (await scene.client.get("/api/user", token=token)).status == 200
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401
    entry = scene.audited()[-1]
    assert (entry["action"], entry["actor_id"], entry["target_id"]) == ("platform.owner.removed", scene.grace.user, str(ada.user))
    assert entry["details"] == {"impersonations_ended": 1}
    # A person who is appointed again has none of the old sessions.
    assert (await scene.promote(ada.user)).status == 200
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401


@pytest.mark.parametrize("way", ["interface", "command line"])
async def test_an_impersonation_of_a_new_owner_ends_for_good_even_when_they_are_removed_again(
    scene: PlatformOwnerScene, postern: Postern, way: str
) -> None:
    bob, eve = scene.add("bob@example.org"), scene.add("eve@example.org")
    token, own = await scene.people.token(scene.grace), await scene.people.token(bob)
    begun, other = [
        (await scene.client.post(f"/api/platform/impersonate/{who.user}", {"reason": "Ticket"}, token=token)).json() for who in (bob, eve)
    ]
    if way == "interface":
        assert (await scene.promote(bob.user)).status == 200
    else:
        assert await postern.platform.platform_owners.promote(postern.foundation.email_syntax.parse(bob.email)) == bob.user
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401
    assert (await scene.demote(bob.user)).status == 200
    assert (await scene.client.get("/api/user", token=begun["access_token"])).status == 401
    refreshed = await scene.client.post("/api/auth/refresh", {"refresh_token": begun["refresh_token"]})
    assert (refreshed.status, refreshed.error_code) == (401, "UNAUTHORIZED")
    # Their own session goes on, and so do their impersonations.
    for living in (own, other["access_token"]):
        assert (await scene.client.get("/api/user", token=living)).status == 200


async def test_an_impersonation_that_begins_at_this_moment_ends_with_the_others(scene: PlatformOwnerScene, database_url: str) -> None:
    bob = scene.add("bob@example.org")
    answers: list[Received] = []

    async def promote() -> None:
        answers.append(await scene.promote(bob.user))

    with psycopg.connect(database_url) as connection:
        # As an impersonation does.
        connection.execute("select from users where id = any(%s) order by id for share", ([bob.user, scene.grace.user],))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(promote)
            await scene.people.somebody_waits()
            assert not answers, "it did not wait"
            connection.execute(
                "insert into sessions (id, user_id, impersonator_id, impersonation_id, created_at, last_seen_at, expires_at)"
                " values (%(id)s, %(user)s, %(by)s, %(id)s, now(), now(), now() + interval '1 hour')",
                {"id": uuid4(), "user": bob.user, "by": scene.grace.user},
            )
            connection.commit()
    assert answers[0].status == 200
    living = "select id from sessions where user_id = %s and impersonator_id is not null and revoked_at is null"
    assert scene.people.rows(living, bob.user) == []


async def test_a_deactivated_owner_is_put_out_of_office_too(scene: PlatformOwnerScene) -> None:
    gone = scene.add(owner=True)
    scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    assert (await scene.demote(gone.user)).status == 200
    assert scene.people.rows("select is_platform_owner from users where id = %s", gone.user) == [{"is_platform_owner": False}]


async def test_who_cannot_be_put_out_of_office(scene: PlatformOwnerScene) -> None:
    ada = scene.add()
    for user, status, says in (
        (scene.grace.user, 400, "You cannot demote yourself"),
        (ada.user, 404, "no such platform owner"),
        (uuid4(), 404, "no such user"),
        ("not-an-id", 404, ""),
    ):
        answer = await scene.demote(user)
        assert answer.status == status, user
        assert says in answer.json()["error"]
    other = scene.add(owner=True)
    # Not even if another owner would remain.
    assert (await scene.demote(scene.grace.user)).status == 400
    assert scene.owners() == {scene.grace.user, other.user}
    assert scene.audited() == []


async def test_of_the_last_two_who_put_each_other_out_at_once_one_remains(scene: PlatformOwnerScene) -> None:
    for _ in range(10):
        one, other = scene.add(owner=True), scene.add(owner=True)
        scene.people.change("update users set is_platform_owner = false where id <> all(%s)", [one.user, other.user])
        statuses: list[int] = []

        async def demote(who: Person, whom: Person, statuses: list[int] = statuses) -> None:
            statuses.append((await scene.demote(whom.user, by=who)).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(demote, one, other)
            nursery.start_soon(demote, other, one)
        assert sorted(statuses) == [200, 403]
        assert len(scene.owners()) == 1


async def test_a_crowd_of_owners_who_put_each_other_out_leaves_one_at_least(scene: PlatformOwnerScene) -> None:
    owners = [scene.grace, *(scene.add(owner=True) for _ in range(4))]
    statuses: list[int] = []

    async def demote(who: Person, whom: Person) -> None:
        statuses.append((await scene.demote(whom.user, by=who)).status)

    async with trio.open_nursery() as nursery:
        for who in owners:
            for whom in owners:
                if who is not whom:
                    nursery.start_soon(demote, who, whom)
    left = scene.owners()
    assert left
    assert statuses.count(200) == len(owners) - len(left)
    assert set(statuses) <= {200, 403, 404}


@pytest.mark.parametrize("change", ["is_platform_owner = false", "deactivated_at = now()"])
@pytest.mark.parametrize("what", ["promote", "demote"])
async def test_an_owner_who_goes_at_this_moment_decides_nothing_more(
    scene: PlatformOwnerScene, database_url: str, what: str, change: str
) -> None:
    other, ada = scene.add(owner=True), scene.add()
    answers: list[Received] = []

    async def decide() -> None:
        answers.append(await (scene.promote(ada.user) if what == "promote" else scene.demote(other.user)))

    with psycopg.connect(database_url) as connection:
        # As the removal or the deactivation of a platform owner does.
        connection.execute("select pg_advisory_xact_lock(%s, 4)", (0x505354,))
        connection.execute(f"update users set {change} where id = %s".encode(), (scene.grace.user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide)
            await scene.people.somebody_waits()
            assert not answers, "it did not wait"
            connection.commit()
    assert (answers[0].status, answers[0].error_code) == (403, "FORBIDDEN")
    assert scene.owners() == {other.user}
    assert scene.audited() == []


async def test_a_user_whom_the_command_line_promotes_at_this_moment_is_promoted_once(scene: PlatformOwnerScene, database_url: str) -> None:
    ada = scene.add()
    answers: list[Received] = []

    async def promote() -> None:
        answers.append(await scene.promote(ada.user))

    with psycopg.connect(database_url) as connection:
        connection.execute("update users set is_platform_owner = true where id = %s", (ada.user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(promote)
            await scene.people.somebody_waits()
            assert not answers, "it did not wait"
            connection.commit()
    assert (answers[0].status, answers[0].json()["user"]["is_platform_owner"]) == (200, True)
    assert scene.audited() == []


async def test_several_who_promote_the_same_user_make_one_entry(scene: PlatformOwnerScene) -> None:
    ada = scene.add()
    statuses: list[int] = []

    async def promote() -> None:
        statuses.append((await scene.promote(ada.user)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(promote)
    assert statuses == [200] * 10
    assert len(scene.audited()) == 1


async def test_of_an_operator_who_deactivates_the_one_and_the_one_who_demotes_the_other_one_owner_is_left(
    scene: PlatformOwnerScene, postern: Postern
) -> None:
    for _ in range(5):
        one, other = scene.add(owner=True), scene.add(owner=True)
        scene.people.change("update users set is_platform_owner = false where id <> all(%s)", [one.user, other.user])

        async def deactivate(email: str = one.email) -> None:
            # One of the two is refused, by chance.
            with suppress(Conflict):
                await postern.platform.account_administration.deactivate(postern.foundation.email_syntax.parse(email), "operator")

        async def demote(one: Person = one, other: Person = other) -> None:
            await scene.demote(other.user, by=one)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(deactivate)
            nursery.start_soon(demote)
        assert len(scene.owners()) == 1
