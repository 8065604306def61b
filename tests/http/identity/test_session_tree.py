"""Sessions as a tree: a session that was opened from another ends whenever the other ends, in every way; and its use counts as use of the
other.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import Unauthorized
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.sessions import GREATEST_DEPTH
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours, all_at_once
from tests.http.client import Received
from tests.http.people import People
from tests.http.signing_in import LOGOUT, PASSWORD, REFRESH, Browser, unlimited

Tokens = Mapping[str, Any]
CROWD: Final = 50


class SessionTreeScene(Neighbours):
    """Ada can sign in, and is a member of both organizations."""

    async def move_in(self) -> None:
        self.ada = await self.people.with_password(PASSWORD, "ada@example.org")
        for tenant in (self.acme, self.globex):
            self.tenants.join(self.ada, tenant, "member")

    async def sign_in(self) -> Tokens:
        return await Browser(self.client).tokens(self.ada)

    async def selected(self, tokens: Tokens, slug: str = "acme") -> Tokens:
        return (await self.select(tokens, slug)).ok()

    async def select(self, tokens: Tokens, slug: str = "acme") -> Received:
        return await self.client.post(f"/api/organizations/{slug}/select", token=tokens["access_token"])

    async def founded(self, tokens: Tokens, slug: str = "palace") -> Tokens:
        return (await self.client.post("/api/organizations", {"slug": slug, "name": "Palace"}, token=tokens["access_token"])).ok()

    async def sign_out(self, tokens: Tokens) -> None:
        assert (await self.client.post(LOGOUT, token=tokens["access_token"])).status == 200

    async def refresh(self, tokens: Tokens) -> Received:
        return await self.client.post(REFRESH, {"refresh_token": tokens["refresh_token"]})

    async def lives(self, tokens: Tokens) -> bool:
        # Members still see an organization that waits for approval in their own list.
        return (await self.client.get("/api/organizations", token=tokens["access_token"])).status == 200

    async def is_over(self, tokens: Tokens) -> None:
        assert (await self.client.get("/api/organizations", token=tokens["access_token"])).status == 401
        assert (await self.refresh(tokens)).status == 401

    def living(self) -> int:
        return len(self.people.rows("select from sessions where revoked_at is null"))


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> SessionTreeScene:
    scene = SessionTreeScene(postern, people, unlimited(postern), log)
    await scene.move_in()
    return scene


async def by_sign_out(scene: SessionTreeScene, root: Tokens) -> None:
    await scene.sign_out(root)


async def by_a_new_password(scene: SessionTreeScene, _root: Tokens) -> None:
    await scene.postern.platform.account_administration.reset_password(Email(scene.ada.email), "test", by_mail=False)


async def by_deactivation(scene: SessionTreeScene, _root: Tokens) -> None:
    await scene.postern.platform.account_administration.deactivate(Email(scene.ada.email), "test")
    # The sessions themselves have ended; they are not only shut by the account.
    scene.people.change("update users set deactivated_at = null")


async def by_the_operator(scene: SessionTreeScene, _root: Tokens) -> None:
    await scene.postern.platform.account_administration.revoke_sessions(Email(scene.ada.email), "test")


async def by_reuse_of_the_refresh_token(scene: SessionTreeScene, root: Tokens) -> None:
    # Without a device, whose end would end the other sessions too.
    scene.people.change("update sessions set device_id = null")
    assert (await scene.refresh(root)).status == 200
    scene.people.change("update refresh_tokens set rotated_at = now() - interval '1 hour' where rotated_at is not null")
    assert (await scene.refresh(root)).status == 401


async def by_revoking_its_device(scene: SessionTreeScene, _root: Tokens) -> None:
    (device,) = scene.people.rows("select device_id as id from sessions where parent_id is null")
    # Sessions that were opened from it may have no device of their own.
    scene.people.change("update sessions set device_id = null where parent_id is not null")
    elsewhere = scene.tenants.session(scene.ada)
    token = await scene.tenants.token(elsewhere)
    assert (await scene.client.request("DELETE", f"/api/user/devices/{device['id']}", token=token)).status == 200


async def by_deletion(scene: SessionTreeScene, _root: Tokens) -> None:
    scene.people.change("delete from sessions where parent_id is null")


@pytest.mark.parametrize(
    "end",
    [
        by_sign_out,
        by_a_new_password,
        by_deactivation,
        by_the_operator,
        by_reuse_of_the_refresh_token,
        by_revoking_its_device,
        by_deletion,
    ],
)
async def test_what_was_opened_from_a_session_ends_with_it_on_the_next_request(
    scene: SessionTreeScene, end: Callable[[SessionTreeScene, Tokens], Awaitable[None]]
) -> None:
    root = await scene.sign_in()
    founded, selected = await scene.founded(root), await scene.selected(root)
    further = await scene.selected(selected, "globex")
    opened = [founded, selected, further]
    assert [await scene.lives(one) for one in (root, *opened)] == [True] * 4
    await end(scene, root)
    for one in opened:
        await scene.is_over(one)


async def test_it_ends_when_that_one_expires_whatever_its_own_use(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    scene.people.change("update sessions set expires_at = now() + interval '1 hour', ends_at = now() + interval '2 hours'")
    selected = await scene.selected(root)
    further = await scene.selected(selected, "globex")
    rows = scene.people.rows("select expires_at - now() as idle, ends_at - now() as longest from sessions order by depth")
    assert len(rows) == 3
    assert all(row["idle"].total_seconds() <= 3600 and row["longest"].total_seconds() <= 7200 for row in rows)
    # All sessions of the line are extended together, at most to the end of the first.
    assert (await scene.refresh(further)).status == 200
    expiries = scene.people.rows("select distinct expires_at, ends_at from sessions")
    assert len(expiries) == 1
    assert expiries[0]["expires_at"] == expiries[0]["ends_at"]


async def test_it_ends_alone_when_it_is_the_one_that_is_ended(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected, beside = await scene.selected(root), await scene.selected(root, "globex")
    further = await scene.selected(selected, "globex")
    await scene.sign_out(selected)
    await scene.is_over(selected)
    await scene.is_over(further)
    assert await scene.lives(root)
    assert await scene.lives(beside)


async def test_a_removed_member_is_refused_in_that_organization_and_nowhere_else(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected = await scene.selected(root)
    further = await scene.selected(selected, "globex")
    owner = scene.tenants.member(scene.acme, "owner")
    answer = await scene.client.post(f"/api/organizations/acme/members/{scene.ada.user}", token=await scene.tenants.token(owner))
    assert answer.status == 200
    assert (await scene.refresh(selected)).status == 403
    assert (await scene.client.get("/api/user", token=selected["access_token"])).status == 403
    # The session has not ended. The session opened from it is in an organization that the person still belongs to.
    assert await scene.lives(further)
    assert await scene.lives(root)


async def test_a_member_whom_a_directory_removes_loses_what_was_opened_from_there(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected = await scene.selected(root)
    further = await scene.selected(selected, "globex")
    async with scene.postern.foundation.unit_of_work() as uow:
        at = scene.postern.foundation.clock.now()
        await uow.provisioned_users.leave(OrganizationId(scene.acme.id), [UserId(scene.ada.user)], at, deactivated=True)
        await uow.commit()
    assert not await scene.lives(selected)
    assert not await scene.lives(further)
    assert await scene.lives(root)


async def test_using_it_is_using_those_that_it_was_opened_from(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected = await scene.selected(root)
    further = await scene.selected(selected, "globex")
    scene.people.change("update sessions set last_seen_at = now() - interval '20 days', expires_at = now() + interval '10 days'")
    fresh = await scene.refresh(further)
    assert fresh.status == 200
    rows = scene.people.rows("select now() - last_seen_at as unseen, expires_at - now() as left from sessions")
    assert [(row["unseen"].days, row["left"].days) for row in rows] == [(0, 29)] * 3
    # The other way round it is not: use of the first session does not extend a session that was opened from it.
    scene.people.change("update sessions set expires_at = now() + interval '10 days'")
    assert (await scene.refresh(root)).status == 200
    left = scene.people.rows("select (expires_at - now()) as left from sessions order by depth")
    assert [row["left"].days for row in left] == [29, 9, 9]


async def test_a_change_of_the_password_spares_the_callers_own_line(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected, sibling = await scene.selected(root), await scene.selected(root, "globex")
    further, elsewhere = await scene.selected(selected, "globex"), await scene.sign_in()
    changed = await scene.client.post(
        "/api/user/change-password",
        {"current_password": PASSWORD, "new_password": "the sun over the mountains"},
        token=selected["access_token"],
    )
    assert changed.status == 200
    for one in (root, selected, further):
        assert await scene.lives(one)
    for one in (sibling, elsewhere):
        await scene.is_over(one)


async def test_signing_the_others_out_spares_it_too_and_counts_the_rest(scene: SessionTreeScene) -> None:
    root = await scene.sign_in()
    selected, _, _ = await scene.selected(root), await scene.selected(root, "globex"), await scene.sign_in()
    caller = await scene.postern.tenancy.callers.resolve(selected["access_token"])
    from_ada = scene.postern.identity.sessions.sign_out_others
    assert await from_ada(caller.user, caller.session, Actor(caller.user)) == 2
    assert await scene.lives(root)
    assert await scene.lives(selected)


async def test_nobody_elses_sessions_end(scene: SessionTreeScene) -> None:
    bob = scene.tenants.member(scene.acme)
    of_bob = await scene.client.post("/api/organizations/acme/select", token=await scene.tenants.token(bob))
    root = await scene.sign_in()
    await scene.selected(root)
    # A person's token names only their own session, so it cannot end another person's.
    forged = await scene.people.token(replace(bob, session=UUID(bytes=b"\0" * 16)))
    assert (await scene.client.post(LOGOUT, token=forged)).status == 200
    assert await scene.lives(root)
    await scene.sign_out(root)
    assert await scene.lives(of_bob.json())


async def test_signing_out_ends_the_impersonations_that_were_begun_from_it(scene: SessionTreeScene) -> None:
    owner = await scene.people.with_password(PASSWORD, "owner@example.org")
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    first, second = await Browser(scene.client).tokens(owner), await Browser(scene.client).tokens(owner)

    async def impersonate(tokens: Tokens) -> Tokens:
        answer = await scene.client.post(
            f"/api/platform/impersonate/{scene.ada.user}", {"reason": "Ticket 1"}, token=tokens["access_token"]
        )
        assert answer.status == 200
        begun: Tokens = answer.json()
        return begun

    from_first, from_second = await impersonate(first), await impersonate(second)
    await scene.sign_out(first)
    await scene.is_over(from_first)
    assert await scene.lives(from_second)
    # The platform owner's proof does not count for the impersonated person.
    (row,) = scene.people.rows("select proved_at, second_factor_at from sessions where impersonator_id is not null and revoked_at is null")
    assert row == {"proved_at": None, "second_factor_at": None}


async def test_what_hangs_on_a_session_has_an_end(scene: SessionTreeScene) -> None:
    """Each use of the last session is written to all sessions above it, so their number must be limited."""
    tokens = await scene.sign_in()
    for number in range(GREATEST_DEPTH):
        tokens = await scene.selected(tokens, ("acme", "globex")[number % 2])
    for refused in (
        await scene.select(tokens),
        await scene.client.post("/api/organizations", {"slug": "palace", "name": "Palace"}, token=tokens["access_token"]),
    ):
        assert (refused.status, refused.error_code) == (400, "BAD_REQUEST")
    assert scene.people.rows("select from organizations where slug = 'palace'") == []
    assert (await scene.refresh(tokens)).status == 200


@pytest.mark.parametrize("how", ["select", "found", "impersonate"])
async def test_a_sign_out_ends_what_is_opened_at_the_same_time(scene: SessionTreeScene, how: str) -> None:
    scene.people.change("update users set is_platform_owner = true where id = %s", scene.ada.user)
    bob = scene.people.add()
    scene.people.change("delete from sessions where user_id = %s", bob.user)
    for turn in range(3):
        # One person may have a hundred organizations that wait for approval, and each turn founds some.
        scene.people.change("update all_organizations set status = 'active'")
        root = await scene.sign_in()
        caller = await scene.postern.tenancy.callers.resolve(root["access_token"])

        async def open_another(number: int, turn: int = turn, caller: Any = caller) -> None:
            # Without the caller rule: the request came in before the sign-out.
            actor = Actor(caller.user)
            try:
                if how == "select":
                    await scene.postern.tenancy.members.select(caller, "acme", actor)
                elif how == "found":
                    await scene.postern.tenancy.organizations.found(caller, f"palace-{turn}-{number}", "Palace", actor)
                else:
                    await scene.postern.identity.impersonations.begin(caller, UserId(bob.user), "Ticket 1", actor)
            except Unauthorized:
                pass

        half = [partial(open_another, number) for number in range(CROWD)]
        await all_at_once(*half[:5], partial(scene.sign_out, root), *half[5:])
        assert scene.living() == 0, (how, turn)


async def test_a_refresh_beside_the_sign_out_of_the_one_above_leaves_nothing_alive(scene: SessionTreeScene) -> None:
    for _ in range(5):
        root = await scene.sign_in()
        opened = [await scene.selected(root) for _ in range(10)]
        answers: list[Received] = []

        async def refresh(tokens: Tokens, answers: list[Received] = answers) -> None:
            answers.append(await scene.refresh(tokens))

        calls = [partial(refresh, one) for one in opened]
        await all_at_once(*calls[:5], partial(scene.sign_out, root), *calls[5:])
        assert {answer.status for answer in answers} <= {200, 401}
        for one in (*opened, *(answer.json() for answer in answers if answer.status == 200)):
            await scene.is_over(one)
        assert scene.living() == 0


async def test_two_that_end_one_tree_and_many_that_use_it_never_wait_for_each_other_in_a_circle(scene: SessionTreeScene) -> None:
    for _ in range(3):
        root = await scene.sign_in()
        opened = [await scene.selected(root) for _ in range(6)]
        caller = await scene.postern.tenancy.callers.resolve(root["access_token"])
        ends = [partial(scene.sign_out, root), partial(scene.sign_out, opened[0]), partial(by_the_operator, scene, root)]
        sign_out_others = partial(scene.postern.identity.sessions.sign_out_others, caller.user, caller.session, Actor(caller.user))
        await all_at_once(*(partial(scene.refresh, one) for one in opened), *ends, sign_out_others)
        assert scene.living() == 0
