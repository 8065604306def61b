"""Invitations that management keys send: they are the key's, in every list, and end with it."""

from functools import partial
from typing import Any, Final

import psycopg
import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.inviting import ACCEPT
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenancy.keys.test_management_keys import ACME, KEYS, KeyScene

INVITATIONS: Final = f"{ACME}/invitations"
AS_ADMIN: Final = tuple(one.value for one in Capability if one is not Capability.CONNECTIONS_MANAGE)
BAD_REQUEST: Final = (400, "BAD_REQUEST")
LEAKED: Final = "thief@people.example"


class Sending(KeyScene):
    async def send(self, key: str, email: str = LEAKED, role: str = "admin") -> dict[str, Any]:
        issued = (await self.with_key(key, "POST", INVITATIONS, {"email": email, "role": role})).ok()
        self.log.remember(issued["token"])
        return issued

    async def accept(self, issued: dict[str, Any]) -> Received:
        return await self.client.post(ACCEPT, {"token": issued["token"]})

    async def end(self, key: str, *, end_made: bool = False) -> dict[str, Any]:
        return (await self.request("DELETE", f"{KEYS}/{key}{'?end_made=true' if end_made else ''}")).ok()

    async def listed(self) -> list[dict[str, Any]]:
        answer = await self.request("GET", INVITATIONS)
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json()
        return found

    def joined(self, email: str = LEAKED) -> bool:
        statement = "select from memberships join users on users.id = memberships.user_id where users.email = %s"
        return bool(self.people.rows(statement, email))


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Sending:
    return Sending(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("end_made", [False, True])
async def test_nobody_comes_in_by_an_invitation_of_a_key_that_has_ended(scene: Sending, end_made: bool) -> None:
    key, text = await scene.key(*AS_ADMIN)
    waiting, answered = await scene.send(text), await scene.send(text, "hired@people.example", "member")
    assert (await scene.accept(answered)).status == 200
    ids = [waiting["invitation"]["id"], answered["invitation"]["id"]]
    made = (await scene.request("GET", f"{KEYS}/{key}")).ok()["made"]["invitations"]
    assert [(one["id"], one["email"], one["role"], one["accepted"]) for one in made] == [
        (ids[1], "hired@people.example", "member", True),
        (ids[0], LEAKED, "admin", False),
    ]
    assert (await scene.end(key, end_made=end_made))["made"]["invitations"] == made
    assert (refused(await scene.accept(waiting)), scene.joined()) == (BAD_REQUEST, False)
    (event,) = [one for one in scene.told() if one["name"] == "management_key.ended"]
    assert event["details"]["made"]["invitations"] == [ids[1], ids[0]]
    # The invitation itself is cancelled, on record, if what the key made ends.
    cancelled = [one["target_id"] for one in scene.audited("invitation.revoked")]
    assert cancelled == ([ids[0]] if end_made else [])
    assert {row["status"] for row in scene.people.rows("select status from invitations where id = %s", ids[0])} == {
        "cancelled" if end_made else "pending"
    }
    assert scene.joined("hired@people.example")


async def test_what_a_key_may_no_longer_give_nobody_accepts(scene: Sending) -> None:
    _, text = await scene.key(*AS_ADMIN, by=scene.admin)
    issued = await scene.send(text)
    scene.people.change("update management_keys set capabilities = array_remove(capabilities, 'org.roles.manage')")
    assert (refused(await scene.accept(issued)), scene.joined()) == (BAD_REQUEST, False)
    scene.people.change("update management_keys set capabilities = array_append(capabilities, 'org.roles.manage')")
    scene.people.change("update management_keys set expires_at = now()")
    assert (refused(await scene.accept(issued)), scene.joined()) == (BAD_REQUEST, False)
    scene.people.change("update management_keys set expires_at = now() + interval '1 day'")
    scene.people.change("update organizations set mfa_required_since = now() - interval '40 days', mfa_grace_days = 1")
    scene.people.change("update memberships set created_at = now() - interval '40 days'")
    assert (refused(await scene.accept(issued)), scene.joined()) == (BAD_REQUEST, False)
    scene.people.change("update organizations set mfa_required_since = null")
    assert (await scene.accept(issued)).status == 200
    assert scene.joined()


async def test_a_maker_who_was_removed_does_not_come_back_by_an_adopted_key(scene: Sending) -> None:
    key, text = await scene.key(*AS_ADMIN, by=scene.admin)
    earlier = await scene.send(text, "earlier@people.example")
    (await scene.request("POST", f"{ACME}/members/{scene.admin.user}")).ok()
    assert (refused(await scene.accept(earlier)), scene.joined("earlier@people.example")) == (BAD_REQUEST, False)
    (await scene.request("POST", f"{KEYS}/{key}/adopt")).ok()
    assert (refused(await scene.accept(earlier)), scene.joined("earlier@people.example")) == (BAD_REQUEST, False)


@pytest.mark.parametrize(
    "loss",
    [
        "update users set deactivated_at = now() where id = %s",
        "delete from relations where user_id = %s",
        "delete from users where id = %s",
    ],
)
@pytest.mark.parametrize("adopted", [False, True])
async def test_a_key_whom_nobody_answers_for_invites_nobody(scene: Sending, loss: str, adopted: bool) -> None:
    _, text = await scene.key(*AS_ADMIN, by=scene.admin)
    if adopted:
        # By somebody who was the owner then.
        scene.people.change("update management_keys set adopted_by = created_by, adopted_at = now()")
    scene.people.change(loss, scene.admin.user)
    answer = await scene.with_key(text, "POST", INVITATIONS, {"email": LEAKED, "role": "member"})
    assert refused(answer) == (403, "FORBIDDEN")
    assert scene.people.rows("select from invitations") == []


async def test_the_list_names_the_key(scene: Sending) -> None:
    key, text = await scene.key(*AS_ADMIN)
    await scene.send(text)
    (await scene.request("POST", INVITATIONS, {"email": "b@people.example", "role": "member"})).ok()
    by_hand, sent = await scene.listed()
    assert by_hand["management_key"] is None
    assert sent["management_key"] == {"id": key, "name": "Robot", "prefix": text.rpartition("_")[0]}
    assert sent["inviter"]["email"] == scene.owner.email
    await scene.end(key)
    assert (await scene.listed())[1]["management_key"] == {"id": key, "name": None, "prefix": None}


async def test_addresses_are_told_to_those_alone_who_manage_members(scene: Sending) -> None:
    key, text = await scene.key(*AS_ADMIN)
    await scene.send(text)
    keeper: Person = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.INTEGRATIONS_MANAGE]))
    for answer in (await scene.request("GET", f"{KEYS}/{key}", by=keeper), await scene.request("DELETE", f"{KEYS}/{key}", by=keeper)):
        (one,) = answer.ok()["made"]["invitations"]
        assert (one["email"], one["role"]) == (None, "admin")


async def test_what_another_key_sent_stays(scene: Sending) -> None:
    ended, text = await scene.key(*AS_ADMIN)
    _, other = await scene.key(*AS_ADMIN)
    await scene.send(text)
    issued = await scene.send(other, "hired@people.example", "member")
    assert len((await scene.end(ended, end_made=True))["made"]["invitations"]) == 1
    assert (await scene.accept(issued)).status == 200
    assert scene.joined("hired@people.example")


async def test_an_acceptance_that_waits_for_the_end_of_the_key_comes_too_late(scene: Sending, emptied_database_url: str) -> None:
    key, text = await scene.key(*AS_ADMIN)
    issued = await scene.send(text)
    answers: list[Received] = []

    async def accept() -> None:
        answers.append(await scene.accept(issued))

    with psycopg.connect(emptied_database_url) as other:
        other.execute("select from organizations where id = %s for no key update", (scene.acme.id,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            await scene.people.somebody_waits()
            other.execute("delete from management_keys where id = %s", (key,))
            other.commit()
    assert (refused(answers[0]), scene.joined()) == (BAD_REQUEST, False)


async def test_of_an_end_and_acceptances_at_once_none_comes_after_the_end(scene: Sending) -> None:
    key, text = await scene.key(*AS_ADMIN)
    issued = [await scene.send(text, f"p{number}@people.example", "member") for number in range(20)]
    await all_at_once(partial(scene.end, key, end_made=True), *(partial(scene.accept, one) for one in issued))
    (ended,) = [one for one in scene.told() if one["name"] == "management_key.ended"]
    accepted = {row["id"] for row in scene.people.rows("select id::text from invitations where status = 'accepted'")}
    left = scene.people.rows("select from invitations where status = 'pending'")
    assert (accepted <= set(ended["details"]["made"]["invitations"]), left) == (True, [])
